/* SPDX-License-Identifier: Apache-2.0
 * A restart of one rank: one process empties it, builds the image in it and lets it go; another
 * sends it the data of its devices once it runs. */
#include "config.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/base/fault.h"
#include "common/wire/restart_code.h"
#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/base/task_stdio.h"
#include "coordinator/agent/worker/rank_image.h"
#include "coordinator/agent/worker/rank_memory.h"
#include "coordinator/agent/worker/report.h"
#include "shim/process/gpu/gpu.h"
#include "shim/process/process.h"
#include "storage/store/store.h"

struct restorer {
	const struct worker_task *task;
	struct report report;
	struct gck_store *store;
	struct rank_image found;
	struct gck_restore *restore; /* NULL: the process is not held yet */
	uint32_t seq;
	int32_t above;               /* the highest number in the image */
	int32_t apart;               /* the number that the rank needs, and does not have; 0: it is
				      * all right */
};

/* A process that was built from another image starts over with this one. */
static int take_image(struct restorer *r, const struct rank_image *f, struct gck_error *err)
{
	const struct step *s = r->task->step;

	if (!r->restore)
		r->restore = gck_restore_open(r->task->pid, s->link_name, err);
	return r->restore ? gck_restore_image(r->restore, f->manifest, f->reader, err) : -1;
}

/* Before anything is read: the restart's percent counts ranks that wait. */
static int tell_size(struct restorer *r, struct gck_error *err)
{
	if (!report_size(&r->report, gck_restore_bytes(r->restore)))
		return 0;
	return gck_fail(err, ECANCELED, "the restart was cancelled");
}

/* The data of its devices is read when the rank runs, and there is no way back then: check
 * before that it is complete. */
static int check_device(const struct restorer *r, const struct rank_image *f, struct gck_error *err)
{
	return gck_restore_device(r->restore) ? gck_store_check_rank(r->store, f->manifest, err) :
		0;
}

static json_t *question(const struct restorer *r, const char *ranks, uint32_t number)
{
	return json_pack("{s:s, s:s, s:I, s:o, s:I}", "op", "share", "phase", "build", "seq",
			 (json_int_t)r->seq, "ranks", packet_string(ranks), "number",
			 (json_int_t)number);
}

static json_t *question_of(const struct restorer *r, const struct gck_common *c)
{
	const struct gck_object *o = c->memory;
	json_t *q = o ? question(r, o->ranks, o->number)
		      : question(r, c->ipc->ranks, c->ipc->common);

	if (o)
		json_object_update_new(q, json_pack("{s:o, s:b, s:I, s:I}", "name",
				       packet_string(o->name), "path", o->has_path, "size",
				       (json_int_t)o->size, "seals", (json_int_t)o->seals));
	else
		json_object_set_new(q, "ipc", ipc_pack(c->ipc, c->boot));
	return q;
}

static int take_share(struct restorer *r, const struct gck_common *c, const json_t *answer, int fd,
		      struct gck_error *err)
{
	if (c->ipc)
		gck_ipc_give(c->ipc, (int32_t)packet_int(answer, "number", 0),
			     packet_bool(answer, "hidden"));
	return fd >= 0 && c->memory ? gck_restore_give_common(r->restore, c->memory, fd, err) : 0;
}

/* Asks the agent for what the rank shares with others; no answer means that they are not together,
 * or that another commit is built. */
static int share_one(struct restorer *r, const struct gck_common *c, struct gck_error *err)
{
	json_t *answer;
	bool given;
	int fd, rc = 0;

	if (packet_send(r->report.fd, question_of(r, c), err) < 0)
		return -1;
	answer = packet_take(r->report.fd, -1, &fd, err);
	if (!answer)
		return -1;
	given = !strcmp(packet_text(answer, "op", ""), "share");
	if (given)
		rc = take_share(r, c, answer, fd, err);
	if (fd >= 0)
		close(fd);
	if (given) {
		json_decref(answer);
		return rc;
	}
	r->report.next = answer;
	return gck_fail(err, ECANCELED, "the restart was cancelled");
}

static int share(struct restorer *r, struct gck_error *err)
{
	struct gck_common c;

	for (size_t i = 0; gck_restore_common(r->restore, i, &c); i++)
		if (share_one(r, &c, err) < 0)
			return -1;
	return 0;
}

/* Only a process that was not emptied can still go on in a namespace. */
static int check_number(struct restorer *r, const struct rank_image *f, struct gck_error *err)
{
	int32_t number = gck_image_number(f->manifest);

	r->apart = number && number != r->task->pid && !r->restore ? number : 0;
	r->above = gck_image_last_number(f->manifest);
	return r->apart ? gck_fail(err, EXDEV, "the rank's number must be %d", (int)number) : 0;
}

static int build_process(struct restorer *r, struct rank_image *f, struct gck_error *err)
{
	if (check_number(r, f, err) < 0 || take_image(r, f, err) < 0 || share(r, err) < 0 ||
	    tell_size(r, err) < 0 || check_device(r, f, err) < 0)
		return -1;
	rank_image_drop_manifest(f);
	gck_restore_asked(r->restore, f->asked);
	GCK_FAULT(GCK_FAULT_RESTORE_BUILD);
	if (gck_restore_build(r->restore, report_progress, &r->report, err) < 0)
		return -1;
	GCK_FAULT(GCK_FAULT_RESTORE_BUILT);
	return 0;
}

