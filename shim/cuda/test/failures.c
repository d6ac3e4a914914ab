/* SPDX-License-Identifier: Apache-2.0
 * Calls of the driver fail during a drain: the checkpoint is given up, the rank runs on as before,
 * and the next checkpoint succeeds. If the GPU is lost, the rank reports it and its program does
 * not go on. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "shim/cuda/test/link_agent.h"
#include "test/support/tap.h"

#define SUM (3 << 20)

static int drain(struct cuda_rank *r, uint64_t seq)
{
	cuda_link_ask_drain(&r->cuda, seq, 3000, 20000);
	return cuda_hear(r, WAIT_MS);
}

/* The result of a checkpoint and of the next one. */
enum outcome {
	RETRIED,  /* an attempt to close the gate failed, a later attempt succeeded */
	REFUSED,  /* given up, and the next one succeeds */
	FOR_GOOD, /* given up, and so is the next one */
};

static void one(const char *rule, enum outcome outcome)
{
	struct cuda_rank r;

	cuda_rank_start(&r, rule);
	is_int(drain(&r, 1), GCK_LINK_CUDA_DRAINED, rule);
	ok((value == 0) == (outcome == RETRIED), "%s: %s", value ? "given up" : "drained", text);
	if (value == 0)
		cuda_resume(&r, 1, NULL);
	is_int((long long)cuda_state(&r).drained_for, 0, "its state forbids an image");
	is_int(cuda_tell(&r, "sum"), SUM, "the program goes on");
	is_int(cuda_tell(&r, "stack"), 1024, "its context has the limit that it had");
	drain(&r, 2);
	ok((value == 0) == (outcome != FOR_GOOD), "the next drain is %s: %s",
	   value ? "given up too" : "drained", text);
	if (value == 0)
		ok(cuda_resume(&r, 2, NULL), "the rank resumes");
	is_int(cuda_tell(&r, "sum"), SUM, "the program has its data");
	cuda_rank_end(&r);
}

/* A failure while managed memory leaves the device, or after it has left. */
static void one_with_managed(const char *rule)
{
	struct cuda_rank r;

	cuda_rank_start(&r, rule);
	is_int(cuda_tell(&r, "model") | cuda_tell(&r, "steps"), 0, rule);
	ok(all_of(drain(&r, 1) == GCK_LINK_CUDA_DRAINED, value), "the drain is given up: %s", text);
	is_int(cuda_tell(&r, "steps"), 0, "the program goes on");
	ok(all_of(drain(&r, 2) == GCK_LINK_CUDA_DRAINED, !value, cuda_resume(&r, 2, NULL)),
	   "the next drain succeeds: %s", text);
	is_int(cuda_tell(&r, "steps") | cuda_tell(&r, "model ends"), 0, "no data is lost");
	cuda_rank_end(&r);
}

/* Stream-ordered memory: what was freed has no owner by then, and the rest keeps its contents. */
static void one_in_order(const char *rule)
{
	struct cuda_rank r;

	cuda_rank_start(&r, rule);
	is_int(cuda_tell(&r, "order") | cuda_tell(&r, "order steps"), 0, rule);
	ok(all_of(drain(&r, 1) == GCK_LINK_CUDA_DRAINED, value), "the drain is given up: %s", text);
	is_int(cuda_tell(&r, "order steps"), 0, "the program goes on");
	ok(all_of(drain(&r, 2) == GCK_LINK_CUDA_DRAINED, !value, cuda_resume(&r, 2, NULL)),
	   "the next drain succeeds: %s", text);
	is_int(cuda_tell(&r, "order steps") | cuda_tell(&r, "order ends"), 0, "no data is lost");
	cuda_rank_end(&r);
}

/* The program waits at the gate, and each agent that connects gets the reason. */
static void is_lost(struct cuda_rank *r)
{
	cuda_begin(r, "query");
	is_int(cuda_answer(r, 200), -1000, "the program does not go on");
	ok(all_of(cuda_accept(r, WAIT_MS), r->cuda.hello.restored),
	   "the HELLO of a new link says that the GPU is not back");
	ok(all_of(cuda_hear(r, WAIT_MS) == GCK_LINK_CUDA_RESUMED, value),
	   "the rank reports again that the GPU is lost: %s", text);
	ok(all_of(drain(r, 3) == GCK_LINK_CUDA_RESUMED, value),
	   "it does so in answer to a drain: %s", text);
	is_int(cuda_answer(r, 200), -1000, "the drain lets no call through");
	kill(r->rank.pid, SIGKILL);
	cuda_rank_end(r);
}

static void lost(const char *rule, const char *word)
{
	struct cuda_rank r;

	cuda_rank_start(&r, rule);
	is_int(cuda_tell(&r, word), 0, word);
	ok(all_of(drain(&r, 1) == GCK_LINK_CUDA_DRAINED, !value), "drained; %s comes next",
	   rule);
	ok(all_of(!cuda_resume(&r, 1, NULL), value), "the rank reports that the GPU is lost: %s",
	   text);
	is_lost(&r);
}

