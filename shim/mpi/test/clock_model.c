/* SPDX-License-Identifier: Apache-2.0
 * The collective clock's rounds with random programs on simulated ranks and many checkpoints. Each
 * quiesce ends, all ranks agree that it has ended, the state after it is consistent, and the
 * program ends. */
#include "shim/mpi/test/clock_job.h"

#include <stdlib.h>

#include "test/support/tap.h"

#define MAX_ROUNDS 4000

static const char *wrong;

/* ---- a quiesce ------------------------------------------------------------------------------ */

/* One round of all ranks; 1: all are settled. */
static int round_of_words(void)
{
	struct gck_mpi_words all[MAX_RANKS];
	int settled = 0;

	for (int r = 0; r < p.nranks; r++) {
		rank[r].blob.n = 0;
		if (!rank[r].inside)
			job_sweep(r);
		if (gck_mpi_clocks_put(&rank[r].clocks, &rank[r].blob, !rank[r].inside,
				       job_active(r), job_open(r), NULL))
			wrong = "no memory for the words";
		all[r] = (struct gck_mpi_words){ rank[r].blob.v, rank[r].blob.n };
	}
	for (int r = 0; r < p.nranks; r++) {
		if (gck_mpi_clocks_judge(&rank[r].clocks, all, p.nranks, r, NULL))
			wrong = "the words are refused";
		settled += gck_mpi_clocks_settled(&rank[r].clocks);
	}
	if (settled && settled < p.nranks)
		wrong = "ranks do not agree";
	return settled == p.nranks;
}

static void window(void)
{
	int steps = 50 + roll(300);

	for (int r = 0; r < p.nranks; r++)
		rank[r].open = gck_mpi_clocks_behind(&rank[r].clocks);
	while (steps--) {
		int r = roll(p.nranks);

		job_step(r);
		job_progress();
		rank[r].open = rank[r].open && gck_mpi_clocks_behind(&rank[r].clocks);
	}
	for (int r = 0; r < p.nranks; r++)
		rank[r].open = false;
}

static int quiesce(void)
{
	int rounds = 0;

	for (int r = 0; r < p.nranks; r++)
		rank[r].open = false;
	while (!round_of_words() && !wrong && ++rounds < MAX_ROUNDS)
		window();
	if (rounds == MAX_ROUNDS)
		wrong = "the quiesce does not end";
	return rounds;
}

/* ---- the state after a quiesce -------------------------------------------------------------- */

static void check_comm(int comm)
{
	unsigned members = p.comm[comm].members, alive = 0;
	unsigned long first = 0, finish = 0;

	for (int r = 0; r < p.nranks; r++) {
		const struct gck_mpi_clock *c = &rank[r].comm[comm];

		if (!rank[r].live[comm])
			continue;
		if (alive && (c->blocking != first || c->finish != finish))
			wrong = "members have entered different collectives";
		first = c->blocking;
		finish = c->finish;
		alive |= 1u << r;
	}
	if (alive && alive != members)
		wrong = "a communicator lives in some members only";
}

static void check_nonblocking(int i)
{
	const struct nonblocking *n = &p.nonblocking[i];
	unsigned seen = 0, started = 0, done = 0, to_finish = 0;

	for (int r = 0; r < p.nranks; r++) {
		seen |= (unsigned)rank[r].seen[i] << r;
		started |= (unsigned)(rank[r].number[i] != 0) << r;
		done |= (unsigned)rank[r].done[i] << r;
		to_finish |= (unsigned)(rank[r].number[i] &&
					rank[r].number[i] <= rank[r].comm[n->comm].finish) << r;
	}
	if (to_finish ? done != p.comm[n->comm].members : seen != 0)
		wrong = "a non-blocking collective is complete in some ranks only";
	if (started && to_finish && to_finish != started)
		wrong = "ranks do not agree on what is finished";
}

