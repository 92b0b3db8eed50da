//go:build !race

package e2e

// raceFlag builds the program as the test itself was built.
var raceFlag []string

// share is what part of many like cases is run: all.
const share = 1
