/* SPDX-License-Identifier: Apache-2.0
 * How the agents of the fake world act on what they are told, and the checks they make: a rank is
 * never let go or cut back before all are ready for it, nor beside one of a former start; a commit
 * has images of one checkpoint; a number is never given twice; a commit is never lost, and good
 * work never started over. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/encoding.h"
#include "coordinator/core/test/fake_agent.h"
#include "storage/base/hash.h"

static void note_refusal(struct gck_agent *a, const char *phase, uint32_t seq)
{
	if (!strcmp(phase, "build") || !strcmp(phase, "run"))
		fake_refuses(a->world, a->step, seq);
}

static void done(struct gck_agent *a, const char *phase, uint32_t seq, bool ok, json_t *data)
{
	json_t *body = json_pack("{s:s, s:s, s:i, s:b, s:o}", "op", "done", "phase", phase, "seq",
				 (int)seq, "ok", ok, "data", data ? data : json_object());

	if (!ok)
		json_object_set_new(body, "error", json_string("it failed"));
	if (!ok)
		note_refusal(a, phase, seq);
	fake_say(a, body);
}

static void failed(struct gck_agent *a, const char *phase, uint32_t seq, int code)
{
	note_refusal(a, phase, seq);
	fake_say(a, json_pack("{s:s, s:s, s:i, s:b, s:s, s:i}", "op", "done", "phase", phase, "seq",
			      (int)seq, "ok", 0, "error", "it failed", "code", code));
}

static bool others_are(const struct fake *f, const struct gck_agent *a, uint32_t seq,
		       bool (*test)(const struct gck_agent *a, uint32_t seq))
{
	for (unsigned n = 0; n < NODES; n++)
		if (f->agents[a->step][n].state != F_OVER && !test(&f->agents[a->step][n], seq))
			return false;
	return true;
}

static bool was_frozen(const struct gck_agent *a, uint32_t seq)
{
	return a->seq != seq || a->frozen; /* another number: it gave up by itself */
}

static bool is_built(const struct gck_agent *a, uint32_t seq)
{
	return a->state == F_RUNNING || a->anew || a->built == seq;
}

static bool is_filed(const struct gck_agent *a, uint32_t seq)
{
	return a->state == F_RUNNING || a->anew || a->filed == seq;
}

static bool runs_from(const struct gck_agent *a, uint32_t seq)
{
	return a->state != F_RUNNING || a->from == seq;
}

/* The hash of a rank's manifest tells the checkpoint by its nonce. */
static void name_image(char text[GCK_HASH_TEXT], const char *nonce, unsigned rank)
{
	snprintf(text, GCK_HASH_TEXT, "%.24s%08x", nonce + 8, rank);
}

static json_t *images(const struct fake *f, const struct gck_agent *a)
{
	json_t *ranks = json_array();
	char text[GCK_HASH_TEXT];

	for (unsigned i = 0; i < TASKS; i++) {
		if (!fake_has_rank(a, i) || a->exits[i] != GCK_NO_EXIT)
			continue;
		name_image(text, a->nonce, i);
		json_array_append_new(ranks,
				      json_pack("{s:i, s:s}", "rank", (int)i, "manifest", text));
	}
	return json_pack("{s:o, s:i, s:i, s:O, s:f}", "ranks", ranks, "put", 1, "stored", 3,
			 "common", f->common, "seconds", 1.0);
}

static void check_document(struct fake *f, const struct gck_agent *a, const json_t *document,
			   uint32_t seq)
{
	const char *nonce = json_string_value(json_object_get(document, "nonce"));
	json_t *ranks = json_object_get(document, "ranks"), *one;
	char text[GCK_HASH_TEXT];
	size_t i;

	if (json_array_size(ranks) != TASKS)
		fake_wrong(f, "a commit with %zu ranks", json_array_size(ranks));
	json_array_foreach(ranks, i, one) {
		const char *hash = json_string_value(json_object_get(one, "manifest"));

		name_image(text, nonce, (unsigned)i);
		if (!hash && !json_is_integer(json_object_get(one, "exit")))
			fake_wrong(f, "step %u: commit %u lacks rank %zu", a->step, seq, i);
		if (hash && strcmp(hash, text) != 0)
			fake_wrong(f, "step %u: commit %u has another image of rank %zu", a->step,
				   seq, i);
	}
}

