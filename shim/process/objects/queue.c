/* SPDX-License-Identifier: Apache-2.0
 * POSIX message queues: scan, copy while the rank is held, restore. Their file system need not be
 * mounted anywhere. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "shim/process/memory/memory.h"
#include "shim/process/memory/packets.h"
#include "shim/process/objects/log_prefix.h"
#include "shim/process/objects/objects.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/rank/helper_link.h"
#include "shim/process/tree/tree.h"

#define MQUEUE_MAGIC 0x19800202
#define SHOWN 256 /* of what the kernel says of a queue: about 80 bytes */

/* ---- who has it open ----------------------------------------------------------------------- */

static bool has_open(int proc, const struct stat *st)
{
	bool has = false;
	char name[32];
	struct stat x;
	int *fds;
	size_t n;

	if (gck_proc_list(proc, "fd", &fds, &n, NULL))
		return false;
	for (size_t i = 0; i < n && !has; i++) {
		snprintf(name, sizeof name, "fd/%d", fds[i]);
		has = !fstatat(proc, name, &x, 0) && x.st_dev == st->st_dev &&
		      x.st_ino == st->st_ino;
	}
	free(fds);
	return has;
}

/* A process of this user's, other than this one and the rank's, that has it open; 0: there is
 * none. */
static pid_t find_other(const struct stat *st, pid_t rank)
{
	int all = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC), *pids = NULL;
	pid_t found = 0;
	size_t n = 0;

	if (all >= 0 && gck_proc_list(all, ".", &pids, &n, NULL))
		n = 0;
	for (size_t i = 0; i < n && !found; i++) {
		bool other = pids[i] != getpid() && !gck_is_descendant(pids[i], rank);
		int proc = other ? gck_proc_open(pids[i], NULL) : -1;

		if (proc >= 0 && has_open(proc, st))
			found = pids[i];
		if (proc >= 0)
			close(proc);
	}
	if (n)
		free(pids);
	if (all >= 0)
		close(all);
	return found;
}

/* ---- scan ---------------------------------------------------------------------------------- */

bool gck_queue_is(const struct gck_scan *s, const struct gck_fd_view *v)
{
	bool queue = S_ISREG(v->st.st_mode) && v->link[0] == '/' && !strchr(v->link + 1, '/');
	int fd = queue ? gck_target_fd(s->t, v->fd) : -1;
	struct statfs fs;

	queue = fd >= 0 && fstatfs(fd, &fs) == 0 && fs.f_type == MQUEUE_MAGIC;
	if (fd >= 0)
		close(fd);
	return queue;
}

/* Who gets a notification (mq_notify); 0: nobody. */
static pid_t notified(int queue)
{
	char text[SHOWN];
	ssize_t n = pread(queue, text, sizeof text - 1, 0);
	const char *at;

	text[n > 0 ? n : 0] = '\0';
	at = strstr(text, "NOTIFY_PID:");
	return at ? (pid_t)atoi(at + strlen("NOTIFY_PID:")) : 0;
}

static void check(struct gck_scan *s, const struct gck_fd_view *v, int queue)
{
	const pid_t rank = s->t->rank ? s->t->rank->pid : s->t->pid;
	pid_t other;

	if (notified(queue))
		gck_obstacle_add_passing(s->f, v->object, "receive with a time limit",
					 "a notification (mq_notify) is set for the message queue "
					 "%s", v->link);
	other = s->held ? 0 : find_other(&v->st, rank);
	if (other)
		gck_obstacle_add_passing(s->f, v->object, "close it there",
					 "process %d, which is none of the rank's, has the message "
					 "queue %s open", (int)other, v->link);
}

/* The content is copied through a descriptor of another mode than the rank's. */
int gck_fd_queue(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	size_t deleted = v->st.st_nlink ? 0 : strlen(" (deleted)");
	int queue = gck_fd_reopen(s->t, v->fd, s->err);
	struct mq_attr a = {0};

	x->kind = GCK_FD_QUEUE;
	x->id = v->st.st_ino;
	x->unlinked = deleted;
	x->path = strndup(v->link, strlen(v->link) - deleted);
	if (v->st.st_uid != geteuid() || (v->st.st_mode & 0600) != 0600 || queue < 0 ||
	    mq_getattr(queue, &a))
		gck_obstacle_add(s->f, true, v->object, "make it with the mode 0600",
				 "this user may not read and write the message queue %s",
				 v->link);
	else
		check(s, v, queue);
	x->mq_most = a.mq_maxmsg;
	x->mq_size = a.mq_msgsize;
	if (queue >= 0)
		close(queue);
	return x->path ? 0 : gck_fail(s->err, ENOMEM, "out of memory for the image");
}

