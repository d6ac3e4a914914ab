/* SPDX-License-Identifier: Apache-2.0
 * Takes a CUDA program through checkpoints and restarts. First it runs alone. Then it runs as a
 * rank that has itself checkpointed by the driver, is captured, killed, and restored in a new
 * process, where it restores its CUDA state itself. Under the stand-in, before each of these, it is
 * captured once and continues. Its last line must be the same. `gpu_lineage stand-in|self RESTARTS
 * PROGRAM [ARGUMENT...]`: by the stand-in's CUDA thread, or by the thread of self.c.
 *
 * At the end it prints medians as figures: how long a checkpoint stopped a program that went on,
 * how long it took from the start of a new process until its CUDA state was back, and the size of
 * the last image, which has the device's data. GPUCKPT_TEST_FIGURE: what their names begin with.
 * With GPUCKPT_TEST_KEEP a program that goes on leaves copies on the device, as that of a job does.
 *
 * GPUCKPT_TEST_PRELOAD names the libraries to preload. With GPUCKPT_TEST_MOVES=FIRST the program
 * sees one of two GPUs, at first that one, and the other one after each restart. GPUCKPT_SEED: the
 * seed of the random times in between. */
#include "config.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test/support/cuda_link.h"
#include "test/support/lineage.h"
#include "test/support/tap.h"

#define LONGEST_MS 30000
#define MOST_FIGURES 64

static char directory[] = "/tmp/gpuckpt-self-XXXXXX";

static void path_of(const char *name, char path[64])
{
	snprintf(path, 64, "%s/%s", directory, name);
}

static void say(const char *name)
{
	char path[64];

	path_of(name, path);
	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

static void unsay(const char *name)
{
	char path[64];

	path_of(name, path);
	unlink(path);
}

/* Waits for the file and removes it; false if the rank ends or too much time passes. */
static bool heard(const char *name, pid_t rank)
{
	char path[64];

	path_of(name, path);
	for (int ms = 0; ms < LONGEST_MS; ms += 2) {
		siginfo_t ended = {0};

		if (!unlink(path))
			return true;
		if (!waitid(P_PID, (id_t)rank, &ended, WEXITED | WNOHANG | WNOWAIT) &&
		    ended.si_pid)
			break;
		pause_ms(2);
	}
	printf("# the rank did not make \"%s\"\n", name);
	return false;
}

/* ---- figures --------------------------------------------------------------------------------- */

/* Milliseconds. */
struct times {
	double ms[MOST_FIGURES];
	size_t n;
};
static struct times stops, restarts_took;

static void note(struct times *t, double s)
{
	if (t->n < MOST_FIGURES)
		t->ms[t->n++] = s * 1e3;
}

static int by_size(const void *a, const void *b)
{
	return *(const double *)a < *(const double *)b ? -1
						       : *(const double *)a > *(const double *)b;
}

static void figure(const char *name, double value, const char *unit)
{
	const char *first = getenv("GPUCKPT_TEST_FIGURE");

	printf("%s%s%s %.1f %s\n", first ? first : "", first ? "_" : "", name, value, unit);
}

static void median(const char *name, struct times *t)
{
	qsort(t->ms, t->n, sizeof *t->ms, by_size);
	if (t->n)
		figure(name, (t->ms[(t->n - 1) / 2] + t->ms[t->n / 2]) / 2, "ms");
}

/* ---- by self.c's thread ---------------------------------------------------------------------- */

static bool self_begins(struct lineage *l)
{
	(void)l;
	return true;
}

static bool self_drains(struct lineage *l)
{
	say("go");
	return heard("ready", l->pid);
}

static bool self_resumes(struct lineage *l)
{
	say("resume");
	return heard("done", l->pid);
}

/* ---- by the stand-in's thread ---------------------------------------------------------------- */

static struct cuda_link cuda = {.fd = -1};
static double drained_in; /* seconds that the last DRAIN took */

static bool stand_in_begins(struct lineage *l)
{
	return cuda_link_join(&cuda, &l->agent, false);
}

static bool stand_in_drains(struct lineage *l)
{
	double start = seconds(), prepared;
	bool drained = cuda_link_prepare(&cuda, l->seq + 1);

	prepared = seconds();
	drained = drained && cuda_link_drain(&cuda, l->seq + 1);
	drained_in = seconds() - prepared;
	printf("# prepared and drained in %.0f ms\n", (seconds() - start) * 1e3);
	say("drained"); /* ending.cu begins to end */
	pause_ms(rand() % 20);
	return drained;
}

static bool stand_in_resumes(struct lineage *l)
{
	return cuda_link_join(&cuda, &l->agent, true) &&
	       cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED);
}

