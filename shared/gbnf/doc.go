// Package gbnf reads llama.cpp's grammar notation and says which tokens may
// come next in a text that has to follow a grammar.
//
// The inference library has a sampler for the same notation. It is not used: it
// ends the process on grammars that a request can carry (an exception thrown
// through the foreign-function call, {5,2} as a count, left recursion behind
// rules that may be empty) and has no bound on the work that one token may cost.
// Here every grammar is checked before it is used, and work and memory of each
// token are bounded.
//
// A grammar is compiled to a program over bytes, so that tokens which are parts
// of characters need no care. A matcher runs all ways through the program side
// by side and remembers what a byte led to, as a DFA that is built when needed.
package gbnf
