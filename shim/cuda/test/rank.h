/* SPDX-License-Identifier: Apache-2.0
 * A rank with CUDA for the tests (rank.c), and the tables of its commands. */
#ifndef GCK_CUDA_TEST_RANK_H
#define GCK_CUDA_TEST_RANK_H

#include <cuda.h>
#include <stdint.h>

#define SIZE (1 << 20)
#define MORE (64 << 20)

/* Made by the command "init". */
extern struct rank {
	CUcontext context;
	CUmodule module;
	CUstream stream;
	CUdeviceptr data; /* SIZE bytes */
	uint64_t *flag;   /* a kernel waits for the first; it writes to the second */
} rank;

/* Returns the command's answer. */
struct rank_command {
	const char *word;
	int (*run)(void);
	int (*run_number)(int); /* for "WORD NUMBER" */
};

/* Each ends with a command without a word. */
/* Go on with a stream whose last kernel is not noted where the default stream's is. */
int rank_take_stream_apart(void);

extern const struct rank_command rank_memory_commands[], rank_stream_commands[],
	rank_model_commands[], rank_obstacle_commands[];

#endif
