/* SPDX-License-Identifier: Apache-2.0
 * Requests to Slurm through libslurm, which block: made in a child process. A request is
 * {"op": ...} with
 *
 *   conf                        {cluster, slurm_user, slurm_user_name, slurmd_timeout} in seconds
 *   job {job}                   {job, uid, user, restarts, submit, batch, no_requeue,
 *                               nodes, runs, ends_itself}, for a task of an array also
 *                               {array, task}; ENOENT if Slurm does not know it.
 *                               batch: it can be requeued; no_requeue: a batch job whose user
 *                               does not want that; runs: it is not being ended; ends_itself:
 *                               nothing but its script ends it or has ended it
 *   import {job, uid}           {user}, the name of uid, if Slurm does not know the job, or EEXIST
 *   jobs {jobs}                 {jobs: [{job, uid, user, restarts, submit, batch, busy}]}: of these
 *                               jobs those that Slurm knows. busy: processes of it may exist
 *   requeue {job, hold, comment} {}; refused if the job is already being ended. comment goes to
 *                               AdminComment unless that has a text of somebody else
 *   nodes {jobs, lead, check}   {leaving: [{job, node, why}], gone: [job], ended: [job]}: of jobs,
 *                               {node: [job]}, those on nodes that drain, reboot or will be in a
 *                               MAINT reservation within lead seconds; of check, [job], those that
 *                               Slurm no longer has, and those that do not run at present */
#ifndef GCK_QUERY_H
#define GCK_QUERY_H

#include <jansson.h>

#include "common/base/error.h"

/* Answer a request: a new object, or NULL. */
json_t *gck_query(const json_t *request, struct gck_error *err) GCK_MUST_CHECK;

#endif
