/* SPDX-License-Identifier: Apache-2.0
 * The cryptographic primitives of encryption, all of them libcrypto's. A gpuckpt that was
 * configured without libcrypto has crypto_none.c, where every function fails with ENOTSUP.
 *
 * XAES-256-GCM (c2sp.org/XAES-256-GCM) is AES-256-GCM with a nonce of 192 bits: random nonces do
 * not repeat under a key, however much is encrypted. */
#ifndef GCK_CRYPTO_H
#define GCK_CRYPTO_H

#include <stddef.h>

#include "common/base/error.h"

#define GCK_CRYPTO_KEY 32
#define GCK_CRYPTO_NONCE 24
#define GCK_CRYPTO_TAG 16
#define GCK_CRYPTO_EXTRA (GCK_CRYPTO_NONCE + GCK_CRYPTO_TAG)

/* Bytes that are authenticated with the encrypted ones: decryption needs the same bytes. */
struct gck_associated_data {
	const void *data;
	size_t size;
};

/* Random bytes from libcrypto's generator. */
GCK_MUST_CHECK int gck_crypto_random(void *data, size_t size, struct gck_error *err);

/* Encrypt size bytes at `in` to size bytes and the tag at `out`, which may be the same place. */
GCK_MUST_CHECK int gck_crypto_encrypt(const unsigned char key[GCK_CRYPTO_KEY],
				      const unsigned char nonce[GCK_CRYPTO_NONCE],
				      struct gck_associated_data bound, const void *in, size_t size,
				      void *out, struct gck_error *err);

/* Decrypt size bytes and the tag at `in` to size bytes at `out`. EBADMSG: key, nonce, associated
 * data or bytes are not those of the encryption; the bytes at `out` are then useless. */
GCK_MUST_CHECK int gck_crypto_decrypt(const unsigned char key[GCK_CRYPTO_KEY],
				      const unsigned char nonce[GCK_CRYPTO_NONCE],
				      struct gck_associated_data bound, const void *in, size_t size,
				      void *out, struct gck_error *err);

/* HMAC-SHA256. */
GCK_MUST_CHECK int gck_crypto_mac(const unsigned char key[GCK_CRYPTO_KEY], const void *data,
				  size_t size, unsigned char mac[32], struct gck_error *err);

#endif
