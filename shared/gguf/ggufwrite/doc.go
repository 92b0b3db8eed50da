// Package ggufwrite writes GGUF files for tests and benchmarks: well-formed
// ones, models of any size with random weights, and files that are wrong in
// chosen ways. No product binary links it.
package ggufwrite
