/* SPDX-License-Identifier: Apache-2.0
 * Random sequences of checkpoint, commit, abort, crash, prune, discard, check and damage against a
 * model that knows the content of every commit. Objects that a kept commit or a running writer
 * needs must never be removed, whatever runs meanwhile. Readers and removers, several at once, are
 * stopped between any two operations of the backend, so that their knowledge may be old. At the end
 * no file is left.
 *
 * test_model [STEPS [SEED]]; GPUCKPT_LONG=1: many seeds. */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>

#include "storage/image/image.h"
#include "storage/retention/retention.h"
#include "storage/stage/stage.h"
#include "storage/store/store.h"
#include "storage/test/shot.h"
#include "storage/test/stepwise.h"
#include "storage/test/util.h"
#include "test/support/tap.h"

#define LATE 3 /* prunes, discards and checks under way at most */
#define LONG_SEEDS 400
#define LONG_STEPS 250

/* The arguments when the work began. */
struct late {
	enum { PRUNE, DISCARD, CHECK, STAGE_KEEP, STAGE_DISCARD } kind;
	struct stepwise *w; /* NULL: none */
	uint32_t keep[2], busy;
	size_t nkeep;
	char nonce[16];
	bool excused; /* something that it needs was damaged or given up meanwhile */
};

static char root[ROOT_MAX], url[URL_MAX], disk[ROOT_MAX], stage_url[URL_MAX + 32];
static struct gck_store *s;
static struct shot run, zombie, commits[2]; /* commits[1] is the newest; seq 0: none */
static struct late late[LATE];
static uint32_t next_seq = 1;
static size_t made, aborted, pruned, damaged, checked, overtaken, expired;

/* ---- work that is under way ----------------------------------------------------------------- */

static int work(struct gck_store *own, void *arg, struct gck_error *err)
{
	const struct late *l = arg;

	switch (l->kind) {
	case PRUNE:
		return gck_store_prune(own, l->keep, l->nkeep, l->busy, err);
	case DISCARD:
	case STAGE_DISCARD:
		return gck_store_discard(own, l->busy, l->nonce, err);
	case STAGE_KEEP:
		return gck_stage_prune(own, l->busy, err);
	default:
		return gck_store_check(own, l->keep[0], NULL, NULL, err);
	}
}

/* A commit that was damaged or is no longer kept is not checked any more. (Prune and discard keep
 * all commits that were made after they began.) */
static void excuse(uint32_t seq)
{
	for (size_t i = 0; i < LATE; i++) {
		struct late *l = &late[i];

		l->excused |= l->kind != CHECK && seq >= l->busy;
		for (size_t k = 0; k < l->nkeep; k++)
			l->excused |= l->keep[k] == seq;
	}
}

static void late_end(struct late *l)
{
	static const char *const names[] = { "prune", "discard", "check", "stage keep",
					     "stage discard" };
	struct gck_error err;

	if (stepwise_end(l->w, &err) < 0 && !l->excused)
		shot_wrong_at(names[l->kind], l->busy, &err);
	memset(l, 0, sizeof *l);
}

static void late_begin(const struct late *l)
{
	struct late *x = &late[rnd() % LATE];

	if (x->w)
		late_end(x);
	*x = *l;
	x->w = stepwise_begin(l->kind < STAGE_KEEP ? url : stage_url, work, x);
	if (rnd() % 2)
		late_end(x);
}

static void late_go(void)
{
	struct late *x = &late[rnd() % LATE];

	if (x->w && !stepwise_go(x->w))
		late_end(x);
}

/* The older of two commits expires: it is not used from then on. */
static void expire(void)
{
	if (!commits[1].seq || commits[1].bad || commits[0].seq == run.base)
		return;
	excuse(commits[0].seq);
	shot_end(&commits[0]);
	expired++;
}

/* A damaged commit is not kept, unless a running checkpoint reuses its chunks; then prune may fail,
 * since it cannot know what to remove. */
static void prune(void)
{
	struct late l = { .kind = PRUNE, .busy = run.seq ? run.seq : next_seq };

	if (commits[0].seq && rnd() % 4 == 0)
		expire();
	for (size_t i = 0; i < 2; i++) {
		if (!commits[i].seq || (commits[i].bad && commits[i].seq != run.base))
			continue;
		l.keep[l.nkeep++] = commits[i].seq;
		l.excused |= commits[i].bad;
	}
	late_begin(&l);
	pruned++;
}

