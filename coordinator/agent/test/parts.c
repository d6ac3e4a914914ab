/* SPDX-License-Identifier: Apache-2.0
 * Small parts of the agent: packets, the table of ranks, shared mappings, free memory, each
 * process's share of it. */
#include "config.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/base/rank_list.h"
#include "coordinator/agent/base/resources.h"
#include "coordinator/agent/base/shared_objects.h"
#include "coordinator/agent/base/task_stdio.h"
#include "coordinator/agent/base/tasks.h"
#include "coordinator/agent/worker/child.h"
#include "coordinator/agent/worker/job.h"
#include "coordinator/agent/worker/proxy.h"
#include "test/support/tap.h"

static void packets(void)
{
	struct gck_error err = { 0 };
	int sv[2];
	json_t *m;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv) < 0)
		return;
	is_int(packet_send(sv[0], json_pack("{s:s, s:I}", "op", "x", "n", (json_int_t)5), &err), 0,
	       "send");
	m = packet_recv(sv[1], 100, &err);
	is_str(packet_text(m, "op", ""), "x", "a text arrives");
	is_int(packet_int(m, "n", 0), 5, "a number arrives");
	is_int(packet_int(m, "op", 9), 9, "a member of another type gives the default");
	json_decref(m);
	ok(!packet_recv(sv[1], 10, &err) && err.code == ETIMEDOUT, "no packet in time");
	is_int(send(sv[0], "{", 1, 0), 1, "a packet that is not JSON");
	ok(!packet_recv(sv[1], 10, &err) && err.code == EBADMSG, "is refused");
	close(sv[0]);
	ok(!packet_recv(sv[1], 10, &err) && err.code == ECONNRESET,
	   "a peer that is gone is an error");
	close(sv[1]);
	m = packet_string("a\xff" "b");
	is_str(json_string_value(m), "a\\xffb", "bytes that are not UTF-8");
	json_decref(m);
}

static void table(void)
{
	struct gck_control m = { GCK_CONTROL_TASK, 4, 1234, 0 };
	struct tasks t = { 0 };

	ok(tasks_apply(&t, &m) != NULL, "a task is entered");
	ok(!tasks_apply(&t, &m), "only once");
	ok(tasks_by_pid(&t, 1234) == tasks_by_rank(&t, 4), "found by pid and by rank");
	ok(!tasks_all_ended(&t), "a task that runs is not ended");
	m.type = GCK_CONTROL_EXIT;
	m.status = 256;
	ok(tasks_apply(&t, &m) && tasks_all_ended(&t), "a task that has ended is");
	ok(!tasks_by_pid(&t, 1234), "its pid can be another's");
	is_int(exit_code(256), 1, "the exit code of a status");
	is_int(exit_code(9), 137, "the exit code of a signal");
}

/* A child that sleeps with this page mapped, and with no descriptor but keep: those of the
 * test's caller may be files. */
static pid_t sharer(int keep, void *page, int prot)
{
	pid_t pid = fork();

	if (pid == 0) {
		if (page)
			mprotect(page, 4096, prot);
		dup2(keep, 0);
		close_range(1, ~0u, 0);
		raise(SIGSTOP);
	}
	waitpid(pid, NULL, WUNTRACED);
	return pid;
}

static void end_all(const struct tasks *t)
{
	for (size_t i = 0; i < t->n; i++) {
		kill(t->v[i]->pid, SIGKILL);
		waitpid(t->v[i]->pid, NULL, 0);
	}
}

static const char both[] = "ranks 0 and 1 have the same memory, which is written to";

/* Of the first object that ranks share. */
static const char *reason_of(const struct tasks *t)
{
	static char reason[128];
	json_t *found = shared_objects_find(t);

	snprintf(reason, sizeof reason, "%s",
		 packet_text(json_array_get(found, 0), "reason", ""));
	json_decref(found);
	return reason;
}

