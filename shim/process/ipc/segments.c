/* SPDX-License-Identifier: Apache-2.0
 * System V shared memory. Its bytes are an object of the image, as of other shared memory;
 * memory/mapping_scan.c finds where it is attached. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/process/ipc/ipc.h"
#include "shim/process/memory/memory.h"
#include "shim/process/rank/helper_link.h"
#include "shim/process/tree/tree.h"

#ifndef SHM_DEST
#define SHM_DEST 01000
#define SHM_LOCKED 02000
#endif
#define DETACH_TRIES 20 /* until clones have been scheduled */
#define DETACH_PAUSE_US 1000
#define BATCH_FULL (GCK_REMOTE_CALLS - 16)

static uint64_t pages_of(uint64_t size)
{
	return (size + GCK_PAGE - 1) / GCK_PAGE;
}

/* ---- scan ---------------------------------------------------------------------------------- */

static bool is_of(const char *line, pid_t pid, int64_t since, int32_t *number)
{
	long long changed;
	int maker;

	return sscanf(line, "%*d %d %*o %*u %d %*d %*u %*u %*u %*u %*u %*u %*u %lld", number,
		      &maker, &changed) == 3 && maker == pid && changed >= since;
}

static int look(struct gck_ipc *x, struct ipc_perm *rights)
{
	struct shmid_ds ds;

	if (shmctl(x->number, IPC_STAT, &ds))
		return -1;
	*rights = ds.shm_perm;
	x->size = ds.shm_segsz;
	x->users = ds.shm_nattch;
	x->last[0] = ds.shm_cpid;
	return 0;
}

/* How often a process has attached it, as the kernel counts. */
static uint64_t count_mappings(pid_t pid, int32_t number)
{
	char path[64], line[512];
	uint64_t n = 0, inode;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f))
		n += strstr(line, " /SYSV") &&
		     sscanf(line, "%*x-%*x %*s %*x %*x:%*x %" SCNu64, &inode) == 1 &&
		     inode == (uint64_t)number;
	if (f)
		fclose(f);
	return n;
}

/* Whether a process has attached it that has another agent than the rank. All mappings are counted
 * before the kernel's number is read, which becomes less while clones detach theirs. */
static bool is_attached_outside(int32_t number, pid_t rank)
{
	DIR *d = opendir("/proc");
	const struct dirent *e;
	struct shmid_ds ds;
	uint64_t n = 0;

	while (d && (e = readdir(d))) {
		pid_t pid = atoi(e->d_name);
		uint64_t own = pid > 0 ? count_mappings(pid, number) : 0;

		if (own && (gck_is_descendant(pid, rank) || gck_is_of_step(pid, rank)))
			n += own;
	}
	if (d)
		closedir(d);
	return !shmctl(number, IPC_STAT, &ds) && ds.shm_nattch > n;
}

static pid_t outside(const struct gck_ipc *x, pid_t rank, bool beside)
{
	if (!beside && x->users > x->attached && is_attached_outside(x->number, rank))
		return -1;
	return gck_ipc_is_outside(x->last[0], rank) ? x->last[0] : 0;
}

int gck_segment_check(int32_t number, uint64_t attached, pid_t rank, struct gck_error *err)
{
	struct shmid_ds ds;
	char name[64];

	for (int tries = 0; tries < DETACH_TRIES; tries++) {
		if (shmctl(number, IPC_STAT, &ds) || ds.shm_nattch <= attached)
			return 0;
		usleep(DETACH_PAUSE_US);
	}
	if (!is_attached_outside(number, rank))
		return 0;
	gck_ipc_name(GCK_IPC_MEMORY, number, name, sizeof name);
	return gck_fail(err, EOPNOTSUPP, "%s: %s; use it in one step alone", name,
			GCK_SEGMENT_OUTSIDE);
}

/* Whether mapping i begins an attachment; *n: the mappings that it is now. */
static bool is_attachment(const struct gck_image *img, size_t i, size_t *n)
{
	const struct gck_map *m = &img->maps[i];

	if (m->object < 0 || !img->objects[m->object].segment ||
	    (m->offset && i && m[-1].object == m->object &&
	     m[-1].start - m[-1].offset == m->start - m->offset))
		return false;
	for (*n = 1; i + *n < img->nmaps && m[*n].object == m->object &&
		     m[*n].start - m[*n].offset == m->start - m->offset;)
		++*n;
	return true;
}

