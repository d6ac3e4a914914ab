/* SPDX-License-Identifier: Apache-2.0
 * The keys that wrap jobs' data keys. */
#include "config.h"

#include "coordinator/daemon/keys/keys.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/encoding.h"
#include "common/base/log.h"

#define CREDENTIAL "gpuckpt-encryption"
#define SEALED (GCK_CRYPTO_NONCE + GCK_CRYPTO_KEY + GCK_CRYPTO_TAG)
#define ABOUT_MAX 64 /* of the text before the last colon */

/* ---- the file ------------------------------------------------------------------------------ */

static int add_key(struct gck_wrapping *w, char *line, unsigned number, struct gck_error *err)
{
	static const char about[] = "gpuckpt wrapping key";
	unsigned char mac[32];

	if (w->n == GCK_WRAPPING_MAX)
		return gck_fail(err, EINVAL, "it has more than %d keys", GCK_WRAPPING_MAX);
	for (char *c = line; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	if (strlen(line) != 2 * GCK_CRYPTO_KEY || !gck_unhex(line, GCK_CRYPTO_KEY, w->v[w->n].key))
		return gck_fail(err, EINVAL, "line %u is not a key: 64 hexadecimal digits, as "
				"`openssl rand -hex 32` makes them", number);
	if (gck_crypto_mac(w->v[w->n].key, about, strlen(about), mac, err) < 0)
		return -1;
	gck_hex(mac, (GCK_WRAPPING_ID - 1) / 2, w->v[w->n].id);
	w->n++;
	return 0;
}

static int parse(struct gck_wrapping *w, char *text, struct gck_error *err)
{
	unsigned number = 0;
	char *line;

	w->n = 0;
	while ((line = strsep(&text, "\n"))) {
		number++;
		line[strcspn(line, "\r")] = '\0';
		if (*line && *line != '#' && add_key(w, line, number, err) < 0)
			return -1;
	}
	return w->n ? 0 : gck_fail(err, EINVAL, "it has no key: `openssl rand -hex 32` makes one");
}

static int load(struct gck_wrapping *w, struct gck_error *err)
{
	char text[GCK_SECRET_MAX];
	int rc = gck_secret_read(&w->file, text, err);

	if (rc == 0)
		rc = parse(w, text, err);
	explicit_bzero(text, sizeof text);
	return rc < 0 ? gck_fail_in(err, "EncryptionKeyFile=%.300s", w->file.path) : 0;
}

int gck_wrapping_open(struct gck_wrapping *w, const struct gck_conf *c, struct gck_error *err)
{
	memset(w, 0, sizeof *w);
	gck_secret_find(&w->file, c->encryption_key_file, CREDENTIAL);
	return *w->file.path ? load(w, err) : 0;
}

void gck_wrapping_renew(struct gck_wrapping *w)
{
	struct gck_wrapping fresh;
	struct gck_error err = {0};

	if (!*w->file.path || !gck_secret_changed(&w->file))
		return;
	fresh = *w;
	if (load(&fresh, &err) == 0)
		*w = fresh;
	else
		gck_warn("%s; the keys before it are used on", err.text);
	explicit_bzero(&fresh, sizeof fresh);
}

/* ---- wrapping ------------------------------------------------------------------------------ */

static int seal(const struct gck_wrapping *w, const struct gck_job *job,
		const unsigned char key[GCK_CRYPTO_KEY], char out[GCK_WRAPPED_MAX],
		struct gck_error *err)
{
	unsigned char sealed[SEALED];
	int n = snprintf(out, ABOUT_MAX, "1:%s:%u:%" PRIu32, w->v[0].id, (unsigned)job->uid,
			 job->id);
	struct gck_associated_data bound = {out, (size_t)n};

	if (gck_crypto_random(sealed, GCK_CRYPTO_NONCE, err) < 0 ||
	    gck_crypto_encrypt(w->v[0].key, sealed, bound, key, GCK_CRYPTO_KEY,
			    sealed + GCK_CRYPTO_NONCE, err) < 0)
		return -1;
	out[n] = ':';
	gck_hex(sealed, sizeof sealed, out + n + 1);
	return 0;
}

/* The length of "1:<id>:<uid>:<job>"; 0 if the text is something else. */
static size_t parse_about(const char *wrapped, char id[GCK_WRAPPING_ID], unsigned *uid,
			  uint32_t *job)
{
	int n = 0;

	if (sscanf(wrapped, "1:%16[0-9a-f]:%u:%" SCNu32 "%n", id, uid, job, &n) < 3 ||
	    n >= ABOUT_MAX || wrapped[n] != ':')
		return 0;
	return (size_t)n;
}

static const unsigned char *find_key(const struct gck_wrapping *w, const char *id)
{
	for (size_t i = 0; i < w->n; i++)
		if (!strcmp(w->v[i].id, id))
			return w->v[i].key;
	return NULL;
}

static int no_key(const struct gck_wrapping *w, const char *id, struct gck_error *err)
{
	if (!*w->file.path)
		return gck_fail(err, ENOKEY, "gpuckptd has no keys for encrypted images: set "
				"EncryptionKeyFile in gpuckpt.conf");
	return gck_fail(err, ENOKEY,
			"its key is wrapped by key %s, which EncryptionKeyFile=%.200s of gpuckptd "
			"does not have (any more)",
			id, w->file.path);
}

int gck_wrapping_unwrap(const struct gck_wrapping *w, const char *wrapped, uid_t uid,
			unsigned char key[GCK_CRYPTO_KEY], struct gck_error *err)
{
	unsigned char sealed[SEALED];
	char id[GCK_WRAPPING_ID];
	const unsigned char *by;
	unsigned owner;
	uint32_t job;
	size_t n = parse_about(wrapped, id, &owner, &job);

	if (!n || strlen(wrapped + n + 1) != 2 * sizeof sealed ||
	    !gck_unhex(wrapped + n + 1, sizeof sealed, sealed))
		return gck_fail(err, EINVAL, "this is not a wrapped key");
	if (owner != (unsigned)uid)
		return gck_fail(err, EACCES, "the key of job %u is for user %u alone, whatever the "
				"rights of user %u", job, owner, (unsigned)uid);
	by = find_key(w, id);
	if (!by)
		return no_key(w, id, err);
	if (gck_crypto_decrypt(by, sealed, (struct gck_associated_data){wrapped, n},
			       sealed + GCK_CRYPTO_NONCE, GCK_CRYPTO_KEY, key, err) < 0)
		return gck_fail_in(err, "the wrapped key of job %u", job);
	return 0;
}

static bool is_by_first(const struct gck_wrapping *w, const char *wrapped)
{
	char id[GCK_WRAPPING_ID];
	unsigned uid;
	uint32_t job;

	return parse_about(wrapped, id, &uid, &job) && !strcmp(id, w->v[0].id);
}

/* The job's data key, or a new one. */
static int data_key(const struct gck_wrapping *w, const struct gck_job *job,
		    unsigned char key[GCK_CRYPTO_KEY], struct gck_error *err)
{
	struct gck_error why = {0};

	if (job->key && gck_wrapping_unwrap(w, job->key, job->uid, key, &why) == 0)
		return 0;
	if (job->key)
		gck_warn("job %u gets a new key: %s", job->id, why.text);
	return gck_crypto_random(key, GCK_CRYPTO_KEY, err);
}

int gck_wrapping_able(const struct gck_wrapping *w, struct gck_error *err)
{
	return w->n ? 0 : gck_fail_in((no_key(w, "", err), err), "encrypt=yes");
}

int gck_wrapping_wrap(const struct gck_wrapping *w, const struct gck_job *job,
		      char out[GCK_WRAPPED_MAX], struct gck_error *err)
{
	unsigned char key[GCK_CRYPTO_KEY];
	int rc;

	if (gck_wrapping_able(w, err))
		return -1;
	if (job->key && is_by_first(w, job->key)) {
		snprintf(out, GCK_WRAPPED_MAX, "%s", job->key);
		return 0;
	}
	rc = data_key(w, job, key, err);
	if (rc == 0)
		rc = seal(w, job, key, out, err);
	explicit_bzero(key, sizeof key);
	return rc;
}
