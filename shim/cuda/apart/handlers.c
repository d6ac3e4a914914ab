/* SPDX-License-Identifier: Apache-2.0
 * What the library has called at exit and at fork. Its own libc knows of neither: it registers with
 * the program's, where those of a plain library would be. Those of a dead copy do not run; those of
 * a fresh copy take their places, since the order among the program's handlers is that of the first
 * copy. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "shim/cuda/apart/apart.h"
#include "shim/cuda/dispatch/dispatch.h"

extern int __cxa_atexit(void (*function)(void *), void *arg, void *dso);
extern void *__dso_handle;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* malloc's lock and ours must not be those of a thread that does not come back. */
static void enter(void)
{
	gck_namespace.root->enter();
	pthread_mutex_lock(&lock);
}

static void leave(void)
{
	pthread_mutex_unlock(&lock);
	gck_namespace.root->leave();
}

/* ---- exit ------------------------------------------------------------------------------------ */

/* A place among the program's handlers; never freed. */
struct place {
	struct place *next;
	void (*function)(void *); /* NULL: no handler of this copy's is there */
	void *arg;
};

static struct place *places, **end = &places;
static struct place **free_place = &places; /* of those of the copies before; NULL there: none */

static void run(void *p)
{
	const struct place *place = p;

	if (place->function && gck_namespace_is_alive())
		place->function(place->arg);
}

static struct place *new_place(void)
{
	struct place *p = calloc(1, sizeof *p);

	if (!p || __cxa_atexit(run, p, __dso_handle)) {
		free(p);
		return NULL;
	}
	*end = p;
	end = &p->next;
	return p;
}

static int at_exit(void (*function)(void *), void *arg, void *dso)
{
	struct place *p;

	(void)dso;
	enter();
	p = *free_place ? *free_place : new_place();
	if (p) {
		p->arg = arg;
		p->function = function;
		free_place = &p->next;
	}
	leave();
	return p ? 0 : -1;
}

/* ---- fork ------------------------------------------------------------------------------------ */

#define FORKS 16

static struct {
	void (*prepare)(void), (*parent)(void), (*child)(void);
} forks[FORKS];
static unsigned nforks;
static uint32_t copy = 1; /* counts the copies */

/* The copy whose `prepare` the fork under way has run; 0: none. */
static __thread uint32_t prepared __attribute__((tls_model("initial-exec")));

static void prepare(void)
{
	prepared = gck_namespace_is_alive() ? copy : 0;
	for (unsigned i = nforks; prepared && i-- > 0;) {
		if (forks[i].prepare)
			forks[i].prepare();
	}
	pthread_mutex_lock(&lock);
}

/* A restart may have come between. */
static bool is_prepared(void)
{
	return prepared == copy && gck_namespace_is_alive();
}

static void parent(void)
{
	pthread_mutex_unlock(&lock);
	for (unsigned i = 0; is_prepared() && i < nforks; i++) {
		if (forks[i].parent)
			forks[i].parent();
	}
}

static void child(void)
{
	pthread_mutex_unlock(&lock);
	for (unsigned i = 0; is_prepared() && i < nforks; i++) {
		if (forks[i].child)
			forks[i].child();
	}
}

static int at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void), void *dso)
{
	static bool registered;
	int rc = 0;

	(void)dso;
	enter();
	if (nforks == FORKS || (!registered && pthread_atfork(prepare, parent, child))) {
		rc = ENOMEM;
	} else {
		registered = true;
		forks[nforks].prepare = before;
		forks[nforks].parent = in_parent;
		forks[nforks].child = in_child;
		nforks++;
	}
	leave();
	return rc;
}

/* ---------------------------------------------------------------------------------------------- */

void gck_cuda_apart_handlers_lead(void *library)
{
	gck_cuda_got_hook(library, "__cxa_atexit", (void *)at_exit);
	gck_cuda_got_hook(library, "__register_atfork", (void *)at_fork);
}

void gck_cuda_apart_handlers_forget(void)
{
	pthread_mutex_lock(&lock);
	for (struct place *p = places; p; p = p->next)
		p->function = NULL;
	free_place = &places;
	nforks = 0;
	copy++;
	pthread_mutex_unlock(&lock);
}
