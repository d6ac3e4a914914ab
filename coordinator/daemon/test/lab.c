/* SPDX-License-Identifier: Apache-2.0
 * The test's own gpuckptd, its agents and clients. */
#include "config.h"

#include "coordinator/daemon/test/lab.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <netinet/in.h>
#include <unistd.h>

#include "test/support/clock.h"
#include "test/support/munged.h"
#include "test/support/tap.h"

#define WAIT_MS 60000 /* only a failure takes so long */

char lab_dir[] = "/tmp/gck-lab-XXXXXX", lab_conf[64];
static char slurm_path[64];
static const char *munge_socket;
static unsigned port;
static pid_t daemon_pid;
static uid_t daemon_uid; /* also when a test has become somebody else */
unsigned lab_files;
gid_t lab_group;

/* ---- files --------------------------------------------------------------------------------- */

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	if (!f || fputs(text, f) < 0 || fclose(f))
		printf("Bail out! cannot write %s\n", path);
}

void lab_slurm(const char *text)
{
	char mark[80];

	snprintf(mark, sizeof mark, "%s.requeued", slurm_path);
	unlink(mark);
	snprintf(mark, sizeof mark, "%s.asked", slurm_path);
	unlink(mark);
	write_file(slurm_path, text);
}

bool lab_was_requeued(void)
{
	char mark[80];

	snprintf(mark, sizeof mark, "%s.requeued", slurm_path);
	return access(mark, F_OK) == 0;
}

unsigned lab_was_asked(const char *op)
{
	char name[80], line[32];
	unsigned n = 0;
	FILE *f;

	snprintf(name, sizeof name, "%s.asked", slurm_path);
	f = fopen(name, "r");
	while (f && fgets(line, sizeof line, f))
		n += !strncmp(line, op, strlen(op));
	if (f)
		fclose(f);
	return n;
}

/* A port that is free now. */
static unsigned free_port(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, size) ||
	    getsockname(fd, (struct sockaddr *)&a, &size))
		printf("Bail out! no free port\n");
	close(fd);
	return ntohs(a.sin_port);
}

bool lab_begin(void)
{
	const char *why;
	const struct passwd *pw = getpwuid(geteuid());
	char path[64], text[512];

	daemon_uid = geteuid();
	munge_socket = test_munged_start(&why);
	if (!munge_socket || !pw || !mkdtemp(lab_dir)) {
		printf("1..0 # SKIP %s\n", munge_socket ? "no directory in /tmp" : why);
		return false;
	}
	port = free_port();
	snprintf(lab_conf, sizeof lab_conf, "%s/conf", lab_dir);
	snprintf(slurm_path, sizeof slurm_path, "%s/slurm", lab_dir);
	snprintf(text, sizeof text,
		 "ClusterName=test\nCoordinatorHost=127.0.0.1\nListenAddress=127.0.0.1\n"
		 "CoordinatorPort=%u\nCoordinatorUser=%s\nStateDir=%s/state\nMungeSocket=%s\n"
		 "MaxUserConnections=20\nMaxNewConnections=%u\nMaxUserRate=50\nNodePoll=1\n",
		 port, pw->pw_name, lab_dir, munge_socket, LAB_NEW_CONNECTIONS);
	write_file(lab_conf, text);
	snprintf(path, sizeof path, "%s/clock", lab_dir);
	if (test_clock_open(path))
		printf("Bail out! cannot make %s\n", path);
	setenv("GCK_TEST_SLURM", slurm_path, 1);
	setenv("MALLOC_PERTURB_", "165", 1); /* who uses what is freed is seen */
	return true;
}

void lab_end(void)
{
	char command[128];

	lab_kill();
	test_munged_stop();
	snprintf(command, sizeof command, "rm -rf %s", lab_dir);
	if (system(command))
		printf("# %s stays\n", lab_dir);
}

void lab_credential(const char *line, const char *name, const char *text, mode_t mode)
{
	char dir[48], path[96], command[160];

	snprintf(dir, sizeof dir, "%s/credentials", lab_dir);
	snprintf(path, sizeof path, "%s/%s", dir, name);
	snprintf(command, sizeof command, "sed -i /^%s=/d %s", line, lab_conf);
	mkdir(dir, 0700);
	unlink(path);
	write_file(path, text);
	if (system(command) || chmod(path, mode) || setenv("CREDENTIALS_DIRECTORY", dir, 1))
		printf("Bail out! no credential %s\n", path);
}

