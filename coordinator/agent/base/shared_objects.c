/* SPDX-License-Identifier: Apache-2.0
 * What ranks of this node, each with the processes below it, share and write: mappings and open
 * files. */
#include "config.h"

#include "coordinator/agent/base/shared_objects.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/base/task_stdio.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/rank/exclusions.h"

enum kind { MAPPING, OPEN_FILE };

/* One rank's use of an object. */
struct use {
	enum kind kind;
	uint32_t rank;
	dev_t device;
	ino_t inode;
	bool writes;             /* MAPPING: this rank writes to it */
	bool append;             /* OPEN_FILE: ranks append to a file that has a name, so their
				  * output does not overlap */
	char name[128];
};

struct uses {
	struct use *v;
	size_t n;
};

static int add(struct uses *all, const struct use *u)
{
	struct use *v = realloc(all->v, (all->n + 1) * sizeof *v);

	if (!v)
		return -1;
	all->v = v;
	v[all->n++] = *u;
	return 0;
}

/* ---- mappings ------------------------------------------------------------------------------ */

static void read_maps(struct uses *all, pid_t pid, uint32_t rank, const struct gck_exclusions *left)
{
	char path[64], line[PATH_MAX + 128], perms[5];
	uint64_t start, end;
	unsigned major, minor;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return;
	while (fgets(line, sizeof line, f)) {
		struct use u = { .kind = MAPPING, .rank = rank };

		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*x %x:%x %lu %127[^\n]", &start,
			   &end, perms, &major, &minor, &u.inode, u.name) < 6)
			continue;
		u.device = makedev(major, minor);
		u.writes = perms[1] == 'w';
		if (perms[3] == 's' && u.inode &&
		    !gck_exclusions_range(left, start, end) && !gck_is_gpu(u.name) &&
		    add(all, &u) < 0)
			break;
	}
	fclose(f);
}

/* ---- open files ---------------------------------------------------------------------------- */

/* The flags of a descriptor as open(2) has them, -1 if it is closed. */
static int flags_of(pid_t pid, const char *fd)
{
	char path[64], line[64];
	int flags = -1;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/fdinfo/%.16s", (int)pid, fd);
	f = fopen(path, "re");
	while (f && flags < 0 && fgets(line, sizeof line, f))
		if (!strncmp(line, "flags:", 6))
			flags = (int)strtol(line + 6, NULL, 8);
	if (f)
		fclose(f);
	return flags;
}

struct process {
	pid_t pid;
	uint32_t rank;
	pid_t mpi_pid;         /* the descendant of the rank that uses MPI; 0: none */
	uint64_t mpi_state;
	struct task_stdio own; /* output that Slurm lets ranks share; every restart appends to it */
};

/* A memfd, or a file below /dev/shm, is carried as memory. */
static bool is_memory(const char *name)
{
	return !strncmp(name, "/memfd:", 7) || !strncmp(name, "/dev/shm/", 9);
}

static void look_at_fd(struct uses *all, const struct process *p, int dir, const char *fd,
		       const struct gck_exclusions *left)
{
	struct use u = { .kind = OPEN_FILE, .rank = p->rank };
	struct stat st;
	ssize_t n;
	int flags;

	if (gck_exclusions_fd(left, atoi(fd)) || fstatat(dir, fd, &st, 0) < 0 ||
	    !S_ISREG(st.st_mode) || task_stdio_has(&p->own, &st))
		return;
	flags = flags_of(p->pid, fd);
	if (flags < 0 || flags & O_PATH || (flags & O_ACCMODE) == O_RDONLY)
		return;
	n = readlinkat(dir, fd, u.name, sizeof u.name - 1);
	u.name[n > 0 ? n : 0] = '\0';
	if (is_memory(u.name))
		return;
	u.append = flags & O_APPEND && st.st_nlink;
	u.device = st.st_dev;
	u.inode = st.st_ino;
	add(all, &u);
}

static void read_fds(struct uses *all, const struct process *p, const struct gck_exclusions *left)
{
	const struct dirent *e;
	char path[64];
	DIR *d;

	snprintf(path, sizeof path, "/proc/%d/fd", (int)p->pid);
	d = opendir(path);
	if (!d)
		return;
	while ((e = readdir(d)))
		if (e->d_name[0] != '.')
			look_at_fd(all, p, dirfd(d), e->d_name, left);
	closedir(d);
}

/* ---- processes ----------------------------------------------------------------------------- */

static void look_at_process(struct uses *all, struct process *p, const struct gck_exclusions *left);

/* Those that a thread has made: PIDs, with blanks between. */
static void look_at_children(struct uses *all, struct process *p, const char *pids,
			     const struct gck_exclusions *left)
{
	const pid_t parent = p->pid;
	char *end;

	for (long pid; (pid = strtol(pids, &end, 10)) > 0; pids = end) {
		p->pid = (pid_t)pid;
		look_at_process(all, p, left);
	}
	p->pid = parent;
}

/* The process and those below it, except for descendants whose parents have ended. What is left out
 * of a process is left out of its children, which have it at the same place. */
static void look_at_process(struct uses *all, struct process *p, const struct gck_exclusions *left)
{
	struct gck_exclusions own = { .link_fd = -1 };
	int proc = gck_proc_open(p->pid, NULL), *tids = NULL;
	size_t n = 0;

	if (proc < 0)
		return;
	if (p->pid == p->mpi_pid && !gck_exclusions_read(&own, p->pid, p->mpi_state, 0, NULL))
		left = &own;
	read_maps(all, p->pid, p->rank, left);
	read_fds(all, p, left);
	if (gck_proc_list(proc, "task", &tids, &n, NULL))
		n = 0;
	for (size_t i = 0; i < n; i++) {
		char file[48], *pids;

		snprintf(file, sizeof file, "task/%d/children", tids[i]);
		pids = gck_proc_read(proc, file, NULL, NULL);
		if (pids)
			look_at_children(all, p, pids, left);
		free(pids);
	}
	if (n)
		free(tids);
	close(proc);
	gck_exclusions_free(&own);
}

