/* SPDX-License-Identifier: Apache-2.0
 * The code that saves a thread at a place and loads it again (doc/kernels.md has the records). */
#ifndef GCK_KERNELS_RECORD_H
#define GCK_KERNELS_RECORD_H

#include <stdio.h>

#include "shim/kernels/pass/plan.h"

/* Fills plan's record_size. */
void gck_record_measure(struct gck_plan *plan);

/* Declares the registers that the written code needs. */
void gck_record_declare(FILE *out);

/* The instruction for a barrier at which threads may leave. Without ".aligned", which "bar" means,
 * those of a warp may come to it apart. */
const char *gck_record_barrier(const struct gck_plan *plan);

/* %gck_z: the address of NAME$ckpt. */
void gck_record_variable(const struct gck_plan *plan, FILE *out);

/* Instead of a statement of trait GCK_GRID. */
void gck_record_grid(const struct gck_plan *plan, FILE *out, uint32_t statement);

/* What a leaving thread does at each place, and the threads of a later launch at their begin. */
void gck_record_write(const struct gck_plan *plan, FILE *out);

#endif
