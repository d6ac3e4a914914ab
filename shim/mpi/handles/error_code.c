/* SPDX-License-Identifier: Apache-2.0
 * Error classes, codes and their texts. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/handles/error_code.h"

/* codes[i] is MPI_ERR_LASTCODE + 1 + i. */
static struct code {
	int class; /* its own number: it is a class */
	char *text;
} *codes;
static int ncodes;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The lock is held; NULL: not one of the program's. */
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

/* class < 0: a class of its own. */
static int add(int class, int *number)
{
	struct code *more;
	int rc = MPI_ERR_ARG;

	if (!number)
		return rc;
	pthread_mutex_lock(&lock);
	if (class >= 0 && !is_class(class))
		goto out;
	rc = MPI_ERR_NO_MEM;
	more = reallocarray(codes, (size_t)ncodes + 1, sizeof(*codes));
	if (!more)
		goto out;
	codes = more;
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
