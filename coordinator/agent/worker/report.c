/* SPDX-License-Identifier: Apache-2.0
 * What workers tell the agent. */
#include "coordinator/agent/worker/report.h"

#include <string.h>
#include <time.h>

#include "coordinator/agent/base/packet.h"
#include "shim/process/process.h"

#define PROGRESS_MS 200
#define LOOK_MS 100

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void report_done(struct report *r, const char *phase, json_t *data)
{
	json_t *body = json_pack("{s:s, s:s, s:b}", "op", "done", "phase", phase, "ok", 1);

	if (data)
		json_object_update(body, data);
	json_decref(data);
	packet_send(r->fd, body, NULL);
}

static json_t *failure(const char *phase, const struct gck_error *err)
{
	return json_pack("{s:s, s:s, s:b, s:i, s:o}", "op", "done", "phase", phase, "ok", 0,
			 "code", err->code, "error", packet_string(err->text));
}

void report_failure(struct report *r, const char *phase, const struct gck_error *err)
{
	packet_send(r->fd, failure(phase, err), NULL);
}

void report_no_build(struct report *r, uint32_t seq, const struct gck_error *err)
{
	json_t *body = failure("build", err);

	json_object_set_new(body, "seq", json_integer(seq));
	packet_send(r->fd, body, NULL);
}

/* Takes packets that have come, without waiting. The work is also cancelled if the agent is
 * gone. */
static int called_off(struct report *r)
{
	struct gck_error err = { 0 };
	json_t *body;

	while (!r->next && (body = packet_recv(r->fd, 0, &err))) {
		if (strcmp(packet_text(body, "op", ""), "hold"))
			r->next = body;
		else
			json_decref(body);
	}
	return r->next || err.code != ETIMEDOUT;
}

static int progress(struct report *r, const char *phase, uint64_t done, uint64_t all)
{
	int64_t now = now_ms();

	if (now - r->told_ms < PROGRESS_MS && done < all)
		return 0;
	r->told_ms = now;
	packet_send(r->fd,
		    json_pack("{s:s, s:s, s:I, s:I}", "op", "progress", "phase", phase, "done",
				     (json_int_t)done, "all", (json_int_t)all), NULL);
	return called_off(r);
}

int report_progress(void *arg, uint64_t done, uint64_t all)
{
	return progress(arg, "write", done, all);
}

int report_size(struct report *r, uint64_t all)
{
	r->told_ms = 0;
	return progress(r, "write", 0, all);
}

bool report_upload(void *arg, uint64_t done, uint64_t all)
{
	return !progress(arg, "upload", done, all);
}

void report_trouble(void *arg, const struct gck_error *why)
{
	const struct report *r = arg;

	packet_send(r->fd,
		    json_pack("{s:s, s:o}", "op", "trouble", "why", packet_string(why->text)),
		    NULL);
}

json_t *report_next(struct report *r, int timeout_ms, struct gck_error *err)
{
	json_t *body = r->next;

	r->next = NULL;
	return body ? body : packet_recv(r->fd, timeout_ms, err);
}

/* Looks are counted, and no time: a node that stood still is no silence of its agent. */
json_t *report_next_held(struct report *r, pid_t pid, int timeout_ms, struct gck_error *err)
{
	int looks = timeout_ms < 0 ? -1 : timeout_ms / LOOK_MS + 1;
	json_t *body;

	do {
		if (gck_process_ended(pid)) {
			gck_fail(err, ESRCH, "process %d was killed while it was held", (int)pid);
			return NULL;
		}
		body = report_next(r, LOOK_MS, err);
		looks -= looks > 0;
	} while (!body && err->code == ETIMEDOUT && looks);
	return body;
}
