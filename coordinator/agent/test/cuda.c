/* SPDX-License-Identifier: Apache-2.0
 * A checkpoint on one node whose ranks have CUDA: their GPUs are drained before any of them is stopped,
 * and back before the node says that they run. CUDA threads answer, end and hang as they are told. */
#include "config.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/test/tap.h"
#include "coordinator/agent/cuda.h"
#include "coordinator/agent/packet.h"
#include "coordinator/agent/phases.h"
#include "coordinator/agent/restart.h"
#include "coordinator/agent/test/threads.h"

#define CUDA_RANKS 2 /* in a checkpoint the last rank has none */

static void connect_one(unsigned rank, bool restored)
{
	struct gck_link_mpi m = { .type = GCK_LINK_CUDA_HELLO, .total = sizeof m.cuda_hello };
	int sv[2];

	m.cuda_hello.version = GCK_LINK_VERSION;
	m.cuda_hello.restored = restored;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		abort();
	thread_leave(rank);
	threads[rank] = sv[1];
	cuda_adopt(fake_agent, sv[0], fake_agent->tasks.v[rank]->pid, &m, HEAD + m.total);
}

static void begin(void)
{
	fake_begin();
	fake_world->cuda = CUDA_RANKS;
	for (unsigned i = 0; i < CUDA_RANKS; i++)
		connect_one(i, false);
}

/* A message of a rank's CUDA thread; with a value, text is why. */
static void say_of(unsigned rank, uint64_t seq, uint32_t type, uint32_t value, const char *text)
{
	struct gck_link_mpi m = { .type = type, .seq = seq, .value = value };

	m.total = text ? (uint32_t)strlen(text) : 0;
	memcpy(m.data, text ? text : "", m.total);
	thread_send(rank, &m, HEAD + m.total);
}

static void say(unsigned rank, uint32_t type, uint32_t value, const char *text)
{
	say_of(rank, 7, type, value, text);
}

static void start_freeze(int hold_ms)
{
	fake_command("prepare", json_pack("{s:i}", "hold_ms", hold_ms));
	fake_await("done", "prepare", 2);
	fake_command("freeze", NULL);
	fake_run(0.1);
}

static void whole(void)
{
	begin();
	start_freeze(4000);
	ok(thread_heard(0, GCK_LINK_CUDA_DRAIN) == 1 && thread_heard(1, GCK_LINK_CUDA_DRAIN) == 1,
	   "a freeze drains the GPUs");
	say(0, GCK_LINK_CUDA_DRAINED, 0, NULL);
	ok(!fake_await("done", "freeze", 0.3), "no rank is stopped before the last is drained");
	say(1, GCK_LINK_CUDA_DRAINED, 0, NULL);
	ok(packet_bool(fake_await("done", "freeze", 1), "ok"), "then all are");
	fake_run(0.7);
	ok(thread_heard(0, GCK_LINK_CUDA_HOLD) > 0, "while they are held the CUDA threads hear of it");
	fake_command("resume", NULL);
	fake_run(0.1);
	ok(thread_heard(0, GCK_LINK_CUDA_RESUME) == 1 && thread_heard(1, GCK_LINK_CUDA_RESUME) == 1,
	   "they are told to go on");
	say(0, GCK_LINK_CUDA_RESUMED, 0, NULL);
	ok(!fake_await("done", "resume", 0.3), "the node waits for the last GPU");
	ok(!ev_is_active(&fake_agent->transaction->hold), "longer than ranks may be held");
	say(1, GCK_LINK_CUDA_RESUMED, 0, NULL);
	ok(packet_bool(fake_await("done", "resume", 1), "ok"), "and says that the ranks run");
	fake_command("write", NULL);
	ok(packet_bool(fake_await("done", "write", 2), "ok"), "the images are written");
	threads_end();
}

static void not_drained(void)
{
	begin();
	start_freeze(4000);
	say(0, GCK_LINK_CUDA_DRAINED, 0, NULL);
	say(1, GCK_LINK_CUDA_DRAINED, EBUSY, "stream 3 does not become idle");
	ok(answer_says(fake_await("done", "freeze", 1),
		       "rank 1 on n1: stream 3 does not become idle"), "one cannot be drained");
	is_int(thread_heard(0, GCK_LINK_CUDA_RESUME), 1, "the other goes on");
	threads_end();

	begin();
	start_freeze(1000);
	say(0, GCK_LINK_CUDA_DRAINED, 0, NULL);
	ok(answer_says(fake_await("done", "freeze", 1.5), "rank 1"), "one says nothing: it is named");
	ok(thread_heard(0, GCK_LINK_CUDA_RESUME) && thread_heard(1, GCK_LINK_CUDA_RESUME), "and both go on");
	threads_end();

	begin();
	start_freeze(4000);
	say(0, GCK_LINK_CUDA_DRAINED, 0, NULL);
	thread_leave(1);
	ok(answer_says(fake_await("done", "freeze", 1), "rank 1 on n1: its CUDA thread went away"),
	   "one goes away");
	is_int(thread_heard(0, GCK_LINK_CUDA_RESUME), 1, "the other goes on");
	threads_end();
}

