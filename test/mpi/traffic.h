/* SPDX-License-Identifier: Apache-2.0
 * traffic: a random but correct MPI program from a seed. All ranks derive the same plan: what a
 * step does is drawn from `plan`, which is equal in all of them, so a draw from it must never
 * depend on the rank. How a rank goes about it (which of the waiting functions, say) is drawn from
 * `mine`. No step needs anything of a later one, so that the program ends even if every send and
 * every collective waits for its peers. */
#ifndef GCK_TEST_MPI_TRAFFIC_H
#define GCK_TEST_MPI_TRAFFIC_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TR_RANKS = 64,  /* at most */
	TR_COMMS = 16,
	TR_TYPES = 32,
	TR_DEGREE = 8,  /* neighbours of a rank in a topology */
	TR_AHEAD = 12,  /* steps for which something may be under way */
};

struct tr_rng {
	uint64_t state;
};

uint64_t tr_next(struct tr_rng *rng);
int tr_below(struct tr_rng *rng, int n);             /* 0 … n-1; 0 for n < 2 */
int tr_between(struct tr_rng *rng, int low, int high); /* both included */
bool tr_chance(struct tr_rng *rng, int percent);
uint64_t tr_mix(uint64_t a, uint64_t b);

struct tr_options {
	uint64_t seed, seeds;
	int steps, threads;
	double seconds;
	int pause_us;          /* after every step */
	int cycle;             /* steps between calls of the stand-in's test hook; 0: none */
	uint64_t families;     /* bit i: family i of tr_families */
	const char *scratch;   /* directory for files */
	bool restarts;         /* files are not overwritten, and stay */
	bool verbose;
};

/* ---- what the ranks share: communicators, types, windows, files */

struct tr_type {
	MPI_Datatype type;
	int size;        /* bytes of data in an element */
	int *at;         /* where each of them is, in the order of the type map */
	int lb, extent;  /* the data of an element lies in lb … lb+extent-1 */
	int unit;        /* the basic type that it is made of (index below), -1: several */
	bool basic;
};

struct tr_group {
	int n;
	int world[TR_RANKS];
};

enum tr_topology { TR_FLAT, TR_CART, TR_GRAPH, TR_DIST_GRAPH };

struct tr_neighbours {
	int nin, nout;
	int in[TR_DEGREE], out[TR_DEGREE]; /* MPI_PROC_NULL: beyond the edge */
};

struct tr_comm {
	bool used, inter;
	MPI_Comm comm;        /* MPI_COMM_NULL: this rank is not in it */
	struct tr_group g[2]; /* an intercommunicator has two */
	int side, rank;       /* this rank's place; rank -1: none */
	int late_until;       /* until this step messages in it may lie unreceived */
	enum tr_topology topology;
	int ndims, dims[3], periods[3];
	struct tr_neighbours *near; /* of every rank; NULL: no topology */
};

struct tr_transfer;
struct tr_late;
struct tr_channel;
struct tr_window;
struct tr_file;

/* One program: a thread has one of its own, on its own duplicate of MPI_COMM_WORLD. */
struct tr_run {
	const struct tr_options *opt;
	uint64_t seed;
	int step, n, me, thread;
	struct tr_rng plan, mine;
	uint64_t digest;
	struct tr_comm comms[TR_COMMS];
	struct tr_type types[TR_TYPES];
	int ntypes;
	struct tr_transfer *transfers, **last_transfer;
	struct tr_late *late;
	struct tr_channel *channels;
	struct tr_window *windows;
	struct tr_file *files;
};

struct tr_family {
	const char *name;
	int weight;
	void (*step)(struct tr_run *r);
	bool threads; /* Open MPI 4.1 does it right in several threads at once */
};

extern const struct tr_family tr_families[]; /* name NULL at the end */

void tr_p2p(struct tr_run *r);
void tr_storm(struct tr_run *r);
void tr_any(struct tr_run *r);
void tr_shift(struct tr_run *r);
void tr_channel_step(struct tr_run *r);
void tr_coll(struct tr_run *r);
void tr_nbc(struct tr_run *r);
void tr_reduce(struct tr_run *r);
void tr_nbreduce(struct tr_run *r);
void tr_neighbour(struct tr_run *r);
void tr_comm_step(struct tr_run *r);
void tr_group_step(struct tr_run *r);
void tr_type_step(struct tr_run *r);
void tr_pack_step(struct tr_run *r);
void tr_attr_step(struct tr_run *r);
void tr_object_step(struct tr_run *r);
void tr_window_step(struct tr_run *r);
void tr_file_step(struct tr_run *r);

/* run.c: the whole program of one seed. The digest, the same in all ranks. */
uint64_t tr_run(const struct tr_options *opt, uint64_t seed, MPI_Comm world, int thread);

/* fail.c: say seed, step and rank and what was expected, and abort. */
void tr_fail(const struct tr_run *r, const char *format, ...)
	__attribute__((format(printf, 2, 3), noreturn));