static bool is_whole(const struct gck_image *img, size_t i, size_t n)
{
	const struct gck_map *m = &img->maps[i];
	uint64_t at = 0;

	for (size_t k = 0; k < n; k++) {
		if (m[k].offset != at)
			return false;
		at += m[k].end - m[k].start;
	}
	return at == pages_of(img->objects[m->object].size) * GCK_PAGE;
}

void gck_scan_attachments(struct gck_scan *s)
{
	const struct gck_image *img = s->img;
	char object[64];
	size_t n;

	for (size_t i = 0; i < img->nmaps; i++) {
		if (!is_attachment(img, i, &n) || is_whole(img, i, n))
			continue;
		snprintf(object, sizeof object, "memory %llx",
			 (unsigned long long)img->maps[i].start);
		gck_obstacle_add_passing(s->f, object, "detach it as a whole", "a part of this "
					 "System V shared memory was unmapped");
	}
}

/* ---- hold ---------------------------------------------------------------------------------- */

/* Bytes of a segment that are swapped out, or all if it is not known. */
static uint64_t swapped(int32_t number)
{
	FILE *f = fopen("/proc/sysvipc/shm", "re");
	unsigned long long bytes = UINT64_MAX;
	char line[300];
	int found = -1;

	while (f && found != number && fgets(line, sizeof line, f))
		if (sscanf(line, "%*d %d %*o %*u %*d %*d %*u %*u %*u %*u %*u %*u %*u %*u %*u %llu",
			   &found, &bytes) != 2)
			found = -1;
	if (f)
		fclose(f);
	return found == number ? bytes : UINT64_MAX;
}

/* Pages that a process has touched, from `first` on. mincore() shows a swapped page as a hole. */
static int find_pages(uint64_t at, uint64_t first, uint64_t pages, bool all, struct gck_ranges *r,
		      struct gck_error *err)
{
	unsigned char *resident = malloc(pages);
	int failed = 0;

	if (!resident)
		return gck_fail(err, ENOMEM, "out of memory for a segment's pages");
	if (mincore((void *)(uintptr_t)at, pages * GCK_PAGE, resident))
		all = true;
	for (uint64_t i = first; i < pages && !failed; i++)
		if (all || resident[i] & 1)
			failed = gck_ranges_add(r, at + i * GCK_PAGE, at + (i + 1) * GCK_PAGE, err);
	free(resident);
	return failed;
}

static int copy(struct gck_hold *h, uint32_t i, int32_t number, uint64_t at)
{
	const struct gck_object *o = &h->img->objects[i];
	uint64_t end = o->ranks ? o->to : o->size;
	struct gck_ranges r = {0};
	struct gck_source own;
	int failed;

	if (gck_source_open(&own, getpid(), h->err))
		return -1;
	failed = find_pages(at, o->ranks ? o->from / GCK_PAGE : 0, pages_of(end),
			    swapped(number) != 0, &r, h->err) ||
		 gck_frozen_ranges(h->copies, GCK_FROZEN_OBJECT, i, &own, &r, -(int64_t)at, h->err);
	free(r.v);
	gck_source_close(&own);
	return failed ? -1 : 0;
}

int gck_hold_segment(struct gck_hold *h, uint32_t i)
{
	const struct gck_object *o = &h->img->objects[i];
	void *at = shmat((int)o->inode, NULL, SHM_RDONLY);
	int failed;

	if (at == (void *)-1)
		return gck_fail(h->err, errno, "System V shared memory %d cannot be attached: %s",
				(int)o->inode, strerror(errno));
	failed = copy(h, i, (int32_t)o->inode, (uint64_t)(uintptr_t)at);
	shmdt(at);
	return failed;
}

void gck_segments_detach(const struct gck_image *img, struct gck_link_msg *m)
{
	for (size_t i = 0, n; i < img->nmaps && m->ncalls < GCK_LINK_MAX_CALLS; i++)
		if (is_attachment(img, i, &n))
			gck_helper_call(m, SYS_shmdt, img->maps[i].start, 0, 0, 0);
}

