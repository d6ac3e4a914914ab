/* SPDX-License-Identifier: Apache-2.0
 * Shared by the files of records: tables of types, and functions that read members of a record. */
#ifndef GCK_RECORD_FIELDS_H
#define GCK_RECORD_FIELDS_H

#include "coordinator/core/model/record.h"

struct gck_record_type {
	const char *name; /* NULL ends a table */
	int (*apply)(struct gck_state *s, json_t *r, struct gck_error *err);
};

extern const struct gck_record_type gck_records_of_steps[];   /* record_step.c */
extern const struct gck_record_type gck_records_of_commits[]; /* record_commit.c */

/* Like json_unpack(). -1: err names the invalid member. */
GCK_MUST_CHECK int gck_record_unpack(json_t *r, struct gck_error *err, const char *fmt, ...);

/* Convert a number of 64 bits in the journal to 32 bits in the state. -1: it does not fit. */
GCK_MUST_CHECK int gck_record_narrow(json_int_t value, uint32_t *out, const char *name,
				     struct gck_error *err);

/* Find the job, step or commit number that the record's "job", "step" and "seq" name. NULL: no
 * earlier record has made it. */
struct gck_job *gck_record_find_job(struct gck_state *s, json_t *r, struct gck_error *err)
	GCK_MUST_CHECK;
struct gck_step *gck_record_find_step(struct gck_state *s, json_t *r, struct gck_error *err)
	GCK_MUST_CHECK;
struct gck_step *gck_record_find_seq(struct gck_state *s, json_t *r, uint32_t *seq,
				     struct gck_error *err) GCK_MUST_CHECK;

/* Replace *to by a copy of value. */
void gck_record_set_json(json_t **to, json_t *value);

/* Fail for lack of memory: returns -1. */
int gck_record_no_memory(struct gck_error *err);

#endif
