/* SPDX-License-Identifier: Apache-2.0
 * Shared memory: memfds, files below /dev/shm, shared mappings of files and anonymous ones. Scan of
 * its descriptors, copy while the rank is held, restore. memory/mapping_scan.c finds its
 * mappings. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "shim/process/ipc/ipc.h"
#include "shim/process/memory/memory.h"
#include "shim/process/memory/external_files.h"
#include "shim/process/objects/log_prefix.h"
#include "shim/process/objects/objects.h"
#include "shim/process/rank/helper_link.h"

#define SHM "/dev/shm/"
#define READ_ALL (4ull << 20) /* up to this size holes are filled by reading, and not looked for */
#define FILL_MAX (256ull << 20) /* of holes, if they cannot be told from swapped pages */
#define ASK_PAGES ((uint64_t)GCK_SHIM_SCRATCH)

/* ---- scan ---------------------------------------------------------------------------------- */

/* The object of a mapping of this file, which has no name: the mapping may show another device
 * (btrfs). */
static int mapped_object(const struct gck_scan *s, const struct gck_fd_view *v)
{
	uint64_t device = v->st.st_dev;

	for (size_t i = 0; i < s->maps.n; i++) {
		const struct gck_vma *x = &s->maps.v[i];

		if (x->shared && x->inode == v->st.st_ino && !strcmp(x->name, v->link))
			device = x->device;
	}
	for (size_t i = 0; i < s->img->nobjects; i++) {
		const struct gck_object *o = &s->img->objects[i];

		if (o->inode == v->st.st_ino && (o->device == v->st.st_dev || o->device == device))
			return (int)i;
	}
	return -1;
}

/* A file without a name: an object if it is a memfd or mapped shared; else its content is stored
 * with the descriptor. */
int gck_fd_memfd(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	bool memfd = !strncmp(v->link, "/memfd:", 7);
	char name[256] = "";
	struct gck_object *o;
	int copy;

	x->object = mapped_object(s, v);
	if (!memfd && x->object < 0)
		return 0;
	if (memfd)
		snprintf(name, sizeof(name), "%.*s",
			 (int)(strlen(v->link) - strlen("/memfd: (deleted)")), v->link + 7);
	x->kind = GCK_FD_MEMFD;
	if (x->object < 0)
		x->object = gck_scan_object(s, v->st.st_dev, v->st.st_ino, name);
	if (x->object < 0)
		return -1;
	o = &s->img->objects[x->object];
	o->device = v->st.st_dev;
	o->size = (uint64_t)v->st.st_size;
	o->mode = v->st.st_mode & 07777;
	o->mtime_ns = gck_mtime_ns(&v->st);
	copy = memfd ? gck_fd_reopen(s->t, v->fd, s->err) : -1;
	if (copy >= 0) {
		struct statfs fs;
		int seals = fcntl(copy, F_GET_SEALS);

		o->seals = seals > 0 ? (uint32_t)seals : 0;
		if (fstatfs(copy, &fs) == 0 && fs.f_type == HUGETLBFS_MAGIC)
			gck_obstacle_add(s->f, true, v->object, "use transparent huge pages",
				 "a memfd of huge pages: %s", v->link);
		close(copy);
	}
	return memfd && copy < 0 ? -1 : 0;
}

