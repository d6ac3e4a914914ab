/* SPDX-License-Identifier: Apache-2.0
 * Dirty page tracking (see dirty_pages.h). */
#include "config.h"

#include "shim/process/memory/dirty_pages.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/fd_passing.h"
#include "shim/process/rank/helper_link.h"
#include "shim/process/proc/pagemap.h"
#include "shim/process/proc/procfs.h"

/* Of Linux 6.7; Debian 12's headers lack it. */
#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif

#define TRACKED_MIN (1u << 20) /* less is not worth three calls while the rank is held */

/* ---- between two checkpoints --------------------------------------------------------------- */

void gck_dirty_take(struct gck_dirty_tracker *m, const int tracker_fds[2])
{
	size_t passed = 1;
	ssize_t n;

	*m = (struct gck_dirty_tracker){.uffd = -1};
	n = gck_fd_receive(tracker_fds[1], m->base_hash, sizeof(m->base_hash), &m->uffd, &passed,
			   MSG_DONTWAIT);
	if (!passed || n != sizeof(m->base_hash) || m->base_hash[n - 1])
		gck_dirty_drop(m);
}

void gck_dirty_leave(struct gck_dirty_tracker *m, const int tracker_fds[2])
{
	if (m->uffd >= 0 && *m->base_hash) /* if it fails, the next image reads all pages */
		(void)!gck_fd_send(tracker_fds[0], m->base_hash, sizeof(m->base_hash), &m->uffd, 1,
				   MSG_DONTWAIT);
	gck_dirty_drop(m);
}

void gck_dirty_drop(struct gck_dirty_tracker *m)
{
	if (m->uffd >= 0)
		close(m->uffd);
	free(m->written.v);
	free(m->since.v);
	free(m->looked.v);
	*m = (struct gck_dirty_tracker){.uffd = -1};
}

/* ---- whether the protection can be trusted ------------------------------------------------- */

/* Whether this is a descriptor of something that cannot write memory by itself. */
static bool harmless(const char *to)
{
	static const char *const kinds[] = { /* complete names, or prefixes that end with a colon or
					      * slash */
		"socket:", "pipe:", "anon_inode:[eventfd]", "anon_inode:[eventpoll]",
		"anon_inode:[timerfd]", "anon_inode:[signalfd]", "anon_inode:inotify",
		"/memfd:", "/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/shm/",
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		size_t n = strlen(kinds[i]);
		bool whole = !strchr(":/", kinds[i][n - 1]);

		if (!strncmp(to, kinds[i], n) && (!whole || !to[n]))
			return true;
	}
	return *to == '/' && strncmp(to, "/dev/", 5);
}

/* Whether a device may write the rank's memory. A device that writes past the page tables, to pages
 * that it has pinned, does not lift the protection. A rank may have such a device only outside the
 * image: in its real MPI library, or through CUDA. Pinning a page after it was protected counts as
 * a write, so only pages that are pinned now matter. */
static bool written_by_devices(const struct gck_target *t)
{
	char *status = gck_proc_read(t->proc, "status", NULL, NULL);
	bool may = !status || gck_proc_number(status, "VmPin:", 10, 1) || t->shim->cuda_state;

	free(status);
	for (size_t i = 0; i < t->excluded.nfds && !may; i++) {
		char name[32], *to;

		snprintf(name, sizeof(name), "fd/%d", t->excluded.fds[i]);
		to = gck_proc_link(t->proc, name, NULL);
		may = to && !harmless(to);
		free(to);
	}
	return may;
}

static int make(struct gck_dirty_tracker *m, const struct gck_target *t)
{
	struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC};

	return gck_helper_userfaultfd(t, GCK_HELPER_MS, &m->uffd, NULL) ||
	       ioctl(m->uffd, UFFDIO_API, &api);
}

bool gck_dirty_possible(struct gck_dirty_tracker *m, const struct gck_target *t)
{
	if (written_by_devices(t) || (m->uffd < 0 && make(m, t)))
		gck_dirty_drop(m);
	return m->uffd >= 0;
}

/* ---- protecting pages and finding dirty ones ----------------------------------------------- */

bool gck_dirty_tracks(const struct gck_map *m)
{
	return m->kind == GCK_MAP_ANON && !m->changes_only && !m->empty &&
	       m->end - m->start >= TRACKED_MIN &&
	       !(m->flags & (GCK_MAP_DONTFORK | GCK_MAP_WIPEONFORK));
}

