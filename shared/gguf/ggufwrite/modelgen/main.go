// Command modelgen writes a GGUF model with random weights, for benchmarks that
// need a model of a certain size but not its answers:
//
//	go run ./shared/gguf/ggufwrite/modelgen -bytes 300MB -o model.gguf
//
// With -adapter-for it writes a LoRA adapter with random factors instead:
//
//	go run ./shared/gguf/ggufwrite/modelgen -adapter-for model.gguf -rank 8 -o adapter.gguf
//
// and with -parts 3 a split model, model-00001-of-00003.gguf and so on.
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/firstframe/firstframe/shared/gguf"
	"github.com/firstframe/firstframe/shared/gguf/ggufwrite"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "modelgen:", err)
		os.Exit(1)
	}
}

func run() error {
	var (
		m         ggufwrite.Model
		size      = flag.String("bytes", "", "wanted size of the weights, such as 300MB or 1GiB")
		out       = flag.String("o", "", "file to write")
		tokenizer = flag.String("tokenizer", "testdata/models/storyteller-f16.gguf", "model whose tokenizer is copied")
		base      = flag.String("adapter-for", "", "write an adapter for this model")
		parts     = flag.Int("parts", 1, "files that the model is split into")
		rank      = flag.Int("rank", 0, "rank of the adapter (0: 4)")
		alpha     = flag.Float64("alpha", 0, "strength of the adapter (0: its rank)")
		kind      = flag.String("kind", string(ggufwrite.Llama), "llama, window or recurrent")
	)
	flag.IntVar(&m.Layers, "layers", 0, "number of layers (0: to fit)")
	flag.IntVar(&m.Embedding, "embedding", 0, "width (0: to fit)")
	flag.IntVar(&m.Heads, "heads", 0, "attention heads (0: of 64 numbers each)")
	flag.IntVar(&m.HeadsKV, "heads-kv", 0, "key and value heads (0: a quarter)")
	flag.IntVar(&m.FeedForward, "feed-forward", 0, "width of the feed forward (0: to fit)")
	flag.IntVar(&m.Context, "context", 0, "trained context length (0: 8192)")
	flag.IntVar(&m.WindowSize, "window", 0, "tokens that a windowed layer sees (0: 64)")
	flag.Uint64Var(&m.Seed, "seed", 1, "seed of the weights")
	flag.Parse()
	if *out == "" || flag.NArg() != 0 {
		flag.Usage()
		return fmt.Errorf("-o is needed, and nothing but flags")
	}
	if *base != "" {
		header, err := gguf.ReadFile(*base)
		if err != nil {
			return err
		}
		adapter, err := ggufwrite.Adapter{Base: header, Rank: *rank, Alpha: float32(*alpha), Seed: m.Seed}.Build()
		if err != nil {
			return err
		}
		return write(adapter, *out)
	}
	m.Kind = ggufwrite.Kind(*kind)
	if *size != "" {
		n, err := parseSize(*size)
		if err != nil {
			return err
		}
		m.TargetBytes = n
	}
	header, err := gguf.ReadFile(*tokenizer)
	if err != nil {
		return err
	}
	m.Tokenizer = ggufwrite.CopyKeys(header, "tokenizer.")
	model, err := m.Build()
	if err != nil {
		return err
	}
	if *parts <= 1 {
		return write(model, *out)
	}
	prefix := strings.TrimSuffix(*out, ".gguf")
	for i, part := range model.Split(*parts, false) {
		if err := write(part, ggufwrite.PartName(prefix, i, *parts)); err != nil {
			return err
		}
	}
	return nil
}

// write makes the file under its final name only once it is whole.
func write(model *ggufwrite.File, path string) (err error) {
	part := path + ".part"
	file, err := os.Create(part)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(part) // the first error counts
		}
	}()
	if err := model.Write(file); err != nil {
		_ = file.Close() // the first error counts
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(part, path)
}

// parseSize reads a number of bytes with a unit.
func parseSize(s string) (int64, error) {
	units := []struct {
		name  string
		bytes int64
	}{
		{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"", 1},
	}
	for _, u := range units {
		if number, ok := strings.CutSuffix(s, u.name); ok {
			n, err := strconv.ParseInt(number, 10, 64)
			if err != nil || n <= 0 || n > 1<<50/u.bytes {
				return 0, fmt.Errorf("size %q is not a number and a unit such as MB or GiB", s)
			}
			return n * u.bytes, nil
		}
	}
	return 0, nil // the last unit always matches
}
