/* SPDX-License-Identifier: Apache-2.0
 * System V semaphores, and what each process's end would undo (SEM_UNDO). The kernel shows that to
 * nobody, but it refuses operations that would take it out of its range. So the process's helper,
 * which shares it with the other threads, tries operations on a set that cannot end well: the
 * kernel then changes nothing, and the error tells whether it came as far as the last one. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sem.h>
#include <sys/syscall.h>

#include "shim/process/ipc/ipc.h"
#include "shim/process/rank/helper_link.h"
#include "shim/process/threads/stub.h"

#define MAX 32767              /* of a semaphore's value: the kernel's SEMVMX */
#define PROBE 8                /* operations that look at one semaphore */
#define AT_ONCE 8              /* semaphores that one call looks at */
#define VALUE sizeof(uint16_t) /* in an image */

static uint16_t value_of(const struct gck_ipc *x, size_t i)
{
	uint16_t value;

	memcpy(&value, x->data + i * VALUE, VALUE);
	return value;
}

/* ---- scan ---------------------------------------------------------------------------------- */

static bool used_by(int32_t number, int n, pid_t pid)
{
	for (int i = 0; i < n; i++)
		if (semctl(number, i, GETPID) == pid)
			return true;
	return false;
}

static bool is_of(const char *line, pid_t pid, int64_t since, int32_t *number)
{
	long long used, changed;
	int n;

	return sscanf(line, "%*d %d %*o %d %*u %*u %*u %*u %lld %lld", number, &n, &used,
		      &changed) == 4 &&
	       (used >= since || changed >= since) && used_by(*number, n, pid);
}

static int look(struct gck_ipc *x, struct ipc_perm *rights)
{
	struct semid_ds ds;

	if (semctl(x->number, 0, IPC_STAT, &ds))
		return -1;
	*rights = ds.sem_perm;
	x->size = ds.sem_nsems;
	x->used = ds.sem_otime;
	return 0;
}

static pid_t outside(const struct gck_ipc *x, pid_t rank, bool beside)
{
	pid_t last = 0;

	(void)beside;
	for (uint64_t i = 0; i < x->size; i++) {
		pid_t pid = semctl(x->number, (int)i, GETPID);

		if (pid != last && gck_ipc_is_outside(pid, rank))
			return pid;
		last = pid;
	}
	return 0;
}

/* ---- hold ---------------------------------------------------------------------------------- */

static int hold(struct gck_ipc *x, struct gck_error *err)
{
	x->data = malloc(x->size * VALUE + 1);
	if (!x->data)
		return gck_fail(err, ENOMEM, "out of memory for semaphores");
	x->data_size = x->size * VALUE;
	return semctl(x->number, 0, GETALL, x->data) < 0
		       ? gck_fail(err, errno, "their values cannot be read: %s", strerror(errno))
		       : 0;
}

struct operations {
	struct sembuf v[PROBE * AT_ONCE + 1];
	size_t n;
};

static void add(struct operations *o, size_t semaphore, int change, int flags)
{
	if (change)
		o->v[o->n++] = (struct sembuf){(unsigned short)semaphore, (short)change,
					       (short)(flags | IPC_NOWAIT)};
}

/* From this value, take the undo value up by `up`, above zero, and leave the semaphore at
 * MAX - up. */
static void go_up(struct operations *o, size_t semaphore, int value, int up)
{
	add(o, semaphore, MAX - value, 0);
	add(o, semaphore, -up, SEM_UNDO);
}

/* From this value, take the undo value down by `down`, up to MAX + 1, and leave the semaphore above
 * zero. */
static void go_down(struct operations *o, size_t semaphore, int value, int down)
{
	int first = down > MAX ? MAX : down;

	add(o, semaphore, -value, 0);
	add(o, semaphore, first, SEM_UNDO);
	if (down > first) {
		add(o, semaphore, -first, 0);
		add(o, semaphore, down - first, SEM_UNDO);
	}
}

/* Whether all operations are in range. 1, 0; -1 on failure. One more, on the last one's semaphore,
 * never succeeds: that is above zero (change 0: wait for zero), or below MAX. */