/* ---- restore ------------------------------------------------------------------------------- */

/* One that was removed lives as long as it is attached: it is removed again at once. */
static int fill(struct gck_restore *r, struct gck_ipc *x, struct gck_error *err)
{
	const struct gck_object *o = &r->img->objects[x->object];
	void *at = shmat(x->now, NULL, 0);

	if (at == (void *)-1)
		return gck_fail(err, errno, "it cannot be attached: %s", strerror(errno));
	x->ours = at;
	if (x->mode & SHM_DEST && shmctl(x->now, IPC_RMID, NULL))
		return gck_fail(err, errno, "it cannot be removed: %s", strerror(errno));
	if (x->mode & SHM_LOCKED && shmctl(x->now, SHM_LOCK, NULL))
		return gck_fail(err, errno, "it cannot be locked: %s: raise the limit (ulimit -l)",
				strerror(errno));
	return gck_restore_fill_memory(r, &o->groups, o->size, at, "System V shared memory", err);
}

void gck_segment_leave(struct gck_ipc *x)
{
	if (x->ours)
		shmdt(x->ours);
	x->ours = NULL;
}

static int control(int number, int command, mode_t mode)
{
	struct shmid_ds ds;

	if (command == IPC_SET && shmctl(number, IPC_STAT, &ds))
		return -1;
	ds.shm_perm.mode = mode;
	return shmctl(number, command, &ds);
}

static int run(struct gck_restore *r, struct gck_batch *b, struct gck_error *err)
{
	if (gck_remote_run(&r->remote, r->remote.pid, b, err))
		return -1;
	for (unsigned i = 0; i < b->n; i++)
		if (b->calls[i].result < 0 && b->calls[i].nr == SYS_mprotect)
			return gck_remote_check(b->calls[i].result, err, "protecting System V "
						"shared memory at %llx",
						(unsigned long long)b->calls[i].args[0]);
	b->n = 0;
	return 0;
}

/* Attached as a whole, its n mappings get their own protection. */
static int attach(struct gck_restore *r, const struct gck_map *m, size_t n, struct gck_error *err)
{
	int32_t id = (int32_t)(r->img->objects[m->object].segment - 1);
	const struct gck_ipc *x = gck_ipc_of(r->root->img, GCK_IPC_MEMORY, id);
	bool read = m->flags & GCK_MAP_READ_SHARED;
	int prot = read ? PROT_READ : PROT_READ | PROT_WRITE;
	struct gck_batch b = {.n = 0};
	int64_t at;

	if (!x)
		return gck_fail(err, EINVAL, "it is not in the image");
	at = gck_remote_call(&r->remote, r->remote.pid, err, SYS_shmat, (uint64_t)x->now, m->start,
			     read ? SHM_RDONLY : 0);
	if (gck_remote_check(at, err, "it cannot be attached"))
		return -1;
	for (size_t k = 0; k < n; k++) {
		if (m[k].prot != prot)
			gck_batch_add(&b, SYS_mprotect, m[k].start, m[k].end - m[k].start,
				      (uint64_t)m[k].prot);
		gck_map_advise(&b, &m[k]);
		if (b.n >= BATCH_FULL && run(r, &b, err))
			return -1;
	}
	return run(r, &b, err);
}

int gck_restore_attach(struct gck_restore *r, struct gck_error *err)
{
	const struct gck_image *img = r->img;
	size_t n;

	for (size_t i = 0; i < img->nmaps; i++) {
		if (!is_attachment(img, i, &n))
			continue;
		if (is_whole(img, i, n) ? attach(r, &img->maps[i], n, err)
					: gck_fail(err, EINVAL, "a part of it is missing"))
			return gck_fail_in(err, "System V shared memory at %llx",
					   (unsigned long long)img->maps[i].start);
	}
	return 0;
}

const struct gck_ipc_ops gck_ipc_memory = {
	.file = "/proc/sysvipc/shm", .what = "System V shared memory", .right = 0400,
	.is_of = is_of, .look = look, .outside = outside, .get = SYS_shmget, .sized = true,
	.fill = fill, .control = control,
};
