//go:build race

package e2e

// raceFlag builds the program as the test itself was built.
var raceFlag = []string{"-race"}
