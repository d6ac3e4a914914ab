/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "storage/store/commit.h"
#include "storage/store/manifest.h"
#include "storage/store/store.h"
#include "test/support/lineage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LONGEST_MS 120000
#define TRIES 200 /* of a checkpoint that is refused for now: reached only by a failure */
#define ABOVE 4000
#define MOST_KILLED 256
#define NONCE "0123456789abcdef"

double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int say(const char *what, const struct gck_error *err)
{
	printf("# %s: %s\n", what, err->text);
	fflush(stdout);
	return -1;
}

static void hurry_file(const struct lineage *l, char path[300])
{
	snprintf(path, 300, "%s/hurry", l->directory);
}

void lineage_hurry(const struct lineage *l, bool hurry)
{
	char path[300];

	hurry_file(l, path);
	if (hurry)
		close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	else
		unlink(path);
}

int lineage_begin(struct lineage *l, const char *base, char *const argv[])
{
	struct gck_error err = {0};
	char url[300];

	*l = (struct lineage){.argv = argv, .link = -1};
	/* the rank must not inherit what the test inherited */
	close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
	snprintf(l->directory, sizeof l->directory, "%s/gpuckpt-restore-XXXXXX", base);
	if (!mkdtemp(l->directory))
		return -1;
	snprintf(url, sizeof url, "file:%s", l->directory);
	l->store = gck_store_open(url, "test", 1, 0, true, &err);
	if (!l->store)
		return say("store", &err);
	hurry_file(l, url);
	setenv("GPUCKPT_TEST_HURRY", url, 1);
	agent_listen(&l->agent);
	return 0;
}

