/* SPDX-License-Identifier: Apache-2.0
 * What workers of either kind tell the agent (worker.h). */
#ifndef AGENT_REPORT_H
#define AGENT_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"

/* Where progress goes, and whether the work was called off. */
struct report {
	int fd;
	uint64_t done, all;
	int64_t told_ms;         /* when progress was told last */
	json_t *next;            /* a packet that came during the work, to be handled after it */
};

/* {"op":"done","phase":...,"ok":true} with the members of data (dropped; may be NULL). */
void report_done(struct report *r, const char *phase, json_t *data);
void report_failure(struct report *r, const char *phase, const struct gck_error *err);

/* A build that failed, and of which commit. */
void report_no_build(struct report *r, uint32_t seq, const struct gck_error *err);

/* For gck_capture_write and gck_restore_build; arg is a struct report. Not 0 if a packet came that
 * calls the work off, which is then in r->next. */
int report_progress(void *arg, uint64_t done, uint64_t all);

/* The same for gck_store_on_progress, of an upload; false if the work is called off. */
bool report_upload(void *arg, uint64_t done, uint64_t all);

/* For gck_store_on_retry: what keeps the work from going on. Called by any thread. */
void report_trouble(void *arg, const struct gck_error *why);

/* The next packet: what came during the work, or what comes within timeout_ms. */
json_t *report_next(struct report *r, int timeout_ms, struct gck_error *err);

/* The same while the rank pid is held by this process; ESRCH when it was killed. (It stays a zombie
 * of its tracer's: slurmstepd, its parent, hears of its end only when the tracer lets go of it.)
 * timeout_ms below 0: no limit. */
json_t *report_next_held(struct report *r, pid_t pid, int timeout_ms, struct gck_error *err);

#endif
