/* SPDX-License-Identifier: Apache-2.0
 * A checkpoint on one node, with workers that fail, die and hang as scripted. */
#include "config.h"

#include "coordinator/agent/checkpoint/transaction.h"

#include <string.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/test/fakes.h"
#include "test/support/tap.h"

static const json_t *ask(const char *op, json_t *more)
{
	fake_command(op, more);
	return fake_await("done", op);
}

static bool says(const json_t *answer, const char *text)
{
	const char *error = packet_text(answer, "error", "");

	if (strstr(error, text))
		return true;
	printf("# the error is \"%s\"\n", error);
	return false;
}

static json_int_t data_int(const json_t *answer, const char *key)
{
	return packet_int(json_object_get(answer, "data"), key, -1);
}

static const json_t *data_list(const json_t *answer, const char *key)
{
	return json_object_get(json_object_get(answer, "data"), key);
}

static void good(void)
{
	const json_t *m;

	fake_begin();
	m = ask("prepare", NULL);
	ok(packet_bool(m, "ok"), "prepare");
	is_int(data_int(m, "expected"), 3000, "the expected bytes of all ranks are added up");
	ok(!packet_bool(json_object_get(m, "data"), "needs_hold"),
	   "enough memory: no hold is needed");
	m = ask("freeze", NULL);
	is_int(data_int(m, "first_ns"), 100,
	       "the time of the first rank that was stopped is reported");
	ok(transaction_held(fake_agent->transaction), "ranks are held");
	m = ask("resume", NULL);
	is_int(data_int(m, "last_ns"), 202,
	       "the time of the last rank that was let go is reported");
	ok(!transaction_held(fake_agent->transaction), "no rank is held");
	m = ask("write", NULL);
	is_int((long long)json_array_size(data_list(m, "ranks")), 3,
	       "a write reports three manifests");
	is_int(data_int(m, "stored"), 12,
	       "bytes are added up, those that two ranks share once");
	is_int((long long)json_object_size(json_object_get(json_object_get(m, "data"), "common")),
	       2,
	       "chunks that other nodes may share are reported");
	is_int(packet_int(json_object_get(json_object_get(m, "data"), "common"),
			  "00112233445566778899aabbccddeeff", 0), 3, "with their bytes");
	is_int(transaction_seq(fake_agent->transaction), 7,
	       "the checkpoint is in `register` until its end is known");
	m = ask("freeze", NULL);
	ok(packet_bool(m, "ok"), "a repeated command is answered as before");
	m = ask("commit", json_pack("{s:{}}", "document"));
	is_str(packet_text(json_object_get(m, "data"), "hash", ""), "abc",
	       "commit reports its hash");
	m = ask("commit", json_pack("{s:{}}", "document"));
	is_str(packet_text(json_object_get(m, "data"), "hash", ""), "abc",
	       "and again for a coordinator that has not heard it");
	fake_command("committed", json_pack("{s:[i,i]}", "keep", 6, 7));
	fake_until(fake_world->pruned);
	is_int(fake_world->pruned, 2, "the agent that wrote the commit prunes");
	fake_command("sweep", json_pack("{s:[{s:i}]}", "steps", "job", 3));
	m = fake_await("swept", NULL);
	is_int((long long)json_array_size(json_object_get(m, "steps")), 1,
	       "sweep reports what was removed");
	is_int(transaction_seq(fake_agent->transaction), 0, "no checkpoint is in progress");
	is_int(fake_workers(), 0, "every worker has ended");
	is_int(fake_world->discarded, 0, "nothing was discarded");
	fake_end();
}

static void one_fails(const char *phase, enum fake_act act, const char *text)
{
	static const char *const phases[] = { "prepare", "freeze", "resume", "write" };
	const json_t *m = NULL;
	size_t i = 0;

	fake_begin();
	fake_script(1, phase, act);
	do {
		m = ask(phases[i], NULL);
	} while (strcmp(phases[i++], phase));
	ok(m && !packet_bool(m, "ok"), "%s fails when a worker does (%d)", phase, act);
	ok(says(m, text), "%s says why", phase);
	is_int(packet_int(m, "rank", -1), 1, "the failure names the rank");
	fake_until(!fake_workers());
	is_int(fake_workers(), 0, "all workers have left");
	ok(!packet_bool(ask("write", NULL), "ok"), "later commands are refused");
	m = ask("abort", NULL);
	ok(packet_bool(m, "ok"), "abort is answered");
	fake_until(fake_world->discarded && !fake_agent->transaction);
	is_int(fake_world->discarded, 1, "what was written is removed from the store");
	ok(!fake_agent->transaction, "and the checkpoint is gone");
	fake_end();
}

