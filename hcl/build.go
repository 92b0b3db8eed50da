package hcl

import (
	"math/big"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"

	"github.com/firstframe/firstframe/shared"
	"github.com/firstframe/firstframe/shared/cores"
	"github.com/firstframe/firstframe/shared/modelstore"
)

// Config is a configuration without errors.
type Config struct {
	// StateDir is empty when the per-user default is meant.
	StateDir string
	// CUDAWorker is the program for slots on cuda:N; empty means the usual places.
	CUDAWorker string
	Slots      []shared.SlotSpec
	Aliases    map[string]string
	Life       Life
	// HTTP is nil when no HTTP frontend is declared.
	HTTP *shared.HTTPSpec
	// LogLevel is empty when it is not set.
	LogLevel string
	LogJSON  bool
	// OTLPEndpoint is empty when traces go nowhere.
	OTLPEndpoint string
	// ranges says where a slot's keys stand, for checks that need the model file.
	ranges map[string]hcl.Range
	texts  map[string][]byte
}

// Defaults and bounds of slot keys.
const (
	defaultPage         = 64
	defaultPrefillChunk = 512
	defaultQueue        = 64
	defaultDeadline     = 5 * time.Minute
	defaultPagesHost    = 512 << 20
	minExactPage        = 64
	maxQueue            = 1 << 16
	maxDeadline         = 24 * time.Hour
	maxIdle             = 365 * 24 * time.Hour
	minPages            = 1 << 20
	maxPages            = 1 << 46
	maxTokens           = 1 << 20
	maxParallel         = 64
	maxThreads          = 512
	maxPage             = 512 // divides the default chunk, as every smaller page does
	maxPrefillChunk     = 8192
	maxGPULayers        = 10000
)

var (
	slotName      = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)
	sha256Hex     = regexp.MustCompile(`^[0-9a-fA-F]{64}$`)
	precisionName = regexp.MustCompile(`^[A-Z][A-Z0-9_]{1,15}$`)
	cudaDevice    = regexp.MustCompile(`^cuda:(0|[1-9][0-9]{0,2})$`)
)

type model struct {
	name, path, sha256, precision string
}

func (d *decoder) build(root *node, bases map[string]string) *Config {
	cfg := &Config{Aliases: map[string]string{}, ranges: map[string]hcl.Range{}, texts: d.texts}
	if n := root.first("supervisor"); n != nil {
		cfg.StateDir = d.text(n, "state_dir", "")
		if cfg.StateDir != "" && !filepath.IsAbs(cfg.StateDir) {
			cfg.StateDir = filepath.Join(bases[n.rng.Filename], cfg.StateDir)
		}
		cfg.CUDAWorker = d.text(n, "cuda_worker", "")
		if cfg.CUDAWorker != "" && !filepath.IsAbs(cfg.CUDAWorker) {
			cfg.CUDAWorker = filepath.Join(bases[n.rng.Filename], cfg.CUDAWorker)
		}
	}
	cfg.Life = d.life(root.first("supervisor"))
	models := d.models(root, bases)
	names := map[string]hcl.Range{} // everything that a request can name
	for _, m := range root.blocks["model"] {
		names[models[m.label].name] = m.rng
	}
	seen := map[string]hcl.Range{}
	for _, n := range root.blocks["slot"] {
		if earlier, ok := seen[n.label]; ok {
			d.errorf(n.rng, "Repeated slot", "The slot %q is already declared at %s.", n.label, at(earlier))
			continue
		}
		seen[n.label] = n.rng
		cfg.Slots = append(cfg.Slots, d.replicas(n, d.slot(n, models, bases[n.rng.Filename], cfg))...)
	}
	for name, rng := range seen {
		names[name] = rng
	}
	if len(root.blocks["slot"]) == 0 && !d.diags.HasErrors() {
		d.unlocated("No slots", "The configuration declares no slot block, so there is nothing to serve.")
	}
	d.aliases(root, names, cfg)
	cfg.HTTP = d.frontend(root, bases)
	d.telemetry(root, cfg)
	return cfg
}

