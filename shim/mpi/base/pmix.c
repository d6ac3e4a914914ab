/* SPDX-License-Identifier: Apache-2.0
 * Words exchanged by PMIx's collecting fence. The key is one and the same each time, so that the
 * servers keep no more than one round's words; a serial number in the value tells a server that
 * answers with an older one: libpmix 4.2's shared memory store does when a value has the very size of
 * the first one of its key, after others that had not. So no later value has that size. */
#include "config.h"

#include "shim/mpi/base/pmix.h"

#ifdef HAVE_PMIX

#include <pmix.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "shim/mpi/base/allgather.h"
#include "shim/namespace/namespace.h"

#define KEY "gpuckpt.words"
#define PAUSE_NS 100000
#define JOIN_MS 10000
#define HEAD_WORDS 2 /* serial, number of words; then they, and maybe one more to fill up */

/* Real functions of the copy's libpmix. */
static struct {
	__typeof__(&PMIx_Initialized) initialized;
	__typeof__(&PMIx_Init) init;
	__typeof__(&PMIx_Finalize) finalize;
	__typeof__(&PMIx_Put) put;
	__typeof__(&PMIx_Commit) commit;
	__typeof__(&PMIx_Fence_nb) fence;
	__typeof__(&PMIx_Get) get;
} real;

/* The MPI thread's calls of libpmix are made under it, so that MPI_Finalize knows that none is under
 * way, or begins. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
	bool bound, given_up;
	bool begun;       /* PMIx_Init has counted us */
	bool left;        /* MPI_Finalize has */
	pmix_proc_t self;
	uint64_t serial;
	uint64_t entered; /* the fence that was begun last; 0: none */
	size_t first;     /* words of the first value of the step; 0: none yet */
	const struct gck_mpi_blob *mine;
	void **values;  /* what all[] of the last fence points into */
	size_t nvalues;
} pmix;

/* The fence that was over last. libpmix's thread writes it, which does not know our libc. */
static _Atomic uint64_t ended;
static _Atomic int status;

static bool bind(void)
{
	const struct {
		const char *name;
		void **at;
	} all[] = {
		{"PMIx_Initialized", (void **)&real.initialized},
		{"PMIx_Init", (void **)&real.init},
		{"PMIx_Finalize", (void **)&real.finalize},
		{"PMIx_Put", (void **)&real.put},
		{"PMIx_Commit", (void **)&real.commit},
		{"PMIx_Fence_nb", (void **)&real.fence},
		{"PMIx_Get", (void **)&real.get},
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		*all[i].at = gck_mpi_ns_symbol(all[i].name);
		if (!*all[i].at)
			return false;
	}
	return true;
}

/* GPUCKPT_MPI_EXCHANGE=coordinator does without, where a site's PMIx is not to be trusted. Nor is one
 * that keeps its data out of shared memory (PMIX_MCA_gds=hash): it goes on answering with what it was
 * told of a rank first. */
static bool is_wanted(void)
{
	const char *way = getenv("GPUCKPT_MPI_EXCHANGE"), *store = getenv("PMIX_GDS_MODULE");

	return !(way && !strcmp(way, "coordinator")) && !(store && !strncmp(store, "hash", 4));
}

void gck_mpi_pmix_bind(void)
{
	pmix.bound = is_wanted() && bind() && real.initialized();
}

bool gck_mpi_pmix_usable(void)
{
	return pmix.bound && !pmix.given_up;
}

static int fail(const char *what, int rc, struct gck_error *err)
{
	return gck_fail(err, EIO, "%s failed with %d: the next checkpoint goes through the "
			"coordinator", what, rc);
}

