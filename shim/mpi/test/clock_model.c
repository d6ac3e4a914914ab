/* SPDX-License-Identifier: Apache-2.0
 * The collective clock's rounds against random programs on simulated ranks, checkpointed again and
 * again: every quiesce ends, all ranks agree that it has, what it leaves is consistent, and the program
 * ends afterwards. */
#include "shim/mpi/clock.h"

#include <stdlib.h>
#include <string.h>

#include "common/test/tap.h"
#include "shim/mpi/test/clock_program.h"

#define MAX_ROUNDS 4000

struct rank {
	struct gck_mpi_clocks clocks;
	struct gck_mpi_clock comm[MAX_COMMS];
	bool live[MAX_COMMS], freed[MAX_COMMS]; /* it has a clock; the program is done with it */
	unsigned long goodbye[MAX_COMMS];       /* its number; 0: not said */
	struct gck_mpi_meeting meeting;
	int met[MAX_RANKS];
	int pc, computed;
	bool open, inside;   /* the gate; in a real blocking call */
	unsigned long number[MAX_NONBLOCKING];          /* 0: not started */
	bool done[MAX_NONBLOCKING], seen[MAX_NONBLOCKING]; /* in the real library; told */
	struct gck_mpi_blob blob;
};

static struct program p;
static struct rank rank[MAX_RANKS];
static unsigned entered[MAX_OPS * MAX_RANKS]; /* by instance: members */
static unsigned goodbyes[MAX_COMMS];          /* members that have said it */
static int sent[MAX_RANKS][MAX_RANKS], taken[MAX_RANKS][MAX_RANKS], received[MAX_RANKS][MAX_RANKS];
static const char *wrong;

/* ---- the real library's side ---------------------------------------------------------------- */

static bool complete(int instance, unsigned members, int kind, int r)
{
	unsigned in = entered[instance], root = 1u << lowest(members);

	if (kind == WAIT_ALL || (kind == ROOT_WAITS && root == 1u << r))
		return (in & members) == members;
	return kind == ROOT_WAITS || in & root;
}

static bool nonblocking_complete(int i, int r)
{
	const struct nonblocking *n = &p.nonblocking[i];

	return rank[r].number[i] &&
	       (rank[r].done[i] || complete(n->instance, p.comm[n->comm].members, n->kind, r));
}

/* ---- a rank's steps ------------------------------------------------------------------------- */

static bool may_enter(struct rank *k)
{
	bool may;

	pthread_mutex_lock(&k->clocks.lock);
	may = gck_mpi_clocks_may_enter(&k->clocks);
	pthread_mutex_unlock(&k->clocks.lock);
	return may;
}

static void live(int r, int comm)
{
	struct gck_mpi_clock *c = &rank[r].comm[comm];

	c->id = gck_mpi_mix(comm, 77);
	c->ranks = (unsigned)__builtin_popcount(p.comm[comm].members);
	gck_mpi_clocks_add(&rank[r].clocks, c);
	rank[r].live[comm] = true;
}

static void meet(int r, unsigned long key, unsigned members)
{
	struct rank *k = &rank[r];

	k->meeting = (struct gck_mpi_meeting){ .key = key, .ranks = k->met };
	for (int i = 0; i < p.nranks; i++)
		if (members >> i & 1)
			k->met[k->meeting.nranks++] = i;
	gck_mpi_clocks_meet(&k->clocks, &k->meeting);
}

/* Requests that the program has yet to ask for name it. */
static bool in_use(int r, int comm)
{
	for (int i = 0; i < p.nnonblocking; i++)
		if (p.nonblocking[i].comm == comm && rank[r].number[i] && !rank[r].seen[i])
			return true;
	return false;
}

static void see_goodbye(int r, int comm)
{
	struct rank *k = &rank[r];

	if (!k->goodbye[comm] || !k->live[comm] || goodbyes[comm] != p.comm[comm].members)
		return;
	gck_mpi_clock_saw(&k->comm[comm], k->goodbye[comm]);
	gck_mpi_clocks_remove(&k->clocks, &k->comm[comm]);
	k->comm[comm].finish = UINT64_MAX; /* all of what was on it is */
	k->live[comm] = false;
}

