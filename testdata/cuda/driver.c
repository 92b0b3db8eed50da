// A stand-in for the CUDA driver, libcuda.so.1, for machines without a GPU. What
// firstframe uses of the driver works here in host memory, under the driver's
// rules; the rest is in unsupported.c.
//
// Copies take no time: each stream has a clock that a copy moves by its size over
// the bandwidth of its kind, and events read that clock.
#include "driver.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct CUctx_st { int device, retained; };
struct CUstream_st { double ns; };
struct CUevent_st { double ns; int recorded; };

enum kind { DEVICE, HOST, REGISTERED };

struct block {
	struct block *next;
	enum kind kind;
	char *at;
	size_t bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks;
static struct CUctx_st contexts[MAX_DEVICES];
static __thread CUcontext current;
static int ready, lost;

#define ENTER() pthread_mutex_lock(&lock)
#define LEAVE(code) do { CUresult left = (code); pthread_mutex_unlock(&lock); return left; } while (0)

// standing is what every call that needs a context begins with.
static CUresult standing(void) {
	if (!ready) return CUDA_ERROR_NOT_INITIALIZED;
	if (lost) return lost;
	if (current == NULL || current->retained == 0) {
		count[WITHOUT_CONTEXT]++;
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	return CUDA_SUCCESS;
}

// due tells whether the n-th call of its kind has come that a switch names.
static int due(enum fault f) {
	return fault[f] > 0 && --fault[f] == 0;
}

static struct block **find(enum kind kind, const void *at) {
	struct block **b = &blocks;
	while (*b != NULL && ((*b)->kind != kind || (*b)->at != (const char *)at)) b = &(*b)->next;
	return b;
}

// inside tells whether a block of a kind holds all of a range.
static int inside(enum kind kind, const void *at, size_t bytes) {
	const char *p = at;
	for (struct block *b = blocks; b != NULL; b = b->next)
		if (b->kind == kind && p >= b->at && bytes <= b->bytes && p - b->at <= (ptrdiff_t)(b->bytes - bytes)) return 1;
	return 0;
}

static void add(enum kind kind, void *at, size_t bytes) {
	struct block *b = calloc(1, sizeof *b);
	*b = (struct block){.next = blocks, .kind = kind, .at = at, .bytes = bytes};
	blocks = b;
	count[LIVE_DEVICE + kind]++;
	count[BYTES_DEVICE + kind] += (long long)bytes;
}

// take removes a block; its memory is the caller's again.
static CUresult take(enum kind kind, void *at, CUresult unknown) {
	struct block **b = find(kind, at), *old = *b;
	if (old == NULL) {
		count[BAD_FREES]++;
		return unknown;
	}
	count[LIVE_DEVICE + kind]--;
	count[BYTES_DEVICE + kind] -= (long long)old->bytes;
	*b = old->next;
	free(old);
	return CUDA_SUCCESS;
}

// What the driver is and has.

CUresult cuInit(unsigned flags) {
	ENTER();
	if (!ready) faults_read();
	if (flags != 0) LEAVE(CUDA_ERROR_INVALID_VALUE);
	if (fault[INIT] != 0) LEAVE((CUresult)fault[INIT]);
	if (fault[DEVICES] <= 0) LEAVE(CUDA_ERROR_NO_DEVICE);
	ready = 1;
	for (int i = 0; i < MAX_DEVICES; i++) contexts[i].device = i;
	LEAVE(CUDA_SUCCESS);
}

CUresult cuDriverGetVersion(int *version) {
	*version = 12040;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *n) {
	ENTER();
	if (!ready) LEAVE(CUDA_ERROR_NOT_INITIALIZED);
	*n = (int)fault[DEVICES];
	LEAVE(CUDA_SUCCESS);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
	ENTER();
	if (!ready) LEAVE(CUDA_ERROR_NOT_INITIALIZED);
	if (ordinal < 0 || ordinal >= fault[DEVICES]) LEAVE(CUDA_ERROR_INVALID_DEVICE);
	*device = ordinal;
	LEAVE(CUDA_SUCCESS);
}

CUresult cuDeviceGetName(char *name, int len, CUdevice device) {
	static const char text[] = "Stand-in for a GPU";
	if (device < 0 || device >= MAX_DEVICES || len < (int)sizeof text) return CUDA_ERROR_INVALID_VALUE;
	memcpy(name, text, sizeof text);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
	if (fault[REFUSE_UUID]) return CUDA_ERROR_NOT_SUPPORTED;
	for (int i = 0; i < 16; i++) uuid->bytes[i] = (char)(i * 16 + device);
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
	(void)device;
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; break;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = 0; break;
	default: return CUDA_ERROR_NOT_SUPPORTED;
	}
	return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) {
	(void)device;
	*bytes = (size_t)fault[MEMORY];
	return CUDA_SUCCESS;
}

CUresult cuMemGetInfo(size_t *free, size_t *total) {
	ENTER();
	CUresult bad = standing();
	if (bad) LEAVE(bad);
	*total = (size_t)fault[MEMORY];
	*free = *total - (size_t)count[BYTES_DEVICE];
	LEAVE(CUDA_SUCCESS);
}

// Contexts: the primary one of each device.

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
	ENTER();
	if (!ready) LEAVE(CUDA_ERROR_NOT_INITIALIZED);
	if (device < 0 || device >= fault[DEVICES]) LEAVE(CUDA_ERROR_INVALID_DEVICE);
	if (lost) LEAVE(lost);
	contexts[device].retained++;
	count[LIVE_CONTEXTS]++;
	*context = &contexts[device];
	LEAVE(CUDA_SUCCESS);
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
	ENTER();
	if (device < 0 || device >= MAX_DEVICES || contexts[device].retained == 0) LEAVE(CUDA_ERROR_INVALID_CONTEXT);
	contexts[device].retained--;
	count[LIVE_CONTEXTS]--;
	faults_report();
	LEAVE(CUDA_SUCCESS);
}

