/* SPDX-License-Identifier: Apache-2.0
 * Verbs that ask: list, show, status, watch. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/user/user.h"
#include "coordinator/cli/cli.h"
#include "coordinator/cli/print.h"
#include "coordinator/cli/progress.h"

/* ---- users --------------------------------------------------------------------------------- */

/* USER[,USER...], names or numbers: an array of uids, or NULL. */
static json_t *parse_users(const char *users, struct gck_error *err)
{
	json_t *uids = json_array();
	const char *end;

	for (; uids && *users; users = *end ? end + 1 : end) {
		char name[256];
		uid_t uid;

		end = users + strcspn(users, ",");
		snprintf(name, sizeof name, "%.*s", (int)(end - users), users);
		if (gck_user_id(name, &uid) < 0) {
			gck_fail(err, ENOENT, "there is no user \"%.80s\"", name);
			json_decref(uids);
			return NULL;
		}
		json_array_append_new(uids, json_integer(uid));
	}
	return uids;
}

static bool has(const json_t *numbers, const json_t *number)
{
	json_t *one;
	size_t i;

	json_array_foreach(numbers, i, one)
		if (json_equal(one, number))
			return true;
	return false;
}

/* Keep the steps of the users that --user names. */
static int filter(const struct cli *c, json_t *data, struct gck_error *err)
{
	json_t *steps = json_object_get(data, "steps"), *kept = json_array(), *uids, *step;
	size_t i;

	uids = parse_users(c->users, err);
	if (!uids) {
		json_decref(kept);
		return -1;
	}
	json_array_foreach(steps, i, step)
		if (has(uids, json_object_get(step, "uid")))
			json_array_append(kept, step);
	json_object_set_new(data, "steps", kept);
	json_decref(uids);
	return 0;
}

static json_t *ask_of_users(const struct cli *c, const char *op, struct gck_error *err)
{
	json_t *data = cli_ask_known(c, op, err);

	if (!data || !c->users || filter(c, data, err) == 0)
		return data;
	json_decref(data);
	return NULL;
}

/* ---- list ---------------------------------------------------------------------------------- */

/* An empty list is an answer, not a failure. */
static void say_no_commit(const struct cli *c)
{
	struct gck_error why;

	if (c->has_job)
		cli_no_commit(c, &why);
	else
		gck_fail(&why, ENOENT, "no step has a commit yet");
	cli_complain(c, &why);
}

static json_t *list_one(const struct cli *c, struct gck_error *err)
{
	json_t *data = ask_of_users(c, "list", err), *rows;

	if (!data || c->json)
		return data;
	rows = print_rows(json_object_get(data, "steps"), "commits");
	if (json_array_size(rows) == 0)
		say_no_commit(c);
	json_decref(rows);
	return data;
}

int cli_list(struct cli *c, struct gck_error *err)
{
	static const struct column columns[] = {
		{ "STEP", "", KIND_STEP },	  { "ARRAY", "array_task", KIND_TEXT },
		{ "USER", "user", KIND_TEXT },
		{ "SEQ", "seq", KIND_NUMBER },	  { "TIME", "time", KIND_TIME },
		{ "RANKS", "ranks", KIND_NUMBER }, { "IMAGE", "put", KIND_BYTES },
		{ "STORED", "stored", KIND_BYTES }, { "QUIESCE", "quiesce_ms", KIND_MS },
		{ "STALL", "stall_ms", KIND_MS }, { "WRITE", "write_s", KIND_SECONDS },
		{ "ABANDONED", "abandoned", KIND_FLAG }, { "REASON", "reason", KIND_REASON },
		{ 0 },
	};
	json_t *data = cli_ask_each(c, NULL, list_one);
	json_t *rows;

	(void)err;
	if (data && c->json) {
		cli_print_json(data);
	} else if (data) {
		rows = print_rows(json_object_get(data, "steps"), "commits");
		print_table(rows, columns);
		json_decref(rows);
	}
	json_decref(data);
	return c->status;
}

/* ---- show ---------------------------------------------------------------------------------- */

static json_int_t newest(const json_t *step)
{
	json_int_t seq = 0;
	json_t *commit;
	size_t i;

	json_array_foreach(json_object_get(step, "commits"), i, commit) {
		json_int_t s = json_integer_value(json_object_get(commit, "seq"));

		if (s > seq)
			seq = s;
	}
	return seq;
}

