/* SPDX-License-Identifier: Apache-2.0
 * A checkpoint on one node whose ranks have MPI: MPI threads answer, end and hang as scripted. */
#include "config.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/test/threads.h"
#include "test/support/clock.h"
#include "test/support/tap.h"

#define HOLD_MS 60000 /* by a clock that the test sets ahead */

static void prepare(bool keep_held, int hold_ms)
{
	fake_command("prepare", json_pack("{s:b, s:i, s:i}", "keep_held", keep_held, "hold_ms",
					  hold_ms, "timeout_ms", HOLD_MS));
	fake_await("done", "prepare");
}

static void start_quiesce(int hold_ms)
{
	prepare(false, hold_ms);
	fake_command("quiesce",
		     json_pack("{s:s, s:i}", "via", "coordinator", "limit_ms", hold_ms));
	fake_run(0.05);
}

static const json_t *bring_to_rest(void)
{
	start_quiesce(HOLD_MS);
	for (unsigned i = 0; i < FAKE_RANKS; i++)
		thread_say(i, GCK_LINK_MPI_QUIESCED, 0, 0, 0);
	return fake_await("done", "quiesce");
}

/* An agent that was restarted gets a command before the rank's MPI thread has connected again. */
static void comes_late(void)
{
	threads_begin();
	fake_world->mpi = FAKE_RANKS;
	thread_leave(1);
	fake_run(0.1);
	fake_command("prepare", NULL);
	ok(!fake_await_within("done", "prepare", 0.5),
	   "a rank whose MPI thread has no link is awaited");
	thread_connect(1, 0);
	ok(packet_bool(fake_await("done", "prepare"), "ok"), "until the link comes");
	threads_end();

	threads_begin();
	fake_world->mpi = FAKE_RANKS;
	thread_leave(1);
	fake_run(0.1);
	fake_command("prepare", json_pack("{s:i}", "timeout_ms", 10000));
	ok(answer_says(fake_await("done", "prepare"), "rank 1 on n1: its MPI thread has no link"),
	   "or until the limit");
	threads_end();
}

/* A rank that is still in MPI_Init, or enters it while its worker looks. */
static void in_init(void)
{
	const json_t *m;

	threads_begin();
	thread_initializes(1, false);
	fake_run(0.1);
	fake_command("prepare", NULL);
	ok(!fake_await_within("done", "prepare", 0.5), "a rank in MPI_Init is awaited");
	is_int(fake_workers(), 0, "and not looked at");
	thread_initializes(1, true);
	m = fake_await("done", "prepare");
	ok(packet_bool(m, "ok"), "until it leaves it");
	is_str(packet_text(json_object_get(m, "data"), "waited_for", ""),
	       "rank 1 on n1: it was in MPI_Init", "the answer says what was waited for");
	threads_end();

	threads_begin();
	thread_initializes(1, false);
	fake_run(0.1);
	fake_command("prepare", json_pack("{s:i}", "timeout_ms", 1000));
	ok(answer_says(fake_await("done", "prepare"), "rank 1 on n1: it is in MPI_Init"),
	   "or until the limit");
	threads_end();

	threads_begin();
	fake_script(1, "prepare", FAKE_LATE);
	fake_command("prepare", NULL);
	thread_initializes(1, false);
	ok(answer_says(fake_await("done", "prepare"), "rank 1 on n1: it is in MPI_Init"),
	   "what a rank opens in MPI_Init is not blamed");
	threads_end();
}