static int try(struct gck_hold *h, const struct gck_ipc *x, struct operations *o, int change)
{
	uint64_t at = h->t->shim->scratch;
	struct gck_link_msg m = {.ncalls = 0};
	int64_t result;

	o->v[o->n] = (struct sembuf){o->v[o->n - 1].sem_num, (short)change, IPC_NOWAIT};
	gck_helper_call(&m, SYS_semop, (uint64_t)x->number, at, o->n + 1, 0);
	if (gck_stub_put(h->t, at, o->v, (o->n + 1) * sizeof o->v[0], h->err) ||
	    gck_helper_calls(h->t, &m, h->timeout_ms, h->err))
		return -1;
	result = m.calls[0].result;
	if (result == -EAGAIN || result == -ERANGE)
		return result == -EAGAIN;
	return gck_fail(h->err, result < 0 ? (int)-result : EPROTO, "undo values of System V "
			"semaphores %d cannot be found out: %s", x->number,
			result < 0 ? strerror((int)-result) : "they have changed meanwhile");
}

/* Whether no semaphore from `from` to `end` has an undo value. */
static int are_zero(struct gck_hold *h, const struct gck_ipc *x, size_t from, size_t end)
{
	struct operations o = {.n = 0};

	for (size_t i = from; i < end; i++) {
		go_up(&o, i, value_of(x, i), MAX);
		add(&o, i, MAX, SEM_UNDO);
		go_down(&o, i, MAX, MAX + 1);
	}
	return try(h, x, &o, 0);
}

/* A direction in which an undo value is moved, and how far it can go from zero. */
struct way {
	void (*go)(struct operations *, size_t semaphore, int value, int steps);
	int most, end; /* end: the change that does not succeed afterwards */
};

static const struct way up = {go_up, MAX, -MAX}, down = {go_down, MAX + 1, 0};

static int goes(struct gck_hold *h, const struct gck_ipc *x, size_t i, const struct way *w,
		int steps)
{
	struct operations o = {.n = 0};

	w->go(&o, i, value_of(x, i), steps);
	return try(h, x, &o, w->end);
}

/* How many steps are missing, mostly none or one. -1 on failure. */
static int missing(struct gck_hold *h, const struct gck_ipc *x, size_t i, const struct way *w)
{
	int low = 0, high = w->most, step = 1, fits = goes(h, x, i, w, w->most);

	if (fits)
		return fits < 0 ? -1 : 0;
	while (low + 1 < high) { /* `low` goes, `high` does not */
		int next = high - step > low ? high - step : low + (high - low) / 2;

		fits = goes(h, x, i, w, next);
		if (fits < 0)
			return -1;
		step = fits ? w->most : step * 2;
		*(fits ? &low : &high) = next;
	}
	return w->most - low;
}

static int read_value(struct gck_hold *h, const struct gck_ipc *x, size_t i)
{
	int above = missing(h, x, i, &up), below = above ? 0 : missing(h, x, i, &down);
	struct gck_undo *slot;

	if (above < 0 || below < 0)
		return -1;
	if (!above && !below)
		return 0;
	slot = gck_grow(&h->img->undo, &h->img->nundo, sizeof *slot, h->err);
	if (!slot)
		return -1;
	*slot = (struct gck_undo){.id = x->id, .semaphore = (int32_t)i, .value = above - below};
	return 0;
}

static int read_set(struct gck_hold *h, const struct gck_ipc *x)
{
	for (size_t i = 0, end; i < x->size; i = end) {
		int zero;

		end = i + AT_ONCE < x->size ? i + AT_ONCE : x->size;
		zero = are_zero(h, x, i, end);
		for (size_t k = i; k < end && !zero; k++)
			zero = read_value(h, x, k) ? -1 : 0;
		if (zero < 0)
			return -1;
	}
	return 0;
}

/* Only operations give undo values. */
int gck_hold_undo(struct gck_hold *h)
{
	for (size_t i = 0; i < h->rank->nipc; i++)
		if (h->rank->ipc[i].kind == GCK_IPC_SEMAPHORES && h->rank->ipc[i].used &&
		    read_set(h, &h->rank->ipc[i]))
			return -1;
	return 0;
}

