/* SPDX-License-Identifier: Apache-2.0
 * A restart of one rank: the process that empties it, builds the image in it and lets it go. */
#include <string.h>

#include "common/fault.h"
#include "coordinator/agent/packet.h"
#include "coordinator/agent/report.h"
#include "coordinator/agent/share.h"
#include "coordinator/agent/worker.h"
#include "shim/process/process.h"
#include "storage/store.h"

/* What a commit has of this rank; manifest is NULL if the rank had finished. */
struct found {
	json_t *manifest;
	struct gck_reader *reader;
	json_int_t exit;          /* wait status of a rank that had finished; -1: it had not */
	uint32_t asked;           /* gck_checkpoint_all()s that ranks were in */
};

struct restorer {
	const struct worker_task *task;
	struct report report;
	struct gck_store *store;
	struct found found;
	struct gck_restore *restore; /* NULL: the process is not held yet */
	uint32_t seq;
};

/* The status of a rank in a commit that carries no manifest of it. */
static json_int_t exit_status(const json_t *commit, uint32_t rank)
{
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(commit, "ranks"), i, one)
		if (packet_int(one, "rank", -1) == (json_int_t)rank)
			return packet_int(one, "exit", -1);
	return -1;
}

static int read_manifest(struct restorer *r, const char *hash, struct found *f,
			 struct gck_error *err)
{
	json_t *commit = gck_store_read_commit(r->store, r->seq, *hash ? hash : NULL, NULL, err);

	if (!commit)
		return -1;
	f->asked = (uint32_t)packet_int(commit, "asked", 0);
	f->manifest = gck_store_read_manifest(r->store, commit, r->task->rank, err);
	if (!f->manifest && err->code == ENODATA)
		f->exit = exit_status(commit, r->task->rank);
	json_decref(commit);
	return f->manifest || f->exit >= 0 ? 0 : -1;
}

static int open_store(struct restorer *r, struct gck_error *err)
{
	const struct step *s = r->task->step;
	struct share share = share_of_restorers(s);

	if (!r->store)
		r->store = gck_store_open(s->options.store, s->cluster, r->task->from_job,
					  r->task->from_step, false, err);
	if (r->store)
		gck_store_share(r->store, share.cpus, share.memory);
	return r->store ? 0 : -1;
}

static int fetch(struct restorer *r, const char *hash, struct found *f, struct gck_error *err)
{
	if (open_store(r, err) < 0 || read_manifest(r, hash, f, err) < 0)
		return -1;
	if (!f->manifest)
		return 0;
	f->reader = gck_reader_open(r->store, f->manifest, err);
	return f->reader ? 0 : -1;
}

static void drop(struct found *f)
{
	if (f->reader)
		gck_reader_close(f->reader);
	json_decref(f->manifest);
	*f = (struct found){ .exit = -1 };
}

/* A process that was built from another image starts over with this one. */
static int take_image(struct restorer *r, const struct found *f, struct gck_error *err)
{
	const struct step *s = r->task->step;

	if (!r->restore)
		r->restore = gck_restore_open(r->task->pid, s->link_name, err);
	return r->restore ? gck_restore_image(r->restore, f->manifest, f->reader, err) : -1;
}

static int build_process(struct restorer *r, const struct found *f, struct gck_error *err)
{
	if (take_image(r, f, err) < 0)
		return -1;
	gck_restore_asked(r->restore, f->asked);
	GCK_FAULT(GCK_FAULT_RESTORE_BUILD);
	if (gck_restore_build(r->restore, report_progress, &r->report, err) < 0)
		return -1;
	GCK_FAULT(GCK_FAULT_RESTORE_BUILT);
	return 0;
}

static int build_commit(struct restorer *r, const char *hash, struct gck_error *err)
{
	struct found f = { .exit = -1 };
	int rc = fetch(r, hash, &f, err);

	if (rc == 0 && f.manifest)
		rc = build_process(r, &f, err);
	else if (rc == 0 && r->restore)
		rc = gck_fail(err, ESTALE, "commit %u has only its exit status, but the process "
			      "was already emptied for a later commit", r->seq);
	/* What the image in hand reads from stays until another one has taken its place. */
	drop(&r->found);
	r->found = f;
	return rc;
}

/* A build that fails is reported, and the restorer waits for what comes instead. */
static void build(struct restorer *r, uint32_t seq, const char *hash)
{
	struct gck_error err = { 0 };

	r->seq = seq;
	if (build_commit(r, hash, &err) == 0)
		report_done(&r->report, "build", json_pack("{s:I, s:I, s:b, s:b}", "seq",
			    (json_int_t)seq, "exit", r->found.exit, "mpi",
			    r->restore && gck_restore_has_mpi(r->restore), "cuda",
			    r->restore && gck_restore_has_cuda(r->restore)));
	else if (err.code != ECANCELED || !r->report.next)
		report_no_build(&r->report, seq, &err);
}

/* After a failure the rank is not to be had any more: files may be between two states. */
static int files(struct restorer *r)
{
	struct gck_error err = { 0 };

	GCK_FAULT(GCK_FAULT_RESTORE_FILES);
	if (r->restore && gck_restore_files(r->restore, &err) < 0) {
		report_failure(&r->report, "files", &err);
		return 1;
	}
	report_done(&r->report, "files", NULL);
	return -1;
}

static int run(struct restorer *r)
{
	struct gck_error err = { 0 };

	GCK_FAULT(GCK_FAULT_RESTORE_RUN);
	if (r->restore && gck_restore_run(r->restore, &err) < 0) {
		report_failure(&r->report, "run", &err);
		return 1;
	}
	report_done(&r->report, "run", NULL);
	return 0;
}

/* -1: go on; else the exit status. */
static int obey(struct restorer *r, const json_t *body)
{
	const char *op = body ? packet_text(body, "op", "") : "abort";

	if (!strcmp(op, "files"))
		return files(r);
	if (!strcmp(op, "run"))
		return run(r);
	if (strcmp(op, "build"))
		return 1;
	build(r, (uint32_t)packet_int(body, "seq", 0), packet_text(body, "hash", ""));
	return -1;
}

int restorer_main(int fd, void *arg)
{
	const struct worker_task *t = arg;
	struct restorer r = { .task = t, .report = { .fd = fd },
			      .found = { .exit = -1 } };
	struct gck_error err;
	json_t *body;
	int rc = -1;

	build(&r, t->seq, t->hash);
	while (rc < 0) {
		body = report_next_held(&r.report, t->pid, -1, &err);
		rc = obey(&r, body);
		json_decref(body);
	}
	gck_restore_close(r.restore);
	drop(&r.found);
	if (r.store)
		gck_store_close(r.store);
	return rc;
}
