/* SPDX-License-Identifier: Apache-2.0
 * The copy that a drain leaves on the device, which is read while the program runs: with free
 * memory for all of it, for some, for none; given up when the program needs the memory; with a
 * reader that goes away after any message (after each one only with GPUCKPT_LONG=1). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>


#include "shim/cuda/test/faults.h"
#include "shim/cuda/test/link_agent.h"
#include "test/support/cuda_data.h"
#include "test/support/tap.h"

#define MIB ((uint64_t)1 << 20)
#define SUM (3 << 20)   /* what cuda_rank's memory holds */
#define TAKEN (2 * MIB + 64 * MIB)
#define TAKEN_KIB ((long)(TAKEN >> 10) - 1024) /* but for what else of the process goes meanwhile */
#define SLABS (96 * MIB)
#define RESERVE 512

/* A rank with data in two slabs, on a device of so many MiB. */
static void start(struct cuda_rank *r, int mib, const char *fail)
{
	char memory[16];

	snprintf(memory, sizeof memory, "%d", mib);
	setenv("FAKE_CUDA_MEMORY", memory, 1);
	cuda_rank_start(r, fail);
	r->cuda.keep = 1;
	cuda_tell(r, "more");
}

static void with_free_memory(int mib, uint64_t kept, const char *name)
{
	struct cuda_rank r;
	struct gck_cuda_state state;
	struct cuda_data d;
	uint64_t host;

	start(&r, mib, NULL);
	state = cuda_state(&r);
	host = state.device_bytes - (state.memory->bytes < state.memory->free_bytes
					     ? state.memory->bytes
					     : state.memory->free_bytes);
	ok(cuda_drain(&r, 1, WAIT_MS), "%s: drained: %s", name, text);
	is_int(r.cuda.m.round, kept != 0, "it says whether there is something to be read");
	ok(cuda_resume(&r, 1, &d), "resumed: %s", text);
	ok(cuda_data_list(&d), "listed: %s", d.why);
	is_int((long long)cuda_data_bytes(&d), (long long)kept, "so much is on the device");
	ok(all_of(host >= TAKEN - kept, host <= SLABS - kept),
	   "%llu MiB of host memory were to be expected", (unsigned long long)(host / MIB));
	ok(all_of(cuda_data_read(&d), cuda_rank_has(&r, &d)), "all of it is read: %s", d.why);
	is_int(cuda_tell(&r, "sum"), SUM, "the program has its data");
	cuda_data_free(&d);
	ok(all_of(cuda_drain(&r, 2, WAIT_MS), cuda_resume(&r, 2, NULL)),
	   "again, and nobody wants it: %s", text);
	is_int(cuda_tell(&r, "sum"), SUM, "the program has its data");
	is_int(cuda_rank_end(&r), 0, "and ends well");
}

/* ---- given up ------------------------------------------------------------------------------- */

/* Served, and all of it listed. */
static bool serve(struct cuda_rank *r, struct cuda_data *d, uint64_t seq)
{
	return cuda_drain(r, seq, WAIT_MS) && cuda_resume(r, seq, d) && cuda_data_list(d) &&
	       cuda_data_bytes(d) == TAKEN;
}

static bool serve_all(struct cuda_rank *r, struct cuda_data *d, uint64_t seq)
{
	return cuda_drain(r, seq, WAIT_MS) && cuda_resume(r, seq, d) && cuda_data_list(d);
}

static void carries_on(struct cuda_rank *r, struct cuda_data *d, uint64_t seq)
{
	is_int(cuda_tell(r, "sum"), SUM, "the program has its data");
	cuda_data_free(d);
	ok(all_of(serve(r, d, seq), cuda_data_read(d), cuda_rank_has(r, d)),
	   "the next checkpoint is good: %s%s", text, d->why);
	cuda_data_free(d);
	is_int(cuda_rank_end(r), 0, "and it ends well");
}

/* 16 MiB are left on the device beside the reserve. */
static void program_first(void)
{
	const int mib = (int)((SLABS + TAKEN) / MIB) + RESERVE + 16;
	struct cuda_rank r;
	struct cuda_data d;
	char word[32];
	int before;

	start(&r, mib, NULL);
	before = cuda_tell(&r, "free");
	ok(serve(&r, &d, 1), "a copy stands on the device");
	is_int(cuda_tell(&r, "free"), before, "which counts as free");
	snprintf(word, sizeof word, "huge %d", RESERVE + 40);
	is_int(cuda_tell(&r, word), 0, "the program can have its memory");
	ok(all_of(!cuda_data_read(&d), d.value == ENOMEM, strstr(d.why, "needed")),
	   "its reader is told: %s", d.why);
	cuda_data_free(&d);
	ok(all_of(serve(&r, &d, 2), cuda_tell(&r, word) == 0, !cuda_data_list(&d),
		  d.value == ENOMEM), "also one that asks what there is: %s", d.why);
	cuda_data_free(&d);
	snprintf(word, sizeof word, "async %d", RESERVE + 40);
	ok(all_of(serve(&r, &d, 3), cuda_tell(&r, word) == 0, !cuda_data_list(&d),
		  d.value == ENOMEM), "also memory that the driver gives: %s", d.why);
	carries_on(&r, &d, 4);
}

