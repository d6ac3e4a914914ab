/* SPDX-License-Identifier: Apache-2.0
 * Calls of the driver fail, each in a new process of the same image: while the process restores its
 * GPU, and during a checkpoint after a restore on another GPU, where its copy needs external
 * mappings (external_mapping.h). The error is reported, or the program has its data all the same
 * and the next checkpoint succeeds. A pass without a failure records which functions are called.
 * Then: who may have the memory behind external mappings, and when. By default the first call of
 * each function fails in the restore, and of those that external mappings need in the checkpoint:
 * cuda_sweep has the others. With GPUCKPT_LONG=1 the first two calls and the last one fail in each
 * phase. */
#define _GNU_SOURCE
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shim/cuda/base/state.h"
#include "shim/cuda/test/commands.h"
#include "shim/cuda/test/faults.h"
#include "test/support/cuda_data.h"
#include "test/support/cuda_link.h"
#include "test/support/tap.h"

#define SUM (3 << 20)
#define REGION 0x600000000000ull /* slabs' and the program's own (slab.c) */
#define REGION_END 0x700000000000ull
#define HAD "a H100\n"
#define OTHER "b H100\n"
#define OUT_OF_MEMORY 2
#define BUSY_MS 1500     /* longer than an allocation waits for streams before it takes the copy (PATIENCE_MS) */
#define MUCH 100         /* MiB that a rank takes for the tests of external mappings */

enum phase { RESTORE, DRAIN, BACK };
static const char *const phases[] = {"restore", "drain", "back"};

struct outcome {
	bool failed, lost; /* for good */
	char text[400];    /* what is said of it */
	bool kept;         /* on the device, and read from there */
};

static struct lineage l;
static struct cuda_link cuda = {.fd = -1};
static struct cuda_data kept;  /* what the device had */
static char node[300];         /* the machine's devices */

/* Some of it in the image, some to be brought. */
static void take_image(void)
{
	static const char *const names[] = {"init",  "odd", "forget", "model",
					    "steps", "vmm", "vmm few"};

	ok(told_start(&l), "a program");
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		is_int(told(names[i]), 0, names[i]);
	cuda_link_join(&cuda, &l.agent, false);
	cuda.keep = 1;
	cuda.device_copy_max = 20 << 20;
	ok(all_of(cuda_link_drain(&cuda, 1), cuda.m.round, lineage_checkpoint(&l) == 0),
	   "its image");
	cuda_data_open(&kept);
	cuda_data_give(&kept, &cuda, GCK_LINK_CUDA_RESUME, 1);
	ok(all_of(cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED), cuda_data_list(&kept),
		  cuda_data_read(&kept)), "and what its device has");
	cuda_data_close(&kept);
	lineage_kill(&l);
	cuda.device_copy_max = 0;
}

/* ---- one process ----------------------------------------------------------------------------- */

/* The next message: fatal, if it is a failure. */
static void hear(uint32_t type, bool fatal, struct outcome *o)
{
	uint32_t got = cuda_link_receive(&cuda, WAIT_MS);

	o->failed = got != type || cuda.m.value;
	o->lost = o->failed && (fatal || got != type);
	snprintf(o->text, sizeof o->text, "%.*s", (int)(o->failed ? cuda.m.total : 0),
		 (const char *)cuda.m.data);
}

static void restore(struct outcome *o)
{
	struct cuda_data over;

	if (lineage_restore(&l, l.seq) || !cuda_link_join(&cuda, &l.agent, true)) {
		*o = (struct outcome){true, true, "not built", false};
		return;
	}
	if (cuda.hello.data_missing) {
		cuda_data_open(&over);
		cuda_data_give(&over, &cuda, GCK_LINK_CUDA_RESTORE, 0);
		cuda_data_fill(&kept, &over, UINT_MAX);
		cuda_data_free(&over);
	}
	hear(GCK_LINK_CUDA_RESUMED, true, o);
}

static void drain(struct outcome *o)
{
	cuda_link_ask_drain(&cuda, l.seq + 1, WAIT_MS, WAIT_MS);
	hear(GCK_LINK_CUDA_DRAINED, false, o);
}

