/* SPDX-License-Identifier: Apache-2.0
 * A checkpoint of one rank: the process that traces it, reads its clone and writes its image. */
#include "coordinator/agent/worker.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "common/fault.h"
#include "coordinator/agent/packet.h"
#include "coordinator/agent/report.h"
#include "coordinator/agent/share.h"
#include "shim/process/process.h"
#include "storage/store.h"

#define WRITER_NICE 10

struct worker {
	const struct worker_task *task;
	struct gck_capture *capture;
	struct report report;
	bool held, settled, written;
};

static json_t *extra_members(const struct worker_task *t)
{
	const struct step *s = t->step;

	return json_pack("{s:I, s:I, s:I, s:I, s:o, s:I, s:o}", "rank", (json_int_t)t->rank, "job",
			 (json_int_t)s->job, "step", (json_int_t)s->step, "seq", (json_int_t)t->seq,
			 "node", packet_string(s->node), "time", (json_int_t)time(NULL), "program",
			 packet_string(s->argv[0]));
}

/* The commit that the image builds on. A coordinator that names none leaves it to the store. */
static uint32_t base_of(const struct worker_task *t, struct gck_store *store)
{
	uint32_t *seqs = NULL, newest = 0;
	size_t n = 0;

	if (t->base_named)
		return t->base;
	if (gck_store_list(store, &seqs, &n, NULL) == 0 && n)
		newest = seqs[n - 1];
	free(seqs);
	return newest;
}

/* The rank's manifest there: chunks that it has are not written again. Without a readable one
 * everything is written. */
static json_t *previous_manifest(const struct worker_task *t, struct gck_store *store)
{
	uint32_t base = base_of(t, store);
	json_t *commit, *manifest;

	if (!base)
		return NULL;
	commit = gck_store_read_commit(store, base, *t->hash ? t->hash : NULL, NULL, NULL);
	if (!commit)
		return NULL;
	manifest = gck_store_read_manifest(store, commit, t->rank, NULL);
	json_decref(commit);
	return manifest;
}

static int write_image(struct worker *w, struct gck_writer *writer, struct gck_error *err)
{
	json_t *extra = extra_members(w->task);
	char hash[GCK_HASH_TEXT];
	uint64_t put, stored;
	int rc;

	rc = gck_capture_write(w->capture, writer, w->task->rank, extra, report_progress,
			       &w->report, hash, err);
	json_decref(extra);
	if (rc < 0)
		return -1;
	gck_writer_totals(writer, &put, &stored);
	report_done(&w->report, "write", json_pack("{s:s, s:I, s:I}", "manifest", hash, "put",
		    (json_int_t)put, "stored", (json_int_t)stored));
	return 0;
}

static int write_into(struct worker *w, struct gck_store *store, struct gck_error *err)
{
	json_t *previous = previous_manifest(w->task, store);
	struct gck_writer *writer = gck_writer_open(store, w->task->seq, w->task->nonce,
						    &w->task->step->options, previous, err);
	int rc;

	json_decref(previous);
	if (!writer)
		return -1;
	GCK_FAULT(GCK_FAULT_WORKER_WRITE);
	rc = write_image(w, writer, err);
	gck_writer_close(writer);
	return rc;
}

/* All ranks of the step are held now: what they have in common outside can be compared with what
 * was taken of it while some of them still ran. */
static int settle(struct worker *w, struct gck_error *err)
{
	if (!w->held || w->settled)
		return 0;
	w->settled = true;
	return gck_capture_settle(w->capture, err);
}

/* Beside a running rank the writer gives way; while the rank is held for it, it must not. */
static int phase_write(struct worker *w, const json_t *body, struct gck_error *err)
{
	const struct step *s = w->task->step;
	struct share share = share_of_writers(s);
	struct gck_store *store;
	int rc;

	if (!packet_bool(body, "held"))
		setpriority(PRIO_PROCESS, 0, WRITER_NICE);
	if (settle(w, err) < 0)
		return -1;
	store = gck_store_open(s->options.store, s->cluster, s->job, s->step, true, err);
	if (!store)
		return -1;
	gck_store_share(store, share.cpus, share.memory);
	rc = write_into(w, store, err);
	gck_store_close(store);
	w->written = rc == 0;
	return rc;
}

