// Package bench measures: it has the document that measurements are kept in, the
// statistics over them, the load generators, the client that asks any
// OpenAI-compatible server, and the comparison of two servers pair by pair. It
// starts nothing by itself and knows no supervisor; whoever can be asked is a
// Target.
package bench