CUresult cuCtxSetCurrent(CUcontext context) {
	current = context;
	return CUDA_SUCCESS;
}

// Memory.

CUresult cuMemAlloc(CUdeviceptr *at, size_t bytes) {
	ENTER();
	CUresult bad = standing();
	if (bad) LEAVE(bad);
	if (bytes == 0) LEAVE(CUDA_ERROR_INVALID_VALUE);
	if (due(OOM_DEVICE) || count[BYTES_DEVICE] + (long long)bytes > fault[MEMORY]) LEAVE(CUDA_ERROR_OUT_OF_MEMORY);
	void *p = malloc(bytes);
	if (p == NULL) LEAVE(CUDA_ERROR_OUT_OF_MEMORY);
	add(DEVICE, p, bytes);
	*at = (CUdeviceptr)p;
	LEAVE(CUDA_SUCCESS);
}

CUresult cuMemFree(CUdeviceptr at) {
	ENTER();
	CUresult bad = standing();
	if (!bad) bad = take(DEVICE, (void *)at, CUDA_ERROR_INVALID_VALUE);
	if (!bad) free((void *)at);
	LEAVE(bad);
}

CUresult cuMemHostAlloc(void **at, size_t bytes, unsigned flags) {
	ENTER();
	CUresult bad = standing();
	if (bad) LEAVE(bad);
	if (bytes == 0) LEAVE(CUDA_ERROR_INVALID_VALUE);
	if (!(flags & CU_MEMHOSTALLOC_PORTABLE)) count[NOT_PORTABLE]++;
	if (fault[REFUSE_PINNING] || due(OOM_HOST)) LEAVE(CUDA_ERROR_OUT_OF_MEMORY);
	if (posix_memalign(at, 4096, bytes) != 0) LEAVE(CUDA_ERROR_OUT_OF_MEMORY);
	add(HOST, *at, bytes);
	LEAVE(CUDA_SUCCESS);
}

CUresult cuMemFreeHost(void *at) {
	ENTER();
	CUresult bad = standing();
	if (!bad && due(FAIL_FREE_HOST)) bad = CUDA_ERROR_UNKNOWN;
	if (!bad) bad = take(HOST, at, CUDA_ERROR_INVALID_VALUE);
	if (!bad) free(at);
	LEAVE(bad);
}

