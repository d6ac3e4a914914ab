/* SPDX-License-Identifier: Apache-2.0
 * Every changed, missing or truncated byte of a commit, a manifest and a raw object is found;
 * random bytes in place of a document are refused. The previous commit stays intact. */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>

#include "storage/document/json.h"
#include "storage/image/image.h"
#include "storage/store/commit.h"
#include "storage/store/store.h"
#include "storage/test/util.h"
#include "test/support/tap.h"

static char root[ROOT_MAX], url[URL_MAX], path[1024];
static struct gck_store *s;
static const uint64_t old_seeds[] = { 1, 2 }, new_seeds[] = { 11, 12 };

/* The only entry of checkpoint 2's directory that is (or is not) a manifest. */
static void find(bool manifest)
{
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof path, "%s/2-b", s->b->where);
	d = opendir(path);
	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.' && !strncmp(e->d_name, "rank-", 5) == manifest)
			snprintf(path, sizeof path, "%s/2-b/%s", s->b->where, e->d_name);
	if (d)
		closedir(d);
}

static int verify(uint32_t seq, struct gck_error *err)
{
	struct gck_store *fresh = gck_store_open(url, "c", 1, 0, false, err);
	int rc = gck_store_verify(fresh, seq, NULL, NULL, err);

	gck_store_close(fresh);
	return rc;
}

static void rewrite(const char *data, size_t n)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT, 0600);

	if (fd < 0 || write(fd, data, n) != (ssize_t)n)
		perror(path);
	if (fd >= 0)
		close(fd);
}

/* Flip a bit of every byte, and truncate the file at every byte. */
static void test_every_byte(const char *what)
{
	struct gck_error err = { 0 };
	static char data[1 << 16];
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, data, sizeof data);
	size_t missed = 0, harmed = 0;

	close(fd);
	ok(all_of(n > 50, (size_t)n < sizeof data), "%s has %zd bytes", what, n);
	for (ssize_t i = 0; i < n; i++) {
		char bit = (char)(1 << (rnd() & 7));

		data[i] ^= bit;
		rewrite(data, (size_t)n);
		missed += verify(2, &err) == 0 || err.code != EBADMSG;
		harmed += verify(1, &err) < 0;
		data[i] ^= bit;
		rewrite(data, (size_t)i);
		missed += verify(2, &err) == 0;
	}
	is_int((long long)missed, 0, what);
	is_int((long long)harmed, 0, "the previous commit is intact");
	unlink(path);
	ok(all_of(verify(2, &err) < 0, err.code == ENOENT), "%s is missing: %s", what, err.text);
	rewrite(data, (size_t)n);
	ok(verify(2, &err) == 0, "%s is intact again", what);
}

static void test_replaced(void)
{
	struct gck_error err = { 0 };

	unlink(path);
	ok(mkfifo(path, 0600) == 0, "a FIFO in place of a file");
	ok(verify(2, &err) < 0, "refused without waiting: %s", err.text);
	unlink(path);
	ok(symlink("/dev/zero", path) == 0, "a link in place of a file");
	ok(verify(2, &err) < 0, "refused: %s", err.text);
	unlink(path);
}

/* A commit with a correct check and invalid content. */
static void put_commit(const char *body)
{
	char text[4096], hash[GCK_HASH_TEXT];

	gck_hash_text(gck_hash_bytes(body, strlen(body)), hash);
	snprintf(text, sizeof text, "{\"check\":\"%s\",\"commit\":%s}\n", hash, body);
	snprintf(path, sizeof path, "%s/commit-2.json", s->b->where);
	rewrite(text, strlen(text));
}

