/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/test/clock_job.h"

#include <string.h>

struct program p;
struct rank rank[MAX_RANKS];
unsigned goodbyes[MAX_COMMS];
static unsigned entered[MAX_OPS * MAX_RANKS]; /* members that have entered, by instance */
static int sent[MAX_RANKS][MAX_RANKS], taken[MAX_RANKS][MAX_RANKS], received[MAX_RANKS][MAX_RANKS];

/* ---- the real library ----------------------------------------------------------------------- */

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

/* True if requests that the program has not completed use the communicator. */
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
	k->comm[comm].finish = UINT64_MAX; /* everything on it is finished */
	k->live[comm] = false;
}

void job_sweep(int r)
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

/* The begin of a call: ticks. */
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

/* Makes one step of the program, if that can go on. */
void job_step(int r)
{
	struct rank *k = &rank[r];
	const struct op *o = &p.op[r][k->pc];
	bool over = false;

	if (!k->open && !k->inside)
		return;
	switch (o->kind) {
	case OP_END:
		return;
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
		job_sweep(r);
}

void job_run(int steps)
{
	while (steps--)
		job_step(roll(p.nranks));
}

/* ---- the MPI threads ------------------------------------------------------------------------ */

void job_progress(void)
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

size_t job_active(int r)
{
	size_t n = 0;

	for (int c = 0; c < p.ncomms; c++)
		n += says_goodbye(r, c);
	for (int i = 0; i < p.nnonblocking; i++)
		n += rank[r].number[i] && !rank[r].done[i];
	return n;
}

size_t job_open(int r)
{
	size_t n = 0;

	for (int c = 0; c < p.ncomms; c++)
		n += says_goodbye(r, c) && rank[r].goodbye[c] <= rank[r].comm[c].finish;
	for (int i = 0; i < p.nnonblocking; i++)
		n += rank[r].number[i] && !rank[r].done[i] &&
		     rank[r].number[i] <= rank[r].comm[p.nonblocking[i].comm].finish;
	return n;
}

/* ---- the job -------------------------------------------------------------------------------- */

void job_begin(unsigned seed)
{
	program_make(&p, seed);
	memset(rank, 0, sizeof rank);
	memset(entered, 0, sizeof entered);
	memset(goodbyes, 0, sizeof goodbyes);
	memset(sent, 0, sizeof sent);
	memset(taken, 0, sizeof taken);
	memset(received, 0, sizeof received);
	for (int r = 0; r < p.nranks; r++) {
		rank[r].clocks = (struct gck_mpi_clocks)GCK_MPI_CLOCKS_INIT;
		rank[r].open = true;
		for (int c = 0; c < p.ncomms; c++)
			rank[r].comm[c].finish = 0;
		live(r, 0);
	}
}

bool job_ended(void)
{
	for (int r = 0; r < p.nranks; r++)
		if (p.op[r][rank[r].pc].kind != OP_END)
			return false;
	return true;
}
