/* SPDX-License-Identifier: Apache-2.0
 * One request: a curl handle, filled from struct gck_http and read back into it. */
#include "config.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "storage/s3/http.h"
#include "storage/s3/s3.h"

#define SLOWEST 1024L /* bytes per second; a slower transfer counts as stalled */
#define BUFFER (128L * 1024) /* two for each transfer; a node has many transfers */

/* ---- callbacks ------------------------------------------------------------------------------ */

static size_t give(char *to, size_t one, size_t n, void *arg)
{
	struct gck_http *h = arg;
	size_t left = h->body_size - h->sent, size = one * n < left ? one * n : left;

	memcpy(to, (const char *)h->body + h->sent, size);
	h->sent += size;
	return size;
}

/* curl sends the body again if a kept connection turns out to be closed. */
static int rewind_body(void *arg, curl_off_t offset, int origin)
{
	struct gck_http *h = arg;

	if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > h->body_size)
		return CURL_SEEKFUNC_FAIL;
	h->sent = (size_t)offset;
	return CURL_SEEKFUNC_OK;
}

static bool take_text(struct gck_http *h, const char *data, size_t size)
{
	char *text;

	if (size > GCK_HTTP_TEXT_MAX - h->size)
		return false;
	text = realloc(h->text, h->size + size + 1);
	if (!text)
		return false;
	h->text = text;
	memcpy(text + h->size, data, size);
	h->size += size;
	text[h->size] = '\0';
	return true;
}

static size_t take(char *data, size_t one, size_t n, void *arg)
{
	struct gck_http *h = arg;
	size_t size = one * n;

	curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &h->status);
	if (!h->into || h->status / 100 != 2) {
		h->overflow = !take_text(h, data, size);
		return h->overflow ? 0 : size;
	}
	h->overflow = size > h->capacity - h->got;
	if (h->overflow)
		return 0;
	memcpy((char *)h->into + h->got, data, size);
	h->got += size;
	return size;
}

/* Copy the value of a header line with this name; false: it has another name. */
static bool header(const char *line, size_t size, const char *name, char *value, size_t capacity)
{
	size_t n = strlen(name);

	if (size <= n || strncasecmp(line, name, n) || line[n] != ':')
		return false;
	for (line += n + 1, size -= n + 1; size > 0 && (*line == ' ' || *line == '\t'); size--)
		line++;
	while (size > 0 && strchr("\r\n \t", line[size - 1]))
		size--;
	snprintf(value, capacity, "%.*s", (int)size, line);
	return true;
}

static size_t take_header(char *line, size_t one, size_t n, void *arg)
{
	struct gck_http *h = arg;
	char value[128];

	if (header(line, one * n, "ETag", h->etag, sizeof h->etag))
		return n;
	if (header(line, one * n, "x-amz-checksum-crc32c", value, sizeof value))
		h->verified = true;
	else if (header(line, one * n, "Date", value, sizeof value))
		h->date = curl_getdate(value, NULL);
	else if (header(line, one * n, "Content-Range", value, sizeof value) &&
		 !strncmp(value, "bytes ", 6))
		h->first = strtoull(value + 6, NULL, 10);
	return n;
}

/* Processes that this one starts must not inherit the sockets. */
static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
	(void)arg;
	(void)purpose;
	return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

/* ---- the handle ----------------------------------------------------------------------------- */

static CURLcode set_body(struct gck_http *h)
{
	CURL *e = h->easy;
	CURLcode rc;

	if (!strcmp(h->method, "PUT")) {
		rc = curl_easy_setopt(e, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(e, CURLOPT_INFILESIZE_LARGE, (curl_off_t)h->body_size);
		curl_easy_setopt(e, CURLOPT_READFUNCTION, give);
		curl_easy_setopt(e, CURLOPT_READDATA, h);
		curl_easy_setopt(e, CURLOPT_SEEKFUNCTION, rewind_body);
		curl_easy_setopt(e, CURLOPT_SEEKDATA, h);
		curl_easy_setopt(e, CURLOPT_UPLOAD_BUFFERSIZE, BUFFER);
		return rc;
	}
	if (!strcmp(h->method, "POST")) {
		rc = curl_easy_setopt(e, CURLOPT_POST, 1L);
		curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)h->body_size);
		curl_easy_setopt(e, CURLOPT_POSTFIELDS, h->body ? h->body : "");
		return rc;
	}
	if (!strcmp(h->method, "HEAD"))
		return curl_easy_setopt(e, CURLOPT_NOBODY, 1L);
	return curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, h->method);
}

