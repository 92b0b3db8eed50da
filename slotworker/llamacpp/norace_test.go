//go:build !race

package llamacpp

// precisions are those that long comparisons of numbers go through.
var precisions = []string{"q8_0", "f16", "q4_0"}
