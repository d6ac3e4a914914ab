/* SPDX-License-Identifier: Apache-2.0
 * A checkpoint on one node whose ranks have CUDA: their GPUs are drained before any rank is
 * stopped, and back before the node reports that they run. CUDA threads answer, end and hang as
 * scripted. */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/checkpoint/gpu.h"
#include "coordinator/agent/checkpoint/phases.h"
#include "coordinator/agent/checkpoint/reclaim.h"
#include "coordinator/agent/restart/rank_restart.h"
#include "coordinator/agent/restart/stages.h"
#include "coordinator/agent/test/threads.h"
#include "test/support/tap.h"

#define CUDA_RANKS 2 /* in a checkpoint the last rank has none */

/* The CUDA thread of a process says HELLO. number: as the program knows the process. */
static void connect_process(unsigned thread, pid_t pid, unsigned number, bool restored)
{
	struct gck_thread_msg m = { .type = GCK_LINK_CUDA_HELLO, .total = sizeof m.cuda_hello };
	int sv[2];

	m.cuda_hello.version = GCK_LINK_VERSION;
	m.cuda_hello.restored = restored;
	m.cuda_hello.pid = number;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		abort();
	thread_leave(thread);
	threads[thread] = sv[1];
	thread_messages.adopt(fake_agent, sv[0], pid, &m, HEAD + m.total);
}

static void connect_one(unsigned rank, bool restored)
{
	connect_process(rank, fake_agent->tasks.v[rank]->pid, FAKE_NUMBER, restored);
}

static void begin(void)
{
	fake_begin();
	fake_world->cuda = CUDA_RANKS;
	for (unsigned i = 0; i < CUDA_RANKS; i++)
		connect_one(i, false);
}

/* A message of a rank's CUDA thread; value: an error, with the text why. */
static void say_of(unsigned rank, uint64_t seq, uint32_t type, uint32_t value, const char *text)
{
	struct gck_thread_msg m = { .type = type, .seq = seq, .value = value };

	m.total = text ? (uint32_t)strlen(text) : 0;
	memcpy(m.data, text ? text : "", m.total);
	thread_send(rank, &m, HEAD + m.total);
}

static void say(unsigned rank, uint32_t type, uint32_t value, const char *text)
{
	say_of(rank, 7, type, value, text);
}

static bool is_asked(unsigned rank)
{
	for (int ms = 0; ms < 20000; ms += 10) {
		if (thread_heard(rank, GCK_LINK_CUDA_PREPARE))
			return true;
		fake_run(0.01);
	}
	return false;
}

/* The first ranks are told that a drain comes, and are ready. Returns the node's answer. */
static const json_t *prepared(unsigned ranks)
{
	for (unsigned i = 0; i < ranks; i++) {
		ok(is_asked(i), "rank %u prepares for the drain", i);
		say(i, GCK_LINK_CUDA_PREPARED, 0, NULL);
	}
	return fake_await("done", "prepare");
}

static void start_freeze_held(int hold_ms, bool held)
{
	fake_command("prepare", json_pack("{s:i}", "hold_ms", hold_ms));
	prepared(CUDA_RANKS);
	fake_command("freeze", json_pack("{s:b}", "held", held));
	fake_turn();
}

static void start_freeze(int hold_ms)
{
	start_freeze_held(hold_ms, false);
}

static void whole(void)
{
	begin();
	start_freeze(4000);
	ok(thread_heard(0, GCK_LINK_CUDA_DRAIN) == 1 && thread_heard(1, GCK_LINK_CUDA_DRAIN) == 1,
	   "a freeze drains the GPUs");
	say(0, GCK_LINK_CUDA_DRAINED, 0, NULL);
	ok(!fake_await_within("done", "freeze", 0.3),
	   "no rank is stopped before the last is drained");
	say(1, GCK_LINK_CUDA_DRAINED, 0, NULL);
	ok(packet_bool(fake_await("done", "freeze"), "ok"), "all are frozen then");
	fake_run(0.7);
	ok(thread_heard(0, GCK_LINK_CUDA_HOLD) > 0,
	   "held CUDA threads get signs of life");
	fake_command("resume", NULL);
	fake_turn();
	ok(thread_heard(0, GCK_LINK_CUDA_RESUME) == 1 && thread_heard(1, GCK_LINK_CUDA_RESUME) == 1,
	   "they are told to resume");
	say(0, GCK_LINK_CUDA_RESUMED, 0, NULL);
	ok(!fake_await_within("done", "resume", 0.3), "the resume waits for the last GPU");
	ok(!ev_is_active(&fake_agent->transaction->hold), "longer than ranks may be held");
	say(1, GCK_LINK_CUDA_RESUMED, 0, NULL);
	ok(packet_bool(fake_await("done", "resume"), "ok"),
	   "and is answered when all have their GPUs");
	fake_command("write", NULL);
	ok(packet_bool(fake_await("done", "write"), "ok"), "the images are written");
	threads_end();
}

