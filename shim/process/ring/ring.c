/* SPDX-License-Identifier: Apache-2.0
 * io_uring descriptors: scan, and the wait until nothing is under way. */
#include "config.h"

#include "shim/process/ring/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim/process/proc/maps.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/ring/ring_memory.h"
#include "shim/process/threads/borrow.h"
#include "shim/process/threads/stub.h"

#define LOOKS 10                 /* for something to end in a process that runs */
#define LOOK_MS 10
#define SETTLE_LOOKS 100         /* 1 ms apart */
#define NUMBERS 2                /* of registered rings that are looked at; the first is 0 */
#define LINK "anon_inode:[io_uring]"
#define REGISTERED_RING (1u << 4) /* IORING_ENTER_REGISTERED_RING, of Linux 5.18 */
#define PBUF_STATUS 26            /* IORING_REGISTER_PBUF_STATUS, of Linux 6.8 */
#define BUFFER_GROUPS 65536
#define BUFFER_SELECT (1u << 5)   /* IOSQE_BUFFER_SELECT */
#define PROVIDE_BUFFERS 31        /* IORING_OP_PROVIDE_BUFFERS */

static int enter(int fd, unsigned submit, unsigned flags)
{
	return (int)syscall(SYS_io_uring_enter, fd, submit, 0, flags, NULL, 0);
}

static int ask(int fd, unsigned what, void *arg, unsigned n)
{
	return (int)syscall(SYS_io_uring_register, fd, what, arg, n);
}

/* ---- what the kernel tells ------------------------------------------------------------------ */

struct told {
	uint32_t submissions, completions; /* entries of the queues */
	uint32_t submitted, completed;
	bool overflow, polls;
	unsigned operation;      /* of the first that waits */
	uint32_t queued;         /* what the program has queued in all */
	bool thread;             /* the kernel's submits (SQPOLL) */
	bool moves;              /* something has ended while it was looked at */
};

/* 1: it is being used just now, so that the kernel does not tell all. */
static int parse(const char *info, struct told *x)
{
	const char *polls = strstr(info, "PollList:\n");

	if (!gck_proc_field(info, "CachedCqTail:") || !polls ||
	    !strstr(info, "CqOverflowList:"))
		return 1;
	x->submissions = (uint32_t)gck_proc_number(info, "SqMask:", 0, 0) + 1;
	x->completions = (uint32_t)gck_proc_number(info, "CqMask:", 0, 0) + 1;
	x->submitted = (uint32_t)gck_proc_number(info, "CachedSqHead:", 10, 0);
	x->completed = (uint32_t)gck_proc_number(info, "CachedCqTail:", 10, 0);
	x->queued = (uint32_t)gck_proc_number(info, "SqTail:", 10, 0);
	x->thread = strtol(gck_proc_field(info, "SqThread:") ?: "-1", NULL, 10) >= 0;
	x->polls = sscanf(polls, "PollList:\n op=%u", &x->operation) == 1;
	x->overflow = !!strstr(info, "CqOverflowList:\n  ");
	return 0;
}

static const char *operation(unsigned code)
{
	static const struct {
		unsigned code;
		const char *name;
	} names[] = {
		{IORING_OP_POLL_ADD, "a poll"},      {IORING_OP_READ, "a read"},
		{IORING_OP_READV, "a read"},         {IORING_OP_RECV, "a receive"},
		{IORING_OP_RECVMSG, "a receive"},    {IORING_OP_WRITE, "a write"},
		{IORING_OP_SEND, "a send"},          {IORING_OP_SENDMSG, "a send"},
		{IORING_OP_ACCEPT, "an accept"},     {IORING_OP_CONNECT, "a connect"},
	};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (names[i].code == code)
			return names[i].name;
	return "a request";
}

static bool settled(const struct told *x)
{
	return x->submitted == x->completed && !x->polls && !x->overflow &&
	       (!x->thread || x->queued == x->submitted);
}

