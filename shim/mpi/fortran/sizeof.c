/* SPDX-License-Identifier: Apache-2.0
 * MPI_Sizeof of mpif.h: a function for each type and rank of array. */
#include "shim/mpi/fortran/fortran.h"

/* The parameters are the variable (or its descriptor), INTEGER size, and the optional INTEGER
 * ierror. */
#define SIZEOF(type, bytes) ONE(mpi_sizeof_##type, bytes) ONE(pmpi_sizeof_##type, bytes)

#define ONE(name, bytes) \
	GCK_F void name##_scalar_(const void *x, MPI_Fint *size, MPI_Fint *ierr); \
	void name##_scalar_(const void *x, MPI_Fint *size, MPI_Fint *ierr) \
	{ \
		(void)x; \
		*size = bytes; \
		if (ierr) \
			*ierr = MPI_SUCCESS; \
	} \
	OF(name, 1) OF(name, 2) OF(name, 3) OF(name, 4) OF(name, 5) OF(name, 6) OF(name, 7) \
	OF(name, 8) OF(name, 9) OF(name, 10) OF(name, 11) OF(name, 12) OF(name, 13) OF(name, 14) \
	OF(name, 15)

#define OF(name, n)                                            \
	GCK_F extern __typeof__(name##_scalar_) name##_r##n##_ \
		__attribute__((alias(#name "_scalar_")));

SIZEOF(character, 1)
SIZEOF(logical, 4)
SIZEOF(int8, 1)
SIZEOF(int16, 2)
SIZEOF(int32, 4)
SIZEOF(int64, 8)
SIZEOF(real32, 4)
SIZEOF(real64, 8)
SIZEOF(real128, 16)
SIZEOF(complex32, 8)
SIZEOF(complex64, 16)
SIZEOF(complex128, 32)

/* Open MPI's library exports it for linking; programs do not call it. */
GCK_F void mpiext_pcollreq_mpifh_dummy(void);
void mpiext_pcollreq_mpifh_dummy(void)
{
}