static void sweep(int r)
{
	struct rank *k = &rank[r];

	for (int c = 0; c < p.ncomms; c++) {
		if (k->freed[c] && !k->goodbye[c] && !in_use(r, c)) {
			k->goodbye[c] = ++k->comm[c].started;
			goodbyes[c] |= 1u << r;
		}
		see_goodbye(r, c);
	}
}

static unsigned members_of(const struct op *o)
{
	unsigned members = p.comm[o->comm].members;

	if (o->kind == OP_GROUP)
		return p.comm[o->b].members;
	return o->kind == OP_INTER ? members | p.comm[o->b].members : members;
}

/* A call begins: its ticks. */
static void enter(int r, const struct op *o)
{
	struct rank *k = &rank[r];
	int a = lowest(p.comm[o->comm].members), b = lowest(p.comm[o->b].members);

	if (o->kind == OP_GROUP)
		meet(r, gck_mpi_mix(p.comm[o->b].members, 5), p.comm[o->b].members);
	else
		k->comm[o->comm].blocking++;
	if (o->kind == OP_INTER && r == a)
		meet(r, gck_mpi_mix(a < b ? a * 99 + b : b * 99 + a, 6), 1u << a | 1u << b);
	entered[o->instance] |= 1u << r;
}

static void leave(int r, const struct op *o)
{
	if (o->kind == OP_CREATE || o->kind == OP_GROUP)
		live(r, o->b);
	if (rank[r].meeting.key)
		gck_mpi_clocks_part(&rank[r].clocks, &rank[r].meeting);
	rank[r].meeting.key = 0;
}

static bool call(int r, const struct op *o)
{
	struct rank *k = &rank[r];

	if (!k->inside) {
		if (!may_enter(k))
			return false;
		enter(r, o);
		k->inside = true;
	}
	if (!complete(o->instance, members_of(o), o->a, r))
		return false;
	k->inside = false;
	leave(r, o);
	return true;
}

static bool start(int r, const struct op *o)
{
	struct rank *k = &rank[r];

	if (!may_enter(k))
		return false;
	k->number[o->b] = ++k->comm[o->comm].started;
	entered[o->instance] |= 1u << r;
	return true;
}

static bool wait(int r, const struct op *o)
{
	struct rank *k = &rank[r];

	if (!nonblocking_complete(o->b, r))
		return false;
	k->done[o->b] = k->seen[o->b] = true;
	gck_mpi_clock_saw(&k->comm[o->comm], k->number[o->b]);
	return true;
}

static bool send(int r, const struct op *o)
{
	struct rank *k = &rank[r];

	if (!k->inside)
		sent[r][o->a]++;
	k->inside = o->b && taken[r][o->a] < sent[r][o->a];
	return !k->inside;
}

static bool receive(int r, int from)
{
	if (received[from][r] == sent[from][r])
		return false;
	if (++received[from][r] > taken[from][r])
		taken[from][r]++;
	return true;
}

/* One step of the program, if it can make one; true: something happened. */
static bool step(int r)
{
	struct rank *k = &rank[r];
	const struct op *o = &p.op[r][k->pc];
	bool over = false;

	if (!k->open && !k->inside)
		return false;
	switch (o->kind) {
	case OP_END:
		return false;
	case OP_COMPUTE:
		over = ++k->computed >= o->a;
		break;
	case OP_SEND:
		over = send(r, o);
		break;
	case OP_RECV:
		over = receive(r, o->a);
		break;
	case OP_START:
		over = start(r, o);
		break;
	case OP_FREE:
		k->freed[o->comm] = over = true;
		break;
	case OP_TEST:
		wait(r, o);
		over = true;
		break;
	case OP_WAIT:
		over = wait(r, o);
		break;
	default:
		over = call(r, o);
	}
	if (over) {
		k->pc++;
		k->computed = 0;
	}
	if (over && roll(4) == 0)
		sweep(r);
	return over;
}

static void run(int steps)
{
	while (steps--)
		step(roll(p.nranks));
}

/* ---- a quiesce ------------------------------------------------------------------------------ */

/* The MPI threads of ranks that are closed and outside: messages are taken in, collectives tested. */
static void progress(void)
{
	for (int r = 0; r < p.nranks; r++) {
		for (int from = 0; !rank[r].open && !rank[r].inside && from < p.nranks; from++)
			taken[from][r] = sent[from][r];
		for (int i = 0; i < p.nnonblocking; i++)
			if (!rank[r].open && rank[r].number[i] &&
			    rank[r].number[i] <= rank[r].comm[p.nonblocking[i].comm].finish)
				rank[r].done[i] |= nonblocking_complete(i, r);
		for (int c = 0; !rank[r].open && c < p.ncomms; c++)
			if (rank[r].goodbye[c] <= rank[r].comm[c].finish)
				see_goodbye(r, c);
	}
}