static void changed(void)
{
	struct cuda_rank r;
	struct cuda_data d;
	bool old = true;

	start(&r, 2048, NULL);
	ok(all_of(serve(&r, &d, 1), cuda_tell(&r, "change") == 0, cuda_data_read(&d)),
	   "a program writes on: %s", d.why);
	for (size_t i = 0; i < d.n; i++)
		old = old && (d.v[i].size != 64 * MIB ||
			      (d.v[i].bytes[0] == 5 && d.v[i].bytes[64 * MIB - 1] == 5));
	ok(all_of(old, !cuda_rank_has(&r, &d)), "what is read is as it was at the checkpoint");
	carries_on(&r, &d, 2);
}

/* Not of the first snapshot: nothing can be compared with it. */
static void hashed(void)
{
	struct cuda_rank r;
	struct cuda_data d;
	struct gck_link_data m;
	bool good = true;

	start(&r, 2048, NULL);
	cuda_tell(&r, "odd");
	ok(serve_all(&r, &d, 1), "a first copy stands");
	cuda_data_send(&d, GCK_LINK_DATA_HASH, d.v[0].address, 4096, 0);
	ok(all_of(cuda_data_receive(&d, &m), m.type == GCK_LINK_DATA_READY, m.value == ENOTSUP),
	   "it has no hashes: %s", m.why);
	ok(cuda_data_read(&d), "but can be read: %s", d.why);
	cuda_data_free(&d);
	ok(serve_all(&r, &d, 2), "a second one stands");
	for (size_t i = 0; i < d.n; i++)
		good = good && cuda_data_read_piece(&d, &d.v[i]) &&
		       cuda_data_hashes_as(&d, &d.v[i], 0, d.v[i].size) &&
		       cuda_data_hashes_as(&d, &d.v[i], 4096, d.v[i].size - 8192);
	ok(good, "its hashes are the store's, of whole windows and of parts");
	cuda_data_free(&d);
	is_int(cuda_rank_end(&r), 0, "the program ends well");
}

/* There are no other ranks. */
static void nobody_gives(struct cuda_rank *r)
{
	struct gck_thread_msg m;
	int fd = agent_accept_need(&r->agent, WAIT_MS, &m);

	m.type = GCK_LINK_CUDA_RECLAIMED;
	send(fd, &m, offsetof(struct gck_thread_msg, data), MSG_NOSIGNAL);
	close(fd);
}

/* A hash waits behind a kernel that has all of the device and does not end. */
static void hash_waits(void)
{
	const int mib = (int)((SLABS + TAKEN) / MIB) + RESERVE + 16;
	struct cuda_rank r;
	struct cuda_data d;
	char word[32];

	start(&r, mib, NULL);
	ok(serve(&r, &d, 1), "a first copy stands");
	cuda_data_free(&d);
	ok(all_of(serve(&r, &d, 2), cuda_tell(&r, "fill device") == 0),
	   "a second one, and a kernel that waits for the CPU");
	cuda_data_send(&d, GCK_LINK_DATA_HASH, d.v[0].address, MIB, 0);
	cuda_data_send(&d, GCK_LINK_DATA_GET, d.v[0].address, 4096, MIB);
	ok(cuda_data_taken(&d), "behind which a hash waits");
	snprintf(word, sizeof word, "take %d", RESERVE + 40);
	cuda_begin(&r, word);
	nobody_gives(&r);
	is_int(cuda_answer(&r, WAIT_MS), 2,
	       "an allocation that needs the copy's memory does not wait for the hash");
	ok(all_of(!cuda_drain(&r, 3, WAIT_MS), value == EBUSY, strstr(text, "stream")),
	   "nor does a drain for ever: %s", text);
	cuda_data_free(&d);
	is_int(cuda_tell(&r, "stop"), 0, "the kernel ends");
	snprintf(word, sizeof word, "huge %d", RESERVE + 40);
	is_int(cuda_tell(&r, word), 0, "then the program can have the memory");
	carries_on(&r, &d, 4);
}

