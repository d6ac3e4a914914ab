/* SPDX-License-Identifier: Apache-2.0
 * traffic: a random but correct MPI program from a seed. All ranks derive the same plan: a step is
 * drawn from `plan`, which is equal in all of them, so a draw from it must not depend on the rank.
 * How a rank does the step (for example, by which function it waits) is drawn from `mine`. No step
 * needs a later one, so the program ends even if each send and collective waits for its peers. */
#ifndef GCK_TEST_MPI_TRAFFIC_H
#define GCK_TEST_MPI_TRAFFIC_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TR_RANKS = 64,  /* the most ranks */
	TR_COMMS = 16,
	TR_TYPES = 32,
	TR_DEGREE = 8,  /* the most neighbours of a rank in a topology */
	TR_AHEAD = 12,  /* the most steps for which a transfer is pending */
};

struct tr_rng {
	uint64_t state;
};

uint64_t tr_next(struct tr_rng *rng);
int tr_below(struct tr_rng *rng, int n);             /* 0 … n-1; 0 for n < 2 */
int tr_between(struct tr_rng *rng, int low, int high); /* low … high */
bool tr_chance(struct tr_rng *rng, int percent);
uint64_t tr_mix(uint64_t a, uint64_t b);

struct tr_options {
	uint64_t seed, seeds;
	int steps, threads;
	double seconds;
	int pause_us;          /* after each step */
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
	int *at;         /* the offset of each of them, in the order of the type map */
	int lb, extent;  /* the data of an element is in lb … lb+extent-1 */
	int unit;        /* the basic type that it consists of (index below); -1: several */
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
	int late_until;       /* until this step it may have unreceived messages */
	enum tr_topology topology;
	int ndims, dims[3], periods[3];
	struct tr_neighbours *near; /* of each rank; NULL: no topology */
};

struct tr_transfer;
struct tr_late;
struct tr_channel;
struct tr_window;
struct tr_file;

/* One program. Each thread has its own, on its own duplicate of MPI_COMM_WORLD. */
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
	bool threads; /* works in Open MPI 4.1 with several threads at once */
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

/* run.c: runs the program of one seed; returns the digest, the same in all ranks. */
uint64_t tr_run(const struct tr_options *opt, uint64_t seed, MPI_Comm world, int thread);

/* fail.c: prints seed, step, rank and what was expected, and aborts. */
void tr_fail(const struct tr_run *r, const char *format, ...)
	__attribute__((format(printf, 2, 3), noreturn));
#define tr_need(r, condition, ...) ((condition) ? (void)0 : tr_fail(r, __VA_ARGS__))
void tr_equal(const struct tr_run *r, const char *what, long long got, long long want);

/* ---- data.c: buffers of which each byte is known */

struct tr_buffer {
	char *bytes;
	size_t length;
	char *at; /* the address for MPI: element 0 begins here */
};

/* An empty buffer for n elements, with bytes around them. */
struct tr_buffer *tr_buffer_new(const struct tr_type *t, int n);
void tr_buffer_free(struct tr_buffer *b);
/* Fills in the data of n elements from the first-th on: a stream that is the same for each type. */
void tr_buffer_fill(struct tr_buffer *b, const struct tr_type *t, int first, int n, uint64_t key);
/* Compares each byte, also those around the data, and adds them to the digest. */
void tr_buffer_check(struct tr_run *r, const char *what, const struct tr_buffer *got,
	const struct tr_buffer *want);
void tr_digest(struct tr_run *r, const void *data, size_t length);

/* A key for data of this step; the same in all ranks. */
uint64_t tr_key(const struct tr_run *r, int a, int b);

/* ---- transfer.c: pending transfers and their ends */

struct tr_transfer {
	struct tr_transfer *next;
	const char *what;
	const struct tr_comm *comm;
	int due;                 /* the step at whose end it is completed */
	MPI_Request req;
	struct tr_buffer *send, *recv, *want; /* recv is compared with want */
	int source, tag, bytes;  /* the expected status; source MPI_ANY_SOURCE: not checked */
	bool cancelled, persistent;
	void *keep[8];           /* arrays of counts and the like, freed with it */
};

struct tr_transfer *tr_transfer_new(const struct tr_comm *c, const char *what);
/* Checks a transfer that has ended (st may be NULL) and frees it. */
void tr_transfer_end(struct tr_run *r, struct tr_transfer *x, const MPI_Status *st);
/* Completes a transfer now, in one of the possible ways. */
void tr_transfer_wait(struct tr_run *r, struct tr_transfer *x);
void tr_transfer_defer(struct tr_run *r, struct tr_transfer *x, int due);
/* Completes all transfers that are due; if `all` is set, all of comm (NULL: of any). */
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

/* Receives that are posted in a later step than the send. */
void tr_late_add(struct tr_run *r, const struct tr_message *m, int step, int kind);
void tr_late_post(struct tr_run *r, const struct tr_comm *comm, bool all);

/* ---- comm.c, topology.c, type.c … */

void tr_comm_start(struct tr_run *r, MPI_Comm world);
void tr_comm_end(struct tr_run *r);
struct tr_comm *tr_comm_draw(struct tr_run *r);       /* any */
struct tr_comm *tr_comm_draw_intra(struct tr_run *r);
struct tr_comm *tr_comm_draw_near(struct tr_run *r);  /* with a topology; NULL: none has one */
const struct tr_group *tr_peers(const struct tr_comm *c, int side);
struct tr_comm *tr_comm_slot(struct tr_run *r); /* a free slot; may free a communicator */
/* Sets the communicator, whose groups are set, and checks it. */
void tr_comm_set(struct tr_run *r, struct tr_comm *c, MPI_Comm comm);
void tr_comm_free(struct tr_run *r, struct tr_comm *c);
void tr_topology_make(struct tr_run *r, struct tr_comm *from);

void tr_type_start(struct tr_run *r);
void tr_type_end(struct tr_run *r);
const struct tr_type *tr_type_draw(struct tr_run *r);
const struct tr_type *tr_type_draw_basic(struct tr_run *r);
int tr_count_draw(struct tr_run *r, const struct tr_type *t);
/* A type with the signature of count elements of t, made of its basic type; NULL: t has several. */
const struct tr_type *tr_type_flat(const struct tr_run *r, const struct tr_type *t);
void tr_type_build(struct tr_run *r, struct tr_type *made);
void tr_type_check(struct tr_run *r, const struct tr_type *t);

void tr_channel_end(struct tr_run *r, const struct tr_comm *c);
void tr_window_end(struct tr_run *r);
void tr_file_end(struct tr_run *r);

#endif