/* ---- shared objects ------------------------------------------------------------------------ */

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int by_object(const void *x, const void *y)
{
	const struct use *a = x, *b = y;
	int c = compare(a->kind, b->kind);

	if (!c)
		c = compare(a->device, b->device);
	if (!c)
		c = compare(a->inode, b->inode);
	return c ? c : compare(a->rank, b->rank);
}

static bool same_object(const struct use *a, const struct use *b)
{
	return a->kind == b->kind && a->inode == b->inode && a->device == b->device;
}

/* The n uses of one object, sorted by rank. An object that all only read is the same for all
 * after a restart. */
static bool is_harmless(const struct use *u, size_t n)
{
	if (u[0].rank == u[n - 1].rank)
		return true;
	for (size_t i = 0; i < n; i++)
		if (u[i].kind == MAPPING ? u[i].writes : !u[i].append)
			return false;
	return true;
}

static json_t *entry(const struct use *a, const struct use *b)
{
	static const char *const texts[][3] = {
		[MAPPING] = { "shared mapping", "have the same memory, which is written to",
			      "restart them on one node: with the same tasks on each node" },
		[OPEN_FILE] = { "file", "have it open for writing",
				"open it with O_APPEND, or one file for each rank" },
	};
	const char *const *text = texts[a->kind];
	char object[192], reason[96];

	snprintf(object, sizeof object, "%s %s (inode %lu)", text[0],
		 *a->name ? a->name : "without a name", a->inode);
	snprintf(reason, sizeof reason, "ranks %u and %u %s", a->rank, b->rank, text[1]);
	return json_pack("{s:I, s:o, s:s, s:s, s:b}", "rank", (json_int_t)a->rank, "object",
			 packet_string(object), "reason", reason, "remedy", text[2], "refuse",
			 a->kind == OPEN_FILE);
}

/* Leaves out what the rank's real MPI library owns, which is rebuilt after a restart, and the
 * GPU driver's devices, which are closed while the rank is held. */
static void look_at(struct uses *all, const struct task *t)
{
	struct gck_exclusions left = { .link_fd = -1 };
	struct process p = { .pid = t->pid, .rank = t->rank, .mpi_state = t->mpi_state,
			     .mpi_pid = t->mpi_pid == t->pid ? 0 : t->mpi_pid };
	uint64_t states[2] = { 0 };
	struct iovec to[2] = { { &states[0], sizeof states[0] }, { &states[1], sizeof states[1] } };
	struct iovec from[2] = { to[0], to[1] };

	if (t->shim_state) {
		from[0].iov_base = (void *)(uintptr_t)(t->shim_state +
						       offsetof(struct gck_shim_state, mpi_state));
		from[1].iov_base = (void *)(uintptr_t)(t->shim_state +
						       offsetof(struct gck_shim_state, cuda_state));
		if (process_vm_readv(t->pid, to, 2, from, 2, 0) != (ssize_t)sizeof states)
			memset(states, 0, sizeof states);
	}
	if (states[0] || states[1]) /* if it fails, nothing counts as excluded */
		(void)!gck_exclusions_read(&left, t->pid, states[0], states[1], NULL);
	task_stdio_read(t, &p.own);
	look_at_process(all, &p, &left);
	gck_exclusions_free(&left);
}

static json_t *find(const struct tasks *t)
{
	struct uses all = { 0 };
	json_t *found = json_array();

	for (size_t i = 0; i < t->n; i++)
		if (!t->v[i]->ended)
			look_at(&all, t->v[i]);
	if (all.n)
		qsort(all.v, all.n, sizeof *all.v, by_object);
	for (size_t i = 0, j; i < all.n; i = j) {
		for (j = i + 1; j < all.n && same_object(&all.v[i], &all.v[j]); j++)
			;
		if (!is_harmless(&all.v[i], j - i))
			json_array_append_new(found, entry(&all.v[i], &all.v[j - 1]));
	}
	free(all.v);
	return found;
}

static bool is_among(const json_t *all, const json_t *one)
{
	const json_t *other;
	size_t i;

	json_array_foreach(all, i, other)
		if (json_equal(json_object_get(other, "object"), json_object_get(one, "object")))
			return true;
	return false;
}

/* Ranks run meanwhile, and the MPI library of one may open a file just after that library's
 * files were listed. An object counts only if a second look finds it again. */
json_t *shared_objects_find(const struct tasks *t)
{
	json_t *found = find(t), *again = json_array_size(found) ? find(t) : NULL;

	for (size_t i = json_array_size(found); i-- > 0;)
		if (!is_among(again, json_array_get(found, i)))
			json_array_remove(found, i);
	json_decref(again);
	return found;
}

int shared_objects_refuse(const struct tasks *t, struct gck_error *err)
{
	json_t *found = shared_objects_find(t);
	const json_t *one, *first = NULL;
	int rc = 0;
	size_t i;

	json_array_foreach(found, i, one)
		if (!first && packet_bool(one, "refuse"))
			first = one;
	if (first)
		rc = gck_fail(err, EOPNOTSUPP, "%s: %s; %s", packet_text(first, "object", ""),
			      packet_text(first, "reason", ""), packet_text(first, "remedy", ""));
	json_decref(found);
	return rc;
}