static void print_commit(const json_t *commit)
{
	static const struct column columns[] = {
		{ "Step", "", KIND_STEP },	     { "Seq", "seq", KIND_NUMBER },
		{ "User", "user", KIND_TEXT },	     { "Time", "time", KIND_TIME },
		{ "Reason", "reason", KIND_REASON },   { "Restarts", "restarts", KIND_NUMBER },
		{ "Abandoned", "abandoned", KIND_FLAG }, { "Ranks", "ranks", KIND_NUMBER },
		{ "Ended", "ended", KIND_NUMBER },   { "Nodes", "nodes", KIND_TEXT },
		{ "Quiesce", "quiesce_ms", KIND_MS }, { "Stall", "stall_ms", KIND_MS },
		{ "Write", "write_s", KIND_SECONDS }, { "Image", "put", KIND_BYTES },
		{ "Stored", "stored", KIND_BYTES },  { "MemoryCopy", "copy_s", KIND_SECONDS },
		{ "Staged", "staged", KIND_BYTES },  { "NotStaged", "unstaged", KIND_TEXT },
		{ "Hash", "hash", KIND_TEXT },	     { 0 },
	};
	static const struct column place[] = {
		{ "Store", "store", KIND_TEXT }, { "Path", "path", KIND_TEXT }, { 0 },
	};

	print_values(commit, columns);
	print_values(commit, place);
}

/* The commit that was asked for, or NULL. */
static json_t *ask_commit(const struct cli *c, uint32_t job, uint32_t step, json_int_t seq,
			  struct gck_error *err)
{
	json_t *request = json_pack("{s:s, s:I, s:I, s:I}", "op", "show", "job", (json_int_t)job,
				    "step", (json_int_t)step, "seq", seq);

	return cli_ask(c, request, CLI_QUERY_S, err);
}

/* Show the commit that was named, or the newest of every step. */
static int show_steps(const struct cli *c, const json_t *steps, json_t *out, struct gck_error *err)
{
	json_t *step, *commit;
	uint32_t job, id;
	size_t i;

	json_array_foreach(steps, i, step) {
		json_int_t seq = c->nseqs ? c->seqs[0] : newest(step);

		if (seq == 0)
			continue;
		if (cli_step_ids(step, &job, &id, err) < 0)
			return -1;
		commit = ask_commit(c, job, id, seq, err);
		if (!commit)
			return -1;
		json_array_append_new(out, commit);
	}
	if (json_array_size(out) == 0)
		return cli_no_commit(c, err);
	return 0;
}

static json_t *show_one(const struct cli *c, struct gck_error *err)
{
	json_t *steps = cli_ask_steps(c, "list", err);
	json_t *out = json_array();
	int rc = steps ? show_steps(c, steps, out, err) : -1;

	json_decref(steps);
	if (rc == 0)
		return json_pack("{s:o}", "commits", out);
	json_decref(out);
	return NULL;
}

int cli_show(struct cli *c, struct gck_error *err)
{
	json_t *data = cli_ask_each(c, NULL, show_one), *commit;
	size_t i;

	(void)err;
	if (data && c->json)
		cli_print_json(data);
	else
		json_array_foreach(json_object_get(data, "commits"), i, commit) {
			if (i)
				putchar('\n');
			print_commit(commit);
		}
	json_decref(data);
	return c->status;
}

/* ---- status -------------------------------------------------------------------------------- */

/* Add what the numbers of a write or a restore mean: percent, and the seconds that are left. */
static void add_progress(json_t *progress)
{
	double done = json_number_value(json_object_get(progress, "done"));
	double all = json_number_value(json_object_get(progress, "all"));
	double rate = json_number_value(json_object_get(progress, "rate"));

	if (all <= 0)
		return;
	json_object_set_new(progress, "percent", json_real(done < all ? done / all * 100 : 100));
	if (rate > 0 && done < all)
		json_object_set_new(progress, "left_s", json_real((all - done) / rate));
}

