/* SPDX-License-Identifier: Apache-2.0
 * Key values: numbers with callbacks; the predefined callbacks. */
#include <stdlib.h>

#include "shim/mpi/handles/attachment.h"
#include "shim/mpi/handles/fortran_number.h"
#include "shim/mpi/handles/handle.h"
#include "shim/mpi/handles/keyval.h"

#define COMM(n) [n] = {.of = GCK_MPI_COMM, .number = n, .references = 1}
#define WIN(n) [n] = {.of = GCK_MPI_WIN, .number = n, .references = 1}
static struct gck_mpi_keyval predefined[GCK_MPI_KEYVALS_PREDEFINED] = {
	COMM(MPI_TAG_UB), COMM(MPI_HOST), COMM(MPI_IO), COMM(MPI_WTIME_IS_GLOBAL),
	COMM(MPI_APPNUM), COMM(MPI_LASTUSEDCODE), COMM(MPI_UNIVERSE_SIZE),
	WIN(MPI_WIN_BASE), WIN(MPI_WIN_SIZE), WIN(MPI_WIN_DISP_UNIT), WIN(MPI_WIN_CREATE_FLAVOR),
	WIN(MPI_WIN_MODEL),
};

/* The key value of number GCK_MPI_KEYVALS_PREDEFINED + i is made[i]; NULL: free. */
static struct gck_mpi_keyval **made;
static int capacity;

static struct gck_mpi_keyval *find(int number)
{
	int i = number - GCK_MPI_KEYVALS_PREDEFINED;

	if (number < 0)
		return NULL;
	if (i < 0)
		return &predefined[number];
	return i < capacity ? made[i] : NULL;
}

struct gck_mpi_keyval *gck_mpi_keyval(int number, enum gck_mpi_kind of)
{
	struct gck_mpi_keyval *k = find(number);

	return k && k->of == of ? k : NULL;
}

bool gck_mpi_keyval_exists(int number)
{
	return find(number) != NULL;
}

void gck_mpi_keyval_release(struct gck_mpi_keyval *k)
{
	if (--k->references)
		return;
	made[k->number - GCK_MPI_KEYVALS_PREDEFINED] = NULL;
	free(k);
}

static int take_slot(void)
{
	struct gck_mpi_keyval **grown;
	int i = 0;

	while (i < capacity && made[i])
		i++;
	if (i < capacity)
		return i;
	grown = reallocarray(made, (size_t)capacity + 32, sizeof(*made));
	if (!grown)
		return -1;
	made = grown;
	for (int j = 0; j < 32; j++)
		made[capacity++] = NULL;
	return i;
}

int gck_mpi_keyval_create(const struct gck_mpi_keyval *template, int *number)
{
	struct gck_mpi_keyval *k;
	int i = -1;

	if (!template->copy || !template->delete || !number)
		return MPI_ERR_ARG;
	k = malloc(sizeof(*k));
	pthread_mutex_lock(&gck_mpi_attached_lock);
	if (k)
		i = take_slot();
	if (i >= 0) {
		*k = *template;
		k->references = 1;
		k->number = *number = GCK_MPI_KEYVALS_PREDEFINED + i;
		made[i] = k;
	}
	pthread_mutex_unlock(&gck_mpi_attached_lock);
	if (i < 0)
		free(k);
	return i < 0 ? MPI_ERR_NO_MEM : MPI_SUCCESS;
}

int gck_mpi_keyval_free(enum gck_mpi_kind of, int *number)
{
	struct gck_mpi_keyval *k;
	int rc = MPI_ERR_OTHER;

	if (!number)
		return MPI_ERR_ARG;
	pthread_mutex_lock(&gck_mpi_attached_lock);
	k = gck_mpi_keyval(*number, of);
	if (k && !k->freed && *number >= GCK_MPI_KEYVALS_PREDEFINED) {
		k->freed = true;
		gck_mpi_keyval_release(k);
		*number = MPI_KEYVAL_INVALID;
		rc = MPI_SUCCESS;
	}
	pthread_mutex_unlock(&gck_mpi_attached_lock);
	return rc;
}

struct gck_mpi_value gck_mpi_value_in(struct gck_mpi_value *v, enum gck_mpi_language language)
{
	struct gck_mpi_value seen = {.language = language};
	MPI_Aint bits;

	if (language == GCK_MPI_C) {
		seen.pointer = v->language == GCK_MPI_C ? v->pointer :
			       v->language == GCK_MPI_FORTRAN ? (void *)&v->integer :
							       (void *)&v->aint;
		return seen;
	}
	bits = v->language == GCK_MPI_C ? (MPI_Aint)v->pointer :
	       v->language == GCK_MPI_FORTRAN ? v->integer : v->aint;
	if (language == GCK_MPI_FORTRAN)
		seen.integer = (MPI_Fint)bits;
	else
		seen.aint = bits;
	return seen;
}

