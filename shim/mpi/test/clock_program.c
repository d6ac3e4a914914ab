/* SPDX-License-Identifier: Apache-2.0
 * Makes a global order of events, in which each may wait for all earlier ones; a rank's program is
 * its part of them. Only the starts of non-blocking collectives are moved at random. */
#include "shim/mpi/test/clock_program.h"

#include <string.h>

static unsigned long state;

unsigned roll(unsigned n)
{
	state = state * 6364136223846793005ul + 1442695040888963407ul;
	return (state >> 33) % n;
}

int lowest(unsigned members)
{
	return __builtin_ctz(members);
}

static void add(struct program *p, int rank, struct op op)
{
	p->op[rank][p->length[rank]++] = op;
}

static void add_all(struct program *p, unsigned members, struct op op)
{
	for (int r = 0; r < p->nranks; r++)
		if (members >> r & 1)
			add(p, r, op);
}

static void start(struct program *p, int which, int rank)
{
	struct nonblocking *n = &p->nonblocking[which];

	n->unstarted &= ~(1u << rank);
	add(p, rank, (struct op){ OP_START, n->comm, n->kind, which, n->instance });
}

/* Makes all members start earlier non-blocking collectives before another on the communicator. */
static void flush(struct program *p, int comm)
{
	for (int i = 0; i < p->nnonblocking; i++)
		for (int r = 0; p->nonblocking[i].comm == comm && r < p->nranks; r++)
			if (p->nonblocking[i].unstarted >> r & 1)
				start(p, i, r);
}

/* Starts some, in each rank in the order of the communicator's collectives. */
static void start_some(struct program *p)
{
	for (int r = 0; r < p->nranks; r++) {
		unsigned barred = 0;

		for (int i = 0; i < p->nnonblocking; i++) {
			if (!(p->nonblocking[i].unstarted >> r & 1))
				continue;
			if (roll(3) == 0 && !(barred >> p->nonblocking[i].comm % 32 & 1))
				start(p, i, r);
			else
				barred |= 1u << p->nonblocking[i].comm % 32;
		}
	}
}

/* The program tests one and ignores the result. */
static void test_some(struct program *p)
{
	for (int i = 0; i < p->nnonblocking; i++) {
		const struct nonblocking *n = &p->nonblocking[i];

		for (int r = 0; !n->waited && r < p->nranks; r++)
			if (p->comm[n->comm].members & ~n->unstarted & 1u << r && !roll(8))
				add(p, r, (struct op){ OP_TEST, n->comm, n->kind, i, n->instance });
	}
}

static void wait_some(struct program *p)
{
	for (int i = 0; i < p->nnonblocking; i++) {
		struct nonblocking *n = &p->nonblocking[i];

		if (n->unstarted || n->waited || roll(4))
			continue;
		n->waited = true;
		add_all(p, p->comm[n->comm].members,
			(struct op){OP_WAIT, n->comm, n->kind, i, n->instance});
	}
}

static int new_comm(struct program *p, unsigned members)
{
	p->comm[p->ncomms].members = members;
	return p->ncomms++;
}

static unsigned subset(const struct program *p)
{
	unsigned all = (1u << p->nranks) - 1, s = roll(all + 1) & roll(all + 1);

	return s ? s : 1u << roll(p->nranks);
}

/* Joins two communicators without common ranks. */
static void join(struct program *p, int a)
{
	int b = roll(p->ncomms);

	if (p->comm[b].freed || p->comm[a].members & p->comm[b].members)
		return;
	flush(p, b);
	p->ninstances++;
	add_all(p, p->comm[a].members, (struct op){ OP_INTER, a, WAIT_ALL, b, p->ninstances });
	add_all(p, p->comm[b].members, (struct op){ OP_INTER, b, WAIT_ALL, a, p->ninstances });
}

static void make_comm(struct program *p, int parent)
{
	unsigned members = p->comm[parent].members;
	int c;

	if (p->ncomms == MAX_COMMS)
		return;
	if (roll(2)) {
		c = new_comm(p, members);
		add_all(p, members, (struct op){ OP_CREATE, parent, WAIT_ALL, c, ++p->ninstances });
		return;
	}
	c = new_comm(p, subset(p));
	add_all(p, p->comm[c].members, (struct op){ OP_GROUP, 0, WAIT_ALL, c, ++p->ninstances });
}

static void collective(struct program *p)
{
	int comm = roll(p->ncomms);
	unsigned members = p->comm[comm].members;

	if (p->comm[comm].freed)
		return;
	if (roll(3) == 0 && p->nnonblocking < MAX_NONBLOCKING) {
		p->nonblocking[p->nnonblocking++] =
			(struct nonblocking){ comm, ++p->ninstances, roll(WAITS), members, false };
		return;
	}
	flush(p, comm);
	switch (roll(12)) {
	case 0:
		make_comm(p, comm);
		break;
	case 1:
		join(p, comm);
		break;
	case 2:
		p->comm[comm].freed = comm != 0;
		if (comm)
			add_all(p, members, (struct op){ OP_FREE, comm, 0, 0, ++p->ninstances });
		break;
	default:
		add_all(p, members,
			(struct op){OP_COLLECTIVE, comm, roll(WAITS), 0, ++p->ninstances});
	}
}

static void message(struct program *p)
{
	int from = roll(p->nranks), to = roll(p->nranks);

	if (from == to)
		return;
	add(p, from, (struct op){ OP_SEND, 0, to, roll(3) == 0, 0 });
	add(p, to, (struct op){ OP_RECV, 0, from, 0, 0 });
}

void program_make(struct program *p, unsigned seed)
{
	int events = 20 + seed % 100;

	state = seed;
	memset(p, 0, sizeof *p);
	p->nranks = 2 + roll(MAX_RANKS - 1);
	new_comm(p, (1u << p->nranks) - 1);
	for (int i = 0; i < events; i++) {
		switch (roll(4)) {
		case 0:
			message(p);
			break;
		case 1:
			add(p, roll(p->nranks),
			    (struct op){OP_COMPUTE, 0, roll(roll(20) ? 10 : 3000), 0, 0});
			break;
		default:
			collective(p);
		}
		start_some(p);
		test_some(p);
		wait_some(p);
	}
	for (int i = 0; i < p->ncomms; i++)
		flush(p, i);
	add_all(p, (1u << p->nranks) - 1, (struct op){ .kind = OP_END });
}