/* ---- restore ------------------------------------------------------------------------------- */

static int operate(struct gck_restore *r, const struct gck_ipc *x, const struct operations *o,
		   struct gck_error *err)
{
	uint64_t at = r->remote.scratch;

	if (gck_remote_write(&r->remote, at, o->v, o->n * sizeof o->v[0], err))
		return -1;
	return gck_remote_check(gck_remote_call(&r->remote, r->remote.pid, err, SYS_semop,
						(uint64_t)x->now, at, o->n),
				err, "System V semaphores %d cannot be changed", x->id);
}

/* Programs take a set that no operation has used yet (sem_otime) for one that is not ready. */
static int use(struct gck_restore *r, const struct gck_ipc *x, struct gck_error *err)
{
	int first = value_of(x, 0) ? -1 : 1;
	struct operations o = {.n = 0};

	add(&o, 0, first, 0);
	add(&o, 0, -first, 0);
	return operate(r, x, &o, err);
}

static int fill(struct gck_restore *r, struct gck_ipc *x, struct gck_error *err)
{
	uint64_t at = r->remote.scratch;

	if (x->data_size != x->size * VALUE || x->data_size > GCK_REMOTE_SCRATCH)
		return gck_fail(err, EINVAL, "it has no values");
	if (gck_remote_write(&r->remote, at, x->data, x->data_size, err) ||
	    gck_remote_check(gck_remote_call(&r->remote, r->remote.pid, err, SYS_semctl,
					     (uint64_t)x->now, 0, SETALL, at),
			     err, "its values cannot be set"))
		return -1;
	return x->used ? use(r, x, err) : 0;
}

/* The semaphore's value is the same afterwards. Another rank may have set it. */
static int set_value(struct gck_restore *r, const struct gck_ipc *x, const struct gck_undo *u,
		     struct gck_error *err)
{
	int value = semctl(x->now, u->semaphore, GETVAL), above = u->value, below = -u->value;
	int first = below > MAX ? MAX : below;
	struct operations o = {.n = 0};

	if (value < 0)
		return gck_fail(err, errno, "the value of semaphore %d of %d cannot be read: %s",
				(int)u->semaphore, x->id, strerror(errno));
	add(&o, (size_t)u->semaphore, -value, 0);
	if (above > 0) {
		add(&o, (size_t)u->semaphore, above, 0);
		add(&o, (size_t)u->semaphore, -above, SEM_UNDO);
	} else {
		add(&o, (size_t)u->semaphore, first, SEM_UNDO);
		add(&o, (size_t)u->semaphore, -first, 0);
		add(&o, (size_t)u->semaphore, below - first, SEM_UNDO);
		add(&o, (size_t)u->semaphore, first - below, 0);
	}
	add(&o, (size_t)u->semaphore, value, 0);
	return operate(r, x, &o, err);
}

int gck_restore_undo(struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->nundo; i++) {
		const struct gck_undo *u = &r->img->undo[i];
		const struct gck_ipc *x = gck_ipc_of(r->root->img, GCK_IPC_SEMAPHORES, u->id);

		if (!x || (uint64_t)u->semaphore >= x->size)
			return gck_fail(err, EINVAL, "System V semaphores %d are not in the image",
					u->id);
		if (set_value(r, x, u, err))
			return -1;
	}
	return 0;
}

static int control(int number, int command, mode_t mode)
{
	struct semid_ds ds;

	if (command == IPC_SET && semctl(number, 0, IPC_STAT, &ds))
		return -1;
	ds.sem_perm.mode = mode;
	return semctl(number, 0, command, &ds);
}

const struct gck_ipc_ops gck_ipc_semaphores = {
	.file = "/proc/sysvipc/sem", .what = "System V semaphores", .right = 0600,
	.is_of = is_of, .look = look, .outside = outside, .hold = hold, .get = SYS_semget,
	.sized = true, .fill = fill, .control = control,
};
