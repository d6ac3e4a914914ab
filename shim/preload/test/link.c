/* SPDX-License-Identifier: Apache-2.0
 * The link between a rank's preload and its agent: every answer to HELLO, calls, the frozen clone,
 * and what remains when the agent, the link or the program's file descriptors go away. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/support/elf_file.h"
#include "test/support/shim_agent.h"
#include "test/support/tap.h"

#define LAST_NUMBER 5000 /* the highest in an image */

static struct agent agent;
static char *rank_argv[] = { (char *)GCK_TEST_RANK, NULL };
static uint64_t count_at, handler_at;

static struct gck_shim_state *state_of(pid_t pid, const struct gck_link_hello *h)
{
	static struct gck_shim_state s;

	agent_peek(pid, h->state, &s, sizeof s);
	return &s;
}

static unsigned long count_of(pid_t pid)
{
	unsigned long count;

	agent_peek(pid, count_at, &count, sizeof count);
	return count;
}

static void proc_line(pid_t pid, const char *file, const char *key, char *value, size_t size)
{
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
	value[0] = '\0';
	if (!(f = fopen(path, "re")))
		return;
	while (fgets(line, sizeof line, f)) {
		if (!strncmp(line, key, strlen(key))) {
			snprintf(value, size, "%s", line + strlen(key));
			value[strcspn(value, "\n")] = '\0';
			break;
		}
	}
	fclose(f);
}

static int fds_of(pid_t pid)
{
	char path[64];
	DIR *d;
	int n = 0;

	snprintf(path, sizeof path, "/proc/%d/fd", pid);
	if (!(d = opendir(path)))
		return -1;
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static void read_addresses(struct rank *r)
{
	if (sscanf(rank_line(r->out, WAIT_MS), "count %" SCNx64 " handler %" SCNx64, &count_at,
		   &handler_at) != 2)
		ok(false, "the rank started");
}

/* Start a rank that gets GO. */
static struct rank start(struct gck_link_hello *hello, int *link)
{
	struct rank r = agent_run(&agent, NULL, rank_argv, true);

	*link = agent_admit(&agent, hello);
	read_addresses(&r);
	return r;
}

/* ---- answers to HELLO ---------------------------------------------------------------------- */

static void test_go(void)
{
	struct rank r = agent_run(&agent, NULL, rank_argv, true);
	struct gck_link_hello h = { 0 };
	const struct gck_shim_state *s;
	char value[64], file[64];
	pid_t peer = 0;
	int link = agent_accept(&agent, WAIT_MS, &h, &peer);

	ok(link >= 0 && peer == r.pid, "the rank's constructor connects");
	ok(h.version == GCK_LINK_VERSION && h.reconnect == 0, "HELLO from the constructor");
	is_str(rank_line(r.out, 100), "", "the program does not run before the answer");
	agent_send(link, GCK_LINK_GO, getpid());
	read_addresses(&r);
	agent_call(link, SYS_getpid, 0, 0, 0, 0);
	s = state_of(r.pid, &h);
	ok(s->magic == GCK_SHIM_MAGIC && s->size == sizeof *s, "HELLO has the state's address");
	ok(s->vpid == r.pid && s->rpid == r.pid && !s->restarts && !s->ntids, "own PID");
	is_str(s->link, agent.name, "the state has the link's name");
	ok(s->link_fd >= 1000 && s->tid_offset > 0, "the link has a high descriptor");
	is_int(s->tracer, getpid(), "the state names the process that may trace");
	snprintf(file, sizeof file, "task/%d/status", s->helper_tid);
	proc_line(r.pid, file, "Name:\t", value, sizeof value);
	is_str(value, "gpuckpt", "the helper has a name");
	proc_line(r.pid, file, "SigBlk:\t", value, sizeof value);
	is_str(value, "fffffffffffbfeff", "the helper blocks all signals that can be blocked");
	is_int(rank_end(&r), 7, "the rank's exit status is its own");
	close(link);
}

static void test_exit(void)
{
	struct rank r = agent_run(&agent, "1", rank_argv, true);
	struct gck_link_hello h;
	int link = agent_accept(&agent, WAIT_MS, &h, NULL);

	agent_send(link, GCK_LINK_EXIT, 42);
	is_str(rank_line(r.out, WAIT_MS), "", "EXIT: the program does not run");
	is_int(rank_end(&r), 42, "EXIT: the status is the agent's");
	close(link);
}

static void test_refused(void)
{
	struct rank r = agent_run(&agent, "0", rank_argv, true);
	struct gck_link_hello h;
	int link = agent_accept(&agent, WAIT_MS, &h, NULL);

	agent_send(link, GCK_LINK_REFUSED, 0);
	read_addresses(&r);
	is_str(rank_ask(&r, "threads"), "2", "REFUSED: the program runs, without a helper");
	is_int(rank_end(&r), 7, "REFUSED: to its end");
	close(link);
	r = agent_run(&agent, "1", rank_argv, true);
	link = agent_accept(&agent, WAIT_MS, &h, NULL);
	agent_send(link, GCK_LINK_REFUSED, 0);
	ok(strstr(rank_line(r.err, WAIT_MS), "refused by the agent"),
	   "REFUSED at a restart: a message");
	is_int(rank_end(&r), 1, "REFUSED at a restart: no start from the beginning");
	close(link);
}

static void test_hold(void)
{
	struct rank r = agent_run(&agent, "1", rank_argv, true);
	struct gck_link_hello h;
	int link = agent_accept(&agent, WAIT_MS, &h, NULL);

	agent_send(link, GCK_LINK_HOLD, getpid());
	is_str(rank_line(r.out, 100), "", "HOLD: the program does not run");
	ok(ptrace(PTRACE_SEIZE, r.pid, 0, 0) == 0, "HOLD: the rank can be traced");
	close(link);
	ok(strstr(rank_line(r.err, WAIT_MS), "before this rank was restored"),
	   "HOLD: the link's end gives a message");
	is_int(rank_end(&r), 1, "HOLD: the link's end ends the rank");
}

static int ns_number(pid_t pid)
{
	char path[64], line[200];
	int own = 0, inside = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "NSpid: %d %d", &own, &inside) == 2)
			break;
	if (f)
		fclose(f);
	return inside;
}

