/* SPDX-License-Identifier: Apache-2.0
 * Attributes: values attached to handles under the number of a key value; MPI's functions on
 * attributes and key values. */
#include <stdlib.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/handles/attachment.h"
#include "shim/mpi/handles/error.h"
#include "shim/mpi/handles/keyval.h"
#include "shim/mpi/handles/attribute_predefined.h"

struct gck_mpi_attribute {
	struct gck_mpi_attribute *next; /* older */
	struct gck_mpi_keyval *keyval;  /* a reference */
	struct gck_mpi_value value;
};

/* The link that points at the attribute, or NULL. The caller holds the lock. */
static struct gck_mpi_attribute **find(struct gck_mpi_handle *h, int number)
{
	struct gck_mpi_attribute **at = h->attached ? &h->attached->attributes : NULL;

	while (at && *at && (*at)->keyval->number != number)
		at = &(*at)->next;
	return at && *at ? at : NULL;
}

static void unlink_one(struct gck_mpi_attribute **at)
{
	struct gck_mpi_attribute *a = *at;

	*at = a->next;
	gck_mpi_keyval_release(a->keyval);
	free(a);
}

/* Frees the list without calling callbacks. */
static void drop_all(struct gck_mpi_attribute *first)
{
	pthread_mutex_lock(&gck_mpi_attached_lock);
	while (first)
		unlink_one(&first);
	pthread_mutex_unlock(&gck_mpi_attached_lock);
}

int gck_mpi_attribute_put(void *handle, int number, const struct gck_mpi_value *value)
{
	struct gck_mpi_handle *h = handle;
	struct gck_mpi_attribute *a = malloc(sizeof(*a)), **old;
	struct gck_mpi_attached *attached;
	struct gck_mpi_keyval *k;
	int rc = MPI_ERR_NO_MEM;

	pthread_mutex_lock(&gck_mpi_attached_lock);
	attached = a ? gck_mpi_attached(h) : NULL;
	if (!attached)
		goto out;
	rc = MPI_ERR_OTHER;
	k = gck_mpi_keyval(number, (enum gck_mpi_kind)h->kind);
	if (!k)
		goto out;
	k->references++;
	old = find(h, number);
	if (old)
		unlink_one(old);
	*a = (struct gck_mpi_attribute){attached->attributes, k, *value};
	attached->attributes = a;
	attached->drop_attributes = drop_all;
	a = NULL;
	rc = MPI_SUCCESS;
out:
	pthread_mutex_unlock(&gck_mpi_attached_lock);
	free(a);
	return rc;
}

static int attribute_delete(void *handle, int number)
{
	struct gck_mpi_handle *h = handle;
	struct gck_mpi_attribute **at, *a;
	struct gck_mpi_keyval *k;
	int rc;

	pthread_mutex_lock(&gck_mpi_attached_lock);
	at = find(h, number);
	if (!at || number < GCK_MPI_KEYVALS_PREDEFINED) {
		pthread_mutex_unlock(&gck_mpi_attached_lock);
		return MPI_ERR_OTHER;
	}
	a = *at;
	k = a->keyval;
	k->references++;
	pthread_mutex_unlock(&gck_mpi_attached_lock);
	/* the attribute stays linked during the callback, which may be given its address */
	rc = gck_mpi_keyval_delete(k, handle, &a->value);
	pthread_mutex_lock(&gck_mpi_attached_lock);
	at = find(h, number);
	if (rc == MPI_SUCCESS && at)
		unlink_one(at);
	gck_mpi_keyval_release(k);
	pthread_mutex_unlock(&gck_mpi_attached_lock);
	return rc;
}

int gck_mpi_attribute_set(void *handle, int number, const struct gck_mpi_value *value)
{
	struct gck_mpi_handle *h = handle;
	bool exists;
	int rc;

	if (number < GCK_MPI_KEYVALS_PREDEFINED)
		return MPI_ERR_OTHER;
	pthread_mutex_lock(&gck_mpi_attached_lock);
	exists = find(h, number) != NULL;
	pthread_mutex_unlock(&gck_mpi_attached_lock);
	rc = exists ? attribute_delete(handle, number) : MPI_SUCCESS;
	return rc == MPI_SUCCESS ? gck_mpi_attribute_put(handle, number, value) : rc;
}

int gck_mpi_attribute_get(void *handle, int number, enum gck_mpi_language language,
			  struct gck_mpi_value *value, int *flag)
{
	struct gck_mpi_handle *h = handle;
	struct gck_mpi_attribute **at;
	int rc = MPI_SUCCESS;

