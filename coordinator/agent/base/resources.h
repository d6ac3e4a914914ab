/* SPDX-License-Identifier: Apache-2.0
 * Free memory of this node, and what each process may take of the node while images are written
 * or read. The agent as a whole stays within its cores and its memory. */
#ifndef AGENT_RESOURCES_H
#define AGENT_RESOURCES_H

#include <stdint.h>

#include "coordinator/agent/base/step.h"

/* Bytes that could be allocated now: the least of MemAvailable and the limits of all memory
 * cgroups that this process is in. Page cache counts as free. */
uint64_t memory_available(void);

struct node_share {
	unsigned at_once; /* processes at a time */
	unsigned cpus;    /* cores of each */
	size_t memory;    /* of each, for data in transit */
	size_t upload;    /* the same, from a stage to the store */
};

/* chunks: of the node's image that has most. */
struct node_share node_share_of_writers(const struct step *s, uint64_t chunks);

/* All ranks are restored together and none of them runs, so they share all cores of the agent.
 * chunks: of the image that this process reads. */
struct node_share node_share_of_restorers(const struct step *s, uint64_t chunks);

#endif
