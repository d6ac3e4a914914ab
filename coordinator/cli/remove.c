/* SPDX-License-Identifier: Apache-2.0
 * remove: commits, and objects that only they used. */
#include <stdio.h>

#include "common/base/s3_url.h"
#include "coordinator/cli/cli.h"
#include "coordinator/cli/print.h"
#include "storage/retention/retention.h"
#include "storage/store/store.h"

static bool is_removed(const json_t *removed, uint32_t seq)
{
	json_t *one;
	size_t i;

	json_array_foreach(removed, i, one)
		if (json_integer_value(one) == seq)
			return true;
	return false;
}

/* Report that the store is swept. If the report is lost, another process sweeps and finds
 * nothing. */
static void say_swept(const struct cli *c, const json_t *order, json_int_t removals)
{
	json_decref(cli_ask(c, json_pack("{s:s, s:O, s:O, s:I}", "op", "swept", "job",
					 json_object_get(order, "job"), "step",
					 json_object_get(order, "step"), "removals", removals),
			    CLI_QUERY_S, NULL));
}

/* "5, 2": the first of many. */
static const char *numbers(const json_t *seqs, char *text, size_t size)
{
	json_t *seq;
	size_t i, used = 0;

	json_array_foreach(seqs, i, seq) if (used < size)
		used += (size_t)snprintf(text + used, size - used, "%s%" JSON_INTEGER_FORMAT,
					 i ? ", " : "", json_integer_value(seq));
	return text;
}

/* Forgotten commits stay forgotten. The coordinator also sweeps an object store; in a `file:` store
 * only processes of the owner and of root can remove anything. */
static int not_removed(const json_t *order, struct gck_error *err)
{
	const json_t *seqs = json_object_get(order, "remove");
	const char *later = gck_s3_is(cli_text(order, "store"))
				    ? "it will be removed later"
				    : "the next checkpoint of a job of the owner's removes it, or "
				      "another remove of the step";
	char text[64];

	if (json_array_size(seqs) == 0)
		return -1;
	return gck_fail_in(err, "what no longer counts (commit %s) is still in the store; %s",
			   numbers(seqs, text, sizeof text), later);
}

/* Remove all that the coordinator has forgotten. Its answer has the commits to keep, and the number
 * of a checkpoint that runs or may begin. */
static int sweep(const struct cli *c, struct gck_store *s, const json_t *order,
		 struct gck_error *err)
{
	json_int_t busy, removals;
	json_t *keep;

	if (json_unpack((json_t *)order, "{s:o, s:I, s:I}", "keep", &keep, "busy", &busy,
			"removals", &removals))
		return gck_fail(err, EPROTO,
				"the coordinator does not say what stays; is it of another "
				"release?");
	if (s && gck_store_prune_listed(s, keep, (uint32_t)busy, err) < 0)
		return not_removed(order, err);
	if (s)
		gck_store_remove_empty(s);
	say_swept(c, order, removals);
	return 0;
}

/* Ask to remove one commit of a step (0: all). Commits that the coordinator has forgotten are added
 * to removed, even if the store cannot be swept. */
static int remove_commit(const struct cli *c, const json_t *step, uint32_t seq, struct gck_store *s,
			 json_t *removed, struct gck_error *err)
{
	json_t *request = json_pack("{s:s, s:O, s:O}", "op", "remove", "job",
				    json_object_get(step, "job"), "step",
				    json_object_get(step, "step"));
	json_t *order;
	int rc;

	if (seq)
		json_object_set_new(request, "seq", json_integer(seq));
	order = cli_ask(c, request, CLI_QUERY_S, err);
	if (!order)
		return -1;
	json_array_extend(removed, json_object_get(order, "remove"));
	rc = sweep(c, s, order, err);
	json_decref(order);
	return rc;
}

/* Open the store first: a commit that cannot be deleted must not be forgotten. A store without
 * objects of the step (ENOENT) is fine. */
static int remove_of_step(const struct cli *c, const json_t *step, json_t *removed,
			  struct gck_error *err)
{
	struct gck_store *s = cli_open_store(c, step, err);
	int rc = s || err->code == ENOENT ? 0 : -1;

	for (size_t i = 0; rc == 0 && i < (c->all ? 1 : c->nseqs); i++)
		rc = remove_commit(c, step, c->all ? 0 : c->seqs[i], s, removed, err);
	gck_store_close(s);
	return rc;
}

/* Sweep steps without commits, too: forgotten or aborted checkpoints may have left objects. */
static int remove_steps(const struct cli *c, const json_t *steps, json_t *out,
			struct gck_error *err)
{
	json_t *step;
	size_t i;

	json_array_foreach(steps, i, step) {
		json_t *removed = json_array();
		int rc = remove_of_step(c, step, removed, err);

		json_array_append_new(out, json_pack("{s:O, s:O, s:o}", "job",
						     json_object_get(step, "job"), "step",
						     json_object_get(step, "step"), "removed",
						     removed));
		if (rc < 0)
			return -1;
	}
	return 0;
}

static void print_removed(const json_t *steps)
{
	static const struct column columns[] = {
		{ "STEP", "", KIND_STEP }, { "REMOVED", "removed", KIND_TEXT }, { 0 },
	};
	json_t *rows = json_array(), *step;
	size_t i;

	json_array_foreach(steps, i, step)
		if (json_array_size(json_object_get(step, "removed")))
			json_array_append(rows, step);
	print_table(rows, columns);
	json_decref(rows);
}

/* --all leaves commits that are still needed: an ended job can be requeued, and another step may
 * have been started from a commit. */
static void tell_kept(const json_t *steps, const json_t *out)
{
	json_t *step, *commit;
	size_t i, k;

	json_array_foreach(steps, i, step) {
		const json_t *removed = json_object_get(json_array_get(out, i), "removed");

		json_array_foreach(json_object_get(step, "commits"), k, commit) {
			json_int_t seq = json_integer_value(json_object_get(commit, "seq"));

			if (!is_removed(removed, (uint32_t)seq))
				fprintf(stderr,
					"gpuckpt: remove: commit %" JSON_INTEGER_FORMAT
					" of step %" JSON_INTEGER_FORMAT ".%" JSON_INTEGER_FORMAT
					" stays: it, or a step that was started from it, may be "
					"restarted from there (until Slurm forgets the job, "
					"MinJobAge after its end)\n",
					seq, json_integer_value(json_object_get(step, "job")),
					json_integer_value(json_object_get(step, "step")));
		}
	}
}

int cli_remove(struct cli *c, struct gck_error *err)
{
	json_t *steps = cli_ask_steps(c, "list", err);
	json_t *data = json_pack("{s:[]}", "steps");
	int rc = steps ? remove_steps(c, steps, json_object_get(data, "steps"), err) : -1;

	if (steps && c->json)
		cli_print_json(data);
	else if (steps)
		print_removed(json_object_get(data, "steps"));
	if (rc == 0 && c->all)
		tell_kept(steps, json_object_get(data, "steps"));
	json_decref(data);
	json_decref(steps);
	return rc;
}
