/* SPDX-License-Identifier: Apache-2.0
 * A checkpoint of one rank: the process that traces it, reads its clone and writes its image. */
#include "coordinator/agent/worker/worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "common/base/fault.h"
#include "common/base/encoding.h"
#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/base/resources.h"
#include "coordinator/agent/worker/rank_image.h"
#include "coordinator/agent/worker/rank_memory.h"
#include "coordinator/agent/worker/report.h"
#include "shim/process/gpu/gpu.h"
#include "shim/process/process.h"
#include "storage/image/image.h"
#include "storage/s3/signer.h"
#include "storage/stage/stage.h"
#include "storage/store/store.h"

#define WRITER_NICE 10
#define COPIED_PER_MS (UINT64_C(1) << 20) /* of hold= */

struct worker {
	const struct worker_task *task;
	struct gck_capture *capture;
	struct gck_store *store;   /* while it writes */
	struct gck_writer *writer;
	struct report report;
	struct node_share share;   /* while it writes */
	int64_t free_ns;           /* CLOCK_REALTIME when the clone was freed */
	bool held, settled, written;
};

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static json_t *extra_members(const struct worker_task *t)
{
	const struct step *s = t->step;

	return json_pack("{s:I, s:I, s:I, s:I, s:o, s:I, s:o}", "rank", (json_int_t)t->rank, "job",
			 (json_int_t)s->job, "step", (json_int_t)s->step, "seq", (json_int_t)t->seq,
			 "node", packet_string(s->node), "time", (json_int_t)time(NULL), "program",
			 packet_string(s->argv[0]));
}

/* Without a stage the image goes directly to the store: no error. */
static void use_stage(struct worker *w, struct gck_error *why)
{
	const struct step *s = w->task->step;
	struct gck_store *stage;

	stage = gck_stage_open(s->options.stage, s->cluster, s->job, s->step, true, why);
	if (stage && gck_store_stage(w->store, stage, why) == 0)
		gck_store_on_progress(w->store, report_upload, &w->report);
}

/* no_stage: why there is none. */
static int open_store(struct worker *w, struct gck_error *no_stage, struct gck_error *err)
{
	const struct step *s = w->task->step;

	w->store = gck_store_open(s->options.store, s->cluster, s->job, s->step, true, err);
	if (!w->store)
		return -1;
	gck_store_limit(w->store, w->share.cpus, w->share.memory);
	gck_store_on_retry(report_trouble, &w->report);
	if (*s->options.stage)
		use_stage(w, no_stage);
	return gck_store_encrypt(w->store, w->task->key, err);
}

/* senders: PIDs of the processes that send the data of their devices. */
static void take_senders(struct worker *w, const json_t *senders, bool hashes)
{
	const struct worker_task *t = w->task;
	const json_t *pid;
	size_t k;

	json_array_foreach(senders, k, pid)
		for (size_t i = 0; i < t->ndevices; i++)
			if (t->devices[i].pid == (pid_t)json_integer_value(pid))
				gck_capture_device_data(w->capture, t->devices[i].pid,
							t->devices[i].fds, hashes);
}

static int open_writer(struct worker *w, const json_t *senders, struct gck_error *err)
{
	char hash[GCK_HASH_TEXT];
	json_t *previous = rank_image_base(w->task, w->store, hash);

	w->writer = gck_writer_open(w->store, w->task->seq, w->task->nonce,
				    &w->task->step->options, previous, err);
	take_senders(w, senders, previous);
	if (previous)
		gck_capture_build_on(w->capture, previous, hash);
	json_decref(previous);
	return w->writer ? 0 : -1;
}

static void close_store(struct worker *w)
{
	gck_writer_close(w->writer);
	gck_store_close(w->store);
	w->writer = NULL;
	w->store = NULL;
}

static void report_staged(struct worker *w, const struct gck_error *no_stage)
{
	struct gck_error why;
	uint64_t waiting = gck_store_staged_bytes(w->store, &why);

	report_done(&w->report, "stage", json_pack("{s:I, s:o}", "staged", (json_int_t)waiting,
		    "unstaged", packet_string(no_stage->code ? no_stage->text : why.text)));
}

