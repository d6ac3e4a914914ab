/* SPDX-License-Identifier: Apache-2.0
 * What workers of either kind tell the agent (worker.h). */
#ifndef AGENT_REPORT_H
#define AGENT_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"

/* Where progress goes, and whether the work was cancelled. */
struct report {
	int fd;
	uint64_t done, all;
	int64_t told_ms;         /* when progress was last reported */
	json_t *next;            /* a packet that came during the work, handled after it */
};

/* Sends {"op":"done","phase":...,"ok":true} with the members of data (dropped; may be NULL). */
void report_done(struct report *r, const char *phase, json_t *data);
void report_failure(struct report *r, const char *phase, const struct gck_error *err);

/* The same for a build of commit seq that failed. */
void report_no_build(struct report *r, uint32_t seq, const struct gck_error *err);

/* For gck_capture_write and gck_restore_build; arg is a struct report. Not 0 if a packet
 * cancelled the work; it is then in r->next. */
int report_progress(void *arg, uint64_t done, uint64_t all);

/* All bytes of the work, before the first; the same result. */
int report_size(struct report *r, uint64_t all);

/* For gck_store_on_progress, during an upload; false if the work was cancelled. */
bool report_upload(void *arg, uint64_t done, uint64_t all);

/* For gck_store_on_retry: why the work does not go on. Any thread may call it. */
void report_trouble(void *arg, const struct gck_error *why);

/* The next packet: one that came during the work, or one that comes within timeout_ms. */
json_t *report_next(struct report *r, int timeout_ms, struct gck_error *err);

/* The same while this process holds rank pid; ESRCH if the rank was killed. (It stays a zombie
 * of its tracer, and slurmstepd hears of its end only when the tracer lets it go.) timeout_ms
 * below 0: no limit. */
json_t *report_next_held(struct report *r, pid_t pid, int timeout_ms, struct gck_error *err);

#endif
