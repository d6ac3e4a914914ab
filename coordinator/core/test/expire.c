/* SPDX-License-Identifier: Apache-2.0
 * KeepAge= and Quota=: which commits are forgotten, in single cases and in random states. The
 * stores of forgotten commits are swept once, by an agent of the user or by gpuckptd, also over
 * restarts of the coordinator. */
#include "coordinator/core/retention/expire.h"
#include "coordinator/core/retention/needed.h"
#include "coordinator/core/retention/removal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "coordinator/core/operations/operation.h"
#include "coordinator/core/test/history.h"
#include "test/support/tap.h"

static struct fake f;

static void add_job(unsigned id, unsigned uid, const char *store)
{
	past_job(&f, id, uid, store, "");
}

static void add_commit(unsigned job, unsigned seq, int64_t age_s, int64_t stored, bool abandoned)
{
	past_commit(&f, job, seq, age_s, stored, abandoned);
}

static struct gck_step *step_of(unsigned job)
{
	return gck_state_step(&f.core.state, job, 0);
}

/* "1 3": the numbers of a job's commits. */
static const char *left(unsigned job)
{
	static char text[200];

	*text = '\0';
	for (unsigned seq = 1; seq < 20; seq++)
		if (gck_step_commit(step_of(job), seq))
			snprintf(text + strlen(text), sizeof text - strlen(text), "%s%u",
				 *text ? " " : "", seq);
	return text;
}

static void begin(void)
{
	fake_begin(&f, 1);
}

static void test_age(void)
{
	struct gck_live live;

	begin();
	for (unsigned job = 100; job < 104; job++) {
		add_job(job, OWNER, "file:/s");
		add_commit(job, 1, 500, 10, false);
		add_commit(job, 2, 300, 10, false);
	}
	past_word(&f, 101, "gone");
	past_word(&f, 102, "finished");
	past_word(&f, 103, "finished");
	add_job(104, OWNER, "file:/s");
	memset(&live, 0, sizeof live);
	live.plan.job = 103;
	live.plan.seq = 1;
	step_of(104)->live = &live;
	gck_expire(&f.core);
	is_str(left(101), "1 2", "without KeepAge nothing is removed");
	f.conf.keep_age_s = 400;
	gck_expire(&f.core);
	is_str(left(101), "2", "older commits are removed");
	f.conf.keep_age_s = 200;
	gck_expire(&f.core);
	is_str(left(100), "2", "but not the commit that a job would be restarted from");
	is_str(left(101), "", "all commits of a job that Slurm has forgotten");
	is_str(left(102), "", "and of a finished step");
	is_str(left(103), "1", "but not a commit that another job was restarted from");
	step_of(104)->live = NULL;
	fake_end(&f);
}

/* No step is live: only the journal tells which commits are needed. */
static void expire_anew(void)
{
	fake_crash(&f);
	gck_expire(&f.core);
}

static void test_needed(void)
{
	begin();
	f.conf.keep_age_s = 200;
	for (unsigned job = 100; job < 103; job++) {
		past_job(&f, job, OWNER, "file:/s", job == 102 ? "restart=1" : "");
		add_commit(job, 1, 500, 10, false);
		add_commit(job, 2, 400, 10, false);
		add_commit(job, 3, 300, 10, false);
	}
	past_job(&f, 103, OWNER, "file:/s", "restart=100:1");
	past_word_of(&f, 101, "restore", 2);
	expire_anew();
	is_str(left(100), "1 3",
	       "restart=JOB:SEQ keeps the other job's commit until the job has its own");
	ok(gck_commit_needed(&f.core, step_of(100), 1) == step_of(103),
	   "the job with restart= needs it");
	is_str(left(101), "2 3",
	       "the commit of a fallback stays until the start is decided");
	is_str(left(102), "1 3", "restart=SEQ keeps the job's own commit");
	add_commit(103, 1, 0, 10, false);
	past_word_of(&f, 101, "run", 3);
	past_word(&f, 102, "finished");
	expire_anew();
	is_str(left(100), "3", "with its own commit the job needs no other");
	is_str(left(101), "3", "after the decision only the commit that runs is needed");
	is_str(left(102), "", "a finished step needs no commit");
	fake_end(&f);
}