/* What the device keeps is read, and goes; the end of that is the socket's. */
static void read_all(struct cuda_data *d, struct outcome *o)
{
	struct gck_link_data m;
	bool read = cuda_data_list(d) && cuda_data_read(d);

	if (read && !cuda_data_is_of(d, l.pid))
		*o = (struct outcome){true, true, "what was read is not what it has", false};
	else if (!read)
		snprintf(o->text, sizeof o->text, "not read: %.300s", d->why);
	o->kept = read && d->n;
	if (!read)
		shutdown(d->fd, SHUT_WR);
	while (cuda_data_receive(d, &m))
		;
}

static void back(struct outcome *o)
{
	struct cuda_data d;

	cuda_data_open(&d);
	cuda_data_give(&d, &cuda, GCK_LINK_CUDA_RESUME, l.seq + 1);
	hear(GCK_LINK_CUDA_RESUMED, true, o);
	if (!o->failed)
		read_all(&d, o);
	cuda_data_free(&d);
}

static bool has_its_data(void)
{
	return told("sum") == SUM && told("steps") == 0 && told("vmm look") == 0;
}

static uint64_t device_bytes(void)
{
	struct gck_cuda_state s;

	agent_peek(l.pid, cuda.hello.state, &s, sizeof s);
	return s.device_bytes;
}

/* ---- with a failure -------------------------------------------------------------------------- */

struct place {
	enum phase in;
	const char *where; /* it is restored */
	int code;          /* OUT_OF_MEMORY: it is short of that alone */
};

/* What a checkpoint does with the copy of a rank on another GPU. */
static const char *const mapping_calls[] = {
	"cuImportExternalMemory",       "cuExternalMemoryGetMappedBuffer",
	"cuDestroyExternalMemory",      "cuMemFree_v2",
	"cuMemcpyDtoDAsync_v2",         "cuMemCreate",
	"cuMemExportToShareableHandle", NULL,
};

/* What the device is short of is waited for. */
static bool is_waited_for(const struct fault *f)
{
	static const char *const names[] = {"cuMemCreate", "cuMemExportToShareableHandle",
					    "cuMemMap", "cuMemSetAccess", NULL};

	return faults_is_one_of(f->name, names);
}

/* Without these the rank cannot come back. */
static bool may_lose(const struct fault *f, const struct place *at)
{
	static const char *const names[] = {
		"cuInit",
		"cuDeviceGetCount",
		"cuDriverGetVersion",
		"cuDeviceGet",
		"cuDeviceGetUuid_v2",
		"cuDeviceGetName",
		"cuCheckpointProcessRestore",
		"cuCheckpointProcessUnlock",
		"cuCtxPushCurrent_v2",
		"cuCtxSetLimit",
		"cuMemCreate",
		"cuMemExportToShareableHandle",
		"cuMemMap",
		"cuMemSetAccess",
		"cuMemHostAlloc",
		"cuMemHostRegister_v2",
		"cuMemAllocManaged",
		"cuMemcpyHtoDAsync_v2",
		"cuStreamCreate",
		"cuStreamCreateWithPriority",
		"cuStreamSynchronize",
		"cuImportExternalMemory",
		"cuExternalMemoryGetMappedBuffer",
		"cuMemcpyDtoDAsync_v2",
		"cuEventCreate",
		"cuEventRecord",
		"cuEventQuery",
		NULL,
	};

	return at->in != DRAIN && !at->code && faults_is_one_of(f->name, names);
}

/* After these no checkpoint is taken any more: the driver has refused one, or has something that it
 * would. */
static bool ends_checkpoints(const struct fault *f, enum phase in)
{
	static const char *const names[][3] = {
		[RESTORE] = {"cuMemFree_v2"},
		[DRAIN] = {"cuCheckpointProcessCheckpoint", "cuMemFree_v2"},
		[BACK] = {"cuMemFree_v2"},
	};

	return faults_is_one_of(f->name, names[in]);
}

/* Windows are closed a moment after their end. */
static void wait_for_end(const struct fault *f)
{
	for (int ms = 0; ms < 100 && (!f->name || faults_armed()); ms += 10)
		pause_ms(10);
}