static void test_strange_commits(void)
{
	static const char *const bodies[] = {
		"",
		"1",
		"[]",
		"{}",
		"null",
		"{\"format\":1}",
		"{\"format\":2,\"seq\":2,\"nonce\":\"a\",\"ranks\":[]}",
		"{\"format\":1,\"seq\":3,\"nonce\":\"a\",\"ranks\":[]}",
		"{\"format\":1,\"seq\":-2,\"nonce\":\"a\",\"ranks\":[]}",
		"{\"format\":1,\"seq\":2,\"nonce\":\"../1-a\",\"ranks\":[]}",
		"{\"format\":1,\"seq\":2,\"nonce\":\"a\",\"ranks\":{}}",
		"{\"format\":1,\"seq\":2,\"nonce\":\"a\",\"ranks\":[1]}",
		"{\"format\":1,\"seq\":2,\"nonce\":\"a\",\"ranks\":[{\"rank\":0}]}",
		"{\"format\":1,\"seq\":2,\"nonce\":\"a\","
		"\"ranks\":[{\"rank\":0,\"manifest\":\"x\"}]}",
		"{\"format\":1,\"seq\":2,\"nonce\":\"a\",\"ranks\":[{\"rank\":0,\"manifest\":7}]}",
		"{\"format\":1,\"seq\":2,\"nonce\":\"a\","
		"\"ranks\":[{\"rank\":99999999999,\"exit\":1}]}",
	};

	for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
		struct gck_error err = { 0 };

		put_commit(bodies[i]);
		ok(verify(2, &err) < 0, "%s: %s", bodies[i], err.text);
	}
}

#define HASH "0123456789abcdef0123456789abcdef"
#define OBJECT "\"2-b/" HASH "\""

static void test_strange_manifests(void)
{
	static const char *const texts[] = {
		"{}",
		"{\"store\":1}",
		"{\"store\":{\"objects\":[]}}",
		"{\"store\":{\"objects\":[1],\"chunks\":\"\"}}",
		"{\"store\":{\"objects\":[\"../../x\"],\"chunks\":\"\"}}",
		"{\"store\":{\"objects\":[\"commit-2.json\"],\"chunks\":\"\"}}",
		"{\"store\":{\"objects\":[],\"chunks\":\"1\"}}",
		"{\"store\":{\"objects\":[],\"chunks\":\"" HASH "00000000000000001000010\"}}",
		"{\"store\":{\"objects\":[" OBJECT "],\"chunks\":\"" HASH
		"00000100000000001000010\"}}",
		"{\"store\":{\"objects\":[" OBJECT "],\"chunks\":\"" HASH
		"00000000000000001000011\"}}",
		"{\"store\":{\"objects\":[" OBJECT "],\"chunks\":\"" HASH
		"000000000000400014000010\"}}",
		"{\"store\":{\"objects\":[" OBJECT "],\"chunks\":\"" HASH
		"00000000000000000000000\"}}",
		"{\"store\":{\"objects\":[" OBJECT "],\"chunks\":\"" HASH
		"000000ffffff40000400000\"}}",
		"{\"store\":{\"objects\":[" OBJECT "],\"chunks\":\"" HASH
		"0000000000000000x000020\"}}",
		"{\"store\":{\"objects\":[" OBJECT "],\"chunks\":\"" HASH
		"00000000000000001000023\"}}",
	};
	const char *good = "{\"store\":{\"objects\":[" OBJECT "],\"chunks\":\"" HASH
			   "00000000000000001000010\"}}";
	struct gck_chunk *v = NULL;
	struct gck_error err;
	json_t *m = json_loads(good, 0, NULL);
	size_t n;

	ok(all_of(m, load_chunks(m, &v, &n, &err) == 0, n == 1),
	   "the pattern of the bad manifests is valid");
	free(v);
	json_decref(m);
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		m = json_loads(texts[i], 0, NULL);
		ok(all_of(m, load_chunks(m, &v, &n, &err) < 0), "%s", texts[i]);
		json_decref(m);
	}
}

