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

	if (!l->takes_lease || l->waiting)
		return;
	if (until ? left <= 0 : !l->task->lease.sent_ms)
		return;
	if (link_tell(l, GCK_LINK_LEASE, 0, until ? (uint32_t)left : 0) == 0)
		l->task->lease.sent_ms = until;
}

/* A rank that has read another lease has run since. */
void lease_look_at(struct task *t)
{
	struct task_lease *x = &t->lease;

	if (t->link && x->read_ms != x->sent_ms && has_read(t->link)) {
		x->read_ms = x->sent_ms;
		x->foreign = false;
	}
	if (gck_boot_ms() < x->read_ms)
		x->foreign = task_is_stopped(t);
}

void lease_look(struct agent *a)
{
	for (size_t i = 0; i < a->tasks.n; i++)
		lease_look_at(a->tasks.v[i]);
}

/* Without a link it drops its lease as soon as it runs: it is let go once. */
static void let_go(struct task *t)
{
	struct task_lease *x = &t->lease;

	if (!x->read_ms || gck_boot_ms() < x->read_ms || x->foreign)
		return;
	if (t->link) {
		kill(t->pid, SIGCONT);
	} else if (task_is_stopped(t)) {
		kill(t->pid, SIGCONT);
		x->read_ms = 0;
	}
}

void lease_renew(struct agent *a, int64_t until_ms)
{
	lease_look(a);
	a->lasting->lease_ms = until_ms;
	for (size_t i = 0; i < a->tasks.n; i++) {
		struct task *t = a->tasks.v[i];

		if (t->ended)
			continue;
		let_go(t);
		if (t->link && has_read(t->link))
			lease_give(t->link);
	}
}

void lease_end_stand(struct agent *a, bool suspended)
{
	for (size_t i = 0; i < a->tasks.n; i++) {
		struct task *t = a->tasks.v[i];

		if (suspended)
			t->lease.foreign = true;
		else if (!t->link && task_is_stopped(t))
			kill(t->pid, SIGCONT);
	}
}
