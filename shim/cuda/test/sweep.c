/* SPDX-License-Identifier: Apache-2.0
 * Every call of the driver's that a snapshot takes fails once: the checkpoint is given up, or made with
 * host memory in its place, or its reader is told; the program runs on with its data, and the next
 * checkpoint is good. */
#include <stdlib.h>
#include <unistd.h>

#include "common/test/tap.h"
#include "shim/cuda/test/link_agent.h"
#include "shim/test/cuda_data.h"

#define SUM (3 << 20)
#define ERROR 999 /* CUDA_ERROR_UNKNOWN */

static uint32_t value;
static char text[1024];

static bool drain(struct cuda_rank *r, uint64_t seq)
{
	cuda_link_ask_drain(&r->cuda, seq, WAIT_MS, WAIT_MS);
	return cuda_hear(r, WAIT_MS, &value, text) == GCK_LINK_CUDA_DRAINED && value == 0;
}

static bool resume(struct cuda_rank *r, uint64_t seq, struct cuda_data *d)
{
	cuda_data_open(d);
	cuda_data_give(d, &r->cuda, GCK_LINK_CUDA_RESUME, seq);
	return cuda_hear(r, WAIT_MS, &value, text) == GCK_LINK_CUDA_RESUMED && value == 0;
}

/* Whatever becomes of this checkpoint: it is said, and no more. */
static bool first(struct cuda_rank *r, char outcome[300])
{
	struct cuda_data d = {.n = 0};
	bool good = true;

	if (!drain(r, 1)) {
		snprintf(outcome, 300, "refused: %.200s", text);
		return value != 0;
	}
	if (!resume(r, 1, &d)) {
		good = false;
	} else if (!cuda_data_list(&d) || !cuda_data_read(&d)) {
		good = d.value && d.why[0];
		snprintf(outcome, 300, "not read: %.199s", d.why);
	} else {
		good = cuda_rank_has(r, &d);
		snprintf(outcome, 300, "%s", d.n ? "read" : "in host memory");
	}
	cuda_data_free(&d);
	return good;
}

/* refused: no checkpoint can be taken any more, since the driver would lose the process. */
static void one(const char *name, int nth, bool refused)
{
	struct cuda_rank r;
	struct cuda_data d;
	char rule[100], outcome[300] = "lost";

	snprintf(rule, sizeof rule, "%s:%d=%d", name, nth, ERROR);
	cuda_rank_start(&r, rule);
	r.cuda.keep = 1;
	ok(first(&r, outcome), "%s: %s", rule, outcome);
	is_int(cuda_tell(&r, "sum"), SUM, "the program has its data");
	if (refused) {
		ok(!drain(&r, 2) && value, "the next checkpoint is refused: %s", text);
		is_int(cuda_tell(&r, "sum"), SUM, "the program has its data");
		cuda_rank_end(&r);
		return;
	}
	ok(drain(&r, 2) && resume(&r, 2, &d), "the next checkpoint is good: %s", text);
	ok(cuda_data_list(&d) && cuda_data_read(&d) && cuda_rank_has(&r, &d), "and is read: %s", d.why);
	cuda_data_free(&d);
	is_int(cuda_tell(&r, "sum"), SUM, "the program has its data");
	cuda_rank_end(&r);
}

/* From the first call after cuda_rank's init; but for those by which the rank itself comes back, which
 * cuda_failures has. */
static const struct {
	const char *name;
	int from, to;
	bool refused;
} calls[] = {
	{"cuMemGetInfo_v2", 2, 2}, {"cuMemCreate", 2, 2}, {"cuMemExportToShareableHandle", 2, 2},
	{"cuMemMap", 2, 2}, {"cuMemMap", 4, 4}, {"cuMemSetAccess", 2, 2}, {"cuMemSetAccess", 4, 4},
	{"cuStreamCreate", 2, 2}, {"cuMemcpyDtoDAsync_v2", 1, 1}, {"cuStreamSynchronize", 1, 2},
	{"cuStreamDestroy_v2", 1, 2}, {"cuMemUnmap", 1, 2}, {"cuMemUnmap", 3, 3, true},
	{"cuMemRelease", 1, 2},
	{"cuMemImportFromShareableHandle", 2, 2}, {"cuCtxGetStreamPriorityRange", 1, 1},
	{"cuStreamCreateWithPriority", 1, 1}, {"cuEventCreate", 2, 5}, {"cuMemHostRegister_v2", 1, 1},
	{"cuMemcpyDtoHAsync_v2", 1, 1}, {"cuEventRecord", 1, 1}, {"cuEventQuery", 2, 3},
	{"cuEventDestroy_v2", 1, 3}, {"cuMemHostUnregister", 1, 1}, {"cuCtxPushCurrent_v2", 1, 4},
};

int main(void)
{
	setenv("GPUCKPT_CUDA_LIBRARY", GCK_TEST_DRIVER, 1);
	setenv("FAKE_CUDA_MEMORY", "2048", 1);
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		for (int nth = calls[i].from; nth <= calls[i].to; nth++)
			one(calls[i].name, nth, calls[i].refused);
	}
	return tap_done();
}
