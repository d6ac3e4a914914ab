// SPDX-License-Identifier: Apache-2.0
/* MPI_T: numbers and handles of a tool stay valid over a cycle. */
#include "shim/mpi/test/family.h"

#define TEXT 512

struct cvar {
	char name[TEXT];
	int rc, verbosity, bind, scope, items;
	MPI_Datatype type;
	MPI_T_enum e;
};

static struct cvar ask(int index)
{
	struct cvar c = {.items = -1};
	char text[TEXT];
	int length = TEXT, none = 0, value;

	c.rc = MPI_T_cvar_get_info(index, c.name, &length, &c.verbosity, &c.type, &c.e, NULL, &none,
				   &c.bind, &c.scope);
	length = TEXT;
	if (!c.rc && c.e != MPI_T_ENUM_NULL)
		IS(MPI_T_enum_get_info(c.e, &c.items, text, &length), MPI_SUCCESS);
	for (int i = 0; i < c.items; i++) { /* each has a name */
		length = TEXT;
		*text = '\0';
		IS(MPI_T_enum_get_item(c.e, i, &value, text, &length), MPI_SUCCESS);
		CHECK(*text);
	}
	return c;
}

static void test_cvars(void)
{
	struct cvar *v;
	int n = 0, found;

	IS(MPI_T_cvar_get_num(&n), MPI_SUCCESS);
	CHECK(n > 500);
	v = calloc((size_t)n, sizeof(*v));
	for (int i = 0; i < n; i++)
		v[i] = ask(i);
	cycle();
	for (int i = 0; i < n; i++) {
		struct cvar now = ask(i);

		IS(now.rc, v[i].rc);
		if (now.rc)
			continue;
		CHECK(!strcmp(now.name, v[i].name));
		CHECK(now.type == v[i].type);
		CHECK(now.e == v[i].e);
		IS(now.items, v[i].items);
		IS(MPI_T_cvar_get_index(now.name, &found), MPI_SUCCESS);
		IS(found, i);
	}
	CHECK(MPI_T_cvar_get_index("no such variable", &found) != MPI_SUCCESS);
	free(v);
}

static void test_writing(void)
{
	const char *names[] = {"opal_event_verbose", "btl_tcp_if_seq", "pml_base_verbose",
			       "coll_tuned_bcast_algorithm_segmentsize", NULL};
	int written = 0;

	for (int i = 0; names[i]; i++) {
		MPI_T_cvar_handle h;
		int index, count, was = -1, value, now = -1;

		if (MPI_T_cvar_get_index(names[i], &index) || ask(index).type != MPI_INT ||
		    MPI_T_cvar_handle_alloc(index, NULL, &h, &count))
			continue;
		IS(count, 1);
		IS(MPI_T_cvar_read(h, &was), MPI_SUCCESS);
		value = was == 0 ? 1 : 0;
		if (!MPI_T_cvar_write(h, &value)) {
			written++;
			cycle();
			IS(MPI_T_cvar_read(h, &now), MPI_SUCCESS);
			IS(now, value);
			IS(MPI_T_cvar_write(h, &was), MPI_SUCCESS);
		}
		IS(MPI_T_cvar_handle_free(&h), MPI_SUCCESS);
		CHECK(h == MPI_T_CVAR_HANDLE_NULL);
	}
	CHECK(written);
}

struct pvar {
	char name[TEXT];
	int rc, class, bind, readonly, continuous, atomic;
	MPI_Datatype type;
};

static struct pvar ask_pvar(int index)
{
	struct pvar p = {.class = -1};
	int length = TEXT, none = 0, verbosity;
	MPI_T_enum e;

	p.rc = MPI_T_pvar_get_info(index, p.name, &length, &verbosity, &p.class, &p.type, &e, NULL,
				   &none, &p.bind, &p.readonly, &p.continuous, &p.atomic);
	return p;
}

static void test_pvar_list(void)
{
	int n = 0, found;
	struct pvar *v;

	IS(MPI_T_pvar_get_num(&n), MPI_SUCCESS);
	CHECK(n > 10);
	v = calloc((size_t)n, sizeof(*v));
	for (int i = 0; i < n; i++)
		v[i] = ask_pvar(i);
	cycle();
	for (int i = 0; i < n; i++) {
		struct pvar now = ask_pvar(i);

		IS(now.rc, v[i].rc);
		if (now.rc)
			continue;
		CHECK(!strcmp(now.name, v[i].name));
		CHECK(now.type == v[i].type);
		IS(now.class, v[i].class);
		IS(now.readonly * 4 + now.continuous * 2 + now.atomic,
		   v[i].readonly * 4 + v[i].continuous * 2 + v[i].atomic);
		IS(MPI_T_pvar_get_index(now.name, now.class, &found), MPI_SUCCESS);
		IS(found, i);
	}
	free(v);
}

