/* SPDX-License-Identifier: Apache-2.0
 * Unwritten pages are not read. A program changes its memory in every way there is; checkpoints
 * build on one another, are given up, or build on older ones. Each image must be exactly the rank's
 * memory when it was held. GPUCKPT_SEED=N; GPUCKPT_LONG=1: many more rounds. */
#include "config.h"

#include <err.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/process/capture/capture.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/test/capture_rank.h"
#include "shim/process/test/dirty_program.h"
#include "storage/retention/retention.h"
#include "test/support/tap.h"
#include "test/support/read_chunk.h"

/* An image on which others may build. */
struct base {
	json_t *manifest;
	char hash[GCK_HASH_TEXT];
};

/* The rank's memory, page by page. */
struct truth {
	char *data;
	bool there[(DIRTY_END - DIRTY_AT) / DIRTY_PAGE];
};

enum ending { COMMITTED, ABORTED, NOT_WRITTEN, WORKER_DIED };

static int tracker_fds[2];
static struct base newest, older;
static struct truth truth;
static uint32_t seq;
static uint64_t seed_, unread, copied;

static uint64_t rnd(void)
{
	seed_ ^= seed_ << 13;
	seed_ ^= seed_ >> 7;
	seed_ ^= seed_ << 17;
	return seed_;
}

static void work(unsigned most)
{
	char line[80];

	snprintf(line, sizeof(line), "work %lu %lu", (unsigned long)(rnd() % 1000000),
		 (unsigned long)(rnd() % most + 1));
	if (strcmp(rank_ask(&rank, line), "ok"))
		errx(99, "the rank does not work on");
}

/* The program executes itself: new memory at the same addresses. */
static void exec_again(void)
{
	int old = helper_link;

	rank_ask(&rank, "exec");
	helper_link = agent_admit(&agent, &hello);
	close(old);
	if (helper_link < 0)
		errx(99, "the rank does not run after an exec");
	work(200);
}

/* ---- the truth ----------------------------------------------------------------------------- */

static void learn(void)
{
	int proc = gck_proc_open(rank.pid, NULL), mem = openat(proc, "mem", O_RDONLY | O_CLOEXEC);
	struct gck_maps maps = {0};

	memset(truth.there, 0, sizeof(truth.there));
	if (mem < 0 || gck_maps_read(proc, &maps, NULL))
		errx(99, "the rank cannot be read");
	for (size_t i = 0; i < maps.n; i++)
		for (uint64_t at = maps.v[i].start; at < maps.v[i].end; at += DIRTY_PAGE) {
			if (at < DIRTY_AT || at >= DIRTY_END)
				continue;
			if (pread(mem, truth.data + (at - DIRTY_AT), DIRTY_PAGE, (off_t)at) !=
			    DIRTY_PAGE)
				errx(99, "the rank cannot be read at %lx", (unsigned long)at);
			truth.there[(at - DIRTY_AT) / DIRTY_PAGE] = true;
		}
	gck_maps_free(&maps);
	close(mem);
	close(proc);
}

static const struct gck_map *map_at(const struct gck_image *img, uint64_t address)
{
	for (size_t i = 0; i < img->nmaps; i++)
		if (address >= img->maps[i].start && address < img->maps[i].end)
			return &img->maps[i];
	return NULL;
}

/* Assemble the image's pages as a restart does. */
static bool lay_out(const struct gck_image *img, struct gck_reader *r, char *data)
{
	static char chunk[GCK_GROUP_BYTES];

	for (size_t i = 0; i < img->pages.rows.n; i++) {
		struct gck_page_group x = gck_page_groups_at(&img->pages, i);
		char *from = chunk;

		if (x.address < DIRTY_AT || x.address >= DIRTY_END)
			continue;
		if (read_chunk(r, &x.chunk, chunk, NULL))
			return false;
		for (uint64_t left = x.mask; left; left &= left - 1, from += DIRTY_PAGE)
			memcpy(data + (x.address - DIRTY_AT) +
				       (size_t)__builtin_ctzll(left) * DIRTY_PAGE,
			       from, DIRTY_PAGE);
	}
	return true;
}

static bool is_true(const json_t *manifest)
{
	struct gck_image *img = gck_image_from_json(manifest, NULL);
	struct gck_reader *r = img ? gck_reader_open(store, manifest, NULL) : NULL;
	char *data = calloc(1, DIRTY_END - DIRTY_AT);
	bool right = r && data && lay_out(img, r, data);

	for (uint64_t at = 0; at < DIRTY_END - DIRTY_AT && right; at += DIRTY_PAGE) {
		const struct gck_map *m;

		if (!truth.there[at / DIRTY_PAGE] ||
		    !memcmp(data + at, truth.data + at, DIRTY_PAGE))
			continue;
		m = map_at(img, DIRTY_AT + at);
		/* the file's own page, which is not stored */
		if (m && m->kind == GCK_MAP_FILE && truth.data[at] && !data[at])
			continue;
		printf("# the page at %lx is another one in image %u\n",
		       (unsigned long)(DIRTY_AT + at), seq);
		right = false;
	}
	free(data);
	if (r)
		gck_reader_close(r);
	gck_image_free(img);
	return right;
}

