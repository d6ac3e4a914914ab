/* SPDX-License-Identifier: Apache-2.0
 * Capturing a real rank: what able refuses and names, what an image holds, and that a rank is
 * never harmed: no signal is lost and no thread stays stopped, whenever the worker dies. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/test/tap.h"
#include "shim/process/fds.h"
#include "shim/process/procfs.h"
#include "shim/process/process.h"
#include "shim/test/preload_agent.h"

static char directory[] = "/tmp/gpuckpt-capture-XXXXXX";
static struct agent agent = {.listener = -1};
static struct rank rank;
static struct gck_link_hello hello;
static struct gck_options options;
static struct gck_store *store;
static int helper_link;
static uint32_t seq;

static void start(void)
{
	char *argv[] = {(char *)GCK_TEST_PROGRAM, directory, NULL};

	rank = agent_run(&agent, NULL, argv, true);
	helper_link = agent_admit(&agent, &hello);
	if (!ok(helper_link >= 0 && !strcmp(rank_ask(&rank, "count"), "0"), "a rank runs"))
		exit(99);
}

static void stop(void)
{
	close(helper_link);
	is_int(rank_end(&rank), 0, "the rank ends by itself");
}

static bool tell(const char *verb, const char *name)
{
	char line[80];

	snprintf(line, sizeof(line), "%s %s", verb, name);
	return !strcmp(rank_ask(&rank, line), "ok");
}

/* Does able (or, after it, a checkpoint) refuse with this text? NULL: with none. */
static void check_able(const char *name, const char *reason)
{
	struct gck_error err = {0};
	json_t *items = gck_process_able(rank.pid, &hello, &options, &err), *item;
	const char *first = NULL;
	bool found = false;
	size_t i;

	json_array_foreach(items, i, item) {
		const char *text = json_string_value(json_object_get(item, "reason"));

		if (!json_is_true(json_object_get(item, "refuse")))
			continue;
		first = first ? first : text;
		found |= reason && strstr(text, reason);
	}
	if (!ok(items && (reason ? found : !first), "%s: %s", name, reason ? reason : "able"))
		printf("# %s\n", !items ? err.text : first ? first : "nothing is refused");
	json_decref(items);
}

static void test_able(void)
{
	static const char *const bad[][2] = {
		{"tcp", "a listening socket at"}, {"udp", "a UDP socket"},
		{"unix", "a unix socket that is listening"}, {"inotify", "anon_inode:inotify"},
		{"pidfd", "[pidfd]"}, {"lock", "a lock is held"}, {"flock", "a lock is held"},
		{"fifo", "a named pipe"}, {"device", "a device: /dev/"},
		{"renamed", "belongs to another file"}, {"large", "more than files="},
		{"epoll", "closed under that number"}, {"half", "the other end of a pipe"},
		{"child", "it has a child process"}, {"sysv", "System V shared memory"},
		{"cputimer", "it runs on CPU time"}, {"directory", "working directory is gone"},
	};
	struct gck_error err = {0};

	start();
	check_able("nothing special", NULL);
	options.files = 1 << 20;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct gck_capture *c;

		if (!ok(tell("do", bad[i][0]), "the rank has a %s", bad[i][0]))
			continue;
		check_able(bad[i][0], bad[i][1]);
		c = gck_capture_open(rank.pid, helper_link, &hello, &options, &err);
		ok(!c && err.code == ENOTSUP, "no checkpoint is begun");
		gck_capture_close(c);
		tell("undo", bad[i][0]);
	}
	check_able("after all of it", NULL);
	gck_options_init(&options);
	tell("do", "seccomp");
	check_able("seccomp", "seccomp filter");
	stop();
}

/* One whole checkpoint; the image that can be read back, or NULL. */
static struct gck_image *checkpoint(json_t **manifest, struct gck_error *err)
{
	struct gck_capture *c = gck_capture_open(rank.pid, helper_link, &hello, &options, err);
	struct gck_writer *w = NULL;
	struct gck_image *img = NULL;
	char hash[GCK_HASH_TEXT];
	bool good = false;

