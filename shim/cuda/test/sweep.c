/* SPDX-License-Identifier: Apache-2.0
 * Calls of the driver fail during a checkpoint, one in each rank. The checkpoint is given up or
 * made in another way, or its reader gets the error; the program runs on with its data, and the
 * next checkpoint succeeds. After the failure of a few functions the GPU is lost: the rank reports
 * it, and its program does not go on. A checkpoint without a failure records which functions are
 * called. By default the first call of each function fails: in the drain, and on the way back where
 * that loses the GPU or the drain does not call it. With GPUCKPT_LONG=1 the first two calls and the
 * last one fail in each phase. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shim/cuda/test/faults.h"
#include "shim/cuda/test/link_agent.h"
#include "test/support/cuda_data.h"
#include "test/support/tap.h"

#define SUM (3 << 20)

enum phase { DRAIN, BACK, NPHASES }; /* BACK: resume, and read the copy on the device */
static const char *const phases[] = {"drain", "back"};

struct outcome {
	bool lost, good; /* good: a failure was reported, and what was read is right */
	char text[400];
};

static void begin(struct cuda_rank *r)
{
	static const char *const words[] = {"odd", "forget", "model", "steps", "vmm", "vmm few"};

	cuda_rank_start(r, NULL);
	r->cuda.keep = 1;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		if (cuda_tell(r, words[i]))
			ok(false, "the program: %s", words[i]);
	}
}

static bool has_its_data(const struct cuda_rank *r)
{
	return cuda_tell(r, "sum") == SUM && cuda_tell(r, "steps") == 0 &&
	       cuda_tell(r, "vmm look") == 0;
}

/* ---- one checkpoint -------------------------------------------------------------------------- */

static void drain(struct cuda_rank *r, uint64_t seq, struct outcome *o)
{
	cuda_link_ask_drain(&r->cuda, seq, WAIT_MS, WAIT_MS);
	o->lost = cuda_hear(r, WAIT_MS) != GCK_LINK_CUDA_DRAINED;
	o->good = !value || *text;
	if (value)
		snprintf(o->text, sizeof o->text, "%s: %.300s", o->lost ? "lost" : "refused", text);
}

/* The rank frees its copy on the device after it was read, and then closes the socket. */
static void read_all(struct cuda_rank *r, struct cuda_data *d, struct outcome *o)
{
	struct gck_link_data m;

	if (cuda_data_list(d) && cuda_data_read(d)) {
		o->good = cuda_rank_has(r, d);
		snprintf(o->text, sizeof o->text, "%s", d->n ? "read" : "in host memory");
	} else {
		o->good = d->value && *d->why;
		snprintf(o->text, sizeof o->text, "not read: %.300s", d->why);
		shutdown(d->fd, SHUT_WR);
	}
	while (cuda_data_receive(d, &m))
		;
}

static void back(struct cuda_rank *r, uint64_t seq, struct outcome *o)
{
	struct cuda_data d;

	cuda_data_open(&d);
	cuda_data_give(&d, &r->cuda, GCK_LINK_CUDA_RESUME, seq);
	if (cuda_hear(r, WAIT_MS) == GCK_LINK_CUDA_RESUMED && !value) {
		read_all(r, &d, o);
	} else {
		o->lost = true;
		o->good = value && *text;
		snprintf(o->text, sizeof o->text, "lost: %.300s", text);
	}
	cuda_data_free(&d);
}

static void disarm(const struct fault *f)
{
	if (!faults_disarm() && f->nth <= FAULT_FIRST)
		ok(false, "%s, call %d: the fault was not hit", f->name, f->nth);
}

static void checkpoint(struct cuda_rank *r, uint64_t seq, enum phase in, const struct fault *f,
		       struct outcome *o)
{
	*o = (struct outcome){.lost = false};
	if (f && in == DRAIN)
		faults_arm(f);
	drain(r, seq, o);
	if (f && in == DRAIN)
		disarm(f);
	if (value)
		return;
	if (f && in == BACK)
		faults_arm(f);
	back(r, seq, o);
	if (f && in == BACK)
		disarm(f);
}

