/* SPDX-License-Identifier: Apache-2.0
 * Memory while a copy is on the device: a hash that cannot be computed yet, the free memory that
 * the program is told, the limit to host memory, memory for an announced drain, and slabs. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/cuda/test/device_copy.h"
#include "shim/cuda/test/faults.h"

/* TAKEN, less what else the process may free meanwhile. */
#define TAKEN_KIB ((long)(TAKEN >> 10) - 1024)

/* Answer a request for memory: no other rank gives any. */
static void no_rank_gives(struct cuda_rank *r)
{
	struct gck_thread_msg m;
	int fd = agent_accept_reclaim(&r->agent, WAIT_MS, &m);

	m.type = GCK_LINK_CUDA_RECLAIMED;
	send(fd, &m, offsetof(struct gck_thread_msg, data), MSG_NOSIGNAL);
	close(fd);
}

/* Why the copy was freed, if it was: the answers to its reader. */
static void show_answers(const struct cuda_data *d)
{
	struct gck_link_data m;

	while (cuda_data_receive(d, &m))
		printf("# answer %u: %u %.*s\n", m.type, m.value, (int)sizeof m.why, m.why);
}

/* A hash waits behind a kernel that fills the device and does not end. */
static void hash_waits(void)
{
	const int mib = (int)((SLABS + TAKEN) / MIB) + RESERVE + 16;
	struct cuda_rank r;
	struct cuda_data d;
	char word[32];

	start(&r, mib, NULL);
	ok(serve(&r, &d, 1), "the device has a first copy");
	cuda_data_free(&d);
	ok(all_of(serve(&r, &d, 2), cuda_tell(&r, "fill device") == 0),
	   "the device has a second copy and a kernel that waits for the CPU");
	cuda_data_send(&d, GCK_LINK_DATA_HASH, d.v[0].address, MIB, 0);
	cuda_data_send(&d, GCK_LINK_DATA_GET, d.v[0].address, 4096, MIB);
	ok(cuda_data_taken(&d), "a hash waits behind the kernel");
	snprintf(word, sizeof word, "take %d", RESERVE + 40);
	cuda_begin(&r, word);
	no_rank_gives(&r);
	if (!is_int(cuda_answer(&r, WAIT_MS), 2,
		    "an allocation that needs the copy's memory fails, and does not wait"))
		show_answers(&d);
	ok(all_of(!cuda_drain(&r, 3, WAIT_MS), value == EBUSY, strstr(text, "stream")),
	   "a drain gives up: %s", text);
	cuda_data_free(&d);
	is_int(cuda_tell(&r, "stop"), 0, "the kernel ends");
	snprintf(word, sizeof word, "huge %d", RESERVE + 40);
	is_int(cuda_tell(&r, word), 0, "then the program can allocate the memory");
	carries_on(&r, &d, 4);
}

/* ---- free memory while a copy is freed ------------------------------------------------------ */

static char slow[] = "/tmp/gpuckpt-slow-XXXXXX"; /* the driver is slow while it exists */

/* Start a rank with a copy, whose driver is slow from then on: call is NAME=MS. Returns the MiB
 * that are free. */
