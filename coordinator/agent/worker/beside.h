/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AGENT_BESIDE_H
#define AGENT_BESIDE_H

#include <sys/types.h>

#include "shim/process/process.h"

/* In a process that the agent has just forked: go on as its child, in the PID, mount and user
 * namespaces of process `rank`, where the kernel's numbers are the rank's. This process stays: it
 * tells the child who owns files (common/place/owner.h), and ends as it does; the child is killed
 * if this one is. Returns only in the child. */
void beside_enter(pid_t rank);

/* gck_process_able() of a rank in a PID namespace, where this is its number; by a process there. */
json_t *beside_able(pid_t rank, pid_t number, const struct gck_link_hello *hello,
		    const struct gck_options *o, struct gck_error *err) GCK_MUST_CHECK;

#endif
