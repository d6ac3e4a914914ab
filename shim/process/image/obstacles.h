/* SPDX-License-Identifier: Apache-2.0
 * What stands in the way of a checkpoint. `able` collects every finding; a capture fails with the
 * first that refuses. Both run the same scans, so they cannot disagree. */
#ifndef GCK_OBSTACLES_H
#define GCK_OBSTACLES_H

#include <jansson.h>
#include <stdbool.h>

#include "common/base/error.h"

struct gck_findings {
	json_t *items;         /* array to append to, or NULL */
	struct gck_error *err; /* gets the first that refuses (may be NULL) */
	bool refused;
};

/* Something that is not carried: refuse, or a limit to know of. remedy: what the user can do. */
void gck_find(struct gck_findings *f, bool refuse, const char *object, const char *remedy,
	      const char *fmt, ...) __attribute__((format(printf, 5, 6)));

#endif
