//go:build race

package supervisor

import "os"

// raceEnvironment is what the race detector was told, for processes that get no
// other part of the environment.
func raceEnvironment() []string {
	if v := os.Getenv("GORACE"); v != "" {
		return []string{"GORACE=" + v}
	}
	return nil
}
