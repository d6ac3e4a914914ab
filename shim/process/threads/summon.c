/* SPDX-License-Identifier: Apache-2.0
 * A helper in a held process that has none: its stopped main thread makes it (stub.h), once a place
 * in its memory has all of its registers. */
#include "config.h"

#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "shim/process/threads/borrow.h"
#include "shim/process/threads/stub.h"

#define CALLS 3 /* of the stub */
#define ANSWER_MS 2000

static int write_frame(const struct gck_target *t, const struct gck_stub *s, uint64_t at,
		       struct gck_error *err)
{
	const struct user_regs_struct *r = &s->back;
	const struct gck_shim_summon f = {
		.mask = s->mask, .all = ~0ull, .stack = t->shim->helper_stack_top,
		.r15 = r->r15, .r14 = r->r14, .r13 = r->r13, .r12 = r->r12, .rbp = r->rbp,
		.rbx = r->rbx, .r11 = r->r11, .r10 = r->r10, .r9 = r->r9, .r8 = r->r8,
		.rax = r->rax, .rcx = r->rcx, .rdx = r->rdx, .rsi = r->rsi, .rdi = r->rdi,
		.rip = r->rip, .cs = r->cs, .eflags = r->eflags, .rsp = r->rsp, .ss = r->ss};

	return gck_stub_put(t, at, &f, sizeof f, err);
}

#define PUT(t, field, value, err) \
	gck_stub_put(t, (t)->address + offsetof(struct gck_shim_state, field), value, \
	    sizeof((t)->shim->field), err)

static int write_state(const struct gck_target *t, const char *link, struct gck_error *err)
{
	char name[sizeof(t->shim->link)] = "";
	const uint32_t features = t->shim->features | GCK_SHIM_SUMMONED, linked = 0;
	const int32_t none = -1, helper = 0;

	snprintf(name, sizeof name, "%s", link);
	return PUT(t, link, name, err) || PUT(t, link_fd, &none, err) ||
	       PUT(t, helper_tid, &helper, err) || PUT(t, linked, &linked, err) ||
	       PUT(t, features, &features, err) ? -1 : 0;
}

static int make_helper(const struct gck_target *t, struct gck_held_thread *x,
		       struct gck_error *err)
{
	uint64_t at = t->shim->helper_stack_top - GCK_SHIM_SUMMON_AT;
	struct user_regs_struct code;
	struct gck_stub s;

	if (gck_stub_begin(x, &s, err) || write_frame(t, &s, at, err))
		return -1;
	code = s.own;
	code.rip = t->shim->helper_entry;
	code.rsp = at;
	code.rax = 1;
	return gck_stub_run(t, x, &s, &code, CALLS, NULL, err);
}

/* ---- its link ------------------------------------------------------------------------------ */

static bool is_peer(int fd, pid_t pid)
{
	struct ucred peer;
	socklen_t size = sizeof peer;

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) && peer.pid == pid;
}

static int accept_helper(const struct gck_target *t, int listener, struct gck_error *err)
{
	struct pollfd p = {.fd = listener, .events = POLLIN};
	struct gck_link_msg m = {.type = GCK_LINK_GO, .pid = t->rank->shim->tracer};
	int fd = -1;

	while (fd < 0 && poll(&p, 1, ANSWER_MS) > 0) {
		fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0 && !is_peer(fd, t->pid)) {
			close(fd);
			fd = -1;
		}
	}
	p.fd = fd;
	if (fd >= 0 && send(fd, &m, offsetof(struct gck_link_msg, calls), MSG_NOSIGNAL) > 0 &&
	    poll(&p, 1, ANSWER_MS) > 0 && recv(fd, &m, sizeof m, 0) > 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return gck_fail(err, EAGAIN, "process %d did not answer; try again", (int)t->pid);
}

/* After fork() a child leaves its parent's link. Until then, or if it was not made by fork(), it
 * has its parent's state, too. */
static bool has_link(const struct gck_target *t)
{
	return t->shim->link_fd >= 0;
}

static bool is_of_helper(const struct gck_target *t, int fd)
{
	struct sockaddr_un peer = {.sun_family = AF_UNIX};
	socklen_t size = sizeof peer;
	int copy = gck_target_fd(t, fd);
	bool is = copy >= 0 && !getpeername(copy, (struct sockaddr *)&peer, &size) &&
		  peer.sun_family == AF_UNIX && !strncmp(peer.sun_path + 1, GCK_TREE_LINK,
							 strlen(GCK_TREE_LINK));

	if (copy >= 0)
		close(copy);
	return is;
}

/* An implanted preload is not told of a fork, and so leaves no link. */
static int leave_link(struct gck_target *t, struct gck_held_thread *x, struct gck_error *err)
{
	const struct gck_borrowed_call call = {SYS_close, {(uint64_t)t->shim->link_fd}, 0};

	if (!t->forked || t->shim->link_fd < 0 || !(t->shim->features & GCK_SHIM_IMPLANTED))
		return 0;
	if (is_of_helper(t, t->shim->link_fd) &&
	    gck_borrow(t, x, t->shim->scratch, &call, 1, NULL, err))
		return -1;
	t->shim->link_fd = -1;
	return 0;
}

/* The helper of an earlier checkpoint has the stack until it is gone. */
static bool has_helper(const struct gck_target *t)
{
	char name[32];

	snprintf(name, sizeof name, "task/%d", (int)t->shim->helper_tid);
	return t->shim->helper_tid && faccessat(t->proc, name, F_OK, 0) == 0;
}

int gck_summon(struct gck_target *t, struct gck_held *h, const char *link, int listener,
	       struct gck_error *err)
{
	struct gck_held_thread *x = NULL;
	char agent[sizeof t->shim->link];
	int failed;

	for (size_t i = 0; i < h->n; i++)
		if (h->v[i].tid == t->pid)
			x = &h->v[i];
	if (!(t->shim->features & GCK_SHIM_SUMMON))
		return gck_fail(err, ENOTSUP, "process %d has an older preload", (int)t->pid);
	if ((!t->address || t->shim->features & GCK_SHIM_IMPLANTED) && gck_borrow_clean(t, h, err))
		return -1;
	if (x && !x->signal && ((!t->address && gck_implant(t, x, err)) || leave_link(t, x, err)))
		return -1;
	if (!x || x->signal || has_link(t) || has_helper(t))
		return gck_fail(err, EAGAIN, "process %d has just been forked, is about to handle "
				"a signal, or is not done with an earlier checkpoint; try again",
				(int)t->pid);
	memcpy(agent, t->shim->link, sizeof agent);
	failed = write_state(t, link, err) || make_helper(t, x, err);
	if (!failed)
		t->link = accept_helper(t, listener, err);
	/* the stand-ins connect to the agent */
	failed = failed || t->link < 0 || PUT(t, link, agent, err);
	if (!failed && t->shim->features & GCK_SHIM_IMPLANTED)
		failed = gck_implant_ask(t, h, err);
	return failed ? -1 : gck_target_refresh(t, err);
}