static bool stand_in_goes_on(struct lineage *l)
{
	unsay("drained");
	return cuda_link_resume(&cuda, l->seq);
}

/* resumes: in a new process; goes_on: in the same process, NULL: not tested. */
static const struct way {
	const char *name;
	bool (*begins)(struct lineage *), (*drains)(struct lineage *), (*resumes)(struct lineage *);
	bool (*goes_on)(struct lineage *);
} ways[] = {
	{"self", self_begins, self_drains, self_resumes, NULL},
	{"stand-in", stand_in_begins, stand_in_drains, stand_in_resumes, stand_in_goes_on},
};

/* ---- the lineage ----------------------------------------------------------------------------- */

static void show(int restarts)
{
	const char *first = getenv("GPUCKPT_TEST_MOVES");

	if (first)
		setenv("CUDA_VISIBLE_DEVICES", (atoi(first) + restarts) % 2 ? "1" : "0", 1);
}

static bool go_on_once(struct lineage *l, const struct way *way)
{
	double start;

	if (!way->goes_on)
		return true;
	cuda.keep = getenv("GPUCKPT_TEST_KEEP") != NULL;
	if (!way->drains(l) || lineage_checkpoint(l))
		return false;
	cuda.keep = 0;
	start = seconds();
	if (!way->goes_on(l))
		return false;
	note(&stops, drained_in + l->held + seconds() - start);
	pause_ms(rand() % 200);
	return true;
}

static bool restart_once(struct lineage *l, const struct way *way, int i)
{
	double start;

	if (!go_on_once(l, way) || !way->drains(l) || lineage_checkpoint(l))
		return false;
	lineage_kill(l);
	show(i + 1);
	if (lineage_restore(l, l->seq))
		return false;
	printf("# %d: held %.1f ms, image of %.0f MiB written in %.2f s, process built in %.2f s\n",
	       i, l->held * 1e3, (double)l->bytes / 1048576, l->wrote, l->restored);
	start = seconds();
	if (!way->resumes(l))
		return false;
	printf("# CUDA back in %.0f ms\n", (seconds() - start) * 1e3);
	note(&restarts_took, l->restored + seconds() - start);
	return true;
}

static void test_lineage(struct lineage *l, const struct way *way, int restarts)
{
	char alone[300];
	int done = 0;

	show(0);
	is_int(lineage_alone(l), 0, "the program runs alone");
	snprintf(alone, sizeof alone, "%s", lineage_output(l));
	setenv("GPUCKPT_SELF", directory, 1);
	ok(all_of(!lineage_start(l), heard("started", l->pid), way->begins(l)),
	   "it runs as a rank");
	while (l->pid && done < restarts && restart_once(l, way, done)) {
		done++;
		pause_ms(rand() % 200);
	}
	is_int(done, restarts, "all kills and restores in new processes succeed");
	is_int(l->pid ? lineage_wait(l) : -1, 0, "it ends well");
	is_str(lineage_output(l), alone, "with the same result");
	median("stop_median", &stops);
	median("restart_median", &restarts_took);
	if (l->bytes)
		figure("image_size", (double)l->bytes / 1048576, "MiB");
}

int main(int argc, char **argv)
{
	const struct way *way = argc > 1 && !strcmp(argv[1], ways[1].name) ? &ways[1] : &ways[0];
	struct lineage l;
	unsigned seed;

	if (argc < 4 || !getenv("GPUCKPT_TEST_PRELOAD") || !mkdtemp(directory))
		return 2;
	seed = getenv("GPUCKPT_SEED") ? (unsigned)atoi(getenv("GPUCKPT_SEED"))
				      : (unsigned)time(NULL);
	printf("# seed %u\n", seed);
	srand(seed);
	unsetenv("GPUCKPT_SELF");
	if (ok(!lineage_begin(&l, "/dev/shm", argv + 3), "a store")) {
		test_lineage(&l, way, atoi(argv[2]));
		lineage_end(&l);
	}
	for (const char *const *left = (const char *const[]){"go", "ready", "resume", "done",
							     "drained", "started", NULL};
	     *left; left++)
		unsay(*left);
	rmdir(directory);
	return tap_done();
}