/* A file that the process has made, if it is still there. */
static int add_made(struct gck_scan *s, const char *name)
{
	size_t known = s->img->nobjects;
	char path[PATH_MAX];
	struct stat st;
	int i;

	snprintf(path, sizeof path, SHM "%s", name);
	if (lstat(path, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return 0;
	i = gck_scan_object(s, st.st_dev, st.st_ino, path);
	if (i < 0 || (size_t)i < known)
		return i < 0 ? -1 : 0;
	s->img->objects[i].has_path = true;
	s->img->objects[i].owner = st.st_uid;
	s->img->objects[i].mode = st.st_mode & 07777;
	s->img->objects[i].size = (uint64_t)st.st_size;
	return 0;
}

int gck_scan_made(struct gck_scan *s)
{
	const size_t size = GCK_SHIM_MADE * sizeof(struct gck_shim_made);
	struct gck_shim_made *made;
	int failed;

	if (!s->t->shim->made)
		return 0;
	made = malloc(size);
	failed = made ? gck_memory_read(s->t->pid, s->t->shim->made, made, size, s->err)
		      : gck_fail(s->err, ENOMEM, "out of memory for names");
	for (size_t i = 0; i < GCK_SHIM_MADE && !failed; i++) {
		made[i].name[sizeof made[i].name - 1] = '\0';
		if (made[i].state == GCK_MADE_KNOWN)
			failed = add_made(s, made[i].name);
	}
	free(made);
	return failed;
}

bool gck_file_is_memory(const struct gck_file *x)
{
	return x->kind == GCK_FD_FILE && (x->written || x->unlinked) &&
	       !strncmp(x->path, SHM, strlen(SHM));
}

bool gck_object_is_whole(const struct gck_image *img, size_t object)
{
	for (size_t i = 0; i < img->nfiles; i++)
		if (img->files[i].object == (int32_t)object)
			return true;
	return img->objects[object].has_path || img->objects[object].segment;
}

/* ---- hold ---------------------------------------------------------------------------------- */

/* Open an object for reading; -1 if it has neither a name nor a descriptor. */
static int open_object(struct gck_hold *h, uint32_t index, struct stat *st)
{
	const struct gck_object *o = &h->img->objects[index];
	int fd = -1;

	if (o->has_path)
		fd = open(o->name, O_RDONLY | O_CLOEXEC);
	for (size_t i = 0; i < h->img->nfiles && fd < 0; i++)
		if (h->img->files[i].kind == GCK_FD_MEMFD &&
		    h->img->files[i].object == (int32_t)index)
			fd = gck_fd_reopen(h->t, gck_image_fd_of(h->img, i), NULL);
	if (fd >= 0 && (fstat(fd, st) || st->st_ino != o->inode || st->st_dev != o->device)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Find resident pages from start on, by mincore in the rank: pagemap shows only mapped pages. */
static int ask_resident(struct gck_hold *h, uint64_t start, uint64_t pages, unsigned char *out)
{
	struct gck_link_msg m = {.ncalls = 1};

	m.calls[0] = (struct gck_link_call){
		.nr = SYS_mincore, .args = {start, pages * GCK_PAGE, h->t->shim->scratch}};
	if (gck_helper_calls(h->t, &m, h->timeout_ms, h->err))
		return -1;
	if (m.calls[0].result < 0)
		return gck_fail(h->err, (int)-m.calls[0].result, "mincore at %llx: %s",
				(unsigned long long)start, strerror((int)-m.calls[0].result));
	return gck_memory_read(h->t->pid, h->t->shim->scratch, out, pages, h->err);
}

/* Count swapped pages with smaps, since mincore reports them as absent, as it does holes. */
static int find_swapped(struct gck_hold *h, const struct gck_map *m, uint64_t *swapped)
{
	struct gck_maps now = {0};
	const struct gck_vma *x;
	struct sysinfo node;

	*swapped = 0;
	if (!sysinfo(&node) && !node.totalswap)
		return 0;
	if (gck_smaps_read(h->t->proc, &now, h->err))
		return -1;
	x = gck_maps_find(&now, m->start);
	*swapped = x ? x->swapped : 0;
	gck_maps_free(&now);
	return 0;
}

/* Some pages are swapped out. Only reading the whole mapping finds every page, and that fills
 * holes. */
static int take_all(struct gck_hold *h, const struct gck_map *m, uint64_t swapped,
		    struct gck_ranges *r)
{
	uint64_t known = swapped, size = m->end - m->start;

	for (size_t i = 0; i < r->n; i++)
		known += r->v[i].end - r->v[i].start;
	if (size > known + FILL_MAX)
		return gck_fail(h->err, EAGAIN,
				"%llu of its %llu bytes are swapped out, and it is unknown which; "
				"use shm_open or memfd_create, or try again",
				(unsigned long long)swapped, (unsigned long long)size);
	r->n = 0;
	return gck_ranges_add(r, m->start, m->end, h->err);
}

static int find_resident(struct gck_hold *h, const struct gck_map *m, struct gck_ranges *r)
{
	uint64_t swapped;

	unsigned char resident[GCK_SHIM_SCRATCH];

	if (m->end - m->start <= READ_ALL)
		return gck_ranges_add(r, m->start, m->end, h->err);
	for (uint64_t at = m->start; at < m->end;) {
		uint64_t pages = (m->end - at) / GCK_PAGE;

		if (pages > ASK_PAGES)
			pages = ASK_PAGES;
		if (ask_resident(h, at, pages, resident))
			return -1;
		for (uint64_t i = 0; i < pages; i++, at += GCK_PAGE)
			if ((resident[i] & 1) &&
			    gck_ranges_add(r, at, at + GCK_PAGE, h->err))
				return -1;
	}
	if (find_swapped(h, m, &swapped))
		return -1;
	return swapped ? take_all(h, m, swapped, r) : 0;
}

static uint64_t end_of(const struct gck_object *o)
{
	return o->ranks ? o->to : o->size;
}

/* Cut a copy of a mapping to what of the object is this image's; false: nothing is. */
static bool cut(struct gck_map *m, const struct gck_object *o)
{
	uint64_t from = o->from > m->offset ? o->from - m->offset : 0;
	uint64_t to = end_of(o) > m->offset ? end_of(o) - m->offset : 0;

	to = (to + GCK_PAGE - 1) / GCK_PAGE * GCK_PAGE;
	to = to < m->end - m->start ? to : m->end - m->start;
	m->end = m->start + to;
	m->start += from;
	m->offset += from;
	return from < to;
}

/* Copy an object through its mappings: each page once, from the first mapping that shows it. */
static int hold_mapped(struct gck_hold *h, uint32_t index, const struct gck_source *s)
{
	const struct gck_object *o = &h->img->objects[index];
	uint64_t pages = (o->size + GCK_PAGE - 1) / GCK_PAGE;
	unsigned char *known = o->shared ? h->seen[o->shared - 1] : NULL;
	unsigned char *seen = known ? known : calloc(1, pages + 1);
	int result = seen ? 0 : gck_fail(h->err, ENOMEM, "out of memory for shared memory");

	for (size_t i = 0; i < h->img->nmaps && !result; i++) {
		struct gck_map m = h->img->maps[i];
		struct gck_ranges all = {0}, fresh = {0};

		if (m.object != (int32_t)index || !cut(&m, o))
			continue;
		result = find_resident(h, &m, &all);
		for (size_t k = 0; k < all.n && !result; k++)
			for (uint64_t at = all.v[k].start; at < all.v[k].end && !result;
			     at += GCK_PAGE) {
				uint64_t page = (at - m.start + m.offset) / GCK_PAGE;

				if (page >= pages || seen[page]++)
					continue;
				result = gck_ranges_add(&fresh, at, at + GCK_PAGE,
							h->err);
			}
		if (!result)
			result = gck_frozen_ranges(h->copies, GCK_FROZEN_OBJECT, index, s, &fresh,
						 (int64_t)(m.offset - m.start), h->err);
		free(all.v);
		free(fresh.v);
	}
	if (o->shared)
		h->seen[o->shared - 1] = seen;
	else
		free(seen);
	return result;
}

static int hold_object(struct gck_hold *h, uint32_t i, const struct gck_source *s)
{
	const struct gck_object *o = &h->img->objects[i];
	struct stat st;
	int fd, result;

	if (o->elsewhere)
		return 0;
	if (o->segment)
		return gck_hold_segment(h, i);
	fd = open_object(h, i, &st);
	if (fd < 0 && o->shared && gck_object_is_whole(h->img, i))
		return gck_fail(h->err, EACCES, "it cannot be opened");
	if (fd < 0)
		return hold_mapped(h, i, s);
	if (o->ranks && (uint64_t)st.st_size != o->size)
		result = gck_fail(h->err, EAGAIN, "its size changed while its ranks were being "
				  "held; try again");
	else
		result = gck_frozen_file(h->copies, GCK_FROZEN_OBJECT, i, fd, o->from, end_of(o),
					 h->err) ||
			 (o->has_path && gck_external_add(h->external, GCK_FROZEN_OBJECT, i, fd,
							  o->size, gck_mtime_ns(&st), h->err));
	close(fd);
	return result ? -1 : 0;
}

int gck_hold_objects(struct gck_hold *h)
{
	struct gck_source s;
	int result = 0;

	if (!h->img->nobjects)
		return 0;
	if (gck_source_open(&s, h->t->pid, h->err))
		return -1;
	for (uint32_t i = 0; i < h->img->nobjects && !result; i++) {
		result = hold_object(h, i, &s);
		if (result)
			gck_fail_in(h->err, "shared memory %s", h->img->objects[i].name);
	}
	gck_source_close(&s);
	return result;
}

/* ---- restore ------------------------------------------------------------------------------- */

/* Its seals may be set already, by another process that shares it. */
static int seal(const struct gck_object *o, int fd, struct gck_error *err)
{
	if (!o->seals || o->seals == F_SEAL_SEAL || fcntl(fd, F_GET_SEALS) == (int)o->seals ||
	    !fcntl(fd, F_ADD_SEALS, o->seals))
		return 0;
	return gck_fail(err, errno, "sealing the memory file \"%s\": %s", o->name, strerror(errno));
}

int gck_restore_share_object(struct gck_restore *r, const struct gck_object *o, int fd)
{
	int *place = o->shared && o->shared <= r->root->nmemory ? &r->root->memory[o->shared - 1]
								: NULL;

	if (place && *place < 0 && fd >= 0)
		*place = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	return place ? *place : -1;
}

/* The memory file of an object, which another process may have made. */
static int make_object(struct gck_restore *r, const struct gck_object *o)
{
	int made = gck_restore_share_object(r, o, -1);

	if (made >= 0)
		return fcntl(made, F_DUPFD_CLOEXEC, 0);
	return memfd_create(o->name,
			    MFD_CLOEXEC | (o->seals == F_SEAL_SEAL ? 0 : MFD_ALLOW_SEALING));
}

/* An object that is sealed against writing is sealed at once: it can then only be mapped read-only,
 * as it was. */
int gck_restore_objects(struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->nobjects; i++) {
		const struct gck_object *o = &r->img->objects[i];
		int fd;

		if (o->has_path || o->segment)
			continue;
		fd = make_object(r, o);
		r->objects[i] = fd;
		if (fd < 0 || (o->shared && gck_restore_share_object(r, o, fd) < 0))
			return gck_fail(err, errno, "shared memory \"%s\": %s", o->name,
					strerror(errno));
		if (gck_object_is_whole(r->img, i) && fchmod(fd, o->mode))
			return gck_fail(err, errno, "setting the mode of the memory file \"%s\": "
					"%s", o->name, strerror(errno));
		if ((!o->elsewhere &&
		     gck_restore_fill_file(r, &o->groups, o->size, fd, o->name, err)) ||
		    (o->seals & F_SEAL_WRITE && seal(o, fd, err)))
			return -1;
	}
	return 0;
}

/* Set the time, and the other seals, once everything is filled and mapped: a seal may forbid new
 * writable mappings. */
int gck_restore_seals(struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->nobjects; i++) {
		const struct gck_object *o = &r->img->objects[i];

		if (r->objects[i] < 0)
			continue;
		if (o->mtime_ns && gck_set_mtime(r->objects[i], o->mtime_ns))
			return gck_fail(err, errno, "setting the time of the memory file \"%s\": "
					"%s", o->name, strerror(errno));
		if (!(o->seals & F_SEAL_WRITE) && seal(o, r->objects[i], err))
			return -1;
	}
	return 0;
}
