/* SPDX-License-Identifier: Apache-2.0
 * Random MPI programs that are correct even if every collective waits for all its members, for
 * test/clock_model.c. */
#ifndef GCK_MPI_TEST_CLOCK_PROGRAM_H
#define GCK_MPI_TEST_CLOCK_PROGRAM_H

#include <stdbool.h>

#define MAX_RANKS 12
#define MAX_COMMS 40
#define MAX_OPS 1500
#define MAX_NONBLOCKING 200

enum op_kind {
	OP_COMPUTE, /* a: steps */
	OP_SEND,    /* a: receiver; b: waits until it is received */
	OP_RECV,    /* a: sender */
	OP_COLLECTIVE,
	OP_START, OP_WAIT, OP_TEST, /* b: the non-blocking collective */
	OP_CREATE,  /* b: the new communicator, of the members of comm */
	OP_GROUP,   /* b: the new communicator, made by its own members */
	OP_INTER,   /* b: joins comm and communicator b, by their first members */
	OP_FREE,
	OP_END
};

enum waits { WAIT_ALL, WAIT_FOR_ROOT, ROOT_WAITS, WAITS }; /* barrier, broadcast, reduction */

struct op {
	enum op_kind kind;
	int comm, a, b; /* a of a collective: enum waits */
	int instance;   /* of a collective; the same in all members */
};

struct comm {
	unsigned members; /* bits */
	bool freed;
};

struct nonblocking {
	int comm, instance, kind;
	unsigned unstarted; /* while the program is made: members that do not start it yet */
	bool waited;
};

struct program {
	int nranks, ncomms, nnonblocking, ninstances;
	struct comm comm[MAX_COMMS];
	struct nonblocking nonblocking[MAX_NONBLOCKING];
	int length[MAX_RANKS];
	struct op op[MAX_RANKS][MAX_OPS];
};

void program_make(struct program *p, unsigned seed);
unsigned roll(unsigned n); /* a random number from 0 to n - 1 */
int lowest(unsigned members);

#endif
