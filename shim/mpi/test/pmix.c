/* SPDX-License-Identifier: Apache-2.0
 * Rank 0's side of an exchange of words of two ranks through PMIx, with the test as libpmix: the
 * calls of the MPI thread and of MPI_Finalize, in each possible order. */
#include "config.h"

#include "test/support/tap.h"

#ifdef HAVE_PMIX

#include <errno.h>
#include <pmix.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shim/mpi/base/pmix.h"
#include "shim/mpi/quiesce/quiesce.h"
#include "shim/namespace/namespace.h"

#define OTHERS_WORD 77
#define WORDS_MAX 1024

/* The calls of libpmix. */
static struct {
	int inits, finalizes, fences, gets, unlimited;
	bool ends_at_once, slow_put, answers_old;
	pmix_status_t fence_status;
	pmix_op_cbfunc_t done;
	void *serial;
	unsigned long put[WORDS_MAX];
	size_t size;
} server;

static void end_fence(void)
{
	server.done(server.fence_status, server.serial);
}

static int is_initialized(void)
{
	return 1;
}

static pmix_status_t init(pmix_proc_t *proc, pmix_info_t info[], size_t n)
{
	(void)info;
	(void)n;
	server.inits++;
	proc->rank = 0;
	return PMIX_SUCCESS;
}

static pmix_status_t finalize(const pmix_info_t info[], size_t n)
{
	(void)info;
	(void)n;
	server.finalizes++;
	return PMIX_SUCCESS;
}

static pmix_status_t put(pmix_scope_t scope, const char *key, pmix_value_t *value)
{
	(void)scope;
	(void)key;
	if (server.slow_put)
		nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
	server.size = value->data.bo.size;
	memcpy(server.put, value->data.bo.bytes, server.size);
	return PMIX_SUCCESS;
}

static pmix_status_t commit(void)
{
	return PMIX_SUCCESS;
}

static pmix_status_t fence(const pmix_proc_t procs[], size_t n, const pmix_info_t info[],
			   size_t ninfo, pmix_op_cbfunc_t done, void *arg)
{
	(void)procs;
	(void)n;
	(void)info;
	(void)ninfo;
	server.fences++;
	server.done = done;
	server.serial = arg;
	if (server.ends_at_once)
		end_fence();
	return PMIX_SUCCESS;
}

/* The other rank's words: the same as this one's except the last, after the two of the head. */
static pmix_status_t get(const pmix_proc_t *proc, const char *key, const pmix_info_t info[],
			 size_t n, pmix_value_t **value)
{
	unsigned long *words = malloc(server.size);

	(void)proc;
	(void)key;
	server.gets++;
	server.unlimited += n != 1 || strcmp(info->key, PMIX_TIMEOUT) != 0 ||
			    info->value.type != PMIX_INT || info->value.data.integer <= 0;
	memcpy(words, server.put, server.size);
	words[0] -= server.answers_old;
	words[1 + words[1]] = OTHERS_WORD;
	*value = calloc(1, sizeof **value);
	(*value)->type = PMIX_BYTE_OBJECT;
	(*value)->data.bo.bytes = (char *)words;
	(*value)->data.bo.size = server.size;
	return PMIX_SUCCESS;
}

/* ---- the stand-in --------------------------------------------------------------------------- */

void *gck_namespace_symbol(const char *name)
{
	static const struct {
		const char *name;
		void *function;
	} all[] = {
		{"PMIx_Initialized", (void *)is_initialized}, {"PMIx_Init", (void *)init},
		{"PMIx_Finalize", (void *)finalize}, {"PMIx_Put", (void *)put},
		{"PMIx_Commit", (void *)commit}, {"PMIx_Fence_nb", (void *)fence},
		{"PMIx_Get", (void *)get},
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!strcmp(name, all[i].name))
			return all[i].function;
	return NULL;
}

void gck_namespace_free(void *p)
{
	free(p);
}

int64_t gck_mpi_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

/* ---- the tests ------------------------------------------------------------------------------ */

static unsigned long own[] = {11, 12};
static const struct gck_mpi_blob mine = {.v = own, .n = 2};
static struct gck_mpi_words all[2];

/* A step begins. */
static void start(void)
{
	memset(&server, 0, sizeof server);
	gck_mpi_pmix_restart();
	gck_mpi_pmix_bind();
}

static void test_exchange(void)
{
	struct gck_error err = {0};

	start();
	ok(gck_mpi_pmix_usable(), "PMIx is found");
	ok(all_of(!gck_mpi_pmix_begin(1, &mine, &err), server.fences == 1), "a fence begins");
	ok(gck_mpi_pmix_end(1, 2, all, &err) == 0,
	   "a fence does not end before the other rank joins it");
	end_fence();
	ok(gck_mpi_pmix_end(1, 2, all, &err) == 1, "a fence ends when both ranks are in it");
	ok(all_of(all[0].n == 2, all[0].v == own, all[1].n == 2, all[1].v[1] == OTHERS_WORD),
	   "both ranks' words are there");
	ok(all_of(server.gets == 1, server.unlimited == 0), "asked for with a limit of time");
	ok(all_of(server.inits == 1, server.finalizes == 1),
	   "there are as many calls of PMIx_Finalize as of PMIx_Init");
	ok(gck_mpi_pmix_leave() == 0, "MPI_Finalize finds no fence");
}

