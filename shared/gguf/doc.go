// Package gguf reads the header of a GGUF model file, metadata and tensor
// table, and derives from it the identity that requests are routed by. The
// supervisor uses it when a slot is declared and the worker when it has read
// the bytes, so that both compute the same.
//
// A model file is untrusted input. Every count, length and offset is compared
// with the bytes that are really there before anything is allocated or read for
// it, memory stays in proportion to the header's real size, and any doubt is an
// error of kind model_file that names the region, the key or tensor, and the
// offset. The rules are at least as strict as the engine's own, so that a file
// the engine would trip over is refused before the engine sees it.
//
// The package starts no goroutine that outlives a call and keeps no file open.
package gguf
