/* SPDX-License-Identifier: Apache-2.0
 * Documents of which only a part can be read without the job's key (doc/store.md, "Encryption"). */
#ifndef GCK_ENCRYPTED_H
#define GCK_ENCRYPTED_H

#include "storage/store/internal.h"

/* outside with the member "sealed": inside, encrypted with s's key and bound to the document's name and to
 * what is outside. Both are borrowed. A new reference. */
json_t *gck_document_encrypt(struct gck_store *s, const char *name, const json_t *outside,
			const json_t *inside, struct gck_error *err);

/* The document as it was before it was sealed, with the member "sealed" saying by which key; or just
 * another reference, if nothing of it is. EBADMSG; ENOKEY and what else the unwrapper says. */
json_t *gck_document_decrypt(struct gck_store *s, const char *name, const json_t *document,
			struct gck_error *err);

/* The key that a document which was opened (or not yet) has its chunks encrypted with: *seal, NULL where
 * they are not. */
int gck_document_key(struct gck_store *s, const json_t *document, const struct gck_job_key **seal,
		   struct gck_error *err);

#endif
