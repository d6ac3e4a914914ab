/* SPDX-License-Identifier: Apache-2.0
 * Replaces crypto.c where gpuckpt was configured without libcrypto. */
#include "storage/crypto/crypto.h"

static int refuse(struct gck_error *err)
{
	return gck_fail(err, ENOTSUP, "this gpuckpt was built without encryption (libcrypto)");
}

int gck_crypto_random(void *data, size_t size, struct gck_error *err)
{
	(void)data;
	(void)size;
	return refuse(err);
}

int gck_crypto_encrypt(const unsigned char key[GCK_CRYPTO_KEY],
		    const unsigned char nonce[GCK_CRYPTO_NONCE], struct gck_associated_data bound,
		    const void *in, size_t size, void *out, struct gck_error *err)
{
	(void)key;
	(void)nonce;
	(void)bound;
	(void)in;
	(void)size;
	(void)out;
	return refuse(err);
}

int gck_crypto_decrypt(const unsigned char key[GCK_CRYPTO_KEY],
		    const unsigned char nonce[GCK_CRYPTO_NONCE], struct gck_associated_data bound,
		    const void *in, size_t size, void *out, struct gck_error *err)
{
	return gck_crypto_encrypt(key, nonce, bound, in, size, out, err);
}

int gck_crypto_mac(const unsigned char key[GCK_CRYPTO_KEY], const void *data, size_t size,
		   unsigned char mac[32], struct gck_error *err)
{
	(void)key;
	(void)data;
	(void)size;
	(void)mac;
	return refuse(err);
}
