/* SPDX-License-Identifier: Apache-2.0
 * bench_store DIRECTORY [MIB]: writes and reads incompressible data through writer and reader, from
 * and to memory. Prints `name value unit`; what is equal each time is printed once, the best of
 * three otherwise. */
#include "config.h"

#include <sys/mman.h>
#include <time.h>

#include "storage/test/util.h"

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int write_all(struct gck_store *s, const unsigned char *data, size_t chunks,
		     json_t *previous, const char *nonce, char hashes[1][GCK_HASH_TEXT],
		     uint64_t *stored)
{
	struct gck_error err;
	struct gck_writer *w = open_writer(s, 1, nonce, GCK_COMPRESS_NONE, previous, &err);
	json_t *m = json_object();
	struct gck_chunk c;
	uint64_t put;
	int rc = w ? 0 : -1;

	for (size_t i = 0; rc == 0 && i < chunks; i++)
		rc = gck_writer_put(w, data + i * GCK_CHUNK_MAX, GCK_CHUNK_MAX, &c, &err);
	if (rc == 0)
		rc = gck_writer_manifest(w, 0, m, hashes[0], &err);
	if (rc == 0)
		gck_writer_totals(w, &put, stored);
	else
		fprintf(stderr, "bench_store: %s\n", err.text);
	gck_writer_close(w);
	json_decref(m);
	return rc;
}

static int read_all(struct gck_store *s, const json_t *m, unsigned char *data)
{
	struct gck_error err;
	struct gck_reader *r = gck_reader_open(s, m, &err);
	struct gck_chunk *v = NULL;
	size_t n = 0;
	int rc = r ? gck_chunks_load(m, &v, &n, &err) : -1;

	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = gck_reader_get(r, &v[i], data + i * GCK_CHUNK_MAX, &err);
	if (rc < 0)
		fprintf(stderr, "bench_store: %s\n", err.text);
	free(v);
	gck_reader_close(r);
	return rc;
}

static double best(double a, double b)
{
	return a == 0 || b < a ? b : a;
}

static int bench(struct gck_store *s, unsigned char *data, size_t chunks)
{
	double w = 0, r = 0, d = 0, t;
	char hashes[1][GCK_HASH_TEXT], nonce[8];
	uint64_t stored = 0;

	for (int i = 0; i < 3; i++) {
		json_t *commit, *m;
		int rc;

		snprintf(nonce, sizeof nonce, "n%d", i);
		t = now();
		if (write_all(s, data, chunks, NULL, nonce, hashes, &stored) < 0)
			return -1;
		w = best(w, now() - t);
		commit = commit_of(1, nonce, hashes, 1);
		m = gck_store_read_manifest(s, commit, 0, NULL);
		t = now();
		rc = read_all(s, m, data);
		r = best(r, now() - t);
		t = now();
		rc |= write_all(s, data, chunks, m, "again", hashes, &stored);
		d = best(d, now() - t);
		json_decref(m);
		json_decref(commit);
		if (rc < 0 || gck_store_discard(s, 1, nonce, NULL) < 0 ||
		    gck_store_discard(s, 1, "again", NULL) < 0)
			return -1;
	}
	printf("store_write %.2f GiB/s\n", (double)chunks / 4096 / w);
	printf("store_read %.2f GiB/s\n", (double)chunks / 4096 / r);
	printf("store_unchanged %.2f GiB/s\n", (double)chunks / 4096 / d);
	printf("store_unchanged_stored %llu bytes\n", (unsigned long long)stored);
	return 0;
}

int main(int argc, char **argv)
{
	size_t mib = argc > 2 ? strtoul(argv[2], NULL, 10) : 256;
	size_t size = mib << 20;
	char url[4096];
	struct gck_error err;
	struct gck_store *s;
	unsigned char *data;
	int rc;

	if (argc < 2 || argc > 3 || mib == 0) {
		fprintf(stderr, "usage: bench_store DIRECTORY [MIB]\n");
		return 2;
	}
	snprintf(url, sizeof url, "file:%s", argv[1]);
	s = gck_store_open(url, "bench", 1, 0, true, &err);
	data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!s || data == MAP_FAILED) {
		fprintf(stderr, "bench_store: %s\n", s ? "no memory" : err.text);
		return 1;
	}
	fill(data, size, 1);
	rc = bench(s, data, size / GCK_CHUNK_MAX);
	gck_store_remove_empty(s);
	gck_store_close(s);
	return rc < 0;
}