/* The others are asked as well, and whether their reason lasts. */
static void refused_for_now(void)
{
	const json_t *m;

	fake_begin();
	fake_script(0, "prepare", FAKE_PASSING);
	fake_script(2, "prepare", FAKE_PASSING);
	m = ask("prepare", NULL);
	ok(!packet_bool(m, "ok") && says(m, "for now"), "two ranks are refused for now");
	is_int(packet_int(m, "code", 0), EAGAIN, "and so is the checkpoint");
	ok(packet_bool(ask("abort", NULL), "ok"), "abort is answered");
	fake_end();

	fake_begin();
	fake_script(0, "prepare", FAKE_PASSING);
	fake_script(2, "prepare", FAKE_LATE);
	m = ask("prepare", NULL);
	ok(says(m, "as scripted"), "a rank is refused for good after another for now");
	is_int(packet_int(m, "rank", -1), 2, "the answer is about the former");
	fake_end();
}

static void not_resumed(void)
{
	const json_t *m;

	fake_begin();
	ask("prepare", json_pack("{s:i}", "hold_ms", 300));
	ok(packet_bool(ask("freeze", NULL), "ok"), "ranks are frozen");
	fake_until(!fake_workers());
	is_int(fake_workers(), 0, "without an order they are let go within hold");
	m = ask("resume", NULL);
	ok(!packet_bool(m, "ok") && says(m, "hold"), "and resume is answered with that failure");
	fake_end();
}

static void ends_early(void)
{
	const json_t *m;

	fake_begin();
	fake_rank_ends(0, true);
	m = ask("prepare", NULL);
	is_int(packet_int(json_array_get(data_list(m, "exited"), 0), "status", 0), 256,
	       "a rank that had ended is carried by its status");
	is_int(data_int(m, "expected"), 2000, "and has no image");
	fake_rank_ends(1, true);
	m = ask("freeze", NULL);
	is_int((long long)json_array_size(data_list(m, "exited")), 2,
	       "so is a rank that ends before the freeze");
	ask("resume", NULL);
	m = ask("write", NULL);
	is_int((long long)json_array_size(data_list(m, "ranks")), 1,
	       "the write reports one manifest");
	fake_end();
}

static void ends_unseen(void)
{
	const json_t *m;

	fake_begin();
	fake_script(2, "freeze", FAKE_FAIL);
	ask("prepare", NULL);
	fake_rank_ends(2, false);
	fake_command("freeze", NULL);
	fake_run(0.2);
	ok(!fake_await_within("done", "freeze", 0.1),
	   "the status of a rank that is gone is awaited");
	fake_rank_ends(2, true);
	m = fake_await("done", "freeze");
	ok(packet_bool(m, "ok"), "and the rank is carried when it comes");
	fake_end();

	fake_begin();
	fake_script(2, "freeze", FAKE_FAIL);
	ask("prepare", NULL);
	fake_rank_ends(2, false);
	m = ask("freeze", NULL);
	ok(m && !packet_bool(m, "ok") && says(m, "rank 2 on n1"),
	   "no status comes: the checkpoint fails");
	fake_end();
}

static void ends_held(void)
{
	const json_t *m;

	fake_begin();
	ask("prepare", NULL);
	ask("freeze", NULL);
	fake_rank_ends(1, true);
	m = ask("resume", NULL);
	ok(!packet_bool(m, "ok") && says(m, "while it was held"),
	   "a rank that dies while it is held fails the checkpoint");
	fake_end();
}

static void held_for_the_write(void)
{
	fake_begin();
	ask("prepare", json_pack("{s:b, s:i, s:i}", "keep_held", 1, "hold_ms", 200, "timeout_ms",
		 3000));
	ask("freeze", NULL);
	fake_run(0.4);
	ok(transaction_held(fake_agent->transaction), "keep_held: hold does not end it");
	ok(packet_bool(ask("write", NULL), "ok"), "written");
	is_int(fake_world->held_writes, 3, "while held");
	ok(transaction_held(fake_agent->transaction), "the ranks are still held");
	fake_run(1.7);
	transaction_heard(fake_agent->transaction);
	fake_run(1.7);
	ok(transaction_held(fake_agent->transaction),
	   "a coordinator that was away for a short time finds them held");
	fake_command("hold", NULL);
	fake_run(1.7);
	ok(transaction_held(fake_agent->transaction), "its `hold` keeps them held");
	fake_until(!transaction_held(fake_agent->transaction));
	ok(!transaction_held(fake_agent->transaction), "a long silence lets the ranks go");
	ok(!packet_bool(ask("resume", NULL), "ok"), "and is the answer afterwards");
	fake_end();

	fake_begin();
	ask("prepare", json_pack("{s:b}", "keep_held", 1));
	ask("freeze", NULL);
	ask("write", NULL);
	ok(packet_bool(ask("resume", NULL), "ok"), "held, written, let go");
	fake_until(!fake_workers());
	is_int(fake_workers(), 0, "workers have left");
	fake_end();
}

static void written_one_by_one(const char *name)
{
	ask("prepare", NULL);
	ask("freeze", NULL);
	ask("resume", NULL);
	ok(packet_bool(ask("write", NULL), "ok"), "%s", name);
	is_int(fake_world->most_writing, 1, "one writer at a time");
	fake_end();
}

