/* SPDX-License-Identifier: Apache-2.0
 * The cryptography that encryption is made of, all of it libcrypto's. A gpuckpt that was configured
 * without it has crypto_none.c, where everything is ENOTSUP.
 *
 * XAES-256-GCM (c2sp.org/XAES-256-GCM): AES-256-GCM whose nonce has 192 bits, so that one drawn by
 * chance never comes twice under a key, however much is sealed. */
#ifndef GCK_CRYPTO_H
#define GCK_CRYPTO_H

#include <stddef.h>

#include "common/base/error.h"

#define GCK_CRYPTO_KEY 32
#define GCK_CRYPTO_NONCE 24
#define GCK_CRYPTO_TAG 16
#define GCK_CRYPTO_EXTRA (GCK_CRYPTO_NONCE + GCK_CRYPTO_TAG)

/* Bytes that travel with what is sealed and must be the same when it is opened. */
struct gck_associated_data {
	const void *data;
	size_t size;
};

/* Of chance, from libcrypto's generator. */
int gck_crypto_random(void *data, size_t size, struct gck_error *err);

/* size bytes at `in` become size bytes and the tag at `out`, which may be the same place. */
int gck_crypto_encrypt(const unsigned char key[GCK_CRYPTO_KEY],
		    const unsigned char nonce[GCK_CRYPTO_NONCE], struct gck_associated_data bound,
		    const void *in, size_t size, void *out, struct gck_error *err);

/* The opposite: size bytes and the tag at `in`, size bytes at `out`. EBADMSG: they are not what was
 * sealed with this key, nonce and bound bytes; what is at `out` is of no use then. */
int gck_crypto_decrypt(const unsigned char key[GCK_CRYPTO_KEY],
		    const unsigned char nonce[GCK_CRYPTO_NONCE], struct gck_associated_data bound,
		    const void *in, size_t size, void *out, struct gck_error *err);

/* HMAC-SHA256. */
int gck_crypto_mac(const unsigned char key[GCK_CRYPTO_KEY], const void *data, size_t size,
		   unsigned char mac[32], struct gck_error *err);

#endif
