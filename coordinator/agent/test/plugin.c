/* SPDX-License-Identifier: Apache-2.0
 * Slurm and the SPANK plugin, played by a test. */
#include "config.h"

#include "coordinator/agent/test/plugin.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/control.h"
#include "test/support/clock.h"

#define PATIENCE_MS 120000 /* for what must happen: only a failure takes so long */
#define STAND_MS 300 /* counters write every few milliseconds */
#define ORDINARY_UID 64321 /* the job's owner when the test runs as root */

static int listener = -1;
static char link_name[96];

static void must(bool good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(99);
}

/* ---- the directory ------------------------------------------------------------------------- */

static void copy(const struct plugin *p, const char *from, const char *to)
{
	char command[512];

	snprintf(command, sizeof command, "cp %s %s/%s", from, p->dir, to);
	must(system(command) == 0, command);
}

static void write_conf(const struct plugin *p, const char *munge)
{
	char path[96];
	FILE *f;

	snprintf(path, sizeof path, "%s/gpuckpt.conf", p->dir);
	f = fopen(path, "w");
	must(f != NULL, path);
	fprintf(f, "ClusterName=test\nCoordinatorHost=127.0.0.1\nCoordinatorPort=%u\n"
		"CoordinatorUser=%s\nMungeSocket=%s\nAgentLog=%s/log\n", coord_port(),
		coord_user(), munge, p->dir);
	fclose(f);
}

int plugin_open(struct plugin *p, const char **why)
{
	const char *munge = coord_open(why);
	char store[96], clock[96];

	memset(p, 0, sizeof *p);
	p->control = -1;
	if (!munge)
		return -1;
	strcpy(p->dir, "/tmp/gck-agent-XXXXXX");
	must(mkdtemp(p->dir) && chmod(p->dir, 0755) == 0, p->dir);
	copy(p, "coordinator/agent/test/agent", "agent");
	if (access("gpuckpt-gpus", X_OK) == 0) /* built with CUDA */
		copy(p, "gpuckpt-gpus", "gpuckpt-gpus");
	copy(p, ".libs/libgpuckpt-preload.so", "preload.so");
	copy(p, "coordinator/agent/test/counter", "counter");
	write_conf(p, munge);
	snprintf(clock, sizeof clock, "%s/clock", p->dir);
	must(test_clock_open(clock) == 0, clock);
	snprintf(store, sizeof store, "%s/store", p->dir);
	must(mkdir(store, 0755) == 0 && chmod(store, 0755) == 0, store);
	snprintf(store, sizeof store, "%s/store/test", p->dir);
	must(mkdir(store, 0777) == 0 && chmod(store, 01777) == 0, store);
	must(getuid() || chown(p->dir, ORDINARY_UID, ORDINARY_UID) == 0, "chown");
	return 0;
}

void plugin_close(struct plugin *p)
{
	char command[128];

	coord_close();
	if (!getenv("KEEP")) {
		snprintf(command, sizeof command, "rm -rf %s", p->dir);
		must(system(command) == 0, command);
	}
}

void plugin_set_mode(const struct plugin *p, const char *name, mode_t mode)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%s", p->dir, name);
	must(chmod(path, mode) == 0, path);
}

void plugin_write_scontrol(const struct plugin *p, const char *script)
{
	char path[96], fresh[96];
	FILE *f;

	snprintf(path, sizeof path, "%s/scontrol", p->dir);
	snprintf(fresh, sizeof fresh, "%s/scontrol.new", p->dir);
	f = fopen(fresh, "w");
	must(f && fprintf(f, "#!/bin/sh\n%s\n", script) > 0 && fchmod(fileno(f), 0755) == 0,
	     fresh);
	fclose(f);
	must(rename(fresh, path) == 0, path); /* an agent may be executing it */
}

/* ---- the step ------------------------------------------------------------------------------ */

/* A socket, and the address of the agent's. */
static int link_socket(struct sockaddr_un *a, socklen_t *size)
{
	size_t n = strlen(link_name);

	*a = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(a->sun_path + 1, link_name, n);
	*size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
	return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
}

