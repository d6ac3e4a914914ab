/* SPDX-License-Identifier: Apache-2.0
 * Members of a record, read and checked. */
#include "coordinator/core/model/record_fields.h"

#include <stdarg.h>

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