static int put(uint64_t serial, const struct gck_mpi_blob *mine, struct gck_error *err)
{
	size_t n = HEAD_WORDS + mine->n + (HEAD_WORDS + mine->n == pmix.first);
	unsigned long *v = calloc(n, sizeof *v);
	pmix_value_t value = {.type = PMIX_BYTE_OBJECT,
			      .data.bo = {.bytes = (char *)v, .size = n * sizeof *v}};
	int rc;

	if (!v)
		return gck_fail(err, ENOMEM, "no memory for PMIx");
	if (!pmix.first)
		pmix.first = n;
	v[0] = serial;
	v[1] = mine->n;
	memcpy(v + HEAD_WORDS, mine->v, mine->n * sizeof *v);
	rc = real.put(PMIX_GLOBAL, KEY, &value);
	free(v);
	if (rc == PMIX_SUCCESS)
		rc = real.commit();
	return rc == PMIX_SUCCESS ? 0 : fail("PMIx_Put", rc, err);
}

static void on_fence(pmix_status_t rc, void *serial)
{
	status = rc;
	ended = (uintptr_t)serial;
}

/* All ranks of the job: Slurm's PMIx cannot do with fewer. So it is one with MPI_Finalize's own. */
static int enter_fence(uint64_t serial)
{
	pmix_info_t collect = {.key = PMIX_COLLECT_DATA,
			       .value = {.type = PMIX_BOOL, .data.flag = true}};
	int rc;

	pmix.entered = serial;
	rc = real.fence(NULL, 0, &collect, 1, on_fence, (void *)(uintptr_t)serial);
	if (rc != PMIX_SUCCESS)
		pmix.entered = 0;
	return rc;
}

static bool is_over(uint64_t serial, int ms)
{
	int64_t end = gck_mpi_now_ns() + ms * 1000000ll;

	while (ended != serial) {
		if (gck_mpi_now_ns() >= end)
			return false;
		nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
	}
	return true;
}

/* The lock is held. */
static int check_left(struct gck_error *err)
{
	return pmix.left ? gck_fail(err, ECANCELED, "the program is in MPI_Finalize") : 0;
}

static int begin(uint64_t serial, const struct gck_mpi_blob *mine, struct gck_error *err)
{
	int rc;

	if (check_left(err))
		return -1;
	rc = real.init(&pmix.self, NULL, 0);
	if (rc != PMIX_SUCCESS)
		return fail("PMIx_Init", rc, err);
	pmix.begun = true;
	pmix.serial = serial;
	pmix.mine = mine;
	if (put(serial, mine, err))
		return -1;
	rc = enter_fence(serial);
	return rc == PMIX_SUCCESS ? 0 : fail("PMIx_Fence", rc, err);
}

int gck_mpi_pmix_begin(uint64_t serial, const struct gck_mpi_blob *mine, struct gck_error *err)
{
	int rc;

	pthread_mutex_lock(&lock);
	rc = begin(serial, mine, err);
	pthread_mutex_unlock(&lock);
	return rc;
}

/* ---- what the others put -------------------------------------------------------------------- */

static void drop_values(void)
{
	for (size_t i = 0; i < pmix.nvalues; i++)
		free(pmix.values[i]);
	free(pmix.values);
	pmix.values = NULL;
	pmix.nvalues = 0;
}

/* A value as put() made it. */
static int look(const unsigned long *v, size_t n, size_t rank, struct gck_mpi_words *w,
		struct gck_error *err)
{
	if (n < HEAD_WORDS || v[1] > n - HEAD_WORDS)
		return gck_fail(err, EBADMSG, "PMIx has no words of rank %zu", rank);
	if (v[0] != pmix.serial)
		return gck_fail(err, ESTALE,
				"PMIx answered with other than the latest words of rank %zu: the "
				"next checkpoint goes through the coordinator",
				rank);
	*w = (struct gck_mpi_words){v + HEAD_WORDS, v[1]};
	return 0;
}

static int get(size_t rank, void **copy, struct gck_mpi_words *w, struct gck_error *err)
{
	pmix_proc_t from = pmix.self;
	pmix_value_t *value = NULL;
	size_t size = 0;
	int rc;

	from.rank = (pmix_rank_t)rank;
	rc = real.get(&from, KEY, NULL, 0, &value);
	if (rc != PMIX_SUCCESS)
		return fail("PMIx_Get", rc, err);
	if (value->type == PMIX_BYTE_OBJECT) {
		size = value->data.bo.size;
		*copy = malloc(size + 1);
		if (*copy)
			memcpy(*copy, value->data.bo.bytes, size);
		gck_mpi_ns_free(value->data.bo.bytes);
	}
	gck_mpi_ns_free(value);
	if (size && !*copy)
		return gck_fail(err, ENOMEM, "no memory for rank %zu's words", rank);
	return look(*copy, size / sizeof(unsigned long), rank, w, err);
}

