/* SPDX-License-Identifier: Apache-2.0
 * Preloaded, this library's MPI functions come before those of every other library in the process,
 * whatever that is called. So it has a look as soon as it is loaded, before the program has run:
 *
 * - something needs Open MPI's libmpi.so.40 (or a libmpi_*.so.40): here is where it belongs. Where a
 *   tool that wraps MPI's functions would come after it (it was linked before libmpi, or preloaded),
 *   the program is executed again with the tool preloaded before this library;
 * - that is another release of Open MPI, or lacks a function: the program is executed again without
 *   this library, unless mpi=openmpi was given (it ends with the reason then);
 * - another MPI is there (MPICH and its kin): the program is executed again without this library;
 * - no MPI at all (a shell, Python): what is loaded later finds this library if it needs
 *   libmpi.so.40, and does not see it if it needs another MPI. */
#ifndef GCK_MPI_REEXEC_H
#define GCK_MPI_REEXEC_H

/* Execute the program again from its beginning, with gpuckpt's MPI libraries taken out of
 * LD_PRELOAD; GPUCKPT_MPI_ASIDE in its environment says why, if it is not seen in the process
 * (NULL). Returns if that cannot be done, which it says. */
void gck_mpi_step_aside(char **argv, const char *why);

#endif
