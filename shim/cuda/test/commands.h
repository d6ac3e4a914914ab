/* SPDX-License-Identifier: Apache-2.0
 * A lineage's program that does what its standard input says, a word a line, and answers each by a number. In its
 * image it goes on where it was. */
#ifndef GCK_TEST_COMMANDS_H
#define GCK_TEST_COMMANDS_H

#include <stdbool.h>

#include "test/support/lineage.h"

/* Start it: the directory's `out` and this process' standard input are its. */
bool told_start(struct lineage *l);

/* A word, and its answer, -1000: none within so many ms; both, within WAIT_MS. */
void told_begin(const char *word);
int told_answer(int ms);
int told(const char *word);

#endif
