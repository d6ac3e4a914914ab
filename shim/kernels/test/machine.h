/* SPDX-License-Identifier: Apache-2.0
 * A machine for the PTX that the tests of the pass use: blocks, threads in a random order,
 * barriers, also of the grid, warp primitives, global, shared and local memory, calls. */
#ifndef GCK_TEST_MACHINE_H
#define GCK_TEST_MACHINE_H

#include "shim/kernels/ptx/ptx.h"

#define MACHINE_GLOBAL 0x100000u /* the address of the first byte of global memory */
#define MACHINE_BYTES (2u << 20)

struct machine;

/* The program is the module's first kernel. NULL, and a line on standard output, for what the
 * machine does not know. */
struct machine *machine_create(const char *ptx, size_t size);
void machine_free(struct machine *m);

struct launch {
	unsigned blocks, threads, resident; /* blocks that run at once */
	unsigned dynamic;                   /* bytes of shared memory */
	uint64_t params[4];
	uint64_t workspace; /* of the grid, as the driver gives it; all blocks are resident then */
	uint64_t stop;   /* instructions after which the word at `word` becomes 1; 0: never */
	uint64_t word;   /* an address */
	unsigned seed;   /* of the order of the threads */
	uint64_t steps;  /* out: instructions */
};

/* Runs the kernel to its end on this global memory. -1, with a line, if it fails or never ends. */
int machine_run(struct machine *m, uint8_t *memory, struct launch *launch);

/* The address of a variable of the module, whose first value is written into memory. */
uint64_t machine_variable(const struct machine *m, const char *name, uint8_t *memory);

#endif