/* ---- hold ---------------------------------------------------------------------------------- */

/* The first open file has what waits in a queue. */
static bool is_first(const struct gck_image *img, uint32_t i)
{
	const struct gck_file *x = &img->files[i];

	for (uint32_t k = 0; k < i; k++)
		if (img->files[k].kind == GCK_FD_QUEUE && img->files[k].id == x->id)
			return false;
	return !x->elsewhere;
}

/* The message at this offset, which then is the next one's; NULL: the copy is not whole. */
static const struct gck_link_message *next(const struct gck_link_queue *q, uint64_t *at)
{
	const struct gck_link_message *m = (const void *)((const char *)q + *at);

	if (*at + sizeof *m > q->size || m->size > q->message_max ||
	    *at + GCK_LINK_MESSAGE(m->size) > q->size)
		return NULL;
	*at += GCK_LINK_MESSAGE(m->size);
	return m;
}

static int take_messages(const struct gck_link_queue *q, struct gck_packets *p,
			 struct gck_error *err)
{
	uint64_t at = sizeof *q, bytes = 0;
	const struct gck_link_message *m;
	struct gck_packet *x;

	for (uint32_t i = 0; i < q->n; i++, bytes += m->size)
		if (!(m = next(q, &at)))
			return gck_fail(err, EPROTO, "its copy of the queue is not whole");
	p->data = malloc(bytes + 1);
	if (!p->data)
		return gck_fail(err, ENOMEM, "out of memory for messages");
	at = sizeof *q;
	for (uint32_t i = 0; i < q->n && (m = next(q, &at)); i++, p->size += m->size) {
		x = gck_grow(&p->v, &p->n, sizeof *x, err);
		if (!x)
			return -1;
		*x = (struct gck_packet){.size = m->size, .priority = m->priority};
		memcpy(p->data + p->size, m + 1, m->size);
	}
	return 0;
}

/* Only what is used of this memory takes any. */
static int copy_messages(struct gck_hold *h, uint32_t i, int memory, uint64_t size)
{
	struct gck_link_queue *q = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	const struct gck_file *x = &h->img->files[i];
	struct gck_packets p = {0};
	int failed;

	if (q == MAP_FAILED)
		return gck_fail(h->err, errno, "no memory for messages: %s", strerror(errno));
	q->size = size;
	q->message_max = (uint32_t)x->mq_size;
	snprintf(q->path, sizeof q->path, "/proc/self/fd/%d", gck_image_fd_of(h->img, i));
	failed = gck_helper_queue(h->t, memory, h->timeout_ms, h->err) ||
		 take_messages(q, &p, h->err) || gck_hold_packets(h, i, &p, true);
	gck_packets_free(&p);
	munmap(q, size);
	return failed ? -1 : 0;
}

static bool is_empty(const struct gck_hold *h, uint32_t i)
{
	int queue = gck_target_fd(h->t, gck_image_fd_of(h->img, i));
	struct mq_attr a;
	bool empty = queue >= 0 && !mq_getattr(queue, &a) && !a.mq_curmsgs;

	if (queue >= 0)
		close(queue);
	return empty;
}

int gck_hold_queue(struct gck_hold *h, uint32_t i)
{
	const struct gck_file *x = &h->img->files[i];
	uint64_t size = sizeof(struct gck_link_queue) +
			((uint64_t)x->mq_most + 1) * GCK_LINK_MESSAGE(x->mq_size);
	int memory, failed;

	if (!is_first(h->img, i) || is_empty(h, i))
		return 0;
	memory = memfd_create("gpuckpt", MFD_CLOEXEC);
	if (memory < 0 || ftruncate(memory, (off_t)size))
		failed = gck_fail(h->err, errno, "no memory for messages: %s", strerror(errno));
	else
		failed = copy_messages(h, i, memory, size);
	if (memory >= 0)
		close(memory);
	return failed;
}