static void look(void)
{
	const struct shot *x = &commits[rnd() % 2];
	struct late l = { .kind = CHECK, .keep = { x->seq }, .nkeep = 1, .excused = x->bad };

	if (!x->seq)
		return;
	late_begin(&l);
	checked++;
}

/* Staged objects have names that are not used elsewhere, so damage to them harms no commit. */
static void keep_staged(void)
{
	struct late l = { .kind = STAGE_KEEP, .busy = commits[1].seq, .excused = true };

	if (l.busy)
		late_begin(&l);
}

/* ---- checkpoints ---------------------------------------------------------------------------- */

static void begin(void)
{
	uint32_t base = commits[1].seq && !commits[1].bad ? commits[1].seq : 0;

	for (size_t i = 0; i < LATE; i++)
		overtaken += late[i].w && late[i].kind == PRUNE;
	shot_end(&run);
	shot_begin(&run, s, next_seq++, base);
}

/* Discard a commit, as by a caller who believes that it was aborted. */
static void discard_committed(const struct shot *x)
{
	struct late l = { .kind = DISCARD, .busy = x->seq, .excused = true };

	memcpy(l.nonce, x->nonce, sizeof l.nonce);
	late_begin(&l);
}

static void finish(void)
{
	struct gck_error err;

	shot_commit(&run, s);
	if (rnd() % 8 == 0)
		discard_committed(&run);
	run.bad = run.tainted && !shot_good(&run, &err);
	/* A bad commit is dropped first: two good ones are kept. */
	excuse(commits[commits[1].bad ? 1 : 0].seq);
	shot_end(&commits[commits[1].bad ? 1 : 0]);
	if (commits[1].seq)
		commits[0] = commits[1];
	commits[1] = run;
	memset(&run, 0, sizeof run);
	made++;
}

/* Abort with a discard, or by a crash that leaves all files; writers may still run. */
static void fail(void)
{
	struct late l = { .kind = DISCARD, .busy = run.seq };

	if (!run.seq)
		return;
	memcpy(l.nonce, run.nonce, sizeof l.nonce);
	if (rnd() % 2)
		late_begin(&l);
	l.kind = STAGE_DISCARD;
	if (rnd() % 2)
		late_begin(&l);
	shot_end(&zombie);
	zombie = run;
	memset(&run, 0, sizeof run);
	aborted++;
}

static void check(void)
{
	struct gck_error err = { 0 };

	for (size_t i = 0; i < 2; i++)
		if (commits[i].seq && !commits[i].bad && !shot_good(&commits[i], &err))
			shot_wrong_at("commit lost", commits[i].seq, &err);
		else if (commits[i].seq && !commits[i].bad && !shot_good_staged(&commits[i], &err))
			shot_wrong_at("commit not read, with a stage", commits[i].seq, &err);
}

/* ---- damage --------------------------------------------------------------------------------- */

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

/* A file of a commit in the store or the stage. */
static void pick(char path[600], const char *where, const struct shot *x)
{
	char name[300] = "";
	struct dirent *e;
	DIR *d;

	snprintf(path, 600, "%s/%u-%s", where, x->seq, x->nonce);
	d = opendir(path);
	for (uint64_t k = rnd() % 5; d && (e = readdir(d)) && (k > 0 || !*name); k--)
		if (e->d_name[0] != '.')
			snprintf(name, sizeof name, "/%s", e->d_name);
	if (d)
		closedir(d);
	snprintf(path, 600, "%s/%u-%s%s", where, x->seq, x->nonce, name);
}

/* Damage in the stage makes no commit bad. */
static void damage_staged(void)
{
	const struct shot *x = &commits[rnd() % 2];
	char path[600], where[300];

	if (!x->seq)
		return;
	snprintf(where, sizeof where, "%s/c/1/0", stage_url + strlen("file:"));
	pick(path, where, x);
	if (rnd() % 2)
		flip(path);
	else
		unlink(path);
}