/* ---- changes from outside ------------------------------------------------------------------ */

static uint64_t some_page(void)
{
	uint64_t page;

	do
		page = rnd() % ((DIRTY_END - DIRTY_AT) / DIRTY_PAGE);
	while (!truth.there[page]);
	return DIRTY_AT + page * DIRTY_PAGE;
}

/* The page may be gone, or not writable: then nothing changes. */
static void write_from_outside(void)
{
	uint64_t word = rnd(), at = some_page();
	struct iovec from = {&word, sizeof(word)}, to = {(void *)(uintptr_t)at, sizeof(word)};
	char name[40];
	int fd;

	switch (rnd() % 3) {
	case 0:
		(void)!process_vm_writev(rank.pid, &from, 1, &to, 1, 0);
		break;
	case 1:
		snprintf(name, sizeof(name), "/proc/%d/mem", (int)rank.pid);
		fd = open(name, O_RDWR | O_CLOEXEC);
		(void)!pwrite(fd, &word, sizeof(word), (off_t)at);
		close(fd);
		break;
	default:
		if (ptrace(PTRACE_ATTACH, rank.pid, 0, 0) == 0) {
			waitpid(rank.pid, NULL, __WALL);
			ptrace(PTRACE_POKEDATA, rank.pid, at, word);
			ptrace(PTRACE_DETACH, rank.pid, 0, 0);
		}
	}
}

/* ---- checkpoints --------------------------------------------------------------------------- */

static void forget(struct base *b)
{
	json_decref(b->manifest);
	*b = (struct base){0};
}

static void count_unread(const struct gck_capture *c)
{
	for (size_t i = 0; i < c->base_pages.rows.n; i++) {
		uint64_t address = gck_page_groups_address(&c->base_pages, i);

		unread += address >= DIRTY_AT && address < DIRTY_END &&
			  gck_dirty_unwritten(&c->dirty, address);
	}
}

/* A page group that the clone may have written is read, also if it is protected. */
static bool is_read(struct gck_capture *c, uint64_t group)
{
	gck_dirty_spoil(&c->dirty, group + rnd() % GCK_GROUP_BYTES);
	return !gck_dirty_unwritten(&c->dirty, group);
}

static bool write_one(struct gck_capture *c, const struct base *on, enum ending end,
		      struct gck_error *err)
{
	struct gck_writer *w = gck_writer_open(store, ++seq, "t", &options, on->manifest, err);
	struct base made = {0};
	char path[128];
	bool right;

	if (on->manifest)
		gck_capture_build_on(c, on->manifest, on->hash);
	if (c->base_pages.rows.n &&
	    !is_read(c, gck_page_groups_address(&c->base_pages, rnd() % c->base_pages.rows.n)))
		return false;
	count_unread(c);
	if (!w || gck_capture_write(c, w, NULL, NULL, err) ||
	    gck_capture_manifest(c, w, 0, NULL, made.hash, err))
		return false;
	if (end != WORKER_DIED)
		gck_capture_leave_tracker(c, tracker_fds, made.hash);
	gck_writer_close(w);
	snprintf(path, sizeof(path), "%s/c/1/0/%u-t/rank-0.json", rank_directory, seq);
	made.manifest = json_load_file(path, 0, NULL);
	right = is_true(made.manifest);
	if (end == ABORTED) {
		must(gck_store_discard(store, seq, "t", NULL));
		forget(&made);
	} else {
		forget(&older);
		older = newest;
		newest = made;
	}
	return right;
}

/* Protect a sample of pages while the rank runs, as a look at its writes does. */
static void look_at_some(struct gck_capture *c)
{
	int pagemap = openat(c->t.proc, "pagemap", O_RDONLY | O_CLOEXEC);

	for (size_t i = 0; i < c->img->nmaps && c->dirty.uffd >= 0; i++) {
		const struct gck_map *m = &c->img->maps[i];
		uint64_t at = m->start;

		if (m->start < DIRTY_AT || m->end > DIRTY_END || !gck_dirty_tracks(m) ||
		    rnd() % 4 == 0 || !gck_dirty_register(&c->dirty, pagemap, m))
			continue;
		for (; at < m->end; at += (rnd() % 4 + 1) * DIRTY_PAGE)
			if (!gck_dirty_sample(&c->dirty, pagemap, at))
				break;
	}
	close(pagemap);
}

/* Copy some of its memory while it is held, and not into the clone; there may be too little space
 * for it. */