static int phase_freeze(struct worker *w, const json_t *body, struct gck_error *err)
{
	uint32_t asked[GCK_ASKERS];
	int64_t first, last;

	(void)body;
	w->held = true;
	if (gck_capture_freeze(w->capture, err) < 0)
		return -1;
	GCK_FAULT(GCK_FAULT_WORKER_FROZEN);
	if (gck_capture_quiesced(w->capture, w->task->seq, err) < 0 ||
	    gck_capture_take(w->capture, err) < 0)
		return -1;
	GCK_FAULT(GCK_FAULT_WORKER_TAKEN);
	gck_capture_held(w->capture, &first, &last);
	gck_capture_asked(w->capture, asked);
	report_done(&w->report, "freeze", json_pack("{s:I, s:I, s:I}", "first_ns",
		    (json_int_t)first, "asked_one", (json_int_t)asked[GCK_ASKER_ONE],
		    "asked_all", (json_int_t)asked[GCK_ASKER_ALL]));
	return 0;
}

static int phase_resume(struct worker *w, const json_t *body, struct gck_error *err)
{
	int rc = settle(w, err);
	int64_t first, last;

	(void)body;
	gck_capture_resume(w->capture);
	w->held = false;
	if (rc < 0)
		return -1;
	GCK_FAULT(GCK_FAULT_WORKER_RESUMED);
	gck_capture_held(w->capture, &first, &last);
	report_done(&w->report, "resume", json_pack("{s:I, s:I}", "first_ns", (json_int_t)first,
		    "last_ns", (json_int_t)last));
	return 0;
}

static const struct {
	const char *op;
	int (*act)(struct worker *w, const json_t *body, struct gck_error *err);
} phases[] = {
	{ "freeze", phase_freeze },
	{ "resume", phase_resume },
	{ "write", phase_write },
};

/* 1: go on; 0: leave, all is well; -1: failed, and reported. */
static int obey(struct worker *w, const json_t *body)
{
	const char *op = packet_text(body, "op", "");
	struct gck_error err = { 0 };

	for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
		if (strcmp(op, phases[i].op))
			continue;
		if (phases[i].act(w, body, &err) < 0) {
			if (err.code == ECANCELED && w->report.next)
				return 1; /* called off: what did it comes next */
			report_failure(&w->report, op, &err);
			return -1;
		}
		return w->held || !w->written;
	}
	return !strcmp(op, "hold");
}

/* Silence is an agent that hangs, which the rank must not pay for; a closed socket is one that
 * died. Whoever leaves here lets the rank go. */
static int serve(struct worker *w)
{
	struct gck_error err;
	int rc = 1;

	while (rc > 0) {
		json_t *body = w->held ? report_next_held(&w->report, w->task->pid,
							  (int)w->task->backstop_ms, &err)
				       : report_next(&w->report, -1, &err);

		rc = body ? obey(w, body) : -1;
		json_decref(body);
	}
	return rc;
}

int worker_main(int fd, void *arg)
{
	struct worker w = { .task = arg, .report = { .fd = fd } };
	const struct worker_task *t = arg;
	struct gck_error err = { 0 };
	int rc;

	w.capture = gck_capture_open(t->pid, t->link, &t->hello, &t->step->options, &err);
	if (!w.capture) {
		report_failure(&w.report, "prepare", &err);
		return 1;
	}
	report_done(&w.report, "prepare", json_pack("{s:I, s:I, s:b, s:b}", "expected",
		    (json_int_t)gck_capture_expected(w.capture), "device",
		    (json_int_t)gck_capture_device(w.capture), "mpi",
		    gck_capture_has_mpi(w.capture), "cuda", gck_capture_has_cuda(w.capture)));
	rc = serve(&w);
	gck_capture_close(w.capture);
	return rc < 0;
}
