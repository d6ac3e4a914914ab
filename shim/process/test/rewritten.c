/* SPDX-License-Identifier: Apache-2.0
 * Memory that a rank rewrites all the time is copied while it is held, and its clone is forked
 * without it: what a look chooses, what the clone has, that the image is the memory as it was, and
 * that the rank's memory is as before, also in its children. */
#include "config.h"

#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shim/process/capture/capture.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/test/capture_rank.h"
#include "shim/process/test/dirty_program.h"
#include "test/support/read_chunk.h"
#include "test/support/tap.h"

#define LOOKS 50 /* the rank may get no processor for a while */
#define END (REWRITTEN_AT + REWRITTEN_ALL)

static int tracker_fds[2];
static uint32_t seq;
static char *truth; /* of the memory from UNFORKED_AT to END */

static struct gck_capture *open_capture(void)
{
	struct gck_error e = {0};
	struct gck_capture *c = gck_capture_open(rank.pid, helper_link, &hello, &options, &e);

	if (!c)
		errx(99, "%s", e.text);
	gck_capture_take_tracker(c, tracker_fds);
	return c;
}

/* A capture that has looked, and found something. */
static struct gck_capture *looked(void)
{
	struct gck_capture *c = open_capture();
	int looks = 1;

	while (gck_capture_look(c) < REWRITTEN_BYTES && looks++ < LOOKS) {
		gck_capture_close(c);
		c = open_capture();
	}
	return c;
}

static void learn(void)
{
	int proc = gck_proc_open(rank.pid, NULL), mem = openat(proc, "mem", O_RDONLY | O_CLOEXEC);
	size_t done = 0;

	while (done < END - UNFORKED_AT) {
		ssize_t n = pread(mem, truth + done, END - UNFORKED_AT - done,
				  (off_t)(UNFORKED_AT + done));

		if (n <= 0)
			errx(99, "the rank cannot be read");
		done += (size_t)n;
	}
	close(mem);
	close(proc);
}

static void hold_and_take(struct gck_capture *c)
{
	struct gck_error e = {0};

	if (gck_capture_freeze(c, &e) || gck_capture_take(c, true, &e))
		errx(99, "%s", e.text);
	learn();
	gck_capture_resume(c);
}

/* Whether each stored page is as it was, and all are there. */
static bool is_true(const json_t *manifest)
{
	static char chunk[GCK_GROUP_BYTES];
	struct gck_image *img = gck_image_from_json(manifest, NULL);
	struct gck_reader *r = img ? gck_reader_open(store, manifest, NULL) : NULL;
	size_t pages = 0, wrong = 0;

	for (size_t i = 0; r && i < img->pages.rows.n; i++) {
		struct gck_page_group x = gck_page_groups_at(&img->pages, i);
		const char *from = chunk;

		if (x.address < UNFORKED_AT || x.address >= END)
			continue;
		must(read_chunk(r, &x.chunk, chunk, NULL));
		for (uint64_t left = x.mask; left; left &= left - 1, from += DIRTY_PAGE, pages++)
			wrong += memcmp(from, truth + (x.address - UNFORKED_AT) +
						(size_t)__builtin_ctzll(left) * DIRTY_PAGE,
					DIRTY_PAGE) != 0;
	}
	if (r)
		gck_reader_close(r);
	gck_image_free(img);
	printf("# %zu pages, %zu wrong\n", pages, wrong);
	return pages == (END - UNFORKED_AT) / DIRTY_PAGE && !wrong;
}

static bool writes_true_image(struct gck_capture *c)
{
	struct gck_writer *w = gck_writer_open(store, ++seq, "t", &options, NULL, NULL);
	char hash[GCK_HASH_TEXT], path[128];
	json_t *manifest;
	bool right;

	if (!w || gck_capture_write(c, w, NULL, NULL, NULL) ||
	    gck_capture_manifest(c, w, 0, NULL, hash, NULL))
		return false;
	gck_writer_close(w);
	snprintf(path, sizeof(path), "%s/c/1/0/%u-t/rank-0.json", rank_directory, seq);
	manifest = json_load_file(path, 0, NULL);
	right = is_true(manifest);
	json_decref(manifest);
	return right;
}

