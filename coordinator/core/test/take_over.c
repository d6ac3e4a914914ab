/* SPDX-License-Identifier: Apache-2.0
 * Steps that no agent registers: what of them a store has and the journal lacks. */
#include "coordinator/core/retention/take_over.h"

#include <errno.h>
#include <string.h>

#include "coordinator/core/test/history.h"
#include "test/support/tap.h"

#define HASH "0123456789abcdef0123456789abcdef"

static struct fake f;
static struct gck_error err;

static const struct gck_step *step_of(unsigned job)
{
	return gck_state_step(&f.core.state, job, 0);
}

/* "1 3": the numbers of a job's commits, abandoned ones in parentheses. */
static const char *commits_of(unsigned job)
{
	static char text[200];

	*text = '\0';
	for (unsigned seq = 1; step_of(job) && seq < 20; seq++) {
		const struct gck_commit *c = gck_step_commit(step_of(job), seq);

		if (c)
			snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s%u%s",
				 *text ? " " : "", c->abandoned ? "(" : "", seq,
				 c->abandoned ? ")" : "");
	}
	return text;
}

/* A step of OWNER's job, as scan.c finds it, with no commit yet. */
static json_t *found_step(unsigned job)
{
	return json_pack("{s:i, s:s, s:i, s:i, s:s, s:i, s:i, s:{}, s:[], s:[]}", "uid", OWNER,
			 "user", "somebody", "job", job, "step", 0, "store", "file:/s", "ntasks", 2,
			 "nodes", 1, "fingerprint", "commits", "kept");
}

static void add(json_t *found, unsigned seq, unsigned restarts, unsigned from)
{
	json_t *nothing = json_object();
	char program[GCK_HASH_TEXT];

	gck_hash_json(nothing, program);
	json_decref(nothing);
	json_array_append_new(json_object_get(found, "commits"),
			      json_pack("{s:i, s:s, s:s, s:i, s:i, s:i, s:{s:i}}", "seq", seq,
					"hash", HASH, "fingerprint", program, "restarts", restarts,
					"time", 1000 + seq, "from", from, "info", "stored", 7));
}

/* What Slurm knows of the job. */
static json_t *slurm(unsigned uid, unsigned restarts, bool busy)
{
	return json_pack("{s:i, s:i, s:i, s:b, s:b}", "uid", uid, "restarts", restarts, "submit", 5,
			 "batch", 1, "busy", busy);
}

/* Both are dropped. */
static int take(json_t *found, json_t *knows)
{
	int rc;

	err = (struct gck_error){0};
	rc = gck_take_over_step(&f.core, found, knows, &err);
	json_decref(found);
	json_decref(knows);
	return rc;
}

static json_t *found_two(unsigned job)
{
	json_t *found = found_step(job);

	add(found, 3, 0, 0);
	add(found, 4, 0, 0);
	return found;
}

static void test_no_journal(void)
{
	const struct gck_step *step;

	fake_begin(&f, 1);
	is_int(take(found_two(100), NULL), 2, "a step that the journal lacks is taken over");
	step = step_of(100);
	is_str(commits_of(100), "3 4", "with its commits");
	ok(all_of(step->job->gone, step->uid == OWNER, step->ntasks == 2),
	   "as a step of a job that Slurm has forgotten");
	ok(all_of(step->commits->time == 1004, step->commits->stored == 7),
	   "with the commits' own times and sizes");
	is_int(step->last_seq, 4, "their numbers are not given again");
	is_int(take(found_two(100), NULL), 0, "a second time there is nothing to take over");
	is_int(take(found_two(101), slurm(OWNER, 1, false)), 2, "a job that is pending");
	ok(all_of(!step_of(101)->job->gone, step_of(101)->job->restarts == 1),
	   "is known as Slurm knows it");
	ok(!step_of(101)->job->remnants, "with no ranks of a former start");
	fake_crash(&f);
	is_str(commits_of(101), "3 4", "the journal has it");
	fake_crash_losing(&f, FAKE_JOURNAL);
	take(found_two(101), slurm(OWNER, 1, false));
	is_int((long long)json_array_size(step_of(101)->job->remnants), 1,
	       "after a lost journal its former start may have had ranks");
	fake_end(&f);
}