/* The types of callbacks. Those of communicators, datatypes and windows differ only in the type of
 * the handle. */
typedef int copy_c(void *, int, void *, void *, void *, int *);
typedef int delete_c(void *, int, void *, void *);
typedef void copy_integer(MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *,
			  MPI_Fint *);
typedef void delete_integer(MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *);
typedef void copy_aint(MPI_Fint *, MPI_Fint *, MPI_Aint *, MPI_Aint *, MPI_Aint *, MPI_Fint *,
		       MPI_Fint *);
typedef void delete_aint(MPI_Fint *, MPI_Fint *, MPI_Aint *, MPI_Aint *, MPI_Fint *);

int gck_mpi_keyval_copy(const struct gck_mpi_keyval *k, void *from, struct gck_mpi_value *in,
			struct gck_mpi_value *out, int *flag)
{
	MPI_Fint handle, number = k->number, integer = (MPI_Fint)k->extra, rc = MPI_SUCCESS;
	MPI_Aint aint = k->extra;
	struct gck_mpi_value seen = gck_mpi_value_in(in, k->language);

	*flag = 0;
	*out = (struct gck_mpi_value){.language = k->language};
	if (k->language == GCK_MPI_C)
		return ((copy_c *)k->copy)(from, number, (void *)k->extra, seen.pointer,
					   &out->pointer, flag);
	handle = gck_mpi_fortran_number(from, k->of);
	if (k->language == GCK_MPI_FORTRAN)
		((copy_integer *)k->copy)(&handle, &number, &integer, &seen.integer, &out->integer,
					  flag, &rc);
	else
		((copy_aint *)k->copy)(&handle, &number, &aint, &seen.aint, &out->aint, flag, &rc);
	return rc;
}

int gck_mpi_keyval_delete(const struct gck_mpi_keyval *k, void *from, struct gck_mpi_value *in)
{
	MPI_Fint handle, number = k->number, integer = (MPI_Fint)k->extra, rc = MPI_SUCCESS;
	MPI_Aint aint = k->extra;
	struct gck_mpi_value seen = gck_mpi_value_in(in, k->language);

	if (k->language == GCK_MPI_C)
		return ((delete_c *)k->delete)(from, number, seen.pointer, (void *)k->extra);
	handle = gck_mpi_fortran_number(from, k->of);
	if (k->language == GCK_MPI_FORTRAN)
		((delete_integer *)k->delete)(&handle, &number, &seen.integer, &integer, &rc);
	else
		((delete_aint *)k->delete)(&handle, &number, &seen.aint, &aint, &rc);
	return rc;
}

/* ---- predefined callbacks, named by the macros of mpi.h (MPI_COMM_DUP_FN and the template) ----
 * */

#define NULL_COPY(name, type) \
	int name(type object, int keyval, void *extra, void *in, void *out, int *flag) \
	{ \
		(void)object, (void)keyval, (void)extra, (void)in, (void)out; \
		*flag = 0; \
		return MPI_SUCCESS; \
	}

#define DUP(name, type) \
	int name(type object, int keyval, void *extra, void *in, void *out, int *flag) \
	{ \
		(void)object, (void)keyval, (void)extra; \
		*(void **)out = in; \
		*flag = 1; \
		return MPI_SUCCESS; \
	}

#define NULL_DELETE(name, type) \
	int name(type object, int keyval, void *value, void *extra) \
	{ \
		(void)object, (void)keyval, (void)value, (void)extra; \
		return MPI_SUCCESS; \
	}

NULL_COPY(OMPI_C_MPI_COMM_NULL_COPY_FN, MPI_Comm)
NULL_COPY(OMPI_C_MPI_TYPE_NULL_COPY_FN, MPI_Datatype)
NULL_COPY(OMPI_C_MPI_WIN_NULL_COPY_FN, MPI_Win)
NULL_COPY(OMPI_C_MPI_NULL_COPY_FN, MPI_Comm)
DUP(OMPI_C_MPI_COMM_DUP_FN, MPI_Comm)
DUP(OMPI_C_MPI_TYPE_DUP_FN, MPI_Datatype)
DUP(OMPI_C_MPI_WIN_DUP_FN, MPI_Win)
DUP(OMPI_C_MPI_DUP_FN, MPI_Comm)
NULL_DELETE(OMPI_C_MPI_COMM_NULL_DELETE_FN, MPI_Comm)
NULL_DELETE(OMPI_C_MPI_TYPE_NULL_DELETE_FN, MPI_Datatype)
NULL_DELETE(OMPI_C_MPI_WIN_NULL_DELETE_FN, MPI_Win)
NULL_DELETE(OMPI_C_MPI_NULL_DELETE_FN, MPI_Comm)
