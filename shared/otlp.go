package shared

import "net/url"

// ValidOTLPEndpoint refuses what is no address of a collector; empty means that
// there is none. The error does not repeat the address, which may hold a key.
func ValidOTLPEndpoint(endpoint string) error {
	if endpoint == "" {
		return nil
	}
	u, err := url.Parse(endpoint)
	if err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && u.RawQuery == "" && u.Fragment == "" {
		return nil
	}
	e := Errorf(KindConfig, "otlp_endpoint is the URL of a collector that takes OTLP over HTTP, such as http://127.0.0.1:4318, "+
		"without user, query and fragment")
	e.Field = "otlp_endpoint"
	return e
}
