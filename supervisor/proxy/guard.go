package proxy

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/firstframe/firstframe/shared"
)

// guard is what every request passes: size, origin and headers.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, s.cfg.MaxBody)
		// A deadline of the connection's last stream would hit this answer.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // a writer without deadlines has none to lift
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		if s.cfg.localOnly() && !shared.LoopbackHost(hostName(r.Host)) {
			refuse(w, r, &httpError{status: http.StatusForbidden, code: "host_not_allowed",
				message: "this server answers to loopback names only; set api_keys to use others"})
			return
		}
		origin := r.Header.Get("Origin")
		allowed := origin != "" && slices.Contains(s.cfg.CORS, origin)
		if allowed {
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Vary", "Origin")
		}
		if r.Method == http.MethodOptions && origin != "" {
			if allowed {
				h.Set("Access-Control-Allow-Methods", "GET, POST")
				h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Prefer, X-Api-Key, Anthropic-Version, Anthropic-Beta")
			}
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if origin != "" && !allowed && !sameOrigin(r, origin) && r.Method != http.MethodGet {
			refuse(w, r, &httpError{status: http.StatusForbidden, code: "origin_not_allowed",
				message: "requests from this origin are not allowed; list it in cors"})
			return
		}
		switch {
		case r.ContentLength > s.cfg.MaxBody:
			refuse(w, r, bodyTooLarge())
			return
		case path.Clean(r.URL.Path) != r.URL.Path || r.URL.Path == "*":
			// The multiplexer would answer with a redirect to some other path.
			unknownURL(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostName is a Host header without its port.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

// sameOrigin reports whether the page that sends the request came from here.
func sameOrigin(r *http.Request, origin string) bool {
	_, host, ok := strings.Cut(origin, "://")
	return ok && host == r.Host
}

// withKey admits requests that carry one of the keys, or all when there are none.
func (s *Server) withKey(keys []string, next http.Handler) http.Handler {
	if len(keys) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !hasKey(r, keys) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, r, &httpError{status: http.StatusUnauthorized, code: "invalid_api_key",
				message: "a valid API key is needed: send it as a bearer token"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// withAdmin admits admin actions: with an admin key, or freely on a loopback
// address that asks for no keys at all.
func (s *Server) withAdmin(next http.Handler) http.Handler {
	switch {
	case s.cfg.adminOpen():
		return next
	case len(s.cfg.AdminKeys) > 0:
		return s.withKey(s.cfg.AdminKeys, next)
	default:
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			refuse(w, r, &httpError{status: http.StatusForbidden, code: "admin_disabled",
				message: "admin actions need admin_keys in the configuration"})
		})
	}
}

// hasKey compares digests, so that neither content nor length of a key shows in
// how long the comparison takes.
func hasKey(r *http.Request, keys []string) bool {
	given := []string{r.Header.Get("X-Api-Key")}
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		given = append(given, bearer)
	}
	found := 0
	for _, given := range given {
		sum := sha256.Sum256([]byte(given))
		for _, key := range keys {
			want := sha256.Sum256([]byte(key))
			found |= subtle.ConstantTimeCompare(sum[:], want[:])
		}
	}
	return found == 1
}

// takePlace holds one of the places for requests that generate. It is taken when
// the request has been read, so that slow senders hold none.
func (s *Server) takePlace() (release func(), err error) {
	select {
	case s.streams <- struct{}{}:
		return func() { <-s.streams }, nil
	default:
		return nil, &httpError{status: http.StatusTooManyRequests, code: "rate_limit_exceeded",
			message: "too many requests are being answered at once"}
	}
}
