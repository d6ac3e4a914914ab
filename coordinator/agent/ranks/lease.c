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

/* The same without a link. */
static void look_left(struct task *t)
{
	if (gck_boot_ms() < t->lease_left_ms && task_is_stopped(t))
		t->lease_left_ms = 0;
}

void lease_left(struct link *l)
{
	look(l);
	l->task->lease_left_ms = l->lease.foreign ? 0 : l->lease.read_ms;
}

static bool has_ended(int64_t end_ms)
{
	return end_ms && gck_boot_ms() >= end_ms;
}

static void go_on_without_link(struct task *t)
{
	if (!has_ended(t->lease_left_ms) || !task_is_stopped(t))
		return;
	kill(t->pid, SIGCONT);
	t->lease_left_ms = 0;
}

void lease_look(struct agent *a)
{
	for (size_t i = 0; i < a->tasks.n; i++) {
		if (a->tasks.v[i]->link)
			look(a->tasks.v[i]->link);
		else
			look_left(a->tasks.v[i]);
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
		if (!t->link) {
			go_on_without_link(t);
			continue;
		}
		if (has_ended(t->link->lease.read_ms) && !t->link->lease.foreign)
			kill(t->pid, SIGCONT);
		if (has_read(t->link))
			lease_give(t->link);
	}
}

void lease_end_stand(struct agent *a, bool suspended)
{
	for (size_t i = 0; i < a->tasks.n; i++) {
		struct task *t = a->tasks.v[i];

		if (suspended)
			t->lease_left_ms = 0;
		if (suspended && t->link)
			t->link->lease.foreign = true;
		else if (!suspended && !t->link && task_is_stopped(t))
			kill(t->pid, SIGCONT);
	}
}
