/* SPDX-License-Identifier: Apache-2.0
 * System V message queues. MSG_COPY shows messages and leaves them in the queue. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/msg.h>
#include <sys/syscall.h>

#include "shim/process/ipc/ipc.h"

#ifndef MSG_COPY
#define MSG_COPY 040000
#endif

/* What msgsnd(2) and msgrcv(2) take. */
struct message {
	int64_t type;
	char data[];
};

/* ---- scan ---------------------------------------------------------------------------------- */

static bool is_of(const char *line, pid_t pid, int64_t since, int32_t *number)
{
	long long sent, received;
	int sender, receiver;

	return sscanf(line, "%*d %d %*o %*u %*u %d %d %*u %*u %*u %*u %lld %lld", number, &sender,
		      &receiver, &sent, &received) == 5 &&
	       ((sender == pid && sent >= since) || (receiver == pid && received >= since));
}

/* Whether this kernel can copy messages, if there are any. */
static bool can_copy(int number, const struct msqid_ds *ds)
{
	int64_t none;

	return !ds->msg_qnum || msgrcv(number, &none, 0, 0, MSG_COPY | IPC_NOWAIT) >= 0 ||
	       errno != ENOSYS;
}

static int look(struct gck_ipc *x, struct ipc_perm *rights)
{
	struct msqid_ds ds;

	if (msgctl(x->number, IPC_STAT, &ds) || !can_copy(x->number, &ds))
		return -1;
	*rights = ds.msg_perm;
	x->size = ds.msg_qbytes;
	x->last[0] = ds.msg_lspid;
	x->last[1] = ds.msg_lrpid;
	return 0;
}

static pid_t outside(const struct gck_ipc *x, pid_t rank, bool beside)
{
	(void)beside;
	for (size_t i = 0; i < 2; i++)
		if (gck_ipc_is_outside(x->last[i], rank))
			return x->last[i];
	return 0;
}

/* ---- hold ---------------------------------------------------------------------------------- */

/* Copy the queue's message i. */
static int copy(struct gck_ipc *x, size_t i, struct message *m, size_t room, struct gck_error *err)
{
	ssize_t size = msgrcv(x->number, m, room, (long)i, MSG_COPY | IPC_NOWAIT);
	struct gck_ipc_message *slot;

	if (size < 0)
		return gck_fail(err, errno == ENOMSG ? EAGAIN : errno, "its messages cannot be "
				"copied: %s", strerror(errno));
	slot = gck_grow(&x->messages, &x->nmessages, sizeof *slot, err);
	if (!slot)
		return -1;
	*slot = (struct gck_ipc_message){.type = m->type, .size = (uint64_t)size};
	memcpy(x->data + x->data_size, m->data, (size_t)size);
	x->data_size += (size_t)size;
	return 0;
}

static int hold(struct gck_ipc *x, struct gck_error *err)
{
	struct message *m;
	struct msqid_ds ds;
	int failed = 0;

	if (msgctl(x->number, IPC_STAT, &ds))
		return gck_fail(err, errno, "it cannot be looked at: %s", strerror(errno));
	m = malloc(sizeof *m + ds.__msg_cbytes);
	x->data = malloc(ds.__msg_cbytes + 1);
	if (!m || !x->data)
		failed = gck_fail(err, ENOMEM, "out of memory for messages");
	for (size_t i = 0; i < ds.msg_qnum && !failed; i++)
		failed = copy(x, i, m, ds.__msg_cbytes - x->data_size, err);
	free(m);
	return failed;
}

/* ---- restore ------------------------------------------------------------------------------- */

static int set_size(const struct gck_ipc *x, uint64_t size, struct gck_error *err)
{
	struct msqid_ds ds;

	if (msgctl(x->now, IPC_STAT, &ds))
		return gck_fail(err, errno, "it cannot be looked at: %s", strerror(errno));
	if (ds.msg_qbytes == size)
		return 0;
	ds.msg_qbytes = size;
	if (msgctl(x->now, IPC_SET, &ds))
		return gck_fail(err, errno, "its size cannot be set to %llu bytes: %s: raise "
				"kernel.msgmnb", (unsigned long long)size, strerror(errno));
	return 0;
}

/* From the rank's process, which is then the last that has sent one. */
static int put(struct gck_restore *r, const struct gck_ipc *x, const struct gck_ipc_message *m,
	       const unsigned char *data, struct gck_error *err)
{
	const struct gck_remote *to = &r->remote;

	if (m->size > GCK_REMOTE_SCRATCH - sizeof m->type)
		return gck_fail(err, E2BIG, "a message has %llu bytes",
				(unsigned long long)m->size);
	if (gck_remote_write(to, to->scratch, &m->type, sizeof m->type, err) ||
	    gck_remote_write(to, to->scratch + sizeof m->type, data, m->size, err))
		return -1;
	return gck_remote_check(gck_remote_call(&r->remote, to->pid, err, SYS_msgsnd,
						(uint64_t)x->now, to->scratch, m->size, IPC_NOWAIT),
				err, "a message of %llu bytes cannot be put back",
				(unsigned long long)m->size);
}

/* A program may have made the queue smaller than what waits in it. */
static int fill(struct gck_restore *r, struct gck_ipc *x, struct gck_error *err)
{
	const unsigned char *data = x->data;

	if (set_size(x, x->size > x->data_size ? x->size : x->data_size, err))
		return -1;
	for (size_t i = 0; i < x->nmessages; data += x->messages[i++].size)
		if (put(r, x, &x->messages[i], data, err))
			return -1;
	return set_size(x, x->size, err);
}

static int control(int number, int command, mode_t mode)
{
	struct msqid_ds ds;

	if (command == IPC_SET && msgctl(number, IPC_STAT, &ds))
		return -1;
	ds.msg_perm.mode = mode;
	return msgctl(number, command, &ds);
}

const struct gck_ipc_ops gck_ipc_messages = {
	.file = "/proc/sysvipc/msg", .what = "System V message queue", .right = 0400,
	.is_of = is_of, .look = look, .outside = outside, .hold = hold, .get = SYS_msgget,
	.fill = fill, .control = control,
};
