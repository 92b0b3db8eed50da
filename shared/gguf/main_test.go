package gguf_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/firstframe/firstframe/internal/leak"
	"github.com/firstframe/firstframe/shared/gguf"
	"github.com/firstframe/firstframe/shared/gguf/ggufwrite"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// models is the folder of the real test models.
const models = "../../testdata/models"

func storyteller(t testing.TB, precision string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(models, "storyteller-"+precision+".gguf"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func read(b []byte) (*gguf.File, error) {
	return gguf.Read(bytes.NewReader(b), int64(len(b)))
}

// mustRead encodes a file and reads its header.
func mustRead(t testing.TB, f *ggufwrite.File) *gguf.File {
	t.Helper()
	b, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	header, err := read(b)
	if err != nil {
		t.Fatal(err)
	}
	return header
}

// small is a file of a few hundred bytes that the reader accepts: one tensor,
// a vocabulary of eight tokens.
func small() *ggufwrite.File {
	var tokens []string
	for i := range 8 {
		tokens = append(tokens, fmt.Sprint("t", i))
	}
	return &ggufwrite.File{
		Keys: []ggufwrite.Key{
			ggufwrite.Str("general.architecture", "llama"),
			ggufwrite.Str("general.name", "small"),
			ggufwrite.U32("general.file_type", 0),
			ggufwrite.U32("llama.block_count", 3),
			ggufwrite.U32("llama.context_length", 128),
			ggufwrite.U32("llama.embedding_length", 64),
			ggufwrite.U32("llama.attention.head_count", 4),
			ggufwrite.F32("llama.rope.freq_base", 10000),
			ggufwrite.Str("tokenizer.ggml.model", "gpt2"),
			ggufwrite.Strs("tokenizer.ggml.tokens", tokens...),
			ggufwrite.I32s("tokenizer.ggml.token_type", 1, 1, 1, 1, 1, 1, 1, 3),
			ggufwrite.F32s("tokenizer.ggml.scores", 0, 1, 2, 3, 4, 5, 6, 7),
			ggufwrite.Bool("tokenizer.ggml.add_bos_token", true),
			ggufwrite.U32("tokenizer.ggml.bos_token_id", 7),
			ggufwrite.Str("tokenizer.chat_template", "{{ messages }}"),
			ggufwrite.Str("x.unrelated", "1"),
		},
		Tensors: []ggufwrite.Tensor{
			{Name: "one", Dims: []uint64{8}, Type: gguf.F32, Bytes: 32, Data: ggufwrite.Bytes(make([]byte, 32))},
		},
	}
}
