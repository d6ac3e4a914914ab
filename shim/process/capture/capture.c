/* SPDX-License-Identifier: Apache-2.0
 * Capture of one rank's checkpoint: preparation while it runs, the freeze, the clone. */
#include "config.h"

#include "shim/process/capture/capture.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/process/memory/memory.h"
#include "shim/process/objects/objects.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/rank/helper_link.h"
#include "shim/process/ring/ring.h"
#include "shim/process/tree/tree.h"

/* Wait between two scans of a rank that changes; doubled each time, about 0.6 s in all if its MPI
 * library is busy. The library's thread may lose its processor between a call that makes a
 * descriptor and recording it. */
#define MPI_LOOKS 6
#define LOOKS 2
#define LOOK_US 10000
#define LOOK_HOLD_MS 1000

static struct gck_scan scan_of(struct gck_capture *c, struct gck_obstacles *f,
			       struct gck_error *err)
{
	return (struct gck_scan){.t = &c->t, .o = &c->o, .img = c->img, .f = f, .err = err,
				 .flags = &c->flags.maps};
}

static int new_image(struct gck_capture *c, struct gck_error *err)
{
	gck_image_free(c->img);
	c->img = calloc(1, sizeof(*c->img));
	return c->img ? 0 : gck_fail(err, ENOMEM, "out of memory for the image");
}

/* Expect this many bytes in a range of this size, which may begin and end within page groups. */
static void expect(struct gck_capture *c, uint64_t bytes, uint64_t size)
{
	uint64_t pages = (bytes + GCK_PAGE - 1) / GCK_PAGE, groups = size / GCK_GROUP_BYTES + 2;

	c->expected += bytes;
	c->chunks += pages < groups ? pages : groups;
}

/* Estimate the image's bytes and chunks. held: bytes to copy while the rank is held, without shared
 * memory. */
static void estimate(struct gck_capture *c, uint64_t *held)
{
	const struct gck_image *img = c->img;

	*held = 0;
	for (size_t i = 0; i < img->nmaps; i++) {
		const struct gck_map *m = &img->maps[i];
		const struct gck_vma *x = gck_maps_find(&c->flags.maps, m->start);
		bool unforked = m->object >= 0 ||
				(m->flags & (GCK_MAP_DONTFORK | GCK_MAP_WIPEONFORK));
		uint64_t size = m->end - m->start;

		if (!x)
			continue;
		*held += unforked && m->object < 0 ? x->resident + x->swapped : 0;
		expect(c, (unforked ? x->resident : x->anonymous) + x->swapped, size);
		if (m->content >= 0 && img->contents[m->content].carried)
			expect(c, size, size);
	}
	for (size_t i = 0; i < img->nfiles; i++) {
		uint64_t size = gck_file_carried(&img->files[i]);

		*held += size;
		expect(c, size, size);
	}
	for (size_t i = 0; i < c->before.gpus.n; i++) {
		uint64_t size = c->before.gpus.v[i].device_bytes;

		expect(c, size, size);
	}
	expect(c, gck_descendants_bytes(img), UINT64_MAX / 2);
}

static int read_locked(const struct gck_target *t, uint64_t *kib, struct gck_error *err)
{
	char *status = gck_proc_read(t->proc, "status", NULL, err);

	if (!status)
		return -1;
	*kib = gck_proc_number(status, "VmLck:", 10, 0);
	free(status);
	return 0;
}

int gck_map_flags_read(struct gck_map_flags *f, const struct gck_target *t, struct gck_error *err)
{
	gck_maps_free(&f->maps);
	return read_locked(t, &f->locked, err) || gck_smaps_read(t->proc, &f->maps, err) ? -1 : 0;
}

/* Read the mappings' flags again if locks have changed. The clone has no locks; it shows changes of
 * all other flags, unless a part of memory is to be left out of it. */
static int refresh_locks(struct gck_capture *c, struct gck_error *err)
{
	uint64_t now;

	if (read_locked(&c->t, &now, err))
		return -1;
	if (now == c->flags.locked && !c->rewritten.data)
		return 0;
	return gck_map_flags_read(&c->flags, &c->t, err);
}

