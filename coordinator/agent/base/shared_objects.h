/* SPDX-License-Identifier: Apache-2.0
 * What ranks of this node, each with the processes below it, share and write. Memory is shared
 * again by a restart, which needs these ranks on one node. Files open for writing are refused: each
 * rank's image would restore the whole file over the others'. Files are fine that have a name and
 * to which all ranks only append, and the output of the step. */
#ifndef AGENT_SHARED_OBJECTS_H
#define AGENT_SHARED_OBJECTS_H

#include <jansson.h>

#include "common/base/error.h"
#include "coordinator/agent/base/tasks.h"

/* Returns [{"rank","object","reason","remedy","refuse"}], one entry for each object, or an empty
 * list. Ranks that have ended and maps that cannot be read are left out. */
json_t *shared_objects_find(const struct tasks *t) GCK_MUST_CHECK;

/* -1, with the first entry that is refused as the error, if there is one. */
int shared_objects_refuse(const struct tasks *t, struct gck_error *err) GCK_MUST_CHECK;

#endif
