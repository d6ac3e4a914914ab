/* SPDX-License-Identifier: Apache-2.0
 * Verbs that act on a running step: create, vacate, requeue, disable, enable, able. */
#include <stdio.h>
#include <stdlib.h>

#include "coordinator/cli/cli.h"
#include "coordinator/cli/print.h"

static const struct column columns[] = {
	{ "STEP", "", KIND_STEP },	       { "SEQ", "seq", KIND_NUMBER },
	{ "QUIESCE", "quiesce_ms", KIND_MS },  { "STALL", "stall_ms", KIND_MS },
	{ "WRITE", "write_s", KIND_SECONDS },  { "IMAGE", "put", KIND_BYTES },
	{ "STORED", "stored", KIND_BYTES },    { 0 },
};

/* Try the new commit of a step. */
static json_t *try_one(const struct cli *c, const json_t *step, struct gck_error *err)
{
	struct cli_id id = { .has_step = true };
	struct cli one = *c;

	one.restore = true;
	id.seq = (uint32_t)json_integer_value(json_object_get(step, "seq"));
	if (cli_step_ids(step, &id.job, &id.step, err) < 0)
		return NULL;
	cli_use(&one, &id);
	return cli_verify_commits(&one, err);
}

/* Try all new commits; the results are added to data. */
static json_t *try_new(const struct cli *c, json_t *data, struct gck_error *err)
{
	json_t *out = json_array(), *step, *found;
	size_t i;

	json_array_foreach(json_object_get(data, "steps"), i, step) {
		found = try_one(c, step, err);
		if (!found) {
			json_decref(out);
			return NULL;
		}
		json_array_extend(out, found);
		json_decref(found);
	}
	json_object_set(data, "verified", out);
	return out;
}

static void tell_waits(const json_t *steps)
{
	static const struct column id = { "", "", KIND_STEP };
	static const struct column what = { "", "waited_for", KIND_TEXT };
	char text[2][CELL_MAX];
	json_t *step;
	size_t i;

	json_array_foreach(steps, i, step) {
		if (!json_object_get(step, "waited_for"))
			continue;
		print_cell(step, &id, text[0]);
		print_cell(step, &what, text[1]);
		fprintf(stderr, "gpuckpt: step %s was waited for: %s\n", text[0], text[1]);
	}
}

static void print_new(const struct cli *c, const json_t *data)
{
	tell_waits(json_object_get(data, "steps"));
	if (c->json)
		cli_print_json(data);
	else
		print_table(json_object_get(data, "steps"), columns);
}

static int print_and_try(struct cli *c, json_t *data, struct gck_error *err)
{
	struct cli restore = *c;
	json_t *out;

	if (!c->json)
		print_new(c, data);
	out = try_new(c, data, err);
	if (c->json)
		print_new(c, data);
	if (!out)
		return -1;
	restore.restore = true;
	cli_verify_end(&restore, out);
	c->status = restore.status;
	json_decref(out);
	return 0;
}

static struct gck_wire *begin(const struct cli *c, struct gck_error *err)
{
	json_t *request = cli_request(c, c->verb->name);

	json_object_set_new(request, "wait", json_boolean(!c->no_wait));
	return cli_begin(c, request, err);
}

static json_t *await(const struct cli *c, struct gck_error *err)
{
	return cli_await(c->wire, c->no_wait ? CLI_QUERY_S : CLI_WAIT_S, err);
}

int cli_checkpoint(struct cli *c, struct gck_error *err)
{
	json_t *data = cli_ask_each(c, begin, await);
	int rc = 0;

	if (data && c->verify)
		rc = print_and_try(c, data, err);
	else if (data)
		print_new(c, data);
	json_decref(data);
	return rc < 0 ? rc : c->status;
}

static json_t *set_switch(const struct cli *c, struct gck_error *err)
{
	return cli_ask(c, cli_request(c, c->verb->name), CLI_QUERY_S, err);
}

int cli_switch(struct cli *c, struct gck_error *err)
{
	(void)err;
	json_decref(cli_ask_each(c, NULL, set_switch));
	return c->status;
}

/* ---- able: what prevents a checkpoint. Ranks with the same reason share a line. -------------- */

static const char *text_of(const json_t *item, const char *key)
{
	const char *text = json_string_value(json_object_get(item, key));

	return text ? text : "";
}

/* ---- ranks --------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
	const json_int_t x = *(const json_int_t *)a, y = *(const json_int_t *)b;

	return x < y ? -1 : x > y;
}

/* "0-2,5" for sorted numbers; truncated to size. */
static void put_ranges(const json_int_t *v, size_t n, char *text, size_t size)
{
	size_t used = 0;

	for (size_t i = 0, k; i < n && used < size; i = k) {
		for (k = i + 1; k < n && v[k] <= v[k - 1] + 1; k++)
			;
		used += (size_t)snprintf(text + used, size - used, "%s%" JSON_INTEGER_FORMAT,
					 i ? "," : "", v[i]);
		if (v[k - 1] > v[i] && used < size)
			used += (size_t)snprintf(text + used, size - used, "-%" JSON_INTEGER_FORMAT,
						 v[k - 1]);
	}
}

