package hcl

import (
	"slices"

	"github.com/zclconf/go-cty/cty"
)

// keyType is the form of a key's value.
type keyType string

const (
	typeString   keyType = "string"
	typeInt      keyType = "number"
	typeReal     keyType = "decimal number"
	typeBool     keyType = "bool"
	typeDuration keyType = "duration"
	typeSize     keyType = "size"
	typeStrings  keyType = "list of strings"
	typeModel    keyType = "reference to a model"
	typeSlot     keyType = "reference to a slot"
)

// cty is the type of a value in the language; durations and sizes are strings.
func (t keyType) cty() cty.Type {
	switch t {
	case typeInt, typeReal:
		return cty.Number
	case typeBool:
		return cty.Bool
	case typeStrings:
		return cty.List(cty.String)
	default:
		return cty.String
	}
}

// Key is one attribute of a block.
type Key struct {
	Name     string
	Type     keyType
	Required bool
	Default  string // for people
	Meaning  string
	Later    bool // known, but not supported by this version
}

// Block is one kind of block with everything that may stand in it.
type Block struct {
	Name    string
	Label   string // what its label is, empty when it has none
	Many    bool
	Meaning string
	Later   bool
	Keys    []Key
	Blocks  []Block
}

func (b Block) hasKey(name string) bool {
	return slices.ContainsFunc(b.Keys, func(k Key) bool { return k.Name == name })
}

func (b Block) hasBlock(name string) bool {
	return slices.ContainsFunc(b.Blocks, func(inner Block) bool { return inner.Name == name })
}

// names lists everything that may stand in the block.
func (b Block) names() []string {
	var names []string
	for _, k := range b.Keys {
		names = append(names, k.Name)
	}
	for _, inner := range b.Blocks {
		names = append(names, inner.Name)
	}
	return names
}

// owner is the place where a name may stand, here or further in.
func (b Block) owner(name string) string {
	if b.hasKey(name) || b.hasBlock(name) {
		return place(b)
	}
	for _, inner := range b.Blocks {
		if o := inner.owner(name); o != "" {
			return o
		}
	}
	return ""
}

