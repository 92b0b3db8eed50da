// Package browser tests the live page in a headless Chromium against a real
// `serve`. Its tests need the program chromium and are built with the tag
// browser only: go test -tags browser ./internal/browser
package browser
