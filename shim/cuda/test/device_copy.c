/* SPDX-License-Identifier: Apache-2.0
 * The copy that a drain leaves on the device, which is read while the program runs: with free
 * memory for all of it, for some, for none; given up when the program needs the memory; with a
 * reader that ends after any message (after each one only with GPUCKPT_LONG=1). */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "shim/cuda/test/device_copy.h"

static void with_free_memory(int mib, uint64_t copied, const char *name)
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
	is_int(r.cuda.m.round, copied != 0, "the answer says whether the device has a copy");
	ok(cuda_resume(&r, 1, &d), "resumed: %s", text);
	ok(cuda_data_list(&d), "listed: %s", d.why);
	is_int((long long)cuda_data_bytes(&d), (long long)copied,
	       "the copy has what fits into free memory");
	ok(all_of(host >= TAKEN - copied, host <= SLABS - copied),
	   "%llu MiB of host memory were expected", (unsigned long long)(host / MIB));
	ok(all_of(cuda_data_read(&d), cuda_rank_has(&r, &d)), "all of it is read: %s", d.why);
	is_int(cuda_tell(&r, "sum"), SUM, "the program has its data");
	cuda_data_free(&d);
	ok(all_of(cuda_drain(&r, 2, WAIT_MS), cuda_resume(&r, 2, NULL)),
	   "drained again, without a reader: %s", text);
	is_int(cuda_tell(&r, "sum"), SUM, "the program has its data");
	is_int(cuda_rank_end(&r), 0, "the program ends well");
}

/* The device has 16 MiB free beside the reserve. */
static void program_first(void)
{
	const int mib = (int)((SLABS + TAKEN) / MIB) + RESERVE + 16;
	struct cuda_rank r;
	struct cuda_data d;
	char word[32];
	int before;

	start(&r, mib, NULL);
	before = cuda_tell(&r, "free");
	ok(serve(&r, &d, 1), "the device has a copy");
	is_int(cuda_tell(&r, "free"), before, "the memory of the copy counts as free");
	snprintf(word, sizeof word, "huge %d", RESERVE + 40);
	is_int(cuda_tell(&r, word), 0, "the program can allocate that memory");
	ok(all_of(!cuda_data_read(&d), d.value == ENOMEM, strstr(d.why, "needed")),
	   "the reader is told why its copy ends: %s", d.why);
	cuda_data_free(&d);
	ok(all_of(serve(&r, &d, 2), cuda_tell(&r, word) == 0, !cuda_data_list(&d),
		  d.value == ENOMEM), "so is a reader that asks for the list: %s", d.why);
	cuda_data_free(&d);
	snprintf(word, sizeof word, "async %d", RESERVE + 40);
	ok(all_of(serve(&r, &d, 3), cuda_tell(&r, word) == 0, !cuda_data_list(&d),
		  d.value == ENOMEM),
	   "the program can allocate stream-ordered memory too: %s", d.why);
	carries_on(&r, &d, 4);
}

static void changed(void)
{
	struct cuda_rank r;
	struct cuda_data d;
	bool old = true;

	start(&r, 2048, NULL);
	ok(all_of(serve(&r, &d, 1), cuda_tell(&r, "change") == 0, cuda_data_read(&d)),
	   "a program writes to its memory while its copy is read: %s", d.why);
	for (size_t i = 0; i < d.n; i++)
		old = old && (d.v[i].size != 64 * MIB ||
			      (d.v[i].bytes[0] == 5 && d.v[i].bytes[64 * MIB - 1] == 5));
	ok(all_of(old, !cuda_rank_has(&r, &d)),
	   "the copy has what the memory had at the checkpoint");
	carries_on(&r, &d, 2);
}

/* A first snapshot has no hashes: there is nothing to compare it with. */
static void hashed(void)
{
	struct cuda_rank r;
	struct cuda_data d;
	struct gck_link_data m;
	bool good = true;

	start(&r, 2048, NULL);
	cuda_tell(&r, "odd");
	ok(serve_all(&r, &d, 1), "the device has a first copy");
	cuda_data_send(&d, GCK_LINK_DATA_HASH, d.v[0].address, 4096, 0);
	ok(all_of(cuda_data_receive(&d, &m), m.type == GCK_LINK_DATA_READY, m.value == ENOTSUP),
	   "it has no hashes: %s", m.why);
	ok(cuda_data_read(&d), "it can be read: %s", d.why);
	cuda_data_free(&d);
	ok(serve_all(&r, &d, 2), "the device has a second copy");
	for (size_t i = 0; i < d.n; i++)
		good = good && cuda_data_read_piece(&d, &d.v[i]) &&
		       cuda_data_hashes_as(&d, &d.v[i], 0, d.v[i].size) &&
		       cuda_data_hashes_as(&d, &d.v[i], 4096, d.v[i].size - 8192);
	ok(good, "its hashes are the store's, of whole page groups and of parts");
	cuda_data_free(&d);
	is_int(cuda_rank_end(&r), 0, "the program ends well");
}

/* A reader ends after this many messages. */
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
		ok(!cuda_data_receive(&d, &m) || m.value, "what is not in the list is not read: %s",
		   m.why);
	carries_on(&r, &d, 2);
}

