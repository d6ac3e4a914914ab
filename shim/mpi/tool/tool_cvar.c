/* SPDX-License-Identifier: Apache-2.0
 * MPI_T's control variables. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/tool/tool.h"
#include "shim/mpi/types/datatype.h"

struct cvar {
	struct gck_mpi_handle h;
	int index; /* the program's */
	struct gck_mpi_t_object object;
	size_t size; /* bytes of the value */
};

/* A value that the program wrote. It outlives the handle. */
struct written {
	int index;
	size_t size;
	void *value;
	struct written *next;
};

static struct written *writes;

GCK_MPI_FUNCTION(T_cvar_get_num, (int *num_cvar))
{
	int rc;

	gck_mpi_enter();
	rc = gck_mpi_real.T_cvar_get_num(num_cvar);
	if (!rc)
		*num_cvar = gck_mpi_t_count(GCK_MPI_T_CVARS, *num_cvar);
	gck_mpi_leave();
	return rc;
}

GCK_MPI_FUNCTION(T_cvar_get_info, (int cvar_index, char *name, int *name_len, int *verbosity,
				   MPI_Datatype *datatype, MPI_T_enum *enumtype, char *desc,
				   int *desc_len, int *bind, int *scope))
{
	int rc;

	gck_mpi_enter();
	rc = gck_mpi_real.T_cvar_get_info(gck_mpi_t_real_index(GCK_MPI_T_CVARS, cvar_index), name,
					  name_len, verbosity, datatype, enumtype, desc, desc_len,
					  bind, scope);
	if (!rc && datatype)
		*datatype = gck_mpi_type_of_real(*datatype);
	if (!rc && enumtype)
		*enumtype = gck_mpi_t_enum_of_real(*enumtype, GCK_MPI_T_CVARS, cvar_index);
	gck_mpi_leave();
	return rc;
}

GCK_MPI_FUNCTION(T_cvar_get_index, (const char *name, int *cvar_index))
{
	int rc;

	gck_mpi_enter();
	rc = gck_mpi_real.T_cvar_get_index(name, cvar_index);
	if (!rc)
		*cvar_index = gck_mpi_t_our_index(GCK_MPI_T_CVARS, *cvar_index);
	gck_mpi_leave();
	return rc;
}

/* ---- handles -------------------------------------------------------------------------------- */

static int ask_type(int index, MPI_Datatype *real_type, int *bind)
{
	int zero = 0, u;
	MPI_T_enum e;

	return gck_mpi_real.T_cvar_get_info(gck_mpi_t_real_index(GCK_MPI_T_CVARS, index), NULL,
					    &zero, &u, real_type, &e, NULL, &zero, bind, &u);
}

/* In the gate. */
static int alloc_real(struct cvar *c, int *count)
{
	MPI_T_cvar_handle real = NULL;
	int rc = gck_mpi_real.T_cvar_handle_alloc(gck_mpi_t_real_index(GCK_MPI_T_CVARS, c->index),
						  gck_mpi_t_bound(&c->object), &real, count);

	if (!rc)
		gck_mpi_handle_set_real(c, real);
	return rc;
}

static int alloc(int index, void *obj_handle, MPI_T_cvar_handle *handle, int *count)
{
	struct cvar *c = gck_mpi_handle_new(GCK_MPI_T_CVAR, sizeof(*c), NULL);
	MPI_Datatype type;
	int rc = c ? MPI_SUCCESS : MPI_T_ERR_OUT_OF_HANDLES, bind = 0, size = 0;

	if (!rc)
		rc = ask_type(index, &type, &bind);
	if (!rc) {
		c->index = index;
		gck_mpi_t_bind(&c->object, bind, obj_handle);
		rc = alloc_real(c, count);
	}
	if (!rc)
		rc = gck_mpi_real.Type_size(type, &size);
	if (rc && c) {
		gck_mpi_handle_free(c);
	} else if (!rc) {
		c->size = (size_t)size * (size_t)*count;
		*handle = (MPI_T_cvar_handle)c;
	}
	return rc;
}