/* Why a ring is not settled. */
static void explain(const struct told *x, char *text, size_t size)
{
	if (x->polls)
		snprintf(text, size, "%s that does not end is under way (operation %u)",
			 operation(x->operation), x->operation);
	else if (x->thread && x->queued != x->submitted)
		snprintf(text, size, "a request is queued for its thread");
	else if (x->overflow)
		snprintf(text, size, "its queue of completions is full");
	else if ((int32_t)(x->submitted - x->completed) > 0)
		snprintf(text, size, "%u requests are under way that do not end, or ended without "
			 "a completion", x->submitted - x->completed);
	else
		snprintf(text, size, "it has had %u completions more than requests, so that it is "
			 "not known what is under way", x->completed - x->submitted);
}

/* Read what the kernel tells of a descriptor of the process. *info: its text, to be freed. 1: it is
 * being used. */
static int read_told(const struct gck_target *t, int fd, struct told *x, char **info,
		     struct gck_error *err)
{
	struct gck_target_place place = gck_target_at(t, fd);
	char name[32];
	int busy;

	snprintf(name, sizeof name, "fdinfo/%d", place.fd);
	*info = gck_proc_read(place.proc, name, NULL, NULL);
	if (!*info) /* EBADF: it was closed meanwhile */
		return gck_fail(err, errno == ENOENT ? EBADF : errno, "cannot look at fd %d of "
				"process %d: %s", fd, (int)t->pid, strerror(errno));
	busy = parse(*info, x);
	if (busy) {
		free(*info);
		*info = NULL;
	}
	return busy;
}

static void pause_ms(int ms)
{
	nanosleep(&(struct timespec){.tv_nsec = ms * 1000000l}, NULL);
}

/* Wait for a moment, or until it is settled, or something has ended in it: others will, too. A held
 * ring is as it stays. */
static int await_end(struct gck_scan *s, int fd, struct told *x, char **info)
{
	struct told first;
	bool known = false;

	for (int looks = 0;; looks++) {
		int busy = read_told(s->t, fd, x, info, s->err);

		if (busy < 0)
			return -1;
		x->moves = known && first.completed != x->completed;
		if (!busy && (s->held || settled(x) || x->moves || (looks >= LOOKS && known)))
			return 0;
		if (busy && looks >= 10 * LOOKS)
			return gck_fail(s->err, EAGAIN, "fd %d: an io_uring that is used all the "
					"time; try again", fd);
		if (!busy && !known) {
			first = *x;
			known = true;
		}
		free(*info);
		*info = NULL;
		pause_ms(LOOK_MS);
	}
}

/* ---- scan ---------------------------------------------------------------------------------- */

static void refuse(struct gck_scan *s, int fd, const char *remedy, const char *what)
{
	char object[32];

	snprintf(object, sizeof object, "fd %d", fd);
	gck_obstacle_add(s->f, true, object, remedy, "an io_uring %s", what);
}

/* What the kernel tells of it in words. */
static void check_told(struct gck_scan *s, int fd, const struct told *x)
{
	char object[32], why[128];

	snprintf(object, sizeof object, "fd %d", fd);
	if (x->thread && s->t->shim->features & GCK_SHIM_IMPLANTED)
		refuse(s, fd, "make it without IORING_SETUP_SQPOLL", "with a kernel's thread, in "
		       "a static program");
	if (x->submitted > (x->thread ? GCK_RING_MOST / 4 : GCK_RING_MOST))
		refuse(s, fd, "close it, and make another", "through which too many requests went: "
		       "a restart would take too long");
	if (settled(x) || (x->moves && (int32_t)(x->submitted - x->completed) > 0))
		return;
	explain(x, why, sizeof why);
	gck_obstacle_add_passing(s->f, object, "cancel it, or wait until it has ended",
				 "io_uring: %s", why);
}

