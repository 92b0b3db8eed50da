package shared

// DeviceInfo says what a device apart from the CPU is. What it holds does not
// change while the machine runs.
type DeviceInfo struct {
	Name       string // as slots name it, such as cuda:0
	Model      string // as the maker calls it
	Capability string // compute capability, such as 9.0
	UUID       string
	Driver     string // version of the driver's interface, such as 12.4
	Memory     int64  // bytes in all
}

// Kind is what decides whether state computed on one device may be used on another:
// two cards of one kind under one driver are alike, whichever slot they are in.
func (d DeviceInfo) Kind() string {
	return HashFields("firstframe/device/v1", d.Model, d.Capability, d.Driver)
}

// TransferProbe is what copying from host memory to a device was measured to cost.
type TransferProbe struct {
	Points []ProbePoint // by size
	// PinBytesPerSecond is how fast memory could be page-locked; 0 when that was refused.
	PinBytesPerSecond float64
	PinNote           string // why page-locking was refused
}

// ProbePoint is one size of a TransferProbe, in bytes per second.
type ProbePoint struct {
	Bytes    int64
	Pageable float64
	Pinned   float64 // 0 when page-locking was refused
}