/* Run all scans while the rank runs. refused gets the first obstacle, or code 0. */
static int scan_before(struct gck_capture *c, struct gck_error *refused, struct gck_error *err)
{
	struct gck_obstacles f = {.err = refused};
	struct gck_scan s;
	int result;

	refused->code = 0;
	gck_tree_scan_free(&c->before);
	if (gck_map_flags_read(&c->flags, &c->t, err) || new_image(c, err))
		return -1;
	s = scan_of(c, &f, err);
	result = gck_scan_node(&s) || gck_scan_process(&s) || gck_scan_maps(&s) ||
		 gck_scan_ipc(&s) || gck_scan_fds(&s) ||
		 gck_scan_descendants(&c->t, c->img, &c->o, &f, &c->before, err) ||
		 gck_ipc_join(&c->before.ipc, &c->before.nipc, c->img, err);
	gck_ipc_check(c->before.ipc, c->before.nipc, &c->t, false, &f);
	gck_maps_free(&s.maps);
	return result ? -1 : 0;
}

static int most_looks(const struct gck_capture *c)
{
	return c->t.shim->mpi_state ? MPI_LOOKS : LOOKS;
}

/* Scan, and repeat if something is refused: an MPI library may make a connection or mapping after
 * the list of its resources was read, and a rank may make a child after its children were listed.
 * Each scan uses the list of that time. */
static int prepare(struct gck_capture *c, struct gck_error *err)
{
	struct gck_error refused;
	uint64_t held;

	for (int looks = 0;; looks++) {
		if (scan_before(c, &refused, err))
			return -1;
		if (!refused.code)
			break;
		if (looks == most_looks(c))
			return gck_fail(err, refused.code, "%s", refused.text);
		usleep(LOOK_US << looks);
		if (gck_target_refresh(&c->t, err))
			return -1;
	}
	c->exe = c->img->exe;
	c->cpu_flags = c->img->cpu_flags;
	c->img->exe = c->img->cpu_flags = NULL;
	if (gck_prefixes_start(&c->prefixes, &c->t, c->img, err))
		return -1;
	estimate(c, &held);
	return gck_frozen_prepare(&c->copies, held, err);
}

struct gck_capture *gck_capture_open(pid_t pid, int link, const struct gck_link_hello *hello,
				     const struct gck_options *o, struct gck_error *err)
{
	struct gck_capture *c = calloc(1, sizeof(*c));

	if (!c) {
		gck_fail(err, ENOMEM, "out of memory for a checkpoint");
		return NULL;
	}
	c->o = *o;
	c->root = c;
	c->life = c->listener = c->device[0] = c->device[1] = c->dirty.uffd = -1;
	if (gck_target_open(&c->t, pid, link, hello, err)) {
		free(c);
		return NULL;
	}
	if (prepare(c, err)) {
		gck_capture_close(c);
		return NULL;
	}
	return c;
}

uint64_t gck_capture_expected(const struct gck_capture *c)
{
	return c->expected;
}

uint64_t gck_capture_chunks(const struct gck_capture *c)
{
	return c->chunks;
}

bool gck_capture_has_mpi(const struct gck_capture *c)
{
	return c->t.shim->mpi_state;
}

const struct gck_gpu_data *gck_capture_gpus(const struct gck_capture *c, size_t *n)
{
	*n = c->before.gpus.n;
	return c->before.gpus.v;
}

/* One that is about to execute or to spawn a program does so first. */
static int hold_rank(struct gck_capture *c, int timeout_ms, struct gck_error *err)
{
	for (int tries = 1;; tries++) {
		if (gck_threads_hold(&c->held, &c->t, timeout_ms, err) ||
		    gck_target_refresh(&c->t, err))
			return -1;
		if (!gck_threads_check_executions(&c->held, &c->t, err))
			return 0;
		if (tries == GCK_HOLD_TRIES)
			return -1;
		gck_threads_release(&c->held);
		usleep(GCK_HOLD_PAUSE_US);
	}
}

/* Do something with a process, and then with those below it. */
static int with_all(struct gck_capture *c, int (*act)(struct gck_capture *, struct gck_error *),
		    struct gck_error *err)
{
	if (act(c, err))
		return gck_fail_in(err, "process %d", (int)c->t.pid);
	for (size_t i = 0; i < c->nchildren; i++)
		if (with_all(c->children[i], act, err))
			return -1;
	return 0;
}

