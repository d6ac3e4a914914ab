/* SPDX-License-Identifier: Apache-2.0
 * bench_store [-e] DIRECTORY MIB|FILE [METHOD [LEVEL [CPUS]]]: writes and reads a file's bytes, or
 * MIB MiB of noise, with writer and reader, from and to memory; then writes them again as a second
 * checkpoint with 5 percent changed, in runs of 1 MiB that begin at any page. METHOD is none, lz4
 * or zstd; -e encrypts. Prints `name value unit`; CPU seconds are those of the whole process. */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "storage/crypto/keyring.h"
#include "storage/image/image.h"
#include "storage/retention/retention.h"
#include "storage/store/commit.h"
#include "storage/store/store.h"
#include "storage/test/util.h"
#include "test/support/tap.h"
#include "test/support/read_chunk.h"

#define CHANGED_PERCENT 5
#define CHANGED_RUN ((size_t)1 << 20)

static struct gck_options options;
static const char *key; /* NULL: not encrypted */
static unsigned char *data;
static size_t size;

struct taken {
	double wall, cpu;
};

static struct taken now(void)
{
	struct timespec t, c;

	clock_gettime(CLOCK_MONOTONIC, &t);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &c);
	return (struct taken){ (double)t.tv_sec + (double)t.tv_nsec / 1e9,
			       (double)c.tv_sec + (double)c.tv_nsec / 1e9 };
}

static struct taken since(struct taken a)
{
	struct taken b = now();

	return (struct taken){ b.wall - a.wall, b.cpu - a.cpu };
}

static void fail(const char *text)
{
	fprintf(stderr, "bench_store: %s\n", text);
	exit(1);
}

/* Commit the checkpoint. Returns its manifest as a restart reads it. */
static json_t *commit(struct gck_store *s, uint32_t seq, char hashes[1][GCK_HASH_TEXT])
{
	struct gck_error err = { 0 };
	json_t *c = commit_of(seq, "a", hashes, 1), *read = NULL, *m = NULL;
	char hash[GCK_HASH_TEXT];

	if (key)
		json_object_set_new(c, "key", json_string(key));
	if (gck_store_commit(s, seq, c, hash, &err) == 0)
		read = gck_store_read_commit(s, seq, hash, NULL, &err);
	if (read)
		m = gck_store_read_manifest(s, read, 0, &err);
	json_decref(read);
	json_decref(c);
	return m ? m : (fail(err.text), NULL);
}

/* Write a checkpoint of all the data. Returns its manifest. */
static json_t *write_all(struct gck_store *s, uint32_t seq, const json_t *previous,
			 uint64_t *stored,
			 struct taken *taken)
{
	struct gck_error err = { 0 };
	struct taken begin = now();
	struct gck_writer *w = gck_writer_open(s, seq, "a", &options, previous, &err);
	char hashes[1][GCK_HASH_TEXT];
	json_t *m = json_object();
	struct gck_chunk c;
	uint64_t put;
	int rc = w ? 0 : -1;

	for (size_t at = 0; rc == 0 && at < size; at += GCK_CHUNK_MAX)
		rc = gck_writer_put(w, data + at,
				    size - at < GCK_CHUNK_MAX ? size - at : GCK_CHUNK_MAX, &c,
				    &err);
	if (rc < 0 || gck_writer_manifest(w, 0, m, hashes[0], &err) < 0)
		fail(err.text);
	gck_writer_totals(w, &put, stored);
	gck_writer_close(w);
	*taken = since(begin);
	json_decref(m);
	return commit(s, seq, hashes);
}

struct all {
	struct gck_chunk *v;
	size_t n, at;
};

static bool next_chunk(void *arg, struct gck_chunk *c)
{
	struct all *all = arg;

	if (all->at == all->n)
		return false;
	*c = all->v[all->at++];
	return true;
}

static void read_all(struct gck_store *s, const json_t *m, unsigned char *to, struct taken *taken)
{
	struct gck_error err = { 0 };
	struct taken begin = now();
	struct gck_reader *r = gck_reader_open(s, m, &err);
	struct all all = { NULL, 0, 0 };

	if (!r || load_chunks(m, &all.v, &all.n, &err) < 0 ||
	    gck_reader_plan(r, next_chunk, &all, &err) < 0)
		fail(err.text);
	for (size_t i = 0; i < all.n; i++)
		if (read_chunk(r, &all.v[i], to + i * GCK_CHUNK_MAX, &err) < 0)
			fail(err.text);
	free(all.v);
	gck_reader_close(r);
	*taken = since(begin);
}

