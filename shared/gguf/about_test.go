package gguf

import (
	"path/filepath"
	"testing"

	"github.com/firstframe/firstframe/shared"
)

func TestAbout(t *testing.T) {
	f, err := ReadFile(filepath.Join("..", "..", "testdata", "models", "storyteller-q8_0.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	about := f.About()
	if about.Parameters < 1000 || about.Bytes < about.Parameters {
		t.Errorf("%d weights in %d bytes of Q8_0", about.Parameters, about.Bytes)
	}
	about.Parameters = 0
	want := shared.ModelFile{Architecture: f.Architecture(), Bytes: f.Size(), TrainedTokens: f.TrainedTokens(), EmbeddingLength: f.Geometry().Embedding, Template: true}
	if about != want || want.EmbeddingLength == 0 || want.TrainedTokens == 0 {
		t.Errorf("%+v, want %+v", about, want)
	}
}
