/* SPDX-License-Identifier: Apache-2.0
 * What the CLI is told of all jobs, in as many answers as it takes. */
#include <stdlib.h>

#include "coordinator/core/model/record.h"
#include "coordinator/core/operations/operation.h"
#include "coordinator/daemon/requests/requests.h"
#include "test/support/tap.h"

#define JOBS 4000
#define FIRST 100
#define OWNER 1000
#define STRANGER 1001

typedef json_t *report_fn(const struct gck_daemon *d, uid_t uid,
			  const struct gck_report_range *range);

static int64_t now_ms(void)
{
	return 0;
}

static const struct gck_world world = {.now_ms = now_ms};
static struct gck_daemon d = {.slurm_user = 1, .core.world = &world};

/* Every tenth job is a stranger's. */
static uid_t owner_of(unsigned job)
{
	return job % 10 ? OWNER : STRANGER;
}

static void note(json_t *record)
{
	if (!record || gck_record_apply(&d.core.state, record, NULL))
		abort();
	json_decref(record);
}

static void fill(void)
{
	for (unsigned job = FIRST; job < FIRST + JOBS; job++) {
		note(json_pack("{s:s, s:i, s:i, s:s, s:i, s:i, s:b}", "t", "job", "job", job, "uid",
			       (int)owner_of(job), "user", "somebody", "restarts", 0, "submit", 1,
			       "batch", 1));
		note(json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:s, s:s, s:{}}", "t", "step", "job",
			       job, "step", 0, "restarts", 0, "nodes", 1, "ntasks", 1, "store",
			       "file:/s", "options", "", "fingerprint"));
		for (int seq = 1; seq < 3; seq++)
			note(json_pack("{s:s, s:i, s:i, s:i, s:i, s:s, s:i, s:b, s:{s:i}}", "t",
				       "commit", "job", job, "step", 0, "seq", seq, "restarts", 0,
				       "hash", "0", "time", 1000, "abandoned", 0, "info", "stored",
				       10));
	}
}

/* How many of them are told, in the order of their numbers, and in how many answers; -1: one is too
 * long. */
static int told(report_fn *report, uid_t uid, unsigned *answers)
{
	struct gck_report_range range = {0, UINT32_MAX, GCK_EVERY_STEP};
	json_int_t before = 0;
	int n = 0;

	for (*answers = 0; *answers == 0 || range.first; ++*answers) {
		json_t *data = report(&d, uid, &range), *step;
		size_t i;

		if (json_dumpb(data, NULL, 0, JSON_COMPACT) > GCK_ANSWER_MAX)
			n = -JOBS;
		json_array_foreach(json_object_get(data, "steps"), i, step) {
			json_int_t job = json_integer_value(json_object_get(step, "job"));

			n += job > before && owner_of((unsigned)job) == uid;
			before = job;
		}
		range.first = (uint32_t)json_integer_value(json_object_get(data, "more"));
		json_decref(data);
	}
	return n;
}

static void all(report_fn *report, const char *name)
{
	unsigned answers;

	is_int(told(report, OWNER, &answers), JOBS / 10 * 9, name);
	ok(answers > 1, "in %u answers, each of which fits a frame", answers);
	is_int(told(report, STRANGER, &answers), JOBS / 10, "a user is told of his own alone");
}

static void one(unsigned job, uid_t uid, unsigned want, const char *name)
{
	const struct gck_report_range range = {job, job, GCK_EVERY_STEP};
	json_t *data = gck_report_list(&d, uid, &range);

	ok(all_of(json_array_size(json_object_get(data, "steps")) == want,
		  !json_object_get(data, "more")), "%s", name);
	json_decref(data);
}

static int tasks_told(uid_t uid, uint32_t id)
{
	json_t *data = gck_report_tasks(&d, uid, id);
	int n = (int)json_array_size(json_object_get(data, "jobs"));

	json_decref(data);
	return n;
}

/* Jobs FIRST + 1 to FIRST + 3 are tasks of an array that has the number of the last. */
static void arrays(void)
{
	json_t *dump, *record;
	bool dumped = false;
	size_t i;

	for (int task = 1; task <= 3; task++)
		note(json_pack("{s:s, s:i, s:i, s:s, s:i, s:i, s:b, s:i, s:i}", "t", "job", "job",
			       FIRST + task, "uid", task == 2 ? STRANGER : OWNER, "user", "x",
			       "restarts", 0, "submit", 1, "batch", 1, "array", FIRST + 3, "task",
			       task));
	is_int(tasks_told(0, FIRST + 3), 3, "an array's number means all its tasks");
	is_int(tasks_told(OWNER, FIRST + 3), 2, "but not a stranger's");
	is_int(tasks_told(0, FIRST + 1) + tasks_told(0, 0), 0, "any other number means none");
	dump = gck_state_dump(&d.core.state);
	json_array_foreach(dump, i, record)
		dumped |= json_integer_value(json_object_get(record, "array")) == FIRST + 3 &&
			  json_integer_value(json_object_get(record, "task")) == 2;
	ok(dumped, "the journal has a task's array");
	json_decref(dump);
}

int main(void)
{
	fill();
	all(gck_report_list, "list: every job is told of once");
	all(gck_report_status, "status: every job is told of once");
	one(FIRST + 1, OWNER, 1, "one that is named is told of alone");
	one(FIRST, OWNER, 0, "but not a stranger's");
	one(FIRST + JOBS, OWNER, 0, "nor one that there is not");
	arrays();
	note(json_pack("{s:s, s:i, s:i, s:s, s:i, s:i, s:b, s:b}", "t", "job", "job", FIRST + 1,
		       "uid", STRANGER, "user", "another", "restarts", 0, "submit", 2, "batch", 1,
		       "fresh", 1));
	one(FIRST + 1, STRANGER, 0,
	    "who has its number next is not told what the former owner left");
	one(FIRST + 1, 0, 1, "root is");
	gck_state_clear(&d.core.state);
	return tap_done();
}