	if (h->kind == GCK_MPI_COMM && number >= 0 && number < GCK_MPI_KEYVALS_PREDEFINED)
		rc = gck_mpi_attributes_of_world();
	if (rc != MPI_SUCCESS)
		return rc;
	pthread_mutex_lock(&gck_mpi_attached_lock);
	at = find(h, number);
	if (at && number == MPI_LASTUSEDCODE)
		(*at)->value.integer = gck_mpi_last_code();
	*flag = at != NULL;
	if (at)
		*value = gck_mpi_value_in(&(*at)->value, language);
	else if (!gck_mpi_keyval_exists(number))
		rc = MPI_ERR_OTHER;
	pthread_mutex_unlock(&gck_mpi_attached_lock);
	return rc;
}

/* The number of the newest attribute that the program set; -1: none. */
static int newest(struct gck_mpi_handle *h)
{
	const struct gck_mpi_attribute *a;
	int number;

	pthread_mutex_lock(&gck_mpi_attached_lock);
	a = h->attached ? h->attached->attributes : NULL;
	while (a && a->keyval->number < GCK_MPI_KEYVALS_PREDEFINED)
		a = a->next;
	number = a ? a->keyval->number : -1;
	pthread_mutex_unlock(&gck_mpi_attached_lock);
	return number;
}

int gck_mpi_attributes_delete(void *handle)
{
	int number, rc = MPI_SUCCESS;

	while (rc == MPI_SUCCESS && (number = newest(handle)) >= 0)
		rc = attribute_delete(handle, number);
	return rc;
}

/* Copies all numbers, newest first, because callbacks may change the list. Returns how many; -1: no
 * memory. */
static long list_numbers(const struct gck_mpi_handle *h, int **numbers)
{
	const struct gck_mpi_attribute *first;
	long n = 0;

	*numbers = NULL;
	pthread_mutex_lock(&gck_mpi_attached_lock);
	first = h->attached ? h->attached->attributes : NULL;
	for (const struct gck_mpi_attribute *a = first; a; a = a->next)
		n++;
	if (n)
		*numbers = reallocarray(NULL, (size_t)n, sizeof(**numbers));
	if (n && !*numbers)
		n = -1;
	else
		n = 0;
	for (const struct gck_mpi_attribute *a = first; *numbers && a; a = a->next)
		(*numbers)[n++] = a->keyval->number;
	pthread_mutex_unlock(&gck_mpi_attached_lock);
	return n;
}

/* Predefined attributes are copied except MPI_LASTUSEDCODE, as Open MPI does. */
static int copy_predefined(struct gck_mpi_attribute *a, struct gck_mpi_value *out, int *flag)
{
	*out = a->value;
	*flag = a->keyval->number != MPI_LASTUSEDCODE;
	return MPI_SUCCESS;
}

static int copy_one(void *to, struct gck_mpi_handle *from, int number)
{
	struct gck_mpi_attribute **at, *a = NULL;
	struct gck_mpi_keyval *k = NULL;
	struct gck_mpi_value out;
	int flag = 0, rc;

	pthread_mutex_lock(&gck_mpi_attached_lock);
	at = find(from, number);
	if (at) {
		a = *at;
		k = a->keyval;
		k->references++;
	}
	pthread_mutex_unlock(&gck_mpi_attached_lock);
	if (!a)
		return MPI_SUCCESS;
	rc = k->copy ? gck_mpi_keyval_copy(k, from, &a->value, &out, &flag) :
		       copy_predefined(a, &out, &flag);
	if (rc == MPI_SUCCESS && flag)
		rc = gck_mpi_attribute_put(to, number, &out);
	pthread_mutex_lock(&gck_mpi_attached_lock);
	gck_mpi_keyval_release(k);
	pthread_mutex_unlock(&gck_mpi_attached_lock);
	return rc;
}

int gck_mpi_attributes_copy(void *to, const void *from)
{
	struct gck_mpi_handle *h = (struct gck_mpi_handle *)(uintptr_t)from;
	int *numbers, rc = h->kind == GCK_MPI_COMM ? gck_mpi_attributes_of_world() : MPI_SUCCESS;
	long n;

	if (rc != MPI_SUCCESS)
		return rc;
	n = list_numbers(h, &numbers);
	if (n < 0)
		return MPI_ERR_NO_MEM;
	while (n-- > 0 && rc == MPI_SUCCESS)
		rc = copy_one(to, h, numbers[n]);
	free(numbers);
	return rc;
}

static int is_object(const void *handle, enum gck_mpi_kind kind)
{
	return gck_mpi_is(handle, kind) &&
	       !(((const struct gck_mpi_handle *)handle)->flags & GCK_MPI_NULL);
}