static void listen_for_shims(void)
{
	struct sockaddr_un a;
	socklen_t size;

	snprintf(link_name, sizeof link_name, "gck-agent-test-%d-%ld", getpid(), random());
	listener = link_socket(&a, &size);
	must(bind(listener, (void *)&a, size) == 0, "bind");
}

int plugin_connect(void)
{
	struct sockaddr_un a;
	socklen_t size;
	int fd = link_socket(&a, &size);

	must(connect(fd, (void *)&a, size) == 0, "connect");
	return fd;
}

static void become_user(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getuid())
		return;
	must(setgroups(0, NULL) == 0 && setgid(ORDINARY_UID) == 0 && setuid(ORDINARY_UID) == 0,
	     "setuid");
	/* A change of user has cleared this flag: files in /proc belong to the user only with
	 * it. */
	prctl(PR_SET_DUMPABLE, 1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void set(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void set(const char *name, const char *fmt, ...)
{
	char value[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(value, sizeof value, fmt, ap);
	va_end(ap);
	setenv(name, value, 1);
}

pid_t plugin_start_process(bool of_step)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	become_user();
	set("SLURM_JOB_ID", "7");
	if (of_step)
		set("SLURM_STEP_ID", "1");
	execlp("sleep", "sleep", "1000", NULL);
	_exit(127);
}

static void run_rank(const struct plugin *p, unsigned i)
{
	char program[96], file[96], number[16], said[96];

	become_user();
	snprintf(program, sizeof program, "%s/counter", p->dir);
	snprintf(file, sizeof file, "%s/out%u", p->dir, i);
	snprintf(number, sizeof number, "%u", i);
	snprintf(said, sizeof said, "%s/said", p->dir);
	set("LD_PRELOAD", "%s/preload.so", p->dir);
	set("GPUCKPT_LINK", "%s", link_name);
	set("GPUCKPT_PID", "%d", (int)getpid());
	set("GPUCKPT_RESTARTS", "%u", p->restarts);
	if (p->shares)
		set("COUNTER_SHARES", "%s", p->shares);
	if (p->keeps && i < p->keepers) {
		int mark = (int)strspn(p->keeps, "+2");

		set("COUNTER_KEEPS", "%.*s%s/%s", mark, p->keeps, p->dir, p->keeps + mark);
	}
	dup2(open("/dev/null", O_RDONLY), 0);
	dup2(open(said, O_WRONLY | O_CREAT | O_APPEND, 0644), 2);
	close_range(3, ~0u, 0);
	execl(program, program, file, number, i ? p->limit : NULL, (char *)NULL);
	_exit(127);
}

static void agent_environment(const struct plugin *p)
{
	clearenv();
	set("GPUCKPT_CONF", "%s/gpuckpt.conf", p->dir);
	set(TEST_CLOCK_ENV, "%s/clock", p->dir);
	set("GPUCKPT_JOB", "7");
	set("GPUCKPT_STEP", "0");
	set("GPUCKPT_RESTARTS", "%u", p->restarts);
	set("GPUCKPT_NODE", "n1");
	set("GPUCKPT_NODEID", "0");
	set("GPUCKPT_NNODES", "1");
	set("GPUCKPT_NTASKS", "%d", PLUGIN_RANKS);
	set("GPUCKPT_LOCAL_NTASKS", "%d", PLUGIN_RANKS);
	set("GPUCKPT_CWD", "%s", p->dir);
	set("GPUCKPT_OPTIONS", "store=file:%s/%s%s%s", p->dir, p->store ? p->store : "store",
	    p->options ? "," : "", p->options ? p->options : "");
	set("PATH", "%s", p->dir); /* where a test may put a scontrol */
	if (p->fault)
		set("GPUCKPT_FAULT", "%s", p->fault);
}

static void run_agent(const struct plugin *p, int control, int report)
{
	const struct rlimit none = { 1, 1 };
	char program[96];

	become_user();
	if (p->no_forks)
		setrlimit(RLIMIT_NPROC, &none);
	snprintf(program, sizeof program, "%s/agent", p->dir);
	agent_environment(p);
	must(listen(listener, 64) == 0, "listen"); /* the coordinator's user, as the shims see it */
	dup2(control, 20);
	dup2(listener, 21);
	dup2(report, 22);
	dup2(20, GCK_AGENT_CONTROL_FD);
	dup2(21, GCK_AGENT_LISTEN_FD);
	dup2(22, GCK_AGENT_REPORT_FD);
	close_range(GCK_AGENT_REPORT_FD + 1, ~0u, 0);
	execl(program, program, "--", "counter", "FILE", (char *)NULL);
	_exit(127);
}

static void tell_agent(struct plugin *p, uint32_t type, unsigned rank, int status)
{
	struct gck_control m = { type, rank, p->rank[rank], status };

	send(p->control, &m, sizeof m, MSG_NOSIGNAL);
}

static void take_report(struct plugin *p, int fd)
{
	ssize_t n = read(fd, p->report, sizeof p->report - 1);

	p->report[n > 0 ? n : 0] = '\0';
	close(fd);
}

static void start_agent(struct plugin *p)
{
	int sv[2], report[2];

	must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) == 0 &&
	     pipe2(report, O_CLOEXEC) == 0, "socketpair");
	p->control = sv[0];
	p->agent = fork();
	if (p->agent == 0)
		run_agent(p, sv[1], report[1]);
	close(sv[1]);
	close(report[1]);
	take_report(p, report[0]);
}

