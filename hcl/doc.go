// Package hcl reads the configuration: which models exist, which slots hold
// them and under which names they are served. Everything that is wrong is a
// diagnostic with file, line and column; a key that this version does not know
// is never ignored.
package hcl
