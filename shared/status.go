package shared

// SlotStatus says what prepared state a slot holds.
type SlotStatus string

// The five slot statuses.
const (
	SlotEmpty       SlotStatus = "empty"
	SlotPrefetching SlotStatus = "prefetching"
	SlotResident    SlotStatus = "resident"
	SlotActive      SlotStatus = "active"
	SlotEvicting    SlotStatus = "evicting"
)

// Ready reports whether a request can take a lease at once.
func (s SlotStatus) Ready() bool { return s == SlotResident || s == SlotActive }

// CanPrefetch reports whether a PrefetchPlan is legal from this status.
func (s SlotStatus) CanPrefetch() bool { return s == SlotEmpty || s == SlotEvicting }

// ProcessState says how the slot's worker process is doing. It is kept apart
// from the slot status: a slot can be empty while its process is up.
type ProcessState string

// The five process states.
const (
	ProcessStopped  ProcessState = "stopped"
	ProcessStarting ProcessState = "starting"
	ProcessUp       ProcessState = "up"
	ProcessBackoff  ProcessState = "backoff"
	ProcessFailed   ProcessState = "failed"
)

// OnMiss says what happens to a request whose slot is not resident.
type OnMiss string

// The three ways to treat a request for a slot that is not resident.
const (
	OnMissWait    OnMiss = "wait"
	OnMissPending OnMiss = "pending"
	OnMissFail    OnMiss = "fail"
)

// Transfer is a strategy that brings model bytes to the engine.
type Transfer string

// The transfer strategies.
const (
	TransferAuto     Transfer = "auto"
	TransferMmap     Transfer = "mmap"
	TransferPageable Transfer = "pageable"
	TransferPinned   Transfer = "pinned"
)
