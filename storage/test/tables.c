/* SPDX-License-Identifier: Apache-2.0
 * Long tables in manifests: their text is parsed and written without copies. The memory per chunk
 * for writing, reusing, reading and verifying an image is bounded. */
#include "config.h"

#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "storage/crypto/keyring.h"
#include "storage/document/json.h"
#include "storage/image/image.h"
#include "storage/store/chunks.h"
#include "storage/store/commit.h"
#include "storage/store/store.h"
#include "storage/test/util.h"
#include "test/support/tap.h"
#include "test/support/read_chunk.h"

#define MANY 200000u /* chunks: as those of 48 GiB */
#define FEW 2000u
#define LEAST 28 /* bytes of a chunk's row: less was not measured */
#define LONG GCK_JSON_LONG

static char root[ROOT_MAX], url[URL_MAX];

/* ---- text ----------------------------------------------------------------------------------- */

static char *digits(size_t n)
{
	char *text = calloc(n + 1, 1);

	for (size_t i = 0; i < n; i++)
		text[i] = "0123456789abcdef"[rnd() & 15];
	return text;
}

static json_t *parse(const char *text, struct gck_error *err)
{
	char *copy = strdup(text);
	json_t *value = gck_json_parse(copy, strlen(copy), err);

	free(copy);
	return value;
}

/* A text is parsed and written equally. */
static void same(const char *text, const char *name)
{
	json_t *value = parse(text, NULL);
	char *again = value ? gck_json_text(value) : NULL;

	ok(all_of(again, !strcmp(again, text)), "%s", name);
	free(again);
	json_decref(value);
}

static char *document(const char *text)
{
	char *all = NULL;

	if (asprintf(&all, "{\"a\":[1,{\"b\\\"\\\\\":\"%s\"},\"\\\\u0000\"],\"c\":{},\"d\":[],"
		     "\"e\":\"%s\"}", text, text) < 0)
		abort();
	return all;
}

static void test_name(void)
{
	char *text = digits(LONG), *all = NULL;

	if (asprintf(&all, "[{\"%s\":\"%s\"}]", text, text) < 0)
		abort();
	same(all, "a long name of a member");
	free(all);
	free(text);
}

static void round_trip(size_t n, char other, const char *name)
{
	char *text = digits(n), *all;

	if (other)
		text[n / 2] = other;
	all = document(text);
	same(all, name);
	free(all);
	free(text);
}

static void refused(const char *text, const char *name)
{
	struct gck_error err = { 0 };
	json_t *value = parse(text, &err);

	ok(all_of(!value, err.code == EBADMSG), "refused: %s (%s)", name, err.text);
	json_decref(value);
}

/* Only this many allocations succeed, and none that is larger than the limit. */
static size_t spared, largest;

static void *scarce(size_t size)
{
	if (size > largest || !spared)
		return NULL;
	spared--;
	return malloc(size);
}

static void without(size_t n, size_t size, const char *text, const char *name)
{
	struct gck_error err = { 0 };
	json_t *value;

	spared = n;
	largest = size;
	json_set_alloc_funcs(scarce, free);
	value = parse(text, &err);
	json_set_alloc_funcs(malloc, free);
	ok(all_of(!value, err.code == ENOMEM), "without memory for %s: %s", name, err.text);
	json_decref(value);
}

static void test_no_memory(void)
{
	char *text = digits(LONG), *all = document(text);

	without(0, SIZE_MAX, "{}", "anything");
	without(3, SIZE_MAX, "{}", "parsing");
	without(SIZE_MAX, LONG / 4, all, "a long text");
	all[LONG / 2] = 'g';
	without(SIZE_MAX, LONG / 4, all, "a long text without digits");
	free(all);
	free(text);
}

static void test_text(void)
{
	char *text = digits(LONG), *all = document(text);

	round_trip(10, 0, "short texts");
	round_trip(LONG, 0, "long texts of digits");
	round_trip(LONG + 1, 0, "an odd number of digits");
	round_trip(LONG, 'G', "a long text of other characters");
	test_name();
	same("[]", "no long text");
	refused("", "an empty text");
	refused("[\"\\u00000\"]", "a NUL, which marks a long text");
	refused("[\"a\\n\\u0000\"]", "a NUL behind another character");
	refused("[\"a", "a string without an end");
	all[strlen(all) - 2] = '\0';
	refused(all, "a long string without an end");
	all[100] = '\n';
	all[strlen(all)] = '"';
	refused(all, "a newline in a long string");
	all[100] = '\xff';
	refused(all, "invalid UTF-8 in a long string");
	free(all);
	free(text);
}

static void test_rows(void)
{
	struct gck_hex_table r = { .width = 55 }, again = { .width = 0 };
	json_t *value, *plain;
	size_t wrong = 0;

	for (size_t i = 0; i < 5000; i++) {
		must(gck_hex_table_add(&r, NULL));
		gck_hex_table_set(&r, i, 3, 16, i * 0x123456789abcdefu);
		gck_hex_table_set(&r, i, 54, 1, i);
	}
	value = gck_hex_table_json(&r);
	ok(all_of(value, gck_hex_table_count(55, value) == 5000), "a value of rows");
	ok(all_of(gck_hex_table_load(&again, 55, value, NULL) == 0, again.n == 5000),
	   "has the rows of the table");
	for (size_t i = 0; i < again.n; i++)
		wrong += gck_hex_table_get(&again, i, 3, 16) != i * 0x123456789abcdefu ||
			 gck_hex_table_get(&again, i, 54,
					   1) != (i & 15) || gck_hex_table_get(&again, i, 0, 3);
	is_int((long long)wrong, 0, "the rows are the same");
	ok(gck_hex_table_load(&again, 54, value, NULL) < 0, "another width is refused");
	plain = json_string("00g");
	ok(gck_hex_table_load(&again, 3, plain, NULL) < 0,
	   "other characters than digits are refused");
	json_decref(plain);
	json_decref(value);
	r.n = 1;
	gck_hex_table_set(&r, 1, 0, 1, 15);
	value = gck_hex_table_json(&r);
	is_int(json_string_value(value)[json_string_length(value) - 1] & 15, 0,
	       "half a byte behind an odd number of digits");
	json_decref(value);
	gck_hex_table_clear(&r);
	gck_hex_table_clear(&again);
}

