package supervisor

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/gguf"
)

// modelFiles reads what model files prove of themselves.
type modelFiles interface {
	// Header reads and checks everything but the weights.
	Header(path string) (modelHeader, error)
	// Digest hashes the whole file, all its parts in order, and gives its revision.
	Digest(ctx context.Context, paths []string, progress func(done, total int64)) (string, error)
}

// modelHeader is one file's header.
type modelHeader interface {
	Identity(modelRevision string, spec shared.SlotSpec, adapters ...string) shared.Identity
	Size() int64
	// About is what the header tells of the model.
	About() shared.ModelFile
	// Paths are the files of the model.
	Paths() []string
	// DeviceNeed estimates what the slot allocates beside the model's bytes.
	DeviceNeed(spec shared.SlotSpec) int64
	// HostNeed is what of that lies in host memory when the device is not the CPU.
	HostNeed(spec shared.SlotSpec) int64
	// AdapterSize checks that an adapter's file is one for this model.
	AdapterSize(path string) (int64, error)
}

// ggufFiles are the model files on disk.
type ggufFiles struct{}

func (ggufFiles) Header(path string) (modelHeader, error) {
	f, err := gguf.ReadFile(path)
	if err != nil {
		return nil, err
	}
	h := ggufHeader{File: f}
	// Only people see it: a file that is gone by now is found out elsewhere.
	if info, err := os.Stat(path); err == nil {
		h.modified = info.ModTime().UnixNano()
	}
	return h, nil
}

type ggufHeader struct {
	*gguf.File
	modified int64
}

func (h ggufHeader) About() shared.ModelFile {
	about := h.File.About()
	about.ModifiedUnixNS = h.modified
	return about
}

func (ggufFiles) Digest(ctx context.Context, paths []string, progress func(done, total int64)) (string, error) {
	m, err := gguf.OpenParts(paths...)
	if err != nil {
		return "", err
	}
	defer m.Close()
	return gguf.Digest(ctx, m.Reader(), m.Size, func(done int64) { progress(done, m.Size) })
}

// headersAtOnce bounds how many headers are read at the same time.
const headersAtOnce = 8

// declarer finds out, in the background, which identity each slot has. A file
// is read once however many slots share it, and hashed only when the digest of
// exactly this file is not known from an earlier run.
type declarer struct {
	files    modelFiles
	digests  *digestCache
	registry *registry
	devices  *devices
	log      hclog.Logger

	ctx     context.Context
	reading chan struct{} // one place for each header being read
	hashing chan struct{} // one place for each file being hashed
	running sync.WaitGroup
}

func newDeclarer(ctx context.Context, files modelFiles, digests *digestCache, r *registry, hashParallel int, log hclog.Logger) *declarer {
	return &declarer{
		files: files, digests: digests, registry: r, log: log, ctx: ctx,
		reading: make(chan struct{}, headersAtOnce),
		hashing: make(chan struct{}, hashParallel),
	}
}

// all declares slots.
func (d *declarer) all(slots []*slot) {
	byPath := map[string][]*slot{}
	var paths []string
	for _, s := range slots {
		if _, seen := byPath[s.spec.ModelPath]; !seen {
			paths = append(paths, s.spec.ModelPath)
		}
		byPath[s.spec.ModelPath] = append(byPath[s.spec.ModelPath], s)
	}
	for _, path := range paths {
		d.running.Go(func() { d.declare(path, byPath[path]) })
	}
}

// again declares one slot anew, since its file may have been changed. The
// caller must not be later than the supervisor's close.
func (d *declarer) again(s *slot) {
	s.redeclare()
	d.running.Go(func() {
		d.devices.forget(d.ctx, s.spec.Device)
		d.declare(s.spec.ModelPath, []*slot{s})
	})
}

