/* SPDX-License-Identifier: Apache-2.0
 * Whole documents of a store, and checked members of their JSON. */
#ifndef GCK_DOCUMENT_H
#define GCK_DOCUMENT_H

#include "storage/base/hash.h"
#include "storage/base/open_store.h"

/* Read a whole document and hash its bytes. *data ends with a NUL; free() it. */
GCK_MUST_CHECK int gck_document_load(struct gck_store *s, const char *name, char **data,
				     size_t *size, char hash[GCK_HASH_TEXT], struct gck_error *err);

/* EBADMSG: "<where>/<name> is damaged: <why>". Returns -1. */
int gck_document_damaged(const struct gck_store *s, const char *name, const char *why,
			 struct gck_error *err);

/* Read a member that is an unsigned 32-bit number. */
GCK_MUST_CHECK int gck_json_u32(const json_t *object, const char *key, uint32_t *value,
				struct gck_error *err);

/* ---- encryption (document.c; doc/store.md, "Encryption") ------------------------------------ */

/* Is a document, as it was read or after decryption, an encrypted one? */
bool gck_document_is_encrypted(const json_t *document);

/* A document whose plain part is `plain`, with a member "sealed" that holds `secret` encrypted with
 * s's key and bound to the document's name and plain part. Both are borrowed. A new reference. */
GCK_MUST_CHECK json_t *gck_document_encrypt(struct gck_store *s, const char *name,
					    const json_t *plain, const json_t *secret,
					    struct gck_error *err);

/* The document before its encryption; its member "sealed" names the key. A document that is not
 * encrypted is returned as it is. A new reference. EBADMSG, ENOKEY, or the unwrapper's error. */
GCK_MUST_CHECK json_t *gck_document_decrypt(struct gck_store *s, const char *name,
					    const json_t *document, struct gck_error *err);

/* The key that encrypts the chunks of a document; *key is NULL where they are not encrypted. */
GCK_MUST_CHECK int gck_document_key(struct gck_store *s, const json_t *document,
				    const struct gck_job_key **key, struct gck_error *err);

#endif
