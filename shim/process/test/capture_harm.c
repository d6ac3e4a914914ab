/* SPDX-License-Identifier: Apache-2.0
 * A rank is never harmed: no signal is lost, no thread stays stopped, no clone remains, at whatever
 * moment the worker dies. */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/process/capture/capture.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/test/capture_rank.h"
#include "test/support/rings.h"
#include "test/support/tap.h"

/* A worker that freezes and resumes the rank without end, and is usually killed during that. */
static pid_t worker(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		struct gck_error err = {0};
		struct gck_capture *c;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		c = gck_capture_open(rank.pid, helper_link, &hello, &options, &err);
		while (c && !gck_capture_freeze(c, &err)) {
			usleep(300);
			gck_capture_resume(c);
		}
		printf("# worker: %s\n", err.text);
		fflush(stdout);
		_exit(1);
	}
	return pid;
}

/* Send so many signals that the rank only handles signals, while workers that freeze it are killed
 * at any instruction. */
static void test_signals(void)
{
	enum { ROUNDS = 100, SIGNALS = 2000 };
	char want[16];
	int early = 0;

	start();
	for (int i = 0; i < ROUNDS; i++) {
		pid_t pid = worker();
		int status;

		usleep(3000); /* until it has begun */
		for (int k = 0; k < SIGNALS; k++)
			while (sigqueue(rank.pid, SIGRTMIN, (union sigval){0}) && errno == EAGAIN)
				usleep(1000); /* as many as may be pending */
		usleep((unsigned)(rand() % 1000));
		early += waitpid(pid, &status, WNOHANG) != 0;
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	is_int(early, 0, "workers that freeze the rank while signals come are killed");
	snprintf(want, sizeof(want), "%d", ROUNDS * SIGNALS);
	is_str(rank_ask(&rank, "count"), want, "no signal is lost");
	is_int(stop(), 0, "the rank ends by itself");
}

/* A worker that takes checkpoints without end is killed within so many microseconds; then the rank
 * gets another agent. */
static void kill_worker(int most_us)
{
	struct gck_error err = {0};
	json_t *manifest = NULL;
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			gck_image_free(checkpoint(&manifest, &err));
	usleep((unsigned)(rand() % most_us));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(helper_link);
	helper_link = agent_admit(&agent, &hello);
}

/* Whole checkpoints, killed at any instruction; then the agent ends the link. */
static void test_killed(void)
{
	enum { ROUNDS = 60 };
	struct gck_error err = {0};
	json_t *manifest = NULL;
	struct gck_image *img;
	int back = 0, clones = 0;

	start();
	tell("do", "memory");
	for (int i = 0; i < ROUNDS; i++) {
		kill_worker(25000);
		back += helper_link >= 0 && !strcmp(rank_ask(&rank, "count"), "0");
	}
	is_int(back, ROUNDS, "after each worker's death the rank and its helper go on");
	img = checkpoint(&manifest, &err);
	if (!ok(img != NULL, "and a checkpoint can be taken"))
		printf("# %s\n", err.text);
	for (int proc = gck_proc_open(rank.pid, NULL); proc >= 0; proc = -1) {
		char name[48], *text;

		snprintf(name, sizeof(name), "task/%d/children", rank.pid);
		text = gck_proc_read(proc, name, NULL, NULL);
		clones += text && *text;
		free(text);
		close(proc);
	}
	is_int(clones, 0, "no clone remains");
	gck_image_free(img);
	json_decref(manifest);
	is_int(stop(), 0, "the rank ends by itself");
}

/* The same with a child, in which the worker makes a helper. */
static void test_child_killed(void)
{
	enum { ROUNDS = 60 };
	struct gck_error err = {0};
	json_t *manifest = NULL;
	int answered = 0, taken = 0;

	start();
	tell("do", "answering");
	for (int i = 0; i < ROUNDS; i++) {
		kill_worker(40000);
		answered += !strcmp(rank_ask(&rank, "ask"), "answered");
	}
	is_int(answered, ROUNDS, "after each worker's death the rank's child goes on");
	for (int i = 0; i < 100 && !taken; i++) {
		struct gck_image *img = checkpoint(&manifest, &err);

		taken = img && img->nprocesses == 1;
		gck_image_free(img);
		if (!taken)
			usleep(50000);
	}
	ok(taken && !strcmp(rank_ask(&rank, "ask"), "answered"),
	   "and both can be checkpointed: %s", err.text);
	json_decref(manifest);
	tell("undo", "answering");
	is_int(stop(), 0, "the rank ends by itself");
}

/* The same with an io_uring that is used: the worker borrows the thread that uses it. */
static void test_ring_killed(void)
{
	enum { ROUNDS = 40 };
	struct gck_error err = {0};
	json_t *manifest = NULL;
	struct gck_image *img;
	int back = 0;

	if (!can_carry_rings()) {
		skip("io_uring", "needs Linux 6.8");
		return;
	}
	start();
	tell("do", "ring-busy");
	for (int i = 0; i < ROUNDS; i++) {
		kill_worker(25000);
		back += helper_link >= 0 && !strcmp(rank_ask(&rank, "count"), "0");
	}
	is_int(back, ROUNDS, "after each worker's death a rank with an io_uring goes on");
	img = checkpoint(&manifest, &err);
	ok(img != NULL, "and can be captured: %s", err.text);
	ok(tell("undo", "ring-busy"), "none of its requests was cut short or lost");
	gck_image_free(img);
	json_decref(manifest);
	is_int(stop(), 0, "the rank ends by itself");
}

static void test_churn(void)
{
	struct gck_error err = {0};
	int good = 0;

	start();
	ok(tell("do", "churn"), "threads come and go");
	for (int i = 0; i < 50; i++) {
		struct gck_capture *c = gck_capture_open(rank.pid, helper_link, &hello, &options,
							 &err);

		if (c && !gck_capture_freeze(c, &err)) {
			good += !gck_capture_take(c, true, &err);
			gck_capture_resume(c);
		}
		gck_capture_close(c);
	}
	if (!is_int(good, 50, "and every freeze takes them all"))
		printf("# %s\n", err.text);
	ok(tell("undo", "churn"), "the rank goes on");
	is_int(stop(), 0, "the rank ends by itself");
}

/* A child may end at any moment of a freeze; all that it may cost is another try. */
static void test_forks(void)
{
	struct gck_error err = {0};
	int good = 0;

	start();
	ok(tell("do", "forks"), "children come and go");
	for (int i = 0; i < 100; i++) {
		struct gck_capture *c = gck_capture_open(rank.pid, helper_link, &hello, &options,
							 &err);

		if (!c || !gck_capture_freeze(c, &err) || err.code == EAGAIN)
			good++;
		else
			printf("# %s\n", err.text);
		gck_capture_close(c);
	}
	is_int(good, 100, "and no freeze is refused for good");
	ok(tell("undo", "forks"), "the rank goes on");
	is_int(stop(), 0, "the rank ends by itself");
}

/* Hold and release 40 times; how many holds were harmless. */
static int hold_often(struct gck_error *err)
{
	int good = 0;

	for (int i = 0; i < 40; i++) {
		struct gck_capture *c = gck_capture_open(rank.pid, helper_link, &hello, &options,
							 err);

		good += c && !gck_capture_freeze(c, err);
		gck_capture_close(c);
		usleep((unsigned)(rand() % 40000));
	}
	return good;
}

/* A stop that cuts a blocking write short harms a program that ignores short writes. Without the
 * wait for such calls more than half of the holds do that; with it, a loaded machine may do it
 * once. */
static void test_writes(void)
{
	struct gck_error err = {0};
	int good = 40, before, cut = 40;

	start();
	ok(tell("do", "flow"), "a thread writes to a pipe that is full most of the time");
	for (int tries = 0; tries < 5 && good == 40 && cut > 8; tries++) {
		before = atoi(rank_ask(&rank, "short"));
		good = hold_often(&err);
		cut = atoi(rank_ask(&rank, "short")) - before;
	}
	is_int(good, 40, "it is held repeatedly");
	is_int(cut > 8, 0, "and hardly any write is cut short");
	ok(tell("undo", "flow"), "the rank goes on");
	is_int(stop(), 0, "the rank ends by itself");
}

static char state_of(pid_t pid)
{
	int proc = gck_proc_open(pid, NULL);
	uint64_t v[GCK_STAT_FIELDS];
	char state = '?';

	if (proc >= 0) {
		(void)!gck_proc_stat(proc, &state, v, NULL); /* state stays '?' */
		close(proc);
	}
	return state;
}

static bool becomes(pid_t pid, char state)
{
	for (int i = 0; i < 2000 && state_of(pid) != state; i++)
		usleep(1000);
	return state_of(pid) == state;
}

static void test_stopped(void)
{
	start();
	kill(rank.pid, SIGSTOP);
	ok(becomes(rank.pid, 'T'), "a rank is stopped");
	ok(fails("scontrol resume"), "a checkpoint of it fails");
	ok(refuses("it is stopped by a signal"), "and able reports it");
	ok(becomes(rank.pid, 'T'), "it stays stopped");
	kill(rank.pid, SIGCONT);
	is_str(rank_ask(&rank, "count"), "0", "until it is continued");
	tell("do", "inherit");
	ok(fails("a priority-inheritance mutex"),
	   "a mutex that belongs to the kernel's TID is refused");
	tell("undo", "inherit");
	tell("do", "raw");
	ok(fails("not made by pthread_create"), "a thread that glibc does not know is refused");
	is_str(rank_ask(&rank, "count"), "0", "the rank goes on");
	is_int(stop(), 0, "the rank ends by itself");
}

/* Reap a rank that was killed. */
static void bury(void)
{
	close(helper_link);
	close(rank.in);
	close(rank.out);
	close(rank.err);
}

static void test_gone(void)
{
	struct gck_error err = {0};
	struct gck_capture *c;

	start();
	c = gck_capture_open(rank.pid, helper_link, &hello, &options, &err);
	ok(c != NULL, "a checkpoint begins");
	kill(rank.pid, SIGKILL);
	waitpid(rank.pid, NULL, 0);
	ok(c && gck_capture_freeze(c, &err) == -1 && err.code == ESRCH,
	   "the checkpoint notices the rank's death (%s)", err.text);
	gck_capture_close(c);
	bury();
}

/* ---- deaths while the image is written ----------------------------------------------------- */

struct victim {
	pid_t pid;
	int after; /* after this many progress reports */
};

static int kill_it(void *arg, uint64_t done, uint64_t all)
{
	struct victim *v = arg;

	(void)done;
	(void)all;
	if (v->after-- == 0) {
		kill(v->pid, SIGKILL);
		usleep(10000);
	}
	return 0;
}

/* How many page groups the image has; -1: it was not written. clone: kill the clone, else the
 * rank. */
static long groups(bool clone, int after, bool *killed, struct gck_error *err)
{
	struct gck_capture *c = gck_capture_open(rank.pid, helper_link, &hello, &options, err);
	struct victim v = {.after = after};
	struct gck_writer *w = NULL;
	static uint32_t seq = 1000;
	long n = -1;

	if (c && !gck_capture_freeze(c, err)) {
		n = gck_capture_take(c, true, err);
		gck_capture_resume(c);
	}
	if (n == 0)
		w = gck_writer_open(store, ++seq, "t", &options, NULL, err);
	if (w) {
		v.pid = clone ? c->clone : rank.pid;
		n = gck_capture_write(c, w, kill_it, &v, err) ? -1 : (long)c->img->pages.rows.n;
		gck_writer_close(w);
	}
	*killed = v.after < 0;
	gck_capture_close(c);
	return n;
}

/* As the kernel does if memory runs out. */
static void test_deaths(void)
{
	struct gck_error err = {0};
	bool killed;
	long whole, n;
	int failed = 0, i = 0;

	start();
	tell("do", "memory");
	whole = groups(true, 1 << 30, &killed, &err);
	ok(whole > 0, "an image of %ld page groups", whole);
	do {
		n = groups(true, i++, &killed, &err);
		failed += n < 0;
	} while (killed && (n < 0 || n >= whole));
	ok(!killed && n >= whole,
	   "the clone is killed at each of %d points: its image is whole, or there is none", i - 1);
	ok(failed > 0, "there was none %d times: %s", failed, err.text);
	is_str(rank_ask(&rank, "count"), "0", "the rank goes on");
	ok(groups(false, 0, &killed, &err) >= whole && killed,
	   "the rank is killed: its image is whole");
	waitpid(rank.pid, NULL, 0);
	bury();
}

/* Descriptors are closed while a capture that is being opened looks at them. */
static void test_closing(void)
{
	enum { CAPTURES = 100 };
	struct gck_error err = {0};
	int opened = 0, asked_again = 0;

	start();
	ok(tell("do", "closing"), "descriptors come and go");
	for (int i = 0; i < CAPTURES; i++) {
		struct gck_capture *c =
			gck_capture_open(rank.pid, helper_link, &hello, &options, &err);

		opened += c != NULL;
		asked_again += !c && err.code == EAGAIN;
		gck_capture_close(c);
	}
	if (!is_int(opened + asked_again, CAPTURES, "captures are opened, or may be tried again"))
		printf("# %s\n", err.text);
	ok(opened > 0, "%d are opened", opened);
	ok(tell("undo", "closing"), "the rank goes on");
	is_int(stop(), 0, "and ends by itself");
}

int main(void)
{
	tests_begin();
	test_signals();
	test_killed();
	test_child_killed();
	test_ring_killed();
	test_churn();
	test_closing();
	test_forks();
	test_writes();
	test_stopped();
	test_gone();
	test_deaths();
	tests_end();
	return tap_done();
}