/* The number of a process that is made in a rank's PID namespace. */
static int next_number(pid_t rank)
{
	int number = 0, ends[2], fd = (int)syscall(SYS_pidfd_open, rank, 0);
	pid_t pid;

	if (pipe(ends))
		return 0;
	pid = fork();
	if (!pid) {
		if (setns(fd, CLONE_NEWPID | (geteuid() ? CLONE_NEWUSER : 0)))
			_exit(1);
		pid = fork();
		if (!pid) {
			number = getpid();
			(void)!write(ends[1], &number, sizeof number);
		}
		_exit(0);
	}
	close(ends[1]);
	close(fd);
	(void)!read(ends[0], &number, sizeof number);
	close(ends[0]);
	waitpid(pid, NULL, 0);
	return number;
}

/* A rank that waits, and is told to have another process wait in its place. */
static int send_apart(struct rank *r, int32_t number)
{
	struct gck_link_msg m = {.type = GCK_LINK_APART, .pid = number, .number = LAST_NUMBER};
	struct gck_link_hello h;
	int link;

	*r = agent_run(&agent, "1", rank_argv, true);
	link = agent_accept(&agent, WAIT_MS, &h, NULL);
	agent_send(link, GCK_LINK_HOLD, getpid());
	send(link, &m, offsetof(struct gck_link_msg, calls), MSG_NOSIGNAL);
	return link;
}

/* A rank that waits has another process wait in its place, in a PID namespace. */
static void test_apart(void)
{
	struct rank r;
	struct gck_link_hello h;
	struct gck_link_msg m;
	int link = send_apart(&r, 4711), inside;
	pid_t rank = 0;

	inside = agent_accept(&agent, 2000, &h, &rank);
	if (inside < 0) {
		is_int(agent_receive(link, &m), GCK_LINK_STAYS, "APART: or it says why not");
		skip("APART", strerror(-m.pid));
		kill(r.pid, SIGKILL);
	} else {
		ok(rank != r.pid, "APART: another process connects");
		is_int(ns_number(rank), 4711, "APART: it has the number in its namespace");
		is_int(next_number(rank), LAST_NUMBER + 1, "APART: the next one has a higher one");
		is_int(h.reconnect, 0, "APART: it waits as the rank has");
		is_int(agent_receive(link, &m), 0, "APART: the rank's link ends");
		ok(process_runs(r.pid), "APART: the rank waits for it");
		agent_send(inside, GCK_LINK_HOLD, getpid());
		agent_send(inside, GCK_LINK_EXIT, 9);
	}
	is_int(rank_end(&r), inside < 0 ? 256 + SIGKILL : 9, "APART: the rank ends as it does");
	ok(inside < 0 || process_ends(rank), "APART: it is gone");
	close(link);
	close(inside);
}