/* One slab is unmapped already and cannot be mapped again when the other one fails. */
static void lost_in_drain(const char *rule)
{
	struct cuda_rank r;

	cuda_rank_start(&r, rule);
	cuda_tell(&r, "more");
	ok(all_of(drain(&r, 1) == GCK_LINK_CUDA_RESUMED, value), "%s: lost in the drain: %s", rule,
	   text);
	is_lost(&r);
}

/* A program that closes descriptors it does not know closes those that keep its unmapped memory. */
static void closed(int which)
{
	struct cuda_rank r;
	char word[32];

	cuda_rank_start(&r, NULL);
	snprintf(word, sizeof word, "close %d", cuda_state(&r).kept_fd[which]);
	is_int(cuda_tell(&r, word), 0, "the program closes a socket of the vault");
	ok(all_of(drain(&r, 1) == GCK_LINK_CUDA_DRAINED, value == EBADF),
	   "the drain is refused: %s", text);
	is_int(cuda_tell(&r, "sum"), SUM, "the program goes on");
	is_int(cuda_tell(&r, "more"), 0, "it can allocate more memory");
	cuda_rank_end(&r);
}

/* A program at its limit of descriptors: before its memory leaves the device, and before it
 * returns. */
static void no_descriptor(void)
{
	struct cuda_rank r;

	cuda_rank_start(&r, NULL);
	is_int(cuda_tell(&r, "limit 3"), 0, "the program is at its limit of descriptors");
	ok(all_of(drain(&r, 1) == GCK_LINK_CUDA_DRAINED, value == EMFILE,
		  strstr(text, "ulimit -n")), "the drain is refused: %s", text);
	is_int(cuda_tell(&r, "sum") | cuda_tell(&r, "limit 256"), SUM,
	       "it goes on, and its limit is raised");
	ok(all_of(drain(&r, 2) == GCK_LINK_CUDA_DRAINED, !value), "drained: %s", text);
	is_int(cuda_tell(&r, "limit 3"), 0, "it is at its limit again");
	cuda_link_say(&r.cuda, GCK_LINK_CUDA_RESUME, 2);
	is_int(cuda_hear(&r, 200), 0, "its memory does not come back");
	is_int(cuda_tell(&r, "limit 256"), 0, "its limit is raised again");
	ok(all_of(cuda_hear(&r, WAIT_MS) == GCK_LINK_CUDA_RESUMED, !value),
	   "then its memory is restored: %s", text);
	is_int(cuda_tell(&r, "sum"), SUM, "the program has its data");
	is_int(cuda_rank_end(&r), 0, "the program ends well");
}

int main(void)
{
	setenv("GPUCKPT_CUDA_LIBRARY", GCK_TEST_DRIVER, 1);
	one("cuDeviceGetCount:1=999", RETRIED);
	one("cuDevicePrimaryCtxRetain:2=999", RETRIED);
	one("cuCtxPushCurrent_v2:1=201", RETRIED);
	one("cuEventCreate:1=2", RETRIED);
	one("cuEventCreate:1+=2", FOR_GOOD);
	one("cuCtxRecordEvent:1=700", RETRIED);
	one("cuEventQuery:1=700", RETRIED);
	one("cuEventQuery:1+=700", FOR_GOOD);
	one("cuCtxGetLimit:1=1", REFUSED);
	one("cuCtxSetLimit:1=2", REFUSED);
	one("cuCheckpointProcessLock:1=600", REFUSED);
	one("cuCheckpointProcessCheckpoint:1=801", FOR_GOOD);
	one("cuStreamCreate:2=2", REFUSED);
	one("cuMemcpyDtoHAsync_v2:1=700", REFUSED);
	one("cuMemUnmap:1=1", REFUSED);
	lost_in_drain("cuMemUnmap:2=1,cuMemImportFromShareableHandle=1");
	closed(0);
	closed(1);
	no_descriptor();
	lost("cuMemImportFromShareableHandle:1=1", "query");
	lost("cuMemMap:2=2", "query");
	lost("cuCheckpointProcessRestore=801", "query");
	lost("cuCheckpointProcessUnlock=999", "query");
	lost("cuCtxSetLimit:2=2", "query");
	lost("cuMemAllocManaged:2=2", "managed");
	one_in_order("cuMemcpyDtoHAsync_v2:1=700");
	one_in_order("cuCheckpointProcessLock:1=600");
	one_with_managed("cuStreamCreate:2=2");
	one_with_managed("cuMemcpyDtoHAsync_v2:1=700");
	one_with_managed("cuCheckpointProcessLock:1=600");
	return tap_done();
}
