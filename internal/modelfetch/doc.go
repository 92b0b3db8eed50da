// Package modelfetch fetches model files over HTTPS. What has come in stays under a
// name of its own until it is whole and proved, so that a file under its final name
// is always both, and a fetch that was cut off goes on where it ended.
package modelfetch
