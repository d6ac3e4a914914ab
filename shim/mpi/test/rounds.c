/* SPDX-License-Identifier: Apache-2.0
 * The errors of a quiesce that fails: rank 0's side of two ranks, with a simulated clock. */
#include "config.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "shim/mpi/base/gate.h"
#include "shim/mpi/base/participant.h"
#include "shim/mpi/base/mpi_thread.h"
#include "shim/mpi/quiesce/quiesce.h"
#include "test/support/tap.h"

#define MS 1000000ll
#define LIMIT_MS 3000
#define INSIDE 1ul /* flags of a rank's words */
#define BEHIND 2ul

/* The state of the two ranks. */
static struct {
	int64_t now_ns, round_ends_ns;
	int first_ms, round_ms; /* duration of the first and the other rounds; 0: endless */
	bool inside, behind;    /* rank 0's program is in an MPI call; must run on */
	unsigned long other;    /* rank 1's flags */
	const struct gck_mpi_blob *mine;
} world;

int clock_gettime(clockid_t clock, struct timespec *ts)
{
	(void)clock;
	*ts = (struct timespec){world.now_ns / 1000000000, world.now_ns % 1000000000};
	return 0;
}

int nanosleep(const struct timespec *pause, struct timespec *left)
{
	(void)left;
	world.now_ns += pause->tv_sec * 1000000000ll + pause->tv_nsec;
	return 0;
}

/* ---- rank 0's stand-in ---------------------------------------------------------------------- */

void gck_gate_close(void)
{
}

void gck_gate_open(void)
{
}

bool gck_gate_empty(void)
{
	return !world.inside;
}

bool gck_gate_wait_empty(int ms)
{
	(void)ms;
	return !world.inside;
}

bool gck_gate_waited(void)
{
	return false;
}

void gck_mpi_gate_where(char *buf, size_t n)
{
	snprintf(buf, n, "%s", world.inside ? "MPI_Allreduce" : "");
}

bool gck_mpi_leaving(void)
{
	return false;
}

enum gck_mpi_stage gck_mpi_thread_stage(struct gck_mpi_thread_state *k, int ms)
{
	(void)k;
	(void)ms;
	return GCK_MPI_INITIALIZED;
}

void gck_mpi_resume(void)
{
}

int gck_mpi_participants_save(bool uninitialized, struct gck_error *err)
{
	(void)uninitialized;
	(void)err;
	return 0;
}

static bool is_behind(void)
{
	return world.behind;
}

static bool is_settled(void)
{
	return !world.behind && !world.other;
}

const struct gck_mpi_participant *const gck_mpi_participants[] = {NULL};
static const struct gck_mpi_round_ops collectives = {
	.name = "collectives", .behind = is_behind, .settled = is_settled,
};
const struct gck_mpi_round_ops *const gck_mpi_all_round_ops[] = {&collectives, NULL};

/* ---- rank 1's words ------------------------------------------------------------------------- */

static int give(struct gck_mpi_allgather *x, uint32_t round, const struct gck_mpi_blob *mine,
		struct gck_error *err)
{
	int ms = round == 1 ? world.first_ms : world.round_ms;

	(void)x;
	(void)err;
	world.mine = mine;
	world.round_ends_ns = ms ? world.now_ns + ms * MS : INT64_MAX;
	return 0;
}

static int take(struct gck_mpi_allgather *x, int ms, struct gck_mpi_words *all,
		struct gck_error *err)
{
	static unsigned long other[2]; /* flags, and nothing of collectives */

	(void)x;
	(void)err;
	world.now_ns += ms * MS;
	if (world.now_ns < world.round_ends_ns)
		return 0;
	other[0] = world.other;
	all[0] = (struct gck_mpi_words){world.mine->v, world.mine->n};
	all[1] = (struct gck_mpi_words){other, 2};
	return 1;
}

/* ---- the errors ----------------------------------------------------------------------------- */

static void fails(const char *text, const char *name)
{
	struct gck_mpi_allgather x = {.nranks = 2, .rank = 0, .give = give, .take = take};
	int64_t until = world.now_ns + LIMIT_MS * MS;
	struct gck_error err = {0};
	int rc = gck_mpi_quiesce(&x, until, &err);

	ok(all_of(rc, err.code == ETIMEDOUT, strstr(err.text, text)), "%s: %s", name, err.text);
	ok(world.now_ns < until + 1100 * MS, "it ends in time: %s", name);
}

static void test_silence(void)
{
	world.first_ms = 3, world.round_ms = 0, world.other = INSIDE;
	fails("round 2 of the ranks' words", "a round that does not end is reported");
	world.inside = true;
	fails("round 2 of the ranks' words", "the round is reported if a program is in a call too");
	world.first_ms = 3700;
	fails("round 1 of the ranks' words", "a round that ends late is reported");
	world.inside = false;
}

static void test_calls(void)
{
	world.first_ms = world.round_ms = 40, world.other = INSIDE;
	fails("rank 0 waits for other ranks that are in MPI calls",
	      "another rank's call that does not end is reported");
	world.inside = true;
	fails("rank 0 is inside MPI_Allreduce", "a call that does not end is reported");
	world.inside = false, world.behind = true;
	fails("rank 0 computes", "a program that computes is reported");
	world.behind = false, world.other = BEHIND;
	fails("rank 0 waits for other ranks", "another rank's program that computes is reported");
}

int main(void)
{
	test_silence();
	test_calls();
	return tap_done();
}