static bool says_goodbye(int r, int comm)
{
	return rank[r].goodbye[comm] && rank[r].live[comm];
}

static size_t active_collectives(int r)
{
	size_t n = 0;

	for (int c = 0; c < p.ncomms; c++)
		n += says_goodbye(r, c);
	for (int i = 0; i < p.nnonblocking; i++)
		n += rank[r].number[i] && !rank[r].done[i];
	return n;
}

static size_t open_collectives(int r)
{
	size_t n = 0;

	for (int c = 0; c < p.ncomms; c++)
		n += says_goodbye(r, c) && rank[r].goodbye[c] <= rank[r].comm[c].finish;
	for (int i = 0; i < p.nnonblocking; i++)
		n += rank[r].number[i] && !rank[r].done[i] &&
		     rank[r].number[i] <= rank[r].comm[p.nonblocking[i].comm].finish;
	return n;
}

/* All ranks put and judge. 1: settled, by the word of all. */
static int round_of_words(void)
{
	struct gck_mpi_words all[MAX_RANKS];
	int settled = 0;

	for (int r = 0; r < p.nranks; r++) {
		rank[r].blob.n = 0;
		if (!rank[r].inside)
			sweep(r);
		gck_mpi_clocks_put(&rank[r].clocks, &rank[r].blob, !rank[r].inside,
				   active_collectives(r), open_collectives(r), NULL);
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

		step(r);
		progress();
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

/* ---- what it leaves ------------------------------------------------------------------------- */

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

/* After a restart, what was not finished is begun again: nothing of it is done. */
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

static void begin(unsigned seed)
{
	program_make(&p, seed);
	memset(rank, 0, sizeof rank);
	memset(entered, 0, sizeof entered);
	memset(goodbyes, 0, sizeof goodbyes);
	memset(sent, 0, sizeof sent);
	memset(taken, 0, sizeof taken);
	memset(received, 0, sizeof received);
	wrong = NULL;
	for (int r = 0; r < p.nranks; r++) {
		rank[r].clocks = (struct gck_mpi_clocks)GCK_MPI_CLOCKS_INIT;
		rank[r].open = true;
		for (int c = 0; c < p.ncomms; c++)
			rank[r].comm[c].finish = 0;
		live(r, 0);
	}
}

static bool ended(void)
{
	for (int r = 0; r < p.nranks; r++)
		if (p.op[r][rank[r].pc].kind != OP_END)
			return false;
	return true;
}

static void forget(void)
{
	for (int r = 0; r < p.nranks; r++) {
		free(rank[r].blob.v);
		free(rank[r].clocks.called);
	}
}

/* Of what all members are done with nothing is left. */
static void check_end(void)
{
	for (int turn = 0; turn < 2; turn++)
		for (int r = 0; r < p.nranks; r++)
			sweep(r);
	for (int c = 0; c < p.ncomms; c++)
		for (int r = 0; p.comm[c].freed && r < p.nranks; r++)
			if (rank[r].live[c] && goodbyes[c] == p.comm[c].members)
				wrong = "a communicator that was freed has a clock still";
	for (int r = 0; r < p.nranks; r++)
		if (rank[r].clocks.meetings)
			wrong = "a meeting does not end";
}

/* The most rounds that a quiesce took. */
static int one_program(unsigned seed)
{
	int most = 0;

	begin(seed);
	for (int n = 0; !wrong && !ended() && n < 3000; n++) {
		int rounds;

		run(1 + roll(200 * p.nranks));
		rounds = quiesce();
		most = rounds > most ? rounds : most;
		if (!wrong)
			check(roll(2));
		for (int r = 0; r < p.nranks; r++) {
			gck_mpi_clocks_resume(&rank[r].clocks);
			rank[r].open = true;
		}
	}
	if (!wrong && !ended())
		wrong = "the program does not end";
	if (!wrong)
		check_end();
	forget();
	return most;
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
	ok(true, "programs %u to %u were made; at most %d rounds to a checkpoint", first, last, most);
	return tap_done();
}
