/* SPDX-License-Identifier: Apache-2.0
 * Exchange of words by PMIx's collecting fence. All rounds use one key, and values of one size: in
 * libpmix 4.2's shared memory store such a value takes the place of the one before, and one of
 * another size is added to it, so that it grew with each checkpoint. A serial number in the value
 * exposes a server that answers with an older value, as that store does when a value has the size
 * of the key's first value after values of other sizes; so a value is never smaller than an earlier
 * one. */
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
#define LOCK_S 10
#define GET_S 5 /* the words are there when the fence ends */
#define HEAD_WORDS 2 /* serial, number of words; the words follow, then zeros */
#define STEP_WORDS 16 /* sizes of values are multiples of it */

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

/* Held during the MPI thread's calls of libpmix, so that MPI_Finalize can exclude them. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
	bool bound, given_up;
	bool client_held; /* PMIx_Init was called without its PMIx_Finalize */
	bool finalizing;  /* MPI_Finalize has called gck_mpi_pmix_leave */
	pmix_proc_t self;
	uint64_t serial;
	uint64_t entered; /* the last fence begun; 0: none */
	size_t size;    /* words of a value; 0: none yet */
	const struct gck_mpi_blob *mine;
	void **values;  /* the last fence's all[] points into these */
	size_t nvalues;
} pmix;

/* The last fence that ended. Written by libpmix's thread, which our libc does not know. */
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
		*all[i].at = gck_namespace_symbol(all[i].name);
		if (!*all[i].at)
			return false;
	}
	return true;
}

/* GPUCKPT_MPI_EXCHANGE=coordinator avoids a PMIx that a site does not trust. A PMIx that keeps its
 * data outside shared memory (PMIX_MCA_gds=hash) is not used either: it keeps answering with the
 * first value that it received from a rank. */
static bool is_allowed(void)
{
	const char *way = getenv("GPUCKPT_MPI_EXCHANGE"), *store = getenv("PMIX_GDS_MODULE");

	return !(way && !strcmp(way, "coordinator")) && !(store && !strncmp(store, "hash", 4));
}

void gck_mpi_pmix_bind(void)
{
	pmix.bound = is_allowed() && bind() && real.initialized();
}

bool gck_mpi_pmix_usable(void)
{
	return pmix.bound && !pmix.given_up;
}

static int fail(const char *what, int rc, struct gck_error *err)
{
	return gck_fail(err, EAGAIN, "%s failed with code %d: " GCK_MPI_PMIX_AGAIN, what, rc);
}

/* Words of a value that has these: as many as of the one before, mostly. */
static size_t value_size(size_t words)
{
	if (pmix.size < words)
		pmix.size = (words + STEP_WORDS - 1) / STEP_WORDS * STEP_WORDS;
	return pmix.size;
}

static int put(uint64_t serial, const struct gck_mpi_blob *mine, struct gck_error *err)
{
	size_t n = value_size(HEAD_WORDS + mine->n);
	unsigned long *v = calloc(n, sizeof *v);
	pmix_value_t value = {.type = PMIX_BYTE_OBJECT,
			      .data.bo = {.bytes = (char *)v, .size = n * sizeof *v}};
	int rc;

	if (!v)
		return gck_fail(err, ENOMEM, "no memory for this rank's words in PMIx");
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

/* The fence spans all ranks of the job, because Slurm's PMIx supports no subset. The server
 * therefore cannot tell it from MPI_Finalize's own fence. */
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
static int check_finalizing(struct gck_error *err)
{
	return pmix.finalizing ? gck_fail(err, ECANCELED, "the program is in MPI_Finalize") : 0;
}

static int begin(uint64_t serial, const struct gck_mpi_blob *mine, struct gck_error *err)
{
	int rc;

	if (check_finalizing(err))
		return -1;
	rc = real.init(&pmix.self, NULL, 0);
	if (rc != PMIX_SUCCESS)
		return fail("PMIx_Init", rc, err);
	pmix.client_held = true;
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

/* ---- the other ranks' words ----------------------------------------------------------------- */

static void drop_values(void)
{
	for (size_t i = 0; i < pmix.nvalues; i++)
		free(pmix.values[i]);
	free(pmix.values);
	pmix.values = NULL;
	pmix.nvalues = 0;
}

/* Checks a value that put() of another rank made. */
static int check_value(const unsigned long *v, size_t n, size_t rank, struct gck_mpi_words *w,
		       struct gck_error *err)
{
	if (n < HEAD_WORDS || v[1] > n - HEAD_WORDS)
		return gck_fail(err, EAGAIN,
				"PMIx returned no words of rank %zu: " GCK_MPI_PMIX_AGAIN, rank);
	if (v[0] != pmix.serial)
		return gck_fail(err, EAGAIN,
				"PMIx returned old words of rank %zu: " GCK_MPI_PMIX_AGAIN, rank);
	*w = (struct gck_mpi_words){v + HEAD_WORDS, v[1]};
	return 0;
}

static int get(size_t rank, void **copy, struct gck_mpi_words *w, struct gck_error *err)
{
	static const pmix_info_t limit = {
		.key = PMIX_TIMEOUT,
		.value = {.type = PMIX_INT, .data.integer = GET_S},
	};
	pmix_proc_t from = pmix.self;
	pmix_value_t *value = NULL;
	size_t size = 0;
	int rc;

	from.rank = (pmix_rank_t)rank;
	rc = real.get(&from, KEY, &limit, 1, &value);
	if (rc != PMIX_SUCCESS)
		return fail("PMIx_Get", rc, err);
	if (value->type == PMIX_BYTE_OBJECT) {
		size = value->data.bo.size;
		*copy = malloc(size + 1);
		if (*copy)
			memcpy(*copy, value->data.bo.bytes, size);
		gck_namespace_free(value->data.bo.bytes);
	}
	gck_namespace_free(value);
	if (size && !*copy)
		return gck_fail(err, ENOMEM, "no memory for rank %zu's words", rank);
	return check_value(*copy, size / sizeof(unsigned long), rank, w, err);
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

/* PMIx_Init counts its calls, and the real MPI_Finalize must be the last user. The lock is held. */
static void release_client(void)
{
	if (pmix.client_held)
		real.finalize(NULL, 0);
	pmix.client_held = false;
}

/* A fence that ranks joined in MPI_Finalize ends without their words. check_finalizing avoids
 * asking for these, because the server would wait for them. The lock is held. */
static int end(size_t nranks, struct gck_mpi_words *all, struct gck_error *err)
{
	if (check_finalizing(err))
		return -1;
	if (status != PMIX_SUCCESS)
		return fail("PMIx_Fence", status, err);
	if (get_all(nranks, all, err))
		return -1;
	release_client();
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

/* PMIx_Get of the MPI thread may wait, for GET_S, for words that a rank did not put, because it is
 * in MPI_Finalize. The program must not wait longer with it. */
static bool take_lock(void)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += LOCK_S;
	return pthread_mutex_timedlock(&lock, &end) == 0;
}

void gck_mpi_pmix_give_up(void)
{
	if (!take_lock())
		return;
	pmix.given_up = true;
	pmix.serial = 0;
	release_client();
	pthread_mutex_unlock(&lock);
}

uint64_t gck_mpi_pmix_leave(void)
{
	uint64_t pending;

	if (!take_lock())
		return 0;
	pmix.finalizing = true;
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
	pmix.bound = pmix.given_up = pmix.client_held = pmix.finalizing = false;
	pmix.serial = pmix.entered = pmix.size = 0;
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