static int start_slow(struct cuda_rank *r, struct cuda_data *d, const char *call)
{
	char rule[100];
	int before;

	snprintf(rule, sizeof rule, "%s@%s", call, slow);
	unlink(slow);
	setenv("FAKE_CUDA_SLOW", rule, 1);
	start(r, 2048, NULL);
	unsetenv("FAKE_CUDA_SLOW");
	before = cuda_tell(r, "free");
	ok(serve(r, d, 1), "the device has a copy");
	close(open(slow, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	return before;
}

static void end_slow(struct cuda_rank *r)
{
	unlink(slow);
	is_int(cuda_tell(r, "sum"), SUM, "the program has its data");
	is_int(cuda_rank_end(r), 0, "the program ends well");
}

/* Wait until the program's main thread sleeps in the slow call. */
static bool sleeps(const struct cuda_rank *r)
{
	char path[64], call[32] = "";

	snprintf(path, sizeof path, "/proc/%d/syscall", r->rank.pid);
	for (int ms = 0; ms < WAIT_MS && atoi(call) != SYS_clock_nanosleep; ms += 5) {
		FILE *f = fopen(path, "r");

		pause_ms(5);
		if (!f || !fgets(call, sizeof call, f))
			return false;
		fclose(f);
	}
	return atoi(call) == SYS_clock_nanosleep;
}

/* The copy is freed while the driver is asked for free memory. */
static void freed_during_the_call(void)
{
	struct cuda_rank r;
	struct cuda_data d;
	int before = start_slow(&r, &d, "cuMemGetInfo_v2=700");

	cuda_begin(&r, "free");
	ok(sleeps(&r), "the program is in cuMemGetInfo");
	cuda_data_free(&d);
	is_int(cuda_answer(&r, WAIT_MS), before, "the copy, freed meanwhile, counts as free");
	end_slow(&r);
}

/* The thread that frees the copy is in its last call. */
static void freed_before_the_call(void)
{
	struct cuda_rank r;
	struct cuda_data d;
	int before = start_slow(&r, &d, "cuThreadExchangeStreamCaptureMode=200"), now = before;

	cuda_data_free(&d);
	while (now == before && cuda_threads(r.rank.pid, "gpuckpt-data", NULL))
		now = cuda_tell(&r, "free");
	is_int(now, before, "free memory is the same while a copy is freed");
	end_slow(&r);
}

/* How often the driver's calls are recorded to have been that function. */
static int recorded(const char *calls, const char *name)
{
	char call[64];
	FILE *f = fopen(calls, "r");
	int n = 0;

	while (f && fscanf(f, "%63s", call) == 1)
		n += !strcmp(call, name);
	if (f)
		fclose(f);
	return n;
}

/* The first copy of each device does not end while `slow` exists. */
static void copied_at_a_time(void)
{
	static const char copy[] = "cuMemcpyDtoDAsync_v2";
	char calls[] = "/tmp/gpuckpt-calls-XXXXXX", rule[100];
	struct cuda_rank r;

	close(mkstemp(calls));
	snprintf(rule, sizeof rule, "%s=%d@%s", copy, WAIT_MS, slow);
	setenv("FAKE_CUDA_DEVICES", "2", 1);
	setenv("FAKE_CUDA_MEMORY", "2048", 1);
	setenv("FAKE_CUDA_SLOW", rule, 1);
	setenv("FAKE_CUDA_CALLS", calls, 1);
	cuda_rank_start(&r, NULL);
	unsetenv("FAKE_CUDA_CALLS");
	unsetenv("FAKE_CUDA_SLOW");
	unsetenv("FAKE_CUDA_DEVICES");
	r.cuda.keep = 1;
	is_int(cuda_tell(&r, "beside"), 0, "a program has memory of two devices");
	close(open(slow, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	cuda_link_ask_drain(&r.cuda, 1, WAIT_MS, WAIT_MS);
	for (int ms = 0; ms < WAIT_MS / 2 && recorded(calls, copy) < 2; ms += 10)
		pause_ms(10);
	is_int(recorded(calls, copy), 2, "its drain copies both at a time");
	unlink(slow);
	unlink(calls);
	ok(all_of(cuda_hear(&r, WAIT_MS) == GCK_LINK_CUDA_DRAINED, value == 0), "it succeeds: %s",
	   text);
	ok(cuda_resume(&r, 1, NULL), "resumed");
	is_int(cuda_tell(&r, "sum"), SUM, "the program has its data");
	is_int(cuda_rank_end(&r), 0, "the program ends well");
}

/* A limit to the host memory for copies. */
static void host_limit(void)
{
	struct cuda_rank r;

	start(&r, (int)(SLABS / MIB) + RESERVE + 24, NULL);
	r.cuda.host_copy_max = 40 * MIB;
	ok(all_of(!cuda_drain(&r, 1, WAIT_MS), value == ENOMEM),
	   "a drain that needs more host memory than its limit is refused: %s", text);
	is_int(cuda_tell(&r, "sum"), SUM, "the program goes on");
	r.cuda.host_copy_max = 42 * MIB;
	ok(all_of(cuda_drain(&r, 2, WAIT_MS), cuda_resume(&r, 2, NULL)),
	   "with enough host memory it is drained: %s", text);
	is_int(cuda_tell(&r, "managed"), 0,
	       "it allocates 32 MiB of managed memory, which goes to host memory too");
	ok(all_of(!cuda_drain(&r, 3, WAIT_MS), value == ENOMEM), "managed memory counts: %s", text);
	r.cuda.host_copy_max = 31 * MIB;
	ok(all_of(!cuda_drain(&r, 4, WAIT_MS), value == ENOMEM, strstr(text, "managed")),
	   "so does managed memory alone: %s", text);
	is_int(cuda_tell(&r, "sum"), SUM, "the program goes on");
	r.cuda.host_copy_max = 74 * MIB;
	ok(all_of(cuda_drain(&r, 5, WAIT_MS), cuda_resume(&r, 5, NULL)),
	   "with enough for both it is drained: %s", text);
	is_int(cuda_rank_end(&r), 0, "the program ends well");
}

/* Host memory for an announced drain is allocated beforehand. */
static void announced(void)
{
	struct cuda_rank r;
	long before, after;

	start(&r, 2048, NULL);
	r.cuda.keep = 0;
	before = cuda_anonymous_kib(&r);
	ok(cuda_link_prepare(&r.cuda, 1), "a drain to host memory is announced");
	after = cuda_anonymous_kib(&r);
	ok(after - before >= TAKEN_KIB,
	   "host memory for it is allocated while the program runs: %ld KiB", after - before);
	is_int(cuda_tell(&r, "sum"), SUM, "the program has its data");
	cuda_link_say(&r.cuda, GCK_LINK_CUDA_RESUME, 1);
	ok(cuda_link_prepare(&r.cuda, 2), "it does not come, and another one is announced");
	r.cuda.host_copy_max = TAKEN;
	ok(all_of(cuda_drain(&r, 2, WAIT_MS), !r.cuda.m.round), "that one comes: %s", text);
	ok(cuda_anonymous_kib(&r) - before >= TAKEN_KIB, "the data is in host memory");
	ok(cuda_resume(&r, 2, NULL), "resumed: %s", text);
	is_int(cuda_tell(&r, "sum"), SUM, "the program has its data");
	cuda_link_prepare(&r.cuda, 3);
	close(r.cuda.fd);
	ok(cuda_accept(&r, WAIT_MS), "the rank connects to another agent");
	ok(cuda_anonymous_kib(&r) < after, "memory announced by the first agent is freed");
	is_int(cuda_rank_end(&r), 0, "the program ends well");
}

/* ---- slabs ---------------------------------------------------------------------------------- */

#define BLOCKS 40

/* Blocks that are allocated and freed at the edge of a slab do not make a slab each time. */
static void hysteresis(void)
{
	char directory[] = "/dev/shm/gck-copy-XXXXXX";
	const struct fault none = {NULL, 0, 0};
	struct cuda_rank r;
	uint64_t before;
	int made;

	faults_begin(mkdtemp(directory));
	start(&r, 2048, NULL);
	before = cuda_state(&r).device_bytes;
	faults_arm(&none);
	is_int(cuda_tell(&r, "edges 40"), 0,
	       "blocks are allocated and freed at every edge of a slab");
	faults_disarm();
	made = faults_times("cuMemCreate");
	ok(all_of(made >= BLOCKS * 8 / 32, made <= BLOCKS * 8 / 32 + 2),
	   "each slab is made once: %d", made);
	ok(all_of(faults_times("cuMemUnmap") >= made - 1,
		  cuda_state(&r).device_bytes <= before + 32 * MIB),
	   "all empty slabs but one are freed");
	cuda_rank_end(&r);
	unsetenv("FAKE_CUDA_CALLS");
	unsetenv("FAKE_CUDA_FAULT");
	rmdir(directory);
}

int main(void)
{
	close(mkstemp(slow));
	setenv("GPUCKPT_CUDA_LIBRARY", GCK_TEST_DRIVER, 1);
	hash_waits();
	freed_during_the_call();
	freed_before_the_call();
	copied_at_a_time();
	host_limit();
	announced();
	hysteresis();
	return tap_done();
}
