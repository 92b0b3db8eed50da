package main

import "testing"

func TestCountCores(t *testing.T) {
	twoSockets := "physical id\t: 0\ncore id\t\t: 0\n\nphysical id\t: 0\ncore id\t\t: 1\n\nphysical id\t: 1\ncore id\t\t: 0\n\nphysical id\t: 1\ncore id\t\t: 0\n"
	for _, tt := range []struct {
		cpuinfo string
		threads int
		want    int
	}{
		{twoSockets, 4, 3},
		{twoSockets, 2, 2}, // a container with fewer
		{"processor\t: 0\nBogoMIPS\t: 50.00\n", 8, 8},
		{"", 1, 1},
	} {
		if got := countCores(tt.cpuinfo, tt.threads); got != tt.want {
			t.Errorf("%d cores instead of %d in %q", got, tt.want, tt.cpuinfo)
		}
	}
}
