/* SPDX-License-Identifier: Apache-2.0
 * The coordinator's surroundings: event loop, connections, journal, Slurm. */
#ifndef GCK_DAEMON_H
#define GCK_DAEMON_H

#include <ev.h>

#include "common/base/conf.h"
#include "common/wire/wire.h"
#include "coordinator/core/model/core.h"
#include "coordinator/core/model/journal.h"
#include "coordinator/daemon/keys/keys.h"
#include "coordinator/daemon/keys/wrapping.h"
#include "coordinator/daemon/peer/limits.h"
#include "coordinator/daemon/slurm/slurm.h"

#define GCK_MAX_LISTEN 8

struct gck_peer;
struct gck_peer_ops;
struct gck_kept;

struct gck_daemon {
	struct gck_core core; /* first: the core is what callbacks are given */
	struct gck_conf conf;
	struct gck_keys keys; /* of the object store */
	struct gck_wrapping wrapping; /* of encrypted images */
	struct ev_loop *loop;
	struct gck_journal *journal;
	struct gck_limits limits;
	struct gck_slurm slurm;
	const struct gck_peer_ops *ops;
	struct gck_peer *peers;
	struct gck_peer *dead;  /* closed, freed when nothing uses them any more */
	unsigned npeers, nagents;
	ev_io listen[GCK_MAX_LISTEN];
	unsigned nlisten;
	ev_prepare reaper;
	ev_timer grace;         /* active: the period is not over (grace.h) */
	unsigned grace_parts;   /* of it that are to come */
	struct gck_kept *kept;
	ev_timer poll;
	unsigned polls;
	bool polling;
	ev_signal stop[2];
	uid_t slurm_user;       /* root until Slurm has told */
	bool slurm_away;        /* the last question of an agent's was not answered */
	uint32_t able_id;
};

static inline struct gck_daemon *gck_daemon_of(struct gck_core *core)
{
	return (struct gck_daemon *)core;
}

/* world.c: the functions that the core is given. */
extern const struct gck_world gck_real_world;

/* Make the journal as short as the state. Jobs that Slurm forgot and that have no commit are
 * dropped. */
int gck_daemon_compact(struct gck_daemon *d, struct gck_error *err);

/* server.c: listen where the configuration says; stop. */
int gck_server_listen(struct gck_daemon *d, struct gck_error *err);
void gck_server_close(struct gck_daemon *d);

/* watch.c: look at nodes and jobs now and then. */
void gck_watch_start(struct gck_daemon *d);

#endif
