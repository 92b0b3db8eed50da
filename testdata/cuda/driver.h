// What the files of the stand-in share: its switches and its counts.
#include <cuda.h>

#define MAX_DEVICES 8

// Switches, by the names in faults.c. Counted ones act on the n-th call from now.
enum fault {
	DEVICES,         // how many there are; with 0 the driver cannot be initialised
	INIT,            // result of cuInit
	MEMORY,          // bytes of each device
	PAGEABLE_RATE,   // bytes per second
	PINNED_RATE,
	OOM_DEVICE,      // the n-th allocation of device memory fails
	OOM_HOST,        // the n-th allocation of page-locked memory fails
	REFUSE_PINNING,  // every one does
	REFUSE_REGISTER, // nothing can be page-locked in place
	READ_ONLY,       // memory can be page-locked in place only for reading
	FAIL_FREE_HOST,  // the n-th release of page-locked memory fails
	LOST_COPY,       // the device is lost in the n-th copy
	LOST_CODE,       // what it then says
	REFUSE_UUID,     // devices do not tell theirs
	FAULTS
};

// Counts. Device, host and registered memory follow each other in this order.
enum count {
	LIVE_DEVICE, LIVE_HOST, LIVE_REGISTERED,
	BYTES_DEVICE, BYTES_HOST, BYTES_REGISTERED,
	LIVE_CONTEXTS, LIVE_STREAMS, LIVE_EVENTS,
	BAD_FREES,       // of what is not allocated
	OUT_OF_BOUNDS,   // copies that left the device's memory
	WITHOUT_CONTEXT, // calls from threads that have none
	NOT_PORTABLE,    // page-locked for one context only
	COPIES, PINNED_COPIES,
	COUNTS
};

extern long long fault[FAULTS], count[COUNTS];

void faults_default(void);
void faults_read(void);
void faults_report(void);
