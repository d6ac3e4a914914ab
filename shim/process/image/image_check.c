/* SPDX-License-Identifier: Apache-2.0
 * Relations between the values of an image that must hold: order, overlap, valid indexes. */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "shim/link.h"
#include "shim/process/image/image_fields.h"

/* Sorted by address; the same address only with other pages. */
static int check_groups(const struct gck_page_groups *w, const char *what, struct gck_error *err)
{
	struct gck_page_group last = {0};

	for (size_t i = 0; i < w->rows.n; i++) {
		struct gck_page_group x = gck_page_groups_at(w, i);

		if (x.address < last.address || (x.address == last.address && (x.mask & last.mask)))
			return gck_fail(err, EINVAL, "%s: page group %zu is out of order", what, i);
		last = x;
	}
	return 0;
}

/* Pages of a file: none begins after its end. */
static int check_content(const struct gck_page_groups *w, uint64_t size, const char *what,
			 struct gck_error *err)
{
	if (check_groups(w, what, err))
		return -1;
	for (size_t i = 0; i < w->rows.n; i++) {
		struct gck_page_group x = gck_page_groups_at(w, i);
		unsigned last = 63u - (unsigned)__builtin_clzll(x.mask);

		if (x.address + (uint64_t)last * GCK_PAGE >= size)
			return gck_fail(err, EINVAL, "%s: page group %zu is behind its end", what,
					i);
	}
	return 0;
}

static bool has_ring(const struct gck_image *img, uint64_t ring)
{
	for (size_t i = 0; ring && i < img->nfiles; i++)
		if (img->files[i].kind == GCK_FD_RING && img->files[i].id == ring)
			return true;
	return false;
}

static int check_map(const struct gck_image *img, const struct gck_map *m, struct gck_error *err)
{
	bool shared = m->kind == GCK_MAP_SHARED || m->kind == GCK_MAP_SHARED_FILE;

	if (m->start >= m->end || m->start % GCK_PAGE || m->end % GCK_PAGE || m->offset % GCK_PAGE)
		return gck_fail(err, EINVAL, "%" PRIx64 "-%" PRIx64 " is not a mapping", m->start,
				m->end);
	if ((m->kind == GCK_MAP_FILE) != (m->content >= 0) || shared != (m->object >= 0) ||
	    (m->content >= 0 && (size_t)m->content >= img->ncontents) ||
	    (m->object >= 0 && (size_t)m->object >= img->nobjects))
		return gck_fail(err, EINVAL, "%" PRIx64 " maps something that is not there",
				m->start);
	if ((m->kind == GCK_MAP_RING) != has_ring(img, m->ring))
		return gck_fail(err, EINVAL, "%" PRIx64 " maps an io_uring that is not there",
				m->start);
	if (m->kind == GCK_MAP_SHARED_FILE && !img->objects[m->object].has_path)
		return gck_fail(err, EINVAL, "%" PRIx64 " maps a file without a path", m->start);
	return 0;
}

static int check_maps(const struct gck_image *img, struct gck_error *err)
{
	for (size_t i = 0; i < img->nmaps; i++) {
		if (check_map(img, &img->maps[i], err))
			return gck_fail_in(err, "mapping %zu", i);
		if (i && img->maps[i].start < img->maps[i - 1].end)
			return gck_fail(err, EINVAL, "mapping %zu overlaps the one before", i);
	}
	return 0;
}

/* Every stored page belongs to a private mapping, or is the vdso's. Both lists are sorted. */
static int check_pages(const struct gck_image *img, struct gck_error *err)
{
	size_t m = 0;

	if (check_groups(&img->pages, "pages", err))
		return -1;
	for (size_t i = 0; i < img->pages.rows.n; i++) {
		struct gck_page_group w = gck_page_groups_at(&img->pages, i);

		while (m < img->nmaps && img->maps[m].end <= w.address)
			m++;
		for (size_t k = m, bit = 0; bit < GCK_GROUP_PAGES; bit++) {
			uint64_t page = w.address + bit * GCK_PAGE;

			if (!(w.mask >> bit & 1))
				continue;
			while (k < img->nmaps && img->maps[k].end <= page)
				k++;
			if (k == img->nmaps || img->maps[k].start > page ||
			    (img->maps[k].kind != GCK_MAP_ANON &&
			     img->maps[k].kind != GCK_MAP_FILE &&
			     img->maps[k].kind != GCK_MAP_VDSO))
				return gck_fail(err, EINVAL, "the page at %" PRIx64
						" is in no private mapping", page);
		}
	}
	return 0;
}