/* Slurm gives the job's number to another user's job. */
static void give_number(unsigned job)
{
	gck_core_note(&f.core,
		      json_pack("{s:s, s:i, s:i, s:s, s:i, s:i, s:b, s:b}", "t", "job", "job", job,
				"uid", OWNER + 1, "user", "v", "restarts", 0, "submit", 2, "batch",
				1, "fresh", 1),
		      true);
}

static void test_sweep_former(void)
{
	json_t *orders, *word = json_pack("{s:[{s:i, s:i, s:i}]}", "steps", "job", 100, "step", 0,
					  "removals", 1);

	begin();
	add_job(100, OWNER, "file:/s");
	add_commit(100, 1, 500, 70, false);
	add_job(101, OWNER, "file:/s");
	add_job(102, OWNER + 1, "file:/s");
	past_word(&f, 100, "gone");
	f.conf.keep_age_s = 400;
	gck_expire(&f.core);
	give_number(100);
	orders = gck_sweep_orders(&f.core, OWNER + 1);
	is_int((long long)json_array_size(orders), 0,
	       "the next owner of a job's number does not sweep the former's store");
	json_decref(orders);
	orders = gck_sweep_orders(&f.core, OWNER);
	is_int((long long)json_array_size(orders), 1, "the former owner's agents do");
	json_decref(orders);
	gck_swept_message(&f.core, step_of(102), NULL, word);
	ok(gck_step_unswept(step_of(100)), "reports of other users do not count");
	gck_swept_message(&f.core, step_of(101), NULL, word);
	ok(!gck_step_unswept(step_of(100)), "reports of that user's agents do");
	json_decref(word);
	fake_end(&f);
}

static void test_quota_former(void)
{
	struct gck_error err = {0};

	begin();
	f.conf.quota = 100;
	add_job(100, OWNER, "file:/s");
	add_commit(100, 1, 500, 70, false);
	give_number(100);
	ok(gck_quota_check(&f.core, OWNER + 1, 100, &err) == 0,
	   "commits of the former owner do not count for the new one");
	ok(gck_quota_check(&f.core, OWNER, 40, &err) < 0, "but for the former owner");
	fake_end(&f);
}

static void test_quota(void)
{
	struct gck_error err = {0};

	begin();
	f.conf.quota = 100;
	for (unsigned job = 100; job < 103; job++)
		add_job(job, job == 102 ? OWNER + 1 : OWNER, "file:/s");
	add_commit(100, 1, 500, 30, false);
	add_commit(100, 2, 100, 30, false);
	add_commit(101, 1, 400, 30, false);
	add_commit(101, 2, 300, 30, true);
	add_commit(101, 3, 200, 30, false);
	add_commit(102, 1, 900, 60, false);
	add_commit(102, 2, 800, 40, false);
	gck_expire(&f.core);
	is_str(left(101), "1 3", "abandoned commits are removed first");
	is_str(left(100), "2", "then the oldest ones");
	is_str(left(102), "1 2", "a user at the quota loses no commit");
	ok(gck_quota_check(&f.core, OWNER, 0, &err) == 0, "and writes on");
	f.conf.quota = 50;
	gck_expire(&f.core);
	is_str(left(100), "2", "needed commits stay");
	is_str(left(101), "3", "also of the other job");
	ok(all_of(gck_quota_check(&f.core, OWNER, 0, &err) < 0, err.code == EDQUOT),
	   "if these exceed the quota, writes are refused: %s", err.text);
	is_str(left(102), "2", "other users are not affected");
	ok(gck_quota_check(&f.core, OWNER + 1, 0, &err) == 0, "and writes on");
	/* Job 100 may have been cancelled: it can be requeued by hand until Slurm forgets it. */
	past_word(&f, 100, "gone");
	gck_expire(&f.core);
	is_str(left(100), "", "commits of jobs that Slurm has forgotten are removed");
	ok(gck_quota_check(&f.core, OWNER, 0, &err) == 0, "and writes are allowed again");
	f.conf.quota = 0;
	ok(gck_quota_check(&f.core, OWNER + 1, 0, &err) == 0,
	   "without a quota no write is refused");
	fake_end(&f);
}