/* The operations that a variable allows are the same before and after a cycle. */
static void test_pvar_verbs(void)
{
	int index = -1, count = 0, stop, start, reset, readreset;
	MPI_T_pvar_session session;
	MPI_Comm comm = MPI_COMM_WORLD;
	MPI_T_pvar_handle h;
	unsigned *v;

	IS(MPI_T_pvar_session_create(&session), MPI_SUCCESS);
	IS(MPI_T_pvar_get_index("pml_ob1_unexpected_msgq_length", MPI_T_PVAR_CLASS_SIZE, &index),
	   MPI_SUCCESS);
	IS(MPI_T_pvar_handle_alloc(session, index, &comm, &h, &count), MPI_SUCCESS);
	v = calloc((size_t)count + 16, sizeof(*v));
	CHECK(ask_pvar(index).continuous);
	stop = MPI_T_pvar_stop(session, h);
	start = MPI_T_pvar_start(session, h);
	reset = MPI_T_pvar_reset(session, h);
	readreset = MPI_T_pvar_readreset(session, h, v);
	cycle();
	IS(MPI_T_pvar_stop(session, h), stop);
	IS(MPI_T_pvar_start(session, h), start);
	IS(MPI_T_pvar_reset(session, h), reset);
	IS(MPI_T_pvar_readreset(session, h, v), readreset);
	IS(stop, MPI_T_ERR_PVAR_NO_STARTSTOP);
	IS(start, MPI_T_ERR_PVAR_NO_STARTSTOP);
	CHECK(reset != MPI_SUCCESS); /* a read-only variable */
	IS(MPI_T_pvar_stop(session, MPI_T_PVAR_ALL_HANDLES), MPI_SUCCESS);
	IS(MPI_T_pvar_session_free(&session), MPI_SUCCESS);
	free(v);
}

/* Unexpected messages, counted for a communicator. */
static void test_pvars(void)
{
	const char *name = "pml_ob1_unexpected_msgq_length";
	int index = -1, count = 0, out = 1, in;
	MPI_T_pvar_session session;
	MPI_T_pvar_handle h;
	MPI_Comm comm;
	unsigned *v;

	MPI_Comm_dup(MPI_COMM_WORLD, &comm);
	IS(MPI_T_pvar_session_create(&session), MPI_SUCCESS);
	IS(MPI_T_pvar_get_index(name, MPI_T_PVAR_CLASS_SIZE, &index), MPI_SUCCESS);
	IS(MPI_T_pvar_handle_alloc(session, index, &comm, &h, &count), MPI_SUCCESS);
	IS(count, size);
	v = calloc((size_t)count + 16, sizeof(*v));
	MPI_T_pvar_start(session, h); /* fails if it is always counted */
	for (int turn = 0; turn < 2; turn++) {
		MPI_Barrier(comm);
		for (int i = 0; i < 5 && rank == 1; i++)
			MPI_Send(&out, 1, MPI_INT, 0, i, comm);
		if (rank == 0) {
			MPI_Probe(1, 4, comm, MPI_STATUS_IGNORE);
			IS(MPI_T_pvar_read(session, h, v), MPI_SUCCESS);
			CHECK(v[1] >= 5); /* may include the barrier's messages */
		}
		for (int i = 0; i < 5 && rank == 0; i++)
			MPI_Recv(&in, 1, MPI_INT, 1, i, comm, MPI_STATUS_IGNORE);
		MPI_Barrier(comm);
		cycle();
	}
	CHECK(MPI_T_pvar_write(session, h, v) != MPI_SUCCESS);
	IS(MPI_T_pvar_handle_free(session, &h), MPI_SUCCESS);
	IS(MPI_T_pvar_handle_alloc(session, index, &comm, &h, &count), MPI_SUCCESS);
	IS(MPI_T_pvar_session_free(&session), MPI_SUCCESS);
	CHECK(session == MPI_T_PVAR_SESSION_NULL);
	MPI_Comm_free(&comm);
	free(v);
}

/* The members that a category lists exist. */
static void test_members(int category, int pvars, int categories)
{
	int *list = calloc((size_t)(pvars > categories ? pvars : categories) + 1, sizeof(*list)), n;

	IS(MPI_T_category_get_pvars(category, pvars, list), MPI_SUCCESS);
	IS(MPI_T_pvar_get_num(&n), MPI_SUCCESS);
	for (int i = 0; i < pvars; i++)
		CHECK(list[i] >= 0 && list[i] < n);
	IS(MPI_T_category_get_categories(category, categories, list), MPI_SUCCESS);
	IS(MPI_T_category_get_num(&n), MPI_SUCCESS);
	for (int i = 0; i < categories; i++)
		CHECK(list[i] >= 0 && list[i] < n);
	free(list);
}

static void test_categories(void)
{
	char name[TEXT] = "", again[TEXT];
	int n = 0, length, none = 0, cvars = 0, pvars = 0, categories = 0, index = -1, found = 0,
	    *list, stamp;

	IS(MPI_T_category_get_num(&n), MPI_SUCCESS);
	for (int i = 0; i < n; i++) {
		length = TEXT;
		none = 0;
		if (MPI_T_category_get_info(i, name, &length, NULL, &none, &cvars, &pvars,
					    &categories))
			continue;
		test_members(i, pvars, categories);
		if (cvars < 2 || found++)
			continue;
		list = calloc((size_t)cvars, sizeof(*list));
		IS(MPI_T_category_get_cvars(i, cvars, list), MPI_SUCCESS);
		cycle();
		length = TEXT;
		IS(MPI_T_category_get_info(i, again, &length, NULL, &none, &cvars, &pvars,
					   &categories),
		   MPI_SUCCESS);
		CHECK(!strcmp(name, again));
		IS(MPI_T_category_get_index(name, &index), MPI_SUCCESS);
		IS(index, i);
		CHECK(!ask(list[1]).rc);
		free(list);
	}
	CHECK(found);
	IS(MPI_T_category_changed(&stamp), MPI_SUCCESS);
}

int main(int argc, char **argv)
{
	int provided = -1;

	MPI_Init(&argc, &argv);
	begin();
	IS(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided), MPI_SUCCESS);
	family("control variables", test_cvars);
	family("writing control variables", test_writing);
	family("the list of performance variables", test_pvar_list);
	family("starting and stopping performance variables", test_pvar_verbs);
	family("values of performance variables", test_pvars);
	family("categories", test_categories);
	MPI_T_finalize();
	return end();
}
