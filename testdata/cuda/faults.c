// How tests reach the stand-in: by functions when they are in the process, by the
// environment (FIRSTFRAME_STANDIN) or a file named faults beside the library when
// it is another program. Both hold words like oom_host=3. report=FILE has the counts
// written whenever a context is released: Go programs end without destructors.
#define _GNU_SOURCE
#include "driver.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

long long fault[FAULTS], count[COUNTS];

static const char *const fault_names[FAULTS] = {
	"devices", "init", "memory", "pageable_rate", "pinned_rate", "oom_device", "oom_host", "refuse_pinning",
	"refuse_register", "read_only", "fail_free_host", "lost_copy", "lost_code", "refuse_uuid",
};

static const char *const count_names[COUNTS] = {
	"live_device", "live_host", "live_registered", "bytes_device", "bytes_host", "bytes_registered",
	"live_contexts", "live_streams", "live_events", "bad_frees", "out_of_bounds", "without_context", "not_portable",
	"copies", "pinned_copies",
};

static char report[PATH_MAX]; // where the counts are written when a context is released

void faults_default(void) {
	memset(fault, 0, sizeof fault);
	fault[DEVICES] = 1;
	fault[MEMORY] = 8LL << 30;
	fault[PAGEABLE_RATE] = 6000000000;
	fault[PINNED_RATE] = 24000000000;
	fault[LOST_CODE] = CUDA_ERROR_ECC_UNCORRECTABLE;
}

// standin_set turns a switch; 0 when there is none of that name.
int standin_set(const char *name, long long value) {
	for (int i = 0; i < FAULTS; i++)
		if (strcmp(name, fault_names[i]) == 0) {
			fault[i] = value;
			return 1;
		}
	return 0;
}

// standin_count reads a count; -1 when there is none of that name.
long long standin_count(const char *name) {
	for (int i = 0; i < COUNTS; i++)
		if (strcmp(name, count_names[i]) == 0) return count[i];
	return -1;
}

static void words(char *text) {
	for (char *rest, *word = strtok_r(text, " ,\n", &rest); word != NULL; word = strtok_r(NULL, " ,\n", &rest)) {
		char *value = strchr(word, '=');
		if (value != NULL) *value++ = 0;
		if (value != NULL && strcmp(word, "report") == 0) {
			snprintf(report, sizeof report, "%s", value);
		} else if (value == NULL || !standin_set(word, atoll(value))) {
			fprintf(stderr, "the stand-in for the CUDA driver has no switch %s\n", word);
			abort();
		}
	}
}

void faults_read(void) {
	char text[4096] = "";
	faults_default();
	const char *environment = getenv("FIRSTFRAME_STANDIN");
	if (environment != NULL) {
		snprintf(text, sizeof text, "%s", environment);
	} else {
		Dl_info self;
		char path[PATH_MAX], beside[PATH_MAX + 8];
		if (dladdr((void *)faults_read, &self) == 0 || realpath(self.dli_fname, path) == NULL) return;
		snprintf(beside, sizeof beside, "%s/faults", dirname(path));
		FILE *file = fopen(beside, "r");
		if (file == NULL) return;
		text[fread(text, 1, sizeof text - 1, file)] = 0;
		fclose(file);
	}
	words(text);
}

void faults_report(void) {
	FILE *file = report[0] == 0 ? NULL : fopen(report, "w");
	if (file == NULL) return;
	for (int i = 0; i < COUNTS; i++) fprintf(file, "%s %lld\n", count_names[i], count[i]);
	fclose(file);
}
