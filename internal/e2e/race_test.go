//go:build race

package e2e

// raceFlag builds the program as the test itself was built.
var raceFlag = []string{"-race"}

// raceDetector keeps the race detector from delaying each process's end by a
// second, in which other goroutines might still show a race.
const raceDetector = "atexit_sleep_ms=0"

// share is what part of many like cases is run: the race detector looks at what
// all of them do, and makes each several times as long.
const share = 5
