/* SPDX-License-Identifier: Apache-2.0
 * Attributes and key values of communicators and types; other local calls of MPI: names, info
 * objects, error handlers. */
#include "traffic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- attributes, whose callbacks count their calls */

struct calls {
	int copied, deleted;
};

static int copy_comm(MPI_Comm comm, int key, void *extra, void *in, void *out, int *flag)
{
	(void)comm;
	(void)key;
	((struct calls *)extra)->copied++;
	*(void **)out = (char *)in + 1;
	*flag = 1;
	return MPI_SUCCESS;
}

static int delete_comm(MPI_Comm comm, int key, void *value, void *extra)
{
	(void)comm;
	(void)key;
	(void)value;
	((struct calls *)extra)->deleted++;
	return MPI_SUCCESS;
}

static int copy_type(MPI_Datatype type, int key, void *extra, void *in, void *out, int *flag)
{
	(void)type;
	return copy_comm(MPI_COMM_NULL, key, extra, in, out, flag);
}

static int delete_type(MPI_Datatype type, int key, void *value, void *extra)
{
	(void)type;
	return delete_comm(MPI_COMM_NULL, key, value, extra);
}

static void comm_attributes(struct tr_run *r, struct tr_comm *c)
{
	struct calls calls = {0};
	char here[2];
	int key, plain, flag;
	void *value;
	MPI_Comm dup;

	MPI_Comm_create_keyval(copy_comm, delete_comm, &key, &calls);
	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &plain, NULL);
	MPI_Comm_set_attr(c->comm, key, here);
	MPI_Comm_set_attr(c->comm, plain, here);
	MPI_Comm_dup(c->comm, &dup);
	tr_equal(r, "calls of the copy function", calls.copied, 1);
	MPI_Comm_get_attr(dup, key, &value, &flag);
	tr_need(r, flag && value == here + 1,
		"a duplicate's attribute is not what the copy function said");
	MPI_Comm_get_attr(dup, plain, &value, &flag);
	tr_equal(r, "whether an attribute without a copy function is copied", flag, 0);
	MPI_Comm_free(&dup);
	tr_equal(r, "calls of the delete function", calls.deleted, 1);
	MPI_Comm_delete_attr(c->comm, key);
	tr_equal(r, "calls of the delete function", calls.deleted, 2);
	MPI_Comm_get_attr(c->comm, key, &value, &flag);
	tr_equal(r, "whether a deleted attribute is there", flag, 0);
	MPI_Comm_delete_attr(c->comm, plain);
	MPI_Comm_free_keyval(&key);
	MPI_Comm_free_keyval(&plain);
	tr_equal(r, "a freed key value", key, MPI_KEYVAL_INVALID);
}

static void type_attributes(struct tr_run *r)
{
	struct calls calls = {0};
	char here[2];
	MPI_Datatype type, dup;
	void *value;
	int key, flag;

	MPI_Type_create_keyval(copy_type, delete_type, &key, &calls);
	MPI_Type_contiguous(3, MPI_INT, &type);
	MPI_Type_set_attr(type, key, here);
	MPI_Type_dup(type, &dup);
	MPI_Type_get_attr(dup, key, &value, &flag);
	tr_need(r, flag && value == here + 1,
		"a duplicate's attribute is not what the copy function said");
	MPI_Type_free(&type);
	MPI_Type_free(&dup);
	tr_equal(r, "calls of a type's delete function", calls.deleted, 2);
	MPI_Type_free_keyval(&key);
}

static void predefined(struct tr_run *r)
{
	int flag, *bound;

	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &flag);
	tr_need(r, flag && *bound >= 32767, "MPI_TAG_UB is less than the standard's 32767");
}

void tr_attr_step(struct tr_run *r)
{
	struct tr_comm *c = tr_comm_draw(r);

	if (c->rank >= 0)
		comm_attributes(r, c);
	type_attributes(r);
	predefined(r);
}

/* ---- names, info, error handlers */