/* ---- all faults ------------------------------------------------------------------------------ */

/* The functions without which the rank loses its GPU. */
static const char *const losing[] = {
	"cuCheckpointProcessRestore",
	"cuCheckpointProcessUnlock",
	"cuCtxPushCurrent_v2",
	"cuCtxSetLimit",
	"cuMemImportFromShareableHandle",
	"cuMemMap",
	"cuMemSetAccess",
	"cuMemAllocManaged",
	NULL,
};

/* After a failure of these every later checkpoint is refused: the driver refused one, or has what
 * it will refuse. */
static bool ends_checkpoints(enum phase in, const struct fault *f)
{
	static const char *const names[NPHASES][3] = {
		[DRAIN] = {"cuCheckpointProcessCheckpoint", "cuMemFree_v2"},
		[BACK] = {"cuMemUnmap", "cuMemRelease"},
	};

	return faults_is_one_of(f->name, names[in]);
}

static bool may_lose(enum phase in, const struct fault *f)
{
	return in == BACK && faults_is_one_of(f->name, losing);
}

struct place {
	enum phase in;
	uint64_t seq; /* of the checkpoint with the fault */
};

static void stands(struct cuda_rank *r)
{
	cuda_begin(r, "query");
	is_int(cuda_answer(r, 50), -1000, "the program does not go on");
	kill(r->rank.pid, SIGKILL);
}

static void next(struct cuda_rank *r, uint64_t seq, bool refused)
{
	struct outcome o;

	r->cuda.keep = 0;
	checkpoint(r, seq, DRAIN, NULL, &o);
	ok(all_of(!o.lost, o.good, (value != 0) == refused), "the next checkpoint is %s: %s",
	   refused ? "refused" : "good", o.text);
	ok(has_its_data(r), "the program has its data");
}

static void one(const struct fault *f, void *arg)
{
	const struct place *at = arg;
	struct outcome o;
	struct cuda_rank r;

	begin(&r);
	for (uint64_t seq = 1; seq < at->seq; seq++)
		checkpoint(&r, seq, DRAIN, NULL, &o);
	checkpoint(&r, at->seq, at->in, f, &o);
	ok(all_of(o.good, !o.lost || may_lose(at->in, f)), "checkpoint %d, %s: %s, call %d: %s",
	   (int)at->seq, phases[at->in], f->name, f->nth, o.text);
	if (o.lost)
		stands(&r);
	else
		next(&r, at->seq + 1, ends_checkpoints(at->in, f));
	cuda_rank_end(&r);
}

static void sweep(struct place at)
{
	const struct fault none = {NULL, 0, 0};
	struct outcome o;
	struct cuda_rank r;

	begin(&r);
	for (uint64_t seq = 1; seq < at.seq; seq++)
		checkpoint(&r, seq, DRAIN, NULL, &o);
	checkpoint(&r, at.seq, at.in, &none, &o);
	ok(all_of(o.good, !o.lost, has_its_data(&r)), "checkpoint %d without a failure: %s",
	   (int)at.seq, o.text);
	cuda_rank_end(&r);
	faults_each(one, &at);
}

int main(void)
{
	char directory[] = "/dev/shm/gck-sweep-XXXXXX";

	setenv("GPUCKPT_CUDA_LIBRARY", GCK_TEST_DRIVER, 1);
	setenv("FAKE_CUDA_MEMORY", "2048", 1);
	faults_begin(mkdtemp(directory));
	for (enum phase in = DRAIN; in < NPHASES; in++) {
		faults_repeat(in == BACK && !faults_every() ? losing : NULL);
		for (uint64_t seq = 1; seq <= 2; seq++) /* the device hashes in the second */
			sweep((struct place){in, seq});
	}
	rmdir(directory);
	return tap_done();
}