static bool is_between(double before, int64_t ns)
{
	return ns >= (int64_t)(before * 1e9) && ns <= (int64_t)(ev_time() * 1e9);
}

static json_int_t told(const char *phase, const char *key)
{
	return packet_int(json_object_get(fake_await("done", phase), "data"), key, 0);
}

static void times(void)
{
	double now = ev_time();

	begin();
	start_freeze(4000);
	say(0, GCK_LINK_CUDA_DRAINED, 0, NULL);
	say(1, GCK_LINK_CUDA_DRAINED, 0, NULL);
	ok(is_between(now, told("freeze", "gpu_first_ns")),
	   "a freeze reports when the first GPU was told to stop");
	fake_command("resume", NULL);
	fake_run(0.1);
	now = ev_time();
	say(0, GCK_LINK_CUDA_RESUMED, 0, NULL);
	say(1, GCK_LINK_CUDA_RESUMED, 0, NULL);
	ok(is_between(now, told("resume", "gpu_last_ns")),
	   "a resume reports when the last GPU was back");
	threads_end();
}

/* With a copy on a device, if the rank may have one. */
static void drained(unsigned copies)
{
	for (unsigned i = 0; i < CUDA_RANKS; i++) {
		struct gck_thread_msg m = { .type = GCK_LINK_CUDA_DRAINED, .seq = 7,
					  .round = i < copies };

		thread_send(i, &m, HEAD);
	}
	fake_await("done", "freeze");
}

/* Its next message. The agent sends so few that it is the expected one. */
static struct gck_thread_msg next(unsigned rank, int fds[2])
{
	static struct gck_thread_msg m;

	m.type = 0;
	do
		fake_run(0.01);
	while (thread_given(rank, &m, fds) && m.type == GCK_LINK_CUDA_HOLD);
	return m;
}

static void begin_with_data(void)
{
	begin();
	fake_world->device = 3 << 20;
	fake_world->device_free = 2 << 20;
	fake_world->memory = 32 << 20;
}

static void resumed(void)
{
	say(0, GCK_LINK_CUDA_RESUMED, 0, NULL);
	say(1, GCK_LINK_CUDA_RESUMED, 0, NULL);
	fake_await("done", "resume");
}

static void brought(void)
{
	struct gck_thread_msg m;
	struct stat st;
	char byte;
	int fds[2];

	begin_with_data();
	start_freeze(4000);
	m = next(0, fds);
	ok(m.type == GCK_LINK_CUDA_DRAIN && m.cuda_drain.device_copy_max[0] == UINT64_MAX,
	   "copies may stay on devices with free memory");
	is_int((long long)m.cuda_drain.host_copy_max, 16 << 20,
	       "each rank gets the host memory that it needs, and a share of the rest");
	next(1, fds);
	drained(1);
	fake_command("resume", NULL);
	m = next(1, fds);
	ok(m.type == GCK_LINK_CUDA_RESUME && fds[0] < 0, "a rank without copies just resumes");
	m = next(0, fds);
	ok(m.type == GCK_LINK_CUDA_RESUME && fds[0] >= 0,
	   "a rank with copies gets descriptors with its order");
	ok(fstat(fds[1], &st) == 0 && st.st_size >= (off_t)GCK_LINK_DATA_GET_MAX &&
	   ftruncate(fds[1], 0),
	   "the second is memory that cannot be truncated");
	resumed();
	fake_command("write", NULL);
	ok(packet_bool(fake_await("done", "write"), "ok"), "the images are written");
	is_int(fake_world->device_writes, 1, "with the data of the devices");
	ok(recv(fds[0], &byte, 1, MSG_DONTWAIT) == 1, "the first is a socket to the rank's worker");
	fake_run(0.1);
	is_int(recv(fds[0], &byte, 1, MSG_DONTWAIT), 0, "and to no other process");
	close(fds[0]);
	close(fds[1]);
	threads_end();
}

