//go:build !race

package e2e

// raceFlag builds the program as the test itself was built.
var raceFlag []string

// raceDetector is what the race detector is told, which is not there.
const raceDetector = ""

// share is what part of many like cases is run: all.
const share = 1
