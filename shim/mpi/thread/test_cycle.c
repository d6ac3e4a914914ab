/* SPDX-License-Identifier: Apache-2.0
 * For tests: checkpoint and restart in place, without agent and coordinator. GPUCKPT_MPI_TEST
 * names a folder that all ranks of a job share; their words go through files there. With
 * GPUCKPT_MPI_TEST_MS a cycle runs periodically. With GPUCKPT_MPI_TEST_KEEP the real library is
 * kept instead of reloaded. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shim/mpi/quiesce/quiesce.h"
#include "shim/mpi/real.h"
#include "shim/mpi/thread/thread.h"
#include "shim/namespace/namespace.h"

#define LIMIT_NS 60000000000ll
#define PAUSE_NS 100000

struct files {
	struct gck_mpi_allgather x; /* first */
	struct gck_mpi_thread_state *k;
	const char *folder;
	unsigned long serial;      /* counts the job's exchanges */
	void *text;                /* all[] points into it */
};

/* A cycle that the program requests. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned long requested, done;
	int failed;
} request = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

const char *gck_mpi_test_folder(void)
{
	return getenv("GPUCKPT_MPI_TEST");
}

/* ---- words through files -------------------------------------------------------------------- */

static void name_of(const struct files *f, unsigned long serial, size_t rank, const char *suffix,
		    char path[512])
{
	snprintf(path, 512, "%s/%lu.%zu%s", f->folder, serial, rank, suffix);
}

static int write_words(const struct files *f, const struct gck_mpi_blob *mine)
{
	char new[512], name[512];
	unsigned long head[2] = {f->x.rank, mine->n};
	size_t size = mine->n * sizeof *mine->v;
	int fd, rc;

	name_of(f, f->serial, f->x.rank, ".new", new);
	name_of(f, f->serial, f->x.rank, "", name);
	fd = open(new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	rc = write(fd, head, sizeof head) == sizeof head &&
	     write(fd, mine->v, size) == (ssize_t)size ? 0 : -1;
	close(fd);
	return rc ? rc : rename(new, name);
}

static int give(struct gck_mpi_allgather *x, uint32_t round, const struct gck_mpi_blob *mine,
		struct gck_error *err)
{
	struct files *f = (struct files *)x;
	char old[512];

	(void)round;
	f->serial++;
	if (write_words(f, mine))
		return gck_fail(err, errno, "%s: %s", f->folder, strerror(errno));
	if (f->serial > 2) { /* all ranks read those words before they gave their last */
		name_of(f, f->serial - 2, x->rank, "", old);
		unlink(old);
	}
	return 0;
}

static long size_of(const struct files *f, size_t rank)
{
	char name[512];
	struct stat st;

	name_of(f, f->serial, rank, "", name);
	return stat(name, &st) ? -1 : (long)st.st_size;
}

/* A rank that has left MPI no longer takes part, so no rank can. */
static bool any_left(const struct files *f)
{
	char name[512];

	snprintf(name, sizeof name, "%s/left", f->folder);
	return access(name, F_OK) == 0;
}

static int read_words(const struct files *f, size_t rank, char *to, long size)
{
	char name[512];
	int fd;
	ssize_t n;

	name_of(f, f->serial, rank, "", name);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, to, (size_t)size);
	if (fd >= 0)
		close(fd);
	return n == size ? 0 : -1;
}

static int read_all(struct files *f, size_t total, struct gck_mpi_words *all, struct gck_error *err)
{
	size_t at = 0;

	free(f->text);
	f->text = malloc(total);
	if (!f->text)
		return gck_fail(err, ENOMEM, "no memory for the ranks' words");
	for (size_t r = 0; r < f->x.nranks; r++) {
		long size = size_of(f, r);

		if (size < 0 || read_words(f, r, (char *)f->text + at, size))
			return gck_fail(err, EIO, "%s: rank %zu's words: %s", f->folder, r,
					strerror(errno));
		at += (size_t)size;
	}
	return gck_mpi_allgather_split(f->text, total, f->x.nranks, all, err);
}

static int take(struct gck_mpi_allgather *x, int ms, struct gck_mpi_words *all,
		struct gck_error *err)
{
	struct files *f = (struct files *)x;
	int64_t end = gck_mpi_now_ns() + ms * 1000000ll;
	size_t total = 0;

	for (size_t r = 0; r < x->nranks;) {
		long size = size_of(f, r);

		if (size >= 0) {
			total += (size_t)size;
			r++;
			continue;
		}
		if (any_left(f) || gck_mpi_thread_stopping(f->k))
			return gck_fail(err, ECANCELED, "a rank has left MPI");
		if (gck_mpi_now_ns() >= end)
			return 0;
		nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
	}
	return read_all(f, total, all, err) ? -1 : 1;
}

/* ---- a cycle -------------------------------------------------------------------------------- */

/* Waits for all ranks: a barrier through the files. */
static int barrier(struct files *f, struct gck_error *err)
{
	struct gck_mpi_words *all = calloc(f->x.nranks, sizeof *all);
	struct gck_mpi_blob none = {0};
	int64_t end = gck_mpi_now_ns() + LIMIT_NS;
	int rc;

	if (!all)
		return gck_fail(err, ENOMEM, "no memory for the ranks' words");
	rc = give(&f->x, 0, &none, err);
	while (rc == 0 && gck_mpi_now_ns() < end)
		rc = take(&f->x, 1000, all, err);
	free(all);
	if (rc == 0)
		return gck_fail(err, ETIMEDOUT, "a rank did not leave MPI_Finalize");
	return rc < 0 ? -1 : 0;
}