/* One device has 4 MiB free of the 6 that are needed. */
static void shared(void)
{
	struct gck_thread_msg m;
	int fds[2];

	begin_with_data();
	fake_world->shared = true;
	fake_world->device_free = 4 << 20;
	start_freeze(4000);
	for (unsigned i = 0; i < CUDA_RANKS; i++) {
		m = next(i, fds);
		is_int((long long)m.cuda_drain.device_copy_max[0], 2 << 20,
		       "ranks that share a device share its free memory");
		is_int((long long)m.cuda_drain.host_copy_max, 16 << 20,
		       "the rest goes to host memory");
	}
	threads_end();

	begin_with_data();
	fake_world->shared = true;
	fake_world->device_free = 4 << 20;
	fake_command("prepare", NULL);
	prepared(CUDA_RANKS);
	fake_rank_ends(1, true);
	fake_command("freeze", NULL);
	fake_run(0.1);
	m = next(0, fds);
	ok(m.type == GCK_LINK_CUDA_DRAIN && m.cuda_drain.device_copy_max[0] == 2 << 20,
	   "the share is that of prepare, even if a rank has ended since");
	threads_end();
}

/* A thread of a rank's program finds no free device memory. */
static void need_of(unsigned rank, int *fd)
{
	struct gck_thread_msg m = { .type = GCK_LINK_CUDA_RECLAIM, .total = 16, .data = "device" };
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		abort();
	*fd = sv[1];
	reclaim_take(fake_agent, sv[0], fake_agent->tasks.v[rank]->pid, &m, HEAD + m.total);
}

/* Of rank 0; what rank 1 is told. */
static struct gck_thread_msg need(int *fd)
{
	int fds[2];

	need_of(0, fd);
	return next(1, fds);
}

static bool given(int fd, uint32_t ranks)
{
	struct gck_thread_msg m = { .type = 0 };
	bool good;

	fake_turn();
	good = recv(fd, &m, sizeof m, MSG_DONTWAIT) == (ssize_t)HEAD &&
		m.type == GCK_LINK_CUDA_RECLAIMED &&
	       m.round == ranks;
	close(fd);
	return good;
}

static void needed(void)
{
	struct gck_thread_msg m;
	char byte;
	int fd;

	begin();
	m = need(&fd);
	ok(m.type == GCK_LINK_CUDA_YIELD && m.total == 16 && !strcmp((char *)m.data, "device"),
	   "a rank finds no memory on a device: the others are asked to free theirs");
	is_int(thread_heard(0, GCK_LINK_CUDA_YIELD), 0, "except the rank that asks");
	fake_turn();
	is_int(recv(fd, &byte, 1, MSG_DONTWAIT), -1, "it waits for their answers");
	m = (struct gck_thread_msg){ .type = GCK_LINK_CUDA_YIELDED, .seq = m.seq, .round = 1 };
	thread_send(1, &m, HEAD);
	ok(given(fd, 1), "and is told that one rank has freed memory");
	need(&fd);
	thread_leave(1);
	ok(given(fd, 0), "a rank that ends frees nothing");
	connect_one(1, false);
	m = need(&fd);
	close(fd);
	m = (struct gck_thread_msg){ .type = GCK_LINK_CUDA_YIELDED, .seq = m.seq, .round = 1 };
	fake_turn();
	ok(!fake_agent->reclaims, "a rank that waits no longer is forgotten");
	thread_send(1, &m, HEAD);
	fake_turn();
	threads_end();
}

/* Their gates do not close before they have an answer. */
static void needed_in_drain(void)
{
	struct gck_thread_msg m;
	int fd[2];
	char byte;

	begin();
	start_freeze(4000);
	thread_heard(1, GCK_LINK_CUDA_DRAIN);
	m = need(&fd[0]);
	fake_turn();
	ok(m.type == GCK_LINK_CUDA_YIELD && recv(fd[0], &byte, 1, MSG_DONTWAIT) < 0,
	   "a rank that is being drained finds no memory: it waits for another that is, too");
	need_of(1, &fd[1]);
	ok(given(fd[0], 0), "unless that rank waits for it: then neither frees anything");
	ok(given(fd[1], 0), "and both are told");
	threads_end();

	begin();
	start_freeze(4000);
	thread_heard(1, GCK_LINK_CUDA_DRAIN);
	m = need(&fd[0]);
	m = (struct gck_thread_msg){ .type = GCK_LINK_CUDA_YIELDED, .seq = m.seq, .round = 1 };
	say(1, GCK_LINK_CUDA_DRAINED, 0, NULL);
	thread_send(1, &m, HEAD);
	ok(given(fd[0], 1), "a rank that is being drained frees its copies");
	say(0, GCK_LINK_CUDA_DRAINED, 0, NULL);
	ok(packet_bool(fake_await("done", "freeze"), "ok"), "and the drain goes on");
	threads_end();
}

