/* SPDX-License-Identifier: Apache-2.0
 * chunking URL CLUSTER JOB STEP RANKS SEQ...: what other ways of cutting memory into chunks would store of
 * commits that are there: fixed pieces of several sizes, and content-defined ones (a gear hash, cut
 * where its low bits are zero, from a quarter to four times the mean). All pages of all ranks are cut,
 * what lies together in one go; a piece counts if neither this commit nor the one before has it.
 * Prints a line for each way: new MiB of each commit, chunks in the manifests, seconds.
 * Built with what test_store is linked with; where the store is another user's, run as root. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "storage/image/chunk_index.h"
#include "storage/store/internal.h"

#define PAGE 4096u
#define WINDOW (64 * PAGE)

struct way {
	const char *name;
	uint32_t size; /* of fixed ones, or the mean */
	bool content;
};

static const struct way ways[] = {
	{ "fixed 256 KiB", 256 << 10, false }, { "fixed 64 KiB", 64 << 10, false },
	{ "fixed 16 KiB", 16 << 10, false },   { "fixed 4 KiB", 4 << 10, false },
	{ "content 256 KiB", 256 << 10, true }, { "content 64 KiB", 64 << 10, true },
	{ "content 16 KiB", 16 << 10, true },   { "content 4 KiB", 4 << 10, true },
};

#define WAYS (sizeof ways / sizeof *ways)

struct tally {
	struct gck_chunk_index before, now;
	uint64_t all, added;
	double seconds;
};

static struct tally tallies[WAYS];
static uint64_t gear[256];

/* A run of pages that lie together. */
static unsigned char *run;
static size_t run_size, run_room;
static uint64_t run_end;

static void piece(struct tally *t, const unsigned char *data, size_t size)
{
	struct gck_chunk c = { .hash = gck_hash_bytes(data, size), .size = (uint32_t)size }, had;

	t->all++;
	if (gck_chunk_index_find(&t->now, c.hash, c.size, &had))
		return;
	if (!gck_chunk_index_find(&t->before, c.hash, c.size, &had))
		t->added += size;
	gck_chunk_index_add(&t->now, &c, NULL);
}

/* Fixed pieces are at multiples of their size in the address space, as windows are. */
static size_t cut_fixed(uint32_t size, uint64_t address, size_t left)
{
	size_t n = size - address % size;

	return n < left ? n : left;
}

static size_t cut_content(uint32_t mean, const unsigned char *data, size_t left)
{
	size_t least = mean / 4, most = 4 * (size_t)mean - 1; /* which a table has room for */
	uint64_t h = 0, mask = ((uint64_t)mean - 1) << 20;

	if (left <= least)
		return left;
	for (size_t i = least; i < left && i < most; i++) {
		h = (h << 1) + gear[data[i]];
		if (!(h & mask))
			return i + 1;
	}
	return left < most ? left : most;
}

static void flush(void)
{
	uint64_t start = run_end - run_size;
	size_t n;

	for (size_t w = 0; w < WAYS; w++) {
		clock_t begin = clock();

		for (size_t at = 0; at < run_size; at += n) {
			n = ways[w].content ? cut_content(ways[w].size, run + at, run_size - at) :
					      cut_fixed(ways[w].size, start + at, run_size - at);
			piece(&tallies[w], run + at, n);
		}
		tallies[w].seconds += (double)(clock() - begin) / CLOCKS_PER_SEC;
	}
	run_size = 0;
}

static void add_page(uint64_t address, const unsigned char *data)
{
	if (address != run_end)
		flush();
	if (run_size + PAGE > run_room && !(run = realloc(run, run_room = 2 * (run_room + PAGE))))
		exit(1);
	memcpy(run + run_size, data, PAGE);
	run_size += PAGE;
	run_end = address + PAGE;
}

static void fail(const struct gck_error *err)
{
	fprintf(stderr, "chunking: %s\n", err->text);
	exit(1);
}

/* A list of windows: rows of 12 digits (number), 16 (mask), 8 (chunk). */
static void add_windows(struct gck_reader *r, const struct gck_chunks *chunks, const json_t *list)
{
	struct gck_error err;
	struct gck_hex_table rows;

	if (gck_hex_table_load(&rows, 36, list, &err) < 0)
		fail(&err);
	for (size_t row = 0; row < rows.n; row++) {
		uint64_t address = gck_hex_table_get(&rows, row, 0, 12) * WINDOW;
		uint64_t mask = gck_hex_table_get(&rows, row, 12, 16);
		struct gck_chunk c = gck_chunks_at(chunks, gck_hex_table_get(&rows, row, 28, 8));
		const unsigned char *data = gck_reader_view(r, &c, &err);

		if (!data)
			fail(&err);
		for (unsigned i = 0; i < 64; i++)
			if (mask >> i & 1) {
				add_page(address + i * PAGE, data);
				data += PAGE;
			}
	}
	gck_hex_table_clear(&rows);
	flush();
	run_end = 0;
}

static void add_rank(struct gck_store *s, const json_t *commit, uint32_t rank)
{
	struct gck_error err;
	json_t *m = gck_store_read_manifest(s, commit, rank, &err), *content;
	const json_t *image = json_object_get(m, "image");
	struct gck_reader *r = m ? gck_reader_open(s, m, &err) : NULL;
	struct gck_chunks chunks;
	size_t i;

	if (!r || gck_chunks_load(m, &chunks, &err) < 0)
		fail(&err);
	json_array_foreach(json_object_get(image, "contents"), i, content)
		add_windows(r, &chunks, json_object_get(content, "windows"));
	add_windows(r, &chunks, json_object_get(image, "pages"));
	gck_chunks_clear(&chunks);
	gck_reader_close(r);
	json_decref(m);
}

int main(int argc, char **argv)
{
	struct gck_error err;
	struct gck_store *s;
	uint64_t x = 1;

	if (argc < 7) {
		fprintf(stderr, "usage: chunking URL CLUSTER JOB STEP RANKS SEQ...\n");
		return 2;
	}
	for (size_t i = 0; i < 256; i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		gear[i] = x ^ x >> 29;
	}
	s = gck_store_open(argv[1], argv[2], (uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]), false,
			   &err);
	for (int a = 6; s && a < argc; a++) {
		json_t *commit = gck_store_read_commit(s, (uint32_t)atoi(argv[a]), NULL, NULL, &err);

		for (int rank = 0; commit && rank < atoi(argv[5]); rank++)
			add_rank(s, commit, (uint32_t)rank);
		for (size_t w = 0; commit && w < WAYS; w++) {
			struct tally *t = &tallies[w];

			printf("%s %-16s %8.1f MiB new, %7llu chunks, %.2f s\n", argv[a], ways[w].name,
			       (double)t->added / 1048576, (unsigned long long)t->all, t->seconds);
			gck_chunk_index_clear(&t->before);
			*t = (struct tally){ .before = t->now };
		}
		json_decref(commit);
	}
	if (!s)
		fprintf(stderr, "chunking: %s\n", err.text);
	gck_store_close(s);
	return !s;
}