/* The buffers that are registered, in the lines after this one. */
static int read_buffers(const char *info, struct gck_ring *to, struct gck_error *err)
{
	const char *line = gck_proc_field(info, "UserBufs:");
	size_t n = line ? strtoul(line, NULL, 10) : 0;

	for (size_t i = 0; i < n; i++) {
		struct gck_ring_buffer *b = gck_grow(&to->buffers, &to->nbuffers, sizeof *b, err);
		unsigned long long address, size;
		unsigned place;

		line = line ? strchr(line, '\n') : NULL;
		line = line ? line + 1 : NULL;
		if (!b)
			return -1;
		if (line && sscanf(line, "%u: 0x%llx/%llu", &place, &address, &size) == 3 &&
		    place == i)
			*b = (struct gck_ring_buffer){address, size};
	}
	return 0;
}

/* Undo the kernel's escapes: a blank is \040. */
static void unescape(const char *from, size_t n, char *to)
{
	for (size_t i = 0; i < n; i++) {
		unsigned c;

		if (from[i] == '\\' && sscanf(from + i + 1, "%3o", &c) == 1) {
			*to++ = (char)c;
			i += 3;
		} else {
			*to++ = from[i];
		}
	}
	*to = '\0';
}

/* The process's descriptor of the file of this name. -1: there is none, -2: different ones. */
static int find_file(const struct gck_target *t, const char *path, const int *fds, size_t nfds)
{
	int found = -1;

	for (size_t i = 0; i < nfds; i++) {
		char name[32], *link;
		bool same;

		snprintf(name, sizeof name, "fd/%d", fds[i]);
		link = gck_proc_link(t->proc, name, NULL);
		same = link && !strcmp(link, path);
		free(link);
		if (same && found >= 0 &&
		    syscall(SYS_kcmp, t->pid, t->pid, KCMP_FILE, found, fds[i]))
			return -2;
		if (same && found < 0)
			found = fds[i];
	}
	return found;
}

static int add_file(struct gck_scan *s, int fd, const char *line, const int *fds, size_t nfds,
		    struct gck_ring *to)
{
	size_t length = strcspn(line, "\n");
	char *path = malloc(length + 1), object[32];
	unsigned place;
	int start = 0;

	if (!path)
		return gck_fail(s->err, ENOMEM, "out of memory for a registered file");
	if (sscanf(line, "%u: %n", &place, &start) == 1 && place < to->nfiles &&
	    strncmp(line + start, "<none>", 6)) {
		unescape(line + start, length - (size_t)start, path);
		to->files[place].fd = find_file(s->t, path, fds, nfds);
		snprintf(object, sizeof object, "fd %d", fd);
		if (to->files[place].fd < 0)
			gck_obstacle_add(s->f, true, object, "leave it open, and open it once",
					 "an io_uring with a registered file that the process %s: "
					 "%s", to->files[place].fd == -1 ? "has not open"
									 : "has open twice",
					 path);
	}
	free(path);
	return 0;
}

static int read_files(struct gck_scan *s, int fd, const char *info, struct gck_ring *to)
{
	const char *line = gck_proc_field(info, "UserFiles:");
	size_t n = line ? strtoul(line, NULL, 10) : 0, nfds = 0;
	int *fds = NULL, failed = 0;

	for (size_t i = 0; i < n; i++) {
		struct gck_ring_file *x = gck_grow(&to->files, &to->nfiles, sizeof *x, s->err);

		if (!x)
			return -1;
		x->fd = -1;
	}
	if (!n)
		return 0;
	if (gck_proc_list(s->t->proc, "fd", &fds, &nfds, s->err))
		return -1;
	while (!failed && (line = strchr(line, '\n')) && strncmp(++line, "UserBufs:", 9))
		failed = add_file(s, fd, line, fds, nfds, to);
	free(fds);
	return failed;
}

/* The kernel tells of these only by what it answers. It is asked while nobody runs, if the answer
 * changes something for a moment. copy: a descriptor of ours. */