func (d *decoder) models(root *node, bases map[string]string) map[string]model {
	models := map[string]model{}
	seen := map[string]hcl.Range{}
	for _, n := range root.blocks["model"] {
		if earlier, ok := seen[n.label]; ok {
			d.errorf(n.rng, "Repeated model", "The model %q is already declared at %s.", n.label, at(earlier))
			continue
		}
		seen[n.label] = n.rng
		m := model{
			name:      d.text(n, "name", n.label),
			path:      d.text(n, "path", ""),
			sha256:    d.digest(n),
			precision: strings.ToUpper(d.text(n, "precision", "")),
		}
		d.requestName(n, "name", m.name)
		switch {
		case modelstore.Named(m.path):
			d.fromStore(n, &m)
		case m.path != "" && !filepath.IsAbs(m.path):
			m.path = filepath.Join(bases[n.rng.Filename], m.path)
		}
		if m.precision != "" && !precisionName.MatchString(m.precision) {
			d.errorf(n.values["precision"].rng, "Wrong precision", "A precision is a name such as Q8_0, Q4_K_M or F16.")
		}
		models[n.label] = m
	}
	return models
}

// fromStore finds the file that a name in a local store means now. Its digest is
// declared with it, so that the bytes are what the store says.
func (d *decoder) fromStore(n *node, m *model) {
	found, err := modelstore.FromEnvironment(d.eval.lookup).Find(m.path)
	switch {
	case err != nil:
		d.errorf(n.values["path"].rng, "Not in the store", "%s.", sentence(err))
	case m.sha256 == "":
		m.sha256 = found.SHA256
	case found.SHA256 != "" && found.SHA256 != m.sha256:
		d.errorf(n.values["sha256"].rng, "Wrong digest", "The store keeps this model under the digest %s.", found.SHA256)
	}
	m.path = found.Path
}