static void agent_gone(void)
{
	struct cuda_rank r;
	struct cuda_data d;

	start(&r, 2048, NULL);
	ok(serve(&r, &d, 1), "the device has a copy");
	close(r.cuda.fd);
	r.cuda.fd = -1;
	ok(all_of(cuda_data_read(&d), cuda_rank_has(&r, &d)),
	   "it is read although the agent has gone");
	ok(all_of(cuda_accept(&r, WAIT_MS), !r.cuda.hello.restored),
	   "the rank connects to another agent");
	r.cuda.keep = 1;
	carries_on(&r, &d, 2);
}

/* Children are forked while the reader's thread has its locks. The copy's memory stays the
 * parent's. */
static void forked(void)
{
	struct cuda_rank r;
	struct cuda_data d;
	bool good = true;

	start(&r, 2048, NULL);
	ok(serve(&r, &d, 1), "the device has a copy");
	cuda_begin(&r, "children 50");
	for (size_t i = 0; good && i < 5 * d.n; i++)
		good = cuda_data_read_piece(&d, &d.v[i % d.n]);
	ok(all_of(good, cuda_data_read(&d), cuda_rank_has(&r, &d)), "the copy is read: %s", d.why);
	is_int(cuda_answer(&r, WAIT_MS), 3,
	       "children forked meanwhile get the answer that they have no CUDA");
	carries_on(&r, &d, 2);
}

/* The program puts a file of its own at the number of the reader's socket. */
static void replaced(void)
{
	struct cuda_rank r;
	struct cuda_data d;
	char word[32];

	start(&r, 2048, NULL);
	ok(serve(&r, &d, 1), "the device has a copy");
	snprintf(word, sizeof word, "replace %d", cuda_state(&r).data_fd[0]);
	is_int(cuda_tell(&r, word), 0,
	       "a child has the file that the program put at the number of the reader's socket");
	carries_on(&r, &d, 2);
}

static void next_drain(void)
{
	struct cuda_rank r;
	struct cuda_data d, next;

	start(&r, 2048, NULL);
	ok(all_of(serve(&r, &d, 1), serve(&r, &next, 2)),
	   "the rank is drained while the device has a copy: %s", text);
	ok(!cuda_data_read(&d),
	   "the reader of the first copy gets an error or a closed socket");
	ok(all_of(cuda_data_read(&next), cuda_rank_has(&r, &next)),
	   "the reader of the second copy gets all of it");
	cuda_data_free(&next);
	carries_on(&r, &d, 3);
}

static void context_gone(void)
{
	struct cuda_rank r;
	struct cuda_data d;

	start(&r, 2048, NULL);
	ok(all_of(serve(&r, &d, 1), cuda_tell(&r, "release") == 0), "the program ends its context");
	ok(all_of(!cuda_data_read(&d), d.value == ECANCELED),
	   "the reader is told why its copy ends: %s", d.why);
	cuda_data_free(&d);
	is_int(cuda_rank_end(&r), 0, "the program ends well");
}

/* One of two devices' contexts ends while copies of both are under way. */
static void one_context_gone(void)
{
	struct cuda_rank r;
	struct cuda_data d;

	setenv("FAKE_CUDA_DEVICES", "2", 1);
	start(&r, 2048, NULL);
	is_int(cuda_tell(&r, "beside"), 0, "a program has memory of two devices");
	ok(all_of(serve_all(&r, &d, 1), cuda_data_bytes(&d) == TAKEN + 64 * MIB),
	   "both devices have a copy: %s", text);
	for (size_t i = d.n; i-- > 0;)
		cuda_data_send(&d, GCK_LINK_DATA_GET, d.v[i].address,
			       d.v[i].size < GCK_LINK_DATA_GET_MAX ? d.v[i].size
								   : GCK_LINK_DATA_GET_MAX,
			       i * GCK_LINK_DATA_GET_MAX);
	is_int(cuda_tell(&r, "release"), 0, "it ends its context on one of them");
	is_int(cuda_tell(&r, "other"), 12, "its memory of the other device is unchanged");
	cuda_data_free(&d);
	ok(all_of(serve_all(&r, &d, 2), cuda_data_bytes(&d) == 64 * MIB),
	   "the next checkpoint has the other device's memory: %s", text);
	ok(all_of(cuda_data_read(&d), cuda_rank_has(&r, &d)), "the copy is read: %s", d.why);
	cuda_data_free(&d);
	is_int(cuda_rank_end(&r), 0, "the program ends well");
	unsetenv("FAKE_CUDA_DEVICES");
}

int main(void)
{
	setenv("GPUCKPT_CUDA_LIBRARY", GCK_TEST_DRIVER, 1);
	with_free_memory(2048, TAKEN, "memory for all");
	with_free_memory((int)(SLABS / MIB) + RESERVE + 24, 24 * MIB, "memory for some");
	with_free_memory((int)(SLABS / MIB) + RESERVE, 0, "no memory");
	program_first();
	changed();
	hashed();
	for (int message = 0; message <= 6; message++) {
		/* by default after 0, 2, 3 and 6 */
		if (tap_is_long() || (0b1001101 & 1 << message))
			reader_gone(message);
	}
	agent_gone();
	forked();
	replaced();
	next_drain();
	context_gone();
	one_context_gone();
	return tap_done();
}
