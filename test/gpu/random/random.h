/* SPDX-License-Identifier: Apache-2.0
 * A program of the driver's functions that a seed chooses, for test/gpu/run and
 * shim/cuda/test/random.sh: it is run plainly and with fresh drivers on its way, and prints the
 * same (random.c). No address and no handle is printed, and nothing that time decides. */
#ifndef GPU_RANDOM_H
#define GPU_RANDOM_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOST 2048 /* objects of a program */
#define THREADS 3

enum kind {
	CONTEXT, STREAM, EVENT, MODULE, LIBRARY, FUNCTION, KERNEL, VARIABLE, MEMORY, MANAGED, HOST,
	ORDERED, RESERVATION, PHYSICAL, MAPPING, ARRAY, MIPMAP, TEXTURE, SURFACE, POOL, GRAPH, NODE,
	EXECUTABLE, USER
};

/* What the program holds. */
struct object {
	enum kind kind;
	uint64_t handle;
	int of;             /* the object with which it ends; -1: none */
	int context;        /* in which it can be used; -1: in any */
	int on;             /* what it was made of: an array, a pool, memory; -1: none */
	size_t size, pitch; /* of memory, in bytes */
	unsigned extent[3]; /* of an array; 0: it has fewer dimensions */
	unsigned uses;      /* references of the program */
	int what;           /* of a kernel, a variable, a pool: which */
	bool alive, flag;
};

/* ---- objects.c: choices, objects, output ----------------------------------------------------- */

extern struct object objects[MOST];
extern int n_objects, thread; /* thread: whose turn it is */

#define H(type, i) ((type)(uintptr_t)((i) < 0 ? 0 : objects[i].handle))

/* A call with its result on a line of the output. */
#define DO(function, ...) done(#function, function(__VA_ARGS__))
CUresult done(const char *call, CUresult rc);
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
uint64_t digest_of(const void *data, size_t size);

void choose_by(uint64_t seed);
unsigned draw(unsigned n); /* a number below n */

/* The object's number; -1: there are too many. It is in the current context. */
int hold(enum kind kind, const void *handle, int of);
int hold_number(enum kind kind, uint64_t handle, int of);
void end(int i);           /* and of what ends with it */
bool is(int i, enum kind kind);
int find(enum kind kind, const void *handle); /* -1: none */
int any(enum kind kind);   /* -1: none */
int any_of(enum kind kind, int of);
int any_here(enum kind kind); /* which can be used in the current context */

/* ---- contexts.c: contexts, streams, events --------------------------------------------------- */

extern bool ends_contexts; /* the program does that */

int current(void);         /* the calling thread's context; -1: none */
bool be_in(int context);   /* for a moment: makes it current above all others */
void be_back(void);
/* The work of a stream, in 2 of 3 cases, and of all of the context, if that is not a stream of its
 * own. What is left is awaited when the next step begins (settle). */
void finish(int stream);
void settle(void);
void begin_contexts(void); /* those of each thread */
void end_threads_contexts(void);
void end_contexts(void);
void context_step(void);
void stream_step(void);

/* ---- code.c: modules, libraries, kernels ----------------------------------------------------- */

/* What kernels get, 8 bytes each. */
enum { ADD, MIX, TOTAL, JUMP, FOLLOW, SHARED, LINEAR, LINE, PLANE, BODY, LEVEL, PAINT,
       KINDS_OF_KERNELS, ANYWHERE };
#define MOST_ARGUMENTS 4

struct launch {
	int function;                  /* -1: there is none */
	int memory, other;             /* that it uses */
	uint64_t arguments[MOST_ARGUMENTS];
	unsigned blocks, threads;
	void *pointers[MOST_ARGUMENTS];
	size_t size;
	void *extra[5];
};

void begin_code(void);
void code_step(void);
void code_digests(void);
/* Chooses a function of this kind, or of those before FOLLOW, which need no more than memory
 * (ANYWHERE), with arguments that are memory of the current context. */
bool choose_launch(struct launch *l, int what);
int any_function(int what);
CUresult launch(struct launch *l, unsigned shared, CUstream stream);

/* ---- memory.c -------------------------------------------------------------------------------- */

#define LEAST ((size_t)512) /* bytes, of any memory of the program */

int any_memory(void); /* of any kind, in the current context */
bool are_alike(int i, int k); /* the same, or mappings of the same */
/* None that is like those. */
int any_other_memory(int but, int nor);
void memory_step(void);
void mapping_step(void);
void pool_step(void);
void give_back(int i);     /* pinned memory of the host */
void memory_digests(void);
void end_memory(void);

/* ---- arrays.c -------------------------------------------------------------------------------- */

void array_step(void);
void array_digests(void);
void tidy_textures(void);  /* ends those whose arrays have ended */
void end_textures_of(int context);

/* ---- graphs.c -------------------------------------------------------------------------------- */

void graph_step(void);
void tidy_graphs(void);    /* ends those that use what has ended */
void end_graphs(void);
int any_sound(enum kind kind); /* a graph, or what was instantiated: all that it uses is there */

/* ---- host.c: what the driver calls ----------------------------------------------------------- */

CUDA_HOST_NODE_PARAMS host_node(unsigned value);
void call_host(CUstream stream);
void call_any(void);
void say_calls(void);      /* what was called */
void hold_object(void);    /* one that a graph holds */
void let_object(void);
void end_objects(void);

/* ---- invalid.c ------------------------------------------------------------------------------- */

void invalid_step(void);
void ask_step(void);       /* names, versions, attributes */
void look_at_graph(void);

#endif
