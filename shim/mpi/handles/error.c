/* SPDX-License-Identifier: Apache-2.0
 * Errors: what an MPI call does when it fails; error classes, codes and their texts. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/handles/errhandler.h"
#include "shim/mpi/handles/error.h"
#include "shim/mpi/handles/fortran_number.h"
#include "shim/mpi/handles/attachment.h"

/* MPI::ERRORS_THROW_EXCEPTIONS; mpi.h does not declare it. */
extern struct ompi_predefined_errhandler_t ompi_mpi_errors_throw_exceptions;

static void (*throw)(struct gck_mpi_handle *h, int rc, const char *function);

void gck_mpi_error_set_throw(void (*fn)(struct gck_mpi_handle *h, int rc, const char *function))
{
	throw = fn;
}

/* The object whose handler runs. Open MPI uses MPI_COMM_WORLD for an invalid communicator or
 * window, and MPI_FILE_NULL for an invalid file. */
static struct gck_mpi_handle *subject(const void *handle)
{
	const struct gck_mpi_handle *h = handle;

	if (gck_mpi_is(h, GCK_MPI_FILE) ||
	    ((gck_mpi_is(h, GCK_MPI_COMM) || gck_mpi_is(h, GCK_MPI_WIN)) &&
	     !(h->flags & GCK_MPI_NULL)))
		return (struct gck_mpi_handle *)(uintptr_t)h;
	return (struct gck_mpi_handle *)MPI_COMM_WORLD;
}

/* Prints the message of Open MPI, which users search for, and aborts the job. */
__attribute__((noreturn)) static void fatal(struct gck_mpi_handle *h, int rc, const char *function)
{
	const char *kind = h->kind == GCK_MPI_COMM ? "communicator" :
			   h->kind == GCK_MPI_WIN ? "win" : "file";
	char name[MPI_MAX_OBJECT_NAME] = "", reason[MPI_MAX_ERROR_STRING] = "";
	char host[65] = "?", prefix[96];
	int length;

	gethostname(host, sizeof(host) - 1);
	snprintf(prefix, sizeof(prefix), "[%s:%05d] ***", host, (int)getpid());
	gck_mpi_display_name(h, name);
	PMPI_Error_string(rc, reason, &length);
	fprintf(stderr, "%s An error occurred in %s\n%s on %s %s\n%s %s\n"
		"%s MPI_ERRORS_ARE_FATAL (processes in this %s will now abort,\n"
		"%s    and potentially your MPI job)\n",
		prefix, function, prefix, kind, name, prefix, reason, prefix, kind, prefix);
	PMPI_Abort(h->kind == GCK_MPI_COMM ? (MPI_Comm)h : MPI_COMM_WORLD, rc);
	_exit(rc > 0 && rc < 256 ? rc : 1);
}

static void call_c(const struct gck_mpi_errhandler *e, struct gck_mpi_handle *h, int rc,
		   const char *function)
{
	MPI_Comm comm = (MPI_Comm)h;
	MPI_Win win = (MPI_Win)h;
	MPI_File file = (MPI_File)h;

	if (e->of == GCK_MPI_COMM)
		((MPI_Comm_errhandler_function *)e->function)(&comm, &rc, function, NULL);
	else if (e->of == GCK_MPI_WIN)
		((MPI_Win_errhandler_function *)e->function)(&win, &rc, function, NULL);
	else
		((MPI_File_errhandler_function *)e->function)(&file, &rc, function, NULL);
}

static void call_fortran(const struct gck_mpi_errhandler *e, struct gck_mpi_handle *h, int rc)
{
	MPI_Fint number = gck_mpi_fortran_number(h, (enum gck_mpi_kind)h->kind), code = rc;

	((void (*)(MPI_Fint *, MPI_Fint *))e->function)(&number, &code);
}

int gck_mpi_error_raise(const void *handle, int rc, const char *function)
{
	struct gck_mpi_handle *h = subject(handle);
	MPI_Errhandler handler = gck_mpi_errhandler_of(h);
	const struct gck_mpi_errhandler *e = (const void *)handler;

	if (!(e->h.flags & GCK_MPI_PREDEFINED)) {
		if (e->language == GCK_MPI_C)
			call_c(e, h, rc, function);
		else if (e->language == GCK_MPI_CXX)
			e->invoke(e, h, rc, function);
		else
			call_fortran(e, h, rc);
	} else if ((void *)handler == (void *)&ompi_mpi_errors_throw_exceptions) {
		if (throw)
			throw(h, rc, function);
	} else if (handler != MPI_ERRORS_RETURN) {
		fatal(h, rc, function);
	}
	gck_mpi_errhandler_release(handler);
	return rc;
}

