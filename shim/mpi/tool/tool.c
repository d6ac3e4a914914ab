/* SPDX-License-Identifier: Apache-2.0
 * MPI_T: start and end, categories, enumerations, the objects that variables are bound to. */
#include "config.h"

#include "shim/mpi/tool/tool.h"

#include "shim/mpi/base/function.h"
#include "shim/mpi/base/mpi_thread.h"
#include "shim/mpi/base/participant.h"

struct gck_mpi_t_state gck_mpi_t_state;

GCK_MPI_FUNCTION(T_init_thread, (int required, int *provided))
{
	int rc;

	gck_mpi_enter();
	rc = gck_mpi_real.T_init_thread(required, provided);
	if (!rc) {
		gck_mpi_t_state.level = required;
		gck_mpi_t_state.inits++;
	}
	gck_mpi_leave();
	return rc;
}

GCK_MPI_FUNCTION(T_finalize, (void))
{
	int rc;

	gck_mpi_enter();
	rc = gck_mpi_real.T_finalize();
	if (!rc)
		gck_mpi_t_state.inits--;
	gck_mpi_leave();
	return rc;
}

/* ---- categories ----------------------------------------------------------------------------- */

GCK_MPI_FUNCTION(T_category_get_num, (int *num_cat))
{
	int rc;

	gck_mpi_enter();
	rc = gck_mpi_real.T_category_get_num(num_cat);
	if (!rc && num_cat)
		*num_cat = gck_mpi_t_count(GCK_MPI_T_CATEGORIES, *num_cat);
	gck_mpi_leave();
	return rc;
}

GCK_MPI_FUNCTION(T_category_get_info, (int cat_index, char *name, int *name_len, char *desc,
				       int *desc_len, int *num_cvars, int *num_pvars,
				       int *num_categories))
{
	int rc;

	gck_mpi_enter();
	rc = gck_mpi_real.T_category_get_info(gck_mpi_t_real_index(GCK_MPI_T_CATEGORIES, cat_index),
					      name, name_len, desc, desc_len, num_cvars, num_pvars,
					      num_categories);
	gck_mpi_leave();
	return rc;
}

GCK_MPI_FUNCTION(T_category_get_index, (const char *name, int *category_index))
{
	int rc;

	gck_mpi_enter();
	rc = gck_mpi_real.T_category_get_index(name, category_index);
	if (!rc)
		*category_index = gck_mpi_t_our_index(GCK_MPI_T_CATEGORIES, *category_index);
	gck_mpi_leave();
	return rc;
}

/* The library writes as many indices as exist, at most len, and does not return their number. The
 * rest is set to -1 to find it. */
static int members(int (*ask)(int cat_index, int len, int indices[]), enum gck_mpi_t_list list,
		   int cat_index, int len, int indices[], const char *function)
{
	int rc;

	gck_mpi_enter_as(function);
	for (int i = 0; indices && i < len; i++)
		indices[i] = -1;
	rc = ask(gck_mpi_t_real_index(GCK_MPI_T_CATEGORIES, cat_index), len, indices);
	for (int i = 0; !rc && indices && i < len; i++)
		if (indices[i] >= 0)
			indices[i] = gck_mpi_t_our_index(list, indices[i]);
	gck_mpi_leave();
	return rc;
}

GCK_MPI_FUNCTION(T_category_get_cvars, (int cat_index, int len, int indices[]))
{
	return members(gck_mpi_real.T_category_get_cvars, GCK_MPI_T_CVARS, cat_index, len, indices,
		       __func__);
}

GCK_MPI_FUNCTION(T_category_get_pvars, (int cat_index, int len, int indices[]))
{
	return members(gck_mpi_real.T_category_get_pvars, GCK_MPI_T_PVARS, cat_index, len, indices,
		       __func__);
}

GCK_MPI_FUNCTION(T_category_get_categories, (int cat_index, int len, int indices[]))
{
	return members(gck_mpi_real.T_category_get_categories, GCK_MPI_T_CATEGORIES, cat_index, len,
		       indices, __func__);
}

/* ---- enumerations --------------------------------------------------------------------------- */

struct t_enum {
	struct gck_mpi_handle h;
	enum gck_mpi_t_list list; /* list and index of the variable that it was returned for */
	int index;
};

MPI_T_enum gck_mpi_t_enum_of_real(MPI_T_enum real, enum gck_mpi_t_list list, int index)
{
	struct t_enum *e;

	if (real == MPI_T_ENUM_NULL)
		return MPI_T_ENUM_NULL;
	e = gck_mpi_find(GCK_MPI_T_ENUM, real);
	if (!e) {
		e = gck_mpi_handle_new(GCK_MPI_T_ENUM, sizeof(*e), real);
		if (!e)
			return MPI_T_ENUM_NULL;
		e->list = list;
		e->index = index;
	}
	return (MPI_T_enum)e;
}

static MPI_T_enum real_enum(MPI_T_enum ours)
{
	const struct t_enum *e = gck_mpi_t_of(ours, GCK_MPI_T_ENUM);

	return e ? e->h.real : MPI_T_ENUM_NULL;
}

