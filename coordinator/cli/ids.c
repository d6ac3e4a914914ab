/* SPDX-License-Identifier: Apache-2.0
 * The jobs and steps that a verb is about: JOBID[.STEPID]..., tasks of arrays as squeue names them,
 * and the answers about all of them put together. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/wire.h"
#include "coordinator/cli/cli.h"

#define AHEAD 16 /* requests that are under way at once */

/* ---- parsing ------------------------------------------------------------------------------- */

int cli_number(const char *text, const char *end, uint32_t *value)
{
	uint64_t v = 0;

	if (text == end || end - text > 10)
		return -1;
	for (; text < end; text++) {
		if (*text < '0' || *text > '9')
			return -1;
		v = v * 10 + (uint64_t)(*text - '0');
	}
	*value = (uint32_t)v;
	return v > UINT32_MAX ? -1 : 0;
}

/* Take "2" or "2-4" off a list of tasks, with the comma behind it. -1: it is neither. */
static int take_range(const char **list, uint32_t *first, uint32_t *last)
{
	const char *end = *list + strcspn(*list, ",");
	const char *dash = memchr(*list, '-', (size_t)(end - *list));

	if (cli_number(*list, dash ? dash : end, first) < 0)
		return -1;
	*last = *first;
	if (dash && (cli_number(dash + 1, end, last) < 0 || *last < *first))
		return -1;
	*list = *end ? end + 1 : end;
	return *end && !end[1] ? -1 : 0;
}

static bool has_task(const struct cli_id *id, uint32_t task)
{
	const char *list = id->tasks;
	uint32_t first, last;

	while (*list && take_range(&list, &first, &last) == 0)
		if (task >= first && task <= last)
			return true;
	return false;
}

/* The end of "2" or "[2-4,7]", or NULL. */
static const char *parse_tasks(struct cli_id *id, const char *text)
{
	bool brackets = *text == '[';
	const char *end, *list = id->tasks;
	uint32_t first, last;

	text += brackets;
	end = text + strspn(text, brackets ? "0123456789,-" : "0123456789");
	if ((brackets && *end != ']') || end - text >= (ptrdiff_t)sizeof id->tasks)
		return NULL;
	memcpy(id->tasks, text, (size_t)(end - text));
	do {
		if (take_range(&list, &first, &last) < 0)
			return NULL;
	} while (*list);
	return end + brackets;
}

static int malformed(const char *text, struct gck_error *err)
{
	return gck_fail(err, EINVAL, "\"%.80s\" is not JOBID[.STEPID]", text);
}

static int parse_step(struct cli_id *id, const char *text, const char *dot, const char *end,
		      struct gck_error *err)
{
	static const char *const others[] = { ".batch", ".extern", ".interactive" };

	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (!strcmp(dot, others[i]))
			return gck_fail(err, EINVAL, "\"%.80s\": only srun's numbered steps have "
					"checkpoints", text);
	if (cli_number(dot + 1, end, &id->step) < 0)
		return malformed(text, err);
	id->has_step = true;
	return 0;
}

int cli_parse_id(struct cli_id *id, const char *text, struct gck_error *err)
{
	const char *end = text + strcspn(text, "_.:"), *colon = text + strcspn(text, ":");

	*id = (struct cli_id){ 0 };
	if (strchr(text, '+'))
		return gck_fail(err, EINVAL, "\"%.80s\" is a part of a heterogeneous job: use its "
				"own number (squeue -O JobID)", text);
	if (cli_number(text, end, &id->job) < 0 || id->job == 0)
		return malformed(text, err);
	if (*end == '_')
		end = parse_tasks(id, end + 1);
	if (!end)
		return gck_fail(err, EINVAL, "\"%.80s\": tasks of an array are JOBID_TASK or "
				"JOBID_[2-4,7]", text);
	if (*end == '.' && parse_step(id, text, end, colon, err) < 0)
		return -1;
	if ((*end != '.' && end != colon) ||
	    (*colon && (cli_number(colon + 1, colon + strlen(colon), &id->seq) < 0 || !id->seq)))
		return malformed(text, err);
	snprintf(id->name, sizeof id->name, "%s", text);
	return 0;
}

/* ---- arrays -------------------------------------------------------------------------------- */

static int add(struct cli_id **ids, size_t *n, const struct cli_id *id)
{
	struct cli_id *more = reallocarray(*ids, *n + 1, sizeof *more);

	if (!more)
		return -1;
	*ids = more;
	more[(*n)++] = *id;
	return 0;
}

/* One of an array's jobs, with the name that squeue gives it. */
static struct cli_id task_of(const struct cli_id *id, const json_t *job)
{
	struct cli_id one = *id;
	int n;

	one.job = (uint32_t)json_integer_value(json_object_get(job, "job"));
	*one.tasks = '\0';
	n = snprintf(one.name, sizeof one.name, "%u_%u", id->job,
		     (uint32_t)json_integer_value(json_object_get(job, "task")));
	if (one.has_step)
		snprintf(one.name + n, sizeof one.name - (size_t)n, ".%u", one.step);
	return one;
}