static json_t *ranges(const json_t *ranks)
{
	size_t n = json_array_size(ranks);
	json_int_t *v = calloc(n + 1, sizeof *v);
	char text[CELL_MAX] = "-";

	for (size_t i = 0; v && i < n; i++)
		v[i] = json_integer_value(json_array_get(ranks, i));
	if (v) {
		qsort(v, n, sizeof *v, by_number);
		put_ranges(v, n, text, sizeof text);
	}
	free(v);
	return json_string(text);
}

/* ---- items --------------------------------------------------------------------------------- */

/* The text of an item without its rank. */
static json_t *describe(const json_t *item)
{
	const char *remedy = text_of(item, "remedy");

	return json_pack("{s:b, s:s, s:s++, s:[]}", "refuse",
			 json_is_true(json_object_get(item, "refuse")), "object",
			 text_of(item, "object"), "why", text_of(item, "reason"),
			 *remedy ? "; " : "", remedy, "ranks");
}

/* The entry of an item in fold, whose keys are the items' texts. */
static json_t *entry_of(json_t *fold, const json_t *item)
{
	json_t *entry = describe(item), *known;
	char *key = entry ? json_dumps(entry, JSON_COMPACT) : NULL;

	known = key ? json_object_get(fold, key) : NULL;
	if (key && !known && json_object_set(fold, key, entry) == 0)
		known = entry;
	free(key);
	json_decref(entry);
	return known; /* owned by fold */
}

/* Rows for the table: a step's items, refusals first. Returns how many others were left out. */
static size_t fold_step(const json_t *step, bool all, json_t *rows)
{
	json_t *fold = json_object(), *item, *entry;
	size_t i, left_out = 0;
	const char *key;

	json_array_foreach(json_object_get(step, "items"), i, item)
		json_array_append(json_object_get(entry_of(fold, item), "ranks"),
				  json_object_get(item, "rank"));
	for (int refuse = 1; refuse >= 0; refuse--)
		json_object_foreach(fold, key, entry) {
			if (json_is_true(json_object_get(entry, "refuse")) != refuse)
				continue;
			if (!refuse && !all) {
				left_out++;
				continue;
			}
			json_object_set_new(entry, "ranks",
					    ranges(json_object_get(entry, "ranks")));
			json_object_update_missing(entry, (json_t *)step);
			json_array_append(rows, entry);
		}
	json_decref(fold);
	return left_out;
}

static void print_able(const json_t *steps, bool all)
{
	static const struct column able[] = {
		{ "STEP", "", KIND_STEP }, { "ABLE", "able", KIND_TEXT }, { 0 },
	};
	static const struct column reasons[] = {
		{ "STEP", "", KIND_STEP },	    { "RANKS", "ranks", KIND_TEXT },
		{ "REFUSES", "refuse", KIND_TEXT }, { "OBJECT", "object", KIND_TEXT },
		{ "REASON AND REMEDY", "why", KIND_TEXT }, { 0 },
	};
	json_t *rows = json_array(), *step;
	size_t i, left_out = 0;

	print_table(steps, able);
	json_array_foreach(steps, i, step)
		left_out += fold_step(step, all, rows);
	if (json_array_size(rows)) {
		putchar('\n');
		print_table(rows, reasons);
	}
	if (left_out)
		fprintf(stderr, "gpuckpt: able: %zu note%s that prevent%s no checkpoint: -v shows "
			"%s\n", left_out, left_out > 1 ? "s" : "", left_out > 1 ? "" : "s",
			left_out > 1 ? "them" : "it");
	json_decref(rows);
}

/* Why a step cannot be checkpointed: its first item that refuses. */
static void put_why(const json_t *step, struct gck_error *why)
{
	static const struct column id = { "", "", KIND_STEP }, object = { "", "object", KIND_TEXT },
				   reason = { "", "reason", KIND_TEXT };
	char text[3][CELL_MAX];
	json_t *item;
	size_t k;

	print_cell(step, &id, text[0]);
	json_array_foreach(json_object_get(step, "items"), k, item) {
		if (!json_is_true(json_object_get(item, "refuse")))
			continue;
		print_cell(item, &object, text[1]);
		print_cell(item, &reason, text[2]);
		gck_fail(why, EBUSY, "step %.32s cannot be checkpointed: %.160s: %.200s", text[0],
			 text[1], text[2]);
		return;
	}
	gck_fail(why, EBUSY, "step %.32s cannot be checkpointed", text[0]);
}

static void judge(struct cli *c, const json_t *steps)
{
	struct gck_error why;
	json_t *step;
	size_t i;

	json_array_foreach(steps, i, step) {
		if (json_is_true(json_object_get(step, "able")))
			continue;
		put_why(step, &why);
		cli_complain(c, &why);
		c->status = CLI_FAILED;
	}
}

static json_t *ask_able(const struct cli *c, struct gck_error *err)
{
	return cli_ask(c, cli_request(c, "able"), CLI_QUERY_S, err);
}

int cli_able(struct cli *c, struct gck_error *err)
{
	json_t *data = cli_ask_each(c, NULL, ask_able);
	const json_t *steps = json_object_get(data, "steps");

	(void)err;
	if (data && c->json)
		cli_print_json(data);
	else if (data)
		print_able(steps, c->verbose);
	fflush(stdout);
	judge(c, steps);
	json_decref(data);
	return c->status;
}