/* Random changes of a valid manifest: no crash, and no chunk out of range. */
static void test_random_manifests(void)
{
	static char data[1 << 16], bad[1 << 16];
	size_t wrong = 0, loaded = 0;
	ssize_t size;
	int fd;

	find(true);
	fd = open(path, O_RDONLY);
	size = read(fd, data, sizeof data);
	close(fd);
	for (int i = 0; i < 20000; i++) {
		struct gck_chunk *v;
		size_t n;
		json_t *m;

		memcpy(bad, data, (size_t)size);
		for (uint64_t k = 1 + rnd() % 3; k > 0; k--)
			bad[rnd() % (size_t)size] = rnd() & 1 ? (char)rnd() :
					"0123456789abcdef{}[]\",:"[rnd() % 23];
		m = gck_json_parse(bad, (size_t)size, NULL);
		if (m && load_chunks(m, &v, &n, NULL) == 0) {
			for (size_t c = 0; c < n; c++)
				wrong += v[c].size > GCK_CHUNK_MAX || v[c].stored > v[c].size;
			loaded++;
			free(v);
		}
		json_decref(m);
	}
	ok(all_of(wrong == 0, loaded > 0), "20000 manifests changed at random (%zu still a table)",
	   loaded);
}

static void test_random_commits(void)
{
	char data[512];
	size_t taken = 0;
	struct gck_error err;

	snprintf(path, sizeof path, "%s/commit-2.json", s->b->where);
	for (int i = 0; i < 2000; i++) {
		size_t n = rnd() % sizeof data;

		fill(data, n, rnd());
		if (i % 2 && n > 100)
			memcpy(data,
			       "{\"check\":\"0123456789abcdef0123456789abcdef\",\"commit\":", 53);
		rewrite(data, n);
		taken += verify(2, &err) == 0;
	}
	is_int((long long)taken, 0, "2000 commits of random bytes");
}

/* A row of a rank's table that gives another place for a chunk that another rank has too. */
static void test_other_row(void)
{
	char hashes[2][GCK_HASH_TEXT], hash[GCK_HASH_TEXT], *row = NULL;
	static char data[1 << 16];
	struct gck_error err = { 0 };
	json_t *commit;
	ssize_t n = -1;
	int rc = 0, fd;

	for (uint32_t r = 0; r < 2 && rc == 0; r++) {
		struct gck_writer *w = open_writer(s, 5, "e", GCK_COMPRESS_NONE, NULL, &err);

		rc = gck_writer_shared(w, true, &err);
		if (rc == 0)
			rc = write_rank(w, r, old_seeds, 2, 5000, hashes[r], &err);
		gck_writer_close(w);
	}
	snprintf(path, sizeof path, "%s/5-e/rank-1.json", s->b->where);
	fd = open(path, O_RDONLY);
	if (fd >= 0) {
		n = read(fd, data, sizeof data - 1);
		close(fd);
	}
	if (n > 0)
		row = strstr(data, "\"chunks\":\"");
	if (!ok(all_of(rc == 0, row), "two ranks with the same content: %s", err.text) || !row)
		return;
	row += strlen("\"chunks\":\"");
	memcpy(row + 44, "01387", 5); /* a byte less than it has */
	row[54] = (char)('0' + GCK_COMPRESS_LZ4);
	rewrite(data, (size_t)n);
	gck_hash_text(gck_hash_bytes(data, (size_t)n), hashes[1]);
	commit = commit_of(5, "e", hashes, 2);
	ok(all_of(gck_store_commit(s, 5, commit, hash, &err) == 0, verify(5, &err) < 0,
		  strstr(err.text, "rank 1")), "one says otherwise how a chunk is stored: %s",
	   err.text);
	json_decref(commit);
}

int main(void)
{
	struct gck_error err = { 0 };

	make_root(root, url);
	s = gck_store_open(url, "c", 1, 0, true, &err);
	ok(all_of(checkpoint(s, 1, "a", GCK_COMPRESS_NONE, 0, old_seeds, 2, 1500, &err) == 0,
		  checkpoint(s, 2, "b", GCK_COMPRESS_NONE, 1, new_seeds, 2, 1500, &err) == 0,
		  verify(1, &err) == 0, verify(2, &err) == 0), "two commits %s", err.text);
	snprintf(path, sizeof path, "%s/commit-2.json", s->b->where);
	test_every_byte("commit");
	find(true);
	test_every_byte("manifest");
	find(false);
	test_every_byte("object");
	test_random_manifests();
	find(false);
	test_replaced();
	test_strange_commits();
	test_strange_manifests();
	test_random_commits();
	test_other_row();
	gck_store_close(s);
	remove_tree(root);
	return tap_done();
}