static void not_brought(void)
{
	struct gck_thread_msg m;
	int fds[2];

	begin_with_data();
	start_freeze(4000);
	next(0, fds);
	drained(2);
	fake_command("abort", NULL);
	m = next(0, fds);
	ok(m.type == GCK_LINK_CUDA_RESUME && fds[0] < 0,
	   "aborted: copies on the devices are not sent");
	threads_end();

	begin_with_data();
	start_freeze_held(4000, true);
	ok(next(0, fds).cuda_drain.device_copy_max[0] == 0,
	   "ranks that are held for the write leave no copies on devices");
	drained(0);
	fake_command("write", NULL);
	ok(packet_bool(fake_await("done", "write"), "ok") && !fake_world->device_writes,
	   "and send none");
	threads_end();

	begin_with_data();
	start_freeze(4000);
	drained(2);
	fake_command("write", NULL);
	ok(answer_says(fake_await("done", "write"), "did not announce"),
	   "a hold for the write that was not announced fails: the copies would be missing");
	threads_end();
}

static void not_drained(void)
{
	begin();
	start_freeze(4000);
	say(0, GCK_LINK_CUDA_DRAINED, 0, NULL);
	say(1, GCK_LINK_CUDA_DRAINED, EBUSY, "stream 3 does not become idle");
	ok(answer_says(fake_await("done", "freeze"),
		       "rank 1 on n1: stream 3 does not become idle"), "a rank cannot be drained");
	is_int(thread_heard(0, GCK_LINK_CUDA_RESUME), 1, "the other rank resumes");
	threads_end();

	begin();
	start_freeze(1000);
	say(0, GCK_LINK_CUDA_DRAINED, 0, NULL);
	ok(answer_says(fake_await("done", "freeze"), "rank 1"),
	   "a rank that does not answer is named");
	ok(thread_heard(0, GCK_LINK_CUDA_RESUME) && thread_heard(1, GCK_LINK_CUDA_RESUME),
	   "and both ranks resume");
	threads_end();

	begin();
	start_freeze(4000);
	say(0, GCK_LINK_CUDA_DRAINED, 0, NULL);
	thread_leave(1);
	ok(answer_says(fake_await("done", "freeze"), "rank 1 on n1: its CUDA thread went away"),
	   "a CUDA thread's link ends");
	is_int(thread_heard(0, GCK_LINK_CUDA_RESUME), 1, "the other rank resumes");
	threads_end();
}

/* What is queued on a GPU is waited for in `prepare`, when no rank is held. */
static void not_prepared(void)
{
	begin();
	fake_command("prepare", NULL);
	ok(is_asked(0) && is_asked(1), "ranks without device data prepare, too");
	ok(!fake_await_within("done", "prepare", 0.3), "and are waited for");
	say(0, GCK_LINK_CUDA_PREPARED, 0, NULL);
	say(1, GCK_LINK_CUDA_PREPARED, EBUSY, "the GPU is busy");
	ok(answer_says(fake_await("done", "prepare"), "rank 1 on n1: the GPU is busy"),
	   "a rank whose queue does not end refuses");
	fake_turn();
	is_int(thread_heard(0, GCK_LINK_CUDA_RESUME), 1, "the other rank is told");
	is_int(thread_heard(0, GCK_LINK_CUDA_DRAIN), 0, "and nothing was drained");
	threads_end();
}

/* Managed memory takes seconds a GiB. */
static void held_longer(void)
{
	struct gck_thread_msg m;
	const json_t *data;
	int fds[2];

	begin();
	fake_world->managed = 4ll << 30;
	fake_command("prepare", json_pack("{s:i}", "hold_ms", 5000));
	data = json_object_get(prepared(CUDA_RANKS), "data");
	is_int(packet_int(data, "hold_ms", 0), 12400, "a node says how long its ranks are held");
	fake_command("freeze", json_pack("{s:i}", "hold_ms", 12400));
	m = next(0, fds);
	ok(m.type == GCK_LINK_CUDA_DRAIN && m.cuda_drain.limit_ms > 8000,
	   "if the coordinator grants it, the drain has its part of it");
	threads_end();
}