static int create(enum gck_mpi_kind of, void (*copy)(void), void (*delete)(void), void *extra,
		  int *number)
{
	const struct gck_mpi_keyval like = {.of = of, .language = GCK_MPI_C, .copy = copy,
					    .delete = delete, .extra = (intptr_t)extra};

	return gck_mpi_keyval_create(&like, number);
}

static int set(void *handle, int number, void *pointer)
{
	const struct gck_mpi_value v = {.language = GCK_MPI_C, .pointer = pointer};

	return gck_mpi_attribute_set(handle, number, &v);
}

static int get(void *handle, int number, void *pointer, int *flag)
{
	struct gck_mpi_value v;
	int rc;

	if (!pointer || !flag)
		return MPI_ERR_ARG;
	rc = gck_mpi_attribute_get(handle, number, GCK_MPI_C, &v, flag);
	if (rc == MPI_SUCCESS && *flag)
		*(void **)pointer = v.pointer;
	return rc;
}

/* invalid: the error for an invalid handle; owner: the object whose error handler is called. */
#define FOR_KIND(Name, kind, type, invalid, owner) \
	GCK_MPI_FUNCTION(Name##_create_keyval, \
			 (MPI_##Name##_copy_attr_function *copy, \
			  MPI_##Name##_delete_attr_function *delete, int *number, void *extra)) \
	{ \
		return gck_mpi_error(NULL, create(kind, (void (*)(void))copy, \
						  (void (*)(void))delete, extra, number), \
				     "MPI_" #Name "_create_keyval"); \
	} \
	GCK_MPI_FUNCTION(Name##_free_keyval, (int *number)) \
	{ \
		return gck_mpi_error(NULL, gck_mpi_keyval_free(kind, number), \
				     "MPI_" #Name "_free_keyval"); \
	} \
	GCK_MPI_FUNCTION(Name##_set_attr, (type handle, int number, void *value)) \
	{ \
		int rc = is_object(handle, kind) ? set(handle, number, value) : invalid; \
\
		return gck_mpi_error(owner, rc, "MPI_" #Name "_set_attr"); \
	} \
	GCK_MPI_FUNCTION(Name##_get_attr, (type handle, int number, void *value, int *flag)) \
	{ \
		int rc = is_object(handle, kind) ? get(handle, number, value, flag) : invalid; \
\
		return gck_mpi_error(owner, rc, "MPI_" #Name "_get_attr"); \
	} \
	GCK_MPI_FUNCTION(Name##_delete_attr, (type handle, int number)) \
	{ \
		int rc = is_object(handle, kind) ? attribute_delete(handle, number) : \
						   invalid; \
\
		return gck_mpi_error(owner, rc, "MPI_" #Name "_delete_attr"); \
	}

FOR_KIND(Comm, GCK_MPI_COMM, MPI_Comm, MPI_ERR_COMM, handle)
FOR_KIND(Type, GCK_MPI_DATATYPE, MPI_Datatype, MPI_ERR_TYPE, NULL)
FOR_KIND(Win, GCK_MPI_WIN, MPI_Win, MPI_ERR_WIN, handle)

/* The names of MPI-1. */

GCK_MPI_FUNCTION(Keyval_create, (MPI_Copy_function *copy, MPI_Delete_function *delete, int *number,
				 void *extra))
{
	return gck_mpi_error(NULL, create(GCK_MPI_COMM, (void (*)(void))copy,
					  (void (*)(void))delete, extra, number),
			     "MPI_Keyval_create");
}

GCK_MPI_FUNCTION(Keyval_free, (int *number))
{
	return gck_mpi_error(NULL, gck_mpi_keyval_free(GCK_MPI_COMM, number), "MPI_Keyval_free");
}

GCK_MPI_FUNCTION(Attr_put, (MPI_Comm comm, int number, void *value))
{
	int rc = is_object(comm, GCK_MPI_COMM) ? set(comm, number, value) : MPI_ERR_COMM;

	return gck_mpi_error(comm, rc, "MPI_Attr_put");
}

GCK_MPI_FUNCTION(Attr_get, (MPI_Comm comm, int number, void *value, int *flag))
{
	int rc = is_object(comm, GCK_MPI_COMM) ? get(comm, number, value, flag) : MPI_ERR_COMM;

	return gck_mpi_error(comm, rc, "MPI_Attr_get");
}

GCK_MPI_FUNCTION(Attr_delete, (MPI_Comm comm, int number))
{
	int rc = is_object(comm, GCK_MPI_COMM) ? attribute_delete(comm, number) :
						 MPI_ERR_COMM;

	return gck_mpi_error(comm, rc, "MPI_Attr_delete");
}