static void no_freeze(void)
{
	int resumed = 0;

	threads_begin();
	ok(packet_bool(bring_to_rest(), "ok"), "MPI is quiesced on the node");
	is_int(thread_heard(0, GCK_LINK_MPI_QUIESCE), 1, "its ranks were asked");
	fake_run(0.5);
	is_int(thread_heard(0, GCK_LINK_MPI_RESUME), 0,
	       "and wait for the coordinator's next order");
	test_clock_advance(HOLD_MS / 1000.);
	fake_until((resumed += thread_heard(0, GCK_LINK_MPI_RESUME)));
	is_int(resumed, 1, "no order comes: they are let go");
	fake_command("freeze", NULL);
	ok(answer_says(fake_await("done", "freeze"), "hold"),
	   "and a freeze is answered with that failure");
	threads_end();

	threads_begin();
	prepare(true, HOLD_MS);
	fake_command("quiesce", json_pack("{s:s, s:i}", "via", "pmix", "limit_ms", HOLD_MS));
	for (unsigned i = 0; i < FAKE_RANKS; i++)
		thread_say(i, GCK_LINK_MPI_QUIESCED, 0, 0, 0);
	ok(packet_bool(fake_await("done", "quiesce"), "ok"),
	   "quiesced, and to be held for the write");
	test_clock_advance(HOLD_MS / 1000.);
	fake_until((resumed += thread_heard(0, GCK_LINK_MPI_RESUME)) == 2);
	fake_command("freeze", NULL);
	ok(answer_says(fake_await("done", "freeze"), "no order to resume came"),
	   "no freeze within hold=: the failure does not blame the coordinator's silence");
	threads_end();
}

static void hold_is_one(void)
{
	threads_begin();
	fake_script(1, "freeze", FAKE_HANG);
	start_quiesce(4000);
	fake_run(2);
	for (unsigned i = 0; i < FAKE_RANKS; i++)
		thread_say(i, GCK_LINK_MPI_QUIESCED, 0, 0, 0);
	fake_await("done", "quiesce");
	fake_command("freeze", NULL);
	ok(answer_says(fake_await_within("done", "freeze", 3.5), "rank 1"),
	   "a freeze has what the quiesce has left of hold=");
	threads_end();
}

static void ends_at_rest(void)
{
	threads_begin();
	bring_to_rest();
	thread_heard(0, GCK_LINK_MPI_QUIESCE);
	thread_leave(1);
	fake_rank_ends(1, true);
	fake_run(0.2);
	is_int(thread_heard(0, GCK_LINK_MPI_RESUME), 1,
	       "a rank dies while quiesced: the others resume at once");
	fake_command("freeze", NULL);
	ok(answer_says(fake_await("done", "freeze"), "rank 1"),
	   "it does not count as a rank that has exited");
	threads_end();
}

static void ends_in_round(void)
{
	const json_t *m;

	threads_begin();
	start_quiesce(HOLD_MS);
	thread_say(0, GCK_LINK_MPI_READY, 1, 0, 8);
	thread_say(2, GCK_LINK_MPI_READY, 1, 0, 8);
	fake_run(0.1);
	fake_rank_ends(1, false);
	thread_leave(1);
	m = fake_await("done", "quiesce");
	ok(answer_says(m, "rank 1"), "a rank dies in a round: the node reports it at once");
	ok(thread_heard(0, GCK_LINK_MPI_RESUME) && thread_heard(2, GCK_LINK_MPI_RESUME),
	   "and lets the others go");
	threads_end();
}

/* A rank that the others need cannot be replaced by its exit status. */
static void ends_in_mpi(void)
{
	threads_begin();
	fake_command("prepare", NULL);
	fake_await("done", "prepare");
	thread_leave(1);
	fake_rank_ends(1, true);
	fake_command("quiesce", json_pack("{s:s, s:i}", "via", "pmix", "limit_ms", 1000));
	ok(answer_says(fake_await("done", "quiesce"),
		       "rank 1 on n1: it ended without MPI_Finalize"),
	   "a rank dies between prepare and quiesce");
	threads_end();

	threads_begin();
	thread_leave(1);
	fake_run(0.1);
	fake_rank_ends(1, true);
	fake_command("prepare", NULL);
	ok(answer_says(fake_await("done", "prepare"), "MPI_Finalize"), "and before any checkpoint");
	threads_end();

	threads_begin();
	thread_say(1, GCK_LINK_MPI_BYE, 0, 0, 0);
	fake_run(0.1);
	fake_rank_ends(1, true);
	fake_command("prepare", NULL);
	ok(answer_says(fake_await("done", "prepare"), "MPI_Finalize"),
	   "exit() without MPI_Finalize fails the checkpoint");
	threads_end();

	threads_begin();
	thread_inactive(1);
	thread_say(1, GCK_LINK_MPI_BYE, 0, 0, 0);
	fake_run(0.1);
	fake_rank_ends(1, true);
	fake_command("prepare", NULL);
	ok(packet_bool(fake_await("done", "prepare"), "ok"),
	   "a rank that ends after MPI_Finalize is carried by its status");
	threads_end();
}

