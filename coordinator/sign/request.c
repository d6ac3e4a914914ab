/* SPDX-License-Identifier: Apache-2.0
 * Requests for URLs and keys as JSON. */
#include "coordinator/sign/request.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/encoding.h"

static void set_text(json_t *one, const char *key, const char *value)
{
	if (value)
		json_object_set_new(one, key, json_string(value));
}

static json_t *pack_one(const struct gck_sign_request *r)
{
	json_t *one = json_pack("{s:s, s:s}", "verb", gck_sign_verb_name(r->verb), "name", r->name);

	set_text(one, "token", r->token);
	set_text(one, "upload", r->upload);
	set_text(one, "md5", r->md5);
	set_text(one, "crc32c", r->crc32c);
	if (r->part)
		json_object_set_new(one, "part", json_integer(r->part));
	if (r->only_new)
		json_object_set_new(one, "only_new", json_true());
	return one;
}

json_t *gck_sign_pack(json_int_t id, const struct gck_sign_scope *of,
		      const struct gck_sign_request *v, size_t n)
{
	json_t *requests = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(requests, pack_one(&v[i]));
	return json_pack("{s:s, s:I, s:s, s:s, s:I, s:I, s:o}", "op", "sign", "id", id, "store",
			 of->url, "cluster", of->cluster, "job", (json_int_t)of->job, "step",
			 (json_int_t)of->step, "requests", requests);
}

int gck_sign_unpack(const json_t *one, struct gck_sign_request *r, struct gck_error *err)
{
	const char *verb;
	json_int_t part = 0;
	int only_new = 0;
	json_error_t bad;

	memset(r, 0, sizeof *r);
	if (json_unpack_ex((json_t *)one, &bad, 0, "{s:s, s:s, s?s, s?s, s?s, s?s, s?I, s?b}",
			   "verb", &verb, "name", &r->name, "token", &r->token, "upload",
			   &r->upload, "md5", &r->md5, "crc32c", &r->crc32c, "part", &part,
			   "only_new", &only_new))
		return gck_fail(err, EINVAL, "a request for a URL is malformed: %s", bad.text);
	if (part < 0 || part > UINT_MAX)
		return gck_fail(err, EINVAL, "%.100s: the part's number is out of range", r->name);
	r->part = (unsigned)part;
	r->only_new = only_new;
	return gck_sign_verb_parse(verb, &r->verb, err);
}

void gck_sign_drop(char **urls, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(urls[i]);
		urls[i] = NULL;
	}
}

static int why(const json_t *object, struct gck_error *err)
{
	const char *text = json_string_value(json_object_get(object, "error"));
	json_int_t code = json_integer_value(json_object_get(object, "code"));

	return gck_fail(err, code > 0 && code < INT_MAX ? (int)code : EPROTO, "%s",
			text ? text : "the coordinator gave nothing, and no reason");
}

static int take_one(const json_t *one, char **url, struct gck_error *err)
{
	const char *text = json_string_value(one);

	if (!text)
		return why(one, err);
	*url = strdup(text);
	return *url ? 0 : gck_fail(err, ENOMEM, "no memory for a URL");
}

int gck_sign_take(const json_t *answer, size_t n, char **urls, unsigned *seconds,
		  struct gck_error *err)
{
	const json_t *all = json_object_get(answer, "urls");
	json_int_t good = json_integer_value(json_object_get(answer, "seconds"));

	if (!json_is_array(all))
		return why(answer, err);
	if (json_array_size(all) != n || good < 1 || good > UINT_MAX)
		return gck_fail(err, EPROTO, "the coordinator's answer is not to these requests");
	for (size_t i = 0; i < n; i++)
		if (take_one(json_array_get(all, i), &urls[i], err)) {
			gck_sign_drop(urls, i);
			return -1;
		}
	*seconds = (unsigned)good;
	return 0;
}

json_t *gck_unwrap_pack(json_int_t id, const char *wrapped)
{
	return json_pack("{s:s, s:I, s:s}", "op", "unwrap", "id", id, "key", wrapped);
}

int gck_unwrap_take(const json_t *answer, unsigned char key[GCK_CRYPTO_KEY], struct gck_error *err)
{
	const char *text = json_string_value(json_object_get(answer, "data"));

	if (!text)
		return why(answer, err);
	if (strlen(text) != 2 * GCK_CRYPTO_KEY || !gck_unhex(text, GCK_CRYPTO_KEY, key))
		return gck_fail(err, EPROTO, "the coordinator's answer has no key");
	return 0;
}
