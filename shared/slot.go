package shared

import "time"

// EngineVersion is the one engine version that this build works with. It is
// part of LayoutRevision, and a worker refuses a library that reports another.
const EngineVersion = "0.5.0"

// SlotSpec is the declaration of one slot as the worker and the supervisor need it.
type SlotSpec struct {
	SlotID            string
	Model             string
	ModelPath         string
	DeclaredSHA256    string // hex without prefix; empty when not declared
	DeclaredPrecision string // empty when not declared
	Device            string
	Transfer          Transfer
	ContextTokens     int // per sequence
	Parallel          int
	PageTokens        int
	KVType            string
	PrefillChunk      int
	Threads           int
	Preload           bool
	OnMiss            OnMiss
	// PagesHost is the budget of the host tier of context pages in bytes, 0
	// meaning 512 MiB, and PagesDisk that of the disk tier, 0 meaning none.
	PagesHost int64
	PagesDisk int64
	Reuse     Reuse // empty means fast
	// PagesSalt keeps the slot's pages apart from those of other salts.
	PagesSalt string
	Queue     int           // requests that wait for a sequence; 0 means the default
	Deadline  time.Duration // of a request without one; 0 means the default
	// Pin keeps the slot from being evicted to make room for another one.
	Pin bool
	// IdleTTL is how long after its last use the slot is evicted; 0 means never.
	IdleTTL time.Duration
	Restart RestartPolicy // the zero value means the supervisor's own
	// ReplicaOf is the name that this slot was declared under, together with
	// others; empty for a slot that is the only one of its declaration.
	ReplicaOf string
	// Adapters are applied to the model in this order.
	Adapters []AdapterSpec
	// GPULayers is how many layers a device apart from the CPU computes; 0 means all.
	GPULayers int
	// DeviceKind is the Kind of such a device. Declarations leave it empty: whoever
	// has asked the device fills it in.
	DeviceKind string
}

// OnCPU says whether the slot needs no other device.
func (s SlotSpec) OnCPU() bool { return IsCPU(s.Device) }

// IsCPU reports whether the name of a device, or none, means the CPU.
func IsCPU(device string) bool { return device == "" || device == CPUDevice }

// RestartMode says what happens when the restarts of an interval are used up.
type RestartMode string

// The restart modes.
const (
	// RestartDelay waits until the interval is over and begins anew.
	RestartDelay RestartMode = "delay"
	// RestartFail waits until somebody restarts the slot.
	RestartFail RestartMode = "fail"
)

// RestartPolicy says how often a worker process that ended by itself is started
// again.
type RestartPolicy struct {
	// Attempts is how many restarts are made within an interval, which begins
	// with the first end.
	Attempts int
	Interval time.Duration
	// Delay is the wait before the first restart of an interval. It is doubled
	// for each one after it, up to MaxDelay, and varies by a quarter.
	Delay    time.Duration
	MaxDelay time.Duration
	Mode     RestartMode
}

// DefaultRestart is the policy of a slot that declares none.
func DefaultRestart() RestartPolicy {
	return RestartPolicy{Attempts: 3, Interval: 2 * time.Minute, Delay: 500 * time.Millisecond, MaxDelay: 30 * time.Second, Mode: RestartDelay}
}

// Longest is the time that the waits of all attempts take at most, without the
// attempts themselves. A policy whose interval is shorter never runs out.
func (p RestartPolicy) Longest() time.Duration {
	var sum time.Duration
	d := min(p.Delay, p.MaxDelay)
	for range p.Attempts {
		sum += d + d/4
		if sum > p.Interval {
			break
		}
		d = min(2*d, p.MaxDelay)
	}
	return sum
}

// Reuse says how much of a prompt may come from context pages.
type Reuse string

// The ways to reuse.
const (
	// ReuseFast computes only what no page covers, at least the last token.
	ReuseFast Reuse = "fast"
	// ReuseExact takes whole pages only and computes in chunks of whole pages, so
	// that a hit gives the same logits as a cold run, to the bit.
	ReuseExact Reuse = "exact"
)

// PageTier is what one tier of context pages holds.
type PageTier struct {
	Pages int
	Bytes int64
}