/* The size of the value of a round with so many words. */
static size_t size_of_round(size_t n)
{
	static unsigned long words[300];
	const struct gck_mpi_blob blob = {.v = words, .n = n};
	struct gck_error err = {0};

	server.ends_at_once = true;
	if (gck_mpi_pmix_begin(n, &blob, &err) || gck_mpi_pmix_end(1, 2, all, &err) != 1 ||
	    all[1].n != n)
		return 0;
	return server.size;
}

/* PMIx's store grows with each value of another size than the one before (pmix.c). */
static void test_sizes(void)
{
	size_t first, large;

	start();
	first = size_of_round(3);
	ok(first && size_of_round(9) == first, "values of more words have the same size");
	large = size_of_round(300);
	ok(large >= 302 * sizeof(long), "up to a limit, from which on they are larger");
	ok(size_of_round(3) == large, "a value is never smaller than an earlier one");
}

/* A checkpoint that fails with EAGAIN is tried again. */
static void test_failures(void)
{
	struct gck_error err = {0};

	start();
	server.ends_at_once = server.answers_old = true;
	ok(all_of(!gck_mpi_pmix_begin(7, &mine, &err), gck_mpi_pmix_end(1, 2, all, &err) < 0,
		  err.code == EAGAIN), "old words are refused for now: %s", err.text);
	gck_mpi_pmix_give_up();
	ok(!gck_mpi_pmix_usable(), "and PMIx is not used again");
	start();
	server.ends_at_once = true;
	server.fence_status = PMIX_ERROR;
	ok(all_of(!gck_mpi_pmix_begin(8, &mine, &err), gck_mpi_pmix_end(1, 2, all, &err) < 0,
		  err.code == EAGAIN), "so is a fence that fails: %s", err.text);
	gck_mpi_pmix_give_up();
	ok(server.finalizes == server.inits, "libpmix is let go");
}

static void test_finalize_in_fence(void)
{
	struct gck_error err = {0};
	bool begun;

	start();
	begun = gck_mpi_pmix_begin(2, &mine, &err) == 0;
	ok(begun && gck_mpi_pmix_leave() == 2,
	   "MPI_Finalize finds the fence that the MPI thread is in");
	end_fence(); /* the other rank has joined it, without words */
	gck_mpi_pmix_join(2);
	ok(server.fences == 1, "MPI_Finalize begins no second fence");
	ok(all_of(gck_mpi_pmix_end(1, 2, all, &err) < 0, err.code == ECANCELED),
	   "the exchange is called off");
	ok(server.gets == 0, "words of a rank without words are not requested");
	gck_mpi_pmix_give_up();
	ok(server.finalizes == server.inits, "MPI_Finalize is the last user of libpmix");
	gck_mpi_pmix_give_up();
	ok(server.finalizes == server.inits, "the MPI thread does not call libpmix afterwards");
}

static void test_finalize_first(void)
{
	struct gck_error err = {0};

	start();
	ok(gck_mpi_pmix_leave() == 0, "MPI_Finalize comes before a fence");
	ok(all_of(gck_mpi_pmix_begin(3, &mine, &err) < 0, err.code == ECANCELED, !server.fences),
	   "no fence begins after MPI_Finalize");
	ok(server.inits == 0, "libpmix is not called after MPI_Finalize");
	server.ends_at_once = true;
	gck_mpi_pmix_join(3);
	ok(server.fences == 1, "MPI_Finalize joins a fence of another rank");
	start();
	ok(!gck_mpi_pmix_begin(4, &mine, &err), "fences work again after a restart");
	gck_mpi_pmix_give_up();
}

static void *leave(void *pending)
{
	*(uint64_t *)pending = gck_mpi_pmix_leave();
	return NULL;
}

/* The MPI thread is about to begin a fence. */
static void test_at_the_same_time(void)
{
	struct gck_error err = {0};
	uint64_t pending = 0;
	pthread_t finalize_thread;
	bool begun;

	start();
	server.slow_put = true;
	pthread_create(&finalize_thread, NULL, leave, &pending);
	begun = gck_mpi_pmix_begin(5, &mine, &err) == 0;
	pthread_join(finalize_thread, NULL);
	ok(all_of(begun == (pending == 5), server.fences == (pending == 5)),
	   "MPI_Finalize finds a fence that has just begun, or prevents it");
	gck_mpi_pmix_give_up();
}

int main(void)
{
	unsetenv("GPUCKPT_MPI_EXCHANGE");
	unsetenv("PMIX_GDS_MODULE");
	test_exchange();
	test_sizes();
	test_failures();
	test_finalize_in_fence();
	test_finalize_first();
	test_at_the_same_time();
	return tap_done();
}

#else

int main(void)
{
	printf("1..0 # SKIP built without PMIx\n");
	return 0;
}

#endif