static void write_commit(struct fake *f, struct gck_agent *a, const json_t *body, uint32_t seq)
{
	const json_t *document = json_object_get(body, "document");
	char name[16], hash[GCK_HASH_TEXT];

	check_document(f, a, document, seq);
	snprintf(name, sizeof name, "%u", seq);
	snprintf(hash, sizeof hash, "%016x%08x%08x", seq,
		 (unsigned)json_integer_value(json_object_get(document, "from")), a->restarts);
	json_object_set_new(f->store[a->step], name, json_string(hash));
	done(a, "commit", seq, true, json_pack("{s:s}", "hash", hash));
}

static void check_number(struct fake *f, struct gck_agent *a, uint32_t seq, const char *nonce)
{
	if (seq < a->prepared || (seq == a->prepared && strcmp(nonce, a->nonce) != 0))
		fake_wrong(f, "step %u: checkpoint %u after %u", a->step, seq, a->prepared);
	a->prepared = seq;
	snprintf(a->nonce, sizeof a->nonce, "%s", nonce);
}

/* Of this incarnation's line: what it was restored from, or a commit of its own. */
static void check_base(struct fake *f, const struct gck_agent *a, const json_t *body)
{
	uint32_t base = (uint32_t)json_integer_value(json_object_get(body, "base"));
	const char *hash = json_string_value(json_object_get(body, "base_hash"));
	char name[16];
	const char *there;

	snprintf(name, sizeof name, "%u", base);
	there = json_string_value(json_object_get(f->store[a->step], name));
	if (!base)
		return;
	if (!there || strcmp(hash, there) != 0)
		fake_wrong(f, "step %u: no commit %u for a base", a->step, base);
	else if (!f->forgot && base != a->from && strtoul(there + 24, NULL, 16) != a->restarts)
		fake_wrong(f, "step %u: the base %u is of another line", a->step, base);
}

static void on_prepare(struct fake *f, struct gck_agent *a, const json_t *body, uint32_t seq)
{
	if (a->state != F_RUNNING) {
		done(a, "prepare", seq, false, NULL);
		return;
	}
	check_number(f, a, seq, json_string_value(json_object_get(body, "nonce")));
	check_base(f, a, body);
	fake_lets_go(a);
	a->seq = seq;
	a->keep_held = json_is_true(json_object_get(body, "keep_held"));
	if (a->passing) {
		a->passing--;
		failed(a, "prepare", seq, EAGAIN);
		return;
	}
	if (a->no_prepare) {
		failed(a, "prepare", seq, a->no_prepare);
		return;
	}
	done(a, "prepare", seq, true, json_pack("{s:o, s:b, s:i, s:i, s:b}", "exited",
						fake_exited(a), "needs_hold", a->needs_hold,
						"hold_ms", a->hold_ms, "mpi", a->mpi, "pmix",
						a->node % 2));
}

/* ---- MPI's rounds --------------------------------------------------------------------------- */

#define ROUNDS 3
#define WORDS 100 /* bytes: no multiple of three */

/* The words of a node and round, in pieces. */
static void ready(struct gck_agent *a)
{
	unsigned char words[WORDS];

	memset(words, (int)(a->node + 10 * a->round), sizeof words);
	for (size_t at = 0, n; at < WORDS; at += n) {
		char *text;

		n = WORDS - at < 60 ? WORDS - at : 60;
		text = gck_base64_text(words + at, n);
		fake_say(a, json_pack("{s:s, s:i, s:i, s:i, s:i, s:s}", "op", "ready", "seq",
				      (int)a->seq, "round", (int)a->round, "at", (int)at, "total",
				      WORDS, "data", text));
		free(text);
	}
}

static void on_quiesce(struct fake *f, struct gck_agent *a, const json_t *body, uint32_t seq)
{
	(void)f;
	(void)body;
	if (a->seq != seq) {
		done(a, "quiesce", seq, false, NULL);
		return;
	}
	if (a->mpi && a->pmix_fails) {
		a->pmix_fails--;
		failed(a, "quiesce", seq, EAGAIN);
		return;
	}
	a->quiesced = !a->mpi;
	a->round = a->mpi;
	if (a->mpi)
		ready(a);
	else
		done(a, "quiesce", seq, true, json_pack("{s:o}", "exited", fake_exited(a)));
}

/* Of those that are at the same checkpoint. */
static bool all_wait(const struct fake *f, const struct gck_agent *a)
{
	for (unsigned n = 0; n < NODES; n++) {
		const struct gck_agent *other = &f->agents[a->step][n];

		if (other->mpi && other->seq == a->seq && other->round < a->round)
			return false;
	}
	return true;
}

