/* SPDX-License-Identifier: Apache-2.0
 * Commands for a lineage's program (rank.c): one a line on its standard input, each answered by a
 * number. A restored program reads on where its image was taken. */
#ifndef GCK_TEST_COMMANDS_H
#define GCK_TEST_COMMANDS_H

#include <stdbool.h>

#include "test/support/lineage.h"

/* Start the program. Its output is <directory>/out; its standard input replaces this process's. */
bool told_start(struct lineage *l);

/* Send a command; wait ms for its answer, -1000: none; do both, with WAIT_MS. */
void told_begin(const char *word);
int told_answer(int ms);
int told(const char *word);

/* A restart has cut the program's output back to its size at the checkpoint: read on from there. */
void told_restored(void);

#endif
