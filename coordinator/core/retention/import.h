/* SPDX-License-Identifier: Apache-2.0
 * Imports: a user puts the image of a step from a file into the object store. As with a checkpoint,
 * an intent is journaled before anything is put, and the commit when its object exists; in between
 * the user gets URLs to write with. An import is given up if its user says so or goes silent, or if
 * gpuckptd is restarted; its step is then swept (removal.h). */
#ifndef GCK_IMPORT_H
#define GCK_IMPORT_H

#include "coordinator/core/model/core.h"

/* After this silence of its user an import is given up: no URL is valid for that long. */
#define GCK_IMPORT_SILENCE_S 900

struct gck_import {
	uint32_t job, step, seq;
	uint32_t ranks;
	uint64_t stored;           /* bytes of objects */
	const char *store;
	const json_t *directories; /* of the step that it puts into */
	const json_t *fingerprint; /* of the program; JSON null: unknown */
};

/* Read and check "import". Pointers are borrowed from body. */
int gck_import_parse(const json_t *body, struct gck_import *i, struct gck_error *err)
	GCK_MUST_CHECK;

/* May this user import it? If gck_import_asks, the caller first asks Slurm whether it knows the
 * job. */
bool gck_import_asks(const struct gck_core *core, const struct gck_import *i);
int gck_import_check(const struct gck_core *core, const struct gck_import *i, uid_t uid,
		     struct gck_error *err) GCK_MUST_CHECK;

/* Journal the intent, and the job and step if they are unknown. user: the name of uid. */
int gck_import_begin(struct gck_core *core, const struct gck_import *i, uid_t uid, const char *user,
		     struct gck_error *err) GCK_MUST_CHECK;

/* The commit object with this hash exists: journal the commit. -1: failed, or given up
 * meanwhile. */
int gck_import_end(struct gck_core *core, uint32_t job, uint32_t step, uint32_t seq,
		   const char *hash, struct gck_error *err) GCK_MUST_CHECK;

/* Give up an import, unless it is over, because its user says so and puts nothing more. */
void gck_import_abort(struct gck_core *core, uint32_t job, uint32_t step, uint32_t seq);

/* Give up an import whose user went silent. Its last objects may still arrive in the store for a
 * while. */
void gck_import_lost(struct gck_core *core, uint32_t job, uint32_t step, uint32_t seq);

/* Give up all imports that were under way when the journal ended. */
void gck_import_lost_all(struct gck_state *s, int64_t now_ms);

#endif
