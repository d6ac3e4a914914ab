/* SPDX-License-Identifier: Apache-2.0
 * verify: read and check all objects that commits need, or only check that they exist, or build
 * their ranks for a trial. */
#include <stdio.h>
#include <unistd.h>

#include "coordinator/cli/cli.h"
#include "coordinator/cli/print.h"
#include "coordinator/cli/progress.h"
#include "coordinator/cli/trial.h"
#include "storage/image/image.h"
#include "storage/store/store.h"

static struct progress progress_of(const json_t *step, const json_t *commit, const char *what,
				   enum kind kind)
{
	return (struct progress){
		.what = what,
		.job = json_integer_value(json_object_get(step, "job")),
		.step = json_integer_value(json_object_get(step, "step")),
		.seq = json_integer_value(json_object_get(commit, "seq")),
		.kind = kind,
	};
}

static int read_commit(const struct cli *c, struct gck_store *s, const json_t *step,
		       const json_t *commit, uint64_t *found, struct gck_error *err)
{
	struct progress p = progress_of(step, commit, c->quick ? "looking" : "reading",
					c->quick ? KIND_NUMBER : KIND_BYTES);
	const char *hash = json_string_value(json_object_get(commit, "hash"));
	int rc;

	gck_store_on_progress(s, progress_tell, &p);
	rc = (c->quick ? gck_store_check : gck_store_verify)(s, (uint32_t)p.seq, hash, found, err);
	gck_store_on_progress(s, NULL, NULL);
	progress_end();
	return rc;
}

static bool all_build(const json_t *ranks)
{
	json_t *one;
	size_t i;

	json_array_foreach(ranks, i, one)
		if (!json_is_true(json_object_get(one, "builds")))
			return false;
	return true;
}

static json_t *try_commit(const struct cli *c, struct gck_store *s, const json_t *step,
			  const json_t *commit)
{
	struct progress p = progress_of(step, commit, "building", KIND_BYTES);
	struct gck_error why = { 0 };
	json_t *ranks;

	ranks = trial_of_commit(c->conf.preload, s, (uint32_t)p.seq,
				json_string_value(json_object_get(commit, "hash")), &p, &why);
	progress_end();
	if (!ranks)
		return json_pack("{s:I, s:b, s:s}", "seq", p.seq, "builds", 0, "error", why.text);
	return json_pack("{s:I, s:b, s:o}", "seq", p.seq, "builds", all_build(ranks), "ranks",
			 ranks);
}

static json_t *verify_commit(const struct cli *c, struct gck_store *s, const json_t *step,
			     const json_t *commit)
{
	json_int_t seq = json_integer_value(json_object_get(commit, "seq"));
	struct gck_error why = { 0 };
	uint64_t found = 0;

	if (read_commit(c, s, step, commit, &found, &why) == 0)
		return json_pack("{s:I, s:b, s:I}", "seq", seq, "whole", 1,
				 c->quick ? "objects" : "bytes", (json_int_t)found);
	return json_pack("{s:I, s:b, s:s}", "seq", seq, "whole", 0, "error", why.text);
}

/* All commits that were asked for: a user takes an unreported one for intact. */
static int verify_commits(const struct cli *c, struct gck_store *s, const json_t *step, json_t *out,
			  struct gck_error *err)
{
	json_t *commit;
	size_t i;

	json_array_foreach(json_object_get(step, "commits"), i, commit) {
		json_int_t seq = json_integer_value(json_object_get(commit, "seq"));

		if ((c->nseqs == 0 || seq == c->seqs[0]) &&
		    json_array_append_new(out, (c->restore ? try_commit : verify_commit)(
					  c, s, step, commit)) < 0)
			return gck_fail(err, ENOMEM,
					"no memory to tell of commit %" JSON_INTEGER_FORMAT, seq);
	}
	return 0;
}

/* The owner's files, limits and rights are not root's. */
static int check_owner(const json_t *step, struct gck_error *err)
{
	json_int_t uid = json_integer_value(json_object_get(step, "uid"));

	if ((uid_t)uid == geteuid())
		return 0;
	return gck_fail(err, EPERM, "--restore builds processes of the job's owner: run it as %s",
			cli_text(step, "user"));
}

/* {"job","step","commits":[..]} of what was asked for. */
static json_t *verify_step(const struct cli *c, const json_t *step, struct gck_error *err)
{
	bool may = !c->restore || check_owner(step, err) == 0;
	struct gck_store *s = may ? cli_open_store(c, step, err) : NULL;
	json_t *commits = json_array();
	int rc = s ? verify_commits(c, s, step, commits, err) : -1;

	gck_store_close(s);
	if (rc < 0) {
		json_decref(commits);
		return NULL;
	}
	return json_pack("{s:O, s:O, s:o}", "job", json_object_get(step, "job"), "step",
			 json_object_get(step, "step"), "commits", commits);
}