// declare finds the identities of the slots that share a file. Those on the CPU do
// not wait for what has to be asked of other devices.
func (d *declarer) declare(path string, slots []*slot) {
	header, err := d.header(path)
	if err != nil {
		d.fail(slots, err)
		return
	}
	revision := sync.OnceValues(func() (string, error) { return d.revision(header.Paths(), slots) })
	var plain []*slot
	for _, s := range slots {
		if s.spec.OnCPU() {
			plain = append(plain, s)
			continue
		}
		d.running.Go(func() {
			if d.askDevice(header, s) {
				d.declareAs(header, revision, []*slot{s})
			}
		})
	}
	d.declareAs(header, revision, plain)
}

// askDevice finds out what a slot is to run on.
func (d *declarer) askDevice(header modelHeader, s *slot) bool {
	s.described(header.About())
	info, err := d.devices.ask(d.ctx, s.spec.Device)
	if err != nil {
		id := header.Identity("", s.spec)
		id.LayoutRevision = "" // it depends on the device
		d.refuse(s, id, err)
		return false
	}
	s.device.Store(&info)
	return true
}

// declareAs declares slots of one file whose devices are known.
func (d *declarer) declareAs(header modelHeader, revisionOf func() (string, error), slots []*slot) {
	slots = d.partly(header, slots)
	if len(slots) == 0 {
		return
	}
	revision, err := revisionOf()
	if err != nil {
		d.fail(slots, err)
		return
	}
	for _, s := range slots {
		if len(s.spec.Adapters) == 0 {
			d.finish(header, revision, s)
			continue
		}
		d.running.Go(func() { d.finish(header, revision, s) }) // adapters are hashed, too
	}
}

// finish declares one slot, everything of whose model is known.
func (d *declarer) finish(header modelHeader, revision string, s *slot) {
	adapters, err := d.adapters(header, s)
	if err != nil {
		d.refuse(s, header.Identity(revision, s.declaredSpec()), err)
		return
	}
	id := header.Identity(revision, s.declaredSpec(), adapters...)
	if err := gguf.CheckDeclared(s.spec, id); err != nil {
		d.refuse(s, id, err)
		return
	}
	need, err := needOf(header, s.spec)
	if err != nil {
		d.refuse(s, id, err)
		return
	}
	if s.before.Load() != nil {
		d.running.Go(func() { d.succeed(s, id, need) })
		return
	}
	// The slot hears first, so that it knows itself when requests come.
	s.declare(id, need, nil)
	d.registry.learn(d.ctx, change{slot: s, identity: id})
}

// adapters gives the revisions of a slot's adapters, which are no others than
// those that are declared.
func (d *declarer) adapters(header modelHeader, s *slot) ([]string, error) {
	var revisions []string
	for _, a := range s.spec.Adapters {
		revision, err := d.revision([]string{a.Path}, []*slot{s})
		if err != nil {
			return nil, gguf.AdapterError(a.Path, err)
		}
		revisions = append(revisions, revision)
	}
	s.facts.Store(&fileFacts{paths: header.Paths(), adapters: revisions})
	return revisions, gguf.CheckAdapters(s.spec, revisions)
}

// checkTransfer refuses what a worker would refuse later.
func checkTransfer(header modelHeader, spec shared.SlotSpec) error {
	n := len(header.Paths())
	if n == 1 || spec.Transfer != shared.TransferPageable && spec.Transfer != shared.TransferPinned {
		return nil
	}
	return &shared.Error{
		Kind: shared.KindUnsupported, Field: "transfer",
		Message: fmt.Sprintf("transfer %s is not supported for a model of %d files; use mmap, or join the files", spec.Transfer, n),
	}
}

// needOf is what the slot allocates; the engine copies adapters.
func needOf(header modelHeader, spec shared.SlotSpec) (amount, error) {
	need := amount{host: header.Size() + header.HostNeed(spec), device: header.DeviceNeed(spec)}
	for _, a := range spec.Adapters {
		size, err := header.AdapterSize(a.Path)
		if err != nil {
			return amount{}, err
		}
		need.device += size
	}
	return need, nil
}