#define tr_need(r, condition, ...) ((condition) ? (void)0 : tr_fail(r, __VA_ARGS__))
void tr_equal(const struct tr_run *r, const char *what, long long got, long long want);

/* ---- data.c: buffers whose every byte is known */

struct tr_buffer {
	char *bytes;
	size_t length;
	char *at; /* what MPI is given: element 0 begins here */
};

/* Room for n elements and something around them, nothing in it yet. */
struct tr_buffer *tr_buffer_new(const struct tr_type *t, int n);
void tr_buffer_free(struct tr_buffer *b);
/* The data of n elements from the first-th on: a stream that is the same for every type. */
void tr_buffer_fill(struct tr_buffer *b, const struct tr_type *t, int first, int n, uint64_t key);
/* Every byte, that around the data too. Goes into the digest. */
void tr_buffer_check(struct tr_run *r, const char *what, const struct tr_buffer *got,
	const struct tr_buffer *want);
void tr_digest(struct tr_run *r, const void *data, size_t length);

/* A key for data that this step moves: the same in all ranks. */
uint64_t tr_key(const struct tr_run *r, int a, int b);

/* ---- transfer.c: what is under way, and how it ends */

struct tr_transfer {
	struct tr_transfer *next;
	const char *what;
	const struct tr_comm *comm;
	int due;                 /* the step at whose end it is waited for */
	MPI_Request req;
	struct tr_buffer *send, *recv, *want; /* recv is compared with want */
	int source, tag, bytes;  /* what the status must say; source MPI_ANY_SOURCE: don't ask */
	bool cancelled, persistent;
	void *keep[8];           /* freed with it: arrays of counts and the like */
};

struct tr_transfer *tr_transfer_new(const struct tr_comm *c, const char *what);
/* It has ended (st may be NULL): check it, give it back. */
void tr_transfer_end(struct tr_run *r, struct tr_transfer *x, const MPI_Status *st);
/* Complete now, in one of the ways there are. */
void tr_transfer_wait(struct tr_run *r, struct tr_transfer *x);
void tr_transfer_defer(struct tr_run *r, struct tr_transfer *x, int due);
/* Complete all that are due; those of comm (NULL: of any) whenever they are due, if all is set. */
void tr_settle(struct tr_run *r, const struct tr_comm *comm, bool all);

/* ---- p2p.c */

struct tr_message {
	struct tr_comm *c;
	int side, src, dst; /* dst: in the other group, for an intercommunicator */
	const struct tr_type *t;
	int count, tag;
	uint64_t key;
};

void tr_message_draw(struct tr_run *r, struct tr_comm *c, int number, struct tr_message *m);
bool tr_message_sender(const struct tr_message *m);
bool tr_message_receiver(const struct tr_message *m);
struct tr_buffer *tr_message_data(const struct tr_message *m);
struct tr_transfer *tr_message_receive(const struct tr_message *m, const char *what);

/* Receives that are posted in a later step than their messages were sent. */
void tr_late_add(struct tr_run *r, const struct tr_message *m, int step, int kind);
void tr_late_post(struct tr_run *r, const struct tr_comm *comm, bool all);

/* ---- comm.c, topology.c, type.c … */

void tr_comm_start(struct tr_run *r, MPI_Comm world);
void tr_comm_end(struct tr_run *r);
struct tr_comm *tr_comm_draw(struct tr_run *r);       /* any */
struct tr_comm *tr_comm_draw_intra(struct tr_run *r);
struct tr_comm *tr_comm_draw_near(struct tr_run *r);  /* with a topology; NULL: there is none */
const struct tr_group *tr_peers(const struct tr_comm *c, int side);
struct tr_comm *tr_comm_slot(struct tr_run *r);       /* a free one, by freeing another if needed */
void tr_comm_set(struct tr_run *r, struct tr_comm *c, MPI_Comm comm); /* its groups are set; check it */
void tr_comm_free(struct tr_run *r, struct tr_comm *c);
void tr_topology_make(struct tr_run *r, struct tr_comm *from);

void tr_type_start(struct tr_run *r);
void tr_type_end(struct tr_run *r);
const struct tr_type *tr_type_draw(struct tr_run *r);
const struct tr_type *tr_type_draw_basic(struct tr_run *r);
int tr_count_draw(struct tr_run *r, const struct tr_type *t);
/* A type of the same signature as count of t, made of basic ones; NULL: t is made of several. */
const struct tr_type *tr_type_flat(const struct tr_run *r, const struct tr_type *t);
void tr_type_build(struct tr_run *r, struct tr_type *made);
void tr_type_check(struct tr_run *r, const struct tr_type *t);

void tr_channel_end(struct tr_run *r, const struct tr_comm *c);
void tr_window_end(struct tr_run *r);
void tr_file_end(struct tr_run *r);

#endif