bool lab_in_file(const char *name, const char *text)
{
	char path[96], line[8192];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", lab_dir, name);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f))
		found |= strcasestr(line, text) != NULL;
	if (f)
		fclose(f);
	return found;
}

/* ---- the daemon ---------------------------------------------------------------------------- */

static void exec_daemon(const char *const *args)
{
	const char *argv[16] = {"gpuckptd"};
	const char *path = getenv("GCK_TEST_DAEMON");

	for (int i = 0; args[i] && i < 14; i++)
		argv[i + 1] = args[i];
	execv(path ? path : "coordinator/daemon/test/daemon", (char *const *)argv);
	_exit(127);
}

bool lab_up(void)
{
	const char *const args[] = {"-D", "-v", "-f", lab_conf, NULL};
	char log[64];

	snprintf(log, sizeof log, "%s/log", lab_dir);
	daemon_pid = fork();
	if (daemon_pid == 0) {
		const struct rlimit files = {lab_files, lab_files};

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (lab_files)
			setrlimit(RLIMIT_NOFILE, &files);
		if (lab_group && setgid(lab_group))
			printf("Bail out! no group %u\n", (unsigned)lab_group);
		dup2(open(log, O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
		exec_daemon(args);
	}
	for (int i = 0; i < WAIT_MS / 50; i++) {
		struct gck_wire *w =
			gck_wire_connect("127.0.0.1", port, munge_socket, geteuid(), 1000, NULL);

		if (w) {
			gck_wire_free(w);
			return true;
		}
		usleep(50000);
	}
	return false;
}

static bool is_open(pid_t pid)
{
	struct stat st;
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
	return stat(path, &st) || st.st_gid == lab_group;
}

bool lab_is_open(void)
{
	return is_open(daemon_pid);
}

bool lab_child_is_open(void)
{
	char path[64];
	int child = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)daemon_pid, (int)daemon_pid);
	f = fopen(path, "r");
	if (f && fscanf(f, "%d", &child) != 1)
		printf("# gpuckptd has no child\n");
	if (f)
		fclose(f);
	return is_open(child);
}

double lab_cpu_seconds(void)
{
	unsigned long user = 0, kernel = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)daemon_pid);
	f = fopen(path, "r");
	if (f && fscanf(f, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
			&user, &kernel) != 2)
		printf("# %s cannot be read\n", path);
	if (f)
		fclose(f);
	return (double)(user + kernel) / (double)sysconf(_SC_CLK_TCK);
}

/* Its child processes end after it, and have its lock as well. */
static void await_children(void)
{
	char path[64];
	int fd;

	snprintf(path, sizeof path, "%s/state/lock", lab_dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	flock(fd, LOCK_EX);
	close(fd);
}

static int reap(int sig)
{
	int status = -1;

	if (daemon_pid <= 0)
		return -1;
	kill(daemon_pid, sig);
	waitpid(daemon_pid, &status, 0);
	await_children();
	daemon_pid = 0;
	return status;
}

void lab_kill(void)
{
	reap(SIGKILL);
}

int lab_term(void)
{
	return reap(SIGTERM);
}

void lab_stand_still(unsigned seconds)
{
	siginfo_t stopped;

	if (daemon_pid <= 0)
		return;
	kill(daemon_pid, SIGSTOP);
	waitid(P_PID, (id_t)daemon_pid, &stopped, WSTOPPED);
	test_clock_advance(seconds);
	kill(daemon_pid, SIGCONT);
}

int lab_run(char *out, size_t size, const char *const *args)
{
	int fds[2], status = -1;
	size_t have = 0;
	ssize_t n;
	pid_t pid;

	if (pipe(fds))
		return -1;
	pid = fork();
	if (pid == 0) {
		dup2(fds[1], STDOUT_FILENO);
		dup2(fds[1], STDERR_FILENO);
		close(fds[0]);
		close(fds[1]);
		exec_daemon(args);
	}
	close(fds[1]);
	while (have + 1 < size && (n = read(fds[0], out + have, size - 1 - have)) > 0)
		have += (size_t)n;
	out[have] = '\0';
	close(fds[0]);
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int lab_as_stranger(int (*what)(void))
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(setgid(LAB_STRANGER) || setuid(LAB_STRANGER) ? 2 : what());
	waitpid(pid, &status, 0);
	return status;
}

/* ---- connections --------------------------------------------------------------------------- */

int lab_knock(const char *from)
{
	struct sockaddr_in self = {.sin_family = AF_INET};
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port),
				.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, from, &self.sin_addr);
	if (fd < 0 || bind(fd, (struct sockaddr *)&self, sizeof self) ||
	    connect(fd, (struct sockaddr *)&a, sizeof a))
		printf("# no connection\n");
	return fd;
}

