// Package llamacpp runs models on llama.cpp: it implements the worker's engine
// interface on the library that enginelib installs, reached without cgo.
//
// The library is one per process, keeps global state, and ends the process when
// an assertion of its own fails. What can be checked is therefore checked before
// a call crosses into it: token ids, sequence ids, sizes, and which rows have
// logits. Memory that C keeps is C memory (batch, logits); Go memory is lent for
// the length of one call only.
package llamacpp
