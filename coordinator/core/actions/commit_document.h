/* SPDX-License-Identifier: Apache-2.0
 * The commit document: the ranks of a checkpoint with the hash of each rank's manifest; and the key
 * that images are encrypted with. */
#ifndef GCK_COMMIT_DOCUMENT_H
#define GCK_COMMIT_DOCUMENT_H

#include "coordinator/core/model/live.h"

/* The document is sent to the agent that writes it in one message. -1 if a step of this size does
 * not fit; about 12,000 ranks do. */
int gck_document_fits(const struct gck_step *step, struct gck_error *err) GCK_MUST_CHECK;

/* Begin the list of ranks before they are frozen. Ranks that have ended are listed by exit status.
 * -1 without memory. */
int gck_document_begin(const struct gck_core *core, struct gck_step *step) GCK_MUST_CHECK;

/* A node's ranks are frozen but these, [{"rank"}], which ended before: they need no image. */
void gck_document_exited(struct gck_step *step, const json_t *exited);

/* Add the images that an agent has written: [{"rank", "manifest"}]. -1 if the list is invalid. */
int gck_document_add(struct gck_step *step, const json_t *ranks, struct gck_error *err)
	GCK_MUST_CHECK;

/* 0 if every rank is listed; -1 names the first that is not. */
int gck_document_check(const struct gck_step *step, struct gck_error *err) GCK_MUST_CHECK;

/* The document; and its summary with the figures that list and show print. New references. */
json_t *gck_document(struct gck_core *core, const struct gck_step *step);
json_t *gck_document_info(struct gck_core *core, const struct gck_step *step);

/* Give the step's job a data key if its options ask for encryption, and journal it. A key that it
 * has is wrapped again if the site's wrapping key has changed. */
int gck_encrypt_ready(struct gck_core *core, struct gck_step *step, struct gck_error *err)
	GCK_MUST_CHECK;

/* Could gck_encrypt_ready succeed? For `able`; changes nothing. */
int gck_encrypt_able(struct gck_core *core, const struct gck_step *step, struct gck_error *err)
	GCK_MUST_CHECK;

/* Add the member "key" to a message to agents, if images are encrypted. */
void gck_encrypt_tell(const struct gck_step *step, json_t *body);

#endif
