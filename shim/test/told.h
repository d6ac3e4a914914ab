/* SPDX-License-Identifier: Apache-2.0
 * A lineage's program that does what its standard input says, a word a line, and answers each by a number. In its
 * image it goes on where it was. */
#ifndef GCK_TEST_TOLD_H
#define GCK_TEST_TOLD_H

#include <stdbool.h>

#include "shim/test/restore_lineage.h"

/* Start it: the directory's `out` and this process' standard input are its. */
bool told_start(struct lineage *l);

/* Its answer, -1000: none within WAIT_MS. */
int told(const char *word);

#endif
