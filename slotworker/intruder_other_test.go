//go:build !linux

package slotworker

const intruderVariable = "SLOTWORKER_TEST_INTRUDER"

// intruder needs confinement, which there is none of here.
func intruder(string) int { return exitUsage }
