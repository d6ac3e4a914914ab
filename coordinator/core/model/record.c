/* SPDX-License-Identifier: Apache-2.0
 * Records applied to the state; one function a type, in tables. dump.c is the way back. */
#include "coordinator/core/model/record_fields.h"

#include <stdarg.h>
#include <string.h>

/* ---- reading them --------------------------------------------------------------------------- */

int gck_record_no_memory(struct gck_error *err)
{
	return gck_fail(err, ENOMEM, "no memory for the coordinator's state");
}

int gck_record_unpack(json_t *r, struct gck_error *err, const char *fmt, ...)
{
	json_error_t bad;
	va_list ap;
	int rc;

	va_start(ap, fmt);
	rc = json_vunpack_ex(r, &bad, 0, fmt, ap);
	va_end(ap);
	return rc ? gck_fail(err, EINVAL, "a record is malformed: %s", bad.text) : 0;
}

int gck_record_narrow(json_int_t value, uint32_t *out, const char *name, struct gck_error *err)
{
	if (value < 0 || value > UINT32_MAX)
		return gck_fail(err, ERANGE, "%s is out of range: %" JSON_INTEGER_FORMAT, name,
				value);
	*out = (uint32_t)value;
	return 0;
}

struct gck_job *gck_record_find_job(struct gck_state *s, json_t *r, struct gck_error *err)
{
	json_int_t id;
	struct gck_job *job;

	if (gck_record_unpack(r, err, "{s:I}", "job", &id))
		return NULL;
	job = gck_state_job(s, (uint32_t)id);
	if (!job)
		gck_fail(err, EINVAL, "a record is about job %" JSON_INTEGER_FORMAT
			 ", which no record before it made", id);
	return job;
}

struct gck_step *gck_record_find_step(struct gck_state *s, json_t *r, struct gck_error *err)
{
	json_int_t job, step;
	struct gck_step *found;

	if (gck_record_unpack(r, err, "{s:I, s:I}", "job", &job, "step", &step))
		return NULL;
	found = gck_state_step(s, (uint32_t)job, (uint32_t)step);
	if (!found)
		gck_fail(err, EINVAL, "a record is about step %" JSON_INTEGER_FORMAT ".%"
			 JSON_INTEGER_FORMAT ", which no record before it made", job, step);
	return found;
}

struct gck_step *gck_record_find_seq(struct gck_state *s, json_t *r, uint32_t *seq,
				     struct gck_error *err)
{
	json_int_t value;

	if (gck_record_unpack(r, err, "{s:I}", "seq", &value) ||
	    gck_record_narrow(value, seq, "seq", err))
		return NULL;
	return gck_record_find_step(s, r, err);
}

void gck_record_set_json(json_t **to, json_t *value)
{
	json_t *copy = value ? json_deep_copy(value) : NULL;

	json_decref(*to);
	*to = copy;
}

/* ---- applying them -------------------------------------------------------------------------- */

static int apply_epoch(struct gck_state *s, json_t *r, struct gck_error *err)
{
	json_int_t epoch;

	if (gck_record_unpack(r, err, "{s:I}", "epoch", &epoch))
		return -1;
	return gck_record_narrow(epoch, &s->epoch, "epoch", err);
}

static const struct gck_record_type records_of_all[] = {
	{ "epoch", apply_epoch },
	{ NULL, NULL },
};

int gck_record_apply(struct gck_state *s, const json_t *record, struct gck_error *err)
{
	static const struct gck_record_type *const tables[] = {
		records_of_all, gck_records_of_steps, gck_records_of_commits
	};
	const char *name = json_string_value(json_object_get(record, "t"));

	for (size_t i = 0; name && i < sizeof tables / sizeof *tables; i++)
		for (const struct gck_record_type *t = tables[i]; t->name; t++)
			if (!strcmp(t->name, name))
				return t->apply(s, (json_t *)record, err);
	return gck_fail(err, EINVAL,
			"a record of the unknown type \"%s\" (written by a newer release?)",
			name ? name : "");
}