/* A restart starts unfinished collectives again from the beginning. */
static void check(bool restart)
{
	for (int r = 0; r < p.nranks; r++)
		if (rank[r].inside)
			wrong = "a rank is inside a real call";
	for (int i = 0; i < p.ncomms; i++)
		check_comm(i);
	for (int i = 0; i < p.nnonblocking; i++) {
		check_nonblocking(i);
		for (int r = 0; restart && r < p.nranks; r++)
			if (rank[r].number[i] > rank[r].comm[p.nonblocking[i].comm].finish)
				rank[r].done[i] = false;
	}
}

/* ---- programs ------------------------------------------------------------------------------- */

static void forget(void)
{
	for (int r = 0; r < p.nranks; r++) {
		free(rank[r].blob.v);
		free(rank[r].clocks.called);
	}
}

/* Nothing must be left of communicators and meetings that all members have ended. */
static void check_end(void)
{
	for (int turn = 0; turn < 2; turn++)
		for (int r = 0; r < p.nranks; r++)
			job_sweep(r);
	for (int c = 0; c < p.ncomms; c++)
		for (int r = 0; p.comm[c].freed && r < p.nranks; r++)
			if (rank[r].live[c] && goodbyes[c] == p.comm[c].members)
				wrong = "a freed communicator still has a clock";
	for (int r = 0; r < p.nranks; r++)
		if (rank[r].clocks.meetings)
			wrong = "a meeting has not ended";
}

/* Runs a program; returns the most rounds of a quiesce. */
static int one_program(unsigned seed)
{
	int most = 0;

	wrong = NULL;
	job_begin(seed);
	for (int n = 0; !wrong && !job_ended() && n < 3000; n++) {
		int rounds;

		job_run(1 + roll(200 * p.nranks));
		rounds = quiesce();
		most = rounds > most ? rounds : most;
		if (!wrong)
			check(roll(2));
		for (int r = 0; r < p.nranks; r++) {
			gck_mpi_clocks_resume(&rank[r].clocks);
			rank[r].open = true;
		}
	}
	if (!wrong && !job_ended())
		wrong = "the program does not end";
	if (!wrong)
		check_end();
	forget();
	return most;
}

/* A communicator of one rank: no other rank is told of it, and the rank finishes what it
 * started. */
static void test_alone(void)
{
	struct gck_mpi_clocks s = GCK_MPI_CLOCKS_INIT;
	struct gck_mpi_clock c = { .id = 1, .ranks = 1 };
	struct gck_mpi_blob b = { 0 };
	struct gck_mpi_words w;
	size_t none;

	if (gck_mpi_clocks_put(&s, &b, true, 0, 0, NULL))
		wrong = "no memory for the words";
	none = b.n;
	b.n = 0;
	gck_mpi_clocks_add(&s, &c);
	c.blocking = 3;
	c.started = 2;
	if (gck_mpi_clocks_put(&s, &b, true, 1, 0, NULL))
		wrong = "no memory for the words";
	ok(all_of(!wrong, b.n == none), "a communicator of one rank is not in the words");
	w = (struct gck_mpi_words){ b.v, b.n };
	ok(all_of(!gck_mpi_clocks_judge(&s, &w, 1, 0, NULL), !gck_mpi_clocks_behind(&s),
		  c.finish == 2), "a communicator of one rank is not behind and finishes its own");
	free(b.v);
}

int main(int argc, char **argv)
{
	unsigned first = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
	unsigned last = argc > 2 ? strtoul(argv[2], NULL, 10) : first + 599;
	int most = 0, rounds;

	for (unsigned seed = first; seed <= last; seed++) {
		rounds = one_program(seed);
		most = rounds > most ? rounds : most;
		if (wrong)
			ok(false, "program %u: %s", seed, wrong);
	}
	test_alone();
	ok(true, "programs %u to %u ran, with at most %d rounds for a checkpoint", first, last,
	   most);
	return tap_done();
}