	if (c && !gck_capture_freeze(c, err)) {
		good = !gck_capture_take(c, err);
		gck_capture_resume(c);
	}
	if (good)
		w = gck_writer_open(store, ++seq, "t", &options, NULL, err);
	if (w && !gck_capture_write(c, w, 0, NULL, NULL, NULL, hash, err)) {
		char path[128];

		snprintf(path, sizeof(path), "%s/c/1/0/%u-t/rank-0.json", directory, seq);
		*manifest = json_load_file(path, 0, NULL);
		img = gck_image_from_json(*manifest, err);
	}
	if (w)
		gck_writer_close(w);
	gck_capture_close(c);
	return img;
}

static void check_failure(const char *name, const char *reason)
{
	struct gck_error err = {0};
	json_t *manifest = NULL;
	struct gck_image *img = checkpoint(&manifest, &err);

	if (!ok(!img && strstr(err.text, reason), "%s: %s", name, reason))
		printf("# %s\n", img ? "taken" : err.text);
	gck_image_free(img);
	json_decref(manifest);
}

/* A page's bytes in a list of windows: the byte that all of it is, -1: not stored, -2: mixed. */
static int stored(struct gck_reader *r, const struct gck_windows *w, uint64_t address)
{
	static unsigned char data[GCK_WINDOW];
	unsigned bit = (unsigned)(address % GCK_WINDOW / GCK_PAGE);

	for (size_t i = 0; i < w->n; i++) {
		const struct gck_window *x = &w->v[i];
		unsigned char *page;

		if (x->address != address / GCK_WINDOW * GCK_WINDOW || !(x->mask >> bit & 1))
			continue;
		if (gck_reader_get(r, &x->chunk, data, NULL))
			return -2;
		page = data + (size_t)__builtin_popcountll(x->mask & ((1ull << bit) - 1)) * GCK_PAGE;
		return memcmp(page, page + 1, GCK_PAGE - 1) ? -2 : page[0];
	}
	return -1;
}

static uint64_t page_of(const char *name)
{
	char line[64];

	snprintf(line, sizeof(line), "page %s", name);
	return strtoull(rank_ask(&rank, line), NULL, 16);
}

static const struct gck_map *map_of(const struct gck_image *img, uint64_t address)
{
	for (size_t i = 0; i < img->nmaps; i++)
		if (address >= img->maps[i].start && address < img->maps[i].end)
			return &img->maps[i];
	return NULL;
}

static void check_memory(const struct gck_image *img, struct gck_reader *r)
{
	uint64_t shared = page_of("shared");
	const struct gck_map *m = map_of(img, shared);

	is_int(stored(r, &img->pages, page_of("dontfork")), 0xd0, "memory that is not forked");
	is_int(stored(r, &img->pages, page_of("wipeonfork")), 0xd1, "memory that a fork wipes");
	is_int(stored(r, &img->pages, page_of("none")), 0xd2, "memory that may not be read");
	is_int(stored(r, &img->pages, page_of("zero")), -1, "zeros are not stored");
	is_int(stored(r, &img->pages, page_of("changed")), 0xd4, "a changed page of a file");
	is_int(stored(r, &img->pages, page_of("changed") + GCK_PAGE), -1, "the next is as it was");
	ok(m && m->kind == GCK_MAP_SHARED && img->objects[m->object].size == 16ull << 30,
	   "shared memory");
	is_int(stored(r, &img->objects[m->object].windows, shared - m->start), 0xd5, "its page");
	is_int((long long)img->objects[m->object].windows.n, 2, "and no holes are filled");
	ok(map_of(img, page_of("dontfork"))->flags & GCK_MAP_DONTFORK, "the flag is carried");
}

static const struct gck_file *file_of(const struct gck_image *img, enum gck_fd_kind kind, int nth)
{
	for (size_t i = 0; i < img->nfiles; i++)
		if (img->files[i].kind == kind && !nth--)
			return &img->files[i];
	return NULL;
}

