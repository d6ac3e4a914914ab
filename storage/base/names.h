/* SPDX-License-Identifier: Apache-2.0
 * Names in the store, relative to the step's directory: made here and recognised here. */
#ifndef GCK_NAMES_H
#define GCK_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/error.h"

#define GCK_NAME_MAX 160 /* of an object, with its directory and the NUL */
#define GCK_NONCE_MAX 64

/* A nonce is part of a path: letters and digits only. */
GCK_MUST_CHECK int gck_nonce_check(const char *nonce, struct gck_error *err);

void gck_name_commit(char name[GCK_NAME_MAX], uint32_t seq);
void gck_name_dir(char name[GCK_NAME_MAX], uint32_t seq, const char *nonce);
void gck_name_manifest(char name[GCK_NAME_MAX], uint32_t seq, const char *nonce, uint32_t rank);

/* The number, in decimal, that a name begins with: of a user, a job or a step. Returns what follows
 * it, or NULL. */
const char *gck_name_number(const char *name, uint32_t *value);

/* Recognise a name in the step's directory; false: another kind, or not one of the store's. */
bool gck_name_is_commit(const char *name, uint32_t *seq);
bool gck_name_is_dir(const char *name, uint32_t *seq);     /* "<seq>-<nonce>/" */
bool gck_name_is_object(const char *name);                 /* "<seq>-<nonce>/<hash>" */
bool gck_name_is_content(const char *name, uint32_t *seq); /* an object's or a manifest's name */
bool gck_name_is_temporary(const char *name);              /* "<seq>-<nonce>/tmp-<random>" */

#endif