static void print_verified(const json_t *steps)
{
	static const struct column columns[] = {
		{ "STEP", "", KIND_STEP },	 { "SEQ", "seq", KIND_NUMBER },
		{ "WHOLE", "whole", KIND_TEXT }, { "READ", "bytes", KIND_BYTES },
		{ "OBJECTS", "objects", KIND_NUMBER },
		{ "ERROR", "error", KIND_TEXT }, { 0 },
	};
	json_t *rows = print_rows(steps, "commits");

	print_table(rows, columns);
	json_decref(rows);
}

static void print_trials(const json_t *steps)
{
	static const struct column columns[] = {
		{ "STEP", "", KIND_STEP },	{ "SEQ", "seq", KIND_NUMBER },
		{ "RANK", "rank", KIND_NUMBER }, { "BUILDS", "builds", KIND_TEXT },
		{ "NOT TRIED", "skipped", KIND_TEXT }, { "ERROR", "error", KIND_TEXT }, { 0 },
	};
	json_t *commits = print_rows(steps, "commits"), *rows = print_rows(commits, "ranks");

	print_table(rows, columns);
	json_decref(rows);
	json_decref(commits);
}

/* ---- the verdict --------------------------------------------------------------------------- */

static void complain(struct cli *c, const json_t *step, const json_t *commit, const json_t *rank)
{
	static const struct column id = { "", "", KIND_STEP };
	json_int_t seq = json_integer_value(json_object_get(commit, "seq"));
	char name[CELL_MAX], of_rank[32] = "";
	struct gck_error why;

	print_cell(step, &id, name);
	if (rank)
		snprintf(of_rank, sizeof of_rank, ", rank %" JSON_INTEGER_FORMAT,
			 json_integer_value(json_object_get(rank, "rank")));
	gck_fail(&why, EBADMSG, "step %.32s, commit %" JSON_INTEGER_FORMAT "%s: %s", name, seq,
		 of_rank, cli_text(rank ? rank : commit, "error"));
	cli_complain(c, &why);
	c->status = CLI_FAILED;
}

/* The first rank that does not build. */
static void judge_ranks(struct cli *c, const json_t *step, const json_t *commit)
{
	json_t *one;
	size_t i;

	json_array_foreach(json_object_get(commit, "ranks"), i, one)
		if (!json_is_true(json_object_get(one, "builds"))) {
			complain(c, step, commit, one);
			return;
		}
	complain(c, step, commit, NULL);
}

static void judge(struct cli *c, const json_t *steps)
{
	json_t *step, *commit;
	size_t i, k;

	json_array_foreach(steps, i, step)
		json_array_foreach(json_object_get(step, "commits"), k, commit)
			if (!json_is_true(json_object_get(commit, c->restore ? "builds" : "whole")))
				judge_ranks(c, step, commit);
}

/* ---- the verb ------------------------------------------------------------------------------ */

static int verify_steps(const struct cli *c, const json_t *steps, json_t *out,
			struct gck_error *err)
{
	json_t *step, *found;
	size_t i;

	json_array_foreach(steps, i, step) {
		if (json_array_size(json_object_get(step, "commits")) == 0)
			continue;
		found = verify_step(c, step, err);
		if (!found)
			return -1;
		json_array_append_new(out, found);
	}
	return 0;
}

static bool any_commit(const json_t *steps)
{
	json_t *step;
	size_t i;

	json_array_foreach(steps, i, step)
		if (json_array_size(json_object_get(step, "commits")))
			return true;
	return false;
}

json_t *cli_verify_commits(const struct cli *c, struct gck_error *err)
{
	json_t *steps = cli_ask_steps(c, "list", err);
	json_t *out = json_array();
	int rc = steps ? verify_steps(c, steps, out, err) : -1;

	if (rc == 0 && !any_commit(out))
		rc = cli_no_commit(c, err);
	json_decref(steps);
	if (rc == 0)
		return out;
	json_decref(out);
	return NULL;
}

void cli_verify_end(struct cli *c, const json_t *steps)
{
	if (!c->json)
		(c->restore ? print_trials : print_verified)(steps);
	fflush(stdout);
	judge(c, steps);
}

static json_t *verify_one(const struct cli *c, struct gck_error *err)
{
	json_t *steps = cli_verify_commits(c, err);

	return steps ? json_pack("{s:o}", "steps", steps) : NULL;
}

int cli_verify(struct cli *c, struct gck_error *err)
{
	json_t *data = cli_ask_each(c, NULL, verify_one);

	(void)err;
	if (data && c->json)
		cli_print_json(data);
	if (data)
		cli_verify_end(c, json_object_get(data, "steps"));
	json_decref(data);
	return c->status;
}
