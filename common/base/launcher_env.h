/* SPDX-License-Identifier: Apache-2.0
 * Environment variables of one start of a step, which the launcher sets again at each start. The
 * lists are in a header, since the shim does not link the libraries of common/. */
#ifndef GCK_LAUNCHER_ENV_H
#define GCK_LAUNCHER_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Does "NAME=value" begin with one of these words? A word that ends in '=' is the whole name. */
static inline bool gck_launcher_matches(const char *entry, const char *const *words)
{
	for (; *words; words++)
		if (!strncmp(entry, *words, strlen(*words)))
			return true;
	return false;
}

/* Set by the launcher or the batch script, and possibly changed by the program: a restart replaces
 * the value unless the program has changed it. Parameters of MPI libraries are among them: a
 * program that chose a library before MPI_Init must get the same library after a restart. */
static inline bool gck_launcher_default(const char *entry)
{
	static const char *const words[] = {
		"CUDA_VISIBLE_DEVICES=", "GPU_DEVICE_ORDINAL=", "ROCR_VISIBLE_DEVICES=",
		"ZE_AFFINITY_MASK=", "TMPDIR=", "XDG_RUNTIME_DIR=", "HOSTNAME=",
		"OMPI_MCA_", "PMIX_MCA_", "PRTE_MCA_", NULL,
	};

	return gck_launcher_matches(entry, words);
}

/* Set by the launcher only: the program's value is wrong after a restart. */
static inline bool gck_launcher_owns(const char *entry)
{
	static const char *const words[] = {
		"SLURM_", "SLURMD_", "PMI_", "PMI2_", "PMIX_", "OMPI_", "PRTE_", "HYDRA_",
		NULL,
	};

	return gck_launcher_matches(entry, words) && !gck_launcher_default(entry);
}

#endif