// Schema is the whole language. The reference in docs/configuration.md is
// tested against it.
func Schema() Block {
	return Block{Blocks: []Block{
		{Name: "supervisor", Meaning: "the supervisor process", Keys: []Key{
			{Name: "state_dir", Type: typeString, Default: "per-user runtime folder", Meaning: "folder for sockets, logs and kept state"},
			{Name: "min_residency", Type: typeDuration, Default: "10s", Meaning: "a slot just loaded is not evicted for another one for that long; 0s means at once"},
			{Name: "drain_timeout", Type: typeDuration, Default: "30s", Meaning: "how long running requests may go on when their slot stops, as long as they get on"},
			{Name: "wedge_after", Type: typeDuration, Default: "20s", Meaning: "a worker that gives no sign of life, or does not get on with its work, for that long is killed"},
			{Name: "heartbeat", Type: typeDuration, Default: "1s", Meaning: "how often workers are asked for a sign of life"},
			{Name: "cuda_worker", Type: typeString, Default: "beside firstframe, or in PATH", Meaning: "the worker program of slots on cuda:N, firstframe-slotworker-cuda, relative to this file's folder"},
		}, Blocks: []Block{
			{Name: "budget", Meaning: "byte budgets", Keys: []Key{
				{Name: "host", Type: typeSize, Default: "none", Meaning: "host buffers of all slots together, the bytes of their models; pages.host comes on top"},
			}, Blocks: []Block{
				{Name: "device", Label: "device", Many: true, Meaning: "one device's budget", Keys: []Key{
					{Name: "memory", Type: typeSize, Default: "none; of a GPU, its memory", Meaning: "device buffers of all slots on it: weights, KV memory and compute buffers"},
				}},
			}},
		}},
		{Name: "frontend", Label: "kind", Many: true, Meaning: "a frontend that serve starts and watches; the one kind is http", Keys: []Key{
			{Name: "listen", Type: typeString, Default: "127.0.0.1:8080", Meaning: "host:port; another address than loopback needs api_keys and tls, or insecure"},
			{Name: "api_keys", Type: typeStrings, Default: "none", Meaning: "keys that admit requests, best from env()"},
			{Name: "admin_keys", Type: typeStrings, Default: "none", Meaning: "keys that admit prepare, evict and restart; without any keys a loopback address admits them"},
			{Name: "insecure", Type: typeBool, Default: "false", Meaning: "allow another address than loopback without keys and TLS"},
			{Name: "cors", Type: typeStrings, Default: "none", Meaning: "origins that browsers may call from"},
			{Name: "max_body", Type: typeSize, Default: "8MiB", Meaning: "largest request body"},
			{Name: "max_streams", Type: typeInt, Default: "512", Meaning: "requests answered at the same time"},
			{Name: "write_timeout", Type: typeDuration, Default: "10s", Meaning: "longest wait for a client to take one write"},
		}, Blocks: []Block{
			{Name: "tls", Meaning: "serve HTTPS", Keys: []Key{
				{Name: "cert", Type: typeString, Required: true, Meaning: "certificate file, PEM, relative to this file's folder"},
				{Name: "key", Type: typeString, Required: true, Meaning: "key file, PEM"},
			}},
		}},
		{Name: "telemetry", Meaning: "logs and traces", Keys: []Key{
			{Name: "otlp_endpoint", Type: typeString, Default: "none", Meaning: "collector that takes traces of requests, OTLP over HTTP, such as http://127.0.0.1:4318; needs a frontend"},
			{Name: "log_level", Type: typeString, Default: "info", Meaning: "least level of log lines: trace, debug, info, warn, error or off"},
			{Name: "log_json", Type: typeBool, Default: "false", Meaning: "log lines as JSON"},
		}},
		{Name: "model", Label: "name", Many: true, Meaning: "a model file", Keys: []Key{
			{Name: "path", Type: typeString, Required: true, Meaning: "GGUF file, relative to this file's folder, or its name in a local store: ollama:MODEL:TAG, hf:ORG/REPO/FILE.gguf"},
			{Name: "name", Type: typeString, Default: "the label", Meaning: "the name that requests use; several precisions may share it"},
			{Name: "sha256", Type: typeString, Default: "not checked", Meaning: "digest of the file; another one keeps the slot empty"},
			{Name: "precision", Type: typeString, Default: "not checked", Meaning: "precision of the file; another one keeps the slot empty"},
		}},
		{Name: "slot", Label: "name", Many: true, Meaning: "a model slot, one worker process", Keys: []Key{
			{Name: "model", Type: typeModel, Required: true, Meaning: "the model it holds, such as model.story"},
			{Name: "device", Type: typeString, Default: "cpu", Meaning: "cpu, or cuda:N for a GPU, which needs the CUDA worker (docs/gpu.md)"},
			{Name: "transfer", Type: typeString, Default: "auto", Meaning: "mmap, pageable, pinned (a copy in locked memory) or auto; on a GPU auto measures what to take"},
			{Name: "preload", Type: typeBool, Default: "true", Meaning: "prepare at start instead of at the first request"},
			{Name: "threads", Type: typeInt, Default: "one a core", Meaning: "threads of the engine; by default one for each physical core"},
			{Name: "on_miss", Type: typeString, Default: "wait", Meaning: "wait, pending or fail, when a request finds the slot not resident"},
			{Name: "queue", Type: typeInt, Default: "64", Meaning: "requests that may wait for a sequence"},
			{Name: "deadline", Type: typeDuration, Default: "5m", Meaning: "longest time for one request"},
			{Name: "pin", Type: typeBool, Default: "false", Meaning: "never evict to make room for another slot"},
			{Name: "idle_ttl", Type: typeDuration, Default: "never", Meaning: "evict that long after the end of the last request; the host buffer is kept"},
			{Name: "replicas", Type: typeInt, Default: "1", Meaning: "processes of the same identity, named NAME/0, NAME/1 and so on; a request for NAME goes to the one that suits best"},
			{Name: "memory_max", Type: typeSize, Default: "none", Meaning: "cgroup limit of the worker", Later: true},
			{Name: "gpu_layers", Type: typeInt, Default: "all", Meaning: "layers that the GPU computes, only with device = \"cuda:N\"; the others stay in host memory"},
		}, Blocks: []Block{
			{Name: "context", Meaning: "the context of each sequence", Keys: []Key{
				{Name: "tokens", Type: typeInt, Default: "the model's trained length", Meaning: "tokens per sequence; KV memory is tokens × parallel"},
				{Name: "parallel", Type: typeInt, Default: "1", Meaning: "sequences that run at the same time"},
				{Name: "page", Type: typeInt, Default: "64", Meaning: "tokens of one context page, a power of two"},
				{Name: "kv_type", Type: typeString, Default: "f16", Meaning: "type of KV memory: f16, f32, bf16, q8_0"},
				{Name: "prefill_chunk", Type: typeInt, Default: "512", Meaning: "most prompt tokens computed in one step"},
			}},
			{Name: "pages", Meaning: "reuse of context pages", Keys: []Key{
				{Name: "host", Type: typeSize, Default: "512MiB", Meaning: "budget of the host tier"},
				{Name: "disk", Type: typeSize, Default: "none", Meaning: "limit of the disk tier in the state folder, which restarts survive"},
				{Name: "reuse", Type: typeString, Default: "fast", Meaning: "fast recomputes one token of a known prompt; exact gives the logits of a cold run to the bit and needs pages of 64 tokens or more"},
				{Name: "salt", Type: typeString, Default: "none", Meaning: "keeps the slot's pages apart from those under other salts"},
			}},
			{Name: "adapter", Many: true, Meaning: "a LoRA adapter; several are applied in the order in which they stand", Keys: []Key{
				{Name: "path", Type: typeString, Required: true, Meaning: "GGUF file of the adapter, relative to this file's folder"},
				{Name: "scale", Type: typeReal, Default: "1", Meaning: "how strongly it is applied, from -100 to 100 and not 0"},
				{Name: "sha256", Type: typeString, Default: "not checked", Meaning: "digest of the file; another one keeps the slot empty"},
			}},
			{Name: "restart", Meaning: "restarts of a worker that ended by itself", Keys: []Key{
				{Name: "attempts", Type: typeInt, Default: "3", Meaning: "restarts within an interval; the end after them makes the process failed"},
				{Name: "interval", Type: typeDuration, Default: "2m", Meaning: "window of the attempts, which the first end opens; longer than all their delays"},
				{Name: "delay", Type: typeDuration, Default: "500ms", Meaning: "wait before the first restart, doubled for each further one and varied by a quarter"},
				{Name: "max_delay", Type: typeDuration, Default: "30s", Meaning: "longest wait"},
				{Name: "mode", Type: typeString, Default: "delay", Meaning: "once the attempts are used up: delay rests until the interval is over, fail until somebody restarts the slot"},
			}},
		}},
		{Name: "alias", Label: "name", Many: true, Meaning: "a further name for one slot", Keys: []Key{
			{Name: "slot", Type: typeSlot, Required: true, Meaning: "the slot, such as slot.story"},
		}},
		{Name: "locals", Meaning: "values used as local.NAME", Many: true},
	}}
}