/* Uploads what is staged. The image counts as written afterwards. */
static int phase_upload(struct worker *w, const json_t *body, struct gck_error *err)
{
	json_t *extra = extra_members(w->task), *done;
	char hash[GCK_HASH_TEXT];
	uint64_t put, stored;
	int rc;

	(void)body;
	GCK_FAULT(GCK_FAULT_WORKER_STAGED);
	if (w->store)
		gck_store_limit(w->store, w->share.cpus, w->share.upload);
	rc = w->writer ?
		gck_capture_manifest(w->capture, w->writer, w->task->rank, extra, hash, err) :
			 gck_fail(err, EPROTO, "nothing was written that could be uploaded");
	json_decref(extra);
	if (rc < 0)
		return -1;
	if (w->task->tracker_fds[0] >= 0)
		gck_capture_leave_tracker(w->capture, w->task->tracker_fds, hash);
	gck_writer_totals(w->writer, &put, &stored);
	done = json_pack("{s:s, s:I, s:I, s:O, s:I}", "manifest", hash, "put", (json_int_t)put,
			 "stored",
			 (json_int_t)stored, "common", gck_writer_shared_objects(w->writer),
			 "free_ns",
			 (json_int_t)w->free_ns);
	close_store(w);
	w->written = true;
	report_done(&w->report, "write", done);
	return 0;
}

/* All ranks of the step are held now: objects that they share can be compared with what was
 * captured while some of them still ran. */
static int update_files(struct worker *w, struct gck_error *err)
{
	if (!w->held || w->settled)
		return 0;
	w->settled = true;
	return gck_capture_update_files(w->capture, err);
}

/* The writer gives way to a rank that runs, but not while the rank is held for it. Without a
 * stage the upload follows at once. */
static int phase_write(struct worker *w, const json_t *body, struct gck_error *err)
{
	struct gck_error no_stage = { 0 };

	w->share = node_share_of_writers(w->task->step, (uint64_t)packet_int(body, "chunks", 0));
	if (!packet_bool(body, "held"))
		setpriority(PRIO_PROCESS, 0, WRITER_NICE);
	if (update_files(w, err) < 0 || open_store(w, &no_stage, err) < 0 ||
	    open_writer(w, json_object_get(body, "device"), err) < 0)
		return -1;
	GCK_FAULT(GCK_FAULT_WORKER_WRITE);
	if (gck_capture_write(w->capture, w->writer, report_progress, &w->report, err) < 0)
		return -1;
	w->free_ns = now_ns();
	if (!*w->task->step->options.stage)
		return phase_upload(w, body, err);
	report_staged(w, &no_stage);
	return 0;
}

static int phase_reserve(struct worker *w, const json_t *body, struct gck_error *err)
{
	if (gck_capture_reserve(w->capture, (uint64_t)packet_int(body, "bytes", 0), err) < 0)
		return -1;
	report_done(&w->report, "reserve", NULL);
	return 0;
}

/* What the rank shares is in the image that one of its ranks writes. */
static int phase_common(struct worker *w, const json_t *body, struct gck_error *err)
{
	return memory_share(w->capture, body, err);
}

static int phase_copy(struct worker *w, const json_t *body, struct gck_error *err)
{
	(void)body;
	if (gck_capture_copy(w->capture, err) < 0)
		return -1;
	report_done(&w->report, "copy", NULL);
	return 0;
}

static int phase_freeze(struct worker *w, const json_t *body, struct gck_error *err)
{
	uint32_t asked[GCK_REQUEST_KINDS];
	int64_t first, last;

	gck_capture_allow_copy(w->capture, (unsigned)packet_int(body, "copy_ms", 0),
			       node_share_of_restorers(w->task->step, 0).cpus);
	w->held = true;
	if (gck_capture_freeze(w->capture, err) < 0)
		return -1;
	GCK_FAULT(GCK_FAULT_WORKER_FROZEN);
	if (gck_capture_quiesced(w->capture, w->task->seq, err) < 0 ||
	    gck_capture_take(w->capture, w->task->alone, err) < 0 ||
	    (!w->task->alone && memory_report(&w->report, w->capture, false, err) < 0))
		return -1;
	GCK_FAULT(GCK_FAULT_WORKER_TAKEN);
	gck_capture_held(w->capture, &first, &last);
	gck_capture_asked(w->capture, asked);
	report_done(&w->report, "freeze", json_pack("{s:I, s:I, s:I}", "first_ns",
		    (json_int_t)first, "asked_one", (json_int_t)asked[GCK_REQUEST_ONE],
		    "asked_all", (json_int_t)asked[GCK_REQUEST_ALL]));
	return 0;
}