static void not_frozen(void)
{
	begin();
	fake_script(2, "freeze", FAKE_FAIL);
	start_freeze(4000);
	say(0, GCK_LINK_CUDA_DRAINED, 0, NULL);
	say(1, GCK_LINK_CUDA_DRAINED, 0, NULL);
	ok(answer_says(fake_await("done", "freeze", 1), "rank 2"), "a rank without CUDA cannot be stopped");
	fake_run(0.1);
	ok(thread_heard(0, GCK_LINK_CUDA_RESUME) && thread_heard(1, GCK_LINK_CUDA_RESUME), "the GPUs come back");
	threads_end();
}

static void lost(void)
{
	begin();
	start_freeze(4000);
	say(0, GCK_LINK_CUDA_DRAINED, 0, NULL);
	say(1, GCK_LINK_CUDA_DRAINED, 0, NULL);
	fake_await("done", "freeze", 1);
	fake_command("resume", NULL);
	say(0, GCK_LINK_CUDA_RESUMED, EIO, "the driver does not restore");
	fake_run(0.2);
	ok(fake_ended, "a GPU that does not come back ends the step's ranks here");
	threads_end();
}

static void late_word(void)
{
	begin();
	start_freeze(4000);
	say_of(0, 6, GCK_LINK_CUDA_RESUMED, 0, NULL);
	fake_run(0.1);
	say(0, GCK_LINK_CUDA_DRAINED, 0, NULL);
	say(1, GCK_LINK_CUDA_DRAINED, 0, NULL);
	ok(packet_bool(fake_await("done", "freeze", 1), "ok"), "the end of the checkpoint before is none of this");
	fake_command("resume", NULL);
	fake_run(0.1);
	is_int(thread_heard(0, GCK_LINK_CUDA_RESUME), 1, "its rank is told to go on");
	threads_end();
}

static void too_little_memory(void)
{
	begin();
	fake_world->device = 1 << 30;
	fake_world->memory = (2ll << 30) - 1;
	fake_command("prepare", NULL);
	ok(answer_says(fake_await("done", "prepare", 2), "needs up to 2048"),
	   "what the GPUs have finds no place in host memory: refused before anything is touched");
	threads_end();

	begin();
	fake_world->device = 1 << 30;
	fake_world->memory = 2ll << 30;
	fake_command("prepare", NULL);
	ok(packet_bool(fake_await("done", "prepare", 2), "ok"), "it just does");
	threads_end();
}

static void without_link(void)
{
	begin();
	fake_world->cuda = FAKE_RANKS;
	fake_command("prepare", NULL);
	ok(!fake_await("done", "prepare", 0.5), "a rank uses CUDA and has no link: it is awaited");
	connect_one(2, false);
	ok(packet_bool(fake_await("done", "prepare", 1), "ok"), "until it has");
	threads_end();

	begin();
	fake_world->cuda = FAKE_RANKS;
	fake_command("prepare", json_pack("{s:i}", "timeout_ms", 60000));
	ok(answer_says(fake_await("done", "prepare", 10), "rank 2 on n1: its CUDA thread has no link"),
	   "but not for ever");
	threads_end();
}

static void connect_restored(unsigned rank)
{
	connect_one(rank, true);
}

/* A restart whose ranks run, and whose GPUs are on their way back. */
static void restart(unsigned timeout_ms)
{
	ok(threads_restart(timeout_ms, true, connect_restored), "ranks run, and their GPUs are not back");
}

static void comes_back(void)
{
	restart(5000);
	say(0, GCK_LINK_CUDA_RESUMED, 0, NULL);
	say(1, GCK_LINK_CUDA_RESUMED, 0, NULL);
	ok(!fake_await("done", "run", 0.3), "two of three are");
	connect_one(2, false);
	ok(packet_bool(fake_await("done", "run", 1), "ok") && fake_opened,
	   "and the third, which says so on another link: the step runs");
	threads_end();

	restart(5000);
	say(1, GCK_LINK_CUDA_RESUMED, ENODEV, "no such GPU");
	ok(answer_says(fake_await("done", "run", 0.5), "rank 1 on n1: no such GPU"),
	   "one does not come back: that is the answer");
	threads_end();

	restart(1000);
	ok(answer_says(fake_await("done", "run", 1.5), "its GPU did not come back within 1 s"),
	   "none comes in time: nor is it awaited");
	threads_end();
}

static void looks(void)
{
	begin();
	cuda_look(fake_agent);
	is_int(thread_heard(0, GCK_LINK_CUDA_LOOK), 1, "they are asked what stands in the way");
	say(0, GCK_LINK_CUDA_LOOKED, 0, NULL);
	fake_run(0.1);
	ok(!cuda_looked(fake_agent), "one has not answered yet");
	say(1, GCK_LINK_CUDA_LOOKED, 0, NULL);
	fake_run(0.1);
	ok(cuda_looked(fake_agent), "now all have");
	say(0, GCK_LINK_CUDA_DRAIN, 0, NULL);
	fake_run(0.1);
	ok(!fake_agent->tasks.v[0]->cuda && fake_agent->tasks.v[1]->cuda,
	   "what is no word of theirs ends their link");
	threads_end();
}

int main(void)
{
	whole();
	not_drained();
	not_frozen();
	lost();
	late_word();
	too_little_memory();
	without_link();
	comes_back();
	looks();
	return tap_done();
}