static bool add_header(struct gck_http *h, const char *line)
{
	struct curl_slist *list = curl_slist_append(h->list, line);

	if (list)
		h->list = list;
	return list;
}

static bool set_headers(struct gck_http *h)
{
	/* Do not wait for "100 Continue"; do not send the type that curl would invent. */
	if (!add_header(h, "Expect:") || !add_header(h, "Content-Type:"))
		return false;
	for (size_t i = 0; i < GCK_HTTP_HEADERS && h->headers[i]; i++)
		if (!add_header(h, h->headers[i]))
			return false;
	return curl_easy_setopt(h->easy, CURLOPT_HTTPHEADER, h->list) == CURLE_OK;
}

static void set_common(struct gck_http *h)
{
	CURL *e = h->easy;

	curl_easy_setopt(e, CURLOPT_PRIVATE, h);
	curl_easy_setopt(e, CURLOPT_ERRORBUFFER, h->why);
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	curl_easy_setopt(e, CURLOPT_BUFFERSIZE, BUFFER);
	curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, take);
	curl_easy_setopt(e, CURLOPT_WRITEDATA, h);
	curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, take_header);
	curl_easy_setopt(e, CURLOPT_HEADERDATA, h);
	curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT, (long)h->patience);
	curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME, (long)h->patience);
	curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, SLOWEST);
}

static int prepare(struct gck_http *h, struct gck_error *err)
{
	h->length = -1;
	h->date = -1;
	h->easy = curl_easy_init();
	if (!h->easy)
		return gck_fail(err, ENOMEM, "no memory for a request");
	set_common(h);
	if (curl_easy_setopt(h->easy, CURLOPT_URL, h->url) != CURLE_OK || set_body(h) != CURLE_OK ||
	    !set_headers(h))
		return gck_fail(err, ENOMEM, "no memory for a request");
	if (h->range)
		curl_easy_setopt(h->easy, CURLOPT_RANGE, h->range);
	if (h->ca)
		curl_easy_setopt(h->easy, CURLOPT_CAINFO, h->ca);
	return 0;
}

/* ---- the end -------------------------------------------------------------------------------- */

static int failure_code(const struct gck_http *h)
{
	switch (h->code) {
	case CURLE_OPERATION_TIMEDOUT:
		return ETIMEDOUT;
	case CURLE_OUT_OF_MEMORY:
		return ENOMEM;
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_ISSUER_ERROR:
		return EACCES;
	case CURLE_URL_MALFORMAT:
		return EINVAL;
	default:
		return h->overflow ? EPROTO : EPIPE;
	}
}

static const char *failure_remedy(const struct gck_http *h)
{
	switch (h->code) {
	case CURLE_PEER_FAILED_VERIFICATION:
		if (strstr(h->why, "expired"))
			return " (renew it on the server; or is this host's clock ahead? set it by "
			       "NTP)";
		if (strstr(h->why, "not yet valid"))
			return " (is this host's clock behind? set it by NTP)";
		return " (is it the server's that S3Endpoint names? S3CAFile names the "
		       "certificates to check it against)";
	case CURLE_SSL_CACERT_BADFILE:
		return " (S3CAFile must be there on every node and readable by all)";
	case CURLE_COULDNT_RESOLVE_HOST:
		return " (see S3Endpoint and S3Addressing)";
	default:
		return "";
	}
}

static int read_back(struct gck_http *h, struct gck_error *err)
{
	curl_off_t length = -1, wait = 0;

	if (h->code != CURLE_OK)
		return gck_fail(err, failure_code(h), "%s%s%s",
				h->overflow ? "the answer is larger than what was asked for" :
				*h->why     ? h->why :
					      curl_easy_strerror(h->code),
				h->code == CURLE_OPERATION_TIMEDOUT ? ": no progress" : "",
				failure_remedy(h));
	curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &h->status);
	curl_easy_getinfo(h->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
	curl_easy_getinfo(h->easy, CURLINFO_RETRY_AFTER, &wait);
	h->length = length;
	h->retry_after = wait;
	return 0;
}

int gck_http(struct gck_http *h, struct gck_error *err)
{
	int rc = gck_engine_start(err);

	if (rc == 0)
		rc = prepare(h, err);
	if (rc == 0) {
		gck_engine_run(h);
		rc = read_back(h, err);
	}
	curl_easy_cleanup(h->easy);
	curl_slist_free_all(h->list);
	h->easy = NULL;
	h->list = NULL;
	if (rc < 0)
		gck_http_end(h);
	return rc;
}

void gck_http_end(struct gck_http *h)
{
	free(h->text);
	h->text = NULL;
	h->size = 0;
}