static void on_go(struct fake *f, struct gck_agent *a, const json_t *body, uint32_t seq)
{
	uint32_t round = (uint32_t)json_integer_value(json_object_get(body, "round"));
	const char *text = json_string_value(json_object_get(body, "data"));
	unsigned char bytes[NODES * WORDS + 3];
	long n = strlen(text) > 4 * sizeof bytes / 3 ? -1 :
			      gck_base64_bytes(text, strlen(text), bytes);

	if (a->seq != seq || a->round != round)
		return;
	if (n <= 0 || n % WORDS || !memchr(bytes, (int)(a->node + 10 * round), (size_t)n))
		fake_wrong(f, "step %u: the words of round %u are not all there", a->step, round);
	if (!all_wait(f, a))
		fake_wrong(f, "step %u: round %u began before all were ready", a->step, round);
	a->rounds++;
	a->quiesced = a->round == ROUNDS;
	if (!a->quiesced) {
		a->round++;
		ready(a);
	} else {
		done(a, "quiesce", seq, true, json_pack("{s:o}", "exited", fake_exited(a)));
	}
}

static bool is_quiesced(const struct gck_agent *a, uint32_t seq)
{
	return a->quiesced || a->seq != seq || !a->mpi;
}

static void on_freeze(struct fake *f, struct gck_agent *a, const json_t *body, uint32_t seq)
{
	if (a->seq != seq) {
		done(a, "freeze", seq, false, NULL);
		return;
	}
	a->held_write = json_is_true(json_object_get(body, "held"));
	a->may_hold_ms = (int)json_integer_value(json_object_get(body, "hold_ms"));
	if (!is_quiesced(a, seq) || !others_are(f, a, seq, is_quiesced))
		fake_wrong(f, "step %u: a freeze before MPI is at rest", a->step);
	a->frozen = a->held = true;
	done(a, "freeze", seq, true,
	     json_pack("{s:o, s:i, s:i, s:i}", "exited", fake_exited(a), "first_ns", 5000000,
		       "gpu_first_ns", 3000000, "asked", (int)a->asks_all));
}

static void on_resume(struct fake *f, struct gck_agent *a, const json_t *body, uint32_t seq)
{
	(void)body;
	if (a->seq != seq) {
		done(a, "resume", seq, false, NULL);
		return;
	}
	if (!others_are(f, a, seq, was_frozen))
		fake_wrong(f, "step %u: ranks go on before all are stopped", a->step);
	a->held = false;
	if (a->keep_held)
		fake_lets_go(a);
	done(a, "resume", seq, true,
	     json_pack("{s:i, s:i, s:i}", "first_ns", 6000000, "last_ns", 9000000, "gpu_last_ns",
		       12000000));
}

/* Slurm's signals may come later. */
static void on_hold(struct fake *f, struct gck_agent *a, const json_t *body, uint32_t seq)
{
	bool requeued = json_is_true(json_object_get(body, "requeued"));
	bool newest = a->restarts == f->restarts;

	if (a->seq != seq)
		return;
	a->leaves |= json_is_true(json_object_get(body, "requeue"));
	if (requeued && newest && !f->taken)
		fake_wrong(f, "step %u: its job is not requeued", a->step);
	if (requeued && newest && a->node != SCRIPT_NODE &&
	    f->agents[a->step][SCRIPT_NODE].state != F_OVER)
		fake_wrong(f, "step %u: its script may go on", a->step);
	if (requeued && a->held && !(f->faults && f->random(f, 2)))
		fake_all_end(f, a, SIGKILL);
}

static void on_write(struct fake *f, struct gck_agent *a, const json_t *body, uint32_t seq)
{
	(void)body;
	if (a->seq == seq && a->held && !a->held_write)
		fake_wrong(f, "step %u: a write while held, which the freeze had not said",
			   a->step);
	a->written = a->seq == seq;
	a->keep_held = a->written && a->held;
	done(a, "write", seq, a->seq == seq, a->seq == seq ? images(f, a) : NULL);
}

static void on_commit(struct fake *f, struct gck_agent *a, const json_t *body, uint32_t seq)
{
	if (a->seq == seq && a->written)
		write_commit(f, a, body, seq);
	else
		done(a, "commit", seq, false, NULL);
}