/* With the rank all in the namespace end; a number that is taken has a reason. */
static void test_apart_ends(void)
{
	struct rank r;
	struct gck_link_hello h;
	struct gck_link_msg m;
	int link = send_apart(&r, 1), inside;
	pid_t rank = 0;

	is_int(agent_receive(link, &m), GCK_LINK_STAYS, "APART: PID 1 is taken");
	ok(m.pid < 0, "APART: with a reason: %s", strerror(-m.pid));
	kill(r.pid, SIGKILL);
	rank_end(&r);
	close(link);
	link = send_apart(&r, 4711);
	inside = agent_accept(&agent, 2000, &h, &rank);
	kill(r.pid, SIGKILL);
	is_int(rank_end(&r), 256 + SIGKILL, "APART: the task is killed");
	ok(inside < 0 || process_ends(rank), "APART: and with it the rank in the namespace");
	close(link);
	close(inside);
}

static void test_no_agent(void)
{
	struct agent nobody = { .name = "gpuckpt-test-nobody" };
	struct rank r = agent_run(&nobody, NULL, rank_argv, true);
	struct rank restarted = agent_run(&nobody, "3", rank_argv, true);

	ok(strstr(rank_line(r.err, WAIT_MS), "without checkpoints"), "no agent: a message");
	read_addresses(&r);
	is_int(rank_end(&r), 7, "no agent: the program runs");
	ok(strstr(rank_line(restarted.err, WAIT_MS), "nothing to restore"),
	   "no agent at a restart: a message");
	is_int(rank_end(&restarted), 1, "no agent at a restart: no start from the beginning");
}

/* The agent's worker crashes while a rank waits: the next one is asked. */
static void test_agent_dies_before_answer(void)
{
	struct rank r = agent_run(&agent, "1", rank_argv, true);
	struct gck_link_hello h = { .reconnect = 1 };
	int link = agent_accept(&agent, WAIT_MS, &h, NULL);

	close(link);
	link = agent_admit(&agent, &h);
	ok(link >= 0 && h.reconnect == 0, "an agent ends before it answers: the rank asks again");
	read_addresses(&r);
	is_int(rank_end(&r), 7, "and obeys the next answer");
	close(link);
}

/* ---- calls and clones ---------------------------------------------------------------------- */

static void test_calls(void)
{
	struct gck_link_hello h;
	struct gck_link_msg m = { .type = GCK_LINK_CALLS, .ncalls = GCK_LINK_MAX_CALLS };
	char cwd[256], want[256];
	uint64_t action[4];
	uint64_t scratch;
	bool good = true;
	int link;
	struct rank r = start(&h, &link);

	scratch = state_of(r.pid, &h)->scratch;
	agent_call(link, SYS_getcwd, scratch, sizeof cwd, 0, 0);
	agent_peek(r.pid, scratch, cwd, sizeof cwd);
	is_str(cwd, getcwd(want, sizeof want), "CALLS: getcwd into the scratch");
	is_int(agent_call(link, SYS_rt_sigaction, SIGCHLD, 0, scratch, 8), 0, "CALLS: sigaction");
	agent_peek(r.pid, scratch, action, sizeof action);
	ok(action[0] == handler_at, "CALLS: they act on the program's signal actions");
	is_int(agent_call(link, 100000, 0, 0, 0, 0), -ENOSYS, "CALLS: failures are -errno");
	for (int i = 0; i < GCK_LINK_MAX_CALLS; i++)
		m.calls[i] = (struct gck_link_call){ .nr = i % 2 ? SYS_getppid : SYS_getpid };
	send(link, &m, sizeof m, 0);
	good = agent_receive(link, &m) == GCK_LINK_RESULTS && m.ncalls == GCK_LINK_MAX_CALLS;
	for (int i = 0; i < GCK_LINK_MAX_CALLS; i++)
		good = good && m.calls[i].result == (i % 2 ? getpid() : r.pid);
	ok(good, "CALLS: a full packet, in order");
	is_int(rank_end(&r), 7, "CALLS: the rank is unharmed");
	close(link);
}