/* ---- restore ------------------------------------------------------------------------------- */

static int create(const char *name, const struct gck_file *f)
{
	struct mq_attr a = {.mq_maxmsg = f->mq_most, .mq_msgsize = f->mq_size};
	mqd_t queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL | O_NONBLOCK | O_CLOEXEC, 0600, &a);

	if (queue >= 0 && fchmod(queue, f->mode & 07777)) {
		mq_unlink(name);
		return gck_close_failed(queue);
	}
	return queue;
}

/* A queue of this name that a former start has left behind. The ranks of that have ended. */
static int remove_former(const struct gck_file *f, struct gck_error *err)
{
	mqd_t queue = mq_open(f->path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	bool own = queue >= 0 && !fstat(queue, &st) && st.st_uid == geteuid();
	pid_t other = own ? find_other(&st, getpid()) : 0;

	if (queue >= 0)
		close(queue);
	if (!own || other)
		return gck_fail(err, EEXIST, "the message queue %s is %s on this node: restart on "
				"another one, or remove it (mq_unlink) when nobody needs it",
				f->path, own ? "open in a process" : "another user's");
	return mq_unlink(f->path) && errno != ENOENT ? gck_make_failed(err, f, "message queue")
						     : 0;
}

/* In a trial, as if it had no name. */
static int make(struct gck_restore *r, const struct gck_file *f, struct gck_error *err)
{
	bool named = !f->unlinked && !r->root->trial;
	const struct stat none = {0};
	char name[64];
	int queue;

	snprintf(name, sizeof name, "/gpuckpt-%d-%zu", (int)getpid(), r->root->npairs);
	queue = create(named ? f->path : name, f);
	if (queue < 0 && errno == EEXIST && named) {
		if (remove_former(f, err))
			return -1;
		queue = create(f->path, f);
	}
	if (queue < 0)
		return gck_fail(err, errno, "making the message queue %s of %lld messages: %s: "
				"raise ulimit -q or fs.mqueue.*_max", f->path,
				(long long)f->mq_most, strerror(errno));
	if (named ? gck_restore_note_made(r, f->path, &none) : mq_unlink(name))
		return gck_make_failed(err, f, "message queue"), gck_close_failed(queue);
	return queue;
}

static int send_all(struct gck_restore *r, const struct gck_file *f, int from, int queue)
{
	uint64_t at = 0;

	for (size_t i = 0; i < f->npackets; i++) {
		const struct gck_packet *p = &f->packets[i];

		if (p->size > GCK_CHUNK_MAX ||
		    pread(from, r->buffer, p->size, (off_t)at) != (ssize_t)p->size ||
		    mq_send(queue, (char *)r->buffer, p->size, p->priority))
			return -1;
		at += p->size;
	}
	return 0;
}

static int fill(struct gck_restore *r, const struct gck_file *f, int queue, struct gck_error *err)
{
	int staged = memfd_create("gpuckpt", MFD_CLOEXEC), failed;

	if (staged < 0)
		return gck_make_failed(err, f, "memfd");
	failed = gck_restore_fill_file(r, &f->data, f->data_size, staged, f->path, err);
	if (!failed && send_all(r, f, staged, queue))
		failed = gck_make_failed(err, f, "putting messages back into");
	close(staged);
	return failed;
}

int gck_make_queue(struct gck_restore *r, const struct gck_file *f, struct gck_error *err)
{
	struct gck_pair made = {.kind = f->kind, .id = f->id, .end = {-1, -1}};
	struct gck_pair *queue = gck_pair_find(r, f);
	char path[32];
	int fd;

	if (!queue) {
		made.end[0] = make(r, f, err);
		queue = made.end[0] < 0 ? NULL : gck_pair_keep(r, &made, err);
	}
	if (!queue || (f->npackets && fill(r, f, queue->end[0], err)))
		return -1;
	snprintf(path, sizeof path, "/proc/self/fd/%d", queue->end[0]);
	fd = open(path, (int)(f->flags & (O_ACCMODE | O_NONBLOCK)) | O_CLOEXEC);
	return fd < 0 ? gck_make_failed(err, f, "message queue") : fd;
}
