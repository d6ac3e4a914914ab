/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "coordinator/daemon/requests/requests.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "coordinator/core/retention/import.h"
#include "coordinator/daemon/objects/objects.h"

struct gck_importer {
	struct gck_peer *peer;
	bool only_asks;
	json_t *request;         /* while Slurm is asked */
	uint32_t job, step, seq; /* of its intent */
	ev_timer idle;
};

static void refuse(struct gck_peer *peer, const struct gck_error *err)
{
	gck_info("import by user %u is refused: %s", (unsigned)peer->uid, err->text);
	gck_peer_end(peer, err->text, NULL);
}

static void drop(struct gck_importer *i)
{
	ev_timer_stop(i->peer->daemon->loop, &i->idle);
	json_decref(i->request);
	i->peer->importer = NULL;
	free(i);
}

static void on_idle(struct ev_loop *loop, ev_timer *w, int events)
{
	struct gck_importer *i = w->data;

	(void)loop;
	(void)events;
	gck_warn("step %u.%u: nothing was heard of the import of checkpoint %u for %.0f s; it is "
		 "given up",
		 i->job, i->step, i->seq, (double)GCK_IMPORT_SILENCE_S);
	gck_peer_close(i->peer);
}

/* ---- begin --------------------------------------------------------------------------------- */

static void allow(struct gck_importer *i)
{
	gck_peer_end(i->peer, NULL, json_pack("{s:s}", "cluster", i->peer->daemon->conf.cluster));
}

/* user: the name of the peer's uid, if Slurm was asked. */
static void begin(struct gck_importer *i, const struct gck_import *what, const char *user)
{
	struct gck_peer *peer = i->peer;
	struct gck_daemon *d = peer->daemon;
	struct gck_error err = {0};

	if (gck_import_check(&d->core, what, peer->uid, &err) ||
	    (!i->only_asks && gck_import_begin(&d->core, what, peer->uid, user, &err))) {
		refuse(peer, &err);
		drop(i);
	} else if (i->only_asks) {
		allow(i);
		drop(i);
	} else {
		i->job = what->job;
		i->step = what->step;
		i->seq = what->seq;
		ev_timer_again(d->loop, &i->idle);
		allow(i);
	}
}

static void on_slurm(void *arg, const struct gck_slurm_answer *answer)
{
	struct gck_importer *i = arg;
	struct gck_peer *peer = i->peer;
	struct gck_error err = {0};
	struct gck_import what;
	json_t *request = i->request;

	i->request = NULL;
	peer->uses--;
	gck_limits_asked(&peer->daemon->limits, peer->uid);
	if (!peer->wire) {
		drop(i);
	} else if (!answer->ok || gck_import_parse(request, &what, &err)) {
		if (!answer->ok)
			gck_fail(&err, answer->code, "%s", answer->error);
		refuse(peer, &err);
		drop(i);
	} else {
		begin(i, &what, json_string_value(json_object_get(answer->data, "user")));
	}
	json_decref(request);
}

static void ask_slurm(struct gck_importer *i, const struct gck_import *what, const json_t *body)
{
	struct gck_peer *peer = i->peer;
	struct gck_daemon *d = peer->daemon;
	struct gck_error err = {0};

	if (!gck_limits_ask(&d->limits, peer->uid)) {
		gck_fail(&err, EAGAIN, "too much is being asked of Slurm for you: try again");
		refuse(peer, &err);
		drop(i);
		return;
	}
	i->request = json_deep_copy(body);
	peer->uses++;
	gck_slurm_ask(&d->slurm,
		      json_pack("{s:s, s:I, s:I}", "op", "import", "job", (json_int_t)what->job,
				"uid", (json_int_t)peer->uid),
		      on_slurm, i);
}

static void open_import(struct gck_peer *peer, const json_t *body, bool only_asks)
{
	const struct gck_core *core = &peer->daemon->core;
	struct gck_importer *i = NULL;
	struct gck_error err = {0};
	struct gck_import what;

	if (peer->importer)
		gck_fail(&err, EBUSY, "one import at a time over a connection");
	else if (gck_import_parse(body, &what, &err) == 0 &&
		 gck_import_check(core, &what, peer->uid, &err) == 0 && !(i = calloc(1, sizeof *i)))
		gck_fail(&err, ENOMEM, "no memory for an import");
	if (!i) {
		refuse(peer, &err);
		return;
	}
	i->peer = peer;
	i->only_asks = only_asks;
	peer->importer = i;
	ev_timer_init(&i->idle, on_idle, 0., GCK_IMPORT_SILENCE_S);
	i->idle.data = i;
	if (gck_import_asks(core, &what))
		ask_slurm(i, &what, body);
	else
		begin(i, &what, NULL);
}

void gck_importer_ask(struct gck_peer *peer, const json_t *body)
{
	open_import(peer, body, true);
}

void gck_importer_begin(struct gck_peer *peer, const json_t *body)
{
	open_import(peer, body, false);
}

/* ---- end ----------------------------------------------------------------------------------- */

/* The user puts nothing more: what is stored can be removed at once. */
static void give_up(struct gck_importer *i)
{
	struct gck_daemon *d = i->peer->daemon;

	gck_import_abort(&d->core, i->job, i->step, i->seq);
	drop(i);
	gck_sweep_start(d);
}

void gck_importer_end(struct gck_peer *peer, const json_t *body)
{
	struct gck_importer *i = peer->importer;
	const char *hash = json_string_value(json_object_get(body, "hash"));
	struct gck_error err = {0};

	if (!i) {
		gck_fail(&err, ESTALE, "nothing is imported over this connection");
		refuse(peer, &err);
		return;
	}
	if (hash && gck_import_end(&peer->daemon->core, i->job, i->step, i->seq, hash, &err) == 0) {
		drop(i);
		gck_peer_end(peer, NULL, NULL);
		return;
	}
	give_up(i);
	if (err.code)
		refuse(peer, &err);
	else
		gck_peer_end(peer, NULL, NULL);
}

void gck_importer_closed(struct gck_importer *i)
{
	if (i->request)
		return; /* on_slurm frees it */
	gck_import_lost(&i->peer->daemon->core, i->job, i->step, i->seq);
	drop(i);
}

void gck_importer_heard(const struct gck_daemon *d, const struct gck_step *step)
{
	for (const struct gck_peer *peer = d->peers; peer; peer = peer->next) {
		struct gck_importer *i = peer->importer;

		if (i && !i->request && i->job == step->job->id && i->step == step->id)
			ev_timer_again(d->loop, &i->idle);
	}
}