static void check_asked(struct gck_scan *s, int fd, int copy, struct gck_ring *x)
{
	struct io_uring_probe probe = {0};
	struct { uint32_t group, head, reserved[8]; } buffers = {0};
	int events;

	if (enter(copy, 0, 0) && errno == EBADFD)
		refuse(s, fd, "enable it", "that is not enabled (IORING_SETUP_R_DISABLED)");
	x->single = ask(copy, IORING_REGISTER_PROBE, &probe, 0) && errno == EEXIST;
	if (x->single)
		return;
	if (s->held) {
		events = eventfd(0, EFD_CLOEXEC);
		if (!ask(copy, IORING_REGISTER_EVENTFD, &events, 1))
			(void)!ask(copy, IORING_UNREGISTER_EVENTFD, NULL, 0);
		else if (errno == EBUSY)
			refuse(s, fd, "unregister it", "with an eventfd");
		close(events);
		return;
	}
	for (; buffers.group < BUFFER_GROUPS; buffers.group++)
		if (!ask(copy, PBUF_STATUS, &buffers, 1) || errno != ENOENT) {
			refuse(s, fd, "remove them", "with provided buffers");
			return;
		}
}

/* A ring like it shows its layout, and whether this kernel tells all that is asked. false: it is
 * refused. */
static bool find_layout(struct gck_scan *s, int fd, struct gck_ring *x)
{
	struct { uint32_t group, head, reserved[8]; } buffers = {0};
	int like = gck_ring_make_like(x, x->offsets);
	bool told = like >= 0 && ask(like, PBUF_STATUS, &buffers, 1) && errno == ENOENT;

	if (like < 0)
		refuse(s, fd, "allow it on this node (kernel.io_uring_disabled)",
		       "of which another cannot be made");
	else if (!told)
		refuse(s, fd, "use Linux 6.8 or newer", "of which this kernel does not tell what "
		       "is registered");
	if (like >= 0)
		close(like);
	return told;
}

/* Entries that were used show flags and operations that cannot be carried. */
static void check_entries(struct gck_scan *s, int fd, const struct gck_ring *x,
			  const struct gck_ring_view *v)
{
	bool provided = false, personality = false;

	for (uint32_t i = 0; i < x->submissions; i++) {
		const struct io_uring_sqe *e = &v->entries[i];

		provided |= e->flags & BUFFER_SELECT || e->opcode == PROVIDE_BUFFERS;
		personality |= e->personality != 0;
	}
	if (provided)
		refuse(s, fd, "read into buffers of your own", "with provided buffers");
	if (personality)
		refuse(s, fd, "make another without them", "with personalities");
}

static int scan_copy(struct gck_scan *s, int fd, struct gck_ring *x)
{
	int copy = gck_target_fd(s->t, fd);
	struct gck_ring_view v;

	if (copy < 0)
		return gck_fail(s->err, errno, "cannot look at fd %d of process %d: %s", fd,
				(int)s->t->pid, strerror(errno));
	check_asked(s, fd, copy, x);
	if (gck_ring_map(x, copy, &v)) {
		refuse(s, fd, "make it without IORING_SETUP_NO_MMAP and IORING_SETUP_SQE128",
		       "whose memory is laid out otherwise");
	} else {
		check_entries(s, fd, x, &v);
		gck_ring_unmap(x, &v);
	}
	close(copy);
	return 0;
}

int gck_ring_scan(struct gck_scan *s, int fd, struct gck_file *x)
{
	struct told told;
	char *info;
	int failed;

	x->kind = GCK_FD_RING;
	x->rings = calloc(1, sizeof *x->rings);
	if (!x->rings)
		return gck_fail(s->err, ENOMEM, "out of memory for an io_uring");
	x->nrings = 1;
	if (await_end(s, fd, &told, &info))
		return -1;
	x->rings->submissions = told.submissions;
	x->rings->completions = told.completions;
	x->rings->submitted = told.submitted;
	x->rings->thread = told.thread;
	check_told(s, fd, &told);
	failed = read_buffers(info, x->rings, s->err) || read_files(s, fd, info, x->rings);
	free(info);
	if (x->rings->nbuffers > GCK_RING_TABLE || x->rings->nfiles > GCK_RING_TABLE)
		refuse(s, fd, "register fewer", "with more than 4,096 registered buffers or files");
	if (failed || !find_layout(s, fd, x->rings))
		return failed;
	return scan_copy(s, fd, x->rings);
}