static void say_swept(unsigned by, unsigned job, unsigned removals)
{
	json_t *body = json_pack("{s:[{s:i, s:i, s:i}]}", "steps", "job", job, "step", 0,
				 "removals", removals);

	gck_swept_message(&f.core, step_of(by), NULL, body);
	json_decref(body);
}

static bool unswept(unsigned job)
{
	return gck_step_unswept(step_of(job));
}

static long long orders_now(void)
{
	json_t *orders = gck_sweep_orders(&f.core, OWNER);
	long long n = (long long)json_array_size(orders);

	json_decref(orders);
	return n;
}

static void test_sweep(void)
{
	json_t *orders;

	begin();
	f.conf.keep_age_s = 400;
	add_job(100, OWNER, "file:/s");
	add_job(101, OWNER, "s3://b/p");
	add_job(102, OWNER + 1, "file:/s");
	for (unsigned job = 100; job < 103; job++) {
		add_commit(job, 1, 500, 10, false);
		add_commit(job, 2, 300, 10, false);
		add_commit(job, 3, 100, 10, false);
	}
	gck_expire(&f.core);
	f.conf.keep_age_s = 200;
	gck_expire(&f.core);
	orders = gck_sweep_orders(&f.core, OWNER);
	is_int((long long)json_array_size(orders), 1,
	       "an agent sweeps its own user's file: stores");
	ok(all_of(json_integer_value(json_object_get(json_array_get(orders, 0), "busy")) == 4,
		  json_array_size(json_object_get(json_array_get(orders, 0), "keep")) == 1),
	   "the order has the kept commits and the busy number");
	json_decref(orders);
	is_int(orders_now(), 0, "another agent is not ordered meanwhile");
	step_of(100)->ordered_ms -= 11 * 60 * 1000;
	is_int(orders_now(), 1, "but is if the first one is silent for long");
	ok(unswept(101), "an object store is swept by gpuckptd");
	say_swept(102, 100, 2);
	ok(unswept(100), "another user's report is ignored");
	say_swept(101, 100, 1);
	ok(unswept(100), "later removals must still be swept");
	is_int(orders_now(), 1, "by the next agent");
	fake_crash(&f);
	is_str(left(100), "3", "the journal has the removals");
	ok(unswept(100), "and that the store must be swept");
	f.core.world->rewrite(&f.core, NULL);
	fake_crash(&f);
	say_swept(101, 100, 1);
	ok(unswept(100), "also after a rewrite");
	say_swept(101, 100, 2);
	ok(!unswept(100), "until an agent reports the sweep");
	fake_crash(&f);
	ok(!unswept(100), "also after a restart");
	add_commit(100, 4, 1, 10, false);
	f.conf.keep_age_s = 50;
	gck_expire(&f.core);
	is_str(left(100), "4", "more commits are forgotten");
	say_swept(101, 100, 1);
	say_swept(101, 100, 2);
	ok(unswept(100), "a late report about earlier removals does not count");
	fake_end(&f);
}

/* ---- at a commit --------------------------------------------------------------------------- */

static unsigned removals_in_journal(void)
{
	unsigned n = 0;
	json_t *r;
	size_t i;

	json_array_foreach(f.records, i, r)
		n += !strcmp(json_string_value(json_object_get(r, "t")), "remove");
	return n;
}

static void test_records(void)
{
	unsigned before;

	begin();
	for (unsigned job = 100; job < 103; job++) {
		add_job(job, job == 102 ? OWNER + 1 : OWNER, "file:/s");
		for (unsigned seq = 1; seq < 10; seq++)
			add_commit(job, seq, 500, 10, false);
	}
	f.conf.keep_age_s = 200;
	before = f.syncs;
	gck_expire_user(&f.core, OWNER);
	is_str(left(101), "9", "commits of one user are checked");
	is_str(left(102), "1 2 3 4 5 6 7 8 9", "without those of others");
	is_int(removals_in_journal(), 2, "with one record for each step");
	is_int(f.syncs - before, 1, "and one wait for the disk");
	fake_end(&f);
}