static int phase_resume(struct worker *w, const json_t *body, struct gck_error *err)
{
	int rc = update_files(w, err);
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
	const char *op, *phase; /* an upload ends the phase of the write */
	int (*act)(struct worker *w, const json_t *body, struct gck_error *err);
} phases[] = {
	{ "reserve", "reserve", phase_reserve },
	{ "freeze", "freeze", phase_freeze },
	{ "common", "copy", phase_common },
	{ "copy", "copy", phase_copy },
	{ "resume", "resume", phase_resume },
	{ "write", "write", phase_write },
	{ "upload", "write", phase_upload },
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
				return 1; /* cancelled: the packet that did it is next */
			report_failure(&w->report, phases[i].phase, &err);
			return -1;
		}
		return w->held || !w->written;
	}
	if (!strcmp(op, "end"))
		gck_capture_end(w->capture);
	return !strcmp(op, "hold");
}

/* Silence means that the agent hangs, and the end of the socket that it died. The rank must not
 * wait in either case: it is let go when this process leaves. */
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

static json_t *devices(const struct gck_gpu_data *g)
{
	json_t *all = json_array();

	for (size_t i = 0; i < g->ndevices; i++) {
		const struct gck_device_memory *v = &g->devices[i];
		char uuid[2 * sizeof v->uuid + 1];

		gck_hex(v->uuid, sizeof v->uuid, uuid);
		json_array_append_new(all, json_pack("{s:s, s:I, s:I}", "uuid", uuid, "bytes",
				      (json_int_t)v->bytes, "room", (json_int_t)v->free_bytes));
	}
	return all;
}

/* As gpu.c wants them. *device, *managed: bytes of all. */
static json_t *gpus(const struct gck_capture *c, json_int_t *device, json_int_t *managed)
{
	json_t *all = json_array();
	size_t n;
	const struct gck_gpu_data *v = gck_capture_gpus(c, &n);

	*device = *managed = 0;
	for (size_t i = 0; i < n; i++) {
		*device += (json_int_t)v[i].device_bytes;
		*managed += (json_int_t)v[i].managed_bytes;
		json_array_append_new(all, json_pack("{s:I, s:I, s:o}", "pid",
				      (json_int_t)v[i].pid, "device",
				      (json_int_t)v[i].device_bytes, "devices", devices(&v[i])));
	}
	return all;
}

/* Memory that the rank rewrites all the time is copied while it is held if the node has plenty:
 * enough for copies of all that ranks may write while their clones exist, and for these. No more
 * than can be copied in that time. */
static void look(struct worker *w)
{
	const struct step *s = w->task->step;
	uint64_t bytes = gck_capture_look(w->capture);
	uint64_t most = s->options.hold_ms * COPIED_PER_MS;
	uint64_t ranks = s->local_ntasks ? s->local_ntasks : 1;

	bytes = bytes < most ? bytes : most;
	if (bytes && memory_available() / ranks >= gck_capture_expected(w->capture) + bytes)
		gck_capture_ready_copy(w->capture, bytes);
}

int worker_main(int fd, void *arg)
{
	struct worker w = { .task = arg, .report = { .fd = fd } };
	const struct worker_task *t = arg;
	struct gck_error err = { 0 };
	json_int_t device, managed;
	json_t *with_cuda;
	int rc;

	w.capture = gck_capture_open(t->pid, t->link, &t->hello, &t->step->options, &err);
	if (!w.capture || memory_report(&w.report, w.capture, t->alone, &err) < 0) {
		gck_capture_close(w.capture);
		report_failure(&w.report, "prepare", &err);
		return 1;
	}
	if (t->tracker_fds[1] >= 0)
		gck_capture_take_tracker(w.capture, t->tracker_fds);
	if (!t->keep_held)
		look(&w);
	with_cuda = gpus(w.capture, &device, &managed);
	report_done(&w.report, "prepare", json_pack("{s:I, s:I, s:I, s:I, s:o, s:b}",
		    "expected", (json_int_t)gck_capture_expected(w.capture), "chunks",
		    (json_int_t)gck_capture_chunks(w.capture), "device", device, "managed",
		    managed, "gpus", with_cuda, "mpi", gck_capture_has_mpi(w.capture)));
	rc = serve(&w);
	close_store(&w);
	gck_capture_close(w.capture);
	return rc < 0;
}
