/* SPDX-License-Identifier: Apache-2.0
 * The fake world's agents, for the fake world. */
#ifndef GCK_TEST_FAKE_AGENT_H
#define GCK_TEST_FAKE_AGENT_H

#include "coordinator/core/test/fake_world.h"

void fake_agent_begin(struct fake *f, unsigned step, unsigned node);
void fake_agent_end(struct gck_agent *a);
void fake_agent_cut(struct gck_agent *a); /* the other end is gone */
void fake_agent_is_sent(struct gck_agent *a, const json_t *body);
void fake_agent_is_dropped(struct gck_agent *a);
void fake_refuses(struct fake *f, unsigned step, uint32_t seq); /* no agent runs from it */
json_t *fake_pop(struct fake_queue *q);
void fake_say(struct gck_agent *a, json_t *body); /* to the core */
json_t *fake_exited(const struct gck_agent *a);
bool fake_has_rank(const struct gck_agent *a, unsigned rank);
void fake_all_end(struct fake *f, struct gck_agent *a, int32_t status);
json_t *fake_job(const struct fake *f); /* Slurm's word on the job */

#endif