static void check_clone(const struct rank *r, pid_t clone)
{
	unsigned long frozen = count_of(clone), live = count_of(r->pid);
	char value[64];

	for (int i = 0; i < 400 && (!i || count_of(r->pid) == live); i++)
		pause_ms(50);
	ok(count_of(clone) == frozen, "the clone's memory stays as it was");
	ok(count_of(r->pid) > live, "the rank goes on counting");
	is_int(fds_of(clone), 1, "the clone has no fd except its life");
	proc_line(clone, "oom_score_adj", "", value, sizeof value);
	is_str(value, "1000", "the clone is killed first when memory runs out");
	is_str(rank_ask(r, "wait"), "waitpid -1 ECHILD sigchld 0", "the program has no child");
	kill(clone, SIGTERM);
	pause_ms(20);
	ok(process_runs(clone), "no signal reaches the clone");
}

static void test_clone(void)
{
	struct gck_link_hello h;
	struct gck_link_msg m;
	int link, life, life2;
	struct rank r = start(&h, &link);
	pid_t clone = agent_clone(link, &life);

	ok(clone > 0 && agent_frozen(life), "CLONE: a frozen clone");
	is_int(agent_clone(link, &life2), -EBUSY, "CLONE: EBUSY while it lives");
	close(life2);
	check_clone(&r, clone);
	close(life);
	ok(process_ends(clone), "the clone ends when its life's other end is closed");
	is_str(rank_ask(&r, "wait"), "waitpid -1 ECHILD sigchld 0", "the program does not notice");
	agent_send(link, GCK_LINK_REAP, clone);
	ok(agent_receive(link, &m) == GCK_LINK_REAPED && m.pid == clone, "REAP: the clone's pid");
	ok(kill(clone, 0) < 0 && errno == ESRCH, "REAP: no zombie");
	agent_send(link, GCK_LINK_REAP, clone);
	ok(agent_receive(link, &m) == GCK_LINK_REAPED && m.pid == -ECHILD,
	   "REAP: ECHILD if there is none");
	clone = agent_clone(link, &life);
	ok(clone > 0 && agent_frozen(life), "CLONE: another one");
	agent_send(link, GCK_LINK_REAP, clone);
	ok(agent_receive(link, &m) == GCK_LINK_REAPED && m.pid == clone, "REAP kills a live clone");
	close(life);
	is_int(rank_end(&r), 7, "the rank is unharmed");
	close(link);
}

/* Whether a mapping begins here that is not forked. */
static bool is_unforked(pid_t pid, uint64_t address)
{
	char path[64], line[512];
	bool there = false, is = false;
	uint64_t start, end;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/smaps", pid);
	f = fopen(path, "re");
	while (f && !is && fgets(line, sizeof line, f)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) == 2)
			there = start == address;
		is = there && !strncmp(line, "VmFlags:", 8) && strstr(line, " dc");
	}
	if (f)
		fclose(f);
	return is;
}

/* The agent may have died meanwhile: the program runs, and forks while a clone without all memory
 * is being made. */
static void test_fork_beside_clone(void)
{
	struct timespec second = { 1, 0 };
	struct gck_link_msg m = { .type = GCK_LINK_CLONE, .ncalls = 2, .number = 2 };
	struct gck_link_hello h;
	int link, life, left = WAIT_MS;
	struct rank r = start(&h, &link);
	uint64_t scratch = state_of(r.pid, &h)->scratch;
	struct iovec from = { &second, sizeof second }, to = { (void *)scratch, sizeof second };
	long at = agent_call(link, SYS_mmap, 0, 1 << 20, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS);
	struct gck_link_msg track = { .type = 0 };
	char has[64];

	agent_send(link, GCK_LINK_TRACK_DIRTY, 0); /* as before the look that chooses memory */
	ok(agent_receive(link, &track) == GCK_LINK_DIRTY_FD, "TRACK_DIRTY is answered");
	must(process_vm_writev(r.pid, &from, 1, &to, 1, 0));
	m.calls[0] = (struct gck_link_call){ SYS_madvise, { at, 1 << 20, MADV_DONTFORK }, 0 };
	m.calls[1] = (struct gck_link_call){ SYS_nanosleep, { scratch }, 0 };
	must(agent_ask_clone(link, &m, &life));
	while (!is_unforked(r.pid, at) && left--)
		pause_ms(1);
	ok(left > 0, "memory that the clone need not have is not forked");
	snprintf(has, sizeof has, "has %lx", at);
	is_str(rank_ask(&r, has), "has", "a child that the program forks at that time has it");
	ok(agent_receive(link, &m) == GCK_LINK_CLONED && m.pid > 0, "the clone is made");
	ok(!is_unforked(r.pid, at), "after that it is forked as before");
	close(life);
	is_int(rank_end(&r), 7, "the rank is unharmed");
	close(link);
}