static int settle_rings(struct gck_capture *c, struct gck_error *err)
{
	return gck_rings_settle(&c->t, &c->held, err);
}

int gck_capture_freeze(struct gck_capture *c, struct gck_error *err)
{
	int timeout_ms = (int)(c->o.hold_ms / 2 > 1000 ? c->o.hold_ms / 2 : 1000);

	if (gck_target_refresh(&c->t, err))
		return -1;
	gck_threads_wait_transfers(&c->t);
	if (!hold_rank(c, timeout_ms, err) && !gck_tree_hold(c, timeout_ms, err) &&
	    !with_all(c, settle_rings, err))
		return 0;
	gck_capture_resume(c);
	return -1;
}

/* other: the checkpoint that it is at rest for; 0: none. */
static int fail_not_at_rest(const char *what, uint64_t other, struct gck_error *err)
{
	if (other)
		return gck_fail(err, ECANCELED, "%s", what);
	return gck_fail(err, EAGAIN, "%s: it resumed too early, or has just begun to use it: try "
			"again", what);
}

int gck_capture_quiesced(struct gck_capture *c, uint64_t seq, struct gck_error *err)
{
	if (gck_target_refresh(&c->t, err))
		return -1;
	if (c->t.shim->cuda_state && c->t.excluded.drained_for != seq)
		return fail_not_at_rest("its GPU is not drained", c->t.excluded.drained_for, err);
	if (c->t.shim->mpi_state && c->t.excluded.closed_for != seq)
		return fail_not_at_rest("its MPI is not quiesced", c->t.excluded.closed_for, err);
	for (size_t i = 0; i < c->nchildren; i++)
		if (gck_capture_quiesced(c->children[i], seq, err))
			return gck_fail_in(err, "process %d", (int)c->children[i]->t.pid);
	return 0;
}

/* What was found before the rank was held. A descendant is not scanned before, but has the rank's
 * CPU. */
static int take_node(struct gck_scan *s, struct gck_capture *c)
{
	if (c != c->root) {
		c->img->cpu_flags = strdup(c->root->img->cpu_flags);
		return gck_scan_node(s);
	}
	c->img->exe = c->exe;
	c->img->cpu_flags = c->cpu_flags;
	c->exe = c->cpu_flags = NULL;
	return 0;
}

static int scan_held_orphans(struct gck_scan *s, const struct gck_capture *c)
{
	for (size_t i = 0; i < c->nchildren; i++)
		if (c->children[i]->orphan && gck_scan_orphan(s, c->children[i]->t.pid))
			return -1;
	return 0;
}

/* Describe a held process. */
static int describe(struct gck_capture *c, struct gck_error *err)
{
	struct gck_obstacles f = {.err = err};
	struct gck_scan s;
	int result;

	if (gck_target_refresh(&c->t, err) || refresh_locks(c, err) || new_image(c, err))
		return -1;
	s = scan_of(c, &f, err);
	s.held = true;
	result = take_node(&s, c) || gck_scan_process(&s) || scan_held_orphans(&s, c) ||
		 gck_scan_inside(&s, GCK_HELPER_MS) ||
		 gck_threads_read(&c->held, &c->t, c->img, &f, err) || gck_scan_waits(&s) ||
		 gck_scan_maps(&s) || gck_scan_ipc(&s) || gck_scan_fds(&s) || f.refused;
	gck_maps_free(&s.maps);
	if (result)
		return -1;
	gck_threads_restart_calls(c->img, &c->held, &c->t);
	return 0;
}

static struct gck_hold hold_of(struct gck_capture *c, struct gck_error *err)
{
	return (struct gck_hold){.t = &c->t, .img = c->img, .rank = c->root->img,
				 .copies = &c->copies, .external = &c->external,
				 .seen = c->root->seen, .timeout_ms = GCK_HELPER_MS, .err = err};
}

static int copy_own(struct gck_capture *c, struct gck_error *err)
{
	struct gck_hold h = hold_of(c, err);

	h.own = true;
	return gck_hold_unforked(&h) || gck_hold_files(&h) ||
	       gck_prefixes_finish(&c->prefixes, &c->t, c->img, err);
}

