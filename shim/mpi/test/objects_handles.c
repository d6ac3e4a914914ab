/* SPDX-License-Identifier: Apache-2.0
 * Handles as Fortran's integers, and the names of MPI's objects. */
#include <string.h>

#include "shim/mpi/test/objects.h"

#define TYPE(type) {#type, type}

static const struct {
	const char *name;
	MPI_Datatype type;
} types[] = {
	TYPE(MPI_DATATYPE_NULL), TYPE(MPI_BYTE), TYPE(MPI_PACKED), TYPE(MPI_CHAR), TYPE(MPI_SHORT),
	TYPE(MPI_INT), TYPE(MPI_LONG), TYPE(MPI_FLOAT), TYPE(MPI_DOUBLE), TYPE(MPI_LONG_DOUBLE),
	TYPE(MPI_UNSIGNED_CHAR), TYPE(MPI_SIGNED_CHAR), TYPE(MPI_UNSIGNED_SHORT),
	TYPE(MPI_UNSIGNED_LONG), TYPE(MPI_UNSIGNED), TYPE(MPI_FLOAT_INT), TYPE(MPI_DOUBLE_INT),
	TYPE(MPI_LONG_DOUBLE_INT), TYPE(MPI_LONG_INT), TYPE(MPI_SHORT_INT), TYPE(MPI_2INT),
	TYPE(MPI_WCHAR), TYPE(MPI_LONG_LONG), TYPE(MPI_UNSIGNED_LONG_LONG), TYPE(MPI_2COMPLEX),
	TYPE(MPI_2DOUBLE_COMPLEX), TYPE(MPI_CHARACTER), TYPE(MPI_LOGICAL), TYPE(MPI_LOGICAL1),
	TYPE(MPI_LOGICAL2), TYPE(MPI_LOGICAL4), TYPE(MPI_LOGICAL8), TYPE(MPI_INTEGER),
	TYPE(MPI_INTEGER1), TYPE(MPI_INTEGER2), TYPE(MPI_INTEGER4), TYPE(MPI_INTEGER8),
	TYPE(MPI_REAL), TYPE(MPI_REAL4), TYPE(MPI_REAL8), TYPE(MPI_REAL16),
	TYPE(MPI_DOUBLE_PRECISION), TYPE(MPI_COMPLEX), TYPE(MPI_COMPLEX8), TYPE(MPI_COMPLEX16),
	TYPE(MPI_COMPLEX32), TYPE(MPI_DOUBLE_COMPLEX), TYPE(MPI_2REAL), TYPE(MPI_2DOUBLE_PRECISION),
	TYPE(MPI_2INTEGER), TYPE(MPI_INT8_T), TYPE(MPI_UINT8_T), TYPE(MPI_INT16_T),
	TYPE(MPI_UINT16_T), TYPE(MPI_INT32_T), TYPE(MPI_UINT32_T), TYPE(MPI_INT64_T),
	TYPE(MPI_UINT64_T), TYPE(MPI_AINT), TYPE(MPI_OFFSET), TYPE(MPI_C_BOOL), TYPE(MPI_C_COMPLEX),
	TYPE(MPI_C_DOUBLE_COMPLEX), TYPE(MPI_C_LONG_DOUBLE_COMPLEX), TYPE(MPI_CXX_BOOL),
	TYPE(MPI_CXX_FLOAT_COMPLEX), TYPE(MPI_CXX_DOUBLE_COMPLEX),
	TYPE(MPI_CXX_LONG_DOUBLE_COMPLEX), TYPE(MPI_COUNT),
};

static const struct {
	const char *name;
	MPI_Op op;
} ops[] = {
	{"null", MPI_OP_NULL}, {"max", MPI_MAX}, {"min", MPI_MIN}, {"sum", MPI_SUM},
	{"prod", MPI_PROD}, {"land", MPI_LAND}, {"band", MPI_BAND}, {"lor", MPI_LOR},
	{"bor", MPI_BOR}, {"lxor", MPI_LXOR}, {"bxor", MPI_BXOR}, {"maxloc", MPI_MAXLOC},
	{"minloc", MPI_MINLOC}, {"replace", MPI_REPLACE}, {"no_op", MPI_NO_OP},
};

static void predefined(void)
{
	char name[MPI_MAX_OBJECT_NAME] = "";
	int length, size, f;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		f = MPI_Type_c2f(types[i].type);
		size = -1;
		MPI_Type_get_name(types[i].type, name, &length);
		if (i)
			MPI_Type_size(types[i].type, &size);
		say("%s: %d %d <%s> %d", types[i].name, f, MPI_Type_f2c(f) == types[i].type, name,
		    size);
	}
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		f = MPI_Op_c2f(ops[i].op);
		say("%s: %d %d", ops[i].name, f, MPI_Op_f2c(f) == ops[i].op);
	}
#define SHOW(kind, handle) \
	say(#handle ": %d %d", MPI_##kind##_c2f(handle), \
	    MPI_##kind##_f2c(MPI_##kind##_c2f(handle)) == (handle))
	SHOW(Comm, MPI_COMM_WORLD);
	SHOW(Comm, MPI_COMM_SELF);
	SHOW(Comm, MPI_COMM_NULL);
	SHOW(Group, MPI_GROUP_NULL);
	SHOW(Group, MPI_GROUP_EMPTY);
	SHOW(Errhandler, MPI_ERRHANDLER_NULL);
	SHOW(Errhandler, MPI_ERRORS_ARE_FATAL);
	SHOW(Errhandler, MPI_ERRORS_RETURN);
	SHOW(Info, MPI_INFO_NULL);
	SHOW(Info, MPI_INFO_ENV);
	SHOW(Request, MPI_REQUEST_NULL);
	SHOW(Message, MPI_MESSAGE_NULL);
	SHOW(Message, MPI_MESSAGE_NO_PROC);
	SHOW(Win, MPI_WIN_NULL);
	SHOW(File, MPI_FILE_NULL);
}