static int check_threads(const struct gck_image *img, struct gck_error *err)
{
	if (img->threads[0].vtid != img->vpid)
		return gck_fail(err, EINVAL, "the first thread is not the main thread");
	for (size_t i = 0; i < img->nthreads; i++) {
		if (!memchr(img->threads[i].name, 0, sizeof(img->threads[i].name)))
			return gck_fail(err, EINVAL, "thread %zu: its name has no end", i);
		for (size_t k = 0; k < i; k++)
			if (img->threads[i].vtid == img->threads[k].vtid)
				return gck_fail(err, EINVAL, "two threads have the TID %d",
						img->threads[i].vtid);
	}
	return 0;
}

/* Whether wait(2) can report this of a process that has ended without a core dump. */
static bool is_end(int status)
{
	static const int harmless[] = {SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU,
				       SIGURG,	SIGWINCH};
	int signal = WTERMSIG(status);

	for (size_t i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
		if (signal == harmless[i])
			return false;
	return WIFEXITED(status) || (signal == status && signal <= 64);
}

static bool is_child(const struct gck_image *img, int32_t vpid, size_t end)
{
	for (size_t i = 0; i < end; i++)
		if (img->children[i].vpid == vpid)
			return true;
	return false;
}

static int check_children(const struct gck_image *img, struct gck_error *err)
{
	size_t running = 0;

	for (size_t i = 0; i < img->nchildren; i++) {
		const struct gck_child *x = &img->children[i];
		bool twice = is_child(img, x->vpid, i);

		for (size_t k = 0; k < img->nthreads; k++)
			twice |= img->threads[k].vtid == x->vpid;
		if (twice)
			return gck_fail(err, EINVAL, "child %zu has the PID %d, which is another's",
					i, x->vpid);
		running += x->runs;
		if (!is_end(x->status) || (x->runs && x->status))
			return gck_fail(err, EINVAL, "child %zu cannot have ended with %x", i,
					(unsigned)x->status);
		if ((x->orphan && !x->runs) || (x->leader && (!x->orphan || x->session)))
			return gck_fail(err, EINVAL, "child %zu is no orphan", i);
		if (x->session ? x->group != x->vpid
			       : x->group && !is_child(img, x->group, i + 1))
			return gck_fail(err, EINVAL, "child %zu has a process group without a "
					"leader", i);
	}
	if (running != img->nprocesses)
		return gck_fail(err, EINVAL, "%zu children run, and there are %zu images", running,
				img->nprocesses);
	for (size_t i = 0; i < img->nprocesses; i++)
		if (gck_image_check(&img->processes[i], err))
			return gck_fail_in(err, "process %zu", i);
	return 0;
}

/* A socketpair has at most two ends. Several open files may be the same end of a pipe, if it was
 * opened again through /proc. */
static int check_ends(const struct gck_image *img, size_t i, struct gck_error *err)
{
	const struct gck_file *f = &img->files[i];
	size_t others = 0;

	for (size_t k = 0; k < i; k++) {
		const struct gck_file *o = &img->files[k];

		if (o->kind != f->kind || o->id != f->id)
			continue;
		if (++others > 1 && f->kind == GCK_FD_SOCKETPAIR)
			return gck_fail(err, EINVAL, "file %zu: too many ends", i);
	}
	return 0;
}

static bool is_socket(const struct gck_file *f)
{
	return f->kind == GCK_FD_SOCKETPAIR || f->kind == GCK_FD_LISTENER ||
	       f->kind == GCK_FD_SOCKET;
}

/* The name of a file is an absolute path, which an address can hold. */
static int check_name(const struct gck_file *f, struct gck_error *err)
{
	bool path = f->path && is_socket(f), name = f->name_size > 0;

	if (path && (f->path[0] != '/' || strlen(f->path) > GCK_SOCKET_NAME_MAX + 1))
		return gck_fail(err, EINVAL, "its path is not a socket's name");
	if ((name && (path || !is_socket(f))) ||
	    (f->kind == GCK_FD_LISTENER && !name && !path))
		return gck_fail(err, EINVAL, "its name is not a socket's");
	if ((f->nqueue && f->kind != GCK_FD_LISTENER) || (f->to && f->kind != GCK_FD_SOCKET))
		return gck_fail(err, EINVAL, "it cannot have connections");
	return 0;
}

static bool path_needed(const struct gck_file *f)
{
	return f->kind == GCK_FD_FILE || f->kind == GCK_FD_DIR || f->kind == GCK_FD_DEVICE;
}

/* One of /proc can only be read, and has a path that does not lead out of it. */
static bool proc_fits(const struct gck_file *f)
{
	const char *at = f->path;

	if (!at || *at == '/' || (f->flags & O_ACCMODE) != O_RDONLY || f->flags & O_CREAT)
		return false;
	while (strncmp(at, "..", 2) || (at[2] && at[2] != '/')) {
		at = strchr(at, '/');
		if (!at++)
			return true;
	}
	return false;
}

/* Each has an absolute path, and inotify's are in the order of their numbers. */
static bool watches_fit(const struct gck_file *f)
{
	bool numbers = f->kind == GCK_FD_INOTIFY;
	bool fit = !f->nwatches || numbers || f->kind == GCK_FD_FANOTIFY;

	for (size_t i = 0; i < f->nwatches && fit; i++) {
		int32_t last = i ? f->watches[i - 1].wd : 0;

		fit = f->watches[i].path[0] == '/' &&
		      (numbers ? f->watches[i].wd > last : !f->watches[i].wd);
	}
	return fit;
}

/* It has a name, as a directory below the root. */
static bool queue_fits(const struct gck_file *f)
{
	return f->kind == GCK_FD_QUEUE ? f->path && *f->path == '/' && f->mq_most && f->mq_size
				       : !f->mq_most && !f->mq_size;
}

static const struct gck_fd *find_fd(const struct gck_image *img, int32_t fd)
{
	size_t low = 0, high = img->nfds;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (img->fds[middle].fd < fd)
			low = middle + 1;
		else
			high = middle;
	}
	return low < img->nfds && img->fds[low].fd == fd ? &img->fds[low] : NULL;
}

