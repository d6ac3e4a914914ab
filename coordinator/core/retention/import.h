/* SPDX-License-Identifier: Apache-2.0
 * Imports: a user puts the image of a step, from a file, into the object store. As with a checkpoint an
 * intent is journaled before anything is put, and the commit when its object is there; in between its user
 * gets URLs to write with (permit.h). An import that is given up, because its user says so, or is heard no
 * more, or gpuckptd was started anew, leaves its step to be swept (expire.h). */
#ifndef GCK_IMPORT_H
#define GCK_IMPORT_H

#include "coordinator/core/model/core.h"

#define GCK_IMPORT_SILENCE_S 900 /* longer than a URL is good: who was not heard for so long puts nothing more */

struct gck_import {
	uint32_t job, step, seq;
	uint32_t ranks;
	uint64_t stored;           /* bytes of objects */
	const char *store;
	const json_t *directories; /* of the step that it puts into */
	const json_t *fingerprint; /* of the program; JSON null: not known */
};

/* "import", all of it checked; what it points to is body's. */
int gck_import_parse(const json_t *body, struct gck_import *i, struct gck_error *err);

/* May this user? What Slurm knows of the job is looked at before, by whoever calls, if gck_import_asks. */
bool gck_import_asks(const struct gck_core *core, const struct gck_import *i);
int gck_import_check(const struct gck_core *core, const struct gck_import *i, uid_t uid,
		     struct gck_error *err);

/* It may: journal its intent, and its job and step, if they are not known. user: the name of uid. */
int gck_import_begin(struct gck_core *core, const struct gck_import *i, uid_t uid, const char *user,
		     struct gck_error *err);

/* Its commit object, of this hash, is there. -1: not journaled, or it was given up meanwhile. */
int gck_import_end(struct gck_core *core, uint32_t job, uint32_t step, uint32_t seq, const char *hash,
		   struct gck_error *err);

/* Unless it is over already. Whoever imports has said so, and puts nothing more. */
void gck_import_abort(struct gck_core *core, uint32_t job, uint32_t step, uint32_t seq);

/* The same of one who is heard no more: what is on its way to the store may come to lie there for a while. */
void gck_import_lost(struct gck_core *core, uint32_t job, uint32_t step, uint32_t seq);

/* All that were under way when the journal ends. */
void gck_import_lost_all(struct gck_state *s, int64_t now_ms);

#endif