static void none(void)
{
	say("no such number: %d %d %d %d", MPI_Type_f2c(12345) == NULL, MPI_Comm_f2c(-1) == NULL,
	    MPI_Request_f2c(99) == NULL, MPI_Info_f2c(99) == NULL);
}

/* The library chooses the numbers of the program's objects, so only their use is compared. */
static void made(void)
{
	MPI_Datatype type, other;
	MPI_Comm comm;
	MPI_Group group;
	MPI_Info info;
	int t, o, c, g, i;

	MPI_Type_contiguous(2, MPI_INT, &type);
	MPI_Type_contiguous(3, MPI_INT, &other);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_group(comm, &group);
	MPI_Info_create(&info);
	t = MPI_Type_c2f(type);
	o = MPI_Type_c2f(other);
	c = MPI_Comm_c2f(comm);
	g = MPI_Group_c2f(group);
	i = MPI_Info_c2f(info);
	say("distinct: %d", t != o && t != MPI_Type_c2f(MPI_INT));
	cycle();
	say("the same: %d %d %d %d %d", MPI_Type_f2c(t) == type, MPI_Type_f2c(o) == other,
	    MPI_Comm_f2c(c) == comm, MPI_Group_f2c(g) == group, MPI_Info_f2c(i) == info);
	say("again: %d %d", MPI_Type_c2f(type) == t, MPI_Comm_c2f(comm) == c);
	MPI_Type_free(&type);
	MPI_Type_contiguous(4, MPI_INT, &type);
	say("a number is used again: %d", MPI_Type_c2f(type) == t);
	MPI_Type_free(&type);
	MPI_Type_free(&other);
	MPI_Info_free(&info);
	MPI_Group_free(&group);
	MPI_Comm_free(&comm);
}

static void handle_error(MPI_Comm *comm, int *code, ...)
{
	(void)comm, (void)code;
}

/* Objects in use: a window, a file, a pending receive, a matched message. */
static void under_way(void)
{
	MPI_Errhandler errhandler;
	MPI_Request request;
	MPI_Message message;
	int memory[2] = {0, 0}, e, w, f, r, m;
	MPI_Win win;
	MPI_File file;

	MPI_Comm_create_errhandler(handle_error, &errhandler);
	MPI_Win_create(memory, sizeof(memory), 4, MPI_INFO_NULL, MPI_COMM_SELF, &win);
	MPI_File_open(MPI_COMM_SELF, "/dev/null", MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
	MPI_Irecv(&memory[0], 1, MPI_INT, 0, 1, MPI_COMM_SELF, &request);
	MPI_Send(&(int){7}, 1, MPI_INT, 0, 2, MPI_COMM_SELF);
	MPI_Mprobe(0, 2, MPI_COMM_SELF, &message, MPI_STATUS_IGNORE);
	e = MPI_Errhandler_c2f(errhandler);
	w = MPI_Win_c2f(win);
	f = MPI_File_c2f(file);
	r = MPI_Request_c2f(request);
	m = MPI_Message_c2f(message);
	cycle();
	say("the same: %d %d %d %d %d", MPI_Errhandler_f2c(e) == errhandler, MPI_Win_f2c(w) == win,
	    MPI_File_f2c(f) == file, MPI_Request_f2c(r) == request, MPI_Message_f2c(m) == message);
	MPI_Mrecv(&memory[1], 1, MPI_INT, &message, MPI_STATUS_IGNORE);
	MPI_Send(&(int){8}, 1, MPI_INT, 0, 1, MPI_COMM_SELF);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	say("received: %d %d", memory[0], memory[1]);
	say("over: %d %d", MPI_Request_c2f(request) == MPI_Request_c2f(MPI_REQUEST_NULL),
	    MPI_Message_c2f(message) == MPI_Message_c2f(MPI_MESSAGE_NULL));
	MPI_File_close(&file);
	MPI_Win_free(&win);
	MPI_Errhandler_free(&errhandler);
}

static void statuses(void)
{
	MPI_Status status, back;
	MPI_Fint words[6];
	int source, count;

	MPI_Sendrecv("abc", 3, MPI_CHAR, 0, 5, &source, 4, MPI_CHAR, 0, 5, MPI_COMM_SELF, &status);
	MPI_Status_c2f(&status, words);
	memset(&back, 0, sizeof(back));
	MPI_Status_f2c(words, &back);
	MPI_Get_count(&back, MPI_CHAR, &count);
	say("status: %d %d %d, words %d %d", back.MPI_SOURCE, back.MPI_TAG, count, words[0],
	    words[1]);
}

static void names(void)
{
	char name[MPI_MAX_OBJECT_NAME];
	MPI_Comm comm;
	int length;

	MPI_Comm_get_name(MPI_COMM_WORLD, name, &length);
	say("<%s> %d", name, length);
	MPI_Comm_get_name(MPI_COMM_SELF, name, &length);
	say("<%s> %d", name, length);
	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	MPI_Comm_get_name(comm, name, &length);
	say("<%s> %d", name, length);
	MPI_Comm_set_name(comm, "mine");
	MPI_Type_set_name(MPI_INT, "integers");
	cycle();
	MPI_Comm_get_name(comm, name, &length);
	say("<%s> %d", name, length);
	MPI_Type_get_name(MPI_INT, name, &length);
	say("<%s> %d", name, length);
	MPI_Comm_free(&comm);
}

int test_handles(int argc, char **argv)
{
	(void)argc, (void)argv;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	predefined();
	cycle();
	predefined();
	none();
	made();
	under_way();
	statuses();
	names();
	return 0;
}