static bool has_ring(const struct gck_image *img, uint64_t id)
{
	for (size_t i = 0; i < img->nfiles; i++)
		if (img->files[i].kind == GCK_FD_RING && img->files[i].id == id)
			return true;
	return false;
}

/* While the rank runs, a ring may be closed and unmapped between the looks at the two. */
static bool is_mapped_still(const struct gck_scan *s, const struct gck_map *m)
{
	const struct gck_vma *now;
	struct gck_maps maps;
	bool mapped;

	if (s->held || gck_maps_read(s->t->proc, &maps, NULL))
		return true;
	now = gck_maps_find(&maps, m->start);
	mapped = now && now->inode == m->ring;
	gck_maps_free(&maps);
	return mapped;
}

void gck_rings_check_maps(struct gck_scan *s)
{
	for (size_t i = 0; i < s->img->nmaps; i++) {
		const struct gck_map *m = &s->img->maps[i];
		char object[64];

		if (m->kind != GCK_MAP_RING)
			continue;
		snprintf(object, sizeof object, "memory %llx-%llx", (unsigned long long)m->start,
			 (unsigned long long)m->end);
		if (!has_ring(s->img, m->ring)) {
			if (is_mapped_still(s, m))
				gck_obstacle_add(s->f, true, object, "unmap it", "an io_uring "
						 "whose descriptor was closed");
		} else if (m->offset != IORING_OFF_SQ_RING && m->offset != IORING_OFF_CQ_RING &&
			   m->offset != IORING_OFF_SQES) {
			gck_obstacle_add(s->f, true, object, "unregister it",
					 "an io_uring with memory for provided buffers");
		}
	}
}

/* ---- with all held -------------------------------------------------------------------------- */

/* Find the process's rings. Several descriptors of one do no harm. *above: a number above all of
 * its descriptors. */
static int find_rings(const struct gck_target *t, int **rings, size_t *n, int *above,
		      struct gck_error *err)
{
	size_t all, k = 0;
	int *fds;

	if (gck_proc_list(t->proc, "fd", &fds, &all, err))
		return -1;
	*above = all ? fds[all - 1] + 1 : 0;
	for (size_t i = 0; i < all; i++) {
		char name[32], *link;

		snprintf(name, sizeof name, "fd/%d", fds[i]);
		link = gck_proc_link(t->proc, name, NULL);
		if (link && !strcmp(link, LINK))
			fds[k++] = fds[i];
		free(link);
	}
	*rings = fds;
	*n = k;
	return 0;
}

/* What has ended for a thread that is held is completed when that enters the kernel. */
static int enter_all(struct gck_target *t, struct gck_held *held, int ring, struct gck_error *err)
{
	const struct gck_borrowed_call call = {
		SYS_io_uring_enter, {(uint64_t)ring, 0, 0, IORING_ENTER_GETEVENTS |
						       IORING_ENTER_SQ_WAKEUP}, 0};

	for (size_t i = 0; i < held->n; i++)
		if (gck_borrow(t, &held->v[i], t->shim->scratch, &call, 1, NULL, err))
			return -1;
	return 0;
}

static int settle(struct gck_target *t, struct gck_held *held, int ring, struct gck_error *err)
{
	char why[128];

	for (int looks = 0;; looks++) {
		struct told x;
		char *info;
		int busy = read_told(t, ring, &x, &info, err);

		if (busy < 0)
			return -1;
		free(info);
		if (!busy && settled(&x))
			return 0;
		if (looks == SETTLE_LOOKS) {
			if (busy)
				snprintf(why, sizeof why, "it is being used");
			else
				explain(&x, why, sizeof why);
			return gck_fail(err, EAGAIN, "fd %d: io_uring: %s; cancel it, or wait "
					"until it has ended", ring, why);
		}
		if (!busy && enter_all(t, held, ring, err))
			return -1;
		pause_ms(1);
	}
}