/* Asks the variable for its enumeration. */
static MPI_T_enum ask_enum(const struct t_enum *e)
{
	int real = gck_mpi_t_real_index(e->list, e->index), zero = 0, unused;
	MPI_T_enum found = MPI_T_ENUM_NULL;
	MPI_Datatype type;
	int rc;

	if (e->list == GCK_MPI_T_CVARS)
		rc = gck_mpi_real.T_cvar_get_info(real, NULL, &zero, &unused, &type, &found, NULL,
						  &zero, &unused, &unused);
	else
		rc =
		    gck_mpi_real.T_pvar_get_info(real, NULL, &zero, &unused, &unused, &type, &found,
						 NULL, &zero, &unused, &unused, &unused, &unused);
	return rc ? MPI_T_ENUM_NULL : found;
}

static int enums_rebuild(struct gck_error *err)
{
	(void)err; /* an enumeration that is gone is invalid for the library as well */
	for (struct gck_mpi_handle *h = gck_mpi_first(GCK_MPI_T_ENUM); h; h = h->next)
		gck_mpi_handle_set_real(h, ask_enum((struct t_enum *)h));
	return 0;
}

GCK_MPI_FUNCTION(T_enum_get_info, (MPI_T_enum enumtype, int *num, char *name, int *name_len))
{
	int rc = MPI_T_ERR_INVALID_HANDLE;

	gck_mpi_enter();
	if (real_enum(enumtype))
		rc = gck_mpi_real.T_enum_get_info(real_enum(enumtype), num, name, name_len);
	gck_mpi_leave();
	return rc;
}

GCK_MPI_FUNCTION(T_enum_get_item, (MPI_T_enum enumtype, int index, int *value, char *name,
				   int *name_len))
{
	int rc = MPI_T_ERR_INVALID_HANDLE;

	gck_mpi_enter();
	if (real_enum(enumtype))
		rc =
		    gck_mpi_real.T_enum_get_item(real_enum(enumtype), index, value, name, name_len);
	gck_mpi_leave();
	return rc;
}

/* ---- bindings ------------------------------------------------------------------------------- */

static enum gck_mpi_kind kind_of(int bind)
{
	static const enum gck_mpi_kind kinds[] = {
		[MPI_T_BIND_MPI_COMM] = GCK_MPI_COMM,
		[MPI_T_BIND_MPI_DATATYPE] = GCK_MPI_DATATYPE,
		[MPI_T_BIND_MPI_ERRHANDLER] = GCK_MPI_ERRHANDLER,
		[MPI_T_BIND_MPI_FILE] = GCK_MPI_FILE,
		[MPI_T_BIND_MPI_GROUP] = GCK_MPI_GROUP,
		[MPI_T_BIND_MPI_OP] = GCK_MPI_OP,
		[MPI_T_BIND_MPI_REQUEST] = GCK_MPI_REQUEST,
		[MPI_T_BIND_MPI_WIN] = GCK_MPI_WIN,
		[MPI_T_BIND_MPI_MESSAGE] = GCK_MPI_MESSAGE,
		[MPI_T_BIND_MPI_INFO] = GCK_MPI_INFO,
	};

	return bind > 0 && (size_t)bind < sizeof(kinds) / sizeof(*kinds) ? kinds[bind] : 0;
}

void gck_mpi_t_bind(struct gck_mpi_t_object *o, int bind, void *obj_handle)
{
	*o = (struct gck_mpi_t_object){.bind = bind};
	if (bind != MPI_T_BIND_NO_OBJECT && obj_handle)
		o->ours = *(void **)obj_handle;
}

void *gck_mpi_t_bound(struct gck_mpi_t_object *o)
{
	if (!o->ours)
		return NULL;
	o->real = gck_mpi_real_handle(o->ours, kind_of(o->bind));
	return &o->real;
}

/* The handle is compared, not read: the memory of a freed one is gone. */
bool gck_mpi_t_object_lives(const struct gck_mpi_t_object *o)
{
	if (!o->ours || o->ours == MPI_COMM_WORLD || o->ours == MPI_COMM_SELF)
		return true;
	for (struct gck_mpi_handle *h = gck_mpi_first(kind_of(o->bind)); h; h = h->next)
		if (h == o->ours)
			return true;
	return false;
}

/* ---- restart -------------------------------------------------------------------------------- */

/* After MPI_Finalize was entered, Open MPI crashes when asked about variables of components that it
 * has unloaded. MPI_Finalize saved the names before. */
static int save(struct gck_error *err)
{
	return gck_mpi_leaving() ? 0 : gck_mpi_t_finalizing(err);
}

int gck_mpi_t_finalizing(struct gck_error *err)
{
	return gck_mpi_t_state.inits > 0 ? gck_mpi_t_names_save(err) : 0;
}

static int rebuild(struct gck_error *err)
{
	int provided;

	for (int i = 0; i < gck_mpi_t_state.inits; i++)
		if (gck_mpi_real.T_init_thread(gck_mpi_t_state.level, &provided))
			return gck_fail(err, EIO, "MPI_T_init_thread failed after a restart");
	if (gck_mpi_t_state.inits <= 0)
		return 0;
	return gck_mpi_t_names_rebuild(err) || enums_rebuild(err) ||
	       gck_mpi_t_cvars_rebuild(err) || gck_mpi_t_pvars_rebuild(err) ? -1 : 0;
}

const struct gck_mpi_participant gck_mpi_tool_participant = {
	.name = "tools", .save = save, .rebuild = rebuild, .uninitialized = true};
