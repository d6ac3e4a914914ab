/* SPDX-License-Identifier: Apache-2.0
 * MPI_T's performance variables and their sessions. */
#include "config.h"

#include "shim/mpi/base/function.h"
#include "shim/mpi/tool/tool.h"
#include "shim/mpi/types/datatype.h"

struct session {
	struct gck_mpi_handle h;
};

struct pvar {
	struct gck_mpi_handle h;
	struct session *session;
	int index; /* the program's */
	struct gck_mpi_t_object object;
	bool started;
};

/* ---- variables ------------------------------------------------------------------------------ */

GCK_MPI_FUNCTION(T_pvar_get_num, (int *num_pvar))
{
	int rc;

	gck_mpi_enter();
	rc = gck_mpi_real.T_pvar_get_num(num_pvar);
	if (!rc)
		*num_pvar = gck_mpi_t_count(GCK_MPI_T_PVARS, *num_pvar);
	gck_mpi_leave();
	return rc;
}

GCK_MPI_FUNCTION(T_pvar_get_info, (int pvar_index, char *name, int *name_len, int *verbosity,
				   int *var_class, MPI_Datatype *datatype, MPI_T_enum *enumtype,
				   char *desc, int *desc_len, int *bind, int *readonly,
				   int *continuous, int *atomic))
{
	int rc;

	gck_mpi_enter();
	rc = gck_mpi_real.T_pvar_get_info(gck_mpi_t_real_index(GCK_MPI_T_PVARS, pvar_index), name,
					  name_len, verbosity, var_class, datatype, enumtype, desc,
					  desc_len, bind, readonly, continuous, atomic);
	if (!rc && datatype)
		*datatype = gck_mpi_type_of_real(*datatype);
	if (!rc && enumtype)
		*enumtype = gck_mpi_t_enum_of_real(*enumtype, GCK_MPI_T_PVARS, pvar_index);
	gck_mpi_leave();
	return rc;
}

GCK_MPI_FUNCTION(T_pvar_get_index, (const char *name, int var_class, int *pvar_index))
{
	int rc;

	gck_mpi_enter();
	rc = gck_mpi_real.T_pvar_get_index(name, var_class, pvar_index);
	if (!rc)
		*pvar_index = gck_mpi_t_our_index(GCK_MPI_T_PVARS, *pvar_index);
	gck_mpi_leave();
	return rc;
}

/* ---- sessions ------------------------------------------------------------------------------- */

GCK_MPI_FUNCTION(T_pvar_session_create, (MPI_T_pvar_session *session))
{
	MPI_T_pvar_session real;
	struct session *s;
	int rc;

	if (!session)
		return MPI_ERR_ARG;
	gck_mpi_enter();
	rc = gck_mpi_real.T_pvar_session_create(&real);
	if (!rc) {
		s = gck_mpi_handle_new(GCK_MPI_T_SESSION, sizeof(*s), real);
		if (s) {
			*session = (MPI_T_pvar_session)s;
		} else {
			gck_mpi_real.T_pvar_session_free(&real);
			rc = MPI_T_ERR_OUT_OF_SESSIONS;
		}
	}
	gck_mpi_leave();
	return rc;
}

/* Freeing a session frees its handles. */
GCK_MPI_FUNCTION(T_pvar_session_free, (MPI_T_pvar_session *session))
{
	struct session *s = session ? gck_mpi_t_of(*session, GCK_MPI_T_SESSION) : NULL;
	MPI_T_pvar_session real;
	int rc;

	if (!s)
		return MPI_T_ERR_INVALID_SESSION;
	gck_mpi_enter();
	real = s->h.real;
	rc = gck_mpi_real.T_pvar_session_free(&real);
	if (!rc) {
		for (struct gck_mpi_handle *h = gck_mpi_first(GCK_MPI_T_PVAR), *next; h; h = next) {
			next = h->next;
			if (((struct pvar *)h)->session == s)
				gck_mpi_handle_free(h);
		}
		gck_mpi_handle_free(s);
		*session = MPI_T_PVAR_SESSION_NULL;
	}
	gck_mpi_leave();
	return rc;
}

/* ---- handles -------------------------------------------------------------------------------- */

/* In the gate. */
static int alloc_real(struct pvar *p, int *count)
{
	MPI_T_pvar_handle real = NULL;
	int rc = gck_mpi_real.T_pvar_handle_alloc(p->session->h.real,
						  gck_mpi_t_real_index(GCK_MPI_T_PVARS, p->index),
						  gck_mpi_t_bound(&p->object), &real, count);

	if (!rc)
		gck_mpi_handle_set_real(p, real);
	return rc;
}

static int bind_of(int index, int *bind)
{
	int zero = 0, u;
	MPI_Datatype type;
	MPI_T_enum e;

	return gck_mpi_real.T_pvar_get_info(gck_mpi_t_real_index(GCK_MPI_T_PVARS, index), NULL,
					    &zero, &u, &u, &type, &e, NULL, &zero, bind, &u, &u,
					    &u);
}

static int alloc(struct session *s, int index, void *obj_handle, MPI_T_pvar_handle *handle,
		 int *count)
{
	struct pvar *p;
	int bind = 0, rc = bind_of(index, &bind);

	if (rc)
		return rc;
	p = gck_mpi_handle_new(GCK_MPI_T_PVAR, sizeof(*p), NULL);
	if (!p)
		return MPI_T_ERR_OUT_OF_HANDLES;
	p->session = s;
	p->index = index;
	gck_mpi_t_bind(&p->object, bind, obj_handle);
	rc = alloc_real(p, count);
	if (rc)
		gck_mpi_handle_free(p);
	else
		*handle = (MPI_T_pvar_handle)p;
	return rc;
}