static void ends(void)
{
	begin();
	start_freeze(4000);
	say(0, GCK_LINK_CUDA_DRAINED, 0, NULL);
	thread_leave(1);
	fake_turn();
	fake_rank_ends(1, true);
	ok(packet_bool(fake_await("done", "freeze"), "ok"),
	   "a rank that ends while it is to drain counts as finished");
	threads_end();
}

static void not_frozen(void)
{
	begin();
	fake_script(2, "freeze", FAKE_FAIL);
	start_freeze(4000);
	say(0, GCK_LINK_CUDA_DRAINED, 0, NULL);
	say(1, GCK_LINK_CUDA_DRAINED, 0, NULL);
	ok(answer_says(fake_await("done", "freeze"), "rank 2"),
	   "a rank without CUDA cannot be stopped");
	fake_turn();
	ok(thread_heard(0, GCK_LINK_CUDA_RESUME) && thread_heard(1, GCK_LINK_CUDA_RESUME),
	   "the GPUs come back");
	threads_end();
}

static void lost(void)
{
	begin();
	start_freeze(4000);
	say(0, GCK_LINK_CUDA_DRAINED, 0, NULL);
	say(1, GCK_LINK_CUDA_DRAINED, 0, NULL);
	fake_await("done", "freeze");
	fake_command("resume", NULL);
	say(0, GCK_LINK_CUDA_RESUMED, EIO, "the driver does not restore");
	fake_run(0.2);
	ok(fake_ended, "a GPU that does not come back ends the ranks of the step");
	threads_end();
}

static void late_word(void)
{
	begin();
	start_freeze(4000);
	say_of(0, 6, GCK_LINK_CUDA_RESUMED, 0, NULL);
	say_of(0, 0, GCK_LINK_CUDA_RESUMED, 0, NULL); /* as after a restart */
	fake_turn();
	say(0, GCK_LINK_CUDA_DRAINED, 0, NULL);
	say(1, GCK_LINK_CUDA_DRAINED, 0, NULL);
	ok(packet_bool(fake_await("done", "freeze"), "ok"),
	   "an answer to an earlier checkpoint is ignored");
	fake_command("resume", NULL);
	fake_turn();
	is_int(thread_heard(0, GCK_LINK_CUDA_RESUME), 1, "its rank is told to resume");
	threads_end();
}

static void too_little_memory(void)
{
	const json_t *answer;
	struct gck_thread_msg m;
	int fds[2];

	begin();
	fake_world->device = 1 << 30;
	fake_world->memory = (2ll << 30) - 1;
	fake_command("prepare", NULL);
	ok(answer_says(fake_await("done", "prepare"), "needs up to 2048"),
	   "GPU data that host memory cannot hold is refused before anything is changed");
	threads_end();

	begin();
	fake_world->device = 1 << 30;
	fake_world->memory = (2ll << 30) + 3000;
	fake_command("prepare", NULL);
	ok(!fake_await_within("done", "prepare", 0.3),
	   "if it just fits, ranks get the memory ready while they run");
	m = next(0, fds);
	ok(m.type == GCK_LINK_CUDA_PREPARE && m.cuda_drain.host_copy_max == 1 << 30,
	   "each as much as it needs");
	say(0, GCK_LINK_CUDA_PREPARED, 0, NULL);
	ok(!fake_await_within("done", "prepare", 0.1), "the node waits for all of them");
	say(1, GCK_LINK_CUDA_PREPARED, 0, NULL);
	ok(packet_bool(fake_await("done", "prepare"), "ok"), "then it is prepared");
	fake_command("abort", NULL);
	fake_turn();
	ok(thread_heard(0, GCK_LINK_CUDA_RESUME) == 1,
	   "an aborted checkpoint releases the memory");
	threads_end();

	begin();
	fake_world->device = 1 << 30;
	fake_world->memory = (2ll << 30) + 3000;
	fake_command("prepare", NULL);
	fake_turn();
	thread_leave(0);
	say(1, GCK_LINK_CUDA_PREPARED, 0, NULL);
	ok(fake_await("done", "prepare") != NULL, "a rank whose thread has gone is not awaited");
	threads_end();

	begin();
	fake_world->device = fake_world->device_free = 1 << 30;
	fake_world->memory = 3000;
	fake_command("prepare", NULL);
	answer = prepared(CUDA_RANKS);
	ok(packet_bool(answer, "ok") && !packet_bool(json_object_get(answer, "data"), "needs_hold"),
	   "data that fits on the devices leaves host memory to the pages that ranks write");
	fake_command("freeze", json_pack("{s:b}", "held", 1));
	ok(answer_says(fake_await("done", "freeze"), "needs up to 2048"),
	   "but not if another node needs the ranks held");
	is_int(thread_heard(0, GCK_LINK_CUDA_DRAIN), 0, "then nothing is changed");
	threads_end();
}