static int get_all(size_t nranks, struct gck_mpi_words *all, struct gck_error *err)
{
	drop_values();
	pmix.values = calloc(nranks, sizeof *pmix.values);
	if (!pmix.values)
		return gck_fail(err, ENOMEM, "no memory for %zu ranks' words", nranks);
	pmix.nvalues = nranks;
	for (size_t r = 0; r < nranks; r++) {
		if (r == pmix.self.rank)
			all[r] = (struct gck_mpi_words){pmix.mine->v, pmix.mine->n};
		else if (get(r, &pmix.values[r], &all[r], err))
			return -1;
	}
	return 0;
}

/* PMIx_Init counts, and the real MPI_Finalize expects to be the last. The lock is held. */
static void let_go(void)
{
	if (pmix.begun)
		real.finalize(NULL, 0);
	pmix.begun = false;
}

/* A fence that MPI_Finalize joined is over without the words of those that did: they are not asked
 * for, since the server would wait for them. The lock is held. */
static int end(size_t nranks, struct gck_mpi_words *all, struct gck_error *err)
{
	if (check_left(err))
		return -1;
	if (status != PMIX_SUCCESS)
		return fail("PMIx_Fence", status, err);
	if (get_all(nranks, all, err))
		return -1;
	let_go();
	return 1;
}

int gck_mpi_pmix_end(int ms, size_t nranks, struct gck_mpi_words *all, struct gck_error *err)
{
	int rc;

	if (!is_over(pmix.serial, ms))
		return 0;
	pthread_mutex_lock(&lock);
	rc = end(nranks, all, err);
	pthread_mutex_unlock(&lock);
	return rc;
}

void gck_mpi_pmix_give_up(void)
{
	pthread_mutex_lock(&lock);
	pmix.given_up = true;
	pmix.serial = 0;
	let_go();
	pthread_mutex_unlock(&lock);
}

uint64_t gck_mpi_pmix_leave(void)
{
	uint64_t pending;

	pthread_mutex_lock(&lock);
	pmix.left = true;
	pending = ended == pmix.entered ? 0 : pmix.entered;
	pthread_mutex_unlock(&lock);
	return pending;
}

void gck_mpi_pmix_join(uint64_t serial)
{
	if (pmix.entered != serial &&
	    ((!pmix.bound && !bind()) || enter_fence(serial) != PMIX_SUCCESS))
		return;
	is_over(serial, JOIN_MS);
}

void gck_mpi_pmix_restart(void)
{
	pmix.bound = pmix.given_up = pmix.begun = pmix.left = false;
	pmix.serial = pmix.entered = pmix.first = 0;
	ended = 0;
}

#else

void gck_mpi_pmix_bind(void)
{
}

bool gck_mpi_pmix_usable(void)
{
	return false;
}

int gck_mpi_pmix_begin(uint64_t serial, const struct gck_mpi_blob *mine, struct gck_error *err)
{
	(void)serial;
	(void)mine;
	return gck_fail(err, ENOTSUP, "gpuckpt was built without PMIx");
}

int gck_mpi_pmix_end(int ms, size_t nranks, struct gck_mpi_words *all, struct gck_error *err)
{
	(void)ms;
	(void)nranks;
	(void)all;
	return gck_fail(err, ENOTSUP, "gpuckpt was built without PMIx");
}

void gck_mpi_pmix_give_up(void)
{
}

uint64_t gck_mpi_pmix_leave(void)
{
	return 0;
}

void gck_mpi_pmix_join(uint64_t serial)
{
	(void)serial;
}

void gck_mpi_pmix_restart(void)
{
}

#endif