/* As far as it comes, with the failure in its place. */
static void run(const struct fault *f, const struct place *at, struct outcome *o)
{
	static void (*const step[])(struct outcome *) = {restore, drain, back};

	cuda_node_has(node, at->where);
	*o = (struct outcome){.failed = false};
	for (enum phase p = RESTORE; p <= at->in && !o->failed; p++) {
		if (p == at->in)
			faults_arm(f);
		step[p](o);
		if (p == at->in)
			wait_for_end(f);
		if (p == at->in && !faults_disarm() && f->nth <= FAULT_FIRST)
			ok(false, "%s, call %d: the failure has not come", f->name, f->nth);
	}
	if (at->in == DRAIN && !o->failed)
		back(o);
}

static void goes_on(bool refused)
{
	struct outcome o;

	ok(has_its_data(), "the program has its data");
	drain(&o);
	ok(all_of(o.failed == refused, !o.lost), "the next checkpoint is %s: %s",
	   refused ? "refused" : "good", o.text);
	if (refused)
		return;
	back(&o);
	ok(all_of(!o.failed, has_its_data()), "and the program has them still: %s", o.text);
}

static void one(const struct fault *plain, void *arg)
{
	const struct place *at = arg;
	const struct fault f = {plain->name, plain->nth, at->code};
	struct outcome o;

	if (at->code && !is_waited_for(&f))
		return;
	if (!faults_every() && at->in != RESTORE && !at->code &&
	    !faults_is_one_of(f.name, mapping_calls))
		return;
	run(&f, at, &o);
	ok(all_of((!o.failed || *o.text), (!o.lost || may_lose(&f, at))), "%s%s, %s, call %d: %s",
	   phases[at->in], at->code ? " without memory" : "", f.name, f.nth, o.text);
	if (!o.lost)
		goes_on(ends_checkpoints(&f, at->in));
	lineage_kill(&l);
}

/* Without a failure. */
static void plain(struct place at)
{
	const struct fault none = {NULL, 0, 0};
	static uint64_t bytes;
	struct outcome o;

	run(&none, &at, &o);
	ok(all_of(!o.failed, has_its_data()), "%s on %swithout a failure: %s", phases[at.in],
	   at.where, o.text);
	is_int(o.kept, at.in != RESTORE, "its data were on the device");
	bytes = bytes ? bytes : device_bytes();
	is_int((long long)device_bytes(), (long long)bytes, "as much device memory is counted");
	lineage_kill(&l);
}

static void sweep(struct place at)
{
	plain(at);
	faults_each(one, &at);
}

/* A checkpoint whose copy says its hashes: not the first that the process sees. */
static bool hashes_through_mappings(void)
{
	struct cuda_data d;
	struct outcome o;
	bool good;

	drain(&o);
	if (o.failed)
		return false;
	cuda_data_open(&d);
	cuda_data_give(&d, &cuda, GCK_LINK_CUDA_RESUME, l.seq + 1);
	hear(GCK_LINK_CUDA_RESUMED, true, &o);
	good = !o.failed && cuda_data_list(&d) && d.n;
	for (size_t i = 0; good && i < d.n; i++) {
		const uint64_t most = GCK_LINK_DATA_HASH_MAX, size = d.v[i].size;

		good = cuda_data_read_piece(&d, &d.v[i]);
		for (uint64_t at = 0; good && at < size; at += most)
			good = cuda_data_hashes_as(&d, &d.v[i], at,
						   size - at < most ? size - at : most);
	}
	if (!good)
		printf("# %s%s\n", o.text, d.why);
	cuda_data_free(&d);
	return good;
}

/* More memory than one external mapping has, on another device. */
static void many_mappings(void)
{
	const struct fault none = {NULL, 0, 0};
	struct outcome o;

	run(&none, &(struct place){RESTORE, OTHER, 0}, &o);
	is_int(told("take 300"), 0,
	       "a rank on another device with more memory than one mapping has");
	drain(&o);
	if (ok(!o.failed, "drained: %s", o.text))
		back(&o);
	ok(all_of(!o.failed, o.kept, has_its_data()),
	   "its copy is read through several mappings, and restored: %s", o.text);
	ok(all_of(hashes_through_mappings(), has_its_data()), "and its hashes are the store's");
	lineage_kill(&l);
}

