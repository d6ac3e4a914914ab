/* SPDX-License-Identifier: Apache-2.0
 * Obstacles: what an image cannot hold. gck_process_able collects all of them; a capture fails with
 * the first that refuses, or the first that stays if there is one: then waiting is in vain. Both
 * run the same scans, so they cannot disagree. */
#ifndef GCK_OBSTACLES_H
#define GCK_OBSTACLES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/base/error.h"

struct gck_obstacles {
	json_t *items;         /* array to append to, or NULL */
	struct gck_error *err; /* gets the first that refuses, or that stays (may be NULL) */
	bool refused, passing; /* passing: err has one that passes */
	int64_t waited_ms;     /* for processes that had just begun */
	pid_t static_pid;      /* a process whose program takes no preload; 0: none */
	pid_t mpi_pid;         /* a process of the rank that has MPI; 0: none was found yet */
};

/* Report an obstacle. refuse: no checkpoint can be taken; else it is a limit that the user should
 * know. remedy: what the user can do. */
void gck_obstacle_add(struct gck_obstacles *f, bool refuse, const char *object, const char *remedy,
	      const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* The same for one that refuses and mostly passes by itself: the error has the code EAGAIN. */
void gck_obstacle_add_passing(struct gck_obstacles *f, const char *object, const char *remedy,
			      const char *fmt, ...) __attribute__((format(printf, 4, 5)));

#endif