static void without_link(void)
{
	begin();
	fake_world->cuda = FAKE_RANKS;
	fake_command("prepare", NULL);
	ok(!fake_await_within("done", "prepare", 0.5),
	   "a rank that uses CUDA and has no link is awaited");
	connect_one(2, false);
	ok(packet_bool(prepared(FAKE_RANKS), "ok"), "until it has a link");
	threads_end();

	begin();
	fake_world->cuda = FAKE_RANKS;
	fake_command("prepare", json_pack("{s:i}", "timeout_ms", 5000));
	ok(answer_says(fake_await("done", "prepare"), "rank 2 on n1: its CUDA thread has no link"),
	   "but not for ever");
	threads_end();
}

static void connect_restored(unsigned rank)
{
	connect_one(rank, true);
}

/* A restart whose ranks run, and whose GPUs are not back yet. */
static void restart(unsigned timeout_ms)
{
	ok(threads_restart(timeout_ms, true, connect_restored),
	   "ranks run, and their GPUs are not back");
}

static void comes_back(void)
{
	restart(5000);
	say(0, GCK_LINK_CUDA_RESUMED, 0, NULL);
	say(1, GCK_LINK_CUDA_RESUMED, 0, NULL);
	ok(!fake_await_within("done", "run", 0.3), "two of three GPUs are back");
	connect_one(2, false);
	ok(packet_bool(fake_await("done", "run"), "ok") && fake_opened,
	   "the third reports on another link: the step runs");
	threads_end();

	restart(5000);
	say(1, GCK_LINK_CUDA_RESUMED, ENODEV, "no such GPU");
	ok(answer_says(fake_await("done", "run"),
		       "rank 1 on n1: its GPU was not brought back: no such GPU"),
	   "a GPU that does not come back fails the restart");
	threads_end();

	restart(1000);
	ok(answer_says(fake_await("done", "run"), "its GPU did not come back within 1 s"),
	   "so does a GPU that is not back in time");
	threads_end();
}

/* ---- device data restored ------------------------------------------------------------------ */

static void want(unsigned rank)
{
	struct gck_thread_msg m = { .type = GCK_LINK_CUDA_HELLO, .total = sizeof m.cuda_hello };

	m.cuda_hello.version = GCK_LINK_VERSION;
	m.cuda_hello.restored = m.cuda_hello.data_missing = 1;
	m.cuda_hello.pid = rank == THREAD_SECOND ? FAKE_NUMBER + 1 : FAKE_NUMBER;
	thread_send(rank, &m, HEAD + m.total);
}

/* The socket that its data comes over, -1: none; m is the answer. */
static int filled(unsigned rank, struct gck_thread_msg *m)
{
	int fds[2];

	*m = next(rank, fds);
	if (fds[1] >= 0)
		close(fds[1]);
	return m->type == GCK_LINK_CUDA_RESTORE ? fds[0] : -1;
}

/* The answer to a question; -1: the other end is gone. */
static int get(int fd)
{
	struct gck_link_data m = { .type = GCK_LINK_DATA_GET };

	send(fd, &m, offsetof(struct gck_link_data, why), MSG_NOSIGNAL);
	fake_run(0.2);
	return recv(fd, &m, sizeof m, MSG_DONTWAIT) > 0 ? (int)m.type : -1;
}

static void restart_wanting(unsigned timeout_ms)
{
	ok(threads_restart(timeout_ms, true, connect_restored), "ranks run");
	for (unsigned i = 0; i < FAKE_RANKS; i++)
		want(i);
}

