/* SPDX-License-Identifier: Apache-2.0
 * Jumps to the functions of the driver's private tables, of which nothing is known: not how many
 * arguments they have. A jump notes that it was used. */
#ifndef GCK_CUDA_RECORDS_JUMPS_H
#define GCK_CUDA_RECORDS_JUMPS_H

#include "shim/cuda/records/records.h"

typedef void function(void);

/* The tables by what is known of them (doc/cuda-driver.md). */
enum {
	PRIMARY,    /* handles of primary contexts */
	CALLBACKS,  /* memory that the runtime reads */
	CURRENT,    /* the current context */
	STORAGE,    /* what is kept beside a context */
	CHECKS,
	CONTEXT_ID, /* a number of a context */
	TOOLS,
	CACHE,      /* of compiled programs */
	NVML,       /* who is told of checkpoints */
	RUNTIME,
	HASH,       /* what the runtime compares */
	TABLES
};

#define WORDS 128 /* of a table, at most */
#define JUMPS (TABLES * WORDS)

/* The driver's functions, by table and word. */
extern function *gck_record_jump_to[JUMPS] __attribute__((visibility("hidden")));
extern unsigned char gck_record_jump_used[JUMPS] __attribute__((visibility("hidden")));

/* A function of a table, with the type of ours. */
#define REAL(table, slot, ours) \
	((__typeof__(ours) *)gck_record_jump_to[(table) * WORDS + (slot)])

function *gck_record_jump(int number);

/* A function in the place of the driver's, of which f_inside is what happens behind the gate. */
#define GCK_RECORD_GATED(linkage, type, f, parameters, arguments) \
	static type f##_inside parameters; \
	linkage type f parameters \
	{ \
		type result; \
		gck_record_gate->enter(); \
		result = f##_inside arguments; \
		gck_record_gate->leave(); \
		return result; \
	}

extern const struct gck_records_gate *gck_record_gate;

#endif
