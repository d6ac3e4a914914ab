/* SPDX-License-Identifier: Apache-2.0
 * A library that cannot be loaded: what it refers to is nowhere. unload.c says what for. */
extern int gck_mpi_is_nowhere;

__attribute__((visibility("default"))) int *gck_mpi_end = &gck_mpi_is_nowhere;