/* Whether one of these calls has succeeded in a thread: it uses a ring by a number of its own. */
static int check_registered(struct gck_target *t, struct gck_held_thread *x, struct gck_error *err)
{
	struct gck_borrowed_call calls[NUMBERS];
	int64_t results[NUMBERS];

	for (uint64_t i = 0; i < NUMBERS; i++)
		calls[i] = (struct gck_borrowed_call){
			SYS_io_uring_enter, {i, 0, 0, REGISTERED_RING}, 0};
	if (gck_borrow(t, x, t->shim->scratch, calls, NUMBERS, results, err))
		return -1;
	for (size_t i = 0; i < NUMBERS; i++)
		if (!results[i])
			return gck_fail(err, ENOTSUP, "thread %d uses an io_uring by a registered "
					"number (IORING_REGISTER_RING_FDS); unregister it",
					(int)x->tid);
	return 0;
}

/* A ring of one thread: only that is told whether it has an eventfd. The calls leave nothing. 1: it
 * is another thread's. */
static int check_eventfd(struct gck_target *t, struct gck_held_thread *x, int ring, int number,
			 struct gck_error *err)
{
	const uint64_t fd = (uint64_t)ring, n = (uint64_t)number;
	const uint64_t place = t->shim->scratch + GCK_BORROW_FRAME;
	const struct gck_borrowed_call calls[] = {
		{SYS_eventfd2, {0, EFD_CLOEXEC}, GCK_BORROW_KEEP},
		{SYS_dup3, {0, n, O_CLOEXEC}, GCK_BORROW_FIRST},
		{SYS_close, {0}, GCK_BORROW_FIRST},
		{SYS_io_uring_register, {fd, IORING_REGISTER_EVENTFD, place, 1}, GCK_BORROW_KEEP},
		{SYS_io_uring_register, {fd, IORING_UNREGISTER_EVENTFD}, GCK_BORROW_FIFTH},
		{SYS_close, {n}, 0},
	};
	int64_t results[sizeof calls / sizeof calls[0]];

	if (gck_stub_put(t, place, &number, sizeof number, err) ||
	    gck_borrow(t, x, t->shim->scratch, calls, sizeof calls / sizeof calls[0], results, err))
		return -1;
	if (results[3] == -EBUSY)
		return gck_fail(err, ENOTSUP, "fd %d: an io_uring with an eventfd; unregister it",
				ring);
	return results[3] == -EEXIST;
}

/* Of a ring that more threads may use, the scan finds that out. */
static int check_single(struct gck_target *t, struct gck_held *held, int ring, int number,
			struct gck_error *err)
{
	int copy = gck_target_fd(t, ring), other;
	struct io_uring_probe probe = {0};

	if (copy < 0)
		return gck_fail(err, errno, "cannot look at fd %d of process %d: %s", ring,
				(int)t->pid, strerror(errno));
	other = ask(copy, IORING_REGISTER_PROBE, &probe, 0) && errno == EEXIST;
	close(copy);
	for (size_t i = 0; i < held->n && other == 1; i++)
		other = check_eventfd(t, &held->v[i], ring, number, err);
	return other < 0 ? -1 : 0;
}

int gck_rings_settle(struct gck_target *t, struct gck_held *held, struct gck_error *err)
{
	int *rings, free_number, failed = 0;
	size_t n;

	if (find_rings(t, &rings, &n, &free_number, err))
		return -1;
	if (n)
		failed = gck_borrow_clean(t, held, err);
	for (size_t i = 0; i < n && !failed; i++)
		failed = settle(t, held, rings[i], err) ||
			 check_single(t, held, rings[i], free_number, err);
	for (size_t i = 0; i < held->n && n && !failed; i++)
		failed = check_registered(t, &held->v[i], err);
	free(rings);
	return failed ? -1 : 0;
}