static void one_at_a_time(void)
{
	fake_begin();
	((struct step *)fake_agent->step)->options.cpus = 1;
	written_one_by_one("written with cpus=1");
}

/* An image of few bytes may have many chunks, whose tables need memory. */
static void large_tables(void)
{
	fake_begin();
	((struct step *)fake_agent->step)->options.cpus = FAKE_RANKS;
	fake_world->chunks = 1 << 20;
	written_one_by_one("written with tables that leave no memory for others");
}

/* All ranks are staged before any is uploaded: a rank's memory does not wait for the store. */
static void staged(void)
{
	const json_t *m;

	fake_begin();
	((struct step *)fake_agent->step)->options.cpus = 1;
	strcpy(((struct step *)fake_agent->step)->options.stage, "/nowhere");
	ask("prepare", NULL);
	ask("freeze", NULL);
	ask("resume", NULL);
	m = ask("write", NULL);
	ok(packet_bool(m, "ok"), "written through a stage");
	is_int((long long)json_array_size(data_list(m, "ranks")), 3, "three manifests");
	is_int(fake_world->most_writing, 1, "one writer at a time");
	is_int(fake_world->most_uploading, 1, "one upload at a time");
	is_int(data_int(m, "staged"), 21, "what was staged is added up");
	is_str(packet_text(json_object_get(m, "data"), "unstaged", ""), "the disk is full",
	       "and why not all bytes were");
	is_int(fake_world->kept_staged, 0, "the stage is left alone");
	ask("commit", json_pack("{s:{}}", "document"));
	is_int(fake_world->kept_staged, 0, "until the commit is made");
	fake_command("committed", json_pack("{s:[i,i]}", "keep", 6, 7));
	fake_until(fake_world->kept_staged);
	is_int(fake_world->kept_staged, 7, "then it is cleaned");
	fake_end();
}

static void out_of_turn(void)
{
	fake_begin();
	ask("prepare", NULL);
	ok(says(ask("write", NULL), "out of order"), "write without freeze is refused");
	fake_end();

	fake_begin();
	ok(says(ask("freeze", NULL), "not known"), "a command of an unknown checkpoint is refused");
	ok(packet_bool(ask("abort", NULL), "ok"), "its abort is granted");
	fake_end();
}

static void replaced(void)
{
	const json_t *m;

	fake_begin();
	ask("prepare", NULL);
	ask("freeze", NULL);
	m = ask("prepare", json_pack("{s:i}", "seq", 8));
	ok(packet_bool(m, "ok") && packet_int(m, "seq", 0) == 8,
	   "a new checkpoint takes the place of the old");
	ok(!transaction_held(fake_agent->transaction), "no rank is held any more");
	fake_until(fake_world->aborted == 3); /* the workers' own count */
	is_int(fake_world->aborted, 3, "the old workers were told to leave");
	fake_end();
}

static void surroundings(void)
{
	const json_t *m;

	fake_begin();
	fake_world->checks_fail = 1;
	ok(says(ask("prepare", NULL), "no permission"),
	   "a store that cannot be used fails prepare");
	fake_end();

	fake_begin();
	fake_world->space = 2000;
	fake_world->first = 1;
	ok(says(ask("prepare", NULL), "are free"),
	   "so does a store without space for the first checkpoint");
	fake_end();

	fake_begin();
	fake_world->memory = 2000;
	m = ask("prepare", NULL);
	ok(packet_bool(json_object_get(m, "data"), "needs_hold"),
	   "without memory for all copies, ranks are to be held");
	fake_end();

	for (unsigned areas = 512; areas <= 513; areas++) {
		fake_begin();
		fake_world->areas = areas;
		m = ask("prepare", NULL);
		ok(areas == 512 ? packet_bool(m, "ok") : says(m, "share 513 areas of memory"),
		   "%u areas that ranks share", areas);
		fake_end();
	}

	fake_begin();
	fake_agent->tasks.v[1]->link = NULL;
	((struct step *)fake_agent->step)->options.timeout_ms = 6000;
	ok(says(ask("prepare", NULL), "no link"), "a rank without a link fails prepare");
	fake_end();
}

int main(void)
{
	good();
	one_fails("prepare", FAKE_FAIL, "as scripted");
	one_fails("freeze", FAKE_FAIL, "as scripted");
	one_fails("freeze", FAKE_DIE, "killed by signal 9");
	one_fails("freeze", FAKE_HANG, "no answer within");
	one_fails("resume", FAKE_DIE, "killed by signal 9");
	one_fails("write", FAKE_FAIL, "as scripted");
	one_fails("write", FAKE_HANG, "no progress");
	one_fails("write", FAKE_STUCK, "no progress");
	refused_for_now();
	not_resumed();
	ends_early();
	ends_unseen();
	ends_held();
	held_for_the_write();
	one_at_a_time();
	large_tables();
	staged();
	out_of_turn();
	replaced();
	surroundings();
	return tap_done();
}
