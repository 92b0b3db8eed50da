// Package jsongrammar turns a JSON schema into a grammar whose texts are JSON
// that the schema accepts. It never accepts more than the schema does; it may
// accept less where that is simpler: objects have their declared properties, in
// the order of the schema, and numbers have at most 15 digits before the point.
// What it cannot honour is an error that names the keyword.
package jsongrammar
