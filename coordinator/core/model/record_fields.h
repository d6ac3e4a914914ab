/* SPDX-License-Identifier: Apache-2.0
 * What the files of records share: tables of types, and how members of a record are read. */
#ifndef GCK_RECORD_FIELDS_H
#define GCK_RECORD_FIELDS_H

#include "coordinator/core/model/record.h"

struct gck_record_type {
	const char *name; /* NULL ends a table */
	int (*apply)(struct gck_state *s, json_t *r, struct gck_error *err);
};

extern const struct gck_record_type gck_records_of_steps[];   /* record_step.c */
extern const struct gck_record_type gck_records_of_commits[]; /* record_commit.c */

/* json_unpack(); -1 names the member that is not as it should be. */
int gck_record_unpack(json_t *r, struct gck_error *err, const char *fmt, ...);

/* 64 bits in the file, 32 in the state. */
int gck_record_narrow(json_int_t value, uint32_t *out, const char *name, struct gck_error *err);

/* What the record's "job", "step" and "seq" name; NULL: no record before it made it. */
struct gck_job *gck_record_find_job(struct gck_state *s, json_t *r, struct gck_error *err);
struct gck_step *gck_record_find_step(struct gck_state *s, json_t *r, struct gck_error *err);
struct gck_step *gck_record_find_seq(struct gck_state *s, json_t *r, uint32_t *seq,
				     struct gck_error *err);

/* A copy in place of what is there. */
void gck_record_set_json(json_t **to, json_t *value);

/* Returns -1. */
int gck_record_no_memory(struct gck_error *err);

#endif
