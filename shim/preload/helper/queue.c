/* SPDX-License-Identifier: Apache-2.0
 * The messages of a POSIX queue. The kernel shows them only to who takes them, so they are taken
 * and put back, in their order, while all who use the queue are held. */
#include "config.h"

#include "shim/preload/helper/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>

#include "shim/preload/helper/raw.h"

#define TRIES 10000 /* to put back a message for which there is no memory or place: some 10 s */

static struct gck_link_message *message_at(struct gck_link_queue *q, uint64_t offset)
{
	return (struct gck_link_message *)(void *)((char *)q + offset);
}

/* Take all messages. EAGAIN: none is left. */
static long take(int queue, struct gck_link_queue *q)
{
	uint64_t at = sizeof *q;
	long n;

	q->n = 0;
	while (at + GCK_LINK_MESSAGE(q->message_max) <= q->size) {
		struct gck_link_message *m = message_at(q, at);

		n = gck_raw(SYS_mq_timedreceive, queue, m + 1, q->message_max, &m->priority, 0);
		if (n == -EINTR)
			continue;
		if (n < 0)
			return n == -EAGAIN ? 0 : n;
		m->size = n;
		at += GCK_LINK_MESSAGE(n);
		q->n++;
	}
	return -EFBIG;
}

static long put(int queue, const struct gck_link_message *m)
{
	const struct timespec ms = { .tv_nsec = 1000000 };
	long r = -EAGAIN;

	for (int i = 0; i < TRIES && r < 0; i++) {
		r = gck_raw(SYS_mq_timedsend, queue, m + 1, m->size, m->priority, 0);
		if (r < 0)
			gck_raw(SYS_nanosleep, &ms, 0);
	}
	return r;
}

static long put_back(int queue, struct gck_link_queue *q)
{
	uint64_t at = sizeof *q;
	long r = 0;

	for (uint32_t i = 0; i < q->n; i++) {
		const struct gck_link_message *m = message_at(q, at);
		long result = put(queue, m);

		r = r < 0 ? r : result;
		at += GCK_LINK_MESSAGE(m->size);
	}
	return r;
}

static long copy(struct gck_link_queue *q)
{
	long queue = gck_raw(SYS_openat, AT_FDCWD, q->path, O_RDWR | O_NONBLOCK | O_CLOEXEC, 0);
	long r, put;

	if (queue < 0)
		return queue;
	r = take(queue, q);
	put = put_back(queue, q);
	gck_raw(SYS_close, queue);
	return r < 0 ? r : put;
}

long gck_queue_copy(int memory)
{
	struct gck_link_queue *q;
	uint64_t size;
	long r;

	r = gck_raw(SYS_lseek, memory, 0, SEEK_END);
	if (r < (long)sizeof *q)
		return r < 0 ? r : -EINVAL;
	size = r;
	q = (struct gck_link_queue *)gck_raw(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_SHARED,
					     memory, 0);
	if ((unsigned long)q >= -4095ul)
		return (long)q;
	r = q->size == size ? copy(q) : -EINVAL;
	gck_raw(SYS_munmap, q, size);
	return r;
}
