/* SPDX-License-Identifier: Apache-2.0
 * The key that a step's images are encrypted with. */
#include "coordinator/core/actions/image_key.h"

#include <string.h>

#include "coordinator/core/model/live.h"

int gck_encrypt_able(struct gck_core *core, const struct gck_step *step, struct gck_error *err)
{
	return step->live->options.encrypt ? core->world->can_wrap(core, err) : 0;
}

int gck_encrypt_ready(struct gck_core *core, struct gck_step *step, struct gck_error *err)
{
	char wrapped[GCK_WRAPPED_MAX];
	struct gck_job *job = step->job;

	if (!step->live->options.encrypt)
		return 0;
	if (core->world->wrap(core, job, wrapped, err))
		return -1;
	if (job->key && !strcmp(job->key, wrapped))
		return 0;
	return gck_core_record(core, json_pack("{s:s, s:I, s:s}", "t", "key", "job",
					       (json_int_t)job->id, "key", wrapped), true, err);
}

void gck_encrypt_tell(const struct gck_step *step, json_t *body)
{
	if (step->live->options.encrypt && step->job->key)
		json_object_set_new(body, "key", json_string(step->job->key));
}
