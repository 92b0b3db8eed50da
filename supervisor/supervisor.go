package supervisor

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/firstframe/firstframe/shared"
)

// Supervisor serves requests on declared slots.
type Supervisor struct {
	cfg        Config
	env        *slotEnv
	registry   *registry
	declarer   *declarer
	watchers   *broadcast
	accountant *accountant
	affinity   *affinity
	reloads    chan chan<- reloaded
	activity   *activity

	ctx    context.Context // of the background work; ends when Close begins
	cancel context.CancelFunc
	// closing keeps Close from waiting for a declaration that has yet to start.
	closing sync.RWMutex
	running sync.WaitGroup
}

var _ shared.Frontend = (*Supervisor)(nil)

// New declares the slots and starts to look after them: their identities are
// found in the background, and slots with preload are prepared.
func New(cfg Config) (*Supervisor, error) { return newSupervisor(cfg, ggufFiles{}) }

func newSupervisor(cfg Config, files modelFiles) (*Supervisor, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s := &Supervisor{
		cfg: cfg, watchers: &broadcast{}, affinity: newAffinity(), reloads: make(chan chan<- reloaded), activity: newActivity(),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.env = &slotEnv{
		launcher:     cfg.Launcher,
		restart:      cfg.Restart,
		drainTimeout: cfg.DrainTimeout,
		heartbeat:    cfg.Heartbeat,
		wedgeAfter:   cfg.WedgeAfter,
		log:          cfg.Logger,
		changed:      s.watchers.notify,
	}
	s.accountant = newAccountant(cfg.Budgets, cfg.MinResidency)
	s.env.accountant, s.env.budgets = s.accountant, len(cfg.Budgets) > 0
	s.running.Go(func() { s.accountant.run(s.ctx) })
	var slots []*slot
	for _, spec := range cfg.Slots {
		slots = append(slots, newSlot(spec, s.env))
	}
	s.registry = newRegistry(slots, cfg.Aliases)
	s.declarer = newDeclarer(s.ctx, files, openDigestCache(cfg.StateDir), s.registry, cfg.HashParallel, cfg.Logger)
	s.declarer.devices = newDevices(cfg.Launcher, s.accountant)
	s.declarer.all(slots)
	s.running.Go(func() { s.registry.run(s.ctx) })
	s.running.Go(s.reloader)
	s.running.Go(func() { s.activity.run(s.ctx) })
	return s, nil
}

// Close refuses new requests, lets running ones end within the drain timeout,
// and stops all workers at the same time. It returns when every slot is closed
// or ctx has ended, with an error that names the slots that are not. It may be
// called again to go on waiting.
func (s *Supervisor) Close(ctx context.Context) error {
	s.closing.Lock()
	s.cancel()
	s.closing.Unlock()
	<-s.registry.done // from here on there are no new slots
	slots := s.registry.everySlot()
	for _, sl := range slots {
		sl.close()
	}
	var open []string
	for _, sl := range slots {
		select {
		case <-sl.done:
		case <-ctx.Done():
			// A slot that is done as well is not blamed for the others.
			select {
			case <-sl.done:
			default:
				open = append(open, sl.spec.SlotID)
				continue
			}
		}
		if sl.info().PID != 0 {
			open = append(open, sl.spec.SlotID)
		}
	}
	if len(open) > 0 {
		return shared.Errorf(shared.KindUnavailable, "the workers of these slots could not be ended in time: %s", strings.Join(open, ", "))
	}
	return s.settle(ctx)
}

// settle waits for the background work, which was told to end.
func (s *Supervisor) settle(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		s.declarer.running.Wait()
		s.running.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("cannot end the reading of model files: %w", context.Cause(ctx))
	}
}

// declareAgain reads a slot's file anew if what is known of it keeps it from
// being served. The digest cache makes that cheap when nothing has changed.
func (s *Supervisor) declareAgain(sl *slot) {
	s.closing.RLock()
	defer s.closing.RUnlock()
	if s.ctx.Err() != nil {
		return
	}
	info := sl.info()
	known, current := s.registry.current.Load().declarationOf(sl)
	if current && (known.err != nil || info.LastError != "" && info.Status == shared.SlotEmpty) {
		s.declarer.again(sl)
	}
}
