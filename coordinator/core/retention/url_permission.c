/* SPDX-License-Identifier: Apache-2.0
 * What of a step's store is signed for whom. */
#include "coordinator/core/retention/url_permission.h"

#include <stdio.h>
#include <string.h>

#include "storage/base/backend.h"
#include "storage/s3/presign.h"

enum access { READ, WRITE, REMOVE };

static enum access access_of(enum gck_sign_verb verb)
{
	switch (verb) {
	case GCK_SIGN_GET:
	case GCK_SIGN_HEAD:
	case GCK_SIGN_LIST:
	case GCK_SIGN_LIST_MULTIPARTS:
		return READ;
	case GCK_SIGN_DELETE:
		return REMOVE;
	default:
		return WRITE;
	}
}

static int refuse(enum gck_sign_verb verb, const char *name, const char *why, struct gck_error *err)
{
	return gck_fail(err, EACCES, "%s of %.100s is refused: %s", gck_sign_verb_name(verb), name,
			why);
}

/* From prepare until it is decided. */
static bool is_under_way(const struct gck_live *live)
{
	switch (live->phase) {
	case GCK_PREPARING:
	case GCK_QUIESCING:
	case GCK_FREEZING:
	case GCK_RESUMING:
	case GCK_WRITING:
	case GCK_COMMITTING:
	case GCK_HELD_WRITING:
	case GCK_HELD_COMMITTING:
		return true;
	default:
		return false;
	}
}

static bool is_in(const char *name, const struct gck_intent *intent)
{
	char dir[GCK_NAME_MAX];

	snprintf(dir, sizeof dir, "%u-%s/", intent->seq, intent->nonce);
	return strncmp(name, dir, strlen(dir)) == 0;
}

/* A commit has a place of its own, beside the directories. */
static bool is_commit(const char *name)
{
	return strncmp(name, "commit-", strlen("commit-")) == 0;
}

/* Of all nodes only the one that was told to write it has not answered. */
static bool writes_commit(const struct gck_permit *who, uint32_t seq)
{
	enum gck_phase phase = who->step->live->phase;

	return (phase == GCK_COMMITTING || phase == GCK_HELD_COMMITTING) &&
	       seq == who->step->intent.seq && !who->node->answered;
}

/* An import puts objects where the image has them: below the checkpoints that wrote them, too. */
static bool is_imported(const char *name, uint32_t seq, const struct gck_intent *intent)
{
	const json_t *dir;
	size_t i;

	if (is_commit(name))
		return seq == intent->seq;
	json_array_foreach(intent->import, i, dir)
		if (!strncmp(name, json_string_value(dir), json_string_length(dir)))
			return true;
	return false;
}

static int may_import(const struct gck_permit *who, enum gck_sign_verb verb, const char *name,
		      uint32_t seq, struct gck_error *err)
{
	if (!who->owner)
		return refuse(verb, name, "only the owner of the job imports its images", err);
	if (!is_imported(name, seq, &who->step->intent))
		return refuse(verb, name, "it is no part of the image that is imported", err);
	return 0;
}

static int may_write(const struct gck_permit *who, enum gck_sign_verb verb, const char *name,
		     uint32_t seq, struct gck_error *err)
{
	if (who->step && who->step->intent.import)
		return may_import(who, verb, name, seq, err);
	if (!who->node || !who->step || !who->step->live)
		return refuse(verb, name, "only the agents of a step write its images", err);
	if (!who->step->intent.seq || !is_under_way(who->step->live))
		return refuse(verb, name, "no checkpoint is under way", err);
	if (is_commit(name) ? writes_commit(who, seq) : is_in(name, &who->step->intent))
		return 0;
	return refuse(verb, name, is_commit(name) ? "this agent was not told to commit it" :
		      "it is not in the directory of the checkpoint that is under way", err);
}

static int may_remove(const struct gck_permit *who, enum gck_sign_verb verb, const char *name,
		      uint32_t seq, struct gck_error *err)
{
	const struct gck_step *step = who->step;

	if (!step)
		return refuse(verb, name, "its step is not known, nor what of it is needed", err);
	if (step->intent.import && is_imported(name, seq, &step->intent))
		return refuse(verb, name, "an import of it is under way", err);
	if (gck_step_commit(step, seq))
		return refuse(verb, name, "its checkpoint is a commit that counts; see `gpuckpt "
			      "remove`", err);
	if (seq == step->intent.seq || seq > step->last_seq)
		return refuse(verb, name, "its checkpoint is not over", err);
	return 0;
}

int gck_permit(const struct gck_permit *who, enum gck_sign_verb verb, const char *name,
	       struct gck_error *err)
{
	uint32_t seq = 0;

	if (gck_s3_name_check(verb, name, &seq, err) < 0) {
		if (err)
			err->code = EACCES;
		return -1;
	}
	switch (access_of(verb)) {
	case READ:
		return 0;
	case WRITE:
		if (verb == GCK_SIGN_ABORT_MULTIPART && !may_remove(who, verb, name, seq, NULL))
			return 0;
		return may_write(who, verb, name, seq, err);
	default:
		return may_remove(who, verb, name, seq, err);
	}
}
