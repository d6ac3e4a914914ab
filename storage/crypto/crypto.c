/* SPDX-License-Identifier: Apache-2.0
 * XAES-256-GCM and HMAC-SHA256 by libcrypto. */
#include "storage/crypto/crypto.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#define BLOCK 16
#define GCM_NONCE 12

static int fail(const char *what, struct gck_error *err)
{
	return gck_fail(err, EIO, "libcrypto: %s failed", what);
}

int gck_crypto_random(void *data, size_t size, struct gck_error *err)
{
	return RAND_bytes(data, (int)size) == 1 ? 0 : fail("drawing by chance", err);
}

int gck_crypto_mac(const unsigned char key[GCK_CRYPTO_KEY], const void *data, size_t size,
		   unsigned char mac[32], struct gck_error *err)
{
	return HMAC(EVP_sha256(), key, GCK_CRYPTO_KEY, data, size, mac, NULL) ?
		       0 : fail("HMAC-SHA256", err);
}

/* ---- the key of a nonce --------------------------------------------------------------------- */

/* CMAC's subkey: zeros encrypted, times x in GF(2^128). */
static void double_block(unsigned char b[BLOCK])
{
	unsigned carry = b[0] >> 7;

	for (size_t i = 0; i < BLOCK; i++)
		b[i] = (unsigned char)(b[i] << 1 | (i + 1 < BLOCK ? b[i + 1] >> 7 : 0));
	b[BLOCK - 1] ^= carry ? 0x87 : 0;
}

/* CMAC of two blocks, numbered 1 and 2, with the nonce's first half in them. */
static int derive(EVP_CIPHER_CTX *ctx, const unsigned char key[GCK_CRYPTO_KEY],
		  const unsigned char nonce[GCK_CRYPTO_NONCE], unsigned char out[GCK_CRYPTO_KEY])
{
	unsigned char subkey[BLOCK] = { 0 }, in[GCK_CRYPTO_KEY] = { 0, 1, 'X', 0 };
	int n, rc = 0;

	in[BLOCK + 1] = 2;
	in[BLOCK + 2] = 'X';
	memcpy(in + 4, nonce, GCM_NONCE);
	memcpy(in + BLOCK + 4, nonce, GCM_NONCE);
	if (EVP_EncryptInit_ex(ctx, EVP_aes_256_ecb(), NULL, key, NULL) != 1 ||
	    EVP_CIPHER_CTX_set_padding(ctx, 0) != 1 ||
	    EVP_EncryptUpdate(ctx, subkey, &n, subkey, BLOCK) != 1)
		rc = -1;
	double_block(subkey);
	for (size_t i = 0; i < sizeof in; i++)
		in[i] ^= subkey[i % BLOCK];
	if (rc == 0 && EVP_EncryptUpdate(ctx, out, &n, in, sizeof in) != 1)
		rc = -1;
	OPENSSL_cleanse(subkey, sizeof subkey);
	OPENSSL_cleanse(in, sizeof in);
	return rc;
}

static int begin(EVP_CIPHER_CTX *ctx, bool encrypt, const unsigned char key[GCK_CRYPTO_KEY],
		 const unsigned char nonce[GCK_CRYPTO_NONCE], struct gck_associated_data bound)
{
	unsigned char own[GCK_CRYPTO_KEY];
	int n, rc = derive(ctx, key, nonce, own);

	if (rc == 0 && EVP_CipherInit_ex(ctx, EVP_aes_256_gcm(), NULL, own, nonce + GCM_NONCE,
					 encrypt) != 1)
		rc = -1;
	if (rc == 0 && bound.size &&
	    EVP_CipherUpdate(ctx, NULL, &n, bound.data, (int)bound.size) != 1)
		rc = -1;
	OPENSSL_cleanse(own, sizeof own);
	return rc;
}

/* ---- sealing and opening -------------------------------------------------------------------- */

int gck_crypto_encrypt(const unsigned char key[GCK_CRYPTO_KEY],
		    const unsigned char nonce[GCK_CRYPTO_NONCE], struct gck_associated_data bound,
		    const void *in, size_t size, void *out, struct gck_error *err)
{
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	unsigned char *at = out;
	int n = 0, rc = -1;

	if (ctx && size <= INT_MAX && begin(ctx, true, key, nonce, bound) == 0 &&
	    EVP_EncryptUpdate(ctx, at, &n, in, (int)size) == 1 &&
	    EVP_EncryptFinal_ex(ctx, at + n, &n) == 1 &&
	    EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, GCK_CRYPTO_TAG, at + size) == 1)
		rc = 0;
	EVP_CIPHER_CTX_free(ctx);
	return rc == 0 ? 0 : fail("encryption", err);
}

int gck_crypto_decrypt(const unsigned char key[GCK_CRYPTO_KEY],
		    const unsigned char nonce[GCK_CRYPTO_NONCE], struct gck_associated_data bound,
		    const void *in, size_t size, void *out, struct gck_error *err)
{
	EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
	unsigned char tag[GCK_CRYPTO_TAG], *at = out;
	int n = 0, rc;

	memcpy(tag, (const char *)in + size, sizeof tag);
	if (!ctx || size > INT_MAX || begin(ctx, false, key, nonce, bound) < 0 ||
	    EVP_DecryptUpdate(ctx, at, &n, in, (int)size) != 1 ||
	    EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, sizeof tag, tag) != 1)
		rc = fail("decryption", err);
	else if (EVP_DecryptFinal_ex(ctx, at + n, &n) != 1)
		rc = gck_fail(err, EBADMSG,
			      "it does not decrypt: damaged, or sealed with another key");
	else
		rc = 0;
	EVP_CIPHER_CTX_free(ctx);
	return rc;
}
