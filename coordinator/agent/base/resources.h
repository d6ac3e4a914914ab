/* SPDX-License-Identifier: Apache-2.0
 * How much memory this node and this cgroup still have. */
#ifndef AGENT_RESOURCES_H
#define AGENT_RESOURCES_H

#include <stdint.h>

#include "coordinator/agent/base/step.h"

/* Bytes that could be allocated now: the least of MemAvailable and of every memory cgroup that
 * this process is in (page cache that would be given back counts as free). */
uint64_t memory_available(void);

struct share {
	unsigned at_once; /* processes */
	unsigned cpus;    /* of each */
	size_t memory;    /* of each, for bytes on their way */
	size_t upload;    /* the same, from a stage to the store */
};

/* chunks: as many as the image of the node has that has most. */
struct share share_of_writers(const struct step *s, uint64_t chunks);

/* All ranks come back together, and none of them runs meanwhile: all cores that the agent has.
 * chunks: of the image that this process reads. */
struct share share_of_restorers(const struct step *s, uint64_t chunks);

#endif