/* Put the jobs in the answer in the place of id. */
static int add_tasks(struct cli_id **ids, size_t *n, const struct cli_id *id, const json_t *jobs,
		     struct gck_error *err)
{
	size_t before = *n, i;
	json_t *job;

	json_array_foreach(jobs, i, job) {
		uint32_t task = (uint32_t)json_integer_value(json_object_get(job, "task"));
		struct cli_id one = task_of(id, job);

		if ((!*id->tasks || has_task(id, task)) && add(ids, n, &one) < 0)
			return gck_fail(err, ENOMEM, "no memory for its tasks");
	}
	if (*n > before)
		return 0;
	if (*id->tasks)
		return gck_fail(err, ENOENT, "no such task of job array %u runs or ran with "
				"--gpu-ckpt", id->job);
	return add(ids, n, id) < 0 ? gck_fail(err, ENOMEM, "no memory for it") : 0;
}

void cli_complain(const struct cli *c, const struct gck_error *err)
{
	fprintf(stderr, "gpuckpt: %s: %s\n", c->verb->name, err->text);
}

static void report(struct cli *c, const struct cli_id *id, struct gck_error *err)
{
	if (c->nids > 1 || *id->tasks)
		(void)gck_fail_in(err, "%s", id->name);
	cli_complain(c, err);
	c->status = CLI_FAILED;
}

/* A coordinator of 0.1.0 does not know this request; to it each id is a job's own number. */
static void resolve(struct cli *c, struct gck_wire *w, const struct cli_id *id,
		    struct cli_id **ids, size_t *n)
{
	json_t *request = json_pack("{s:s, s:I}", "op", "tasks", "job", (json_int_t)id->job);
	struct gck_error err = { 0 };
	json_t *data = cli_say(w, request, CLI_QUERY_S, &err);
	bool lost = !data && (*id->tasks || err.code != EIO);

	if (lost || add_tasks(ids, n, id, json_object_get(data, "jobs"), &err) < 0)
		report(c, id, &err);
	json_decref(data);
}

int cli_resolve(struct cli *c, struct gck_error *err)
{
	struct gck_wire *w = cli_connect(c, err);
	struct cli_id *ids = NULL;
	size_t n = 0;

	if (!w)
		return -1;
	for (size_t i = 0; i < c->nids; i++)
		resolve(c, w, &c->ids[i], &ids, &n);
	gck_wire_free(w);
	free(c->ids);
	c->ids = ids;
	c->nids = n;
	return 0;
}

/* ---- requests ------------------------------------------------------------------------------ */

void cli_use(struct cli *c, const struct cli_id *id)
{
	c->has_job = true;
	c->job = id->job;
	c->has_step = id->has_step;
	c->step = id->step;
	c->wire = id->wire;
	if (!id->seq)
		return;
	c->seqs[0] = id->seq;
	c->nseqs = 1;
}

static void join(json_t **all, json_t *data)
{
	const char *key;
	json_t *value;

	if (!*all || !data) {
		*all = *all ? *all : data;
		return;
	}
	json_object_foreach(data, key, value)
		if (json_is_array(value))
			json_array_extend(json_object_get(*all, key), value);
	json_decref(data);
}

static void fail_one(struct cli *c, struct cli_id *id, struct gck_error *err)
{
	report(c, id, err);
	id->failed = true;
}

static void begin_one(struct cli *c, struct cli_id *id, cli_begin_fn *begin)
{
	struct gck_error err = { 0 };
	struct cli one = *c;

	cli_use(&one, id);
	id->wire = begin(&one, &err);
	if (!id->wire)
		fail_one(c, id, &err);
}

static json_t *ask_one(struct cli *c, struct cli_id *id, cli_ask_fn *ask)
{
	struct gck_error err = { 0 };
	struct cli one = *c;
	json_t *data;

	cli_use(&one, id);
	data = ask(&one, &err);
	gck_wire_free(id->wire);
	id->wire = NULL;
	if (!data)
		fail_one(c, id, &err);
	return data;
}

static json_t *ask_all(struct cli *c, cli_ask_fn *ask)
{
	struct gck_error err = { 0 };
	json_t *data = ask(c, &err);

	if (!data) {
		cli_complain(c, &err);
		c->status = CLI_FAILED;
	}
	return data;
}

json_t *cli_ask_each(struct cli *c, cli_begin_fn *begin, cli_ask_fn *ask)
{
	json_t *all = NULL;
	size_t begun = 0;

	if (!c->nids)
		return ask_all(c, ask);
	for (size_t i = 0; i < c->nids; i++) {
		for (; begin && begun < c->nids && begun < i + AHEAD; begun++)
			begin_one(c, &c->ids[begun], begin);
		if (!c->ids[i].failed)
			join(&all, ask_one(c, &c->ids[i], ask));
	}
	return all;
}
