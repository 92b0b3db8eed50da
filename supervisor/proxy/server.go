package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/firstframe/firstframe/shared"
)

// Server is the HTTP side of one supervisor.
type Server struct {
	cfg      Config
	frontend shared.Frontend
	log      hclog.Logger
	metrics  *metrics
	recent   *recent
	traces   *traces       // nil unless they are sent somewhere
	stopping chan struct{} // closed when the server ends
	streams  chan struct{} // one place for each request that may generate
}

// New makes a server; it opens nothing yet.
func New(cfg Config, frontend shared.Frontend) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &Server{
		cfg: cfg, frontend: frontend, log: cfg.Logger,
		metrics: newMetrics(frontend, cfg.Version), recent: &recent{},
		stopping: make(chan struct{}),
		streams:  make(chan struct{}, cfg.MaxStreams),
	}, nil
}

// Handler is the whole tree of endpoints behind its guards.
func (s *Server) Handler() http.Handler {
	api := http.NewServeMux()
	post := func(path string, h http.HandlerFunc) {
		api.HandleFunc("POST "+path, h)
		api.HandleFunc(path, onlyPost)
	}
	post("/v1/chat/completions", s.chatCompletions)
	post("/v1/completions", s.completions)
	post("/v1/responses", s.responses)
	post(messagesPath, s.messages)
	post(messagesPath+"/count_tokens", s.countTokens)
	api.HandleFunc("GET /v1/models", s.models)
	api.HandleFunc("GET /v1/models/{id...}", s.model)
	post("/tokenize", s.tokenize)
	post("/detokenize", s.detokenize)
	post("/v1/embeddings", s.embeddings)
	api.HandleFunc("/", unknownURL)

	admin := http.NewServeMux()
	admin.HandleFunc("POST /api/slots/{op}", s.slotAction)
	admin.HandleFunc("/", unknownURL)

	root := http.NewServeMux()
	// Without these the multiplexer would redirect to the paths with a slash.
	root.HandleFunc("/v1", unknownURL)
	root.HandleFunc("/api/slots", unknownURL)
	root.Handle("/v1/", s.withKey(s.cfg.APIKeys, api))
	root.Handle("/tokenize", s.withKey(s.cfg.APIKeys, api))
	root.Handle("/detokenize", s.withKey(s.cfg.APIKeys, api))
	root.Handle("/api/slots/", s.withAdmin(admin))
	root.Handle("GET /api/events", s.withKey(s.cfg.APIKeys, http.HandlerFunc(s.events)))
	root.Handle("GET /metrics", s.withKey(s.cfg.APIKeys, s.metrics.handler()))
	root.HandleFunc("GET /healthz", s.healthz)
	root.HandleFunc("GET /readyz", s.readyz)
	s.ollama(root)
	root.Handle("/", pageHandler())
	return s.guard(root)
}

// Timeouts and sizes that no honest client meets.
const (
	readHeaderTimeout = 10 * time.Second
	readBodyTimeout   = 60 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	shutdownTimeout   = 5 * time.Second
)

// Serve answers on the listener, once, until ctx ends, then lets running requests
// finish for a few seconds.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	var err error
	if s.traces, err = startTraces(ctx, s.cfg); err != nil {
		return err
	}
	defer s.traces.stop(ctx)
	srv := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readBodyTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		// "OPTIONS *" passes the guards like everything else.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     s.log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
		BaseContext:                  func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	failed := make(chan error, 1)
	go func() {
		if s.cfg.CertFile != "" {
			failed <- srv.ServeTLS(listener, s.cfg.CertFile, s.cfg.KeyFile)
			return
		}
		failed <- srv.Serve(refusals{listener})
	}()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	close(s.stopping)
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err = srv.Shutdown(stop); err != nil {
		err = srv.Close()
	}
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		return served
	}
	return err
}