static void sharing(void)
{
	static const struct {
		int prot[2];
		bool named;
		const char *what;
	} cases[] = {
		{ { PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE }, true, "both write" },
		{ { PROT_READ | PROT_WRITE, PROT_READ }, true, "one reads what the other writes" },
		{ { PROT_READ, PROT_READ }, false, "both only read" },
	};
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct gck_control m = { GCK_CONTROL_TASK, 0, 0, 0 };
	struct gck_error err = { 0 };

	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		struct tasks t = { 0 };

		for (uint32_t i = 0; i < 2; i++) {
			m.rank = i;
			m.pid = sharer(0, p, cases[k].prot[i]);
			tasks_apply(&t, &m);
		}
		ok(!strcmp(reason_of(&t), cases[k].named ? both : ""),
		   "memory of two ranks: %s: %s", cases[k].what, reason_of(&t));
		ok(shared_objects_refuse(&t, &err) == 0, "and not refused: %s", err.text);
		t.v[1]->ended = true;
		is_str(reason_of(&t), "", "memory of one rank alone is not");
		end_all(&t);
	}
	munmap(p, 4096);
}

/* A process that has not the page: a child of its own has it. */
static pid_t parent_of_sharer(void *page)
{
	pid_t pid = fork(), below;

	if (pid == 0) {
		below = fork();
		if (below == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			close_range(0, ~0u, 0);
			raise(SIGSTOP);
		}
		waitpid(below, NULL, WUNTRACED);
		munmap(page, 4096);
		close_range(0, ~0u, 0);
		raise(SIGSTOP);
	}
	waitpid(pid, NULL, WUNTRACED);
	return pid;
}

static void sharing_below(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct gck_control m = { GCK_CONTROL_TASK, 0, 0, 0 };
	struct tasks t = { 0 };

	for (m.rank = 0; m.rank < 2; m.rank++) {
		m.pid = parent_of_sharer(p);
		tasks_apply(&t, &m);
	}
	is_str(reason_of(&t), both, "memory that processes below two ranks share");
	t.v[1]->ended = true;
	is_str(reason_of(&t), "", "below one rank it is not");
	end_all(&t);
	munmap(p, 4096);
}

/* Memory is carried, also if ranks have it open. */
static void sharing_open_memory(void)
{
	char path[] = "/dev/shm/gck-shared-XXXXXX";
	struct gck_control m = { GCK_CONTROL_TASK, 0, 0, 0 };
	int fds[] = { mkstemp(path), memfd_create("gck-shared", MFD_CLOEXEC) };
	struct gck_error err = { 0 };

	for (size_t k = 0; k < 2; k++) {
		struct tasks t = { 0 };

		for (m.rank = 0; m.rank < 2; m.rank++) {
			m.pid = sharer(fds[k], NULL, 0);
			tasks_apply(&t, &m);
		}
		ok(shared_objects_refuse(&t, &err) == 0, "%s that two ranks have open: %s",
		   k ? "a memfd" : "a file below /dev/shm", err.text);
		end_all(&t);
		close(fds[k]);
	}
	unlink(path);
}

static void rank_lists(void)
{
	static const uint32_t ranks[] = { 0, 1, 2, 5, 7, 8 };
	char text[RANK_LIST_MAX];
	const char *list = text;
	uint32_t first, last, n = 0;

	ok(rank_list_write(text, ranks, 6), "a list of ranks");
	is_str(text, "0-2,5,7-8", "is written");
	while (rank_list_next(&list, &first, &last))
		n += last - first + 1;
	is_int(n, 6, "and read");
	ok(!*list, "to its end");
	list = "5-3";
	ok(!rank_list_next(&list, &first, &last), "one that runs backwards is none");
	list = "x";
	ok(!rank_list_next(&list, &first, &last) && *list, "nor is a word");
}