static void test_others(void)
{
	json_t *found = found_two(100);

	fake_begin(&f, 1);
	ok(take(found_two(100), slurm(OWNER, 0, true)) < 0 && err.code == EAGAIN,
	   "a job that runs is left to its agents");
	ok(take(found_two(100), slurm(OWNER + 1, 0, false)) < 0 && err.code == EACCES,
	   "a number that is another user's now is not taken");
	json_object_set_new(json_array_get(json_object_get(found, "commits"), 1), "restarts",
			    json_integer(2));
	ok(take(found, slurm(OWNER, 1, false)) < 0 && err.code == ESTALE,
	   "nor one of another job of this user");
	ok(!step_of(100), "nothing is known of it");
	past_job(&f, 100, OWNER + 1, "file:/s", "");
	ok(take(found_two(100), NULL) < 0 && err.code == EACCES,
	   "nor one that is another user's in the journal");
	past_job(&f, 101, OWNER, "file:/other", "");
	ok(take(found_two(101), NULL) < 0 && err.code == EXDEV, "nor a step of another store");
	found = found_two(102);
	json_object_set_new(json_object_get(found, "fingerprint"), "program", json_string("q"));
	past_job(&f, 102, OWNER, "file:/s", "");
	ok(take(found, NULL) < 0 && err.code == ESTALE, "nor another program's");
	fake_end(&f);
}

/* A directory for the number of a job that neither Slurm nor the journal knows. */
static void test_planted(void)
{
	json_t *planted = found_two(100);

	fake_begin(&f, 1);
	json_object_set_new(planted, "uid", json_integer(OWNER + 1));
	is_int(take(planted, NULL), 2, "another user has planted a directory that is found first");
	ok(take(found_two(100), NULL) < 0 && err.code == EACCES,
	   "the owner's commits are not taken over");
	is_int(step_of(100)->uid, OWNER + 1, "the job counts as the other's");
	fake_end(&f);
}

static void test_older_journal(void)
{
	json_t *found = found_two(100);

	fake_begin(&f, 1);
	past_job(&f, 100, OWNER, "file:/s", "");
	past_commit(&f, 100, 1, 500, 10, false);
	past_commit(&f, 100, 2, 400, 10, false);
	json_array_append_new(json_object_get(found, "kept"), json_integer(2));
	is_int(take(found, NULL), 2, "an older journal: the newer commits are taken over");
	is_str(commits_of(100), "2 3 4", "those that the store has no longer are forgotten");
	ok(gck_step_unswept(step_of(100)), "and what is left of them is removed");
	found = found_step(100);
	add(found, 1, 0, 0);
	is_int(take(found, NULL), 0, "a number that the journal gave, and does not list, was "
	       "removed");
	is_str(commits_of(100), "2 3 4", "it does not come back");
	fake_end(&f);
}

static void test_abandoned(void)
{
	json_t *found = found_step(100);

	fake_begin(&f, 1);
	add(found, 1, 0, 0);
	add(found, 2, 0, 0);
	add(found, 3, 1, 1);
	add(found, 4, 2, 3);
	add(found, 5, 2, 3);
	add(found, 6, 9, 1);
	json_object_set_new(json_object_get(json_array_get(json_object_get(found, "commits"), 5),
					    "info"), "imported", json_true());
	is_int(take(found, NULL), 6, "commits of three incarnations, and an imported one");
	is_str(commits_of(100), "1 (2) 3 4 5 6",
	       "a restart went back behind one: it is abandoned; another job's is not counted");
	fake_end(&f);
}

int main(void)
{
	test_no_journal();
	test_others();
	test_planted();
	test_older_journal();
	test_abandoned();
	return tap_done();
}
