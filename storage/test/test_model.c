/* SPDX-License-Identifier: Apache-2.0
 * Random sequences of checkpoint, commit, abort, crash, prune and damage against a model that knows
 * what every commit must give back. Nothing that a kept commit needs may ever go, whatever runs
 * meanwhile; and when all is over nothing is left. */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>

#include "common/test/tap.h"
#include "storage/test/util.h"

#define RANKS 2
#define CHUNKS_MAX 24
#define SIZE 600

struct shot {
	uint32_t seq;
	char nonce[16];
	uint64_t seeds[RANKS][CHUNKS_MAX];
	size_t n[RANKS];
	char hashes[RANKS][GCK_HASH_TEXT];
	json_t *numbers[RANKS];
	struct gck_writer *w[RANKS];
	uint32_t base;  /* commit that it deduplicates against, 0: none */
	bool tainted;   /* that one was damaged meanwhile */
	bool bad;       /* damaged by us */
};

static char root[ROOT_MAX], url[URL_MAX];
static struct gck_store *s;
static struct shot run, zombie, commits[2]; /* commits[1] is the newest; seq 0: none */
static uint32_t next_seq = 1;
static size_t wrong, made, aborted, pruned, damaged;

static void wrong_at(const char *what, uint32_t seq, const struct gck_error *err)
{
	if (!wrong++)
		printf("# %s %u: %s\n", what, seq, err->text);
}

static void shot_end(struct shot *x)
{
	for (size_t r = 0; r < RANKS; r++) {
		gck_writer_close(x->w[r]);
		json_decref(x->numbers[r]);
	}
	memset(x, 0, sizeof *x);
}

static void begin(void)
{
	json_t *commit = NULL, *manifest = NULL;

	shot_end(&run);
	run.seq = next_seq++;
	snprintf(run.nonce, sizeof run.nonce, "n%llx", (unsigned long long)rnd() & 0xffffff);
	if (commits[1].seq && !commits[1].bad)
		run.base = commits[1].seq;
	if (run.base)
		commit = gck_store_read_commit(s, run.base, NULL, NULL, NULL);
	for (uint32_t r = 0; r < RANKS; r++) {
		manifest = commit ? gck_store_read_manifest(s, commit, r, NULL) : NULL;
		run.w[r] = open_writer(s, run.seq, run.nonce, rnd() % 3, manifest, NULL);
		run.numbers[r] = json_array();
		json_decref(manifest);
	}
	json_decref(commit);
}

static void put(void)
{
	uint32_t r = rnd() % RANKS;
	unsigned char data[SIZE];
	struct gck_error err;
	struct gck_chunk c;

	if (!run.w[r] || run.n[r] == CHUNKS_MAX)
		return;
	run.seeds[r][run.n[r]] = rnd() % 40;
	fill(data, SIZE / 2, run.seeds[r][run.n[r]]);
	memset(data + SIZE / 2, (int)run.seeds[r][run.n[r]], SIZE / 2);
	if (gck_writer_put(run.w[r], data, SIZE, &c, &err) < 0)
		wrong_at("put", run.seq, &err);
	json_array_append_new(run.numbers[r], json_integer(c.index));
	run.n[r]++;
	if (rnd() % 4 == 0 && gck_writer_shared(run.w[r], rnd() % 2, &err) < 0)
		wrong_at("shared", run.seq, &err);
}

static bool good(const struct shot *x, struct gck_error *err);

static void finish(void)
{
	json_t *commit;
	struct gck_error err;
	char hash[GCK_HASH_TEXT];

	if (!run.seq)
		return;
	for (uint32_t r = 0; r < RANKS; r++) {
		json_t *m = json_pack("{s:O}", "numbers", run.numbers[r]);

		if (gck_writer_manifest(run.w[r], r, m, run.hashes[r], &err) < 0)
			wrong_at("manifest", run.seq, &err);
		json_decref(m);
		gck_writer_close(run.w[r]);
		run.w[r] = NULL;
	}
	commit = commit_of(run.seq, run.nonce, run.hashes, RANKS);
	if (gck_store_commit(s, run.seq, commit, hash, &err) < 0)
		wrong_at("commit", run.seq, &err);
	json_decref(commit);
	run.bad = run.tainted && !good(&run, &err);
	/* A commit that is known to be bad leaves first: two good ones are kept. */
	shot_end(&commits[commits[1].bad ? 1 : 0]);
	if (!commits[1].seq) {
		commits[1] = run;
	} else {
		commits[0] = commits[1];
		commits[1] = run;
	}
	memset(&run, 0, sizeof run);
	made++;
}

/* Abort with a discard, or a crash that leaves everything; writers may still be at work. */
static void fail(void)
{
	struct gck_error err;

	if (!run.seq)
		return;
	if (rnd() % 2 && gck_store_discard(s, run.seq, run.nonce, &err) < 0)
		wrong_at("discard", run.seq, &err);
	shot_end(&zombie);
	zombie = run;
	memset(&run, 0, sizeof run);
	aborted++;
}

static void haunt(void)
{
	unsigned char data[SIZE];
	struct gck_chunk c;
	uint32_t r = rnd() % RANKS;

	if (!zombie.w[r])
		return;
	fill(data, SIZE, rnd() % 40);
	gck_writer_put(zombie.w[r], data, SIZE, &c, NULL);
	gck_writer_shared(zombie.w[r], rnd() % 2, NULL);
}

