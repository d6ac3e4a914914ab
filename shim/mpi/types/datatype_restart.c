/* SPDX-License-Identifier: Apache-2.0
 * Datatypes over a restart. A checkpoint reads each from the real library as a recipe: how it was
 * made, down to predefined datatypes. A restart makes it again from the recipe. */
#include <mpi.h>
#include <stdbool.h>
#include <stdlib.h>

#include "shim/mpi/base/participant.h"
#include "shim/mpi/handles/handle.h"
#include "shim/mpi/real.h"

/* The results of MPI_Type_get_envelope and MPI_Type_get_contents. */
struct recipe {
	MPI_Datatype named; /* predefined: the stand-in's handle; the other fields are unused */
	int combiner;
	int nintegers, naddresses, ntypes;
	int *integers;
	MPI_Aint *addresses;
	struct recipe **types;
};

static void recipe_free(struct recipe *r)
{
	if (!r)
		return;
	for (int i = 0; i < r->ntypes; i++)
		recipe_free(r->types[i]);
	free(r);
}

/* Allocates a recipe and its arrays in one block of memory. */
static struct recipe *new_recipe(int nintegers, int naddresses, int ntypes, int combiner)
{
	struct recipe *r = calloc(1, sizeof(*r) + sizeof(*r->types) * (size_t)ntypes +
					  sizeof(*r->addresses) * (size_t)naddresses +
					  sizeof(*r->integers) * (size_t)nintegers);

	if (!r)
		return NULL;
	r->combiner = combiner;
	r->nintegers = nintegers;
	r->naddresses = naddresses;
	r->ntypes = ntypes;
	r->types = (void *)(r + 1);
	r->addresses = (void *)(r->types + ntypes);
	r->integers = (void *)(r->addresses + naddresses);
	return r;
}

/* Frees a datatype from MPI_Type_get_contents; the caller owns it unless it is predefined. */
static void free_constituent(MPI_Datatype real)
{
	int integers, addresses, types, combiner;

	if (gck_mpi_real.Type_get_envelope(real, &integers, &addresses, &types, &combiner) ==
		    MPI_SUCCESS && combiner != MPI_COMBINER_NAMED &&
	    combiner != MPI_COMBINER_F90_REAL && combiner != MPI_COMBINER_F90_COMPLEX &&
	    combiner != MPI_COMBINER_F90_INTEGER)
		gck_mpi_real.Type_free(&real);
}

static int recipe_read(MPI_Datatype real, struct recipe **recipe);

static int read_contents(MPI_Datatype real, struct recipe *r)
{
	MPI_Datatype *types = calloc((size_t)r->ntypes + 1, sizeof(MPI_Datatype));
	int rc;

	if (!types)
		return MPI_ERR_NO_MEM;
	rc = gck_mpi_real.Type_get_contents(real, r->nintegers, r->naddresses, r->ntypes,
					    r->integers, r->addresses, types);
	if (rc != MPI_SUCCESS)
		goto out;
	for (int i = 0; i < r->ntypes; i++) {
		if (rc == MPI_SUCCESS)
			rc = recipe_read(types[i], &r->types[i]);
		free_constituent(types[i]);
	}
out:
	free(types);
	return rc;
}

static int recipe_read(MPI_Datatype real, struct recipe **recipe)
{
	int integers, addresses, types, combiner, rc;
	struct recipe *r;

	rc = gck_mpi_real.Type_get_envelope(real, &integers, &addresses, &types, &combiner);
	if (rc != MPI_SUCCESS)
		return rc;
	if (combiner == MPI_COMBINER_NAMED)
		integers = addresses = types = 0;
	r = new_recipe(integers, addresses, types, combiner);
	if (!r)
		return MPI_ERR_NO_MEM;
	if (combiner == MPI_COMBINER_NAMED) {
		r->named = gck_mpi_find(GCK_MPI_DATATYPE, real);
		rc = r->named ? MPI_SUCCESS : MPI_ERR_TYPE;
	} else {
		rc = read_contents(real, r);
	}
	if (rc != MPI_SUCCESS)
		recipe_free(r);
	else
		*recipe = r;
	return rc;
}

/* Calls the constructor of the combiner. The MPI standard, section 4.1.13, defines the order of the
 * integers. */
