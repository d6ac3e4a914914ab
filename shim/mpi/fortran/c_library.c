/* SPDX-License-Identifier: Apache-2.0
 * The symbols for Fortran programs that Open MPI has in libmpi.so.40 instead of its Fortran
 * libraries: predefined callbacks, functions that return a value, and the variables MPI_BOTTOM and
 * the like. Each function has all names that Fortran compilers give it, and that of mpi_f08. */
/* without this mpi.h defines macros of the C names */
#define OMPI_COMPILING_FORTRAN_WRAPPERS 1
#include <string.h>

#include "shim/mpi/base/function.h"

#define F_TRUE 1 /* gfortran's; LOGICAL is as wide as INTEGER */

#define SPELT(lower, upper, f08) \
	extern __typeof__(lower) lower##_ __attribute__((alias(#lower))) GCK_MPI_SHOWN; \
	extern __typeof__(lower) lower##__ __attribute__((alias(#lower))) GCK_MPI_SHOWN; \
	extern __typeof__(lower) upper __attribute__((alias(#lower))) GCK_MPI_SHOWN; \
	extern __typeof__(lower) f08 __attribute__((alias(#lower))) GCK_MPI_SHOWN;

#define NULL_COPY(lower, upper, f08, value) \
	GCK_MPI_SHOWN void lower(MPI_Fint *object, MPI_Fint *keyval, value *extra, value *in, \
				 value *out, MPI_Fint *flag, MPI_Fint *ierr); \
	void lower(MPI_Fint *object, MPI_Fint *keyval, value *extra, value *in, value *out, \
		   MPI_Fint *flag, MPI_Fint *ierr) \
	{ \
		(void)object, (void)keyval, (void)extra, (void)in, (void)out; \
		*flag = 0; \
		*ierr = MPI_SUCCESS; \
	} \
	SPELT(lower, upper, f08)

#define DUP(lower, upper, f08, value) \
	GCK_MPI_SHOWN void lower(MPI_Fint *object, MPI_Fint *keyval, value *extra, value *in, \
				 value *out, MPI_Fint *flag, MPI_Fint *ierr); \
	void lower(MPI_Fint *object, MPI_Fint *keyval, value *extra, value *in, value *out, \
		   MPI_Fint *flag, MPI_Fint *ierr) \
	{ \
		(void)object, (void)keyval, (void)extra; \
		*out = *in; \
		*flag = F_TRUE; \
		*ierr = MPI_SUCCESS; \
	} \
	SPELT(lower, upper, f08)

#define NULL_DELETE(lower, upper, f08, value) \
	GCK_MPI_SHOWN void lower(MPI_Fint *object, MPI_Fint *keyval, value *attribute, \
				 value *extra, MPI_Fint *ierr); \
	void lower(MPI_Fint *object, MPI_Fint *keyval, value *attribute, value *extra, \
		   MPI_Fint *ierr) \
	{ \
		(void)object, (void)keyval, (void)attribute, (void)extra; \
		*ierr = MPI_SUCCESS; \
	} \
	SPELT(lower, upper, f08)

NULL_COPY(mpi_comm_null_copy_fn, MPI_COMM_NULL_COPY_FN, ompi_comm_null_copy_fn_f, MPI_Aint)
NULL_COPY(mpi_type_null_copy_fn, MPI_TYPE_NULL_COPY_FN, ompi_type_null_copy_fn_f, MPI_Aint)
NULL_COPY(mpi_win_null_copy_fn, MPI_WIN_NULL_COPY_FN, ompi_win_null_copy_fn_f, MPI_Aint)
NULL_COPY(mpi_null_copy_fn, MPI_NULL_COPY_FN, ompi_null_copy_fn_f, MPI_Fint)
DUP(mpi_comm_dup_fn, MPI_COMM_DUP_FN, ompi_comm_dup_fn_f, MPI_Aint)
DUP(mpi_type_dup_fn, MPI_TYPE_DUP_FN, ompi_type_dup_fn_f, MPI_Aint)
DUP(mpi_win_dup_fn, MPI_WIN_DUP_FN, ompi_win_dup_fn_f, MPI_Aint)
DUP(mpi_dup_fn, MPI_DUP_FN, ompi_dup_fn_f, MPI_Fint)
NULL_DELETE(mpi_comm_null_delete_fn, MPI_COMM_NULL_DELETE_FN, ompi_comm_null_delete_fn_f, MPI_Aint)
NULL_DELETE(mpi_type_null_delete_fn, MPI_TYPE_NULL_DELETE_FN, ompi_type_null_delete_fn_f, MPI_Aint)
NULL_DELETE(mpi_win_null_delete_fn, MPI_WIN_NULL_DELETE_FN, ompi_win_null_delete_fn_f, MPI_Aint)
NULL_DELETE(mpi_null_delete_fn, MPI_NULL_DELETE_FN, ompi_null_delete_fn_f, MPI_Fint)

/* Only its address is used. */
GCK_MPI_SHOWN int mpi_conversion_fn_null(void);
int mpi_conversion_fn_null(void)
{
	return MPI_SUCCESS;
}
SPELT(mpi_conversion_fn_null, MPI_CONVERSION_FN_NULL, mpi_conversion_fn_null_f)

GCK_MPI_SHOWN MPI_Aint mpi_aint_add_f90(const MPI_Aint *base, const MPI_Aint *disp);
MPI_Aint mpi_aint_add_f90(const MPI_Aint *base, const MPI_Aint *disp)
{
	return *base + *disp;
}

GCK_MPI_SHOWN MPI_Aint mpi_aint_diff_f90(const MPI_Aint *a, const MPI_Aint *b);
MPI_Aint mpi_aint_diff_f90(const MPI_Aint *a, const MPI_Aint *b)
{
	return *a - *b;
}

GCK_MPI_SHOWN double mpi_wtime_f90(void);
double mpi_wtime_f90(void)
{
	return MPI_Wtime();
}

GCK_MPI_SHOWN double mpi_wtick_f90(void);
double mpi_wtick_f90(void)
{
	return MPI_Wtick();
}

#define SPELT_THRICE(lower, upper) \
	extern __typeof__(lower) lower##_ __attribute__((alias(#lower))) GCK_MPI_SHOWN; \
	extern __typeof__(lower) lower##__ __attribute__((alias(#lower))) GCK_MPI_SHOWN; \
	extern __typeof__(lower) upper __attribute__((alias(#lower))) GCK_MPI_SHOWN;

SPELT_THRICE(mpi_aint_add_f90, MPI_AINT_ADD_F90)
SPELT_THRICE(mpi_aint_diff_f90, MPI_AINT_DIFF_F90)
SPELT_THRICE(mpi_wtime_f90, MPI_WTIME_F90)
SPELT_THRICE(mpi_wtick_f90, MPI_WTICK_F90)

/* A Fortran program has common blocks of these names. The loader binds all references to those, so
 * an argument of MPI_BOTTOM has this address in every library. */
#define SENTINEL(type, name) \
	extern type name GCK_MPI_SHOWN; \
	type name;

SENTINEL(int, mpi_fortran_bottom_)
SENTINEL(int, mpi_fortran_in_place_)
SENTINEL(char, mpi_fortran_argv_null_)
SENTINEL(char, mpi_fortran_argvs_null_)
SENTINEL(int, mpi_fortran_errcodes_ignore_)
SENTINEL(double, mpi_fortran_status_ignore_)
SENTINEL(double, mpi_fortran_statuses_ignore_)
SENTINEL(int, mpi_fortran_unweighted_)
SENTINEL(int, mpi_fortran_weights_empty_)

MPI_Fint *MPI_F_STATUS_IGNORE = (MPI_Fint *)&mpi_fortran_status_ignore_;
MPI_Fint *MPI_F_STATUSES_IGNORE = (MPI_Fint *)&mpi_fortran_statuses_ignore_;

/* A Fortran status has the words of an MPI_Status. */
_Static_assert(sizeof(MPI_Status) == 6 * sizeof(MPI_Fint), "MPI_STATUS_SIZE in mpif.h");

GCK_MPI_FUNCTION(Status_c2f, (const MPI_Status *c_status, MPI_Fint *f_status))
{
	if (!c_status || !f_status)
		return gck_mpi_error(NULL, MPI_ERR_IN_STATUS, "MPI_Status_c2f");
	memcpy(f_status, c_status, sizeof(*c_status));
	return MPI_SUCCESS;
}

GCK_MPI_FUNCTION(Status_f2c, (const MPI_Fint *f_status, MPI_Status *c_status))
{
	if (!f_status || f_status == MPI_F_STATUS_IGNORE || f_status == MPI_F_STATUSES_IGNORE ||
	    !c_status)
		return gck_mpi_error(NULL, MPI_ERR_IN_STATUS, "MPI_Status_f2c");
	memcpy(c_status, f_status, sizeof(*c_status));
	return MPI_SUCCESS;
}
