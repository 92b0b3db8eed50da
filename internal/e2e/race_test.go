//go:build race

package e2e

// raceFlag builds the program as the test itself was built.
var raceFlag = []string{"-race"}

// share is what part of many like cases is run: the race detector looks at what
// all of them do, and makes each several times as long.
const share = 5