static int construct(const struct recipe *r, const MPI_Datatype *types, MPI_Datatype *made)
{
	const int *i = r->integers, n = r->nintegers ? i[0] : 0;
	const MPI_Aint *a = r->addresses;

	switch (r->combiner) {
	case MPI_COMBINER_DUP:
		return gck_mpi_real.Type_dup(types[0], made);
	case MPI_COMBINER_CONTIGUOUS:
		return gck_mpi_real.Type_contiguous(n, types[0], made);
	case MPI_COMBINER_VECTOR:
		return gck_mpi_real.Type_vector(n, i[1], i[2], types[0], made);
	case MPI_COMBINER_HVECTOR:
		return gck_mpi_real.Type_create_hvector(n, i[1], a[0], types[0], made);
	case MPI_COMBINER_INDEXED:
		return gck_mpi_real.Type_indexed(n, i + 1, i + 1 + n, types[0], made);
	case MPI_COMBINER_HINDEXED:
		return gck_mpi_real.Type_create_hindexed(n, i + 1, a, types[0], made);
	case MPI_COMBINER_INDEXED_BLOCK:
		return gck_mpi_real.Type_create_indexed_block(n, i[1], i + 2, types[0], made);
	case MPI_COMBINER_HINDEXED_BLOCK:
		return gck_mpi_real.Type_create_hindexed_block(n, i[1], a, types[0], made);
	case MPI_COMBINER_STRUCT:
		return gck_mpi_real.Type_create_struct(n, i + 1, a, types, made);
	case MPI_COMBINER_SUBARRAY:
		return gck_mpi_real.Type_create_subarray(n, i + 1, i + 1 + n, i + 1 + 2 * n,
							 i[1 + 3 * n], types[0], made);
	case MPI_COMBINER_DARRAY:
		return gck_mpi_real.Type_create_darray(i[0], i[1], i[2], i + 3, i + 3 + i[2],
						       i + 3 + 2 * i[2], i + 3 + 3 * i[2],
						       i[3 + 4 * i[2]], types[0], made);
	case MPI_COMBINER_RESIZED:
		return gck_mpi_real.Type_create_resized(types[0], a[0], a[1], made);
	case MPI_COMBINER_F90_REAL:
		return gck_mpi_real.Type_create_f90_real(i[0], i[1], made);
	case MPI_COMBINER_F90_COMPLEX:
		return gck_mpi_real.Type_create_f90_complex(i[0], i[1], made);
	case MPI_COMBINER_F90_INTEGER:
		return gck_mpi_real.Type_create_f90_integer(i[0], made);
	default:
		return MPI_ERR_TYPE;
	}
}

static int recipe_make(const struct recipe *r, MPI_Datatype *real, bool *owned)
{
	MPI_Datatype *types;
	bool *child_owned;
	int n, rc = MPI_SUCCESS;

	*owned = false;
	if (r->named) {
		*real = GCK_MPI_REAL_TYPE(r->named);
		return MPI_SUCCESS;
	}
	types = calloc((size_t)r->ntypes + 1, sizeof(MPI_Datatype));
	child_owned = calloc((size_t)r->ntypes + 1, sizeof(*child_owned));
	if (!types || !child_owned)
		rc = MPI_ERR_NO_MEM;
	for (n = 0; n < r->ntypes && rc == MPI_SUCCESS; n++)
		rc = recipe_make(r->types[n], &types[n], &child_owned[n]);
	if (rc == MPI_SUCCESS)
		rc = construct(r, types, real);
	if (rc == MPI_SUCCESS)
		*owned = r->combiner != MPI_COMBINER_F90_REAL &&
			 r->combiner != MPI_COMBINER_F90_COMPLEX &&
			 r->combiner != MPI_COMBINER_F90_INTEGER;
	while (types && child_owned && n-- > 0)
		if (child_owned[n])
			gck_mpi_real.Type_free(&types[n]);
	free(types);
	free(child_owned);
	return rc;
}

static struct saved {
	struct gck_mpi_handle *h;
	struct recipe *recipe;
	char name[MPI_MAX_OBJECT_NAME]; /* in the real library */
} *saved;
static size_t nsaved;

static void free_saved(void)
{
	for (size_t i = 0; i < nsaved; i++)
		recipe_free(saved[i].recipe);
	free(saved);
	saved = NULL;
	nsaved = 0;
}

static int save_one(struct gck_mpi_handle *h, struct saved *s)
{
	int length, rc = recipe_read(h->real, &s->recipe);

	s->h = h;
	return rc == MPI_SUCCESS ? gck_mpi_real.Type_get_name(h->real, s->name, &length) : rc;
}

static int save(struct gck_error *err)
{
	size_t n = 0;

	free_saved();
	for (struct gck_mpi_handle *h = gck_mpi_first(GCK_MPI_DATATYPE); h; h = h->next)
		n++;
	saved = calloc(n, sizeof(*saved));
	if (n && !saved)
		return gck_fail(err, ENOMEM, "no memory to save %zu MPI datatypes", n);
	for (struct gck_mpi_handle *h = gck_mpi_first(GCK_MPI_DATATYPE); h; h = h->next) {
		int rc = save_one(h, &saved[nsaved++]);

		if (rc != MPI_SUCCESS)
			return gck_fail(err, EIO, "MPI datatype %zu of %zu (%s) cannot be read "
					"from the MPI library: MPI error %d", nsaved, n,
					saved[nsaved - 1].name, rc);
	}
	return 0;
}

static int make(const struct saved *s)
{
	MPI_Datatype real;
	bool owned;
	int rc = recipe_make(s->recipe, &real, &owned);

	if (rc != MPI_SUCCESS)
		return rc;
	gck_mpi_handle_set_real(s->h, real);
	if (owned && s->h->flags & GCK_MPI_COMMITTED)
		rc = gck_mpi_real.Type_commit(&real);
	if (rc == MPI_SUCCESS && owned)
		rc = gck_mpi_real.Type_set_name(real, s->name);
	return rc;
}

static int rebuild(struct gck_error *err)
{
	for (size_t i = 0; i < nsaved; i++) {
		int rc = make(&saved[i]);

		if (rc != MPI_SUCCESS)
			return gck_fail(err, EIO, "MPI datatype %zu of %zu (%s, combiner %d) "
					"cannot be made again: MPI error %d", i + 1, nsaved,
					saved[i].name, saved[i].recipe->combiner, rc);
	}
	free_saved();
	return 0;
}

const struct gck_mpi_participant gck_mpi_datatype_participant = {"datatype", save, rebuild, NULL};