static bool has_memory(pid_t pid, uint64_t address)
{
	int proc = gck_proc_open(pid, NULL);
	struct gck_maps maps = {0};
	bool has;

	must(gck_maps_read(proc, &maps, NULL));
	has = gck_maps_find(&maps, address);
	gck_maps_free(&maps);
	close(proc);
	return has;
}

/* The mappings of that memory, with their flags. */
static void describe(char *text, size_t size)
{
	int proc = gck_proc_open(rank.pid, NULL);
	struct gck_maps maps = {0};
	size_t n = 0;

	must(gck_smaps_read(proc, &maps, NULL));
	for (size_t i = 0; i < maps.n; i++)
		if (maps.v[i].end > UNFORKED_AT && maps.v[i].start < END)
			n += (size_t)snprintf(text + n, size - n, "%lx-%lx %x; ",
					      (unsigned long)maps.v[i].start,
					      (unsigned long)maps.v[i].end, maps.v[i].flags);
	gck_maps_free(&maps);
	close(proc);
}

static void test_copied(void)
{
	struct gck_capture *c = looked();
	char before[512], after[512];

	is_int(c->rewritten.chosen.n, 1, "a look chooses one part of the memory");
	ok(c->rewritten.chosen.n && c->rewritten.chosen.v[0].start == REWRITTEN_AT &&
	   c->rewritten.chosen.v[0].end == REWRITTEN_AT + REWRITTEN_BYTES,
	   "it is all that is rewritten all the time");
	describe(before, sizeof(before));
	gck_capture_ready_copy(c, REWRITTEN_BYTES);
	gck_capture_allow_copy(c, 60000, 2);
	hold_and_take(c);
	describe(after, sizeof(after));
	ok(!has_memory(c->clone, REWRITTEN_AT) &&
	   !has_memory(c->clone, REWRITTEN_AT + REWRITTEN_BYTES - DIRTY_PAGE),
	   "the clone has nothing of it");
	ok(has_memory(c->clone, REWRITTEN_AT + REWRITTEN_BYTES), "the clone has what is beside it");
	is_str(after, before, "the rank's mappings are as before");
	is_str(rank_ask(&rank, "forked"), "ok", "so is what a child of it has");
	ok(writes_true_image(c), "the image has all memory as it was");
	gck_capture_close(c);
}

/* bytes: space for copies. */
static void test_partly(uint64_t bytes, unsigned ms, const char *what)
{
	struct gck_capture *c = looked();

	gck_capture_ready_copy(c, bytes);
	gck_capture_allow_copy(c, ms, 2);
	hold_and_take(c);
	ok(has_memory(c->clone, REWRITTEN_AT + REWRITTEN_BYTES - DIRTY_PAGE),
	   "%s: the clone has what was not copied", what);
	ok(!strcmp(rank_ask(&rank, "forked"), "ok"), "%s: a child has all", what);
	ok(writes_true_image(c), "%s: the image has all memory as it was", what);
	gck_capture_close(c);
}

int main(void)
{
	tests_begin();
	truth = malloc(END - UNFORKED_AT);
	if (!truth || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, tracker_fds))
		errx(99, "no memory or socketpair");
	start();
	if (strcmp(rank_ask(&rank, "rewrite"), "ok"))
		errx(99, "the rank does not rewrite its memory");
	if (can_track()) {
		test_copied();
		test_partly((32ul << 20) + DIRTY_PAGE, 60000, "too little space");
		test_partly(REWRITTEN_BYTES, 0, "no time");
	} else {
		skip("memory that is rewritten", "this kernel does not track written pages");
	}
	is_int(stop(), 0, "the rank ends by itself");
	tests_end();
	return tap_done();
}