/* codes[i] is MPI_ERR_LASTCODE + 1 + i. */
static struct code {
	int class; /* equal to its own number for a class */
	char *text;
} *codes;
static int ncodes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The entry of a number that the program added; NULL: none. The caller holds the lock. */
static struct code *find(int number)
{
	int i = number - MPI_ERR_LASTCODE - 1;

	return number > MPI_ERR_LASTCODE && i < ncodes ? &codes[i] : NULL;
}

static int is_class(int number)
{
	const struct code *c = find(number);

	return c ? c->class == number : number >= MPI_SUCCESS && number <= MPI_ERR_LASTCODE;
}

/* Adds a code of the class; a new class if class < 0. */
static int add(int class, int *number)
{
	struct code *grown;
	int rc = MPI_ERR_ARG;

	if (!number)
		return rc;
	pthread_mutex_lock(&lock);
	if (class >= 0 && !is_class(class))
		goto out;
	rc = MPI_ERR_NO_MEM;
	grown = reallocarray(codes, (size_t)ncodes + 1, sizeof(*codes));
	if (!grown)
		goto out;
	codes = grown;
	*number = MPI_ERR_LASTCODE + ++ncodes;
	codes[ncodes - 1] = (struct code){.class = class >= 0 ? class : *number};
	rc = MPI_SUCCESS;
out:
	pthread_mutex_unlock(&lock);
	return rc;
}

int gck_mpi_last_code(void)
{
	int last;

	pthread_mutex_lock(&lock);
	last = MPI_ERR_LASTCODE + ncodes;
	pthread_mutex_unlock(&lock);
	return last;
}

GCK_MPI_FUNCTION(Add_error_class, (int *errorclass))
{
	return gck_mpi_error(NULL, add(-1, errorclass), "MPI_Add_error_class");
}

GCK_MPI_FUNCTION(Add_error_code, (int errorclass, int *errorcode))
{
	int rc = errorclass < 0 ? MPI_ERR_ARG : add(errorclass, errorcode);

	return gck_mpi_error(NULL, rc, "MPI_Add_error_code");
}

GCK_MPI_FUNCTION(Add_error_string, (int errorcode, const char *string))
{
	char *copy = NULL;
	struct code *c;
	int rc = MPI_ERR_ARG;

	if (string && strlen(string) + 1 <= MPI_MAX_ERROR_STRING)
		copy = strdup(string);
	pthread_mutex_lock(&lock);
	c = find(errorcode);
	if (c && copy) {
		free(c->text);
		c->text = copy;
		copy = NULL;
		rc = MPI_SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	free(copy);
	return gck_mpi_error(NULL, rc, "MPI_Add_error_string");
}

GCK_MPI_FUNCTION(Error_class, (int errorcode, int *errorclass))
{
	const struct code *c;
	int rc = MPI_SUCCESS;

	pthread_mutex_lock(&lock);
	c = find(errorcode);
	if (c && errorclass)
		*errorclass = c->class;
	pthread_mutex_unlock(&lock);
	if (!c) {
		gck_mpi_enter();
		rc = gck_mpi_real.Error_class(errorcode, errorclass);
		gck_mpi_leave();
	}
	return gck_mpi_error(NULL, rc, "MPI_Error_class");
}

GCK_MPI_FUNCTION(Error_string, (int errorcode, char *string, int *resultlen))
{
	const struct code *c;
	int rc = MPI_SUCCESS;

	pthread_mutex_lock(&lock);
	c = find(errorcode);
	if (c) {
		strcpy(string, c->text ? c->text : "");
		*resultlen = (int)strlen(string);
	}
	pthread_mutex_unlock(&lock);
	if (!c) {
		gck_mpi_enter();
		rc = gck_mpi_real.Error_string(errorcode, string, resultlen);
		gck_mpi_leave();
	}
	return gck_mpi_error(NULL, rc, "MPI_Error_string");
}
