/* SPDX-License-Identifier: Apache-2.0
 * Which registers a function has, and which each of its statements reads and writes. */
#ifndef GCK_KERNELS_REGISTERS_H
#define GCK_KERNELS_REGISTERS_H

#include "shim/kernels/flow/flow.h"

/* Fills flow's registers, references and traits. */
int gck_registers_read(struct gck_flow *flow, struct gck_error *err) GCK_MUST_CHECK;

#endif
