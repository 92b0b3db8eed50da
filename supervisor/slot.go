package supervisor

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/firstframe/firstframe/shared"
)

// slot is one declared model slot. Its owner goroutine alone holds and changes
// its state; everybody else asks by message, or reads the view that the owner
// publishes after each change.
type slot struct {
	spec shared.SlotSpec
	env  *slotEnv

	inbox chan message
	done  chan struct{} // closed when the owner has ended
	view  atomic.Pointer[shared.SlotInfo]
	// before is the slot that this one takes the place of, until that has ended.
	before  atomic.Pointer[slot]
	retired atomic.Bool  // a reload took it out of service
	tokens  atomic.Int64 // generated so far

	device  atomic.Pointer[shared.DeviceInfo] // asked; nil on the CPU
	facts   atomic.Pointer[fileFacts]         // known before the identity is
	worker  atomic.Pointer[shared.Worker]     // to ask for the load; nil while it holds nothing
	load    atomic.Pointer[shared.SlotLoad]
	memory  atomic.Int64
	resumes atomic.Pointer[time.Time] // when the next process is started; zero when there is one, or none will be
}

// fileFacts is what the slot's files have told beside its identity.
type fileFacts struct {
	paths    []string // of the model
	adapters []string // revisions, in the order of the declaration
}

// files are what the slot's worker reads.
func (s *slot) files() []string {
	files := []string{s.spec.ModelPath}
	if facts := s.facts.Load(); facts != nil {
		files = slices.Clone(facts.paths)
	}
	for _, a := range s.spec.Adapters {
		files = append(files, a.Path)
	}
	return files
}

// adapters are the slot's adapters with what is known of their files.
func (s *slot) adapters() []shared.AdapterInfo {
	var revisions []string
	if facts := s.facts.Load(); facts != nil {
		revisions = facts.adapters
	}
	var list []shared.AdapterInfo
	for i, a := range s.spec.Adapters {
		info := shared.AdapterInfo{Path: a.Path, Scale: a.Scale}
		if i < len(revisions) {
			info.Revision = revisions[i]
		}
		list = append(list, info)
	}
	return list
}

// accounted says whether the slot takes part in the ledger: when there are budgets,
// and on a GPU always, since that is as large as it is.
func (s *slot) accounted() bool { return s.env.budgets || !s.spec.OnCPU() }

// deviceInfo is what is known of the slot's device.
func (s *slot) deviceInfo() shared.DeviceInfo {
	if info := s.device.Load(); info != nil {
		return *info
	}
	return shared.DeviceInfo{}
}

// declaredSpec is the slot's declaration with what its device has told.
func (s *slot) declaredSpec() shared.SlotSpec {
	spec := s.spec
	if info := s.device.Load(); info != nil {
		spec.DeviceKind = info.Kind()
	}
	return spec
}

// slotEnv is what all slots of a supervisor share.
type slotEnv struct {
	launcher     Launcher
	restart      shared.RestartPolicy
	drainTimeout time.Duration
	heartbeat    time.Duration
	wedgeAfter   time.Duration
	accountant   *accountant
	budgets      bool // some were declared
	log          hclog.Logger
	calls        atomic.Uint64
	changed      func() // never blocks
}

// message is one event for the owner, with what belongs to it.
type message struct {
	ev   event
	call *call        // the caller that waits for the event's answer
	note func(*owner) // run by the owner before the event is decided on
}

// call is a caller that waits for an answer.
//
// The answer's channel has room for it, so that the owner never waits for the
// caller. A caller that gives up says so with evLeft, and the owner then takes
// back an answer that was not picked up: a granted lease has either been
// received, or it is returned.
type call struct {
	id       callID
	ctx      context.Context
	answer   chan answer
	progress chan shared.Progress // the latest only
	since    time.Time
}

type answer struct {
	lease *lease
	err   error
}

// lease is one request's right to run on a slot.
type lease struct {
	slot   *slot
	epoch  epoch
	proc   Process
	worker shared.Worker
	// ctx ends with the request's, or when the slot takes the lease back; its
	// cause then is a *shared.Error.
	ctx    context.Context
	cancel context.CancelCauseFunc
	hit    bool                    // the slot was ready when the request came
	detail shared.ActivationDetail // of the wait, when it was not
	once   sync.Once
}

// release gives the lease back. It may be called more than once.
func (l *lease) release() {
	l.once.Do(func() {
		l.cancel(nil)
		l.slot.post(message{ev: evRelease{epoch: l.epoch, now: time.Now()}, note: func(o *owner) { delete(o.leases, l) }})
	})
}

// lost tells the slot that the worker did not answer as a living one does.
func (l *lease) lost() { l.slot.post(message{ev: evUnreachable{epoch: l.epoch}}) }

