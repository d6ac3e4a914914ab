/* SPDX-License-Identifier: Apache-2.0
 * Ranks in a text, as Slurm writes lists: "0-3,8". */
#ifndef AGENT_RANK_LIST_H
#define AGENT_RANK_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RANK_LIST_MAX 4096

/* Writes n ranks in ascending order; false: the text would be longer. */
bool rank_list_write(char text[RANK_LIST_MAX], const uint32_t *ranks, size_t n);

/* Takes the first range off a list; false: it is empty, or is no list. */
bool rank_list_next(const char **text, uint32_t *first, uint32_t *last);

#endif