#define MANY 400

/* Orders for all of these steps do not fit into one frame. */
static void test_orders(void)
{
	char store[1100] = "file:/";
	unsigned left_over = 0;

	begin();
	fake_settle(&f);
	memset(store + strlen(store), 's', 1000);
	for (unsigned i = 0; i < MANY; i++) {
		add_job(100 + i, OWNER, store);
		add_commit(100 + i, 1, 500, 10, false);
		past_word(&f, 100 + i, "finished");
	}
	f.conf.keep_age_s = 200;
	gck_operation_begin(&f.core, GCK_CREATE, JOB, 0, "test", NULL, NULL);
	fake_settle(&f);
	is_int(f.sweeps, 1, "with a commit one agent of the step gets orders to sweep");
	ok(all_of(f.orders > 100, f.orders < 262), "as many as one message holds: %u", f.orders);
	for (unsigned i = 0; i < MANY; i++)
		left_over += unswept(100 + i);
	is_int(left_over, MANY - f.orders, "its sweeps are recorded");
	for (unsigned i = 0; i < 3; i++) {
		gck_operation_begin(&f.core, GCK_CREATE, JOB, 0, "test", NULL, NULL);
		fake_settle(&f);
	}
	ok(all_of(f.sweeps < 4, !unswept(100 + MANY - 1)),
	   "the others follow, then there are no more orders");
	is_str(f.violation, "", "the rules of the agents were kept");
	fake_end(&f);
}

/* ---- random states ------------------------------------------------------------------------- */

#define JOBS 8
#define ROUNDS 400

static uint32_t newest[JOBS]; /* 0: nobody needs one */

static void make(void)
{
	for (unsigned i = 0; i < JOBS; i++) {
		unsigned n = f.random(&f, 5);
		bool needed = f.random(&f, 2);

		add_job(100 + i, OWNER + f.random(&f, 3), "file:/s");
		newest[i] = 0;
		for (unsigned seq = 1; seq <= n; seq++) {
			bool abandoned = f.random(&f, 4) == 0;

			add_commit(100 + i, seq, f.random(&f, 1000), f.random(&f, 100), abandoned);
			if (needed && !abandoned)
				newest[i] = seq;
		}
		if (!needed)
			past_word(&f, 100 + i, f.random(&f, 2) ? "gone" : "finished");
	}
	f.conf.keep_age_s = f.random(&f, 2) * f.random(&f, 1000);
	f.conf.quota = f.random(&f, 2) * f.random(&f, 400);
}

/* All needed commits exist; the others are neither too old nor above the quota. */
static bool right(void)
{
	struct gck_error err;
	int64_t now = f.core.world->now_ms() / 1000;

	for (unsigned i = 0; i < JOBS; i++) {
		const struct gck_step *s = step_of(100 + i);
		bool over = f.conf.quota && gck_quota_check(&f.core, s->job->uid, 0, &err) < 0;

		if (newest[i] && !gck_step_commit(s, newest[i]))
			return false;
		for (const struct gck_commit *c = s->commits; c; c = c->older)
			if (c->seq != newest[i] && (over || (f.conf.keep_age_s &&
			    c->time + f.conf.keep_age_s < now - 2)))
				return false;
	}
	return true;
}

static void test_random(void)
{
	unsigned wrong = 0;

	for (unsigned i = 0; i < ROUNDS; i++) {
		fake_begin(&f, i + 1);
		make();
		gck_expire(&f.core);
		wrong += !right();
		fake_end(&f);
	}
	is_int(wrong, 0, "random states: needed commits stay, and limits are kept");
}

int main(void)
{
	gck_log_open("expire", "/dev/null", GCK_LOG_ERROR);
	test_age();
	test_quota();
	test_quota_former();
	test_sweep_former();
	test_needed();
	test_sweep();
	test_records();
	test_orders();
	test_random();
	return tap_done();
}
