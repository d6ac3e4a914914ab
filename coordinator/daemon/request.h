/* SPDX-License-Identifier: Apache-2.0
 * Requests of the CLI. */
#ifndef GCK_REQUEST_H
#define GCK_REQUEST_H

#include "coordinator/daemon/peer.h"

/* Send "end": error NULL is success. data is stolen and may be NULL. */
void gck_request_end(struct gck_peer *peer, const char *error, json_t *data);

/* report.c: what list, show and status tell. NULL job or GCK_EVERY_STEP: all that this user may
 * see. */
json_t *gck_report_list(const struct gck_daemon *d, uid_t uid, uint32_t job, uint32_t step);
json_t *gck_report_status(const struct gck_daemon *d, uid_t uid, uint32_t job, uint32_t step);
json_t *gck_report_show(const struct gck_daemon *d, const struct gck_step *step,
			const struct gck_commit *commit);

/* rights.c: whether a user is answered about a job. */
bool gck_may_see(const struct gck_daemon *d, uid_t uid, const struct gck_job *job);

#endif
