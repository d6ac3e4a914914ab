/* SPDX-License-Identifier: Apache-2.0
 * Recording: journal first, then the state. */
#include "coordinator/core/model/core.h"

#include "common/base/log.h"
#include "coordinator/core/model/record.h"

/* A record that could not be written must not be missing, nor torn, in front of the next one. */
static int catch_up(struct gck_core *core, struct gck_error *err)
{
	if (!core->behind)
		return 0;
	if (core->world->rewrite(core, err))
		return -1;
	core->behind = false;
	return 0;
}

int gck_core_record(struct gck_core *core, json_t *record, bool sync, struct gck_error *err)
{
	int rc;

	if (!record)
		return gck_fail(err, ENOMEM, "no memory for a record of the journal");
	rc = catch_up(core, err);
	if (rc == 0) {
		rc = core->world->journal(core, record, sync, err);
		if (rc == 0)
			rc = gck_record_apply(&core->state, record, err);
		core->behind = rc != 0; /* a piece of it may be there, or one that no start can read */
	}
	json_decref(record);
	return rc;
}

void gck_core_note(struct gck_core *core, json_t *record, bool sync)
{
	struct gck_error err = {0};

	json_incref(record);
	if (gck_core_record(core, record, sync, &err)) {
		gck_error_log("%s", err.text);
		gck_record_apply(&core->state, record, NULL);
		core->behind = true;
	}
	json_decref(record);
}

json_t *gck_record(const struct gck_step *step, const char *type)
{
	return json_pack("{s:s, s:I, s:I}", "t", type, "job", (json_int_t)step->job->id, "step",
			 (json_int_t)step->id);
}

json_t *gck_record_seq(const struct gck_step *step, const char *type, uint32_t seq)
{
	json_t *r = gck_record(step, type);

	json_object_set_new(r, "seq", json_integer(seq));
	return r;
}
