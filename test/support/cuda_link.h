/* SPDX-License-Identifier: Apache-2.0
 * The agent's side of a CUDA thread's link, for tests: drain, resume. */
#ifndef GCK_TEST_CUDA_LINK_H
#define GCK_TEST_CUDA_LINK_H

#include "test/support/shim_agent.h"

struct cuda_link {
	int fd;                 /* -1: none */
	struct gck_link_cuda_hello hello;
	struct gck_thread_msg m;  /* the last message */
	uint32_t keep;            /* drains may leave copies on devices */
	uint64_t device_copy_max; /* limit of the copies on each device, in bytes; 0: none */
	uint64_t host_copy_max;   /* limit of the copies in host memory; a new link: none */
};

/* Accept the link of a rank's CUDA thread and close the one before; false: none within ms. */
bool cuda_link_accept(struct cuda_link *c, struct agent *a, int ms);

/* Accept the link and check that its HELLO says whether the rank was restored. */
bool cuda_link_join(struct cuda_link *c, struct agent *a, bool restored);

/* Receive a message within ms: its type, 0: none. */
uint32_t cuda_link_receive(struct cuda_link *c, int ms);

/* Receive a message of this type that reports no failure. false: prints what came instead. */
bool cuda_link_hear(struct cuda_link *c, uint32_t type);

void cuda_link_say(const struct cuda_link *c, uint32_t type, uint64_t seq);
void cuda_link_ask_drain(const struct cuda_link *c, uint64_t seq, uint32_t limit_ms,
			 uint32_t watchdog_ms);

/* Announce a drain with the limits of *c; and wait until it is prepared. */
void cuda_link_ask_prepare(const struct cuda_link *c, uint64_t seq, uint32_t limit_ms);
bool cuda_link_prepare(struct cuda_link *c, uint64_t seq);

/* Write the fake node's devices to the file FAKE_CUDA_NODE. */
void cuda_node_has(const char *path, const char *lines);

/* The number of a process's threads with that name; stores the TID of the last, if there is one. */
int cuda_threads(pid_t pid, const char *name, pid_t *last);

/* Wait until the program, cuda_work, has all its memory and begins to compute. */
bool cuda_link_has_memory(const struct cuda_link *c, pid_t pid);

/* Order a drain or a resume, and wait for its success. */
bool cuda_link_drain(struct cuda_link *c, uint64_t seq);
bool cuda_link_resume(struct cuda_link *c, uint64_t seq);

#endif