static void forget_what_was_said(const struct plugin *p)
{
	char path[96];

	snprintf(path, sizeof path, "%s/said", p->dir);
	unlink(path);
}

void plugin_start(struct plugin *p)
{
	forget_what_was_said(p);
	listen_for_shims();
	start_agent(p);
	for (unsigned i = 0; i < PLUGIN_RANKS; i++) {
		p->rank[i] = fork();
		if (p->rank[i] == 0)
			run_rank(p, i);
		tell_agent(p, GCK_CONTROL_TASK, i, 0);
	}
	close(listener);
}

void plugin_begin(struct plugin *p, const char *options, unsigned restarts)
{
	p->options = options;
	p->restarts = restarts;
	if (!restarts)
		plugin_new_output(p);
	plugin_start(p);
}

static int reap_within(struct plugin *p, unsigned rank, int ms, bool told)
{
	int status;

	if (!p->rank[rank])
		return -1;
	while (waitpid(p->rank[rank], &status, WNOHANG) != p->rank[rank]) {
		if ((ms -= 10) < 0)
			return -1;
		usleep(10000);
	}
	if (told)
		tell_agent(p, GCK_CONTROL_EXIT, rank, status);
	p->rank[rank] = 0;
	return status;
}

int plugin_reap(struct plugin *p, unsigned rank, bool told)
{
	return reap_within(p, rank, PATIENCE_MS, told);
}

bool plugin_stays(struct plugin *p, unsigned rank, int ms)
{
	return reap_within(p, rank, ms, true) < 0;
}

void plugin_end(struct plugin *p)
{
	for (unsigned i = 0; i < PLUGIN_RANKS; i++) {
		if (p->rank[i])
			kill(p->rank[i], SIGKILL);
		plugin_reap(p, i, p->control >= 0);
	}
	if (p->control >= 0) {
		tell_agent(p, GCK_CONTROL_END, 0, 0);
		close(p->control);
	}
	p->control = -1;
}

int plugin_stop(struct plugin *p)
{
	int status = 0;

	plugin_end(p);
	if (p->agent)
		waitpid(p->agent, &status, 0);
	return status;
}

/* The child that was forked first; -1: none. */
static pid_t child_of(pid_t parent)
{
	char path[96];
	int pid = -1;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
	f = fopen(path, "r");
	if (f && fscanf(f, "%d", &pid) != 1)
		pid = -1;
	if (f)
		fclose(f);
	return pid;
}

