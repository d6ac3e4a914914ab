/* SPDX-License-Identifier: Apache-2.0
 * The numbers of MPI_T's variables and categories. Before a restart they are the library's. The
 * fresh library mostly has the same numbers; where they differ, the program keeps its old ones. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/tool/tool.h"

#define NAME_MAX_LEN 512

struct entry {
	char *name; /* NULL: the library returns none (its component is not loaded) */
	int class;  /* of a performance variable */
};

static struct list {
	struct entry *v; /* [n] by the program's index, as of the last checkpoint */
	int n;
	int *real;       /* [nours] the library's index for the program's; NULL: the same */
	int nours;
	int *ours;       /* [nreal] the program's index for the library's */
	int nreal;
} lists[GCK_MPI_T_LISTS];

int gck_mpi_t_real_index(enum gck_mpi_t_list list, int index)
{
	const struct list *l = &lists[list];

	if (!l->real || index < 0)
		return index;
	/* the library numbers what it has added since the restart */
	if (index >= l->nours)
		return index - l->nours + l->nreal;
	return l->real[index] < 0 ? GCK_MPI_T_NOWHERE : l->real[index];
}

int gck_mpi_t_our_index(enum gck_mpi_t_list list, int real)
{
	const struct list *l = &lists[list];

	if (!l->real || real < 0)
		return real;
	return real < l->nreal ? l->ours[real] : real - l->nreal + l->nours;
}

int gck_mpi_t_count(enum gck_mpi_t_list list, int real_count)
{
	const struct list *l = &lists[list];

	return l->real ? real_count - l->nreal + l->nours : real_count;
}

/* ---- names ---------------------------------------------------------------------------------- */

static int ask_count(enum gck_mpi_t_list list, int *n)
{
	switch (list) {
	case GCK_MPI_T_CVARS:
		return gck_mpi_real.T_cvar_get_num(n);
	case GCK_MPI_T_PVARS:
		return gck_mpi_real.T_pvar_get_num(n);
	default:
		return gck_mpi_real.T_category_get_num(n);
	}
}

static int ask_name(enum gck_mpi_t_list list, int real, char name[NAME_MAX_LEN], int *class)
{
	int length = NAME_MAX_LEN, zero = 0, u;
	MPI_Datatype type;
	MPI_T_enum e;

	switch (list) {
	case GCK_MPI_T_CVARS:
		return gck_mpi_real.T_cvar_get_info(real, name, &length, &u, &type, &e, NULL, &zero,
						    &u, &u);
	case GCK_MPI_T_PVARS:
		return gck_mpi_real.T_pvar_get_info(real, name, &length, &u, class, &type, &e, NULL,
						    &zero, &u, &u, &u, &u);
	default:
		return gck_mpi_real.T_category_get_info(real, name, &length, NULL, &zero, &u, &u,
							&u);
	}
}

static int ask_index(enum gck_mpi_t_list list, const struct entry *e)
{
	int real = -1, rc;

	if (!e->name)
		return -1;
	switch (list) {
	case GCK_MPI_T_CVARS:
		rc = gck_mpi_real.T_cvar_get_index(e->name, &real);
		break;
	case GCK_MPI_T_PVARS:
		rc = gck_mpi_real.T_pvar_get_index(e->name, e->class, &real);
		break;
	default:
		rc = gck_mpi_real.T_category_get_index(e->name, &real);
	}
	return rc ? -1 : real;
}

static void forget_names(struct list *l)
{
	for (int i = 0; i < l->n; i++)
		free(l->v[i].name);
	free(l->v);
	l->v = NULL;
	l->n = 0;
}

/* An entry that this copy of the library lacks is kept: the next copy may have it. */
static int save_name(enum gck_mpi_t_list list, int index, struct entry *e)
{
	struct list *l = &lists[list];
	char name[NAME_MAX_LEN] = "";

	if (ask_name(list, gck_mpi_t_real_index(list, index), name, &e->class)) {
		if (index < l->n)
			*e = l->v[index];
		if (index < l->n)
			l->v[index].name = NULL;
		return 0;
	}
	e->name = strdup(name);
	return e->name ? 0 : -1;
}

static int save_list(enum gck_mpi_t_list list, struct gck_error *err)
{
	struct list *l = &lists[list], new = {NULL};
	int n = 0, rc = 0;

	if (ask_count(list, &n))
		return gck_fail(err, EIO, "MPI_T's variables cannot be counted");
	n = gck_mpi_t_count(list, n);
	new.v = calloc((size_t)n + 1, sizeof(*new.v));
	for (; new.v && !rc && new.n < n; new.n++)
		rc = save_name(list, new.n, &new.v[new.n]);
	forget_names(l);
	l->v = new.v;
	l->n = new.n;
	return rc || !new.v ? gck_fail(err, ENOMEM, "no memory for the names of MPI_T's variables")
			    : 0;
}

int gck_mpi_t_names_save(struct gck_error *err)
{
	for (int i = 0; i < GCK_MPI_T_LISTS; i++)
		if (save_list(i, err))
			return -1;
	return 0;
}

/* ---- restart -------------------------------------------------------------------------------- */

static void number_as_the_library(struct list *l)
{
	free(l->real);
	free(l->ours);
	l->real = l->ours = NULL;
	l->nours = l->nreal = 0;
}

/* Keeps the program's numbers; entries that only the library has get new ones after them. */
static int number(enum gck_mpi_t_list list, struct list *l, int nreal)
{
	l->real = malloc(((size_t)l->n + (size_t)nreal + 1) * sizeof(*l->real));
	l->ours = malloc(((size_t)nreal + 1) * sizeof(*l->ours));
	if (!l->real || !l->ours)
		return -1;
	l->nreal = nreal;
	l->nours = l->n;
	memset(l->ours, -1, (size_t)nreal * sizeof(*l->ours));
	for (int i = 0; i < l->n; i++) {
		int real = l->real[i] = ask_index(list, &l->v[i]);

		if (real >= 0 && real < nreal)
			l->ours[real] = i;
	}
	for (int i = 0; i < nreal; i++)
		if (l->ours[i] < 0) {
			l->ours[i] = l->nours;
			l->real[l->nours++] = i;
		}
	return 0;
}

/* True in the usual case: all entries with names have their old numbers. */
static bool is_unchanged(enum gck_mpi_t_list list, const struct list *l, int nreal)
{
	if (nreal < l->n)
		return false;
	for (int i = 0; i < l->n; i++)
		if (l->v[i].name && ask_index(list, &l->v[i]) != i)
			return false;
	return true;
}

int gck_mpi_t_names_rebuild(struct gck_error *err)
{
	for (int i = 0; i < GCK_MPI_T_LISTS; i++) {
		struct list *l = &lists[i];
		int nreal = 0;

		number_as_the_library(l);
		if (ask_count(i, &nreal))
			return gck_fail(err, EIO, "MPI_T's variables cannot be counted");
		if (!is_unchanged(i, l, nreal) && number(i, l, nreal)) {
			number_as_the_library(l);
			return gck_fail(err, ENOMEM,
					"no memory for the numbers of MPI_T's variables");
		}
	}
	return 0;
}