static void test_clone_outlives_rank(void)
{
	struct gck_link_hello h;
	int link, life;
	struct rank r = start(&h, &link);
	pid_t clone = agent_clone(link, &life);
	unsigned long frozen;

	ok(agent_frozen(life), "a clone");
	frozen = count_of(clone);
	is_int(rank_end(&r), 7, "the rank ends");
	ok(process_runs(clone) && count_of(clone) == frozen, "its clone can still be read");
	close(life);
	ok(process_ends(clone), "and ends with its life");
	close(link);
}

/* A packet that no agent sends: the helper drops the link and connects again. */
static void test_nonsense(void)
{
	struct gck_link_hello h;
	int link, link2, link3;
	struct rank r = start(&h, &link);

	send(link, "nonsense", 8, 0);
	link2 = agent_admit(&agent, &h);
	ok(link2 >= 0 && h.reconnect == 1, "an invalid packet ends only the link");
	agent_send(link2, 1234, 0);
	link3 = agent_admit(&agent, &h);
	ok(link3 >= 0 && h.reconnect == 1, "a packet of unknown type ends only the link");
	is_int(rank_end(&r), 7, "the rank is unharmed");
	close(link);
	close(link2);
	close(link3);
}

/* ---- deaths -------------------------------------------------------------------------------- */

/* An agent in a process of its own: admits the rank, clones it, reports that, and waits to be
 * killed. */
static pid_t fork_agent(pid_t *clone)
{
	struct gck_link_hello h;
	int report[2], link, life;
	pid_t pid, made;

	if (pipe(report) || (pid = fork()) < 0)
		return -1;
	if (pid == 0) {
		link = agent_admit(&agent, &h);
		made = agent_clone(link, &life);
		if (!agent_frozen(life) || write(report[1], &made, sizeof made) < 0)
			_exit(1);
		pause();
	}
	if (read(report[0], clone, sizeof *clone) != sizeof *clone)
		*clone = -1;
	close(report[0]);
	close(report[1]);
	return pid;
}

static void test_agent_killed(void)
{
	struct rank r = agent_run(&agent, NULL, rank_argv, true);
	struct gck_link_hello h = { 0 };
	pid_t clone, pid = fork_agent(&clone);
	unsigned long before;
	int link;

	read_addresses(&r);
	ok(process_runs(clone), "an agent with a clone");
	before = count_of(r.pid);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	link = agent_admit(&agent, &h);
	ok(link >= 0 && h.reconnect == 1, "agent killed: the helper connects again");
	ok(kill(clone, 0) < 0 && errno == ESRCH, "agent killed: its clone is gone, and reaped");
	ok(count_of(r.pid) > before, "agent killed: the rank goes on counting");
	close(agent.listener);
	close(link);
	pause_ms(300);
	agent_listen(&agent);
	link = agent_admit(&agent, &h);
	ok(link >= 0 && h.reconnect == 1, "the helper finds a new listener under the name");
	is_int(agent_call(link, SYS_getpid, 0, 0, 0, 0), r.pid, "and serves it");
	is_int(rank_end(&r), 7, "the rank is unharmed");
	close(link);
}

static bool becomes(pid_t pid, const char *state)
{
	char is[64] = "";

	for (int ms = WAIT_MS; ms && strncmp(is, state, strlen(state)); ms--, pause_ms(1))
		proc_line(pid, "status", "State:\t", is, sizeof is);
	return !strncmp(is, state, strlen(state));
}