/* How many MiB of device memory the rank has mapped outside of its own addresses. */
static int mapped_mib(void)
{
	char path[64], line[4352];
	unsigned long long begin, end, bytes = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/maps", l.pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f)) {
		if (strstr(line, "memfd:fake-cuda") &&
		    sscanf(line, "%llx-%llx", &begin, &end) == 2 &&
		    (begin < REGION || begin >= REGION_END))
			bytes += end - begin;
	}
	if (f)
		fclose(f);
	return (int)(bytes >> 20);
}

static int mapped_before; /* MiB, when begin_after_a_checkpoint had no copy yet */

/* Start a rank on another device that has made a checkpoint, whose copy can be read. Returns the
 * MiB that were free before the checkpoint. */
static int begin_after_a_checkpoint(struct cuda_data *d)
{
	const struct fault none = {NULL, 0, 0};
	struct outcome o;
	char word[32];
	int before;

	run(&none, &(struct place){RESTORE, OTHER, 0}, &o);
	snprintf(word, sizeof word, "take %d", MUCH);
	is_int(told(word), 0, "a rank on another device, with much memory");
	before = told("free");
	mapped_before = mapped_mib();
	drain(&o);
	ok(!o.failed, "drained: %s", o.text);
	cuda_data_open(d);
	cuda_data_give(d, &cuda, GCK_LINK_CUDA_RESUME, l.seq + 1);
	hear(GCK_LINK_CUDA_RESUMED, true, &o);
	ok(all_of(!o.failed, mapped_mib() >= mapped_before + MUCH),
	   "its copy has external mappings: %s", o.text);
	return before;
}

static void go_by_themselves(void)
{
	struct cuda_data d;

	begin_after_a_checkpoint(&d);
	ok(all_of(cuda_data_list(&d), cuda_data_read(&d)), "which are read: %s", d.why);
	cuda_data_free(&d);
	for (int i = 0; i < 500 && mapped_mib() >= mapped_before + MUCH; i++)
		pause_ms(10);
	ok(mapped_mib() < mapped_before + MUCH, "the mappings go when nobody reads them any more");
	goes_on(false);
	lineage_kill(&l);
}

/* ms: so long its stream has something to do. */
static void go_for_the_program(int ms)
{
	char word[32];
	struct cuda_data d;
	int before = begin_after_a_checkpoint(&d);

	snprintf(word, sizeof word, "busy %d", ms);
	told(word);
	snprintf(word, sizeof word, "huge %d", before - 40);
	ok(told(word) == 0, "a program has their memory when it wants it, its GPU busy for %d ms",
	   ms);
	ok(all_of(!cuda_data_list(&d), strstr(d.why, "needed")), "their reader is told: %s", d.why);
	cuda_data_free(&d);
	goes_on(false);
	lineage_kill(&l);
}

/* As another rank of the node that wants it, by way of the agent. */
static bool yields(void)
{
	struct gck_thread_msg m = {.type = GCK_LINK_CUDA_YIELD,
				   .total = sizeof(((struct gck_cuda_state *)0)->devices.v->uuid)};
	struct gck_cuda_state s;

	agent_peek(l.pid, cuda.hello.state, &s, sizeof s);
	memcpy(m.data, s.devices.v[0].uuid, m.total);
	send(cuda.fd, &m, offsetof(struct gck_thread_msg, data) + m.total, MSG_NOSIGNAL);
	return cuda_link_receive(&cuda, WAIT_MS) == GCK_LINK_CUDA_YIELDED && cuda.m.round;
}

/* There are windows, and the gate is closed for good. */
static void stay_with_a_lost_rank(void)
{
	const struct fault no_memory = {"cuMemCreate", 1, 999};
	struct outcome o;

	run(&no_memory, &(struct place){BACK, OTHER, 0}, &o);
	ok(o.lost, "a rank has lost its GPU: %s", o.text);
	ok(!yields(), "another rank has nothing of it");
	pause_ms(100);
	told_begin("free");
	is_int(told_answer(300), -1000, "and it does not run on");
	lineage_kill(&l);
}

static void go_for_others(void)
{
	struct cuda_data d;

	begin_after_a_checkpoint(&d);
	ok(yields(), "another rank has their memory");
	pause_ms(400); /* the driver may return memory late */
	ok(!yields(), "once");
	ok(all_of(!cuda_data_list(&d), strstr(d.why, "another rank")), "their reader is told: %s",
	   d.why);
	cuda_data_free(&d);
	goes_on(false);
	lineage_kill(&l);
}

