/* SPDX-License-Identifier: Apache-2.0
 * An agent for the CUDA thread's tests: a rank with both links (test/support/shim_agent.h has the
 * first one). */
#ifndef GCK_CUDA_TEST_LINK_AGENT_H
#define GCK_CUDA_TEST_LINK_AGENT_H

#include "shim/cuda/base/state.h"
#include "test/support/cuda_link.h"

struct cuda_data; /* test/support/cuda_data.h */

struct cuda_rank {
	struct agent agent;
	struct rank rank;
	int link;                 /* -1: none */
	struct cuda_link cuda;
};

/* Start a rank on the fake driver with FAKE_CUDA_FAIL=fail (NULL: unset); cuda_rank_start has it
 * call cuInit, too. */
void cuda_rank_launch(struct cuda_rank *r, const char *fail, struct gck_link_hello *hello);
void cuda_rank_start(struct cuda_rank *r, const char *fail);
int cuda_rank_end(struct cuda_rank *r);

/* Accept the CUDA thread's link; false: it does not connect within ms. */
bool cuda_accept(struct cuda_rank *r, int ms);

/* The next message within ms: its type, 0: none. Its value and text go to `value` and `text`; NULs
 * in the text become ";". */
int cuda_hear(struct cuda_rank *r, int ms);
extern uint32_t value;
extern char text[1024];

/* Order a drain or a resume, and hear that it succeeded. d: opened for a reader of the copy on the
 * device; NULL: there is no reader. */
bool cuda_drain(struct cuda_rank *r, uint64_t seq, uint32_t limit_ms);
bool cuda_resume(struct cuda_rank *r, uint64_t seq, struct cuda_data *d);

/* Send a command to the rank and return its answer, -1000: none within WAIT_MS. cuda_begin only
 * sends it, cuda_answer waits for the answer. */
int cuda_tell(const struct cuda_rank *r, const char *word);
void cuda_begin(const struct cuda_rank *r, const char *word);
int cuda_answer(const struct cuda_rank *r, int ms);

/* Ask for the obstacles to a checkpoint: their texts, a line each. */
const char *cuda_look(struct cuda_rank *r);

struct gck_cuda_state cuda_state(const struct cuda_rank *r);

/* Is what was read equal to the rank's memory now? Leaves out what the rank may not read itself. */
bool cuda_rank_has(const struct cuda_rank *r, const struct cuda_data *d);

/* The rank's anonymous memory. */
long cuda_anonymous_kib(const struct cuda_rank *r);

#endif