static void change(void)
{
	size_t runs = size / 100 * CHANGED_PERCENT / CHANGED_RUN;

	for (size_t i = 0; i < runs; i++)
		fill(data + rnd() % ((size - CHANGED_RUN) / 4096) * 4096, CHANGED_RUN, rnd());
}

static size_t objects_of(struct gck_store *s, const char *dir)
{
	char path[4096 + 64];
	struct dirent *e;
	size_t n = 0;
	DIR *d;

	snprintf(path, sizeof path, "%s/%s", s->b->where, dir);
	d = opendir(path);
	while (d && (e = readdir(d)))
		n += strlen(e->d_name) == GCK_HASH_TEXT - 1;
	if (d)
		closedir(d);
	return n;
}

static void bench(struct gck_store *s)
{
	unsigned char *to = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS |
				 MAP_POPULATE, -1, 0);
	struct taken first, read, second;
	uint64_t stored, stored_again;
	json_t *m, *again;

	if (to == MAP_FAILED)
		fail("no memory");
	m = write_all(s, 1, NULL, &stored, &first);
	read_all(s, m, to, &read);
	munmap(to, size);
	change();
	again = write_all(s, 2, m, &stored_again, &second);
	printf("store_write %.1f MiB/s\n", (double)(size >> 20) / first.wall);
	printf("store_write_cpu %.3f s\n", first.cpu);
	printf("store_read %.1f MiB/s\n", (double)(size >> 20) / read.wall);
	printf("store_stored %.1f MiB\n", (double)stored / 1048576);
	printf("store_objects %zu objects\n", objects_of(s, "1-a"));
	printf("store_second_stored %.1f MiB\n", (double)stored_again / 1048576);
	printf("store_second_cpu %.3f s\n", second.cpu);
	json_decref(m);
	json_decref(again);
	must(gck_store_prune(s, NULL, 0, 3, NULL));
}

/* Read the file into memory, so that the figures do not include the file system. */
static void load(const char *what)
{
	size_t mib = strtoul(what, NULL, 10);
	struct stat st;
	int fd = mib ? -1 : open(what, O_RDONLY);

	if (!mib && (fd < 0 || fstat(fd, &st) < 0))
		fail("cannot open the file");
	size = mib ? mib << 20 : (size_t)st.st_size;
	data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
		    -1,
		    0);
	if (data == MAP_FAILED || size < 2 * CHANGED_RUN)
		fail("no memory, or too few bytes");
	if (mib)
		fill(data, size, 1);
	for (size_t at = 0; !mib && at < size;) {
		ssize_t n = read(fd, data + at, size - at);

		if (n <= 0)
			fail("cannot read the file");
		at += (size_t)n;
	}
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	bool encrypt = argc > 1 && !strcmp(argv[1], "-e");
	struct gck_error err = { 0 };
	struct gck_store *s;
	char url[4096];

	argc -= encrypt;
	argv += encrypt;
	if (argc < 3 || argc > 6) {
		fprintf(stderr,
			"usage: bench_store [-e] DIRECTORY MIB|FILE [METHOD [LEVEL [CPUS]]]\n");
		return 2;
	}
	gck_options_init(&options);
	options.compress_level = argc > 4 ? atoi(argv[4]) : 0;
	if (argc > 3)
		options.compress = !strcmp(argv[3], "lz4") ? GCK_COMPRESS_LZ4 :
				   !strcmp(argv[3], "zstd") ? GCK_COMPRESS_ZSTD : GCK_COMPRESS_NONE;
	snprintf(url, sizeof url, "file:%s", argv[1]);
	s = gck_store_open(url, "bench", 1, 0, true, &err);
	if (!s)
		fail(err.text);
	gck_store_limit(s, argc > 5 ? (unsigned)atoi(argv[5]) : 1, (size_t)128 << 20);
	gck_store_unwrapper(unwrap_any, NULL);
	key = encrypt ? "bench" : NULL;
	if (key && gck_store_encrypt(s, key, &err) < 0)
		fail(err.text);
	load(argv[2]);
	bench(s);
	gck_store_remove_empty(s);
	gck_store_close(s);
	return 0;
}
