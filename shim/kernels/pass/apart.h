/* SPDX-License-Identifier: Apache-2.0
 * Which blocks the threads of a warp may reach apart: those between a branch on a value that
 * differs among threads and the place where all its ways meet again. */
#ifndef GCK_KERNELS_APART_H
#define GCK_KERNELS_APART_H

#include "shim/kernels/pass/graph.h"

/* Fills graph->apart. */
int gck_apart_find(struct gck_graph *graph, struct gck_error *err) GCK_MUST_CHECK;

#endif
