/* SPDX-License-Identifier: Apache-2.0
 * The model of a program that runs on two fake drivers at once, plainly and behind the hooks of
 * records/ (records.c): its objects, and the calls in both worlds. */
#ifndef TEST_RECORDS_MODEL_H
#define TEST_RECORDS_MODEL_H

#include <stdint.h>
#include <stdio.h>

#include "shim/cuda/records/records.h"

#define MOST 2048
#define PARTS 2 /* of a reservation */

enum { PLAIN, ENGINE, WORLDS };

extern struct gck_cuda_real worlds[WORLDS];
extern const char *wrong; /* NULL: nothing */

/* An object of the program, with its handle in each world. */
extern struct object {
	const char *kind;
	uint64_t handle[WORLDS];
	int of, on;      /* what it ends with; a mapping's physical memory, a texture's array */
	int in;          /* the context of a part of a library, which ends with it, too */
	int uses;        /* of contexts and physical memory */
	int device;
	unsigned extent[3]; /* of arrays, in elements of 8 bytes */
	bool alive, primary, open; /* open: mapped with access; of an event: by a capture */
} objects[MOST];
extern int n_objects;

/* The call in both worlds: W is the world's number, T its functions. Its result; differences are
 * noted. */
#define BOTH(call) \
	__extension__({ \
		CUresult rc_[WORLDS]; \
		for (int W = 0; W < WORLDS; W++) { \
			const struct gck_cuda_real *T = &worlds[W]; \
			rc_[W] = T->call; \
		} \
		if (rc_[PLAIN] != rc_[ENGINE] && !wrong) { \
			printf("# %s: %d and %d\n", #call, rc_[PLAIN], rc_[ENGINE]); \
			wrong = "the results differ"; \
		} \
		rc_[PLAIN]; \
	})
#define H(type, i) ((type)(uintptr_t)((i) < 0 ? 0 : objects[i].handle[W]))

/* The values are the same in both worlds, or the program is wrong. */
void same(const uint64_t v[WORLDS], const char *what);
/* The object with a handle; -1: none. The one that both worlds returned. */
int object_of(const char *kind, uint64_t handle, int world);
int returned(const char *kind, const uint64_t v[WORLDS]);
int add_object(const char *kind, const uint64_t v[WORLDS], int of);
/* One that both worlds returned, perhaps anew. */
int note(const char *kind, const uint64_t v[WORLDS], int of);
/* It ends, and what is of it. */
void end(int i);
bool is(int i, const char *kind);
/* One of a kind, of another or of any; -1: none. */
int any_of(const char *kind, int of);
int any(const char *kind);
int current(void); /* the current context; -1: none */
/* A place in memory that the current context may use; -1: none. */
int any_place(uint64_t *offset);

/* records_graphs.c: a step of a program; what ends graphs; whether all that graphs hold is there,
 * so that they can be made again; the end of the others; of one. */
void graph_step(void);
bool graphs_are_sound(void);
void tidy_graphs(void);
void clear_graph(int i);
/* When all graphs have ended: gives back the objects that they held, each of which ends once. */
void end_users(void);

/* TAP of records.c: ok, is_int, is_str. */
__attribute__((format(printf, 2, 3))) bool claim(bool good, const char *fmt, ...);
void claim_int(long long got, long long wanted, const char *name);
void claim_str(const char *got, const char *wanted, const char *name);

/* records_graph_cases.c: single cases. restarted: makes a restart, false: it failed; refuses: that
 * the engine names why there is none; module: an image with a kernel `add`. */
void graph_cases(bool (*restarted)(void), void (*refuses)(const char *text, const char *what),
		 const void *module);

#endif