static void sharing_files(void)
{
	char path[] = "/tmp/gck-shared-XXXXXX";
	const int how[][2] = {
		{ O_RDWR, O_WRONLY }, { O_WRONLY | O_APPEND, O_RDWR | O_APPEND },
		{ O_RDWR | O_APPEND, O_WRONLY }, { O_RDONLY, O_RDWR },
		{ O_WRONLY | O_APPEND, O_WRONLY | O_APPEND },
	};
	const bool refused[] = { true, false, true, false, true };
	struct gck_control m = { GCK_CONTROL_TASK, 0, 0, 0 };
	struct gck_error err = { 0 };

	close(mkstemp(path));
	for (size_t k = 0; k < sizeof refused / sizeof *refused; k++) {
		struct tasks t = { 0 };
		int fd[2] = { open(path, how[k][0] | O_CLOEXEC),
			      open(path, how[k][1] | O_CLOEXEC) };

		if (k == 4) /* a restart could not share it again */
			unlink(path);
		for (uint32_t i = 0; i < 2; i++) {
			m.rank = i;
			m.pid = sharer(fd[i], NULL, 0);
			tasks_apply(&t, &m);
			close(fd[i]);
		}
		ok((shared_objects_refuse(&t, &err) < 0) == refused[k],
		   "a file of two ranks, %o and %o%s",
		   how[k][0], how[k][1], k == 4 ? ", that has no name any more" : "");
		if (refused[k])
			ok(strstr(err.text, path) != NULL, "the entry names the file: %s",
			   err.text);
		end_all(&t);
	}
}

static json_t *hang(const void *arg, struct gck_error *err)
{
	(void)arg;
	(void)err;
	pause();
	return NULL;
}

static void on_late(void *data, const json_t *result, const struct gck_error *why)
{
	*(int *)data = result ? 0 : why->code;
}

static void late_job(void)
{
	struct ev_loop *loop = ev_default_loop(0);
	int code = -1;

	ok(job_start(loop, "a job", hang, NULL, 0.2, on_late, &code, NULL) != NULL,
	   "a job that hangs");
	ev_run(loop, 0);
	is_int(code, ETIMEDOUT, "is ended at its limit, and leaves nothing");
}

/* ---- a worker that reads nothing for long -------------------------------------------------- */

/* Reads all packets once the pipe says so. The exit status is their number, with "end" as the
 * last. */
static int read_late(int fd, void *arg)
{
	const char *op = "";
	json_t *body = NULL;
	char go;
	int n = 0;

	if (read(*(const int *)arg, &go, 1) != 1)
		return -1;
	for (; strcmp(op, "end"); n++) {
		json_decref(body);
		body = packet_recv(fd, -1, NULL);
		op = packet_text(body, "op", "end");
	}
	return n;
}

static void no_message(void *data, const json_t *body)
{
	(void)data;
	(void)body;
}

static void take_status(void *data, int status)
{
	*(int *)data = status;
}

static void reminders(void)
{
	static const struct child_ops ops = { read_late, no_message, take_status };
	struct ev_loop *loop = ev_default_loop(0);
	struct child *child;
	int p[2], status = -1;

	if (pipe2(p, O_CLOEXEC) < 0)
		return;
	child = child_start(loop, &ops, &p[0], 0, &p[0], 1, &status, NULL);
	for (int i = 0; i < 1000; i++)
		child_remind(child, json_pack("{s:s}", "op", "hold"));
	child_tell(child, json_pack("{s:s}", "op", "end"));
	is_int(write(p[1], "", 1), 1, "a child that reads late gets a thousand signs of life");
	ev_run(loop, 0);
	is_int(status, 2 << 8, "it lives, and has read one of them and its order");
	close(p[0]);
	close(p[1]);
}

/* ---- who is killed first when memory runs out ---------------------------------------------- */

#define USER 64321

static json_t *read_score(const void *arg, struct gck_error *err)
{
	char text[16] = "";
	int fd = open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC);

	(void)arg;
	if (fd < 0 || read(fd, text, sizeof text - 1) < 0)
		gck_fail(err, errno, "oom_score_adj: %s", strerror(errno));
	close(fd);
	return *text ? json_pack("[i, i]", atoi(text), prctl(PR_GET_DUMPABLE)) : NULL;
}

static void on_score(void *data, const json_t *result, const struct gck_error *why)
{
	(void)why;
	for (size_t i = 0; i < 2; i++)
		((int *)data)[i] = result ? (int)json_integer_value(json_array_get(result, i)) : -1;
}

/* Of a process that is forked now; and whether other processes may look into it. */
static void forked(int score[2])
{
	job_start(ev_default_loop(0), "a score", read_score, NULL, 10., on_score, score, NULL);
	ev_run(ev_default_loop(0), 0);
}