static void names(struct tr_run *r, struct tr_comm *c)
{
	char want[MPI_MAX_OBJECT_NAME], got[MPI_MAX_OBJECT_NAME];
	int length;

	if (c == &r->comms[0])
		return; /* the name of MPI_COMM_WORLD is not changed */
	snprintf(want, sizeof(want), "traffic %d", r->step);
	MPI_Comm_set_name(c->comm, want);
	MPI_Comm_get_name(c->comm, got, &length);
	tr_need(r, !strcmp(got, want) && length == (int)strlen(want),
		"a communicator's name is %s, expected %s", got, want);
	MPI_Type_get_name(MPI_INT, got, &length);
	tr_need(r, !strcmp(got, "MPI_INT"), "the name of MPI_INT is %s", got);
}

static void info(struct tr_run *r)
{
	char value[32], key[MPI_MAX_INFO_KEY + 1];
	MPI_Info a, b;
	int flag, n, length;

	MPI_Info_create(&a);
	MPI_Info_set(a, "first", "one");
	MPI_Info_set(a, "second", "two");
	MPI_Info_dup(a, &b);
	MPI_Info_delete(a, "first");
	MPI_Info_get(a, "first", sizeof(value) - 1, value, &flag);
	tr_equal(r, "whether a deleted key is there", flag, 0);
	MPI_Info_get_nkeys(b, &n);
	tr_equal(r, "keys of a duplicate", n, 2);
	MPI_Info_get(b, "second", sizeof(value) - 1, value, &flag);
	tr_need(r, flag && !strcmp(value, "two"), "an info value is not what was set");
	MPI_Info_get_valuelen(b, "first", &length, &flag);
	tr_equal(r, "length of an info value", length, 3);
	MPI_Info_get_nthkey(b, 0, key);
	tr_need(r, !strcmp(key, "first"), "the first key is %s", key);
	MPI_Info_free(&a);
	MPI_Info_free(&b);
	tr_need(r, a == MPI_INFO_NULL, "a freed info object is still there");
}

static __thread int error_seen;

static void on_error(MPI_Comm *comm, int *code, ...)
{
	(void)comm;
	MPI_Error_class(*code, &error_seen);
}

/* A message to an invalid rank: the handler is called or the code returned. */
static void errors(struct tr_run *r, struct tr_comm *c)
{
	int beyond = tr_peers(c, c->side)->n, rc, class, length;
	char text[MPI_MAX_ERROR_STRING];
	MPI_Errhandler handler, before;

	MPI_Comm_get_errhandler(c->comm, &before);
	MPI_Comm_create_errhandler(on_error, &handler);
	MPI_Comm_set_errhandler(c->comm, handler);
	MPI_Errhandler_free(&handler);
	error_seen = MPI_SUCCESS;
	MPI_Send(NULL, 0, MPI_INT, beyond, 0, c->comm);
	tr_equal(r, "class of the error that a handler was given", error_seen, MPI_ERR_RANK);
	MPI_Comm_set_errhandler(c->comm, MPI_ERRORS_RETURN);
	rc = MPI_Send(NULL, 0, MPI_INT, beyond, 0, c->comm);
	MPI_Error_class(rc, &class);
	tr_equal(r, "class of the error that was returned", class, MPI_ERR_RANK);
	rc = MPI_Send(NULL, -1, MPI_INT, 0, 0, c->comm);
	MPI_Error_class(rc, &class);
	tr_equal(r, "class of the error for a negative count", class, MPI_ERR_COUNT);
	MPI_Comm_set_errhandler(c->comm, before);
	MPI_Errhandler_free(&before);
	MPI_Error_string(class, text, &length);
	tr_need(r, length > 0 && length == (int)strlen(text), "Error_string's length is wrong");
}

void tr_object_step(struct tr_run *r)
{
	struct tr_comm *c = tr_comm_draw(r);

	info(r);
	if (c->rank < 0)
		return;
	names(r, c);
	errors(r, c);
}