static bool is_power(uint32_t x)
{
	return !(x & (x - 1));
}

/* Its tables name files that are open. */
static bool ring_fits(const struct gck_image *img, const struct gck_file *f)
{
	const struct gck_ring *x = f->rings;
	bool fit = (f->kind == GCK_FD_RING) == (f->nrings == 1);

	if (f->kind != GCK_FD_RING || !fit)
		return fit;
	fit = f->id && is_power(x->submissions) && is_power(x->completions) &&
	      x->completions >= x->submissions;
	for (size_t i = 0; i < x->nfiles && fit; i++)
		fit = x->files[i].fd < 0 || find_fd(img, x->files[i].fd);
	return fit;
}

/* Only a connected socket brings descriptors, which are under way themselves. */
static int check_rights(const struct gck_image *img, const struct gck_file *f,
			const struct gck_packet *p, struct gck_error *err)
{
	for (size_t i = 0; i < p->nrights; i++) {
		const struct gck_fd *d = find_fd(img, p->rights[i].fd);

		if (!d || !d->in_flight || f->kind != GCK_FD_SOCKETPAIR)
			return gck_fail(err, EINVAL, "descriptor %d is not under way",
					p->rights[i].fd);
	}
	return 0;
}

static int check_packets(const struct gck_image *img, const struct gck_file *f,
			 struct gck_error *err)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < f->npackets; i++) {
		sum += f->packets[i].size;
		if (check_rights(img, f, &f->packets[i], err))
			return -1;
	}
	return !f->npackets || sum == f->data_size
		       ? 0
		       : gck_fail(err, EINVAL, "its packets are not its data");
}

static bool leases_fit(const struct gck_file *f)
{
	bool both = (f->flags & O_ACCMODE) == O_RDWR, fit = true;

	for (size_t i = 0; i < f->nlocks && fit; i++)
		fit = f->locks[i].kind != GCK_LOCK_LEASE ||
		      (f->kind == GCK_FD_FILE && !f->unlinked && f->locks[i].exclusive == both);
	return fit;
}