/* The launcher would take a rank that vanishes for a dead one, so the old copy is finalized first;
 * then it loses what it owns, as in a restart. mpirun needs PMIX_MCA_gds=hash for a second start,
 * and confuses a rank's new start with another's finalize, so all ranks meet in between. */
static int restart_in_place(struct files *f, struct gck_error *err)
{
	int rc = gck_mpi_real.Finalize();

	if (rc)
		return gck_fail(err, EIO, "the real MPI_Finalize failed with code %d", rc);
	if (gck_namespace_kill(err) || barrier(f, err))
		return -1;
	return gck_mpi_rebuild(true, err);
}

static void mark_left(const struct files *f)
{
	char name[512];
	int fd;

	snprintf(name, sizeof name, "%s/left", f->folder);
	fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0)
		close(fd);
}

static int cycle(struct files *f)
{
	struct gck_error err = {0};
	int rc = gck_mpi_quiesce(&f->x, gck_mpi_now_ns() + LIMIT_NS, &err);

	if (rc == 0 && !getenv("GPUCKPT_MPI_TEST_KEEP")) {
		rc = restart_in_place(f, &err);
		if (rc) { /* the program's handles have no real ones any more */
			fprintf(stderr, "gpuckpt: rank %zu: test: restart: %s\n", f->x.rank,
				err.text);
			_exit(70);
		}
	}
	if (rc && err.code != ECANCELED && err.code != EAGAIN)
		fprintf(stderr, "gpuckpt: rank %zu: test: %s\n", f->x.rank, err.text);
	else if (rc)
		mark_left(f); /* so that the other ranks do not wait for this one */
	if (rc)
		gck_mpi_peer_progress_begin(f->k);
	gck_mpi_resume();
	return rc;
}

static int is_ending(void *thread, struct gck_error *err)
{
	return gck_mpi_thread_stopping(thread) ?
		       gck_fail(err, ECANCELED, "the program is exiting") : 0;
}

/* Before MPI_Init and after MPI_Finalize no other rank is involved. */
static int cycle_uninitialized(struct gck_mpi_thread_state *k)
{
	struct gck_error err = {0};
	int rc = gck_mpi_quiesce_uninitialized(k, gck_mpi_now_ns() + LIMIT_NS, is_ending, k, &err);

	if (rc > 0)
		return -1;
	if (rc == 0 && (gck_namespace_kill(&err) || gck_mpi_rebuild(false, &err))) {
		fprintf(stderr, "gpuckpt: test: restart outside of MPI: %s\n", err.text);
		_exit(70);
	}
	if (rc)
		fprintf(stderr, "gpuckpt: test: outside of MPI: %s\n", err.text);
	gck_mpi_resume();
	return rc;
}

static void finish_request(int failed)
{
	pthread_mutex_lock(&request.lock);
	request.done = request.requested;
	request.failed = failed;
	pthread_cond_broadcast(&request.changed);
	pthread_mutex_unlock(&request.lock);
}

static bool is_requested(void)
{
	bool requested;

	pthread_mutex_lock(&request.lock);
	requested = request.requested != request.done;
	pthread_mutex_unlock(&request.lock);
	return requested;
}

static void end_job(struct files *f)
{
	char name[512];

	if (!f->x.nranks)
		return;
	mark_left(f);
	name_of(f, f->serial, f->x.rank, "", name);
	if (f->x.nranks == 1)
		unlink(name);
	free(f->text);
	f->text = NULL;
	f->x.nranks = 0;
}

static void serve_initialized(struct files *f, bool period)
{
	if (!f->x.nranks)
		f->x = (struct gck_mpi_allgather){.nranks = (size_t)f->k->size,
						 .rank = (size_t)f->k->rank, .give = give,
						 .take = take};
	if (!any_left(f) && (period || is_requested()))
		finish_request(cycle(f));
	else if (is_requested())
		finish_request(-1);
}

void gck_mpi_test_serve(struct gck_mpi_thread_state *k)
{
	const char *ms = getenv("GPUCKPT_MPI_TEST_MS");
	struct files f = {.k = k, .folder = gck_mpi_test_folder()};
	int period = ms ? atoi(ms) : 0;

	while (!gck_mpi_thread_stopping(k)) {
		gck_mpi_peer_progress_for(k, period ? period : 1);
		if (gck_mpi_thread_stage(k, 1000) == GCK_MPI_INITIALIZED) {
			if (!gck_mpi_thread_stopping(k))
				serve_initialized(&f, period);
			continue;
		}
		end_job(&f);
		if (is_requested())
			finish_request(cycle_uninitialized(k));
	}
	end_job(&f);
	finish_request(-1);
}

__attribute__((visibility("default"))) int gck_mpi_test_cycle(void)
{
	unsigned long mine;
	int failed;

	if (!gck_mpi_test_folder())
		return -1;
	pthread_mutex_lock(&request.lock);
	mine = request.requested = request.done + 1;
	while (request.done < mine)
		pthread_cond_wait(&request.changed, &request.lock);
	failed = request.failed;
	pthread_mutex_unlock(&request.lock);
	return failed;
}