static void test_lease(void)
{
	struct rank r = agent_run(&agent, NULL, rank_argv, true);
	struct gck_link_hello h = { 0 };
	int link = agent_admit(&agent, &h);
	unsigned long before;

	read_addresses(&r);
	ok(agent_sees_lease(r.pid, false), "a rank has no lease until its agent gives one");
	agent_lease(link, 3600000);
	ok(agent_sees_lease(r.pid, true), "it gets one");
	agent_lease(link, 100);
	ok(becomes(r.pid, "T"), "the lease ends: the rank is stopped");
	before = count_of(r.pid);
	agent_lease(link, 3600000);
	kill(r.pid, SIGCONT);
	is_int(agent_call(link, SYS_getpid, 0, 0, 0, 0), r.pid, "SIGCONT: it serves its link");
	pause_ms(20);
	ok(count_of(r.pid) > before, "and counts");
	is_str(rank_ask(&r, "run"), "1", "a child of it has no lease");
	close(link);
	ok(agent_sees_lease(r.pid, false), "the link ends: so does the lease");
	link = agent_admit(&agent, &h);
	agent_lease(link, 3600000);
	ok(link >= 0 && agent_sees_lease(r.pid, true), "the next agent gives it one");
	agent_lease(link, 0);
	ok(agent_sees_lease(r.pid, false), "and takes it back");
	is_int(rank_end(&r), 7, "the rank is unharmed");
	close(link);
}

/* Leases come more often than the helper looks whether it is the last thread. */
static void test_last_thread(void)
{
	struct rank r = agent_run(&agent, NULL, rank_argv, true);
	struct gck_link_hello h = { 0 };
	int link = agent_admit(&agent, &h), status = -1, ended = 0;

	read_addresses(&r);
	dprintf(r.in, "leave\n");
	for (int ms = 0; !ended && ms < WAIT_MS; ms += 100) {
		agent_lease(link, 3600000);
		pause_ms(100);
		ended = waitpid(r.pid, &status, WNOHANG);
	}
	if (!ended)
		rank_end(&r);
	is_int(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 5,
	       "a program whose threads have ended ends, however many leases come");
	close(link);
}

static void test_closefrom(void)
{
	struct gck_link_hello h;
	char line[32];
	int link, fd, link2;
	struct rank r = start(&h, &link);

	fd = state_of(r.pid, &h)->link_fd;
	snprintf(line, sizeof line, "closefrom %d", fd);
	is_str(rank_ask(&r, line), "closed", "the program closes all and uses the link's number");
	link2 = agent_admit(&agent, &h);
	ok(link2 >= 0 && h.reconnect == 1, "closefrom: the helper connects again");
	is_int(agent_call(link2, SYS_getpid, 0, 0, 0, 0), r.pid, "closefrom: it serves CALLS");
	ok(state_of(r.pid, &h)->link_fd != fd, "closefrom: under another number");
	snprintf(line, sizeof line, "mine %d", fd);
	is_str(rank_ask(&r, line), "/dev/null", "closefrom: the program's own fd is left alone");
	is_int(rank_end(&r), 7, "closefrom: the rank is unharmed");
	close(link);
	close(link2);
}

static void test_few_fds(void)
{
	struct rlimit had, few = { 64, 64 };
	struct gck_link_hello h;
	struct rank r;
	int link;

	getrlimit(RLIMIT_NOFILE, &had);
	few.rlim_max = had.rlim_max;
	setrlimit(RLIMIT_NOFILE, &few);
	r = start(&h, &link);
	setrlimit(RLIMIT_NOFILE, &had);
	ok(state_of(r.pid, &h)->link_fd > 30, "a small limit on fds: the link has the highest");
	is_int(rank_end(&r), 7, "a small limit on fds: the rank runs");
	close(link);
}

/* ---- children and exec --------------------------------------------------------------------- */

