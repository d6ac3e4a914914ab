/* SPDX-License-Identifier: Apache-2.0
 * The constructor: asks the agent what this process must become, before any code of the program
 * runs. In a process that is not a rank it only fills in the state.
 *
 * The object is linked with -z initfirst: not even libc's own constructor has run, so the
 * environment comes from the arguments, and messages are written by raw system calls. */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "shim/preload/helper/helper.h"
#include "shim/preload/helper/raw.h"
#include "shim/preload/pid/pid.h"
#include "shim/preload/pid/virtual_ids.h"
#include "shim/preload/preload.h"
#include "shim/preload/start/apart.h"

/* What pthread_atfork calls, which lies on another page of this library than what each process
 * runs. owner: an address in it. */
int __register_atfork(void (*before)(void), void (*parent)(void), void (*child)(void), void *owner);

#define GUARD 4096
#define ASK_AGAIN 12 /* times, ASK_PAUSE_NS apart: a crashed agent is restarted */
#define ASK_PAUSE_NS 250000000

static void print_line(const char *what, const char *object, const char *consequence)
{
	const char *parts[] = { "gpuckpt: ", what, object, consequence, "\n" };
	struct iovec v[5];

	for (int i = 0; i < 5; i++) {
		v[i].iov_base = (void *)parts[i];
		v[i].iov_len = strlen(parts[i]);
	}
	gck_raw(SYS_writev, STDERR_FILENO, v, 5);
}

static _Noreturn void leave(int status)
{
	for (;;)
		gck_raw(SYS_exit_group, status);
}

/* The value of NAME=, or NULL. Like all that each command of a script runs through, this calls no
 * function of libc whose page it would be the first to touch. */
static char *value_of(char *variable, const char *name)
{
	while (*name && *variable == *name)
		variable++, name++;
	return !*name && *variable == '=' ? variable + 1 : NULL;
}

GCK_EACH static char *find(char **envp, const char *name)
{
	char *value = NULL;

	while (*envp && !value)
		value = value_of(*envp++, name);
	return value;
}

static int32_t number_of(const char *digits)
{
	int32_t number = 0;

	for (; *digits >= '0' && *digits <= '9'; digits++)
		number = 10 * number + (*digits - '0');
	return number;
}

/* Find glibc's copy of the TID: it is at the address that the kernel clears when the thread
 * ends. */
GCK_EACH static int64_t find_tid_offset(void)
{
	uint64_t address;

	if (gck_raw(SYS_prctl, PR_GET_TID_ADDRESS, &address) < 0)
		return 0;
	return address - (uint64_t)pthread_self();
}

/* ---- state --------------------------------------------------------------------------------- */

/* For the helper of a process that is no rank: no page of it exists before it is summoned. */
static char summoned[GCK_HELPER_STACK + GCK_SHIM_SCRATCH] __attribute__((aligned(4096)));

GCK_EACH static void fill_state(void)
{
	gck_state.version = GCK_LINK_VERSION;
	gck_state.size = sizeof gck_state;
	gck_state.features = GCK_SHIM_WAITS | GCK_SHIM_SUMMON;
	gck_state.helper_entry = (uint64_t)gck_helper_entry;
	gck_state.helper_stack_top = (uint64_t)summoned + GCK_HELPER_STACK;
	gck_state.scratch = gck_state.helper_stack_top;
	gck_state.vpid = gck_state.rpid = gck_raw(SYS_getpid);
	gck_state.tid_offset = find_tid_offset();
	gck_guard_begin();
	gck_handlers_begin();
	gck_death_begin();
	gck_state.link_fd = -1;
	gck_state.environ_at = (uint64_t)&environ;
}

/* From now on a checkpoint may be taken, also of a process that has just executed a program: what
 * fills in the state would write over what a restart has put there. */
static void complete_state(void)
{
	__atomic_store_n(&gck_state.magic, GCK_SHIM_MAGIC, __ATOMIC_RELEASE);
}

__attribute__((visibility("default"))) struct gck_shim_state *gck_preload_state(void)
{
	return &gck_state;
}

