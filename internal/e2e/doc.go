// Package e2e tests the built program as people and machines use it: real
// processes, the real engine, real signals.
package e2e
