/* SPDX-License-Identifier: Apache-2.0
 * A look at the records, for tests. */
#ifndef GCK_TEST_RECORDS_LOOK_H
#define GCK_TEST_RECORDS_LOOK_H

#include <stdint.h>

/* How many records of a kind there are, by the kind's name, modules of libraries not counted. */
int records_count(const char *kind);

/* The driver's value of a handle. */
uint64_t records_now(const char *kind, uint64_t handle);

#endif
