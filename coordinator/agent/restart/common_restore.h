/* SPDX-License-Identifier: Apache-2.0
 * Memory that ranks of this node share, in a restart. The agent makes the memory file, and passes
 * it to the restorers of these ranks; one of them fills it, all map it. Memory with a path is a
 * file, which the rank that has its content makes. */
#ifndef AGENT_COMMON_RESTORE_H
#define AGENT_COMMON_RESTORE_H

#include "coordinator/agent/restart/rank_restart.h"

/* A restorer's `share`: answers, or fails the restart, if another of these ranks is not on this
 * node. */
void common_restore_share(struct rank_restart *one, const json_t *body);

/* The next commit has other memory, or the ranks have it. */
void common_restore_forget(struct restart *r);

#endif
