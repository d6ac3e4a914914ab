/* SPDX-License-Identifier: Apache-2.0
 * Attributes and key values of communicators, datatypes and windows; their callbacks. */
#include <stdint.h>
#include <string.h>

#include "shim/mpi/test/objects.h"

static int fail_copy, fail_delete;

#define CALLBACKS(name, type) \
	static int copy_##name(type of, int key, void *extra, void *in, void *out, int *flag) \
	{ \
		(void)of, (void)key; \
		say("copy of " #name ": %s %ld", (char *)extra, (long)(intptr_t)in); \
		*(void **)out = (void *)((intptr_t)in + 1); \
		*flag = (intptr_t)in % 2 == 0; \
		return fail_copy ? MPI_ERR_OTHER : MPI_SUCCESS; \
	} \
	static int delete_##name(type of, int key, void *value, void *extra) \
	{ \
		(void)of, (void)key; \
		say("delete of " #name ": %s %ld", (char *)extra, (long)(intptr_t)value); \
		return fail_delete ? MPI_ERR_OTHER : MPI_SUCCESS; \
	}

CALLBACKS(comm, MPI_Comm)
CALLBACKS(type, MPI_Datatype)
CALLBACKS(win, MPI_Win)

static void show(const char *what, MPI_Comm comm, int key)
{
	void *value;
	int flag;

	MPI_Comm_get_attr(comm, key, &value, &flag);
	say("%s: %d %ld", what, flag, flag ? (long)(intptr_t)value : 0);
}

static void communicators(void)
{
	char extra[] = "extra";
	int first, second, third;
	MPI_Comm comm, copy, split;

	MPI_Comm_create_keyval(copy_comm, delete_comm, &first, extra);
	MPI_Comm_create_keyval(MPI_COMM_DUP_FN, delete_comm, &second, extra);
	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &third, NULL);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_set_attr(comm, first, (void *)10);
	MPI_Comm_set_attr(comm, second, (void *)21);
	MPI_Comm_set_attr(comm, third, (void *)30);
	MPI_Comm_set_attr(comm, second, (void *)20);
	MPI_Comm_dup(comm, &copy);
	cycle();
	show("first", copy, first);
	show("second", copy, second);
	show("third", copy, third);
	show("third of the original", comm, third);
	MPI_Comm_split(comm, 0, 0, &split);
	show("first of a split", split, first);
	MPI_Comm_free(&split);
	MPI_Comm_delete_attr(copy, second);
	show("deleted", copy, second);
	MPI_Comm_free_keyval(&first);
	say("invalid: %d", first == MPI_KEYVAL_INVALID);
	MPI_Comm_free(&copy);
	fail_delete = 1;
	say("freed: %d %d", MPI_Comm_free(&comm), comm == MPI_COMM_NULL);
	fail_delete = 0;
	say("freed: %d %d", MPI_Comm_free(&comm), comm == MPI_COMM_NULL);
	MPI_Comm_free_keyval(&second);
	MPI_Comm_free_keyval(&third);
}

static void datatypes(void)
{
	char extra[] = "types'";
	MPI_Datatype type, copy;
	void *value;
	int key, flag;

	MPI_Type_create_keyval(copy_type, delete_type, &key, extra);
	MPI_Type_contiguous(3, MPI_INT, &type);
	MPI_Type_set_attr(type, key, (void *)40);
	MPI_Type_dup(type, &copy);
	cycle();
	MPI_Type_get_attr(copy, key, &value, &flag);
	say("copy: %d %ld", flag, (long)(intptr_t)value);
	fail_copy = 1;
	say("dup: %d", MPI_Type_dup(type, &type));
	fail_copy = 0;
	MPI_Type_free(&copy);
	MPI_Type_set_attr(MPI_INT, key, (void *)50);
	MPI_Type_get_attr(MPI_INT, key, &value, &flag);
	say("MPI_INT: %d %ld", flag, (long)(intptr_t)value);
	MPI_Type_delete_attr(MPI_INT, key);
	MPI_Type_free_keyval(&key);
}

static void windows(void)
{
	char extra[] = "windows'";
	int memory[8], key, flag, *integer;
	MPI_Aint *size;
	void *value;
	MPI_Win win;

	MPI_Win_create(memory, sizeof(memory), 4, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	MPI_Win_create_keyval(copy_win, delete_win, &key, extra);
	MPI_Win_set_attr(win, key, (void *)60);
	cycle();
	MPI_Win_get_attr(win, key, &value, &flag);
	say("window: %d %ld", flag, (long)(intptr_t)value);
	say("deleted: %d", MPI_Win_delete_attr(win, key));
	MPI_Win_get_attr(win, key, &value, &flag);
	say("window: %d", flag);
	MPI_Win_set_attr(win, key, (void *)70);
	MPI_Win_get_attr(win, MPI_WIN_BASE, &value, &flag);
	say("base: %d %d", flag, value == memory);
	MPI_Win_get_attr(win, MPI_WIN_SIZE, &size, &flag);
	say("size: %d %ld", flag, (long)*size);
	MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, &integer, &flag);
	say("unit: %d %d", flag, *integer);
	MPI_Win_get_attr(win, MPI_WIN_CREATE_FLAVOR, &integer, &flag);
	say("flavor: %d %d", flag, *integer);
	MPI_Win_free(&win);
	MPI_Win_free_keyval(&key);
}

static void predefined(void)
{
	MPI_Comm copy, split;
	void *value;

	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &split);
	for (int key = MPI_TAG_UB; key <= MPI_WIN_MODEL; key++) {
		int flags[4] = {-1, -1, -1, -1}, number;

		MPI_Comm_get_attr(copy, key, &value, &flags[1]);
		MPI_Comm_get_attr(split, key, &value, &flags[2]);
		MPI_Comm_get_attr(MPI_COMM_SELF, key, &value, &flags[3]);
		MPI_Comm_get_attr(MPI_COMM_WORLD, key, &value, &flags[0]);
		number = flags[0] ? *(int *)value : 0;
		if (key == MPI_TAG_UB) /* half as high under the stand-in */
			number = number >= 32767;
		say("predefined %d: %d %d %d %d: %d", key, flags[0], flags[1], flags[2], flags[3],
		    number);
	}
	MPI_Comm_free(&copy);
	MPI_Comm_free(&split);
}