struct gck_wire *lab_connect(void)
{
	struct gck_error err = {0};
	struct gck_wire *w = gck_wire_connect("127.0.0.1", port, munge_socket, daemon_uid, WAIT_MS,
					      &err);

	if (!w)
		printf("# %s\n", err.text);
	return w;
}

bool lab_say(struct gck_wire *w, const char *text, ...)
{
	struct gck_error err = {0};
	char buffer[4096];
	json_error_t bad;
	json_t *body;
	va_list ap;
	int rc;

	if (!w)
		return false;
	va_start(ap, text);
	vsnprintf(buffer, sizeof buffer, text, ap);
	va_end(ap);
	for (char *p = buffer; *p; p++)
		if (*p == '\'')
			*p = '"';
	body = json_loads(buffer, 0, &bad);
	if (!body)
		printf("# the test's own JSON: %s: %s\n", bad.text, buffer);
	rc = body ? gck_wire_put(w, body, WAIT_MS, &err) : -1;
	json_decref(body);
	return rc == 0;
}

/* A line for the user may come between any two messages. */
json_t *lab_next(struct gck_wire *w)
{
	json_t *body = gck_wire_get(w, WAIT_MS, NULL);
	const char *op = json_string_value(json_object_get(body, "op"));

	if (!op || strcmp(op, "say") != 0)
		return body;
	json_decref(body);
	return lab_next(w);
}

bool lab_hear(struct gck_wire *w, const char *op, unsigned seq)
{
	json_t *body = lab_next(w);
	const char *got = json_string_value(json_object_get(body, "op"));
	bool good = got && !strcmp(got, op) &&
		    (!seq || json_integer_value(json_object_get(body, "seq")) == seq);

	if (!good) {
		char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;

		printf("# wanted %s %u, got %s\n", op, seq, text ? text : "nothing");
		free(text);
	}
	json_decref(body);
	return good;
}

bool lab_closed(struct gck_wire *w)
{
	struct gck_error err = {0};
	json_t *body;

	while ((body = gck_wire_get(w, WAIT_MS, &err)))
		json_decref(body);
	return err.code != ETIMEDOUT;
}

const char *lab_options = "timeout=10s,hold=5s,interval=off", *lab_epoch = "";

struct gck_wire *lab_agent(int node, const char *state, unsigned seq, unsigned restarts,
			   const char *commits)
{
	struct gck_wire *w = lab_connect();

	if (w && lab_say(w, "{'op':'register','job':7,'step':0,'node':'n%d','node_id':%d,'nodes':2,"
			 "'ntasks':2,'local_ranks':[{'rank':%d,'pid':99}],'restarts':%u,'options':"
			 "'%s','store':'file:/s','fingerprint':"
			 "{'program':'p','args':[],'cwd':'/','ntasks':2,'mark':''},'commits':%s,"
			 "'state':'%s','seq':%u%s}", node, node, node, restarts,
			 lab_options, commits, state, seq, lab_epoch))
		return w;
	gck_wire_free(w);
	return NULL;
}

bool lab_done(struct gck_wire *w, const char *phase, unsigned seq, const char *data)
{
	return lab_say(w, "{'op':'done','phase':'%s','seq':%u,'ok':true,'data':%s}", phase, seq,
		       data);
}