/* Map guard page, stack and scratch as one mapping; every image has it. */
static int map_helper(void)
{
	size_t size = GUARD + GCK_HELPER_STACK + GCK_SHIM_SCRATCH;
	long start = gck_raw(SYS_mmap, 0, size, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (start < 0 && start > -4096)
		return start;
	gck_raw(SYS_mprotect, start, GUARD, PROT_NONE);
	gck_state.helper_stack_top = start + GUARD + GCK_HELPER_STACK;
	gck_state.scratch = gck_state.helper_stack_top;
	return 0;
}

/* ---- the agent's answer -------------------------------------------------------------------- */

/* Send HELLO and wait for the answer, without a limit: the agent decides how long to wait for the
 * coordinator. Returns the link's fd; m gets the answer. */
static int ask_once(struct gck_link_msg *m)
{
	int fd = gck_link_socket();
	int r;

	if (fd < 0)
		return fd;
	r = gck_link_connect(fd, false);
	if (r == 0 && (r = gck_link_receive(fd, m, NULL)) == 1)
		return fd;
	gck_raw(SYS_close, fd);
	return r < 0 ? r : -ECONNRESET;
}

/* The agent may trace from the moment it answers, so Yama must allow that before; the process has
 * no state of the program yet. GO narrows the permission to the agent. */
static int ask(struct gck_link_msg *m)
{
	const struct timespec pause = { .tv_nsec = ASK_PAUSE_NS };
	int fd = -1;

	gck_tracer_allow(GCK_TRACER_ANY);
	for (int i = 0; i < ASK_AGAIN && fd < 0; i++) {
		if (i > 0)
			gck_raw(SYS_nanosleep, &pause, 0);
		fd = ask_once(m);
	}
	if (fd < 0)
		gck_tracer_allow(0);
	return fd;
}

/* Wait. The agent's worker empties this process meanwhile, or the rank turns out to have
 * finished. Returns in a process that was made in this one's place. */
static void hold(int fd, const struct gck_link_msg *hold, char *pid)
{
	struct gck_link_msg m;
	long r;

	gck_tracer_allow(hold->pid);
	while (gck_link_receive(fd, &m, NULL) == 1) {
		if (m.type == GCK_LINK_EXIT)
			leave(m.pid & 255);
		if (m.type != GCK_LINK_APART)
			continue;
		r = gck_apart(fd, m.pid, m.number, pid);
		if (r == 0)
			return;
		gck_link_send(fd, &m, GCK_LINK_STAYS, r);
	}
	print_line("the agent @", gck_state.link,
		   " ended before this rank was restored; the rank ends, so that it does not start "
		   "from the beginning");
	leave(1);
}

static void go(int fd, const struct gck_link_msg *m)
{
	long tid = map_helper();

	gck_tracer_allow(m->pid);
	gck_state.link_fd = fd;
	gck_state.requests[GCK_REQUEST_ALL].asked = gck_state.requests[GCK_REQUEST_ALL].committed =
		m->number;
	if (tid == 0)
		tid = gck_helper_start();
	if (tid < 0) {
		gck_state.link_fd = -1;
		gck_raw(SYS_close, fd);
		print_line("cannot start the helper thread (limit on processes or memory?)",
		    "", "; this rank runs without checkpoints");
		return;
	}
	gck_state.helper_tid = tid;
	gck_altstack_begin();
}

/* Whether it is a process that was made in the rank's place, which asks again. */
static bool is_held(int fd, const struct gck_link_msg *m, char *pid)
{
	if (fd < 0 || m->type != GCK_LINK_HOLD)
		return false;
	hold(fd, m, pid);
	return true;
}

/* restarted: the value of GPUCKPT_RESTARTS; NULL or "0" at a first start. Only then may a rank
 * start from the beginning without the agent's permission. */
static void obey(int fd, const struct gck_link_msg *m, char *restarted)
{
	bool cold = !restarted || !strcmp(restarted, "0");

	if (fd >= 0 && m->type == GCK_LINK_EXIT)
		leave(m->pid & 255);
	if (fd >= 0 && m->type == GCK_LINK_GO) {
		/* a later exec is not a restart: it may go on without the agent */
		if (!cold)
			strcpy(restarted, "0");
		go(fd, m);
		return;
	}
	if (fd >= 0)
		gck_raw(SYS_close, fd);
	if (!cold) {
		print_line(fd < 0 ? "no agent answers at @" : "refused by the agent @",
			   gck_state.link,
			   "; the rank ends: only the agent can say that there is nothing to "
			   "restore");
		leave(1);
	}
	if (fd < 0)
		print_line("no agent answers at @", gck_state.link,
		    "; this rank runs without checkpoints");
}

/* The name of the agent's socket, for this process's helper and the stand-ins. */
GCK_EACH static bool take_link(const char *link)
{
	size_t n = 0;

	while (n < sizeof gck_state.link && (gck_state.link[n] = link[n]))
		n++;
	if (n > 0 && n < sizeof gck_state.link)
		return true;
	gck_state.link[0] = '\0';
	print_line("GPUCKPT_LINK is not a socket's name: ", link, "; ignored");
	return false;
}

/* A process of a step. What it takes over from its environment is in the state before a checkpoint
 * may be taken. Returns whether it is a rank, which asks the agent what to become. */
GCK_EACH static bool enter_step(char **argv, char **envp)
{
	const char *link = find(envp, GCK_START_NAME("GPUCKPT_LINK"));
	const char *pid = find(envp, GCK_START_NAME("GPUCKPT_PID"));
	const char *ids = find(envp, GCK_START_NAME("GPUCKPT_IDS"));
	bool is_rank;

	if (!link || !pid || !take_link(link))
		return false;
	gck_state.rank_pid = number_of(pid);
	is_rank = gck_state.rank_pid == gck_state.rpid;
	if (!is_rank)
		gck_stand_ins_load(argv, envp);
	if (ids)
		gck_ids_inherit(ids);
#ifdef GCK_FAULTS
	gck_fault_dir = find(envp, GCK_START_NAME("GPUCKPT_FAULT"));
#endif
	if (!is_rank) {
		gck_state.features |= GCK_SHIM_DESCENDANT;
		gck_tracer_allow(GCK_TRACER_ANY); /* a helper learns who the agent is */
	}
	return is_rank;
}

/* Apart from begin, whose stack has no room for the message then. */
__attribute__((noinline)) static void begin_rank(char **envp)
{
	struct gck_link_msg m;
	int fd;

	gck_stdio_find(find(envp, "GPUCKPT_STDIO"), gck_state.stdio);
	do
		fd = ask(&m);
	while (is_held(fd, &m, find(envp, "GPUCKPT_PID")));
	obey(fd, &m, find(envp, "GPUCKPT_RESTARTS"));
}

__attribute__((constructor)) GCK_EACH static void begin(int argc, char **argv, char **envp)
{
	bool is_rank;

	(void)argc;
	fill_state();
	__register_atfork(NULL, NULL, gck_child_begin, &gck_state);
	is_rank = enter_step(argv, envp);
	complete_state();
	if (!is_rank)
		return;
	gck_real_resolve();
	begin_rank(envp);
}
