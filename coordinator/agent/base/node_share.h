/* SPDX-License-Identifier: Apache-2.0
 * What one rank's process may take of the node while the images of all are written or read, so that
 * the agent as a whole stays within its cores and its memory. */
#ifndef AGENT_NODE_SHARE_H
#define AGENT_NODE_SHARE_H

#include "coordinator/agent/base/step.h"

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