/* A store that fails says nothing about the commit, unlike a process that cannot be built. */
static void blame_store(const struct rank_image *f, struct gck_error *err)
{
	bool read = f->reader && !gck_reader_failed(f->reader);

	if (!read && gck_restart_blame(err->code) == GCK_BLAME_PROCESS)
		err->code = EREMOTEIO;
}

/* A step without any commit has no directory in its store. */
static void open_store(struct restorer *r, struct gck_error *err)
{
	r->store = rank_image_open_store(r->task, err);
	if (!r->store && err->code == ENOENT)
		rank_image_missing(r->task, NULL, r->seq, err);
}

static int build_commit(struct restorer *r, const char *hash, struct gck_error *err)
{
	struct rank_image f = { .exit = -1 };
	int rc;

	if (!r->store)
		open_store(r, err);
	rc = r->store ? rank_image_read(&f, r->store, r->task, r->seq, hash, err) : -1;
	if (rc == 0 && f.manifest)
		rc = build_process(r, &f, err);
	if (rc < 0)
		blame_store(&f, err);
	else if (f.exit >= 0 && r->restore)
		rc = gck_fail(err, ESTALE, "commit %u has only its exit status, but the process "
			      "was already emptied for a later commit", r->seq);
	/* The image reads from the old source until the new one has replaced it. */
	rank_image_drop(&r->found);
	r->found = f;
	return rc;
}

/* The numbers of its processes with CUDA, which must come back. */
static json_t *with_cuda(const struct gck_restore *r)
{
	json_t *numbers = json_array();
	int32_t one;

	for (size_t i = 0; r && (one = gck_restore_cuda(r, i)); i++)
		json_array_append_new(numbers, json_integer(one));
	return numbers;
}

/* Reports a failure, and waits for another commit to build. */
static void build(struct restorer *r, uint32_t seq, const char *hash)
{
	struct gck_error err = { 0 };

	r->seq = seq;
	r->apart = 0;
	if (build_commit(r, hash, &err) == 0)
		report_done(&r->report, "build", json_pack("{s:I, s:I, s:b, s:o}", "seq",
			    (json_int_t)seq, "exit", r->found.exit, "mpi",
			    r->restore && gck_restore_has_mpi(r->restore), "cuda",
			    with_cuda(r->restore)));
	else if (r->apart)
		report_done(&r->report, "apart", json_pack("{s:i, s:i}", "number", (int)r->apart,
			    "above", (int)r->above));
	else if (err.code != ECANCELED || !r->report.next)
		report_no_build(&r->report, seq, &err);
}

static void say_notes(const struct restorer *r)
{
	size_t n;
	char *const *notes = gck_restore_notes(r->restore, &n);

	for (size_t i = 0; i < n; i++)
		say_on(r->task->pid, gck_restore_stderr(r->restore), notes[i]);
}

/* A rank whose files failed is lost: they may be between two states. */
static int files(struct restorer *r)
{
	struct gck_error err = { 0 };

	GCK_FAULT(GCK_FAULT_RESTORE_FILES);
	if (r->restore && gck_restore_files(r->restore, &err) < 0) {
		report_failure(&r->report, "files", &err);
		return 1;
	}
	if (r->restore)
		say_notes(r);
	report_done(&r->report, "files", NULL);
	return -1;
}

static int reopen(struct restorer *r)
{
	struct gck_error err = { 0 };

	if (r->restore && gck_restore_reopen(r->restore, &err) < 0) {
		report_failure(&r->report, "reopen", &err);
		return 1;
	}
	report_done(&r->report, "reopen", NULL);
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
	if (!strcmp(op, "reopen"))
		return reopen(r);
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
	rank_image_drop(&r.found);
	if (r.store)
		gck_store_close(r.store);
	return rc;
}

/* ---- device data --------------------------------------------------------------------------- */

static int serve(const struct worker_task *t, struct rank_image *f, struct report *report,
		 struct gck_error *err)
{
	struct gck_image *img = gck_image_from_json(f->manifest, err);
	const struct gck_page_groups *data;
	struct gck_device_channel d;
	int rc;

	if (!img)
		return -1;
	rank_image_drop_manifest(f);
	data = gck_image_device(img, t->devices->pid);
	rc = data ? gck_device_channel_open(&d, t->devices->fds, err)
		  : gck_fail(err, EPROTO, "the image has no process %d", (int)t->devices->pid);
	if (rc == 0) {
		rc = gck_device_channel_serve(&d, data, f->reader, report_progress, report, err);
		gck_device_channel_close(&d);
	}
	gck_image_free(img);
	return rc;
}

/* The data was complete before the ranks were let go, so data that is missing now counts as
 * damaged. */
static int fill(const struct worker_task *t, struct report *report, struct gck_error *err)
{
	struct rank_image f = { .exit = -1 };
	struct gck_store *store = rank_image_open_store(t, err);
	int rc = store ? rank_image_read(&f, store, t, t->seq, t->hash, err) : -1;

	if (rc == 0)
		rc = f.manifest ? serve(t, &f, report, err)
				: gck_fail(err, EPROTO, "it had finished, and has no device data");
	rank_image_drop(&f);
	if (store)
		gck_store_close(store);
	if (rc < 0 && err->code == ENOENT)
		err->code = EBADMSG;
	return rc;
}

int device_restore_main(int fd, void *arg)
{
	const struct worker_task *t = arg;
	struct report report = { .fd = fd };
	struct gck_error err = { 0 };

	if (fill(t, &report, &err) == 0)
		return 0;
	report_failure(&report, "fill", &err);
	return 1;
}