static void fills(void)
{
	struct gck_thread_msg m;
	int fd;

	restart_wanting(5000);
	fd = filled(0, &m);
	ok(fd >= 0 && !m.value && m.seq == 7, "each rank gets a socket");
	is_int(get(fd), GCK_LINK_DATA_READY, "with a process at its other end");
	close(fd);
	for (unsigned i = 0; i < FAKE_RANKS; i++)
		say(i, GCK_LINK_CUDA_RESUMED, 0, NULL);
	ok(packet_bool(fake_await("done", "run"), "ok"),
	   "the step runs when all ranks have all data");
	threads_end();

	restart_wanting(5000);
	fake_script(1, "fill", FAKE_FAIL);
	fd = filled(1, &m);
	get(fd);
	close(fd);
	ok(answer_says(fake_await("done", "run"),
		       "rank 1 on n1: the data of its devices: as scripted"),
	   "data that cannot be read fails the restart");
	threads_end();

	restart_wanting(5000);
	fake_script(1, "fill", FAKE_DIE);
	for (int i = 0; i < 3; i++) {
		fd = filled(1, &m);
		ok(fd >= 0 && get(fd) < 0, "the process that sends data is killed");
		close(fd);
		want(1);
	}
	fd = filled(1, &m);
	ok(fd < 0 && m.type == GCK_LINK_CUDA_RESTORE && m.value &&
	   strstr((char *)m.data, "ended 3 times"),
	   "a new one is started, but for the last time; then the rank is told");
	ok(answer_says(fake_await("done", "run"), "rank 1 on n1: the process"),
	   "and so is the coordinator");
	threads_end();

	begin();
	want(0);
	fd = filled(0, &m);
	ok(fd < 0 && m.value == ESRCH, "an agent that knows of no restart sends nothing");
	threads_end();
}

static double time_left(void)
{
	return ev_timer_remaining(fake_agent->loop, &fake_agent->restart->rebuild);
}

static void fills_for_long(void)
{
	struct gck_thread_msg m;
	double before;
	int fd;

	restart_wanting(60000);
	fd = filled(0, &m);
	fake_run(0.5);
	before = time_left();
	is_int(get(fd), GCK_LINK_DATA_READY, "one rank still gets data");
	ok(time_left() > before, "each progress restarts the limit for GPUs");
	before = time_left();
	fake_run(0.1);
	ok(time_left() < before, "which ends when nothing comes");
	close(fd);
	want(0);
	fd = filled(0, &m);
	fake_run(0.5);
	before = time_left();
	is_int(get(fd), GCK_LINK_DATA_READY, "a new process starts over");
	ok(time_left() > before, "and its progress counts, too");
	close(fd);
	threads_end();
}

/* ---- a second process of a rank ------------------------------------------------------------ */

static pid_t first_before;

static void fork_second(void)
{
	fake_second = fork();
	while (fake_second == 0)
		pause();
}

/* This process is the first rank, and its child the second process. */
static void connect_second(bool restored)
{
	first_before = fake_agent->tasks.v[0]->pid;
	fake_agent->tasks.v[0]->pid = getpid();
	connect_one(0, restored);
	connect_process(THREAD_SECOND, fake_second, FAKE_NUMBER + 1, restored);
}

static void kill_second(void)
{
	thread_leave(THREAD_SECOND);
	kill(fake_second, SIGKILL);
	waitpid(fake_second, NULL, 0);
}

static void end_second(void)
{
	fake_second = 0;
	fake_agent->tasks.v[0]->pid = first_before;
	threads_end();
}

/* Both of the rank's, and the second rank's, are asked to drain. */
static void freeze_second(void)
{
	fork_second();
	begin();
	fake_world->device = fake_world->device_free = 3 << 20;
	fake_world->memory = 32 << 20;
	fake_world->shared = true;
	connect_second(false);
	fake_command("prepare", json_pack("{s:i}", "hold_ms", 4000));
	ok(is_asked(THREAD_SECOND), "a rank's second process with CUDA prepares for the drain");
	say(THREAD_SECOND, GCK_LINK_CUDA_PREPARED, 0, NULL);
	prepared(CUDA_RANKS);
	fake_command("freeze", NULL);
	fake_turn();
	for (unsigned i = 0; i < CUDA_RANKS; i++)
		say(i, GCK_LINK_CUDA_DRAINED, 0, NULL);
	fake_turn();
}

static void second(void)
{
	struct gck_thread_msg m = { .type = GCK_LINK_CUDA_DRAINED, .seq = 7, .round = 1 };
	struct gck_thread_msg got;
	int fds[2];
	char byte;

	freeze_second();
	got = next(THREAD_SECOND, fds);
	ok(got.type == GCK_LINK_CUDA_DRAIN && got.cuda_drain.device_copy_max[0] == 1 << 20,
	   "it is drained with its part of the memory on the device that all three use");
	ok(!fake_await_within("done", "freeze", 0.3), "its rank is not stopped before");
	thread_send(THREAD_SECOND, &m, HEAD);
	ok(packet_bool(fake_await("done", "freeze"), "ok"), "and then it is");
	fake_command("resume", NULL);
	got = next(THREAD_SECOND, fds);
	ok(got.type == GCK_LINK_CUDA_RESUME && fds[0] >= 0, "it is to send its copies");
	for (unsigned i = 0; i < CUDA_RANKS; i++)
		say(i, GCK_LINK_CUDA_RESUMED, 0, NULL);
	ok(!fake_await_within("done", "resume", 0.1), "and to resume, for which the node waits");
	say(THREAD_SECOND, GCK_LINK_CUDA_RESUMED, 0, NULL);
	fake_await("done", "resume");
	fake_command("write", NULL);
	ok(packet_bool(fake_await("done", "write"), "ok") && fake_world->device_writes == 1 &&
	   recv(fds[0], &byte, 1, MSG_DONTWAIT) == 1, "its data is written by its rank's worker");
	close(fds[0]);
	close(fds[1]);
	kill_second();
	end_second();

	freeze_second();
	kill_second();
	ok(packet_bool(fake_await("done", "freeze"), "ok"),
	   "one that ends while it is to drain is not awaited");
	end_second();
}