// PageStats is a slot's account of its context pages, counted since its host
// buffer was filled.
type PageStats struct {
	// Off says why no pages are kept; empty when they are.
	Off string
	// Device is what sequences hold, by the engine's own count: running ones, and
	// idle ones that a request may go on from.
	Device PageTier
	Host   PageTier
	Disk   PageTier
	// IdleTokens of those on the device give way to the next request.
	IdleTokens int64
	// Prompt tokens that a sequence still held, restored from host memory or from
	// disk, missed by reason, computed although a page covered them, and computed
	// at all.
	HitDeviceTokens  int64
	HitHostTokens    int64
	HitDiskTokens    int64
	MissTokens       map[string]int64
	RecomputedTokens int64
	PrefilledTokens  int64
}

// SlotLoad is what runs on a resident slot.
type SlotLoad struct {
	SequencesRunning int
	SequencesWaiting int
	KVTokensUsed     int64
	KVTokensTotal    int64
	Pages            PageStats
}

// PrefetchPlan says what a prefetch is about to do. It is legal only from the
// statuses empty and evicting.
type PrefetchPlan struct {
	ModelRevision string
	SlotID        string
	HostBufferID  string
	TargetDevice  string
	ByteCount     int64
}

// Progress is how far a preparation has come. Stages are drain, spawn, digest, read,
// transfer, warmup and canary.
type Progress struct {
	Stage      string
	DoneBytes  int64
	TotalBytes int64
}

// SlotInfo is what everybody may know of a slot.
type SlotInfo struct {
	SlotID         string
	Model          string
	ModelPath      string
	Identity       Identity
	Status         SlotStatus
	Process        ProcessState
	PID            int
	Restarts       int
	HostBufferID   string
	DeviceBufferID string
	LastError      string
	Device         string
	Transfer       Transfer
	Pinned         bool
	PinNote        string
	HostBytes      int64
	DeviceBytes    int64
	ContextTokens  int
	Parallel       int
	InFlight       int
	Progress       Progress
	OnMiss         OnMiss
	LogTail        []string
	// Load is as of the last look at the worker, a moment ago at most.
	Load SlotLoad
	// Exit is how the last process that ended by itself did so, such as
	// "signal aborted".
	Exit string
	// RetryAfter is when the next process is started, while there is none because
	// earlier ones ended; 0 when none will be.
	RetryAfter time.Duration
	Pin        bool
	ReplicaOf  string
	// What the slot holds of the budgets: reserved bytes until they are measured.
	HostHeld   int64
	DeviceHeld int64
	// ResidentBytes is the memory that the system counts for the process.
	ResidentBytes int64
	// Adapters are those of the slot, with what is known of their files.
	Adapters []AdapterInfo
	// File is zero until the model file's header has been read.
	File ModelFile
	// DeviceInfo is the device, when it is another than the CPU and is known.
	DeviceInfo DeviceInfo
	// Probe is what the copies to it were measured to cost, and TransferReason why
	// the slot got its transfer; both are empty unless the transfer was to be chosen.
	Probe          TransferProbe
	TransferReason string
}

// ModelFile is what the header of a slot's model file tells about the model.
type ModelFile struct {
	Architecture    string
	Parameters      int64 // weights, whatever their type
	Bytes           int64
	TrainedTokens   int // the longest context the model was made for; 0 when the file does not say
	EmbeddingLength int
	// Template says whether the file has a chat template, and Tools whether the
	// calls that this template asks for can be read.
	Template bool
	Tools    bool
	// ModifiedUnixNS is when the file was written last, in nanoseconds since 1970.
	ModifiedUnixNS int64
	// Thinking says that the chat template marks that by which the model thinks.
	Thinking bool
}

// HostDevice is the name of host memory among the budgets, CPUDevice that of the
// device that every machine has.
const (
	HostDevice = "host"
	CPUDevice  = "cpu"
)

// BudgetUse is one budget and how much of it is held.
type BudgetUse struct {
	Device string // HostDevice or the name of a device
	Limit  int64  // 0 means none
	Held   int64
}

// SlotList is all slots in declaration order, the aliases and the budgets.
type SlotList struct {
	Slots   []SlotInfo
	Aliases map[string]string
	Budgets []BudgetUse
}
