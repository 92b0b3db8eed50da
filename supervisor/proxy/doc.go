// Package proxy answers HTTP clients and reaches the supervisor through
// shared.Frontend. It owns no model state: it parses a request, resolves the
// model name to one identity, streams what comes back and closes the request's
// account of phases at the moment its first chunk was flushed.
package proxy
