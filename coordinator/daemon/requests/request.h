/* SPDX-License-Identifier: Apache-2.0
 * Requests of the CLI. */
#ifndef GCK_REQUEST_H
#define GCK_REQUEST_H

#include "coordinator/daemon/peer/peer.h"

/* Of which steps a user wants to know: of jobs with these numbers, one or, with GCK_EVERY_STEP, all of each. */
struct gck_report_range {
	uint32_t first, last, step;
};

/* report.c: what list, show and status tell, of what this user may see. As many jobs as an answer holds, one
 * at least: the next one's number is in "more". */
json_t *gck_report_list(const struct gck_daemon *d, uid_t uid, const struct gck_report_range *range);
json_t *gck_report_status(const struct gck_daemon *d, uid_t uid, const struct gck_report_range *range);
json_t *gck_report_show(const struct gck_daemon *d, const struct gck_step *step,
			const struct gck_commit *commit);

/* rights.c: whether a user is answered about a job or a step of this owner. */
bool gck_may_see(const struct gck_daemon *d, uid_t uid, uid_t owner);

#endif