// succeed declares a slot that takes the place of another one. Requests may come
// at once; it prepares itself for them when nothing is left of the other.
func (d *declarer) succeed(s *slot, id shared.Identity, need amount) {
	d.registry.learn(d.ctx, change{slot: s, identity: id})
	s.declaring(shared.Progress{Stage: "drain"})
	switch err := s.awaitTurn(d.ctx); {
	case d.ctx.Err() != nil:
	case err != nil:
		d.refuse(s, id, err)
	default:
		s.declare(id, need, nil)
	}
}

func (d *declarer) header(path string) (modelHeader, error) {
	if !enter(d.ctx, d.reading) {
		return nil, context.Cause(d.ctx)
	}
	defer leave(d.reading)
	return d.files.Header(path)
}

// partly tells the registry what the header alone proves, so that a request
// that cannot mean this slot does not have to wait for its digest. It returns
// the slots that are right so far.
func (d *declarer) partly(header modelHeader, slots []*slot) []*slot {
	var right []*slot
	for _, s := range slots {
		s.described(header.About())
		spec := s.declaredSpec()
		spec.DeclaredSHA256 = "" // the header cannot contradict it
		id := header.Identity("", spec)
		err := gguf.CheckDeclared(spec, id)
		if err == nil {
			err = checkTransfer(header, spec)
		}
		if err == nil {
			_, err = needOf(header, spec) // an adapter that does not fit is known before anything is hashed
		}
		if err != nil {
			d.refuse(s, id, err)
			continue
		}
		d.registry.learn(d.ctx, change{slot: s, identity: id})
		right = append(right, s)
	}
	return right
}

// revision gives the digest of a file that did not change while it was hashed.
func (d *declarer) revision(paths []string, slots []*slot) (string, error) {
	path := paths[0]
	before, err := fileKeyOf(paths...)
	if err != nil {
		return "", shared.Errorf(shared.KindModelFile, "cannot look at the model file: %w", err)
	}
	if revision, ok := d.digests.lookup(before); ok {
		return revision, nil
	}
	if !enter(d.ctx, d.hashing) {
		return "", context.Cause(d.ctx)
	}
	defer leave(d.hashing)
	revision, err := d.files.Digest(d.ctx, paths, func(done, total int64) {
		for _, s := range slots {
			s.declaring(shared.Progress{Stage: "digest", DoneBytes: done, TotalBytes: total})
		}
	})
	if err != nil {
		return "", err
	}
	after, err := fileKeyOf(paths...)
	if err != nil || after != before {
		return "", shared.Errorf(shared.KindModelFile, "the model file %s changed while it was read", path)
	}
	if err := d.digests.store(after, revision, paths[1:]...); err != nil {
		d.log.Warn("the digest was not kept and will be computed again", "path", path, "error", err)
	}
	return revision, nil
}

// fail keeps slots out of routing whose file tells nothing.
func (d *declarer) fail(slots []*slot, err error) {
	for _, s := range slots {
		d.refuse(s, shared.Identity{}, err)
	}
}

// refuse keeps a slot out of routing. What its file proves stays known, so that
// requests that would have meant this slot are told of it and others are not.
// At the supervisor's end nothing is said: what was cut short is no finding.
func (d *declarer) refuse(s *slot, proved shared.Identity, err error) {
	if d.ctx.Err() != nil {
		return
	}
	e := shared.AsError(err, "declare", s.spec.SlotID)
	if e.Kind == shared.KindOther {
		e.Kind = shared.KindModelFile
	}
	d.log.Error("the slot cannot be what it is declared to be", "slot", s.spec.SlotID, "error", e.Text())
	s.declare(shared.Identity{}, amount{}, e)
	d.registry.learn(d.ctx, change{slot: s, identity: proved, err: e})
}

// enter takes a place, or gives up when ctx ends.
func enter(ctx context.Context, places chan struct{}) bool {
	select {
	case places <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func leave(places chan struct{}) { <-places }