static void second_yields(void)
{
	struct gck_thread_msg m;
	int fd, fds[2];

	fork_second();
	begin();
	connect_second(false);
	need_of(0, &fd);
	m = next(THREAD_SECOND, fds);
	ok(m.type == GCK_LINK_CUDA_YIELD, "it frees device memory for its rank's other process");
	m = (struct gck_thread_msg){ .type = GCK_LINK_CUDA_YIELDED, .seq = m.seq, .round = 1 };
	thread_send(THREAD_SECOND, &m, HEAD);
	m.round = 0;
	thread_send(1, &m, HEAD);
	ok(given(fd, 1), "which is told");
	kill_second();
	end_second();
}

static void connect_both(unsigned rank)
{
	if (rank)
		connect_one(rank, true);
	else
		connect_second(true);
}

static void second_comes_back(void)
{
	struct gck_thread_msg m;
	int fd;

	fork_second();
	ok(threads_restart(5000, true, connect_both), "ranks run");
	want(THREAD_SECOND);
	fd = filled(THREAD_SECOND, &m);
	get(fd);
	is_int(fake_world->filled_for, FAKE_NUMBER + 1, "it gets the data of its own devices");
	close(fd);
	for (unsigned i = 0; i < FAKE_RANKS; i++)
		say(i, GCK_LINK_CUDA_RESUMED, 0, NULL);
	ok(!fake_await_within("done", "run", 0.3), "all but it are back");
	say(THREAD_SECOND, GCK_LINK_CUDA_RESUMED, 0, NULL);
	ok(packet_bool(fake_await("done", "run"), "ok"), "and then the step runs");
	kill_second();
	end_second();
}

static void looks(void)
{
	struct gck_thread_msg kernel = { .type = GCK_LINK_CUDA_OBSTACLE, .round = 1, .total = 6 };
	const json_t *items;

	begin();
	thread_links_look(fake_agent);
	is_int(thread_heard(0, GCK_LINK_CUDA_LIST_OBSTACLES), 1,
	       "CUDA threads are asked for obstacles");
	memcpy(kernel.data, "k\0r\0x", kernel.total);
	thread_send(0, &kernel, HEAD + kernel.total);
	kernel.round = 0;
	thread_send(0, &kernel, HEAD + kernel.total);
	say(0, GCK_LINK_CUDA_OBSTACLES_END, 0, NULL);
	fake_turn();
	items = fake_agent->tasks.v[0]->cuda->items;
	ok(json_is_false(json_object_get(json_array_get(items, 0), "refuse")) &&
	   json_is_true(json_object_get(json_array_get(items, 1), "refuse")),
	   "a thread names one thing that refuses nothing, and one that does");
	ok(!thread_links_looked(fake_agent), "one thread has not answered yet");
	say(1, GCK_LINK_CUDA_OBSTACLES_END, 0, NULL);
	fake_turn();
	ok(thread_links_looked(fake_agent), "now all have");
	say(0, GCK_LINK_CUDA_DRAIN, 0, NULL);
	fake_turn();
	ok(!fake_agent->tasks.v[0]->cuda && fake_agent->tasks.v[1]->cuda,
	   "an unknown message ends the link");
	threads_end();
}

int main(void)
{
	whole();
	times();
	brought();
	shared();
	needed();
	needed_in_drain();
	not_brought();
	not_prepared();
	not_drained();
	held_longer();
	ends();
	not_frozen();
	lost();
	late_word();
	too_little_memory();
	without_link();
	comes_back();
	fills();
	fills_for_long();
	second();
	second_yields();
	second_comes_back();
	looks();
	return tap_done();
}