/* ---- memory --------------------------------------------------------------------------------- */

static json_t *manifest_of(struct gck_store *s, uint32_t seq)
{
	json_t *commit = seq ? gck_store_read_commit(s, seq, NULL, NULL, NULL) : NULL;
	json_t *manifest = commit ? gck_store_read_manifest(s, commit, 0, NULL) : NULL;

	json_decref(commit);
	return manifest;
}

/* Checkpoint seq of n chunks of 16 bytes, of which every tenth differs from the previous one. */
static int write_image(struct gck_store *s, uint32_t seq, uint32_t before, size_t n)
{
	uint64_t put = 0, stored = 0, new = 16 * (before ? (n + 9) / 10 : n);
	json_t *previous = manifest_of(s, before), *m = json_object(), *commit;
	struct gck_writer *w = open_writer(s, seq, "a", GCK_COMPRESS_NONE, previous, NULL);
	char hashes[1][GCK_HASH_TEXT], hash[GCK_HASH_TEXT];
	struct gck_chunk c;
	int rc = w ? 0 : -1;

	json_decref(previous);
	for (uint64_t i = 0; rc == 0 && i < n; i++) {
		uint64_t data[2] = { i, i % 10 ? 0 : seq };

		rc = gck_writer_put(w, data, sizeof data, &c, NULL);
	}
	rc = rc || gck_writer_manifest(w, 0, m, hashes[0], NULL);
	gck_writer_totals(w, &put, &stored);
	rc = rc || put != 16 * n || stored < new || stored > new + new * GCK_ENCRYPT_EXTRA / 16;
	gck_writer_close(w);
	commit = commit_of(seq, "a", hashes, 1);
	if (s->key)
		json_object_set_new(commit, "key", json_string("k"));
	rc = rc || gck_store_commit(s, seq, commit, hash, NULL);
	json_decref(commit);
	json_decref(m);
	return rc;
}

static int first(struct gck_store *s, size_t n)
{
	return write_image(s, 1, 0, n);
}

static int second(struct gck_store *s, size_t n)
{
	return write_image(s, 2, 1, n);
}

static int load(struct gck_store *s, size_t n)
{
	json_t *manifest = manifest_of(s, 2);
	struct gck_chunks c;
	struct gck_chunk x = { .size = 0 };
	uint64_t data[2];
	struct gck_reader *r = manifest ? gck_reader_open(s, manifest, NULL) : NULL;
	int rc = r ? gck_chunks_load(manifest, &c, NULL) : -1;

	if (rc == 0 && (c.rows.n != n || gck_manifest_chunks(manifest) != n))
		rc = -1;
	if (rc == 0)
		x = gck_chunks_at(&c, n - 1);
	rc = rc || read_chunk(r, &x, data, NULL) || data[0] != n - 1;
	json_decref(manifest);
	return rc;
}

static int check(struct gck_store *s, size_t n)
{
	(void)n;
	return gck_store_check(s, 2, NULL, NULL, NULL);
}

static int verify(struct gck_store *s, size_t n)
{
	uint64_t bytes = 0;

	return gck_store_verify(s, 2, NULL, &bytes, NULL) || bytes < n * 16;
}

typedef int what_fn(struct gck_store *s, size_t n);

/* The peak memory of a process that does the work with the agent's malloc settings; -1: failure. */
static long memory_of(what_fn *what, const char *cluster, size_t n)
{
	struct rusage used;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct gck_store *s = gck_store_open(url, cluster, 1, 0, true, NULL);

		mallopt(M_MMAP_THRESHOLD, 256 << 10);
		if (*cluster == 'e') {
			gck_store_unwrapper(unwrap_any, NULL);
			must(gck_store_encrypt(s, "k", NULL));
		}
		_exit(s && what(s, n) == 0 ? 0 : 1);
	}
	if (wait4(pid, &status, 0, &used) < 0 || status)
		return -1;
	return used.ru_maxrss * 1024;
}

static void bounded(what_fn *what, const char *kind, long most, const char *name)
{
	char few_name[8], many_name[8];
	long few, many, each;

	snprintf(few_name, sizeof few_name, "%s1", kind);
	snprintf(many_name, sizeof many_name, "%s2", kind);
	few = memory_of(what, few_name, FEW);
	many = memory_of(what, many_name, MANY);
	each = (many - few) / (long)(MANY - FEW);
	ok(all_of(few > 0, many > 0, each >= LEAST, each <= most),
	   "%s: %ld bytes for each chunk, %d to %ld", name, each, LEAST, most);
}

int main(void)
{
	unsigned char byte;

	make_root(root, url);
	test_text();
	test_no_memory();
	test_rows();
	bounded(first, "p", 100, "a first image");
	bounded(second, "p", 100, "a second one");
	bounded(load, "p", 100, "its table");
	bounded(check, "p", 100, "check");
	bounded(verify, "p", 100, "verify");
	if (gck_crypto_random(&byte, 1, NULL) == 0) {
		bounded(first, "e", 200, "an encrypted image");
		bounded(second, "e", 200, "a second one");
		bounded(load, "e", 200, "its table");
		bounded(verify, "e", 200, "verify");
	}
	remove_tree(root);
	return tap_done();
}
