/* SPDX-License-Identifier: Apache-2.0
 * The agent's side of a CUDA thread's link, for tests: drain, resume. */
#ifndef GCK_TEST_CUDA_LINK_H
#define GCK_TEST_CUDA_LINK_H

#include "test/support/shim_agent.h"

struct cuda_link {
	int fd;                 /* -1: none */
	struct gck_link_cuda_hello hello;
	struct gck_thread_msg m;  /* the last message */
	uint32_t keep;          /* drains may leave data on devices */
	uint64_t device_copy_max; /* so much of it on each, 0: as far as there is room */
	uint64_t host_copy_max; /* and may take so much host memory, any when a link is new */
};

/* Take the link of a rank's CUDA thread, in place of an older one; false: none comes within ms. */
bool cuda_link_accept(struct cuda_link *c, struct agent *a, int ms);

/* The same, and it says whether it comes out of an image. */
bool cuda_link_join(struct cuda_link *c, struct agent *a, bool restored);

/* The next message's type; 0: none within ms. */
uint32_t cuda_link_receive(struct cuda_link *c, int ms);

/* Is the next message of this type, and no failure? What failed is printed. */
bool cuda_link_hear(struct cuda_link *c, uint32_t type);

void cuda_link_say(const struct cuda_link *c, uint32_t type, uint64_t seq);
void cuda_link_ask_drain(const struct cuda_link *c, uint64_t seq, uint32_t limit_ms,
			 uint32_t watchdog_ms);

/* Have it get ready for such a drain. */
bool cuda_link_prepare(struct cuda_link *c, uint64_t seq);

/* The fake driver's FAKE_CUDA_NODE has these devices. */
void cuda_node_has(const char *path, const char *lines);

/* How many threads of that name a process has. */
int cuda_threads(pid_t pid, const char *name);

/* Order it, and hear that it is so. */
bool cuda_link_drain(struct cuda_link *c, uint64_t seq);
bool cuda_link_resume(struct cuda_link *c, uint64_t seq);

#endif
