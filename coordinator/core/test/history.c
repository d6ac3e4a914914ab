/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/core/test/history.h"

static void note(struct fake *f, json_t *record)
{
	gck_core_note(&f->core, record, false);
}

void past_job(struct fake *f, unsigned id, unsigned uid, const char *store, const char *options)
{
	note(f, json_pack("{s:s, s:i, s:i, s:s, s:i, s:i, s:b}", "t", "job", "job", id, "uid", uid,
			  "user", "somebody", "restarts", 0, "submit", 1, "batch", 1));
	note(f, json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:s, s:s, s:{}}", "t", "step", "job", id,
			  "step", 0, "restarts", 0, "nodes", 1, "ntasks", 1, "store", store,
			  "options", options, "fingerprint"));
}

void past_commit(struct fake *f, unsigned job, unsigned seq, int64_t age_s, int64_t stored,
		 bool abandoned)
{
	note(f, json_pack("{s:s, s:i, s:i, s:i, s:i, s:s, s:I, s:b, s:{s:I}}", "t", "commit", "job",
			  job, "step", 0, "seq", seq, "restarts", 0, "hash", "0", "time",
			  (json_int_t)(f->core.world->now_ms() / 1000 - age_s), "abandoned",
			  abandoned, "info", "stored", (json_int_t)stored));
}

void past_word(struct fake *f, unsigned job, const char *type)
{
	note(f, json_pack("{s:s, s:i, s:i}", "t", type, "job", job, "step", 0));
}

void past_word_of(struct fake *f, unsigned job, const char *type, unsigned seq)
{
	note(f, json_pack("{s:s, s:i, s:i, s:i}", "t", type, "job", job, "step", 0, "seq", seq));
}
