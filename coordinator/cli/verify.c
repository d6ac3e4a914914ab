/* SPDX-License-Identifier: Apache-2.0
 * verify: read and check all objects that commits need, or only check that they exist. */
#include <stdio.h>

#include "coordinator/cli/cli.h"
#include "coordinator/cli/print.h"
#include "coordinator/cli/progress.h"
#include "storage/image/image.h"
#include "storage/store/store.h"

static int read_commit(const struct cli *c, struct gck_store *s, const json_t *step,
		       const json_t *commit, uint64_t *found, struct gck_error *err)
{
	struct progress p = {
		.what = c->quick ? "looking" : "reading",
		.job = json_integer_value(json_object_get(step, "job")),
		.step = json_integer_value(json_object_get(step, "step")),
		.seq = json_integer_value(json_object_get(commit, "seq")),
		.kind = c->quick ? KIND_NUMBER : KIND_BYTES,
	};
	const char *hash = json_string_value(json_object_get(commit, "hash"));
	int rc;

	gck_store_on_progress(s, progress_tell, &p);
	rc = (c->quick ? gck_store_check : gck_store_verify)(s, (uint32_t)p.seq, hash, found, err);
	gck_store_on_progress(s, NULL, NULL);
	progress_end();
	return rc;
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
		    json_array_append_new(out, verify_commit(c, s, step, commit)) < 0)
			return gck_fail(err, ENOMEM,
					"no memory to tell of commit %" JSON_INTEGER_FORMAT, seq);
	}
	return 0;
}

/* {"job","step","commits":[..]} of what was asked for. */
static json_t *verify_step(const struct cli *c, const json_t *step, struct gck_error *err)
{
	struct gck_store *s = cli_open_store(c, step, err);
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

/* Count the commits that were read; fail for the first that is damaged. */
static int judge(const struct cli *c, const json_t *steps, struct gck_error *err)
{
	json_t *step, *commit;
	size_t i, k, n = 0;

	json_array_foreach(steps, i, step) {
		json_array_foreach(json_object_get(step, "commits"), k, commit) {
			n++;
			if (!json_is_true(json_object_get(commit, "whole")))
				return gck_fail(err, EBADMSG, "%s", cli_text(commit, "error"));
		}
	}
	return n > 0 ? 0 : cli_no_commit(c, err);
}

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

int cli_verify(struct cli *c, struct gck_error *err)
{
	json_t *steps = cli_ask_steps(c, "list", err);
	json_t *out = json_array(), *data;
	int rc = steps ? verify_steps(c, steps, out, err) : -1;

	if (rc == 0) {
		data = json_pack("{s:O}", "steps", out);
		if (c->json)
			cli_print_json(data);
		else
			print_verified(out);
		fflush(stdout);
		json_decref(data);
		rc = judge(c, out, err);
	}
	json_decref(out);
	json_decref(steps);
	return rc;
}