static void choose_some(struct gck_capture *c)
{
	for (uint64_t at = DIRTY_AT, end; at < DIRTY_END; at = end) {
		end = at + (rnd() % 16 + 1) * GCK_GROUP_BYTES;
		if (rnd() % 2)
			must(gck_ranges_add(&c->rewritten.chosen, at, end, NULL));
	}
	gck_capture_ready_copy(c, (rnd() % 128 + 1) * GCK_GROUP_BYTES);
	gck_capture_allow_copy(c, 5000, (unsigned)(rnd() % 3));
}

static bool one(enum ending end, bool on_older, struct gck_error *err)
{
	struct gck_capture *c = gck_capture_open(rank.pid, helper_link, &hello, &options, err);
	bool right;

	if (!c)
		return false;
	gck_capture_take_tracker(c, tracker_fds);
	if (rnd() % 2)
		look_at_some(c);
	if (rnd() % 2)
		work(20);
	if (rnd() % 2)
		choose_some(c);
	right = !gck_capture_freeze(c, err) && !gck_capture_take(c, true, err);
	copied += c->rewritten.ngroups;
	if (right)
		learn();
	gck_capture_resume(c);
	if (right && rnd() % 2)
		work(100);
	if (right && end != NOT_WRITTEN)
		right = write_one(c, on_older ? &older : &newest, end, err);
	gck_capture_close(c);
	return right;
}

/* Another process takes a checkpoint while one has the tracker, and that one puts the tracker back
 * unchanged. */
static bool two(struct gck_error *err)
{
	struct gck_dirty_tracker aside;
	bool right;

	gck_dirty_take(&aside, tracker_fds);
	right = one(COMMITTED, false, err);
	work(20);
	gck_dirty_leave(&aside, tracker_fds);
	return right && one(COMMITTED, true, err);
}

static enum ending some_ending(void)
{
	uint64_t x = rnd() % 10;

	return x < 7 ? COMMITTED : x == 7 ? ABORTED : x == 8 ? NOT_WRITTEN : WORKER_DIED;
}

static void a_life(uint64_t seed, int checkpoints)
{
	struct gck_error err = {0};
	uint64_t before = unread;
	int i, good = 0;

	seed_ = seed * 0x9e3779b97f4a7c15ul + 1;
	start();
	work(200);
	if (seed % 2)
		rank_ask(&rank, "writing");
	for (i = 0; i < checkpoints && good == i; i++) {
		unsigned most = rnd() % 3 ? 40 : 400;

		if (i == checkpoints / 2 || rnd() % 16 == 0)
			exec_again();
		good += rnd() % 8 ? one(some_ending(), rnd() % 8 == 0, &err) : two(&err);
		work(most);
		for (uint64_t n = rnd() % 4; n; n--)
			write_from_outside();
	}
	ok(good == checkpoints, "images of a life are true (seed %lu)%s%s", (unsigned long)seed,
	   good == i ? "" : ": ", err.text);
	printf("# %lu page groups were not read\n", (unsigned long)(unread - before));
	is_int(stop(), 0, "the rank ends by itself");
	forget(&newest);
	forget(&older);
}

/* The rank is killed once its clone exists: its last writes are unknown. */
static void test_killed(void)
{
	struct gck_error err = {0};
	struct gck_capture *c;

	start();
	work(200);
	c = gck_capture_open(rank.pid, helper_link, &hello, &options, &err);
	if (!c)
		errx(99, "%s", err.text);
	gck_capture_take_tracker(c, tracker_fds); /* the first is another rank's */
	gck_capture_take_tracker(c, tracker_fds);
	if (gck_capture_freeze(c, &err) || gck_capture_take(c, true, &err))
		errx(99, "%s", err.text);
	ok(c->dirty.uffd >= 0, "pages of a held rank are tracked");
	kill(rank.pid, SIGKILL);
	gck_dirty_update(&c->dirty, &c->t, c->img);
	ok(c->dirty.uffd < 0, "pages of a killed rank are not");
	gck_capture_close(c);
	rank_end(&rank);
	close(helper_link);
}

int main(void)
{
	const char *seed = getenv("GPUCKPT_SEED");
	int lives = tap_is_long() ? 60 : 3;
	uint64_t first = seed ? strtoull(seed, NULL, 10) : 1;

	tests_begin();
	truth.data = malloc(DIRTY_END - DIRTY_AT);
	if (!truth.data || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, tracker_fds))
		errx(99, "no memory or shelf");
	for (int i = 0; i < lives; i++)
		a_life(first + (uint64_t)i, 20);
	ok(copied > 0, "%lu page groups were copied while a rank was held", (unsigned long)copied);
	if (can_track()) {
		ok(unread > 0, "%lu page groups were not read", (unsigned long)unread);
		test_killed();
	} else {
		skip("page groups that are not read", "this kernel does not track written pages");
	}
	tests_end();
	return tap_done();
}