static void test_children(void)
{
	struct gck_link_hello h;
	char line[32];
	int link;
	struct rank r = start(&h, &link);

	snprintf(line, sizeof line, "fork %d", state_of(r.pid, &h)->link_fd);
	is_str(rank_ask(&r, line), "threads 1 link 0", "a forked child has no helper and no link");
	is_str(rank_ask(&r, "run"), "1", "a child that execs has no helper");
	is_int(agent_accept(&agent, 100, &h, NULL), -1, "and sends no HELLO");
	is_str(rank_ask(&r, "preload"), ":libc.so.6 :libc.so.6 :libc.so.6 :libc.so.6 ",
	       "programs of children do without the stand-ins");
	is_int(agent_call(link, SYS_getpid, 0, 0, 0, 0), r.pid, "the rank keeps its link");
	is_int(rank_end(&r), 7, "and runs on");
	close(link);
}

static void test_exec(void)
{
	struct gck_link_hello h = { .reconnect = 1 };
	struct gck_link_msg m;
	pid_t peer;
	int link, link2;
	struct rank r = agent_run(&agent, "2", rank_argv, true);

	link = agent_admit(&agent, &h);
	read_addresses(&r);
	rank_ask(&r, "preload");
	dprintf(r.in, "exec\n");
	link2 = agent_accept(&agent, WAIT_MS, &h, &peer);
	ok(link2 >= 0 && peer == r.pid && h.reconnect == 0, "an exec makes a rank again");
	is_int(agent_receive(link, &m), 0, "and ends the older link");
	agent_send(link2, GCK_LINK_REFUSED, 0);
	read_addresses(&r);
	is_str(rank_ask(&r, "own"),
	       "preload.so:/none/libgpuckpt-mpi.so /none/libgpuckpt-cuda.so:libc.so.6",
	       "a program that the rank executes keeps the stand-ins");
	is_int(rank_end(&r), 7, "an exec may go on without the agent, also after a restart");
	close(link);
	close(link2);
}

/* A rank that executes a static program becomes its parent. */
static void execute_static(const char *directory, const char *how, const char *name)
{
	struct gck_link_hello h;
	char line[80];
	int link, link2;
	struct rank r = start(&h, &link);

	snprintf(line, sizeof line, "%s %s", how, directory);
	is_str(rank_ask(&r, line), "a child: ENOEXEC, without a parent: ENOEXEC",
	       "a child executes the program itself, a rank, too, if there is no gpuckpt-parent");
	link2 = agent_accept(&agent, WAIT_MS, &h, NULL);
	agent_send(link2, GCK_LINK_REFUSED, 0);
	snprintf(line, sizeof line, "name %s/static", directory);
	is_str(rank_line(r.out, WAIT_MS), line, name);
	is_int(rank_end(&r), 3, "and ends as that");
	close(link);
	close(link2);
}

static void test_static(void)
{
	char directory[] = "/tmp/gpuckpt-link-XXXXXX", path[64], command[64];

	if (!mkdtemp(directory))
		exit(99);
	snprintf(path, sizeof path, "%s/static", directory);
	elf_file(path, NULL, 0755);
	execute_static(directory, "static",
		       "a rank that executes a static program becomes its parent, with its "
		       "arguments");
	execute_static(directory, "search", "so does one that finds it in PATH");
	snprintf(command, sizeof command, "rm -r %s", directory);
	if (system(command))
		exit(99);
}

/* 0 if a rank of another user refuses our listener. */
static int other_user(void)
{
	struct rank r;

	if (setgid(65534) || setuid(65534))
		return 99;
	r = agent_run(&agent, "1", rank_argv, true);
	if (!strstr(rank_line(r.err, WAIT_MS), "no agent answers"))
		return 98;
	return rank_end(&r) != 1;
}

static void test_other_user(void)
{
	int status = -1;
	pid_t pid;

	if (getuid() != 0) {
		skip("a listener of another user is refused", "not root");
		return;
	}
	if ((pid = fork()) == 0)
		_exit(other_user());
	waitpid(pid, &status, 0);
	is_int(WEXITSTATUS(status), 0, "a listener of another user is refused");
}

int main(void)
{
	agent_listen(&agent);
	test_go();
	test_exit();
	test_refused();
	test_hold();
	test_apart();
	test_apart_ends();
	test_no_agent();
	test_agent_dies_before_answer();
	test_calls();
	test_clone();
	test_fork_beside_clone();
	test_clone_outlives_rank();
	test_nonsense();
	test_agent_killed();
	test_lease();
	test_last_thread();
	test_closefrom();
	test_few_fds();
	test_children();
	test_exec();
	test_static();
	test_other_user();
	return tap_done();
}
