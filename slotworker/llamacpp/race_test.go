//go:build race

package llamacpp

// precisions are those that long comparisons of numbers go through. The race
// detector sees the same in each, and the numbers are compared without it.
var precisions = []string{"q8_0"}