static void errors(void)
{
	int key = MPI_TAG_UB, flag, type_key;
	void *value;

	MPI_Type_create_keyval(copy_type, delete_type, &type_key, NULL);
	say("predefined: %d %d %d", MPI_Comm_set_attr(MPI_COMM_WORLD, MPI_TAG_UB, NULL),
	    MPI_Comm_delete_attr(MPI_COMM_WORLD, MPI_TAG_UB), MPI_Comm_free_keyval(&key));
	say("none: %d %d %d", MPI_Comm_get_attr(MPI_COMM_WORLD, 999, &value, &flag),
	    MPI_Comm_set_attr(MPI_COMM_WORLD, 999, NULL),
	    MPI_Comm_delete_attr(MPI_COMM_WORLD, 999));
	say("another kind's: %d %d", MPI_Comm_set_attr(MPI_COMM_WORLD, type_key, NULL),
	    MPI_Comm_free_keyval(&type_key));
	say("no object: %d %d %d", MPI_Comm_get_attr(MPI_COMM_NULL, MPI_TAG_UB, &value, &flag),
	    MPI_Type_get_attr(MPI_DATATYPE_NULL, type_key, &value, &flag),
	    MPI_Win_get_attr(MPI_WIN_NULL, MPI_WIN_BASE, &value, &flag));
	MPI_Type_free_keyval(&type_key);
}

int test_attributes(int argc, char **argv)
{
	static char extra[] = "at the end";
	int key;

	(void)argc, (void)argv;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	predefined();
	cycle();
	predefined();
	communicators();
	datatypes();
	windows();
	errors();
	/* MPI_Finalize deletes these, the newest first */
	for (int i = 0; i < 3; i++) {
		MPI_Comm_create_keyval(copy_comm, delete_comm, &key, extra);
		MPI_Comm_set_attr(MPI_COMM_SELF, key, (void *)(intptr_t)(70 + i));
		MPI_Comm_set_attr(MPI_COMM_WORLD, key, (void *)(intptr_t)(80 + i));
	}
	return 0;
}