/* As an ordinary user, who may not open the files in /proc of a process that keeps a key. */
static int look_at_scores(void)
{
	json_t *ask = json_pack("{s:s}", "key", "w"), *answer = json_pack("{s:s}", "data", "K");
	json_t *own;
	int before[2], after[2], now;

	if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setgid(USER) < 0 || setuid(USER) < 0))
		return 1;
	prctl(PR_SET_DUMPABLE, 1);
	ev_loop_fork(ev_default_loop(0));
	own = read_score(NULL, NULL);
	now = (int)json_integer_value(json_array_get(own, 0));
	json_decref(own);
	forked(before);
	proxy_cache_answer(ask, answer);
	forked(after);
	own = read_score(NULL, NULL);
	now -= (int)json_integer_value(json_array_get(own, 0));
	json_decref(own);
	json_decref(ask);
	json_decref(answer);
	return (before[0] == 900 ? 0 : 2) | (after[0] == 900 ? 0 : 4) | (after[1] == 0 ? 0 : 8) |
	       (now == 0 ? 0 : 16);
}

static void victims(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(look_at_scores());
	waitpid(pid, &status, 0);
	status = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
	ok(!(status & 3), "a worker is killed before the program");
	ok(!(status & 5), "and so is one of an agent that keeps a key");
	ok(!(status & 9), "whose memory no other process may read");
	ok(!(status & 17), "the agent is not");
}

/* What all writers of a node have in tables and in transit, two objects each at least. */
static void shares(void)
{
	struct step s = { .local_ntasks = 8, .options = { .cpus = 8 } };
	const uint64_t most = UINT64_C(192) << 20, least = UINT64_C(32) << 20;
	size_t more = 0, more_at_once = 0;
	unsigned last = 99;

	is_int(node_share_of_writers(&s, 4096).at_once, 4, "small images: four at once");
	is_int((long long)node_share_of_writers(&s, 0).memory, 32 << 20,
	       "each with a quarter of the memory");
	is_int(node_share_of_writers(&s, 1 << 22).at_once, 1, "large ones one after the other");
	for (uint64_t gib = 0; gib < 320; gib++) {
		struct node_share x = node_share_of_writers(&s, gib * 4096);
		uint64_t way = x.memory > least ? x.memory : least;

		more += x.at_once * (way + gib * 4096 * 120) > most;
		more_at_once += x.at_once > last || x.at_once < 1;
		last = x.at_once;
	}
	is_int((long long)more, 0,
	       "large tables leave less for data in transit: 192 MiB up to 320 GiB");
	is_int((long long)more_at_once, 0, "and never more at a time");
	is_int((long long)(node_share_of_restorers(&s, 0).memory -
			   node_share_of_restorers(&s, 32 * 4096).memory), 32 * 4096 * 48,
	       "the same for readers");
	is_int((long long)node_share_of_restorers(&s, 1 << 22).memory, 32 << 20 >> 3,
	       "down to an eighth of 32 MiB");
}

/* Until its program is executed, nobody may open a task's descriptors. Here this process is the
 * task, and its standard error is closed meanwhile. */
static void lines_before_exec(void)
{
	struct gck_control m = { GCK_CONTROL_TASK, 0, getpid(), 0 };
	int own = dup(STDERR_FILENO), ends[2];
	struct tasks t = { 0 };
	char text[64] = "";

	if (own < 0 || pipe(ends) < 0 || !tasks_apply(&t, &m))
		return;
	close(STDERR_FILENO);
	say_to_user(&t, "one");
	say_to_user(&t, "two");
	dup2(ends[1], STDERR_FILENO);
	say_unsaid(&t);
	say_unsaid(&t);
	dup2(own, STDERR_FILENO);
	close(ends[1]);
	(void)!read(ends[0], text, sizeof text - 1);
	is_str(text, "gpuckpt: one\ngpuckpt: two\n",
	       "lines that no rank can take yet are kept for the first that can, and said once");
	close(ends[0]);
	close(own);
	free(t.v[0]);
	free(t.v);
}

int main(void)
{
	victims(); /* before this process forks one of its own */
	packets();
	table();
	lines_before_exec();
	sharing();
	sharing_below();
	sharing_open_memory();
	sharing_files();
	rank_lists();
	late_job();
	reminders();
	shares();
	ok(memory_available() > 1 << 20, "there is some memory: %llu MiB",
	   (unsigned long long)memory_available() >> 20);
	return tap_done();
}