static void on_committed(struct fake *f, struct gck_agent *a, const json_t *body, uint32_t seq)
{
	a->committed_all = (uint32_t)json_integer_value(json_object_get(body, "asked"));
	f->committed[a->step] = true;
	if (a->seq == seq && !a->held)
		fake_lets_go(a);
}

static void on_abort(struct fake *f, struct gck_agent *a, const json_t *body, uint32_t seq)
{
	(void)f;
	(void)body;
	if (a->seq == seq)
		fake_lets_go(a);
	done(a, "abort", seq, true, NULL);
}

static void on_build(struct fake *f, struct gck_agent *a, const json_t *body, uint32_t seq)
{
	(void)body;
	if (a->state == F_RUNNING)
		return;
	if (a->filed && a->filed != seq && !f->forgot)
		fake_wrong(f, "step %u: commit %u is built over files of commit %u", a->step, seq,
			   a->filed);
	if (a->anew || (a->filed && a->filed != seq)) {
		failed(a, "build", seq, EBUSY);
		return;
	}
	a->offered = seq;
	a->state = F_RESTORING;
	a->built = f->damaged[a->step] == seq && !a->filed ? 0 : seq;
	if (!a->built)
		failed(a, "build", seq, EBADMSG);
	else if (a->no_build)
		failed(a, "build", seq, a->no_build);
	else
		done(a, "build", seq, true, NULL);
}

static void on_fallback(struct fake *f, struct gck_agent *a, const json_t *body, uint32_t seq)
{
	if (seq)
		on_build(f, a, body, seq);
	else if (a->state != F_RUNNING)
		fake_all_end(f, a, 1 << 8);
}

static void on_files(struct fake *f, struct gck_agent *a, const json_t *body, uint32_t seq)
{
	(void)body;
	if (a->anew && a->state != F_RUNNING) {
		failed(a, "files", seq, EPROTO);
		return;
	}
	if (a->state != F_RUNNING && a->built != seq)
		fake_wrong(f, "step %u: files are cut back for commit %u, which was not built",
			   a->step, seq);
	if (!others_are(f, a, seq, is_built))
		fake_wrong(f, "step %u: files are cut back before all were built", a->step);
	a->filed = seq;
	done(a, "files", seq, true, NULL);
}

/* No rank of a former start may run beside those that are let go. */
static void check_alone(struct fake *f, const struct gck_agent *a)
{
	for (unsigned s = 0; s < STEPS; s++)
		for (unsigned n = 0; n < NODES; n++)
			if (fake_still_runs(&f->remnants[s][n]))
				fake_wrong(f, "step %u runs at start %u, and step %u still at "
					   "start %u, on node %u", a->step, a->restarts, s,
					   f->remnants[s][n].restarts, n);
}

/* The promised commit, or one that was written and nobody was told of. */
static void check_kept(struct fake *f, const struct gck_agent *a, uint32_t seq)
{
	uint32_t *promised = &f->promised[a->step];

	if (seq < *promised && f->refused[a->step] < *promised && !strstr(f->options, "restart="))
		fake_wrong(f, "step %u runs from commit %u: commit %u is lost", a->step, seq,
			   *promised);
	*promised = seq;
}

static void on_run(struct fake *f, struct gck_agent *a, const json_t *body, uint32_t seq)
{
	(void)body;
	if (a->anew && a->state != F_RUNNING) {
		failed(a, "run", seq, EPROTO);
		return;
	}
	if (a->state != F_RUNNING && a->built != seq)
		fake_wrong(f, "step %u: commit %u is to run and was not built", a->step, seq);
	if (!others_are(f, a, seq, is_filed))
		fake_wrong(f, "step %u: commit %u runs before all files were cut back", a->step,
			   seq);
	if (!others_are(f, a, seq, runs_from))
		fake_wrong(f, "step %u: ranks run from commit %u and others from another", a->step,
			   seq);
	if (a->no_run) {
		failed(a, "run", seq, a->no_run);
		return;
	}
	check_alone(f, a);
	if (a->state != F_RUNNING)
		check_kept(f, a, seq);
	a->state = F_RUNNING;
	a->from = seq;
	done(a, "run", seq, true, NULL);
}

static void on_terminate(struct fake *f, struct gck_agent *a, const json_t *body, uint32_t seq)
{
	(void)body;
	(void)seq;
	fake_all_end(f, a, SIGTERM);
}

