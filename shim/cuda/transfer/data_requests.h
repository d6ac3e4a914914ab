/* SPDX-License-Identifier: Apache-2.0
 * What the reader of a snapshot that stands asks for, answered in order. */
#ifndef GCK_CUDA_DATA_REQUESTS_H
#define GCK_CUDA_DATA_REQUESTS_H

#include "shim/cuda/snapshot/copy_queue.h"
#include "shim/cuda/transfer/data_link.h"

struct gck_cuda_requests {
	struct gck_cuda_data_link link;
	/* Moves in the order in which they began; the last one of a request answers it. */
	struct gck_cuda_under_way {
		struct gck_link_data asked;
		bool last;
	} moves[GCK_CUDA_MOVES];
	unsigned first, n;
	struct gck_link_data now; /* being given to the devices; type 0: none is, and one can be taken on */
	uint64_t given;           /* bytes of it */
};

/* Take one on. -1: the link is to end. */
int gck_cuda_requests_take(struct gck_cuda_requests *r, const struct gck_link_data *m);

/* 1: something was done; 0: nothing; -1: nobody is there to be answered. */
int gck_cuda_requests_work(struct gck_cuda_requests *r);

#endif
