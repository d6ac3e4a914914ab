/* SPDX-License-Identifier: Apache-2.0
 * A checkpoint on one node whose ranks have MPI: MPI threads that answer, end and hang as they are
 * told. */
#include "config.h"

#include "coordinator/agent/mpi.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/test/tap.h"
#include "coordinator/agent/packet.h"
#include "coordinator/agent/restart.h"
#include "coordinator/agent/test/fakes.h"

#define HEAD offsetof(struct gck_link_mpi, data)

static int threads[FAKE_RANKS];

/* The link of a rank's MPI thread, which says HELLO. */
static void connect_thread(unsigned rank, uint32_t restored)
{
	struct gck_link_mpi m = { .type = GCK_LINK_MPI_HELLO,
				  .total = sizeof(struct gck_link_mpi_hello) };
	struct gck_link_mpi_hello hello = { .version = GCK_LINK_VERSION, .restored = restored,
					    .rank = rank, .size = FAKE_RANKS };
	int sv[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		abort();
	memcpy(m.data, &hello, sizeof hello);
	threads[rank] = sv[1];
	mpi_adopt(fake_agent, sv[0], fake_agent->tasks.v[rank]->pid, &m, HEAD + sizeof hello);
}

static void begin(void)
{
	fake_begin();
	for (unsigned i = 0; i < FAKE_RANKS; i++)
		connect_thread(i, 0);
}

static void end(void)
{
	for (unsigned i = 0; i < FAKE_RANKS; i++)
		close(threads[i]);
	fake_run(0.05);
	fake_end();
}

static void say(unsigned rank, uint32_t type, uint32_t round, uint32_t value, size_t size)
{
	static struct gck_link_mpi m;
	size_t at = 0;

	do {
		size_t n = size - at < GCK_LINK_MPI_PIECE ? size - at : GCK_LINK_MPI_PIECE;

		m = (struct gck_link_mpi){ .type = type, .seq = 7, .round = round, .value = value,
					   .total = (uint32_t)size, .offset = (uint32_t)at };
		while (send(threads[rank], &m, HEAD + n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
		       errno == EAGAIN)
			fake_run(0.01);
		at += n;
	} while (at < size);
}

/* What a rank's MPI thread was told since the last look: how many messages of a type. */
static int heard(unsigned rank, uint32_t type)
{
	static struct gck_link_mpi m;
	int n = 0;

	while (recv(threads[rank], &m, sizeof m, MSG_DONTWAIT) > 0)
		n += m.type == type;
	return n;
}

static bool says(const json_t *answer, const char *text)
{
	const char *error = packet_text(answer, "error", "");

	if (answer && !packet_bool(answer, "ok") && strstr(error, text))
		return true;
	printf("# the error is \"%s\"\n", error);
	return false;
}

static void start_quiesce(int hold_ms, int limit_ms)
{
	fake_command("prepare", json_pack("{s:i}", "hold_ms", hold_ms));
	fake_await("done", "prepare", 2);
	fake_command("quiesce", json_pack("{s:s, s:i}", "via", "coordinator", "limit_ms", limit_ms));
	fake_run(0.05);
}

static const json_t *bring_to_rest(int hold_ms, int limit_ms)
{
	start_quiesce(hold_ms, limit_ms);
	for (unsigned i = 0; i < FAKE_RANKS; i++)
		say(i, GCK_LINK_MPI_QUIESCED, 0, 0, 0);
	return fake_await("done", "quiesce", 1);
}

static void no_freeze(void)
{
	begin();
	ok(packet_bool(bring_to_rest(300, 300), "ok"), "MPI is at rest on the node");
	is_int(heard(0, GCK_LINK_MPI_QUIESCE), 1, "its ranks were asked");
	fake_run(1);
	is_int(heard(0, GCK_LINK_MPI_RESUME), 0, "and wait for the coordinator's next word");
	fake_run(2.5);
	is_int(heard(0, GCK_LINK_MPI_RESUME), 1, "it does not come: they are let go");
	fake_command("freeze", NULL);
	ok(says(fake_await("done", "freeze", 1), "hold"), "and a freeze is told so");
	end();
}

static void ends_at_rest(void)
{
	begin();
	bring_to_rest(2000, 2000);
	heard(0, GCK_LINK_MPI_QUIESCE);
	close(threads[1]);
	fake_rank_ends(1, true);
	fake_run(0.2);
	is_int(heard(0, GCK_LINK_MPI_RESUME), 1, "a rank dies at rest: the others go on at once");
	fake_command("freeze", NULL);
	ok(says(fake_await("done", "freeze", 1), "rank 1"), "it is no rank that has exited well");
	end();
}

static void ends_in_round(void)
{
	const json_t *m;

	begin();
	start_quiesce(4000, 4000);
	say(0, GCK_LINK_MPI_READY, 1, 0, 8);
	say(2, GCK_LINK_MPI_READY, 1, 0, 8);
	fake_run(0.1);
	fake_rank_ends(1, false);
	close(threads[1]);
	m = fake_await("done", "quiesce", 0.5);
	ok(says(m, "rank 1"), "a rank dies in a round: the node says so at once");
	ok(heard(0, GCK_LINK_MPI_RESUME) && heard(2, GCK_LINK_MPI_RESUME), "and lets the others go");
	end();
}

static void too_many_words(void)
{
	begin();
	start_quiesce(4000, 4000);
	say(0, GCK_LINK_MPI_READY, 1, 0, 13u << 20);
	ok(says(fake_await("done", "quiesce", 1), "--mpi=pmix"),
	   "words that would break the connection to the coordinator are refused");
	end();
}

static void wrong_round(void)
{
	begin();
	start_quiesce(4000, 4000);
	say(0, GCK_LINK_MPI_READY, UINT32_MAX, 0, 8);
	ok(says(fake_await("done", "quiesce", 1), "makes no sense"), "a round out of turn");
	end();
}

static void another_link(void)
{
	int before;

	begin();
	start_quiesce(4000, 4000);
	before = threads[1];
	connect_thread(1, 0);
	ok(says(fake_await("done", "quiesce", 0.5), "rank 1"),
	   "a link takes another's place: what that was asked is not answered any more");
	close(before);
	end();
}

static void not_rebuilt(void)
{
	json_t *welcome = json_pack("{s:i, s:s}", "seq", 7, "hash", "aa");

	begin();
	say(1, GCK_LINK_MPI_REBUILT, 0, 0, 0);
	fake_run(0.1);
	ok(!fake_ended, "MPI is back in a rank: the step runs");
	connect_thread(1, 1);
	say(1, GCK_LINK_MPI_REBUILT, 0, EIO, 8);
	fake_run(0.1);
	ok(fake_ended, "it is not, and the restart is over or not known: the ranks are ended");
	end();

	begin();
	fake_agent->gate = GATE_WAIT;
	restart_offered(fake_agent, welcome);
	fake_command("build", NULL);
	fake_await("done", "build", 2);
	fake_command("run", NULL);
	fake_await("done", "run", 2);
	fake_ended = false;
	say(1, GCK_LINK_MPI_REBUILT, 0, EIO, 8);
	fake_run(0.1);
	ok(fake_ended, "the same after a restart that seemed done");
	json_decref(welcome);
	end();
}

static void short_hello(void)
{
	struct gck_link_mpi m = { .type = GCK_LINK_MPI_HELLO, .total = 4 };
	int sv[2];

	begin();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
		abort();
	mpi_adopt(fake_agent, sv[0], fake_agent->tasks.v[1]->pid, &m, HEAD + 4);
	ok(!fake_agent->tasks.v[1]->mpi, "a HELLO that is none ends its link");
	close(sv[1]);
	end();
}

static void another_rank(void)
{
	begin();
	fake_agent->tasks.v[1]->mpi->hello.rank = 2;
	start_quiesce(4000, 4000);
	ok(says(fake_await("done", "quiesce", 1), "MPI_COMM_WORLD"),
	   "a rank of MPI that is not the step's is refused by name");
	end();
}

int main(void)
{
	no_freeze();
	ends_at_rest();
	ends_in_round();
	too_many_words();
	wrong_round();
	another_link();
	not_rebuilt();
	short_hello();
	another_rank();
	return tap_done();
}
