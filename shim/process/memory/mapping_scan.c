/* SPDX-License-Identifier: Apache-2.0
 * Scan of the mappings: the kind of each, and its file or shared object. */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "common/base/environ_slots.h"
#include "common/place/owner.h"
#include "shim/process/memory/memory.h"
#include "shim/process/proc/procfs.h"

#define SHM "/dev/shm/"

/* A mapping being scanned. */
struct area {
	const struct gck_vma *vma;
	uint32_t flags;        /* GCK_VM_*, as far as they are known */
	char linked[32 + NAME_MAX]; /* the file's name, unless it is the mapping's; else "" */
	bool deleted;          /* the file's name is gone, or is another file's now */
	uint64_t device;       /* of the file: from stat(2), or from the mapping if deleted */
	struct stat st;        /* of the file, unless deleted */
	char object[64];       /* for messages */
};

static bool starts(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* The same mapping at the time of smaps; a stack may have grown at its start since. */
static const struct gck_vma *before(const struct gck_scan *s, const struct gck_vma *x)
{
	const struct gck_vma *old = gck_maps_find(s->flags, x->start);

	if (!old)
		old = gck_maps_find(s->flags, x->end - 1);
	return old && old->known && old->shared == x->shared && old->inode == x->inode ? old : NULL;
}

/* Whether a shared mapping's file is open for writing. */
static bool may_write(const struct gck_scan *s, const struct gck_vma *x)
{
	char name[64];
	struct stat st;

	snprintf(name, sizeof name, "map_files/%llx-%llx", (unsigned long long)x->start,
		 (unsigned long long)x->end);
	return fstatat(s->t->proc, name, &st, AT_SYMLINK_NOFOLLOW) || st.st_mode & S_IWUSR;
}

/* The mapping's flags at the time of smaps. If it did not exist then, only VM_MAYWRITE of a shared
 * mapping is known. */
static uint32_t known_flags(const struct gck_scan *s, const struct gck_vma *x)
{
	const struct gck_vma *old = before(s, x);

	if (old)
		return old->flags;
	return x->shared && may_write(s, x) ? GCK_VM_MAYWRITE : 0;
}

static uint32_t known_key(const struct gck_scan *s, const struct gck_vma *x)
{
	const struct gck_vma *old = before(s, x);

	return old ? old->key : 0;
}

static void refuse(struct gck_scan *s, const struct area *a, const char *remedy, const char *what)
{
	gck_obstacle_add(s->f, true, a->object, remedy, "%s%s%s", what, *a->vma->name ? ": " : "",
		 a->vma->name);
}

/* Refuse mappings of kinds that no image holds. */
static bool refused(struct gck_scan *s, const struct area *a)
{
	const char *name = a->vma->name;

	if ((a->flags & GCK_VM_HUGETLB) || starts(name, "/anon_hugepage"))
		refuse(s, a, "use transparent huge pages", "huge pages of hugetlbfs");
	else if (starts(name, "/[aio]"))
		refuse(s, a, "use threads", "asynchronous I/O of the kernel (io_setup)");
	else if (starts(name, "anon_inode:"))
		refuse(s, a, "close it first", "memory of a kernel object");
	else if (a->flags & GCK_VM_DEVICE)
		refuse(s, a, "close the device first", "memory of a device");
	else if (a->flags & GCK_VM_USERFAULT)
		refuse(s, a, "unregister it first", "memory under userfaultfd");
	else if (a->flags & GCK_VM_SHADOW)
		refuse(s, a, "run it without shadow stacks", "a shadow stack");
	else if (a->flags & GCK_VM_GUARDS && a->vma->shared)
		refuse(s, a, "use PROT_NONE", "shared memory with guard pages");
	else if (known_key(s, a->vma))
		refuse(s, a, "use key 0", "memory with a protection key");
	else if (!a->deleted && a->vma->inode && *name == '/' && !S_ISREG(a->st.st_mode) &&
		 strcmp(name, "/dev/zero"))
		refuse(s, a, "close it first", "a mapping of something that is not a regular file");
	else
		return false;
	return true;
}

static int find_content(struct gck_scan *s, const struct area *a)
{
	struct gck_image *img = s->img;
	const struct gck_vma *x = a->vma;
	struct gck_content *c;

	for (size_t i = 0; i < img->ncontents; i++)
		if (img->contents[i].device == a->device && img->contents[i].inode == x->inode)
			return (int)i;
	c = gck_grow(&img->contents, &img->ncontents, sizeof(*c), s->err);
	if (!c)
		return -1;
	c->path = strdup(x->name);
	if (!c->path)
		return gck_fail(s->err, ENOMEM, "out of memory for the image");
	c->device = a->device;
	c->inode = x->inode;
	c->carried = a->deleted;
	if (!a->deleted) {
		c->owner = a->st.st_uid;
		c->size = (uint64_t)a->st.st_size;
		c->mtime_ns = a->st.st_mtim.tv_sec * 1000000000ll + a->st.st_mtim.tv_nsec;
		c->carried = c->size <= GCK_CARRY_MAX;
	}
	return (int)img->ncontents - 1;
}

static int file_area(struct gck_scan *s, const struct area *a, struct gck_map *m)
{
	struct gck_content *c;

	m->kind = GCK_MAP_FILE;
	m->content = find_content(s, a);
	if (m->content < 0)
		return -1;
	c = &s->img->contents[m->content];
	c->carried |= (m->prot & PROT_EXEC) != 0;
	if (a->deleted && c->size < m->offset + (m->end - m->start))
		c->size = m->offset + (m->end - m->start);
	return 0;
}

/* Nothing runs its text after a restart. It loses PROT_EXEC, since a strict kernel may refuse
 * anonymous executable memory. */
static int changes_only_area(struct gck_map *m)
{
	m->kind = GCK_MAP_ANON;
	m->changes_only = true;
	m->prot &= ~PROT_EXEC;
	m->offset = 0;
	return 0;
}

/* Nothing uses it any more, but nothing else must come to its place. */
static int empty_area(struct gck_map *m)
{
	m->kind = GCK_MAP_ANON;
	m->empty = true;
	m->offset = 0;
	return 0;
}

int gck_scan_object(struct gck_scan *s, uint64_t device, uint64_t inode, const char *name)
{
	struct gck_image *img = s->img;
	struct gck_object *o;

	for (size_t i = 0; i < img->nobjects; i++)
		if (img->objects[i].device == device && img->objects[i].inode == inode)
			return (int)i;
	o = gck_grow(&img->objects, &img->nobjects, sizeof(*o), s->err);
	if (!o)
		return -1;
	o->name = strdup(name);
	if (!o->name)
		return gck_fail(s->err, ENOMEM, "out of memory for the image");
	o->device = device;
	o->inode = inode;
	return (int)img->nobjects - 1;
}

/* The name of a memfd: "/memfd:name (deleted)" is "name". Other objects without a file have the
 * name "". */
static const char *object_name(const char *name, bool deleted, char buffer[256])
{
	if (!deleted)
		return name;
	buffer[0] = '\0';
	if (starts(name, "/memfd:"))
		snprintf(buffer, 256, "%.*s", (int)(strlen(name) - strlen("/memfd: (deleted)")),
			 name + strlen("/memfd:"));
	return buffer;
}

/* The name in the mapping is gone, but the file may have another: sem_open() makes a semaphore
 * under a name that it links to the semaphore's own, and removes. */
static void find_link(struct area *a)
{
	DIR *dir = opendir(SHM);
	struct dirent *e;

	while (dir && a->deleted && (e = readdir(dir))) {
		if (e->d_ino != a->vma->inode)
			continue;
		snprintf(a->linked, sizeof a->linked, SHM "%s", e->d_name);
		a->deleted = gck_owner_fstatat(AT_FDCWD, a->linked, &a->st,
					       AT_SYMLINK_NOFOLLOW) ||
			     a->st.st_ino != a->vma->inode || a->st.st_dev != a->device;
	}
	if (dir)
		closedir(dir);
}

static int shared_area(struct gck_scan *s, struct area *a, struct gck_map *m)
{
	struct gck_object *o;
	char buffer[256];
	const char *name = a->vma->name;
	bool shm = starts(name, SHM);

	if (a->deleted && shm)
		find_link(a);
	if (!a->deleted && *a->linked)
		name = a->linked;
	m->kind = a->deleted || shm ? GCK_MAP_SHARED : GCK_MAP_SHARED_FILE;
	m->object = gck_scan_object(s, a->device, a->vma->inode,
				    object_name(name, a->deleted, buffer));
	if (m->object < 0)
		return -1;
	o = &s->img->objects[m->object];
	if (!a->deleted) {
		o->has_path = true;
		o->owner = a->st.st_uid;
		o->mode = a->st.st_mode & 07777;
		o->size = (uint64_t)a->st.st_size;
	} else if (o->size < m->offset + (m->end - m->start)) {
		o->size = m->offset + (m->end - m->start);
	}
	return 0;
}

/* System V shared memory has no file, but such a name; its inode is its number. */
static bool is_segment(const struct gck_vma *x)
{
	return x->shared && starts(x->name, "/SYSV") && gck_path_deleted(x->name);
}

static int segment_area(struct gck_scan *s, const struct area *a, struct gck_map *m)
{
	m->kind = GCK_MAP_SHARED;
	if (!(a->flags & GCK_VM_MAYWRITE))
		m->flags |= GCK_MAP_READ_SHARED;
	m->object = gck_scan_object(s, GCK_SEGMENT, a->vma->inode, "");
	return m->object < 0 ? -1 : 0;
}

/* Each ring has an inode of its own. */
static int ring_area(const struct area *a, struct gck_map *m)
{
	m->kind = GCK_MAP_RING;
	m->ring = a->vma->inode;
	return 0;
}

/* Find out whether this name still belongs to the mapped file. On btrfs, and on overlayfs of older
 * kernels, stat(2) and /proc/PID/maps report different devices. */
static void find_file(struct area *a)
{
	const struct gck_vma *x = a->vma;

	a->deleted = true;
	a->device = x->device;
	if (*x->name != '/' || !x->inode ||
	    gck_owner_fstatat(AT_FDCWD, x->name, &a->st, 0) || a->st.st_ino != x->inode ||
	    (a->st.st_dev != x->device && gck_path_deleted(x->name)))
		return;
	a->deleted = false;
	a->device = a->st.st_dev;
}

/* 1: nothing to store. */
static int classify(struct gck_scan *s, struct area *a, struct gck_map *m)
{
	const struct gck_vma *x = a->vma;
	bool file = x->inode && strcmp(x->name, "/dev/zero");

	if (!strcmp(x->name, "[vsyscall]") || gck_exclusions_device(&s->t->excluded, x->name))
		return 1;
	if (!strcmp(x->name, "[vdso]") || starts(x->name, "[vvar")) {
		m->kind = x->name[2] == 'd' ? GCK_MAP_VDSO : GCK_MAP_VVAR;
		return 0;
	}
	if (gck_exclusions_parents_device(&s->t->excluded, x->name))
		return empty_area(m);
	if (!strcmp(x->name, "anon_inode:[io_uring]"))
		return ring_area(a, m);
	find_file(a);
	if (refused(s, a))
		return 1;
	if (is_segment(x))
		return segment_area(s, a, m);
	if (x->shared && a->flags & GCK_VM_MAYWRITE)
		return shared_area(s, a, m);
	if (x->shared)
		m->flags |= GCK_MAP_READ_SHARED;
	if (file && gck_exclusions_changes_only(&s->t->excluded, x->start, x->end))
		return changes_only_area(m);
	if (file)
		return file_area(s, a, m);
	m->kind = GCK_MAP_ANON;
	m->offset = 0;
	return 0;
}

int gck_map_share(struct gck_image *img, struct gck_map *m, struct gck_error *err)
{
	struct gck_content *c = &img->contents[m->content];
	const struct gck_vma x = {.start = m->start, .end = m->end, .device = c->device,
				  .inode = c->inode, .name = m->name};
	struct gck_scan s = {.img = img, .err = err};
	struct area a = {.vma = &x};

	find_file(&a);
	c->carried = true; /* no restart needs it */
	m->content = -1;
	return shared_area(&s, &a, m);
}

uint32_t gck_map_flags(uint32_t vm)
{
	static const uint32_t pairs[][2] = {
		{GCK_VM_DONTFORK, GCK_MAP_DONTFORK}, {GCK_VM_WIPEONFORK, GCK_MAP_WIPEONFORK},
		{GCK_VM_HUGE, GCK_MAP_HUGE}, {GCK_VM_NOHUGE, GCK_MAP_NOHUGE},
		{GCK_VM_LOCKED, GCK_MAP_LOCKED}, {GCK_VM_GROWSDOWN, GCK_MAP_GROWSDOWN},
		{GCK_VM_DONTDUMP, GCK_MAP_DONTDUMP}, {GCK_VM_ONFAULT, GCK_MAP_ONFAULT},
		{GCK_VM_SEQUENTIAL, GCK_MAP_SEQUENTIAL}, {GCK_VM_RANDOM, GCK_MAP_RANDOM},
		{GCK_VM_MERGEABLE, GCK_MAP_MERGEABLE}, {GCK_VM_DROPPABLE, GCK_MAP_DROPPABLE},
		{GCK_VM_SEALED, GCK_MAP_SEALED},
	};
	uint32_t flags = vm & GCK_VM_NORESERVE ? 0 : GCK_MAP_RESERVED;

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		if (vm & pairs[i][0])
			flags |= pairs[i][1];
	return flags;
}

static int scan_area(struct gck_scan *s, const struct gck_vma *x)
{
	struct area a = {.vma = x, .flags = known_flags(s, x)};
	struct gck_map m = {.start = x->start, .end = x->end, .prot = x->prot, .content = -1,
			    .object = -1, .offset = x->offset, .flags = gck_map_flags(a.flags)};
	struct gck_map *slot;
	int result;

	snprintf(a.object, sizeof(a.object), "memory %llx-%llx", (unsigned long long)x->start,
		 (unsigned long long)x->end);
	result = classify(s, &a, &m);
	if (result)
		return result < 0 ? -1 : 0;
	slot = gck_grow(&s->img->maps, &s->img->nmaps, sizeof(*slot), s->err);
	if (!slot)
		return -1;
	*slot = m;
	slot->name = strdup(m.changes_only || m.empty ? "" : x->name);
	return slot->name ? 0 : gck_fail(s->err, ENOMEM, "out of memory for the image");
}

/* ---- MPI libraries ------------------------------------------------------------------------- */

/* Only Open MPI's libmpi.so.40 has a stand-in. MPICH and its relatives (Intel MPI, MVAPICH2, Cray
 * MPICH) have a libmpi.so.12 or a name of their own; other versions of Open MPI have other
 * numbers. */
static bool is_other_mpi(const char *path)
{
	static const char *const names[] = {"libmpi.so.12", "libmpich.so", "libmpichcxx.so",
					    "libmpi_cray.so", "libmpi.so.20", "libmpi.so.80"};
	const char *name = strrchr(path, '/');

	for (size_t i = 0; name && i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(name + 1, names[i], strlen(names[i])))
			return true;
	return false;
}

/* Report a process without the stand-in for MPI. Either the stand-in does not support the process's
 * MPI library, or SPANK has left it out (mpi=auto); one of the two has reported why. */
static bool note_aside(struct gck_scan *s)
{
	static const char name[] = "GPUCKPT_MPI_ASIDE=";
	size_t size;
	char *all = gck_proc_read(s->t->proc, "environ", &size, NULL);
	const char *entry = all ? gck_slots_find(all, size, name) : NULL;

	if (entry)
		gck_obstacle_add(s->f, true, "MPI", "fix that, or run it without checkpoints",
			 "it runs without gpuckpt's stand-in: %s", entry + sizeof name - 1);
	free(all);
	return entry;
}

static bool uses_mpi(const struct gck_scan *s)
{
	for (size_t i = 0; i < s->maps.n; i++) {
		const char *slash = strrchr(s->maps.v[i].name, '/');

		if (slash && !strncmp(slash + 1, "libmpi.so.", 10))
			return true;
	}
	return false;
}

static void scan_other_mpi(struct gck_scan *s)
{
	if (uses_mpi(s) && note_aside(s))
		return;
	for (size_t i = 0; i < s->maps.n; i++) {
		const char *path = s->maps.v[i].name;

		if (s->maps.v[i].offset || !is_other_mpi(path))
			continue;
		gck_obstacle_add(s->f, true, "MPI", "build the program with Open MPI 4.1",
			 "%s is not Open MPI 4.1: messages between its ranks are not saved",
			 path);
		return;
	}
}


int gck_scan_maps(struct gck_scan *s)
{
	if (gck_maps_read(s->t->proc, &s->maps, s->err) ||
	    gck_exclusions_cut(&s->t->excluded, &s->maps, s->err))
		return -1;
	for (size_t i = 0; i < s->maps.n; i++)
		if (scan_area(s, &s->maps.v[i]))
			return -1;
	scan_other_mpi(s);
	return 0;
}