// sentence is an error's text with a capital letter.
func sentence(err error) string {
	text := shared.AsError(err, "", "").Text()
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

// requestName checks a name that requests use.
func (d *decoder) requestName(n *node, key, name string) {
	bad := strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.TrimSpace(name) != name
	if name != "" && utf8.RuneCountInString(name) <= 128 && !bad {
		return
	}
	rng := n.rng
	if v, ok := n.values[key]; ok {
		rng = v.rng
	}
	d.errorf(rng, "Unusable name", "A name has 1 to 128 printable characters and no space at either end.")
}

func (d *decoder) slot(n *node, models map[string]model, base string, cfg *Config) shared.SlotSpec {
	if !slotName.MatchString(n.label) {
		d.errorf(n.rng, "Unusable slot name", "A slot name has lower-case letters, digits, - and _, at most 63, and starts with a letter or digit.")
	}
	m := models[d.text(n, "model", "")]
	context, pages := n.first("context"), n.first("pages")
	s := shared.SlotSpec{
		SlotID: n.label, Model: m.name, ModelPath: m.path, DeclaredSHA256: m.sha256, DeclaredPrecision: m.precision,
		Device:        d.device(n),
		Transfer:      shared.Transfer(d.choice(n, "transfer", "auto", "mmap", "pageable", "pinned")),
		OnMiss:        shared.OnMiss(d.choice(n, "on_miss", "wait", "pending", "fail")),
		Preload:       d.flag(n, "preload", true),
		Threads:       d.number(n, "threads", cores.Usable(), 1, maxThreads),
		ContextTokens: d.number(context, "tokens", 0, defaultPage, maxTokens),
		Parallel:      d.number(context, "parallel", 1, 1, maxParallel),
		PageTokens:    d.number(context, "page", defaultPage, 16, maxPage),
		KVType:        d.choice(context, "kv_type", "f16", "f32", "bf16", "q8_0"),
		PrefillChunk:  d.number(context, "prefill_chunk", defaultPrefillChunk, 16, maxPrefillChunk),
		PagesHost:     d.size(pages, "host", defaultPagesHost, minPages, maxPages),
		PagesDisk:     d.size(pages, "disk", 0, minPages, maxPages),
		Reuse:         shared.Reuse(d.choice(pages, "reuse", "fast", "exact")),
		PagesSalt:     d.text(pages, "salt", ""),
		Queue:         d.number(n, "queue", defaultQueue, 1, maxQueue),
		Deadline:      d.duration(n, "deadline", defaultDeadline, time.Millisecond, maxDeadline),
		Restart:       d.restart(n.first("restart")),
		Pin:           d.flag(n, "pin", false),
		IdleTTL:       d.duration(n, "idle_ttl", 0, time.Second, maxIdle),
		Adapters:      d.adapters(n, base),
		GPULayers:     d.number(n, "gpu_layers", 0, 1, maxGPULayers),
	}
	if v, ok := d.get(n, "gpu_layers"); ok && s.OnCPU() {
		d.errorf(v.rng, "No GPU", "gpu_layers is for a slot on a GPU; the device of this one is \"cpu\".")
	}
	if s.PageTokens&(s.PageTokens-1) != 0 {
		d.errorf(context.values["page"].rng, "Wrong page size", "The size of a page is a power of two.")
	} else if s.PrefillChunk%s.PageTokens != 0 {
		rng := n.rng
		for _, key := range []string{"page", "prefill_chunk"} {
			if v, ok := context.values[key]; ok {
				rng = v.rng
			}
		}
		d.errorf(rng, "Wrong chunk size", "prefill_chunk must be a multiple of page, which is %d unless it is set.", defaultPage)
	}
	if v, ok := d.get(context, "tokens"); ok && s.ContextTokens != 0 && s.ContextTokens < s.PageTokens {
		d.errorf(v.rng, "Context too short", "A context must hold a page, which has %d tokens unless page is set.", defaultPage)
	}
	if s.Reuse == shared.ReuseExact && s.PageTokens < minExactPage {
		d.errorf(pages.values["reuse"].rng, "Page too small", "Exact reuse needs pages of at least %d tokens; page is %d.", minExactPage, s.PageTokens)
	}
	for i, a := range n.blocks["adapter"] {
		cfg.ranges[adapterKey(s.SlotID, i)] = a.values["path"].rng
	}
	cfg.ranges[s.SlotID] = n.values["model"].rng
	if context != nil {
		if v, ok := context.values["tokens"]; ok {
			cfg.ranges[s.SlotID+" tokens"] = v.rng
		}
	}
	return s
}

// device takes the name of a device, whether or not this machine has it.
func (d *decoder) device(n *node) string {
	device := d.text(n, "device", shared.CPUDevice)
	if !isDevice(device) {
		d.unknownDevice(n.values["device"].rng)
		return shared.CPUDevice
	}
	return device
}

func isDevice(name string) bool { return name == shared.CPUDevice || cudaDevice.MatchString(name) }

func (d *decoder) unknownDevice(rng hcl.Range) {
	d.errorf(rng, "Unknown device", "A device is \"cpu\", or a GPU such as \"cuda:0\".")
}

func (d *decoder) aliases(root *node, names map[string]hcl.Range, cfg *Config) {
	seen := map[string]hcl.Range{}
	for _, n := range root.blocks["alias"] {
		d.requestName(n, "", n.label)
		if earlier, ok := seen[n.label]; ok {
			d.errorf(n.rng, "Repeated alias", "The alias %q is already declared at %s.", n.label, at(earlier))
			continue
		}
		seen[n.label] = n.rng
		if taken, ok := names[n.label]; ok {
			d.errorf(n.rng, "Name taken", "The alias %q is also the name of what is declared at %s.", n.label, at(taken))
			continue
		}
		target := d.text(n, "slot", "")
		if i := slices.IndexFunc(cfg.Slots, func(s shared.SlotSpec) bool { return target != "" && s.ReplicaOf == target }); i >= 0 {
			target = cfg.Slots[i].SlotID // an alias means all slots of its identity
		}
		cfg.Aliases[n.label] = target
	}
}

func (d *decoder) get(n *node, key string) (value, bool) {
	if n == nil {
		return value{}, false
	}
	v, ok := n.values[key]
	return v, ok
}

func (d *decoder) text(n *node, key, def string) string {
	if v, ok := d.get(n, key); ok {
		return v.AsString()
	}
	return def
}

func (d *decoder) flag(n *node, key string, def bool) bool {
	if v, ok := d.get(n, key); ok {
		return v.True()
	}
	return def
}

// choice takes one of the words; the first is the default.
func (d *decoder) choice(n *node, key string, words ...string) string {
	v, ok := d.get(n, key)
	if !ok {
		return words[0]
	}
	word := v.AsString()
	if !slices.Contains(words, word) {
		d.errorf(v.rng, "Unknown value", "%s is one of %s.%s", key, strings.Join(words, ", "), suggest(word, words))
	}
	return word
}

// number takes whole numbers within bounds.
func (d *decoder) number(n *node, key string, def, low, high int) int {
	v, ok := d.get(n, key)
	if !ok {
		return def
	}
	i, accuracy := v.AsBigFloat().Int64()
	if accuracy != big.Exact || i < int64(low) || i > int64(high) {
		d.errorf(v.rng, "Out of range", "%s is a whole number from %d to %d.", key, low, high)
		return def
	}
	return int(i)
}