static int copy_memory(struct gck_capture *c, struct gck_error *err)
{
	struct gck_hold h = hold_of(c, err);

	h.memory = true;
	return gck_hold_ipc(&h) || gck_hold_objects(&h) || gck_hold_files(&h);
}

static int ask_clone(struct gck_capture *c, struct gck_error *err)
{
	struct gck_link_msg m = {.ncalls = 0};

	if (c->track_dirty)
		gck_dirty_protect(&c->dirty, &c->t, c->img, &c->rewritten.copied);
	gck_segments_detach(c->img, &m);
	return gck_helper_ask_clone(&c->t, &c->rewritten.copied, &m, &c->life, err);
}

/* Wait for the clones of all processes that were asked for one. */
static int await_clones(struct gck_capture *c, struct gck_error *err)
{
	int failed = 0;

	if (c->life >= 0)
		failed = gck_helper_cloned(&c->t, GCK_HELPER_MS, &c->clone, err);
	if (failed)
		gck_fail_in(err, "process %d", (int)c->t.pid);
	else
		gck_dirty_update(&c->dirty, &c->t, c->img);
	for (size_t i = 0; i < c->nchildren; i++)
		failed |= await_clones(c->children[i], failed ? NULL : err);
	return failed;
}

/* All fork at the same time, each its own memory. */
static int fork_clones(struct gck_capture *c, struct gck_error *err)
{
	int failed = with_all(c, ask_clone, err);

	return await_clones(c, failed ? NULL : err) || failed ? -1 : 0;
}

int gck_capture_take(struct gck_capture *c, bool alone, struct gck_error *err)
{
	if (!c->held.whole || c->clone)
		return gck_fail(err, EINVAL, "the rank is not held");
	if (with_all(c, describe, err) || gck_tree_join_ipc(c, alone, err) ||
	    gck_tree_relate(c, err) || gck_tree_connect(c, err) || with_all(c, copy_own, err) ||
	    (alone && gck_capture_copy(c, err)) || gck_leftovers_note(c, err))
		return -1;
	gck_rewritten_copy(&c->rewritten, &c->t, c->img);
	return fork_clones(c, err);
}

int gck_capture_copy(struct gck_capture *c, struct gck_error *err)
{
	c->seen = calloc(c->nmemory + 1, sizeof *c->seen);
	if (!c->seen)
		return gck_fail(err, ENOMEM, "out of memory for shared memory");
	if (with_all(c, copy_memory, err))
		return -1;
	gck_ipc_drop_elsewhere(c->img);
	return 0;
}

int gck_capture_reserve(struct gck_capture *c, uint64_t bytes, struct gck_error *err)
{
	return gck_frozen_prepare(&c->copies, bytes, err);
}

void gck_capture_asked(const struct gck_capture *c, uint32_t asked[GCK_REQUEST_KINDS])
{
	for (int i = 0; i < GCK_REQUEST_KINDS; i++)
		asked[i] = c->t.shim->requests[i].asked;
}

static int update_files(struct gck_capture *c, struct gck_error *err)
{
	struct gck_hold h = hold_of(c, err);

	return gck_prefixes_finish(&c->prefixes, &c->t, c->img, err) ||
	       gck_hold_update_files(&h) ? -1 : 0;
}

int gck_capture_update_files(struct gck_capture *c, struct gck_error *err)
{
	if (!c->held.whole || !c->clone)
		return gck_fail(err, EINVAL, "the rank is not held, or nothing was taken");
	return with_all(c, update_files, err);
}

static void close_flight(struct gck_capture *c)
{
	gck_flight_close(&c->t);
	for (size_t i = 0; i < c->nchildren; i++)
		close_flight(c->children[i]);
}

void gck_capture_resume(struct gck_capture *c)
{
	close_flight(c);
	for (size_t i = c->nchildren; i-- > 0;)
		gck_capture_resume(c->children[i]);
	gck_threads_release(&c->held);
}

