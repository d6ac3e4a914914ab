/* SPDX-License-Identifier: Apache-2.0
 * The agent's side of a CUDA thread's link, for tests: drain, resume. */
#ifndef GCK_TEST_CUDA_LINK_H
#define GCK_TEST_CUDA_LINK_H

#include "shim/test/preload_agent.h"

struct cuda_link {
	int fd;                 /* -1: none */
	struct gck_link_mpi m;  /* the last message */
};

/* Take the link of a rank's CUDA thread; it says whether it comes out of an image. */
bool cuda_link_join(struct cuda_link *c, struct agent *a, bool restored);

/* Is the next message of this type, and no failure? What failed is printed. */
bool cuda_link_hear(struct cuda_link *c, uint32_t type);

/* Order it, and hear that it is so. */
bool cuda_link_drain(struct cuda_link *c, uint64_t seq);
bool cuda_link_resume(struct cuda_link *c, uint64_t seq);

#endif