CUresult cuMemHostRegister(void *at, size_t bytes, unsigned flags) {
	ENTER();
	CUresult bad = standing();
	if (bad) LEAVE(bad);
	if (bytes == 0) LEAVE(CUDA_ERROR_INVALID_VALUE);
	if (!(flags & CU_MEMHOSTREGISTER_PORTABLE)) count[NOT_PORTABLE]++;
	if (fault[REFUSE_REGISTER]) LEAVE(CUDA_ERROR_NOT_PERMITTED);
	if (fault[READ_ONLY] && !(flags & CU_MEMHOSTREGISTER_READ_ONLY)) LEAVE(CUDA_ERROR_INVALID_VALUE);
	if (inside(REGISTERED, at, 1) || inside(HOST, at, 1)) LEAVE(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	add(REGISTERED, at, bytes);
	LEAVE(CUDA_SUCCESS);
}

CUresult cuMemHostUnregister(void *at) {
	ENTER();
	CUresult bad = standing();
	if (!bad) bad = take(REGISTERED, at, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	LEAVE(bad);
}

// Copies. A device that is lost in the middle of one has got half of it, and says
// so when the stream is waited for.

static CUresult copy(void *to, const void *from, size_t bytes, const void *device, const void *host, CUstream stream) {
	ENTER();
	CUresult bad = standing();
	if (bad) LEAVE(bad);
	if (!inside(DEVICE, device, bytes)) {
		count[OUT_OF_BOUNDS]++;
		LEAVE(CUDA_ERROR_INVALID_VALUE);
	}
	count[COPIES]++;
	if (due(LOST_COPY)) {
		memcpy(to, from, bytes / 2);
		lost = (int)fault[LOST_CODE];
		LEAVE(stream != NULL ? CUDA_SUCCESS : lost);
	}
	memcpy(to, from, bytes);
	int pinned = inside(HOST, host, bytes) || inside(REGISTERED, host, bytes);
	count[PINNED_COPIES] += pinned;
	if (stream != NULL) stream->ns += (double)bytes * 1e9 / (double)fault[pinned ? PINNED_RATE : PAGEABLE_RATE];
	LEAVE(CUDA_SUCCESS);
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
	return copy((void *)to, from, bytes, (void *)to, from, NULL);
}

CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) {
	return copy(to, (void *)from, bytes, (void *)from, to, NULL);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
	return copy((void *)to, from, bytes, (void *)to, from, stream);
}

CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
	return copy(to, (void *)from, bytes, (void *)from, to, stream);
}

// Streams and events.

CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
	(void)flags;
	ENTER();
	CUresult bad = standing();
	if (bad) LEAVE(bad);
	*stream = calloc(1, sizeof **stream);
	count[LIVE_STREAMS]++;
	LEAVE(CUDA_SUCCESS);
}

CUresult cuStreamSynchronize(CUstream stream) {
	(void)stream;
	ENTER();
	LEAVE(standing());
}

CUresult cuStreamDestroy(CUstream stream) {
	ENTER();
	if (lost) LEAVE(lost);
	free(stream);
	count[LIVE_STREAMS]--;
	LEAVE(CUDA_SUCCESS);
}

CUresult cuEventCreate(CUevent *event, unsigned flags) {
	(void)flags;
	ENTER();
	CUresult bad = standing();
	if (bad) LEAVE(bad);
	*event = calloc(1, sizeof **event);
	count[LIVE_EVENTS]++;
	LEAVE(CUDA_SUCCESS);
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
	ENTER();
	CUresult bad = standing();
	if (bad) LEAVE(bad);
	event->ns = stream->ns;
	event->recorded = 1;
	LEAVE(CUDA_SUCCESS);
}

CUresult cuEventSynchronize(CUevent event) {
	(void)event;
	ENTER();
	LEAVE(standing());
}

CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to) {
	ENTER();
	CUresult bad = standing();
	if (bad) LEAVE(bad);
	if (!from->recorded || !to->recorded) LEAVE(CUDA_ERROR_INVALID_HANDLE);
	*ms = (float)((to->ns - from->ns) / 1e6);
	LEAVE(CUDA_SUCCESS);
}

CUresult cuEventDestroy(CUevent event) {
	ENTER();
	if (lost) LEAVE(lost);
	free(event);
	count[LIVE_EVENTS]--;
	LEAVE(CUDA_SUCCESS);
}

// standin_reset forgets what a test has left, so that the next one starts with
// a driver that was just initialised. Streams and events stay allocated: who has
// them may still hold them.
void standin_reset(void) {
	pthread_mutex_lock(&lock);
	while (blocks != NULL) {
		struct block *b = blocks;
		blocks = b->next;
		if (b->kind != REGISTERED) free(b->at);
		free(b);
	}
	for (int i = 0; i < MAX_DEVICES; i++) contexts[i].retained = 0;
	lost = 0;
	faults_default();
	memset(count, 0, sizeof count);
	pthread_mutex_unlock(&lock);
}
