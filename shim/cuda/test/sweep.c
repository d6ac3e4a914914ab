/* SPDX-License-Identifier: Apache-2.0
 * Every call of the driver's that a checkpoint takes fails once: the checkpoint is given up, or made in another way,
 * or its reader is told; the program runs on with its data, and the next checkpoint is good. Or, by few calls, the
 * GPU does not come back: then that is said, and the program stands still. Which calls there are says a pass without
 * a failure. */
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

enum phase { DRAIN, BACK, NPHASES }; /* BACK: and what the device keeps is read */
static const char *const phases[] = {"drain", "back"};

struct outcome {
	bool lost, good; /* good: whatever became of it was said, and what was read is right */
	char text[400];
};

static uint32_t value;
static char text[1024];

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
	return cuda_tell(r, "sum") == SUM && cuda_tell(r, "steps") == 0 && cuda_tell(r, "vmm look") == 0;
}

/* ---- one checkpoint -------------------------------------------------------------------------- */

static void drain(struct cuda_rank *r, uint64_t seq, struct outcome *o)
{
	cuda_link_ask_drain(&r->cuda, seq, WAIT_MS, WAIT_MS);
	o->lost = cuda_hear(r, WAIT_MS, &value, text) != GCK_LINK_CUDA_DRAINED;
	o->good = !value || *text;
	if (value)
		snprintf(o->text, sizeof o->text, "%s: %.300s", o->lost ? "lost" : "refused", text);
}

/* What the device keeps goes when it was read; the end of that is the socket's. */
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
	if (cuda_hear(r, WAIT_MS, &value, text) == GCK_LINK_CUDA_RESUMED && !value) {
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
		ok(false, "%s, call %d: the failure has not come", f->name, f->nth);
}

static void checkpoint(struct cuda_rank *r, uint64_t seq, enum phase in, const struct fault *f, struct outcome *o)
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

/* ---- all of them ----------------------------------------------------------------------------- */

static bool is_one_of(const struct fault *f, const char *const names[])
{
	while (*names && strcmp(f->name, *names))
		names++;
	return *names;
}

/* After these no checkpoint is taken any more: the driver has refused one, or has something that it would. */
static bool ends_checkpoints(enum phase in, const struct fault *f)
{
	static const char *const names[NPHASES][3] = {
		[DRAIN] = {"cuCheckpointProcessCheckpoint", "cuMemFree_v2"}, [BACK] = {"cuMemUnmap", "cuMemRelease"},
	};

	return is_one_of(f, names[in]);
}

/* Without these the rank cannot come back. */
static bool may_lose(enum phase in, const struct fault *f)
{
	static const char *const names[] = {
		"cuCheckpointProcessRestore", "cuCheckpointProcessUnlock", "cuCtxPushCurrent_v2", "cuCtxSetLimit",
		"cuMemImportFromShareableHandle", "cuMemMap", "cuMemSetAccess", "cuMemAllocManaged", NULL,
	};

	return in == BACK && is_one_of(f, names);
}

struct place {
	enum phase in;
	uint64_t seq; /* of the checkpoint in which it comes */
};

static void stands(struct cuda_rank *r)
{
	cuda_begin(r, "query");
	is_int(cuda_answer(r, 50), -1000, "the program stands still");
	kill(r->rank.pid, SIGKILL);
}

static void next(struct cuda_rank *r, uint64_t seq, bool refused)
{
	struct outcome o;

	r->cuda.keep = 0;
	checkpoint(r, seq, DRAIN, NULL, &o);
	ok(!o.lost && o.good && (value != 0) == refused, "the next checkpoint is %s: %s", refused ? "refused" : "good",
	   o.text);
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
	ok(o.good && (!o.lost || may_lose(at->in, f)), "checkpoint %d, %s: %s, call %d: %s", (int)at->seq, phases[at->in],
	   f->name, f->nth, o.text);
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
	ok(o.good && !o.lost && has_its_data(&r), "checkpoint %d without a failure: %s", (int)at.seq, o.text);
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
		faults_begin_anew();
		for (uint64_t seq = 1; seq <= 2; seq++) /* the second has the hashes made by the device */
			sweep((struct place){in, seq});
	}
	rmdir(directory);
	return tap_done();
}