/* What is known to be damaged is not kept, unless a running checkpoint builds upon it; then prune
 * may find out that it cannot know what to remove. */
static void prune(void)
{
	uint32_t keep[2];
	size_t n = 0;
	struct gck_error err;

	for (size_t i = 0; i < 2; i++)
		if (commits[i].seq && (!commits[i].bad || commits[i].seq == run.base))
			keep[n++] = commits[i].seq;
	if (gck_store_prune(s, keep, n, run.seq ? run.seq : next_seq, &err) < 0 && !run.tainted)
		wrong_at("prune", next_seq, &err);
	pruned++;
}

static bool rank_good(struct gck_store *fresh, const struct shot *x, const json_t *commit,
		      uint32_t rank, struct gck_error *err)
{
	json_t *m = gck_store_read_manifest(fresh, commit, rank, err);
	const json_t *numbers = json_object_get(m, "numbers");
	struct gck_reader *r = m ? gck_reader_open(fresh, m, err) : NULL;
	unsigned char want[SIZE], got[SIZE];
	struct gck_chunk *v = NULL;
	size_t n;
	bool good = r && gck_chunks_load(m, &v, &n, err) == 0 &&
		    json_array_size(numbers) == x->n[rank];

	for (size_t i = 0; good && i < x->n[rank]; i++) {
		size_t k = (size_t)json_integer_value(json_array_get(numbers, i));

		fill(want, SIZE / 2, x->seeds[rank][i]);
		memset(want + SIZE / 2, (int)x->seeds[rank][i], SIZE / 2);
		good = k < n && gck_reader_get(r, &v[k], got, err) == 0 && !memcmp(want, got, SIZE);
	}
	free(v);
	gck_reader_close(r);
	json_decref(m);
	return good;
}

static bool good(const struct shot *x, struct gck_error *err)
{
	struct gck_store *fresh = gck_store_open(url, "c", 1, 0, false, err);
	json_t *commit = gck_store_read_commit(fresh, x->seq, NULL, NULL, err);
	bool all = commit != NULL;

	for (uint32_t r = 0; all && r < RANKS; r++)
		all = rank_good(fresh, x, commit, r, err);
	json_decref(commit);
	gck_store_close(fresh);
	return all;
}

static void check(void)
{
	struct gck_error err = { 0 };

	for (size_t i = 0; i < 2; i++)
		if (commits[i].seq && !commits[i].bad && !good(&commits[i], &err))
			wrong_at("commit lost", commits[i].seq, &err);
}

static void flip(const char *path)
{
	struct stat st;
	char byte;
	int fd = open(path, O_RDWR);

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size == 0)
		return;
	if (pread(fd, &byte, 1, 0) == 1 && (byte ^= 1, pwrite(fd, &byte, 1, 0)) == 1)
		damaged++;
	close(fd);
}

/* Damage a file of a commit's; commits that need it are bad from then on, the others are not. */
static void damage(void)
{
	struct shot *x = &commits[rnd() % 2];
	char path[600], name[300] = "";
	struct gck_error err;
	struct dirent *e;
	DIR *d;

	if (!x->seq || x->bad)
		return;
	snprintf(path, sizeof path, "%s/%u-%s", gck_store_path(s), x->seq, x->nonce);
	d = opendir(path);
	for (uint64_t k = rnd() % 5; d && (e = readdir(d)) && (k > 0 || !*name); k--)
		if (e->d_name[0] != '.')
			snprintf(name, sizeof name, "/%s", e->d_name);
	if (d)
		closedir(d);
	snprintf(path, sizeof path, "%s/%u-%s%s", gck_store_path(s), x->seq, x->nonce, name);
	if (rnd() % 4 == 0)
		snprintf(path, sizeof path, "%s/commit-%u.json", gck_store_path(s), x->seq);
	flip(path);
	for (size_t i = 0; i < 2; i++) {
		commits[i].bad = commits[i].seq && !good(&commits[i], &err);
		run.tainted |= commits[i].bad && commits[i].seq == run.base;
	}
}

static void step(void)
{
	uint64_t k = rnd() % 100;

	if (k < 60)
		put();
	else if (k < 72)
		run.seq ? finish() : begin();
	else if (k < 76)
		fail();
	else if (k < 80)
		haunt();
	else if (k < 98)
		prune();
	else
		damage();
}

int main(int argc, char **argv)
{
	int steps = argc > 1 ? atoi(argv[1]) : 4000;
	struct gck_error err = { 0 };

	if (argc > 2)
		seed_ = strtoull(argv[2], NULL, 0);
	make_root(root, url);
	s = gck_store_open(url, "c", 1, 0, true, &err);
	for (int i = 0; i < steps && !wrong; i++) {
		step();
		check();
	}
	is_int((long long)wrong, 0, "every commit that is kept gives back what was put");
	ok(made > 50 && aborted > 10 && pruned > 100 && damaged > 10,
	   "%zu commits, %zu aborts, %zu prunes, %zu damages", made, aborted, pruned, damaged);
	shot_end(&run);
	shot_end(&zombie);
	ok(gck_store_prune(s, NULL, 0, next_seq, &err) == 0, "all pruned %s", err.text);
	gck_store_remove_empty(s);
	ok(access(gck_store_path(s), F_OK) < 0, "nothing is left");
	shot_end(&commits[0]);
	shot_end(&commits[1]);
	gck_store_close(s);
	remove_tree(root);
	return tap_done();
}