GCK_MPI_FUNCTION(T_cvar_handle_alloc, (int cvar_index, void *obj_handle, MPI_T_cvar_handle *handle,
				       int *count))
{
	int rc;

	gck_mpi_enter();
	rc = handle && count ? alloc(cvar_index, obj_handle, handle, count) : MPI_ERR_ARG;
	gck_mpi_leave();
	return rc;
}

GCK_MPI_FUNCTION(T_cvar_handle_free, (MPI_T_cvar_handle *handle))
{
	struct cvar *c = handle ? gck_mpi_t_of(*handle, GCK_MPI_T_CVAR) : NULL;
	MPI_T_cvar_handle real;
	int rc = MPI_SUCCESS;

	if (!c)
		return MPI_T_ERR_INVALID_HANDLE;
	gck_mpi_enter();
	real = c->h.real;
	if (real)
		rc = gck_mpi_real.T_cvar_handle_free(&real);
	if (!rc) {
		gck_mpi_handle_free(c);
		*handle = MPI_T_CVAR_HANDLE_NULL;
	}
	gck_mpi_leave();
	return rc;
}

GCK_MPI_FUNCTION(T_cvar_read, (MPI_T_cvar_handle handle, void *buf))
{
	struct cvar *c = gck_mpi_t_of(handle, GCK_MPI_T_CVAR);
	int rc = MPI_T_ERR_INVALID_HANDLE;

	gck_mpi_enter();
	if (c && c->h.real)
		rc = gck_mpi_real.T_cvar_read(c->h.real, buf);
	gck_mpi_leave();
	return rc;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* Remembers a written value, unless the variable is bound to an object. A string may be shorter
 * than the variable. */
static int remember_value(const struct cvar *c, const void *value)
{
	struct written *w;
	MPI_Datatype type;
	int bind;
	bool text = !ask_type(c->index, &type, &bind) && type == gck_mpi_real_of(MPI_CHAR);
	void *copy;

	if (c->object.ours)
		return 0;
	for (w = writes; w && w->index != c->index; w = w->next)
		;
	copy = calloc(1, c->size + 1);
	if (!copy)
		return -1;
	memcpy(copy, value, text ? strnlen(value, c->size) : c->size);
	if (!w) {
		w = calloc(1, sizeof(*w));
		if (!w) {
			free(copy);
			return -1;
		}
		w->next = writes;
		writes = w;
	}
	free(w->value);
	*w = (struct written){c->index, c->size, copy, w->next};
	return 0;
}

GCK_MPI_FUNCTION(T_cvar_write, (MPI_T_cvar_handle handle, const void *buf))
{
	struct cvar *c = gck_mpi_t_of(handle, GCK_MPI_T_CVAR);
	int rc = MPI_T_ERR_INVALID_HANDLE;

	gck_mpi_enter();
	if (c && c->h.real)
		rc = gck_mpi_real.T_cvar_write(c->h.real, buf);
	if (!rc && remember_value(c, buf))
		rc = MPI_T_ERR_MEMORY;
	gck_mpi_leave();
	return rc;
}

/* A variable that is gone or cannot be written now keeps the new step's value. */
static void write_again(const struct written *w)
{
	MPI_T_cvar_handle real;
	int count;

	if (gck_mpi_real.T_cvar_handle_alloc(gck_mpi_t_real_index(GCK_MPI_T_CVARS, w->index), NULL,
					     &real, &count))
		return;
	gck_mpi_real.T_cvar_write(real, w->value);
	gck_mpi_real.T_cvar_handle_free(&real);
}

int gck_mpi_t_cvars_rebuild(struct gck_error *err)
{
	int count;

	(void)err; /* handles of variables that are gone become invalid */
	for (const struct written *w = writes; w; w = w->next)
		write_again(w);
	for (struct gck_mpi_handle *h = gck_mpi_first(GCK_MPI_T_CVAR); h; h = h->next) {
		struct cvar *c = (struct cvar *)h;

		gck_mpi_handle_set_real(h, NULL);
		if (gck_mpi_t_object_lives(&c->object))
			alloc_real(c, &count);
	}
	return 0;
}
