// Package models holds the demo's model files inside the program.
package models

import (
	"embed"
	"io/fs"
)

//go:embed storyteller-q8_0.gguf storyteller-f16.gguf
var files embed.FS

// Names of the embedded files.
const (
	Q8  = "storyteller-q8_0.gguf"
	F16 = "storyteller-f16.gguf"
)

// Files are the embedded model files.
func Files() fs.FS { return files }