GCK_MPI_FUNCTION(T_pvar_handle_alloc, (MPI_T_pvar_session session, int pvar_index, void *obj_handle,
				       MPI_T_pvar_handle *handle, int *count))
{
	struct session *s = gck_mpi_t_of(session, GCK_MPI_T_SESSION);
	int rc;

	if (!s)
		return MPI_T_ERR_INVALID_SESSION;
	gck_mpi_enter();
	rc = handle && count ? alloc(s, pvar_index, obj_handle, handle, count) : MPI_ERR_ARG;
	gck_mpi_leave();
	return rc;
}

GCK_MPI_FUNCTION(T_pvar_handle_free, (MPI_T_pvar_session session, MPI_T_pvar_handle *handle))
{
	struct session *s = gck_mpi_t_of(session, GCK_MPI_T_SESSION);
	struct pvar *p = handle ? gck_mpi_t_of(*handle, GCK_MPI_T_PVAR) : NULL;
	MPI_T_pvar_handle real;
	int rc = MPI_SUCCESS;

	if (!p || p->session != s)
		return MPI_T_ERR_INVALID_HANDLE;
	gck_mpi_enter();
	real = p->h.real;
	if (real)
		rc = gck_mpi_real.T_pvar_handle_free(s->h.real, &real);
	if (!rc) {
		gck_mpi_handle_free(p);
		*handle = MPI_T_PVAR_HANDLE_NULL;
	}
	gck_mpi_leave();
	return rc;
}

/* ---- use ------------------------------------------------------------------------------------ */

static void set_all_started(const struct session *s, bool started)
{
	for (struct gck_mpi_handle *h = gck_mpi_first(GCK_MPI_T_PVAR); h; h = h->next)
		if (((struct pvar *)h)->session == s)
			((struct pvar *)h)->started = started;
}

/* In the gate. MPI_T_PVAR_ALL_HANDLES needs no translation. */
static int real_handles(MPI_T_pvar_session session, MPI_T_pvar_handle handle,
			MPI_T_pvar_session *real_session, MPI_T_pvar_handle *real)
{
	struct session *s = gck_mpi_t_of(session, GCK_MPI_T_SESSION);
	struct pvar *p;

	if (!s)
		return MPI_T_ERR_INVALID_SESSION;
	*real_session = s->h.real;
	*real = handle;
	if (handle == MPI_T_PVAR_ALL_HANDLES)
		return MPI_SUCCESS;
	p = gck_mpi_t_of(handle, GCK_MPI_T_PVAR);
	if (!p || p->session != s || !p->h.real)
		return MPI_T_ERR_INVALID_HANDLE;
	*real = p->h.real;
	return MPI_SUCCESS;
}

static void set_started(MPI_T_pvar_session session, MPI_T_pvar_handle handle, bool started)
{
	if (handle == MPI_T_PVAR_ALL_HANDLES)
		set_all_started((void *)session, started);
	else
		((struct pvar *)handle)->started = started;
}

#define START_OR_STOP(name, started) \
	GCK_MPI_FUNCTION(name, (MPI_T_pvar_session session, MPI_T_pvar_handle handle)) \
	{ \
		MPI_T_pvar_session s; \
		MPI_T_pvar_handle p; \
		int rc; \
\
		gck_mpi_enter(); \
		rc = real_handles(session, handle, &s, &p); \
		if (!rc) \
			rc = gck_mpi_real.name(s, p); \
		if (!rc) \
			set_started(session, handle, started); \
		gck_mpi_leave(); \
		return rc; \
	}

START_OR_STOP(T_pvar_start, true)
START_OR_STOP(T_pvar_stop, false)

#define ACCESS(name, parameters, ...) \
	GCK_MPI_FUNCTION(name, parameters) \
	{ \
		MPI_T_pvar_session s; \
		MPI_T_pvar_handle p; \
		int rc; \
\
		gck_mpi_enter(); \
		rc = real_handles(session, handle, &s, &p); \
		if (!rc) \
			rc = gck_mpi_real.name(s, p, ##__VA_ARGS__); \
		gck_mpi_leave(); \
		return rc; \
	}

ACCESS(T_pvar_read, (MPI_T_pvar_session session, MPI_T_pvar_handle handle, void *buf), buf)
ACCESS(T_pvar_write, (MPI_T_pvar_session session, MPI_T_pvar_handle handle, const void *buf), buf)
ACCESS(T_pvar_reset, (MPI_T_pvar_session session, MPI_T_pvar_handle handle))
ACCESS(T_pvar_readreset, (MPI_T_pvar_session session, MPI_T_pvar_handle handle, void *buf), buf)

/* ---- restart -------------------------------------------------------------------------------- */

static void rebuild_one(struct pvar *p)
{
	int count;

	gck_mpi_handle_set_real(p, NULL);
	if (!gck_mpi_t_object_lives(&p->object) || alloc_real(p, &count))
		return; /* the variable or object is gone: the handle is invalid */
	if (p->started)
		gck_mpi_real.T_pvar_start(p->session->h.real, p->h.real);
}

int gck_mpi_t_pvars_rebuild(struct gck_error *err)
{
	for (struct gck_mpi_handle *h = gck_mpi_first(GCK_MPI_T_SESSION); h; h = h->next) {
		MPI_T_pvar_session real;

		if (gck_mpi_real.T_pvar_session_create(&real))
			return gck_fail(err, ENOMEM, "a session of MPI_T cannot be made again "
						     "after a restart");
		gck_mpi_handle_set_real(h, real);
	}
	for (struct gck_mpi_handle *h = gck_mpi_first(GCK_MPI_T_PVAR); h; h = h->next)
		rebuild_one((struct pvar *)h);
	return 0;
}
