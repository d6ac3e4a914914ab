/* SPDX-License-Identifier: Apache-2.0
 * Memory and System V objects that a rank may share with other ranks of the node, in the packets of
 * its worker (worker.h). */
#ifndef AGENT_RANK_MEMORY_H
#define AGENT_RANK_MEMORY_H

#include <jansson.h>

#include "coordinator/agent/worker/report.h"
#include "shim/process/process.h"

#define MEMORIES_OF_PACKET 16 /* that ranks share */

json_t *memory_pack(const struct gck_common_memory *x);

/* Of a packet; one that is not whole is all zero. */
struct gck_common_memory memory_unpack(const json_t *packed);

/* What makes a System V object again. *boot: struct gck_common's, of the packet. */
json_t *ipc_pack(const struct gck_ipc *x, const char *boot);
int ipc_unpack(const json_t *packed, struct gck_ipc *x, const char **boot,
	       struct gck_error *err) GCK_MUST_CHECK;

/* In a worker: reports what its rank may share. alone: it allocates memory for the copy instead,
 * before the hold. */
int memory_report(struct report *r, struct gck_capture *c, bool alone,
		  struct gck_error *err) GCK_MUST_CHECK;

/* In a worker: obeys `common`. */
int memory_share(struct gck_capture *c, const json_t *body, struct gck_error *err) GCK_MUST_CHECK;

#endif