/* A kernel waits for its program when windows would go, whose end waits for kernels: the program
 * has memory all the same, and what is left goes with the next checkpoint. */
static void beside_a_kernel(void)
{
	const struct fault none = {NULL, 0, 0};
	struct gck_thread_msg need;
	struct outcome o;
	struct cuda_data d;
	bool given = false;

	run(&none, &(struct place){DRAIN, OTHER, 0}, &o);
	drain(&o);
	cuda_data_open(&d);
	cuda_data_give(&d, &cuda, GCK_LINK_CUDA_RESUME, l.seq + 1);
	hear(GCK_LINK_CUDA_RESUMED, true, &o);
	is_int(told("spin"), 0, "a kernel that waits for the program");
	read_all(&d, &o);
	cuda_data_free(&d);
	pause_ms(100);
	is_int(told("take 40"), 0, "which has memory meanwhile");
	told_begin("huge 1900");
	close(agent_accept_need(&l.agent, WAIT_MS, &need)); /* it has asked in vain */
	is_int(told_answer(WAIT_MS), OUT_OF_MEMORY, "as much as there is without them");
	for (int i = 0; i < 100 && yields(); i++)
		pause_ms(50);
	ok(!yields(), "nor has another rank theirs, when it has asked for seconds");
	is_int(told("stop"), 0, "and lets the kernel end");
	for (int i = 0; i < 60 && !(given = yields()); i++)
		pause_ms(50);
	ok(given, "then another rank has it soon");
	ok(all_of(o.kept, !o.failed), "what the device had was read: %s", o.text);
	goes_on(false);
	lineage_kill(&l);
}

/* A thread waits for memory, outside of the gate, while the process is drained, and so it is in the
 * image. */
static void wait_through_a_checkpoint(void)
{
	const struct fault none = {NULL, 0, 0};
	char word[32];
	struct cuda_data d;
	struct outcome o;
	int before = begin_after_a_checkpoint(&d);

	is_int(told("work 2000"), 0, "its GPU has something to do");
	snprintf(word, sizeof word, "huge %d", before - 40);
	told_begin(word);
	pause_ms(50);
	cuda.keep = 0;
	drain(&o);
	ok(all_of(!o.failed, lineage_checkpoint(&l) == 0),
	   "a checkpoint comes while it waits for memory: %s", o.text);
	is_int(told_answer(100), -1000, "which it does still");
	ok(cuda_link_resume(&cuda, l.seq), "it goes on");
	is_int(told_answer(WAIT_MS), 0, "and has it");
	cuda_data_free(&d);
	lineage_kill(&l);
	run(&none, &(struct place){RESTORE, OTHER, 0}, &o);
	is_int(told_answer(WAIT_MS), 0, "so has the process made of the image");
	goes_on(false);
	lineage_kill(&l);
}

/* ---- all of them ----------------------------------------------------------------------------- */

int main(void)
{
	static char program[] = "./cuda_rank", *argv[] = {program, NULL};

	setenv("GPUCKPT_CUDA_LIBRARY", GCK_TEST_DRIVER, 1);
	if (lineage_begin(&l, "/dev/shm", argv))
		return 99;
	snprintf(node, sizeof node, "%s/node", l.directory);
	setenv("FAKE_CUDA_NODE", node, 1);
	setenv("FAKE_CUDA_MEMORY", "2048", 1);
	cuda_node_has(node, HAD);
	faults_begin(l.directory);
	take_image();
	plain((struct place){RESTORE, HAD, 0});
	faults_repeat(NULL);
	sweep((struct place){RESTORE, OTHER, 0});
	many_mappings();
	go_by_themselves();
	go_for_the_program(0);
	go_for_the_program(BUSY_MS);
	go_for_others();
	stay_with_a_lost_rank();
	beside_a_kernel();
	faults_repeat(NULL);
	sweep((struct place){DRAIN, OTHER, 0});
	sweep((struct place){BACK, OTHER, 0});
	faults_repeat(NULL);
	sweep((struct place){BACK, OTHER, OUT_OF_MEMORY});
	wait_through_a_checkpoint();
	cuda_data_free(&kept);
	lineage_end(&l);
	return tap_done();
}