// newSlot starts a slot's owner. It runs until close.
func newSlot(spec shared.SlotSpec, env *slotEnv) *slot {
	s := &slot{spec: spec, env: env, inbox: make(chan message), done: make(chan struct{})}
	o := newOwner(s)
	o.publish()
	go o.run()
	return s
}

// post hands a message to the owner. The owner takes messages at all times, so
// the wait is short; false means that it has ended.
func (s *slot) post(m message) bool {
	select {
	case s.inbox <- m:
		return true
	case <-s.done:
		return false
	}
}

// ask sends the event that make gives for a new call, and waits for the answer.
// News of a preparation go to progress, whose error gives up the wait.
func (s *slot) ask(ctx context.Context, progress func(shared.Progress) error, newEvent func(callID) event) (answer, error) {
	c := &call{
		id:       callID(s.env.calls.Add(1)),
		ctx:      ctx,
		answer:   make(chan answer, 1),
		progress: make(chan shared.Progress, 1),
		since:    time.Now(),
	}
	if err := context.Cause(ctx); err != nil {
		return answer{}, err
	}
	if !s.post(message{ev: newEvent(c.id), call: c}) {
		return answer{}, shuttingDown()
	}
	for {
		select {
		case a := <-c.answer:
			return a, a.err
		case p := <-c.progress:
			if progress == nil {
				continue
			}
			if err := progress(p); err != nil {
				s.leave(c)
				return answer{}, err
			}
		case <-ctx.Done():
			s.leave(c)
			return answer{}, context.Cause(ctx)
		case <-s.done:
			// The owner answers everybody before it ends.
			select {
			case a := <-c.answer:
				return a, a.err
			default:
				return answer{}, shuttingDown()
			}
		}
	}
}

func (s *slot) leave(c *call) { s.post(message{ev: evLeft{call: c.id}, call: c}) }

// acquire takes a lease, waiting for the slot to become resident if onMiss says so.
func (s *slot) acquire(ctx context.Context, onMiss shared.OnMiss, progress func(shared.Progress) error) (*lease, error) {
	if onMiss == "" {
		onMiss = s.spec.OnMiss
	}
	a, err := s.ask(ctx, progress, func(id callID) event { return evAcquire{call: id, onMiss: onMiss} })
	if err != nil {
		return nil, err
	}
	return a.lease, nil
}

// prepare makes the slot resident. When ctx ends first and nobody else wants
// the slot, the preparation is undone.
func (s *slot) prepare(ctx context.Context, progress func(shared.Progress) error) error {
	_, err := s.ask(ctx, progress, func(id callID) event { return evPrepare{call: id} })
	return err
}

// evict frees the device buffers. The eviction goes on when ctx ends.
func (s *slot) evict(ctx context.Context, dropHost bool) error {
	_, err := s.ask(ctx, nil, func(id callID) event { return evEvict{call: id, dropHost: dropHost} })
	return err
}

// restart ends the process, if there is one, and returns when the next one is up.
func (s *slot) restart(ctx context.Context) error {
	_, err := s.ask(ctx, nil, func(id callID) event { return evRestart{call: id} })
	return err
}

// declare tells the slot what it is, or why it cannot be.
func (s *slot) declare(id shared.Identity, need amount, err *shared.Error) {
	if s.accounted() && err == nil {
		s.env.accountant.open(s)
	}
	s.post(message{ev: evDeclared{err: err}, note: func(o *owner) {
		o.identity, o.modelBytes, o.need = id, o.about.Bytes, need
		o.state.rules.step = time.Duration((need.host+need.device)/fillRate) * time.Second
		o.progress = shared.Progress{}
	}})
}

// described tells the slot what the header of its model file says.
func (s *slot) described(about shared.ModelFile) {
	s.post(message{note: func(o *owner) { o.about = about }})
}

// fillRate is how many bytes a second a worker gets through at least, be it to
// fill memory or to compute one step with them.
const fillRate = 32 << 20

// redeclare tells the slot that its identity is being read anew.
func (s *slot) redeclare() { s.post(message{ev: evRedeclare{}}) }

// declaring passes on how far the reading of the model file has come.
func (s *slot) declaring(p shared.Progress) {
	s.post(message{note: func(o *owner) {
		if o.state.declared == declaredUnknown {
			o.tell(p)
		}
	}})
}

// close starts the end of the slot; done tells when it is over.
func (s *slot) close() { s.post(message{ev: evClose{}}) }

// info is the slot as it was after its latest change.
func (s *slot) info() shared.SlotInfo {
	info := *s.view.Load()
	info.ResidentBytes = s.memory.Load()
	if at := s.resumes.Load(); at != nil && !at.IsZero() {
		info.RetryAfter = max(time.Until(*at), time.Millisecond)
	}
	if load := s.load.Load(); load != nil && s.worker.Load() != nil {
		info.Load = *load
	}
	return info
}