static void on_welcome(struct fake *f, struct gck_agent *a, const json_t *body, uint32_t seq)
{
	const char *action = json_string_value(json_object_get(body, "action"));
	uint32_t epoch = (uint32_t)json_integer_value(json_object_get(body, "epoch"));

	if (epoch < a->epoch) {
		fake_disconnect(f, a);
		return;
	}
	a->epoch = epoch;
	a->obeyed_ms = fake_boot_ms();
	a->restarts = (uint32_t)json_integer_value(json_object_get(body, "restarts"));
	a->welcomed = true;
	if (!strcmp(action, "cold") && a->state == F_NEW) {
		if (a->restarts > 0 && f->committed[a->step])
			fake_wrong(f, "step %u: a cold start over good work", a->step);
		check_alone(f, a);
		a->state = F_RUNNING;
	} else if (!strcmp(action, "restore")) {
		a->offered = seq;
	} else if (!strcmp(action, "refuse") || !strcmp(action, "finished")) {
		if (a->state != F_RUNNING)
			fake_all_end(f, a, 0);
	}
}

static void on_asked(struct fake *f, struct gck_agent *a, const json_t *body, uint32_t seq)
{
	(void)f;
	(void)seq;
	json_decref(a->asked);
	a->asked = json_deep_copy(body);
}

static void on_sweep(struct fake *f, struct gck_agent *a, const json_t *body, uint32_t seq)
{
	json_t *steps = json_object_get(body, "steps");

	(void)seq;
	f->sweeps++;
	f->orders = (unsigned)json_array_size(steps);
	fake_say(a, json_pack("{s:s, s:O}", "op", "swept", "steps", steps));
}

static void on_say(struct fake *f, struct gck_agent *a, const json_t *body, uint32_t seq)
{
	(void)seq;
	if (!a->welcomed)
		return; /* an agent takes no message before its welcome */
	f->lines++;
	snprintf(f->said, sizeof f->said, "%s",
		 json_string_value(json_object_get(body, "text")));
}

static const struct {
	const char *op;
	void (*act)(struct fake *f, struct gck_agent *a, const json_t *body, uint32_t seq);
} reactions[] = {
	{"welcome", on_welcome}, {"prepare", on_prepare},     {"freeze", on_freeze},
	{"quiesce", on_quiesce}, {"go", on_go},               {"hold", on_hold},
	{"resume", on_resume},   {"write", on_write},         {"commit", on_commit},
	{"abort", on_abort},     {"committed", on_committed}, {"build", on_build},
	{"files", on_files},     {"run", on_run},             {"fallback", on_fallback},
	{"terminate", on_terminate}, {"asked", on_asked},      {"sweep", on_sweep},
	{"say", on_say},
};

/* What a message asks, for an agent that does not do it. */
static void fails(struct gck_agent *a, const char *op, uint32_t seq)
{
	if (!strcmp(op, "prepare") || !strcmp(op, "freeze") || !strcmp(op, "write") ||
	    !strcmp(op, "quiesce") || !strcmp(op, "commit") || !strcmp(op, "build") ||
	    !strcmp(op, "files"))
		done(a, op, seq, false, NULL);
}

bool fake_agent_takes(struct fake *f, struct gck_agent *a)
{
	json_t *body = fake_pop(&a->in);
	const char *op;
	uint32_t seq;

	if (!body)
		return false;
	op = json_string_value(json_object_get(body, "op"));
	seq = (uint32_t)json_integer_value(json_object_get(body, "seq"));
	if (!a->welcomed && strcmp(op, "welcome")) {
		fake_disconnect(f, a);
		json_decref(body);
		return true;
	}
	if (strcmp(op, "run") && strcmp(op, "abort") && strcmp(op, "welcome") &&
	    strcmp(op, "terminate") && strcmp(op, "fallback") && strcmp(op, "committed") &&
	    strcmp(op, "say") &&
	    (int)f->random(f, 100) < f->faults) {
		/* Agents let go by themselves, after a failure or in time. */
		if (!strcmp(op, "resume") && a->seq == seq)
			a->held = a->keep_held = false;
		if (f->random(f, 2))
			fails(a, op, seq);
	} else {
		for (size_t i = 0; i < sizeof reactions / sizeof *reactions; i++)
			if (!strcmp(reactions[i].op, op))
				reactions[i].act(f, a, body, seq);
	}
	json_decref(body);
	return true;
}