/* A rank outside of MPI exchanges nothing, so the node's words do not wait for it. */
static void is_outside(void)
{
	threads_begin();
	thread_inactive(1);
	start_quiesce(HOLD_MS);
	thread_say(0, GCK_LINK_MPI_READY, 1, 0, 8);
	thread_say(2, GCK_LINK_MPI_READY, 1, 0, 8);
	ok(!fake_await_within("ready", NULL, 0.2), "two of three ranks wait for a round");
	thread_say(1, GCK_LINK_MPI_QUIESCED, 0, 0, 0);
	ok(fake_await("ready", NULL), "the third is past MPI_Finalize: the node waits for it");
	thread_say(0, GCK_LINK_MPI_QUIESCED, 0, 0, 0);
	ok(!fake_await_within("ready", NULL, 0.2), "a round is reported once");
	thread_say(2, GCK_LINK_MPI_QUIESCED, 0, 0, 0);
	ok(packet_bool(fake_await("done", "quiesce"), "ok"), "and all of them are quiesced");
	threads_end();
}

static void too_many_words(void)
{
	threads_begin();
	start_quiesce(HOLD_MS);
	thread_say(0, GCK_LINK_MPI_READY, 1, 0, 13u << 20);
	ok(answer_says(fake_await("done", "quiesce"), "--mpi=pmix"),
	   "words that would break the connection to the coordinator are refused");
	threads_end();
}

static void wrong_round(void)
{
	threads_begin();
	start_quiesce(HOLD_MS);
	thread_say(0, GCK_LINK_MPI_READY, UINT32_MAX, 0, 8);
	ok(answer_says(fake_await("done", "quiesce"), "invalid message"), "a round out of order");
	threads_end();
}

static void another_link(void)
{
	int before;

	threads_begin();
	start_quiesce(HOLD_MS);
	before = threads[1];
	thread_connect(1, 0);
	ok(answer_says(fake_await("done", "quiesce"), "rank 1"),
	   "a new link replaces the old: a question to the old one stays without an answer");
	close(before);
	threads_end();
}

static void short_hello(void)
{
	struct gck_thread_msg m = { .type = GCK_LINK_MPI_HELLO, .total = 4 };
	int sv[2];

	threads_begin();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		abort();
	thread_messages.adopt(fake_agent, sv[0], fake_agent->tasks.v[1]->pid, &m, HEAD + 4);
	ok(!fake_agent->tasks.v[1]->mpi, "an invalid HELLO ends its link");
	close(sv[1]);
	threads_end();
}

static void another_rank(void)
{
	threads_begin();
	fake_agent->tasks.v[1]->mpi->hello.rank = 2;
	start_quiesce(HOLD_MS);
	ok(answer_says(fake_await("done", "quiesce"), "MPI_COMM_WORLD"),
	   "a rank of MPI with another number than the step's is refused by name");
	threads_end();
	threads_begin();
	fake_agent->tasks.v[1]->mpi->hello.size = 1 + FAKE_RANKS;
	start_quiesce(HOLD_MS);
	ok(answer_says(fake_await("done", "quiesce"), "MPI_COMM_WORLD"),
	   "so is one of another number of ranks, as mpirun may start in a rank");
	threads_end();
}

/* The agent in this process follows a clock that the test sets ahead. */
static void take_clock(void)
{
	char path[32];

	snprintf(path, sizeof path, "/proc/self/fd/%d", memfd_create("clock", MFD_CLOEXEC));
	if (test_clock_open(path))
		abort();
}

int main(void)
{
	take_clock();
	comes_late();
	in_init();
	no_freeze();
	hold_is_one();
	ends_at_rest();
	ends_in_round();
	ends_in_mpi();
	is_outside();
	too_many_words();
	wrong_round();
	another_link();
	short_hello();
	another_rank();
	return tap_done();
}