static bool holds(struct gck_reader *r, const struct gck_windows *w, const char *text)
{
	static char data[GCK_WINDOW];

	return w->n == 1 && !gck_reader_get(r, &w->v[0].chunk, data, NULL) && !strcmp(data, text);
}

static void check_descriptors(const struct gck_image *img, struct gck_reader *r)
{
	const struct gck_file *f = file_of(img, GCK_FD_PIPE, 0), *o = file_of(img, GCK_FD_PIPE, 1);
	size_t users = 0;

	ok(f && o && f->id == o->id && !f->write_end && o->write_end, "both ends of a pipe");
	ok(f && f->data_size == 9 && holds(r, &f->data, "in a pipe"), "with what is in it");
	f = file_of(img, GCK_FD_SOCKETPAIR, 0);
	o = file_of(img, GCK_FD_SOCKETPAIR, 1);
	ok(f && o && f->id == o->id && f->sock_type == SOCK_STREAM, "both ends of a socketpair");
	ok(f && f->data_size == 11 && holds(r, &f->data, "in a socket"), "with what is in it");
	f = file_of(img, GCK_FD_EVENTFD, 0);
	ok(f && f->count == 7 && f->semaphore, "an eventfd");
	f = file_of(img, GCK_FD_EPOLL, 0);
	ok(f && f->nentries == 1 && f->entries[0].data == ~0ull && f->entries[0].events == 0x80000019u,
	   "an epoll and what it watches");
	f = file_of(img, GCK_FD_TIMERFD, 0);
	ok(f && f->clock == CLOCK_MONOTONIC && f->interval_ns == 7000000000ull &&
	   f->value_ns > 990000000000ull, "a timerfd");
	f = file_of(img, GCK_FD_SIGNALFD, 0);
	ok(f && f->sigmask == 1ull << (SIGUSR2 - 1), "a signalfd");
	f = file_of(img, GCK_FD_MEMFD, 0);
	ok(f && !strcmp(img->objects[f->object].name, "a name") &&
	   img->objects[f->object].seals == F_SEAL_GROW && f->offset == 10 &&
	   holds(r, &img->objects[f->object].windows, "in a memfd"), "a memfd");
	f = file_of(img, GCK_FD_FILE, 0);
	ok(f && f->whole && f->offset == 3 && f->size == 12 && strstr(f->path, "/written") &&
	   holds(r, &f->data, "written text"), "a written file");
	for (size_t i = 0; f && i < img->nfds; i++)
		users += img->fds[i].file == f - img->files;
	is_int((long long)users, 2, "with two descriptors");
	f = file_of(img, GCK_FD_FILE, 1);
	ok(f && f->unlinked && holds(r, &f->data, "unlinked text"), "a file without a name");
	ok(file_of(img, GCK_FD_DEVICE, 0) && file_of(img, GCK_FD_DIR, 0), "a device, a directory");
	ok(file_of(img, GCK_FD_STDIO, 2) && !file_of(img, GCK_FD_STDIO, 3), "the task's own three");
}

static void test_image(void)
{
	struct gck_error err = {0};
	json_t *manifest = NULL;
	struct gck_reader *r = NULL;
	struct gck_image *img;

	start();
	ok(tell("do", "memory") && tell("do", "descriptors"), "with memory and descriptors");
	img = checkpoint(&manifest, &err);
	if (img)
		r = gck_reader_open(store, manifest, &err);
	if (!ok(img && r, "a checkpoint that can be read"))
		printf("# %s\n", err.text);
	if (r) {
		check_memory(img, r);
		check_descriptors(img, r);
		is_int((long long)img->nthreads, 1, "the helper is not in it");
		is_int(img->vpid, rank.pid, "its PID");
		gck_reader_close(r);
	}
	gck_image_free(img);
	json_decref(manifest);
	stop();
}

