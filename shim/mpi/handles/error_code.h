/* SPDX-License-Identifier: Apache-2.0
 * Error classes and codes that the program adds: ours, beyond the real library's. */
#ifndef GCK_MPI_ERROR_CODE_H
#define GCK_MPI_ERROR_CODE_H

/* What MPI_LASTUSEDCODE says. */
int gck_mpi_last_code(void);

#endif
