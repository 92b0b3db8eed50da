//go:build !race

package supervisor

func raceEnvironment() []string { return nil }