static int output(const struct lineage *l, const char *name)
{
	char path[300];

	snprintf(path, sizeof path, "%s/%s", l->directory, name);
	return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void set_last_number(pid_t number)
{
	FILE *last = fopen("/proc/sys/kernel/ns_last_pid", "we");

	if (last) {
		fprintf(last, "%d", number);
		fclose(last);
	}
}

/* The next process gets a number, if no other one comes first. A thread that was killed may have it
 * for a moment. */
static void choose_number(pid_t number)
{
	pid_t got = -1;

	for (int tries = 0; number && got != number && tries < TRIES; tries++) {
		set_last_number(number - 1);
		got = fork();
		if (!got)
			_exit(0);
		waitpid(got, NULL, 0);
		if (got != number)
			pause_ms(10);
	}
	if (number)
		set_last_number(number - 1);
}

/* The rank inherits the test's standard output and error. Both are files of its own, since a
 * restart cuts them back. */
static pid_t run(struct lineage *l)
{
	static const char *const names[] = {"out", "err"};
	int saved[2];
	struct rank r;

	for (int i = 0; i < 2; i++) {
		int fd = output(l, names[i]);

		saved[i] = fcntl(1 + i, F_DUPFD_CLOEXEC, 3);
		dup2(fd, 1 + i);
		close(fd);
	}
	choose_number(l->number);
	r = agent_run(&l->agent, NULL, l->argv, false);
	for (int i = 0; i < 2; i++) {
		dup2(saved[i], 1 + i);
		close(saved[i]);
	}
	return r.pid;
}

int lineage_start(struct lineage *l)
{
	l->pid = run(l);
	l->link = agent_admit(&l->agent, &l->hello);
	return l->link < 0 ? -1 : 0;
}

int lineage_alone(struct lineage *l)
{
	int status, out = output(l, "out");
	pid_t pid;

	lineage_hurry(l, true);
	pid = fork();
	if (pid == 0) {
		dup2(out, 1);
		execvp(l->argv[0], l->argv);
		_exit(127);
	}
	close(out);
	waitpid(pid, &status, 0);
	lineage_hurry(l, false);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

static int commit(struct lineage *l, uint32_t seq, const char *hash, struct gck_error *err)
{
	char text[GCK_HASH_TEXT];
	json_t *j = json_pack("{s:i,s:i,s:s,s:i,s:s,s:i,s:i,s:[{s:i,s:s}]}", "format", 1, "seq",
			      (int)seq, "nonce", NONCE, "time", 1, "cluster", "test", "job", 1,
			      "step", 0, "ranks", "rank", 0, "manifest", hash);
	int failed = gck_store_commit(l->store, seq, j, text, err);

	json_decref(j);
	return failed;
}

json_t *lineage_manifest(struct lineage *l, uint32_t seq)
{
	struct gck_error err = {0};
	char found[GCK_HASH_TEXT];
	json_t *manifest, *j = gck_store_read_commit(l->store, seq, NULL, found, &err);

	manifest = j ? gck_store_read_manifest(l->store, j, 0, &err) : NULL;
	json_decref(j);
	if (!manifest)
		say("manifest", &err);
	else if (l->other_kernel)
		json_object_set_new(json_object_get(manifest, "image"), "vdso",
				    json_string("00000000000000000000000000000000"));
	return manifest;
}

static int write_image(struct lineage *l, struct gck_capture *c, const struct gck_options *o,
		       struct gck_error *err)
{
	json_t *previous = l->seq ? lineage_manifest(l, l->seq) : NULL;
	struct gck_writer *w = gck_writer_open(l->store, l->seq + 1, NONCE, o, previous, err);
	char hash[GCK_HASH_TEXT];
	uint64_t stored;
	int failed;

	failed = !w || gck_capture_write(c, w, NULL, NULL, err) ||
		 gck_capture_manifest(c, w, 0, NULL, hash, err);
	if (!failed)
		gck_writer_totals(w, &l->bytes, &stored);
	if (w)
		gck_writer_close(w);
	json_decref(previous);
	return failed || commit(l, l->seq + 1, hash, err) ? -1 : 0;
}

/* again: another attempt may succeed in a moment. */
static int checkpoint(struct lineage *l, bool *again, struct gck_error *err)
{
	struct gck_options o;
	struct gck_capture *c;
	double start;
	bool failed;

	gck_options_init(&o);
	c = gck_capture_open(l->pid, l->link, &l->hello, &o, err);
	*again = true;
	if (!c)
		return -1;
	start = seconds();
	failed = gck_capture_freeze(c, err) || gck_capture_take(c, true, err) ||
		 gck_capture_update_files(c, err);
	*again = failed;
	gck_capture_resume(c);
	l->held = seconds() - start;
	start = seconds();
	failed = failed || write_image(l, c, &o, err);
	l->wrote = seconds() - start;
	gck_capture_close(c);
	*again = *again || (failed && err->code == EAGAIN);
	return failed ? -1 : 0;
}

/* A program may have something for a moment that a checkpoint refuses, a lease say, or not
 * have made yet what it works with. */
static int try_checkpoint(struct lineage *l, int tries)
{
	struct gck_error err = {0};
	bool again;

	for (int i = 1; checkpoint(l, &again, &err) < 0; i++) {
		if (i == tries || !again)
			return say("capture", &err);
		say("once more", &err);
		pause_ms(50);
	}
	l->seq++;
	return 0;
}

int lineage_checkpoint(struct lineage *l)
{
	return try_checkpoint(l, TRIES);
}

int lineage_checkpoint_once(struct lineage *l)
{
	return try_checkpoint(l, 1);
}

/* Whether the process has this rank's environment, as its descendants have. */
static bool is_of(const char *process, pid_t rank)
{
	static const char name[] = "GPUCKPT_PID=";
	char path[300], *line = NULL;
	bool found = false;
	size_t size = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%s/environ", process);
	f = fopen(path, "re");
	while (f && !found && getdelim(&line, &size, '\0', f) > 0)
		found = !strncmp(line, name, sizeof name - 1) &&
			atoi(line + sizeof name - 1) == rank;
	if (f)
		fclose(f);
	free(line);
	return found;
}

/* Kill those whose parents have ended, too. Returns whether there were any. */
static bool kill_orphans(pid_t rank)
{
	DIR *all = opendir("/proc");
	bool any = false;

	for (struct dirent *e; all && (e = readdir(all));)
		if (atoi(e->d_name) > 0 && is_of(e->d_name, rank))
			any |= !kill(atoi(e->d_name), SIGKILL);
	if (all)
		closedir(all);
	return any;
}

/* The numbers of processes and threads. */
struct killed {
	pid_t v[MOST_KILLED];
	size_t n;
};

static void note_threads(pid_t pid, struct killed *killed)
{
	char path[64];
	DIR *all;

	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	all = opendir(path);
	for (struct dirent *e; all && (e = readdir(all));)
		if (atoi(e->d_name) > 0 && killed->n < MOST_KILLED)
			killed->v[killed->n++] = atoi(e->d_name);
	if (all)
		closedir(all);
}

/* A process that is stopped makes no more children while these are killed. Slurm kills all that are
 * in a step's cgroup. */
static void kill_below(pid_t pid, struct killed *killed)
{
	char path[64], line[4096], *at = line, *end;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
	f = fopen(path, "re");
	if (!f || !fgets(line, sizeof line, f))
		line[0] = '\0';
	if (f)
		fclose(f);
	for (long child; (child = strtol(at, &end, 10)) > 0; at = end) {
		kill((pid_t)child, SIGSTOP);
		kill_below((pid_t)child, killed);
		note_threads((pid_t)child, killed);
		kill((pid_t)child, SIGKILL);
	}
}

/* Whether a process could get the number, or none may choose. A number can be taken for a moment
 * after the process that had it cannot be found any more. */
static bool is_free(pid_t number)
{
	struct clone_args args = {.exit_signal = SIGCHLD, .set_tid = (uintptr_t)&number,
				  .set_tid_size = 1};
	long pid = syscall(SYS_clone3, &args, sizeof args);

	if (!pid)
		_exit(0);
	if (pid > 0)
		waitpid((pid_t)pid, NULL, 0);
	return pid > 0 || errno != EEXIST;
}

/* Their numbers are free again when another process has waited for them. */
static void await_numbers(const struct killed *killed)
{
	for (size_t i = 0; i < killed->n; i++)
		for (int tries = 0; tries < TRIES && !is_free(killed->v[i]); tries++)
			pause_ms(10);
}

void lineage_kill(struct lineage *l)
{
	struct killed killed = {.n = 0};

	if (l->pid) {
		kill(l->pid, SIGSTOP);
		kill_below(l->pid, &killed);
		note_threads(l->pid, &killed);
		kill(l->pid, SIGKILL);
		waitpid(l->pid, NULL, 0);
		while (kill_orphans(l->pid))
			pause_ms(1);
		if (l->number)
			await_numbers(&killed);
	}
	if (l->link >= 0)
		close(l->link);
	l->link = -1;
	l->pid = 0;
}

int lineage_hold(struct lineage *l)
{
	l->pid = run(l);
	for (int tries = 0; l->number && l->pid != l->number && tries < TRIES; tries++) {
		kill(l->pid, SIGKILL); /* another process has come first */
		waitpid(l->pid, NULL, 0);
		l->pid = run(l);
	}
	if (l->number)
		set_last_number(l->number + ABOVE); /* not those that the image may have */
	l->link = agent_accept(&l->agent, WAIT_MS, &l->hello, NULL);
	if (l->link < 0)
		return -1;
	agent_send(l->link, GCK_LINK_HOLD, getpid());
	pause_ms(5);
	return 0;
}

static int restore(struct lineage *l, json_t *manifest, struct gck_reader *reader,
		   struct gck_error *err)
{
	struct gck_restore *r;
	char *const *notes;
	int failed;
	size_t n;

	r = gck_restore_open(l->pid, l->agent.name, err);
	if (!r)
		return -1;
	failed = gck_restore_image(r, manifest, reader, err) ||
		 gck_restore_build(r, NULL, NULL, err) || gck_restore_files(r, err) ||
		 gck_restore_reopen(r, err) || gck_restore_run(r, err);
	for (notes = gck_restore_notes(r, &n); n--; notes++)
		snprintf(l->note, sizeof l->note, "%s", *notes);
	gck_restore_close(r);
	return failed;
}

static int try_build(struct lineage *l, json_t *manifest, struct gck_reader *reader,
		     struct gck_error *err)
{
	struct gck_restore *r = gck_restore_open(l->pid, l->agent.name, err);
	int failed;

	if (!r)
		return -1;
	gck_restore_for_trial(r);
	failed = gck_restore_image(r, manifest, reader, err) ||
		 gck_restore_build(r, NULL, NULL, err);
	gck_restore_close(r);
	l->pid = 0;
	return failed;
}

int lineage_try(struct lineage *l, uint32_t seq)
{
	json_t *manifest = lineage_manifest(l, seq);
	struct gck_reader *reader = NULL;
	struct gck_error err = {0};
	int failed;

	failed = !manifest || lineage_hold(l) ||
		 !(reader = gck_reader_open(l->store, manifest, &err)) ||
		 try_build(l, manifest, reader, &err);
	if (reader)
		gck_reader_close(reader);
	json_decref(manifest);
	lineage_kill(l);
	snprintf(l->failure, sizeof l->failure, "%s", err.text);
	return failed ? say("trial", &err) : 0;
}

int lineage_restore(struct lineage *l, uint32_t seq)
{
	json_t *manifest = lineage_manifest(l, seq);
	struct gck_reader *reader = NULL;
	struct gck_error err = {0};
	double start = seconds();
	int failed;

	failed = !manifest || lineage_hold(l) ||
		 !(reader = gck_reader_open(l->store, manifest, &err)) ||
		 restore(l, manifest, reader, &err);
	if (reader)
		gck_reader_close(reader);
	json_decref(manifest);
	l->restored = seconds() - start;
	close(l->link);
	l->link = -1;
	snprintf(l->failure, sizeof l->failure, "%s", err.text);
	if (failed)
		return say("restore", &err);
	l->link = agent_admit(&l->agent, &l->hello);
	if (l->link < 0)
		printf("# the restored rank did not connect\n");
	return l->link < 0 ? -1 : 0;
}

int lineage_wait(struct lineage *l)
{
	int status = 0, left = LONGEST_MS / 10;
	pid_t pid = l->pid;

	lineage_hurry(l, true);
	while (waitpid(pid, &status, WNOHANG) == 0 && left-- > 0)
		pause_ms(10);
	lineage_hurry(l, false);
	if (left < 0)
		lineage_kill(l);
	l->pid = 0;
	return left < 0 ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

const char *lineage_output(struct lineage *l)
{
	static char line[300];
	char path[300];
	FILE *f;

	snprintf(path, sizeof path, "%s/out", l->directory);
	line[0] = '\0';
	if ((f = fopen(path, "r"))) {
		while (fgets(line, sizeof line, f))
			;
		fclose(f);
		unlink(path);
	}
	line[strcspn(line, "\n")] = '\0';
	return line;
}

void lineage_end(struct lineage *l)
{
	char command[1000];

	lineage_kill(l);
	fflush(stdout);
	close(l->agent.listener);
	if (l->store)
		gck_store_close(l->store);
	snprintf(command, sizeof command,
		 "! [ -e '%s/err' ] || sed 's/^/# /' '%s/err'; rm -rf '%s'", l->directory,
		 l->directory, l->directory);
	if (system(command))
		printf("# %s: failed\n", command);
}
