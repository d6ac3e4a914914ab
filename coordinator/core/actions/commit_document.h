/* SPDX-License-Identifier: Apache-2.0
 * The commit document: which ranks a checkpoint has and what the manifest of each hashes to. */
#ifndef GCK_COMMIT_DOCUMENT_H
#define GCK_COMMIT_DOCUMENT_H

#include "coordinator/core/model/live.h"

/* The document of a step of this size goes to the agent that writes it as one message: -1 if it is
 * too long for one. About 12,000 ranks fit. */
int gck_document_fits(const struct gck_step *step, struct gck_error *err);

/* All ranks are frozen: those that had ended by now are carried as their exit status. -1 without
 * memory. */
int gck_document_begin(const struct gck_core *core, struct gck_step *step);

/* An agent has written images: [{"rank", "manifest"}]. -1 if that cannot be. */
int gck_document_add(struct gck_step *step, const json_t *ranks, struct gck_error *err);

/* Every rank is there, or -1 naming the first that is not. */
int gck_document_check(const struct gck_step *step, struct gck_error *err);

/* The document, and the part of it and of the figures that list and show tell. New references. */
json_t *gck_document(struct gck_core *core, const struct gck_step *step);
json_t *gck_document_info(struct gck_core *core, const struct gck_step *step);

/* Has the step's job the key that its options ask for? It gets one, and the journal has it, before the
 * first checkpoint; and the same one wrapped anew when another key wraps by now. */
int gck_encrypt_ready(struct gck_core *core, struct gck_step *step, struct gck_error *err);

/* Can it have one? What stands in the way is for `able`, which changes nothing. */
int gck_encrypt_able(struct gck_core *core, const struct gck_step *step, struct gck_error *err);

/* Add the member "key" to what is said to agents, if images are encrypted. */
void gck_encrypt_tell(const struct gck_step *step, json_t *body);

#endif