static int add_groups(struct gck_ranges *r, uint64_t start, uint64_t end)
{
	start = start / GCK_GROUP_BYTES * GCK_GROUP_BYTES;
	end = (end + GCK_GROUP_BYTES - 1) / GCK_GROUP_BYTES * GCK_GROUP_BYTES;
	if (r->n && start < r->v[r->n - 1].end)
		start = r->v[r->n - 1].end;
	return start < end ? gck_ranges_add(r, start, end, NULL) : 0;
}

/* Add the page groups of a range that have dirty pages. protect: also protect these, except huge
 * pages: the first write to a protected one would split it for good. -1 with errno; EPERM: the
 * range, or a part, is not registered with a userfaultfd. */
static int scan(int pagemap, const struct gck_range *m, bool protect,
		struct gck_ranges *out)
{
	struct gck_pagemap_region regions[GCK_PAGEMAP_REGIONS];
	struct gck_pagemap_scan arg = {
		.size = sizeof(arg), .start = m->start, .end = m->end,
		.flags = GCK_PAGEMAP_CHECK | (protect ? GCK_PAGEMAP_PROTECT : 0),
		.vec = (uintptr_t)regions, .vec_len = GCK_PAGEMAP_REGIONS,
		.category_inverted = (protect ? GCK_PAGE_HUGE : 0) | gck_pagemap_guard(),
		.category_mask = GCK_PAGE_WRITTEN | (protect ? GCK_PAGE_HUGE : 0) |
				 gck_pagemap_guard(),
		.category_anyof_mask = GCK_PAGE_PRESENT | GCK_PAGE_SWAPPED,
		.return_mask = GCK_PAGE_WRITTEN,
	};

	while (arg.start < m->end) {
		int n = ioctl(pagemap, GCK_PAGEMAP_SCAN, &arg);

		if (n < 0)
			return -1;
		for (int i = 0; i < n; i++)
			if (add_groups(out, regions[i].start, regions[i].end))
				return -1;
		if (arg.walk_end <= arg.start)
			break;
		arg.start = arg.walk_end;
	}
	return 0;
}

/* 0 if a userfaultfd is registered for the mapping; EPERM: none. Registration covers a whole
 * mapping, so one page is enough to check. */
static int check_registered(int pagemap, const struct gck_map *m)
{
	struct gck_pagemap_scan arg = {.size = sizeof(arg), .flags = GCK_PAGEMAP_CHECK,
				       .start = m->start, .end = m->start + GCK_PAGE,
				       .category_mask = GCK_PAGE_WRITTEN,
				       .return_mask = GCK_PAGE_WRITTEN};
	struct gck_pagemap_region region;

	arg.vec = (uintptr_t)&region;
	arg.vec_len = 1;
	return ioctl(pagemap, GCK_PAGEMAP_SCAN, &arg) < 0 ? -1 : 0;
}

/* Whether a mapping is registered with our descriptor now; *known: it was before. */
static int register_map(struct gck_dirty_tracker *m, int pagemap, const struct gck_map *map,
			bool *known)
{
	struct uffdio_register range = {.range = {map->start, map->end - map->start},
					.mode = UFFDIO_REGISTER_MODE_WP};

	*known = check_registered(pagemap, map) == 0;
	return (!*known && errno != EPERM) || ioctl(m->uffd, UFFDIO_REGISTER, &range) ? -1 : 0;
}

/* Protection that a mapping already has counts only if our descriptor was registered before. With
 * another's descriptor it cannot be registered again, and its protection is left alone. */
static int protect_map(struct gck_dirty_tracker *m, int pagemap, const struct gck_map *map,
		       const struct gck_ranges *copied)
{
	uint64_t at = map->start, done = map->start;
	struct gck_range part;
	bool known;

	if (!gck_dirty_tracks(map))
		return add_groups(&m->written, map->start, map->end);
	if (register_map(m, pagemap, map, &known) ||
	    (!known && add_groups(&m->written, map->start, map->end)))
		return -1;
	for (; gck_ranges_next_part(copied, &at, map->end, &part); done = part.end)
		if ((done < part.start && add_groups(&m->written, done, part.start)) ||
		    scan(pagemap, &part, true, &m->written))
			return -1;
	return done < map->end ? add_groups(&m->written, done, map->end) : 0;
}

static int add_written(struct gck_dirty_tracker *m, int pagemap, const struct gck_map *map,
		       const struct gck_ranges *unused)
{
	const struct gck_range all = {map->start, map->end};

	(void)unused;
	return gck_dirty_tracks(map) ? scan(pagemap, &all, false, &m->since) : 0;
}

