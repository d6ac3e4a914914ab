/* SPDX-License-Identifier: Apache-2.0
 * Chapters 8 and 9, environmental management and the info object. */
#include "test/mpi/chapters/chapters.h"

static void inquiry(void)
{
	char name[MPI_MAX_LIBRARY_VERSION_STRING];
	int v[2], n, flag;
	double t = MPI_Wtime();

	MPI_Get_version(&v[0], &v[1]);
	put_ints(2, v);
	MPI_Get_library_version(name, &n);
	put(" %.12s", name);
	MPI_Get_processor_name(name, &n);
	put(" %s", name);
	pending();
	MPI_Initialized(&flag);
	put(" %d %d %d", MPI_Wtime() > t, MPI_Wtick() > 0, flag);
	MPI_Finalized(&flag);
	put(" %d", flag);
}

static int handled;

static void on_error(MPI_Comm *c, int *rc, ...)
{
	handled += 1 + (*c == MPI_COMM_NULL);
	MPI_Error_class(*rc, rc);
}

static void handlers(void)
{
	MPI_Errhandler mine, got;
	MPI_Comm c;
	int v = 0;

	handled = 0;
	MPI_Comm_create_errhandler(on_error, &mine);
	MPI_Comm_dup(MPI_COMM_WORLD, &c);
	MPI_Comm_get_errhandler(c, &got);
	put(" %d", got == MPI_ERRORS_RETURN);
	MPI_Errhandler_free(&got);
	MPI_Comm_set_errhandler(c, mine);
	MPI_Errhandler_free(&mine);
	pending();
	put_class(MPI_Send(&v, 1, MPI_INT, size, 0, c));
	put_class(MPI_Comm_call_errhandler(c, MPI_ERR_OTHER));
	put(" %d", handled);
	MPI_Comm_free(&c);
}

static void classes(void)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int class, code, n;

	for (int i = MPI_SUCCESS; i <= MPI_ERR_LASTCODE && i < 60; i++) {
		MPI_Error_string(i, text, &n);
		put(" %s", text);
	}
	MPI_Add_error_class(&class);
	MPI_Add_error_code(class, &code);
	MPI_Add_error_string(code, "an error of ours");
	pending();
	MPI_Error_string(code, text, &n);
	MPI_Error_class(code, &n);
	put(" %s %d", text, n == class);
}

static void memory(void)
{
	char *p = NULL;

	put_class(MPI_Alloc_mem(10000, MPI_INFO_NULL, &p));
	memset(p, 3, 10000);
	pending();
	put(" %d", p[9999]);
	put_class(MPI_Free_mem(p));
}

static void info(void)
{
	char value[20] = "", key[MPI_MAX_INFO_KEY];
	MPI_Info a, b;
	int n, flag;

	MPI_Info_create(&a);
	MPI_Info_set(a, "one", "1");
	MPI_Info_set(a, "two", "2");
	MPI_Info_set(a, "one", "first");
	MPI_Info_dup(a, &b);
	put_class(MPI_Info_delete(a, "two"));
	put_class(MPI_Info_delete(a, "three"));
	pending();
	MPI_Info_get_nkeys(a, &n);
	put(" %d", n);
	MPI_Info_get_nkeys(b, &n);
	for (int i = 0; i < n; i++) {
		MPI_Info_get_nthkey(b, i, key);
		MPI_Info_get(b, key, 3, value, &flag);
		put(" %s=%s", key, value);
	}
	MPI_Info_get_valuelen(b, "one", &n, &flag);
	put(" %d %d", n, flag);
	MPI_Info_free(&a);
	MPI_Info_free(&b);
	put(" %d", a == MPI_INFO_NULL);
}

const struct claim environment[] = {
	{"inquiry and time", inquiry},
	{"error handlers", handlers},
	{"error classes and strings", classes},
	{"memory", memory},
	{"info", info},
	{NULL, NULL},
};