bool plugin_signal_agent(const struct plugin *p, int sig)
{
	pid_t pid = child_of(p->agent);

	return pid > 0 && kill(pid, sig) == 0; /* kill(-1) would reach all processes of the
					        * machine */
}

pid_t plugin_worker(const struct plugin *p)
{
	pid_t agent = child_of(p->agent);

	return agent > 0 ? child_of(agent) : -1;
}

/* ---- what the ranks wrote ------------------------------------------------------------------ */

static bool read_output(const struct plugin *p, unsigned rank, unsigned long *last,
			unsigned long *lines)
{
	unsigned long n = 0, before = 0, other;
	bool sound = true;
	char path[96];
	unsigned who;
	FILE *f;

	*lines = 0;
	snprintf(path, sizeof path, "%s/out%u", p->dir, rank);
	f = fopen(path, "r");
	while (f && fscanf(f, "%u %lu %lu\n", &who, &n, &other) == 3) {
		sound = sound && who == rank && n == before + 5;
		before = n;
		++*lines;
	}
	if (f)
		fclose(f);
	*last = before;
	return sound;
}

unsigned long plugin_count(const struct plugin *p, unsigned rank, unsigned long *lines)
{
	unsigned long last, n;

	read_output(p, rank, &last, lines ? lines : &n);
	return last;
}

bool plugin_both_stand(const struct plugin *p)
{
	unsigned long first[PLUGIN_RANKS];

	for (unsigned i = 0; i < PLUGIN_RANKS; i++)
		first[i] = plugin_count(p, i, NULL);
	for (int ms = STAND_MS; ms > 0; ms -= 20) {
		usleep(20000);
		for (unsigned i = 0; i < PLUGIN_RANKS; i++)
			if (plugin_count(p, i, NULL) > first[i])
				return false;
	}
	return true;
}

static bool counts_within(const struct plugin *p, unsigned rank, int ms)
{
	unsigned long first = plugin_count(p, rank, NULL);

	for (; ms > 0; ms -= 20) {
		usleep(20000);
		if (plugin_count(p, rank, NULL) > first)
			return true;
	}
	return false;
}

bool plugin_counts(const struct plugin *p, unsigned rank)
{
	return counts_within(p, rank, PATIENCE_MS);
}

bool plugin_stands(const struct plugin *p, unsigned rank)
{
	return !counts_within(p, rank, STAND_MS);
}

char plugin_state(const struct plugin *p, unsigned rank)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)p->rank[rank]);
	if (!(f = fopen(path, "re")))
		return 0;
	(void)!fscanf(f, "%*d (%*[^)]) %c", &state);
	fclose(f);
	return state;
}

bool plugin_sound(const struct plugin *p, unsigned rank)
{
	unsigned long last, lines;

	return read_output(p, rank, &last, &lines) && lines > 0;
}

static bool has_line(const struct plugin *p, const char *file, const char *text)
{
	char path[96], line[1024];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", p->dir, file);
	f = fopen(path, "r");
	while (f && !found && fgets(line, sizeof line, f))
		found = strstr(line, text) != NULL;
	if (f)
		fclose(f);
	return found;
}

static bool gets_line(const struct plugin *p, const char *file, const char *text)
{
	for (int ms = PATIENCE_MS; ms > 0; ms -= 20) {
		if (has_line(p, file, text))
			return true;
		usleep(20000);
	}
	return false;
}

bool plugin_said(const struct plugin *p, const char *text)
{
	return gets_line(p, "said", text);
}

bool plugin_logged(const struct plugin *p, const char *text)
{
	return gets_line(p, "log", text);
}

void plugin_new_output(const struct plugin *p)
{
	char path[96];

	for (unsigned i = 0; i < PLUGIN_RANKS; i++) {
		snprintf(path, sizeof path, "%s/out%u", p->dir, i);
		unlink(path);
	}
}

bool plugin_both_count(const struct plugin *p)
{
	return plugin_counts(p, 0) && plugin_counts(p, 1);
}