static int check_file(const struct gck_image *img, size_t i, struct gck_error *err)
{
	const struct gck_file *f = &img->files[i];

	if (path_needed(f) && (!f->path || f->path[0] != '/'))
		return gck_fail(err, EINVAL, "file %zu has no path", i);
	if (f->kind == GCK_FD_PROC && !proc_fits(f))
		return gck_fail(err, EINVAL, "file %zu is not one of /proc that is read", i);
	if (!leases_fit(f))
		return gck_fail(err, EINVAL, "file %zu has a lease that a restart cannot take", i);
	if (!watches_fit(f))
		return gck_fail(err, EINVAL, "file %zu has watches that it cannot have", i);
	if (!queue_fits(f))
		return gck_fail(err, EINVAL, "file %zu is not a message queue that can be made", i);
	if (!ring_fits(img, f))
		return gck_fail(err, EINVAL, "file %zu is not an io_uring that can be made", i);
	if (check_name(f, err))
		return gck_fail_in(err, "file %zu", i);
	if (f->nterminals && f->kind != GCK_FD_STDIO &&
	    (f->kind != GCK_FD_TERMINAL || !f->write_end))
		return gck_fail(err, EINVAL, "file %zu is no terminal's master", i);
	if ((f->kind == GCK_FD_MEMFD) != (f->object >= 0) ||
	    (f->object >= 0 && (size_t)f->object >= img->nobjects))
		return gck_fail(err, EINVAL, "file %zu has an object that is not there", i);
	for (size_t k = 0; k < f->nentries; k++)
		if (!find_fd(img, f->entries[k].fd))
			return gck_fail(err, EINVAL, "file %zu watches descriptor %d, which is not "
					"open", i, f->entries[k].fd);
	if (check_content(&f->data, f->data_size, "file", err) || check_packets(img, f, err))
		return gck_fail_in(err, "file %zu", i);
	if (f->kind == GCK_FD_PIPE || f->kind == GCK_FD_SOCKETPAIR)
		return check_ends(img, i, err);
	return 0;
}

static int check_files(const struct gck_image *img, struct gck_error *err)
{
	for (size_t i = 0; i < img->nfds; i++) {
		if (i && img->fds[i].fd <= img->fds[i - 1].fd)
			return gck_fail(err, EINVAL, "descriptor %zu is out of order", i);
		if (i && img->fds[i - 1].in_flight && !img->fds[i].in_flight)
			return gck_fail(err, EINVAL, "descriptor %zu is behind those that are "
					"under way", i);
		if (img->fds[i].file >= img->nfiles)
			return gck_fail(err, EINVAL, "descriptor %zu has a file that is not there",
					i);
	}
	for (size_t i = 0; i < img->nfiles; i++)
		if (check_file(img, i, err))
			return -1;
	return 0;
}

static int check_objects(const struct gck_image *img, struct gck_error *err)
{
	for (size_t i = 0; i < img->ncontents; i++)
		if (check_content(&img->contents[i].groups, img->contents[i].size, "content", err))
			return gck_fail_in(err, "content %zu", i);
	for (size_t i = 0; i < img->nobjects; i++) {
		const struct gck_object *o = &img->objects[i];

		if (o->has_path && o->name[0] != '/')
			return gck_fail(err, EINVAL, "object %zu has no absolute path", i);
		if ((o->elsewhere || o->ranks) && !o->shared)
			return gck_fail(err, EINVAL, "object %zu is shared, and has no number", i);
		if (o->elsewhere && o->groups.rows.n)
			return gck_fail(err, EINVAL, "object %zu has its content here and "
					"elsewhere", i);
		if (check_content(&o->groups, o->size, "object", err))
			return gck_fail_in(err, "object %zu", i);
	}
	return 0;
}

/* A segment's bytes are an object's, the others' are as many as they say. */
static bool ipc_fits(const struct gck_image *img, const struct gck_ipc *x)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < x->nmessages; i++)
		sum += x->messages[i].size;
	if (x->kind == GCK_IPC_SEMAPHORES && !x->elsewhere)
		sum = x->size * sizeof(uint16_t);
	if (x->elsewhere && (!x->ranks || x->nmessages))
		return false;
	if (x->kind != GCK_IPC_MEMORY)
		return x->object < 0 && x->data_size == sum;
	return x->object >= 0 && (size_t)x->object < img->nobjects && !x->data_size &&
	       img->objects[x->object].segment == (uint32_t)x->id + 1 &&
	       img->objects[x->object].size == x->size;
}

static int check_ipc(const struct gck_image *img, struct gck_error *err)
{
	for (size_t i = 0; i < img->nipc; i++)
		if (!ipc_fits(img, &img->ipc[i]))
			return gck_fail(err, EINVAL, "System V object %zu is not whole", i);
	return 0;
}

int gck_image_check(const struct gck_image *img, struct gck_error *err)
{
	if (img->exe[0] != '/' || img->cwd[0] != '/')
		return gck_fail(err, EINVAL, "the program or its directory has no absolute path");
	if (check_maps(img, err) || check_pages(img, err) ||
	    check_groups(&img->guards, "guards", err) ||
	    check_groups(&img->device, "device", err) || check_threads(img, err) ||
	    check_children(img, err) || check_objects(img, err) || check_files(img, err) ||
	    check_ipc(img, err))
		return -1;
	return 0;
}