static void add_derived(json_t *step, time_t now)
{
	json_t *last = json_object_get(step, "last"), *next = json_object_get(step, "next");

	add_progress(json_object_get(step, "checkpoint"));
	add_progress(json_object_get(step, "restart"));
	if (last)
		json_object_set_new(last, "age_s", json_integer(now - json_integer_value(
					     json_object_get(last, "time"))));
	if (next)
		json_object_set_new(step, "next_s", json_integer(json_integer_value(next) - now));
}

static void print_status(const struct cli *c, const json_t *data)
{
	static const struct column coordinator[] = {
		{ "Version", "version", KIND_TEXT },  { "Epoch", "epoch", KIND_NUMBER },
		{ "Since", "since", KIND_TIME },      { "Agents", "agents", KIND_NUMBER },
		{ 0 },
	};
	static const struct column columns[] = {
		{ "STEP", "", KIND_STEP },	      { "ARRAY", "array_task", KIND_TEXT },
		{ "USER", "user", KIND_TEXT },
		{ "STATE", "state", KIND_TEXT },      { "DISABLED", "disabled", KIND_FLAG },
		{ "RANKS", "ntasks", KIND_NUMBER },   { "NODES", "nodes", KIND_NODES },
		{ "COMMIT", "last.seq", KIND_NUMBER }, { "COMMITTED", "last.time", KIND_TIME },
		{ "AGE", "last.age_s", KIND_DURATION }, { "NEXT", "next_s", KIND_DURATION },
		{ "WRITING", "checkpoint.seq", KIND_NUMBER },
		{ "DONE", "checkpoint.percent", KIND_PERCENT },
		{ "OF", "checkpoint.all", KIND_BYTES }, { "RATE", "checkpoint.rate", KIND_RATE },
		{ "LEFT", "checkpoint.left_s", KIND_DURATION },
		{ "RESTORING", "restart.seq", KIND_NUMBER },
		{ "DONE", "restart.percent", KIND_PERCENT }, { "OF", "restart.all", KIND_BYTES },
		{ "RATE", "restart.rate", KIND_RATE }, { "LEFT", "restart.left_s", KIND_DURATION },
		{ "WAITS", "waits.why", KIND_TEXT }, { "ERROR", "last_error", KIND_TEXT }, { 0 },
	};
	json_t *steps = json_object_get(data, "steps"), *step;
	bool whole = !c->nids && !c->noheader;
	time_t now = time(NULL);
	size_t i;

	if (c->json) {
		cli_print_json(data);
		return;
	}
	if (whole)
		print_values(data, coordinator);
	if (whole && json_array_size(steps))
		putchar('\n');
	json_array_foreach(steps, i, step)
		add_derived(step, now);
	print_table(steps, columns);
}

static json_t *status_one(const struct cli *c, struct gck_error *err)
{
	return ask_of_users(c, "status", err);
}

int cli_status(struct cli *c, struct gck_error *err)
{
	json_t *data = cli_ask_each(c, NULL, status_one);

	(void)err;
	if (data)
		print_status(c, data);
	json_decref(data);
	return c->status;
}

/* ---- watch --------------------------------------------------------------------------------- */

#define WATCH_EVERY_S 1

static bool any_runs(const json_t *data)
{
	static const char *const over[] = { "finished", "not running", "held", "gone" };
	const size_t n = sizeof over / sizeof *over;
	json_t *step;
	size_t i;

	json_array_foreach(json_object_get(data, "steps"), i, step) {
		size_t k = 0;

		while (k < n && strcmp(cli_text(step, "state"), over[k]))
			k++;
		if (k == n)
			return true;
	}
	return false;
}

/* A terminal shows only the latest status; a file or pipe gets one after the other. An id that
 * failed is not asked about again. */
int cli_watch(struct cli *c, struct gck_error *err)
{
	bool go_on = true;
	json_t *data;

	(void)err;
	catch_signals();
	while (go_on && !interrupted && (data = cli_ask_each(c, NULL, status_one))) {
		if (isatty(STDOUT_FILENO) && !c->json)
			fputs("\033[H\033[J", stdout);
		print_status(c, data);
		fflush(stdout);
		go_on = !c->nids || any_runs(data);
		json_decref(data);
		if (go_on)
			sleep(WATCH_EVERY_S); /* a signal ends it */
	}
	return c->status;
}
