/* SPDX-License-Identifier: Apache-2.0
 * Records of checkpoints and imports: begun, committed, given up, removed. */
#include "coordinator/core/model/record_fields.h"

#include <string.h>

static int apply_intent(struct gck_state *s, json_t *r, struct gck_error *err)
{
	uint32_t seq;
	struct gck_step *step = gck_record_find_seq(s, r, &seq, err);
	const char *nonce;
	int held;

	if (!step || gck_record_unpack(r, err, "{s:s, s:b}", "nonce", &nonce, "held", &held))
		return -1;
	if (strlen(nonce) >= sizeof step->intent.nonce)
		return gck_fail(err, EINVAL, "the nonce %s is too long", nonce);
	gck_step_give_up_intent(step);
	step->intent.seq = seq;
	step->intent.held = held;
	strcpy(step->intent.nonce, nonce);
	gck_record_set_json(&step->intent.import, json_object_get(r, "import"));
	gck_record_set_json(&step->intent.info, json_object_get(r, "info"));
	if (step->last_seq < seq)
		step->last_seq = seq;
	return 0;
}

static int apply_committing(struct gck_state *s, json_t *r, struct gck_error *err)
{
	uint32_t seq;
	struct gck_step *step = gck_record_find_seq(s, r, &seq, err);

	if (!step)
		return -1;
	if (step->intent.seq != seq)
		return gck_fail(err, EINVAL,
				"checkpoint %u of step %u.%u is committed but was not begun", seq,
				step->job->id, step->id);
	step->intent.committing = true;
	gck_record_set_json(&step->intent.info, json_object_get(r, "info"));
	return 0;
}

static int apply_commit(struct gck_state *s, json_t *r, struct gck_error *err)
{
	uint32_t seq;
	struct gck_step *step = gck_record_find_seq(s, r, &seq, err);
	json_int_t restarts, time, keep = 0;
	const char *hash;
	int abandoned = 0, aside = 0;
	struct gck_commit *c;

	if (!step || gck_record_unpack(r, err, "{s:I, s:s, s:I, s?I, s?b, s?b}", "restarts",
				       &restarts, "hash", &hash, "time", &time, "keep", &keep,
				       "abandoned", &abandoned, "aside", &aside))
		return -1;
	if (strlen(hash) >= sizeof c->hash)
		return gck_fail(err, EINVAL, "\"%s\" is not the hash of a commit", hash);
	c = gck_step_add_commit(step, seq);
	if (!c)
		return gck_record_no_memory(err);
	strcpy(c->hash, hash);
	c->restarts = (uint32_t)restarts;
	c->time = time;
	c->abandoned = abandoned;
	gck_record_set_json(&c->info, json_object_get(r, "info"));
	c->stored = (uint64_t)json_integer_value(json_object_get(c->info, "stored"));
	c->imported = json_is_true(json_object_get(c->info, "imported"));
	if (step->last_seq < seq)
		step->last_seq = seq;
	if (step->intent.seq == seq && !step->intent.import)
		gck_step_clear_failures(step); /* the step has come further */
	c->aside = aside;
	if (step->intent.seq == seq)
		gck_step_clear_intent(step);
	if (keep > 0)
		gck_step_prune(step, (unsigned)keep);
	return 0;
}

static int apply_abort(struct gck_state *s, json_t *r, struct gck_error *err)
{
	uint32_t seq;
	struct gck_step *step = gck_record_find_seq(s, r, &seq, err);
	int unheard = 0;

	if (!step || gck_record_unpack(r, err, "{s?b}", "unheard", &unheard))
		return -1;
	if (step->intent.seq == seq)
		gck_step_give_up_intent(step);
	if (unheard) {
		step->unheard = seq;
		step->listed = false;
	}
	return 0;
}

static int apply_seq(struct gck_state *s, json_t *r, struct gck_error *err)
{
	uint32_t seq;
	int listed = 0;
	struct gck_step *step = gck_record_find_seq(s, r, &seq, err);

	if (!step || gck_record_unpack(r, err, "{s?b}", "listed", &listed))
		return -1;
	if (step->last_seq < seq)
		step->last_seq = seq;
	step->listed |= listed;
	if (listed)
		step->unheard = 0;
	return 0;
}

static int apply_damaged(struct gck_state *s, json_t *r, struct gck_error *err)
{
	uint32_t seq;
	struct gck_step *step = gck_record_find_seq(s, r, &seq, err);
	struct gck_commit *c = step ? gck_step_commit(step, seq) : NULL;

	if (c)
		c->abandoned = true;
	return step ? 0 : -1;
}

static int apply_remove(struct gck_state *s, json_t *r, struct gck_error *err)
{
	struct gck_step *step = gck_record_find_step(s, r, err);
	json_t *seqs, *seq;
	json_int_t removals = step ? step->removals : 0;
	size_t i;

	if (!step || gck_record_unpack(r, err, "{s:o, s?I}", "seqs", &seqs, "removals", &removals))
		return -1;
	json_array_foreach(seqs, i, seq)
		gck_step_drop_commit(step, (uint32_t)json_integer_value(seq));
	return gck_record_narrow(removals, &step->removals, "removals", err);
}

static int apply_swept(struct gck_state *s, json_t *r, struct gck_error *err)
{
	struct gck_step *step = gck_record_find_step(s, r, err);
	json_int_t removals;

	if (!step || gck_record_unpack(r, err, "{s:I}", "removals", &removals))
		return -1;
	return gck_record_narrow(removals, &step->swept, "removals", err);
}

const struct gck_record_type gck_records_of_commits[] = {
	{ "intent", apply_intent },
	{ "committing", apply_committing },
	{ "commit", apply_commit },
	{ "abort", apply_abort },
	{ "seq", apply_seq },
	{ "damaged", apply_damaged },
	{ "remove", apply_remove },
	{ "swept", apply_swept },
	{ NULL, NULL },
};