/* ---- what is free while a copy goes --------------------------------------------------------- */

static char slow[] = "/tmp/gpuckpt-slow-XXXXXX"; /* while it exists the driver takes its time for some call */

/* call: NAME=MS. A copy stands; the answer to "free" that is to be had at all times from then on.
 * */
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
	ok(serve(r, d, 1), "a copy stands");
	close(open(slow, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	return before;
}

static void end_slow(struct cuda_rank *r)
{
	unlink(slow);
	is_int(cuda_tell(r, "sum"), SUM, "the program has its data");
	is_int(cuda_rank_end(r), 0, "and ends well");
}

/* Until the program's main thread is in that call. */
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

/* The copy goes after the driver was asked, and before its answer is there. */
static void asked_before(void)
{
	struct cuda_rank r;
	struct cuda_data d;
	int before = start_slow(&r, &d, "cuMemGetInfo_v2=700");

	cuda_begin(&r, "free");
	ok(sleeps(&r), "the program asks what is free");
	cuda_data_free(&d);
	is_int(cuda_answer(&r, WAIT_MS), before, "the copy goes meanwhile, and counts as free");
	end_slow(&r);
}

/* The thread that gives the copy back has one more call to make. */
static void asked_after(void)
{
	struct cuda_rank r;
	struct cuda_data d;
	int before = start_slow(&r, &d, "cuThreadExchangeStreamCaptureMode=200"), now = before;

	cuda_data_free(&d);
	while (now == before && cuda_threads(r.rank.pid, "gpuckpt-data"))
		now = cuda_tell(&r, "free");
	is_int(now, before, "while a copy goes as much is free as before");
	end_slow(&r);
}

/* A reader goes away after so many messages. */
static void reader_gone(int message)
{
	struct cuda_rank r;
	struct cuda_data d;
	struct gck_link_data m;

	start(&r, 2048, NULL);
	ok(all_of(cuda_drain(&r, 1, WAIT_MS), cuda_resume(&r, 1, &d)),
	   "a reader ends after %d messages", message);
	if (message == 1)
		cuda_data_send(&d, GCK_LINK_DATA_LIST, 0, 0, 0);
	if (message >= 2)
		cuda_data_list(&d);
	if (message >= 3)
		cuda_data_send(&d, GCK_LINK_DATA_GET, d.v[0].address, 4096, 0);
	if (message >= 4)
		cuda_data_receive(&d, &m);
	if (message >= 5)
		cuda_data_send(&d, GCK_LINK_DATA_GET, 4096, 4096, 0); /* not in the list */
	if (message >= 6)
		ok(!cuda_data_receive(&d, &m) || m.value, "what is not there is not read: %s",
		   m.why);
	carries_on(&r, &d, 2);
}

static void agent_gone(void)
{
	struct cuda_rank r;
	struct cuda_data d;

	start(&r, 2048, NULL);
	ok(serve(&r, &d, 1), "a copy stands");
	close(r.cuda.fd);
	r.cuda.fd = -1;
	ok(all_of(cuda_data_read(&d), cuda_rank_has(&r, &d)),
	   "its agent gone, it is read all the same");
	ok(all_of(cuda_accept(&r, WAIT_MS), !r.cuda.hello.restored), "another agent comes");
	r.cuda.keep = 1;
	carries_on(&r, &d, 2);
}

/* Children, forked while the reader's thread has its locks. What keeps the memory is the parent's.
 * */
static void forked(void)
{
	struct cuda_rank r;
	struct cuda_data d;
	bool good = true;

	start(&r, 2048, NULL);
	ok(serve(&r, &d, 1), "a copy stands");
	cuda_begin(&r, "children 50");
	for (size_t i = 0; good && i < 5 * d.n; i++)
		good = cuda_data_read_piece(&d, &d.v[i % d.n]);
	ok(all_of(good, cuda_data_read(&d), cuda_rank_has(&r, &d)), "and is read: %s", d.why);
	is_int(cuda_answer(&r, WAIT_MS), 3, "meanwhile children get an answer: they have no CUDA");
	carries_on(&r, &d, 2);
}

/* The program has a file of its own where it has closed the reader's socket. */
static void replaced(void)
{
	struct cuda_rank r;
	struct cuda_data d;
	char word[32];

	start(&r, 2048, NULL);
	ok(serve(&r, &d, 1), "a copy stands");
	snprintf(word, sizeof word, "replace %d", cuda_state(&r).data_fd[0]);
	is_int(cuda_tell(&r, word), 0,
	       "a child has the file that the program put where the reader's socket was");
	carries_on(&r, &d, 2);
}

static void next_drain(void)
{
	struct cuda_rank r;
	struct cuda_data d, next;

	start(&r, 2048, NULL);
	ok(all_of(serve(&r, &d, 1), serve(&r, &next, 2)),
	   "another drain comes while a copy stands: %s", text);
	ok(!cuda_data_read(&d),
	   "the reader of the first one is told so, or finds its socket closed");
	ok(all_of(cuda_data_read(&next), cuda_rank_has(&r, &next)),
	   "that of the second one has it all");
	cuda_data_free(&next);
	carries_on(&r, &d, 3);
}

static void context_gone(void)
{
	struct cuda_rank r;
	struct cuda_data d;

	start(&r, 2048, NULL);
	ok(all_of(serve(&r, &d, 1), cuda_tell(&r, "release") == 0), "the program ends its context");
	ok(all_of(!cuda_data_read(&d), d.value == ECANCELED), "the copy's reader is told so: %s",
	   d.why);
	cuda_data_free(&d);
	is_int(cuda_rank_end(&r), 0, "the program ends well");
}

/* Of two devices' contexts one ends, with copies of both under way. */
static void one_context_gone(void)
{
	struct cuda_rank r;
	struct cuda_data d;

	setenv("FAKE_CUDA_DEVICES", "2", 1);
	start(&r, 2048, NULL);
	is_int(cuda_tell(&r, "beside"), 0, "a program has memory of two devices");
	ok(all_of(serve_all(&r, &d, 1), cuda_data_bytes(&d) == TAKEN + 64 * MIB),
	   "a copy stands on both: %s", text);
	for (size_t i = d.n; i-- > 0;)
		cuda_data_send(&d, GCK_LINK_DATA_GET, d.v[i].address,
			       d.v[i].size < GCK_LINK_DATA_GET_MAX ? d.v[i].size
								   : GCK_LINK_DATA_GET_MAX,
			       i * GCK_LINK_DATA_GET_MAX);
	is_int(cuda_tell(&r, "release"), 0, "it ends the context on one of them");
	is_int(cuda_tell(&r, "other"), 12, "what the other has is as it was");
	cuda_data_free(&d);
	ok(all_of(serve_all(&r, &d, 2), cuda_data_bytes(&d) == 64 * MIB),
	   "it alone is in the next checkpoint: %s", text);
	ok(all_of(cuda_data_read(&d), cuda_rank_has(&r, &d)), "and is read: %s", d.why);
	cuda_data_free(&d);
	is_int(cuda_rank_end(&r), 0, "the program ends well");
	unsetenv("FAKE_CUDA_DEVICES");
}

/* The copy of each device takes 3 s, and the drain may take 5.5 s. */
static void devices_beside(void)
{
	struct cuda_rank r;

	setenv("FAKE_CUDA_DEVICES", "2", 1);
	setenv("FAKE_CUDA_MEMORY", "2048", 1);
	setenv("FAKE_CUDA_SLOW", "cuMemcpyDtoDAsync_v2=3000", 1);
	cuda_rank_start(&r, NULL);
	unsetenv("FAKE_CUDA_SLOW");
	unsetenv("FAKE_CUDA_DEVICES");
	r.cuda.keep = 1;
	is_int(cuda_tell(&r, "beside"), 0, "a program has memory of two devices");
	cuda_link_ask_drain(&r.cuda, 1, 5500, WAIT_MS);
	ok(all_of(cuda_hear(&r, WAIT_MS) == GCK_LINK_CUDA_DRAINED, value == 0),
	   "they are copied at a time: %s", text);
	ok(cuda_resume(&r, 1, NULL), "resumed");
	is_int(cuda_tell(&r, "sum"), SUM, "the program has its data");
	is_int(cuda_rank_end(&r), 0, "and ends well");
}

/* No more host memory than was allowed. */
static void host_copy_max(void)
{
	struct cuda_rank r;

	start(&r, (int)(SLABS / MIB) + RESERVE + 24, NULL);
	r.cuda.host_copy_max = 40 * MIB;
	ok(all_of(!cuda_drain(&r, 1, WAIT_MS), value == ENOMEM),
	   "more host memory than may be used is not: %s", text);
	is_int(cuda_tell(&r, "sum"), SUM, "the program runs on");
	r.cuda.host_copy_max = 42 * MIB;
	ok(all_of(cuda_drain(&r, 2, WAIT_MS), cuda_resume(&r, 2, NULL)),
	   "with as much it is drained: %s", text);
	is_int(cuda_tell(&r, "managed"), 0, "32 MiB of managed memory, which go there as well");
	ok(all_of(!cuda_drain(&r, 3, WAIT_MS), value == ENOMEM), "are counted: %s", text);
	r.cuda.host_copy_max = 31 * MIB;
	ok(all_of(!cuda_drain(&r, 4, WAIT_MS), value == ENOMEM, strstr(text, "managed")),
	   "also alone: %s", text);
	is_int(cuda_tell(&r, "sum"), SUM, "the program runs on");
	r.cuda.host_copy_max = 74 * MIB;
	ok(all_of(cuda_drain(&r, 5, WAIT_MS), cuda_resume(&r, 5, NULL)),
	   "with enough for both it is drained: %s", text);
	is_int(cuda_rank_end(&r), 0, "the program ends well");
}

/* What will go to host memory finds it there. */
static void expected(void)
{
	struct cuda_rank r;
	long before, after;

	start(&r, 2048, NULL);
	r.cuda.keep = 0;
	before = cuda_anonymous_kib(&r);
	ok(cuda_link_expect(&r.cuda, 1), "a drain to host memory is to come");
	after = cuda_anonymous_kib(&r);
	ok(after - before >= TAKEN_KIB, "memory for it is there while the program runs: %ld KiB",
	   after - before);
	is_int(cuda_tell(&r, "sum"), SUM, "as it does");
	cuda_link_say(&r.cuda, GCK_LINK_CUDA_RESUME, 1);
	ok(cuda_link_expect(&r.cuda, 2), "it does not come, another one will");
	r.cuda.host_copy_max = TAKEN;
	ok(all_of(cuda_drain(&r, 2, WAIT_MS), !r.cuda.m.round), "and comes: %s", text);
	ok(cuda_anonymous_kib(&r) - before >= TAKEN_KIB, "its data are there");
	ok(cuda_resume(&r, 2, NULL), "resumed: %s", text);
	is_int(cuda_tell(&r, "sum"), SUM, "the program has its data");
	cuda_link_expect(&r.cuda, 3);
	close(r.cuda.fd);
	ok(cuda_accept(&r, WAIT_MS), "another agent comes");
	ok(cuda_anonymous_kib(&r) < after, "and what the other was to need is not kept");
	is_int(cuda_rank_end(&r), 0, "the program ends well");
}

/* ---- slabs come and go ------------------------------------------------------------------------
 * */

#define PIECES 40

/* At the edge of a slab, too, a piece that comes and goes has the driver make no memory each time.
 * */
static void hysteresis(void)
{
	char directory[] = "/dev/shm/gck-kept-XXXXXX";
	const struct fault none = {NULL, 0, 0};
	struct cuda_rank r;
	uint64_t before;
	int made;

	faults_begin(mkdtemp(directory));
	start(&r, 2048, NULL);
	before = cuda_state(&r).device_bytes;
	faults_arm(&none);
	is_int(cuda_tell(&r, "edges 40"), 0, "pieces that come and go at every edge of a slab");
	faults_disarm();
	made = faults_times("cuMemCreate");
	ok(all_of(made >= PIECES * 8 / 32, made <= PIECES * 8 / 32 + 2),
	   "slabs are made once each: %d", made);
	ok(all_of(faults_times("cuMemUnmap") >= made - 1,
		  cuda_state(&r).device_bytes <= before + 32 * MIB),
	   "and go when they are empty, but for one");
	cuda_rank_end(&r);
	unsetenv("FAKE_CUDA_CALLS");
	unsetenv("FAKE_CUDA_FAULT");
	rmdir(directory);
}

int main(void)
{
	close(mkstemp(slow));
	setenv("GPUCKPT_CUDA_LIBRARY", GCK_TEST_DRIVER, 1);
	with_free_memory(2048, TAKEN, "memory for all");
	with_free_memory((int)(SLABS / MIB) + RESERVE + 24, 24 * MIB, "memory for some");
	with_free_memory((int)(SLABS / MIB) + RESERVE, 0, "no memory");
	program_first();
	changed();
	hashed();
	hash_waits();
	for (int message = 0; message <= 6; message++) {
		if (getenv("GPUCKPT_LONG") || (0b1001101 & 1 << message)) /* by default after 0, 2, 3 and 6 */
			reader_gone(message);
	}
	agent_gone();
	forked();
	replaced();
	asked_before();
	asked_after();
	next_drain();
	context_gone();
	one_context_gone();
	devices_beside();
	host_copy_max();
	expected();
	hysteresis();
	return tap_done();
}