void gck_capture_end(struct gck_capture *c)
{
	for (size_t i = c->nchildren; i-- > 0;)
		gck_capture_end(c->children[i]);
	kill(c->t.pid, SIGKILL);
	gck_leftovers_remove(c);
}

void gck_capture_held(const struct gck_capture *c, int64_t *first_ns, int64_t *last_ns)
{
	*first_ns = c->held.first_ns;
	*last_ns = c->held.last_ns;
}

void gck_capture_device_data(struct gck_capture *c, pid_t pid, const int fds[GCK_LINK_DATA_FDS],
			     bool hashes)
{
	if (c->t.pid == pid) {
		memcpy(c->device, fds, sizeof c->device);
		c->device_hashes = hashes;
	}
	for (size_t i = 0; i < c->nchildren; i++)
		gck_capture_device_data(c->children[i], pid, fds, hashes);
}

void gck_capture_take_tracker(struct gck_capture *c, const int tracker_fds[2])
{
	gck_dirty_drop(&c->dirty);
	gck_dirty_take(&c->dirty, tracker_fds);
	c->track_dirty = true;
}

/* For a moment, so that the program does not meet the tracker's descriptor, which is made in it. */
static bool make_tracker(struct gck_capture *c)
{
	struct gck_held held = {0};
	bool made = !gck_threads_hold(&held, &c->t, LOOK_HOLD_MS, NULL) &&
		    gck_dirty_possible(&c->dirty, &c->t);

	gck_threads_release(&held);
	return made;
}

uint64_t gck_capture_look(struct gck_capture *c)
{
	if (!c->track_dirty || !gck_rewritten_worth_look(c->img) ||
	    (c->dirty.uffd < 0 && !make_tracker(c)))
		return 0;
	return gck_rewritten_look(&c->rewritten, &c->dirty, &c->t, c->img, c->expected);
}

void gck_capture_ready_copy(struct gck_capture *c, uint64_t bytes)
{
	(void)!gck_rewritten_ready(&c->rewritten, bytes); /* if it fails, the clone has all */
}

void gck_capture_allow_copy(struct gck_capture *c, unsigned ms, unsigned threads)
{
	c->rewritten.copy_ms = ms;
	c->rewritten.threads = threads;
}

void gck_capture_build_on(struct gck_capture *c, const json_t *manifest, const char *hash)
{
	struct gck_page_groups pages;

	gck_hex_table_clear(&c->base_pages.rows); /* its chunk numbers refer to another manifest */
	if (!strcmp(c->dirty.base_hash, hash) && !gck_image_pages(manifest, &pages, NULL))
		c->base_pages = pages;
}

void gck_capture_leave_tracker(struct gck_capture *c, const int tracker_fds[2], const char *hash)
{
	snprintf(c->dirty.base_hash, sizeof(c->dirty.base_hash), "%s", hash);
	gck_dirty_leave(&c->dirty, tracker_fds);
}

void gck_capture_drop_clone(struct gck_capture *c)
{
	if (c->life >= 0)
		close(c->life);
	if (c->clone > 0)
		gck_helper_reap(&c->t, c->clone, GCK_HELPER_MS, NULL);
	c->life = -1;
	c->clone = 0;
}

void gck_capture_close(struct gck_capture *c)
{
	if (!c)
		return;
	gck_capture_resume(c);
	for (size_t i = 0; i < c->nchildren; i++)
		gck_capture_close(c->children[i]);
	free(c->children);
	gck_tree_scan_free(&c->before);
	gck_capture_drop_clone(c);
	if (c->listener >= 0)
		close(c->listener);
	if (c != c->root && c->t.link >= 0)
		close(c->t.link);
	gck_dirty_drop(&c->dirty);
	gck_rewritten_free(&c->rewritten);
	gck_hex_table_clear(&c->base_pages.rows);
	gck_image_free(c->img);
	gck_frozen_free(&c->copies);
	gck_prefixes_free(&c->prefixes);
	gck_external_free(&c->external);
	gck_maps_free(&c->flags.maps);
	gck_target_close(&c->t);
	for (uint32_t i = 0; c->seen && i < c->nmemory; i++)
		free(c->seen[i]);
	free(c->seen);
	gck_leftovers_free(c);
	free(c->exe);
	free(c->cpu_flags);
	free(c);
}
