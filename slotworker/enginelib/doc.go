// Package enginelib finds, installs and checks the native engine library.
//
// It never loads what it finds: a supervisor must survive a broken library, so
// only file names and bytes are looked at here, and the worker process asks the
// loaded library for its version again.
package enginelib