/* Damage a file of a commit; only commits that need it are bad from then on. */
static void damage(void)
{
	struct shot *x = &commits[rnd() % 2];
	struct gck_error err;
	char path[600];

	if (!x->seq || x->bad)
		return;
	pick(path, s->b->where, x);
	if (rnd() % 4 == 0)
		snprintf(path, sizeof path, "%s/commit-%u.json", s->b->where, x->seq);
	flip(path);
	for (size_t i = 0; i < 2; i++) {
		commits[i].bad = commits[i].seq && !shot_good(&commits[i], &err);
		run.tainted |= commits[i].bad && commits[i].seq == run.base;
		if (commits[i].bad)
			excuse(commits[i].seq);
	}
}

/* ---- schedules ------------------------------------------------------------------------------ */

static void step(void)
{
	uint64_t k = rnd() % 100;

	if (k < 45)
		shot_put(&run);
	else if (k < 55)
		run.seq ? finish() : begin();
	else if (k < 58)
		fail();
	else if (k < 62)
		shot_haunt(&zombie);
	else if (k < 70)
		prune();
	else if (k < 72)
		look();
	else if (k < 76)
		keep_staged();
	else if (k < 98)
		late_go();
	else if (k < 99)
		damage_staged();
	else
		damage();
}

static void nothing_left(const char *path)
{
	struct gck_error err;

	if (access(path, F_OK) < 0)
		return;
	gck_fail(&err, ENOTEMPTY, "%s is still there", path);
	shot_wrong_at("a file is left", next_seq, &err);
}

/* A last prune, and a last clearing of the stage, remove all files that may be left at the end. */
static void end(uint64_t seed)
{
	struct gck_error err = { 0 };
	struct gck_store *stage;

	for (size_t i = 0; i < LATE; i++)
		if (late[i].w)
			late_end(&late[i]);
	shot_end(&run);
	shot_end(&zombie);
	shot_end(&commits[0]);
	shot_end(&commits[1]);
	if (gck_store_prune(s, NULL, 0, next_seq, &err) < 0)
		shot_wrong_at("the last prune", next_seq, &err);
	gck_store_remove_empty(s);
	nothing_left(s->b->where);
	gck_store_close(s);
	stage = gck_stage_open(disk, "c", 1, 0, true, &err);
	if (gck_stage_prune(stage, next_seq, &err) < 0)
		shot_wrong_at("the last keep", next_seq, &err);
	gck_store_remove_empty(stage);
	nothing_left(stage->b->where);
	gck_store_close(stage);
	if (shot_wrong)
		printf("# of seed %llu\n", (unsigned long long)seed);
}

static void schedule(int steps, uint64_t seed)
{
	struct gck_error err = { 0 };

	seed_ = seed;
	shot_seed(seed + 1);
	next_seq = 1;
	s = gck_store_open(url, "c", 1, 0, true, &err);
	gck_store_close(gck_stage_open(disk, "c", 1, 0, true, &err));
	if (!s)
		shot_wrong_at("open", 0, &err);
	for (int i = 0; i < steps && !shot_wrong; i++) {
		step();
		check();
	}
	if (s)
		end(seed);
}

int main(int argc, char **argv)
{
	bool many = tap_is_long() && argc == 1;
	int steps = argc > 1 ? atoi(argv[1]) : many ? LONG_STEPS : 6000;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : seed_;

	make_root(root, url);
	make_root(disk, stage_url);
	snprintf(stage_url, sizeof stage_url, "file:%s/gpuckpt-%u", disk, (unsigned)geteuid());
	shot_stage(url, disk);
	for (int i = 0; i < (many ? LONG_SEEDS : 1) && !shot_wrong; i++)
		schedule(steps, seed + (uint64_t)i * 0x9e3779b97f4a7c15u);
	is_int((long long)shot_wrong, 0,
	       "every kept commit has the bytes that were put, and no file is left at the end");
	ok(steps < 4000 * !many || (made > 50 && aborted > 10 && pruned > 100 && damaged > 10 &&
				    checked > 10 && overtaken > 50 && expired > 20),
	   "%zu commits, %zu aborts, %zu prunes, %zu begun while one was under way, %zu checks, "
	   "%zu damages, %zu expired",
	   made, aborted, pruned, overtaken, checked, damaged, expired);
	remove_tree(root);
	remove_tree(disk);
	return tap_done();
}
