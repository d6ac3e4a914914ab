/* SPDX-License-Identifier: Apache-2.0
 * Commands of rank.c that make and drop objects which prevent a checkpoint. */
#ifndef GCK_CUDA_TEST_RANK_OBSTACLES_H
#define GCK_CUDA_TEST_RANK_OBSTACLES_H

#include <stdbool.h>

/* Run a command and store its answer; false: it is not one of these. */
bool rank_obstacle(const char *word, int *answer);

/* Open memory of another process: a descriptor of the parent. */
int rank_open_memory(int fd);

#endif
