/* SPDX-License-Identifier: Apache-2.0
 * Leases of the ranks. */
#include "config.h"

#include "coordinator/agent/ranks/lease.h"

#include <linux/sockios.h>
#include <signal.h>
#include <sys/ioctl.h>

#include "common/base/boot_clock.h"
#include "coordinator/agent/ranks/links.h"

/* A rank that is stopped does not read. What it finds when it reads again must not be old. */
static bool has_read(const struct link *l)
{
	int unread = 0;

	return ioctl(l->fd, SIOCOUTQ, &unread) == 0 && !unread;
}

void lease_give(struct link *l)
{
	int64_t until = l->all->agent->lasting->lease_ms;
	int64_t left = until - gck_boot_ms();

	if (!l->lease.taken || l->waiting)
		return;
	if (until ? left <= 0 : !l->lease.sent_ms)
		return;
	if (link_tell(l, GCK_LINK_LEASE, 0, until ? (uint32_t)left : 0) == 0)
		l->lease.sent_ms = until;
}

/* A rank that has read another lease has run since. */
static void look(struct link *l)
{
	if (has_read(l) && l->lease.read_ms != l->lease.sent_ms) {
		l->lease.read_ms = l->lease.sent_ms;
		l->lease.foreign = false;
	}
	if (gck_boot_ms() < l->lease.read_ms)
		l->lease.foreign = task_is_stopped(l->task);
}

static bool has_ended(const struct lease *x)
{
	return x->read_ms && gck_boot_ms() >= x->read_ms;
}

void lease_look(struct agent *a)
{
	for (size_t i = 0; i < a->tasks.n; i++)
		if (a->tasks.v[i]->link)
			look(a->tasks.v[i]->link);
}

void lease_renew(struct agent *a, int64_t until_ms)
{
	lease_look(a);
	a->lasting->lease_ms = until_ms;
	for (size_t i = 0; i < a->tasks.n; i++) {
		const struct task *t = a->tasks.v[i];

		if (t->ended || !t->link)
			continue;
		if (has_ended(&t->link->lease) && !t->link->lease.foreign)
			kill(t->pid, SIGCONT);
		if (has_read(t->link))
			lease_give(t->link);
	}
}

void lease_end_stand(struct agent *a, bool suspended)
{
	for (size_t i = 0; i < a->tasks.n; i++) {
		struct task *t = a->tasks.v[i];

		if (suspended && t->link)
			t->link->lease.foreign = true;
		else if (!suspended && !t->link && task_is_stopped(t))
			kill(t->pid, SIGCONT);
	}
}
