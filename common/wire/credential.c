/* SPDX-License-Identifier: Apache-2.0 */
#include "common/wire/credential.h"

#include <munge.h>
#include <stdlib.h>
#include <string.h>

#include "common/wire/wire.h"

static munge_ctx_t context(const char *socket, struct gck_error *err)
{
	munge_ctx_t ctx = munge_ctx_create();

	if (!ctx) {
		gck_fail(err, ENOMEM, "munge: no memory for a context");
		return NULL;
	}
	if (!socket || !*socket || munge_ctx_set(ctx, MUNGE_OPT_SOCKET, socket) == EMUNGE_SUCCESS)
		return ctx;
	gck_fail(err, EINVAL, "munge: socket %s: %s", socket, munge_ctx_strerror(ctx));
	munge_ctx_destroy(ctx);
	return NULL;
}

/* Fill err with munge's reason and a remedy for the common causes. */
static void explain(munge_ctx_t ctx, munge_err_t e, const char *what, struct gck_error *err)
{
	const char *why = munge_ctx_strerror(ctx);
	const char *remedy = "";
	int code = EACCES;

	if (e == EMUNGE_SOCKET) {
		remedy = "; check that munged runs on this node";
		code = ECONNREFUSED;
	} else if (e == EMUNGE_CRED_EXPIRED || e == EMUNGE_CRED_REWOUND) {
		remedy = "; check that the nodes' clocks agree";
	} else if (e == EMUNGE_CRED_INVALID) {
		remedy = "; check that the nodes have the same munge key";
	} else if (e == EMUNGE_BAD_LENGTH) {
		code = EMSGSIZE;
	}
	gck_fail(err, code, "munge: %s: %s%s", what, why ? why : munge_strerror(e), remedy);
}

char *gck_credential_encode(const char *socket, uid_t reader, const char *payload,
			  struct gck_error *err)
{
	munge_ctx_t ctx = context(socket, err);
	munge_err_t e = EMUNGE_SUCCESS;
	char *text = NULL;

	if (!ctx)
		return NULL;
	if (reader != GCK_WIRE_ANY_UID)
		e = munge_ctx_set(ctx, MUNGE_OPT_UID_RESTRICTION, reader);
	if (e == EMUNGE_SUCCESS)
		e = munge_encode(&text, ctx, payload, (int)strlen(payload));
	if (e != EMUNGE_SUCCESS)
		explain(ctx, e, "cannot make a credential", err);
	munge_ctx_destroy(ctx);
	return text;
}

/* Decode a NUL-terminated text. */
static char *decode(munge_ctx_t ctx, const char *text, size_t *length, uid_t *uid,
		    struct gck_error *err)
{
	void *payload = NULL;
	uid_t maker;
	int n = 0;
	munge_err_t e = munge_decode(text, ctx, &payload, &n, &maker, NULL);

	/* munge also returns the payload of an expired or replayed credential. */
	if (e != EMUNGE_SUCCESS) {
		explain(ctx, e, "credential refused", err);
		free(payload);
		return NULL;
	}
	if (!payload) {
		gck_fail(err, EBADMSG, "munge: a credential without a payload came");
		return NULL;
	}
	*length = (size_t)n;
	*uid = maker;
	return payload;
}

char *gck_credential_decode(const char *socket, const char *text, size_t size, size_t *length,
			  uid_t *uid, struct gck_error *err)
{
	munge_ctx_t ctx = context(socket, err);
	char *copy = NULL;
	char *payload = NULL;

	if (!ctx)
		return NULL;
	if (strnlen(text, size) < size)
		gck_fail(err, EBADMSG, "munge: a credential with a NUL in it came");
	else if (!(copy = strndup(text, size)))
		gck_fail(err, ENOMEM, "munge: no memory for a credential of %zu bytes", size);
	else
		payload = decode(ctx, copy, length, uid, err);
	free(copy);
	munge_ctx_destroy(ctx);
	return payload;
}