static void test_append(void)
{
	struct gck_error err = {0};
	json_t *manifest = NULL;
	const struct gck_file *f;
	struct gck_image *img;
	char *content = malloc(20 << 20);
	struct gck_hash want;

	memset(content, 'a', 20 << 20);
	want = gck_hash_bytes(content, 20 << 20);
	free(content);
	start();
	ok(tell("do", "append"), "a long file that is appended to");
	img = checkpoint(&manifest, &err);
	f = img ? file_of(img, GCK_FD_FILE, 0) : NULL;
	if (!ok(f && !f->whole && f->written && !f->data.n && f->size == 20 << 20, "is not carried"))
		printf("# %s\n", err.text);
	ok(f && f->prefix.hi == want.hi && f->prefix.lo == want.lo, "but its hash");
	gck_image_free(img);
	json_decref(manifest);
	stop();
}

/* ---- never harm ---------------------------------------------------------------------------- */

/* A worker that freezes and resumes the rank without end, and is mostly killed in between. */
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

/* Send signals, so many that the rank does nothing but take them, while workers that freeze it are
 * killed at any instruction. */
static void test_signals(void)
{
	enum { ROUNDS = 100, SIGNALS = 2000 };
	char want[16];
	int early = 0;

	start();
	for (int i = 0; i < ROUNDS; i++) {
		pid_t pid = worker();
		int status;

		usleep(3000); /* until it is at it */
		for (int k = 0; k < SIGNALS; k++)
			sigqueue(rank.pid, SIGRTMIN, (union sigval){0});
		usleep((unsigned)(rand() % 1000));
		early += waitpid(pid, &status, WNOHANG) != 0;
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	is_int(early, 0, "workers that freeze while signals come are killed");
	snprintf(want, sizeof(want), "%d", ROUNDS * SIGNALS);
	is_str(rank_ask(&rank, "count"), want, "no signal is lost");
	stop();
}

/* Whole checkpoints, killed at any instruction; the agent then ends the link. */
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
		pid_t pid = fork();

		if (pid == 0)
			for (;;)
				gck_image_free(checkpoint(&manifest, &err));
		usleep((unsigned)(rand() % 25000));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		close(helper_link);
		helper_link = agent_admit(&agent, &hello);
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
	is_int(clones, 0, "no clone is left");
	gck_image_free(img);
	json_decref(manifest);
	stop();
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
			good += !gck_capture_take(c, &err);
			gck_capture_resume(c);
		}
		gck_capture_close(c);
	}
	if (!is_int(good, 50, "and every freeze takes them all"))
		printf("# %s\n", err.text);
	ok(tell("undo", "churn"), "the rank goes on");
	stop();
}

static char state_of(pid_t pid)
{
	int proc = gck_proc_open(pid, NULL);
	uint64_t v[GCK_STAT_FIELDS];
	char state = '?';

	if (proc >= 0) {
		gck_proc_stat(proc, &state, v, NULL);
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
	check_failure("a stopped rank", "SIGCONT");
	check_able("a stopped rank", "it is stopped by a signal");
	ok(becomes(rank.pid, 'T'), "it stays stopped");
	kill(rank.pid, SIGCONT);
	is_str(rank_ask(&rank, "count"), "0", "until it is continued");
	tell("do", "raw");
	check_failure("a raw thread", "not made by pthread_create");
	is_str(rank_ask(&rank, "count"), "0", "the rank goes on");
	stop();
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
	   "the rank's death is noticed (%s)", err.text);
	gck_capture_close(c);
	close(helper_link);
	close(rank.in);
	close(rank.out);
	close(rank.err);
}

int main(void)
{
	struct gck_error err = {0};
	char url[64];

	close_range(3, ~0u, 0); /* what a harness left open would be the rank's as well */
	signal(SIGPIPE, SIG_IGN);
	gck_options_init(&options);
	if (!mkdtemp(directory))
		return 99;
	snprintf(url, sizeof(url), "file:%s", directory);
	store = gck_store_open(url, "c", 1, 0, true, &err);
	if (!ok(store != NULL, "a store"))
		return tap_done();
	agent_listen(&agent);
	test_able();
	test_image();
	test_append();
	test_signals();
	test_killed();
	test_churn();
	test_stopped();
	test_gone();
	gck_store_close(store);
	snprintf(url, sizeof(url), "rm -rf %s", directory);
	return system(url) ? 99 : tap_done();
}