typedef int each_fn(struct gck_dirty_tracker *m, int pagemap, const struct gck_map *map,
		    const struct gck_ranges *copied);

/* If it fails for one mapping, tracking is given up. */
static void each_map(struct gck_dirty_tracker *m, const struct gck_target *t,
		     const struct gck_image *img, each_fn *fn, const struct gck_ranges *copied)
{
	int pagemap = openat(t->proc, "pagemap", O_RDONLY | O_CLOEXEC);
	int failed = pagemap < 0;

	for (size_t i = 0; i < img->nmaps && !failed; i++)
		failed = fn(m, pagemap, &img->maps[i], copied);
	if (pagemap >= 0)
		close(pagemap);
	if (failed)
		gck_dirty_drop(m);
}

void gck_dirty_protect(struct gck_dirty_tracker *m, const struct gck_target *t,
		       const struct gck_image *img, const struct gck_ranges *copied)
{
	if (gck_dirty_possible(m, t))
		each_map(m, t, img, protect_map, copied);
}

/* ---- a sample, while the rank runs --------------------------------------------------------- */

bool gck_dirty_register(struct gck_dirty_tracker *m, int pagemap, const struct gck_map *map)
{
	bool known;

	if (register_map(m, pagemap, map, &known))
		return false;
	if (!known && add_groups(&m->looked, map->start, map->end))
		gck_dirty_drop(m);
	return m->uffd >= 0;
}

/* Of a mapping that is gone no page is protected. */
bool gck_dirty_sample(struct gck_dirty_tracker *m, int pagemap, uint64_t page)
{
	const struct gck_range r = {page, page + GCK_PAGE};
	bool failed = scan(pagemap, &r, true, &m->looked) != 0;

	if (failed && errno == ENOMEM)
		gck_dirty_drop(m);
	return !failed;
}

bool gck_dirty_sample_written(int pagemap, uint64_t page)
{
	struct gck_pagemap_region region;
	struct gck_pagemap_scan arg = {
		.size = sizeof(arg), .flags = GCK_PAGEMAP_CHECK, .start = page,
		.end = page + GCK_PAGE, .vec = (uintptr_t)&region, .vec_len = 1,
		.category_inverted = GCK_PAGE_HUGE,
		.category_mask = GCK_PAGE_WRITTEN | GCK_PAGE_HUGE,
		.category_anyof_mask = GCK_PAGE_PRESENT | GCK_PAGE_SWAPPED,
		.return_mask = GCK_PAGE_WRITTEN,
	};

	return ioctl(pagemap, GCK_PAGEMAP_SCAN, &arg) > 0;
}

/* ---- what is dirty ------------------------------------------------------------------------- */

static bool is_held(const struct gck_target *t)
{
	uint64_t fields[GCK_STAT_FIELDS];
	char state;

	return gck_proc_stat(t->proc, &state, fields, NULL) == 0 && state == 't';
}

/* The page map of a rank that was killed meanwhile has no pages and no error, hence is_held. */
void gck_dirty_update(struct gck_dirty_tracker *m, const struct gck_target *t,
		      const struct gck_image *img)
{
	if (m->uffd < 0)
		return;
	each_map(m, t, img, add_written, NULL);
	if (!is_held(t))
		gck_dirty_drop(m);
}

static bool meets(const struct gck_ranges *r, uint64_t group)
{
	size_t from = 0, to = r->n;

	while (from < to) {
		size_t half = from + (to - from) / 2;

		if (r->v[half].end <= group)
			from = half + 1;
		else
			to = half;
	}
	return from < r->n && r->v[from].start <= group;
}

static bool is_spoiled(const struct gck_dirty_tracker *m, uint64_t group)
{
	unsigned i = 0;

	while (i < m->nspoiled && m->spoiled[i] != group)
		i++;
	return i < m->nspoiled;
}

void gck_dirty_spoil(struct gck_dirty_tracker *m, uint64_t address)
{
	uint64_t group = address / GCK_GROUP_BYTES * GCK_GROUP_BYTES;

	if (m->uffd < 0 || is_spoiled(m, group))
		return;
	if (m->nspoiled == GCK_SPOILED_MAX)
		gck_dirty_drop(m);
	else
		m->spoiled[m->nspoiled++] = group;
}

bool gck_dirty_unwritten(const struct gck_dirty_tracker *m, uint64_t group)
{
	return m->uffd >= 0 && *m->base_hash && !meets(&m->written, group) &&
	       !meets(&m->since, group) && !meets(&m->looked, group) && !is_spoiled(m, group);
}
