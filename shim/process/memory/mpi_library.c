/* SPDX-License-Identifier: Apache-2.0
 * Ranks with an MPI library that gpuckpt does not stand in for. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/environ_slots.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/rank/scan.h"

/* Only Open MPI's libmpi.so.40 has a stand-in. MPICH and its kin (Intel MPI, MVAPICH2, Cray MPICH)
 * have a libmpi.so.12 or a name of their own; another Open MPI another number. */
static bool is_other_mpi(const char *path)
{
	static const char *const names[] = {"libmpi.so.12", "libmpich.so", "libmpichcxx.so",
					    "libmpi_cray.so", "libmpi.so.20", "libmpi.so.80"};
	const char *name = strrchr(path, '/');

	for (size_t i = 0; name && i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(name + 1, names[i], strlen(names[i])))
			return true;
	return false;
}

/* The stand-in has left the process to an MPI library that it is none for, or SPANK has left it out
 * (mpi=auto), and one of the two has said why. */
static bool note_aside(struct gck_scan *s)
{
	static const char name[] = "GPUCKPT_MPI_ASIDE=";
	size_t size;
	char *all = gck_proc_read(s->t->proc, "environ", &size, NULL);
	const char *entry = all ? gck_slots_find(all, size, name) : NULL;

	if (entry)
		gck_find(s->f, true, "MPI", "mend that, or run it without checkpoints",
			 "it runs without gpuckpt's stand-in: %s", entry + sizeof name - 1);
	free(all);
	return entry;
}

static bool uses_mpi(const struct gck_scan *s)
{
	for (size_t i = 0; i < s->maps.n; i++) {
		const char *slash = strrchr(s->maps.v[i].name, '/');

		if (slash && !strncmp(slash + 1, "libmpi.so.", 10))
			return true;
	}
	return false;
}

void gck_scan_other_mpi(struct gck_scan *s)
{
	if (uses_mpi(s) && note_aside(s))
		return;
	for (size_t i = 0; i < s->maps.n; i++) {
		const char *path = s->maps.v[i].name;

		if (s->maps.v[i].offset || !is_other_mpi(path))
			continue;
		gck_find(s->f, true, "MPI", "build the program with Open MPI 4.1",
			 "%s is not Open MPI 4.1: what its ranks send each other is not carried",
			 path);
		return;
	}
}
