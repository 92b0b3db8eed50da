package gguf

import "github.com/firstframe/firstframe/shared"

// About is what people want to know of a model.
func (f *File) About() shared.ModelFile {
	about := shared.ModelFile{
		Architecture: f.Architecture(), Bytes: f.Size(), TrainedTokens: f.TrainedTokens(), EmbeddingLength: f.archInt("embedding_length"),
		Template: f.ChatTemplate() != "", Tools: shared.TemplateTools(f.ChatTemplate()) != "",
		Thinking: shared.TemplateThinking(f.ChatTemplate()) != nil,
	}
	for _, t := range f.tensors {
		weights := int64(1)
		for _, d := range t.Dims {
			weights *= int64(d)
		}
		about.Parameters += weights
	}
	return about
}
