/* SPDX-License-Identifier: Apache-2.0
 * The daemon: event loop, journal, Slurm, and its connections. A connection is an agent's or the
 * CLI's; the first message tells. */
#ifndef GCK_PEER_H
#define GCK_PEER_H

#include <ev.h>

#include "common/base/conf.h"
#include "common/wire/wire.h"
#include "coordinator/core/model/core.h"
#include "coordinator/core/model/journal.h"
#include "coordinator/daemon/keys/keys.h"
#include "coordinator/daemon/peer/limits.h"
#include "coordinator/daemon/slurm/slurm.h"

#define GCK_MAX_LISTEN 8

struct gck_peer;
struct gck_peer_ops;
struct gck_waiting_request;

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
	struct gck_peer *dead;  /* closed; freed when unused */
	unsigned npeers, nagents;
	int64_t started_ms;     /* by gck_boot_ms() */
	ev_io listen[GCK_MAX_LISTEN];
	unsigned nlisten;
	ev_prepare reaper;
	ev_timer grace;         /* active: the grace period is not over */
	unsigned grace_parts;   /* parts of the period that are left */
	struct gck_waiting_request *waiting_requests;
	ev_timer poll;
	unsigned polls;
	bool polling;
	ev_signal stop[2];
	uid_t slurm_user;       /* root until Slurm has answered */
	char slurm_user_name[64];
	bool slurm_away;        /* Slurm did not answer the last question about an agent's job */
	uint32_t able_id;
};

static inline struct gck_daemon *gck_daemon_of(struct gck_core *core)
{
	return (struct gck_daemon *)core;
}

/* An agent's connection, as the core sees it. */
struct gck_agent {
	struct gck_peer *peer;
	struct gck_step *step;  /* NULL until it has joined */
	json_t *registration;   /* while Slurm is asked */
	struct gck_bucket bucket;
};

/* Functions for messages and for the end of connections, given to the daemon at its start. */
struct gck_peer_ops {
	void (*message)(struct gck_peer *peer, const char *op, const json_t *body);
	void (*closed)(struct gck_peer *peer);
};

struct gck_peer {
	struct gck_peer *next;
	struct gck_daemon *daemon;
	struct gck_wire *wire;  /* NULL: closed */
	ev_io io;
	ev_timer timer;         /* a part of the first message's time, or the end of a pause */
	unsigned hello_parts;   /* parts that are left for the first message */
	uid_t uid;
	bool admitted;          /* uid is known and counted */
	bool broken;            /* sending failed, or dropped: will be closed */
	bool closing;           /* will be closed when the queue is sent */
	bool busy;              /* a CLI with a request under way */
	unsigned uses;          /* pending calls that use it */
	char host[64];
	struct gck_agent *agent;
	struct gck_importer *importer; /* of a CLI that imports */
};

/* ---- peer.c --------------------------------------------------------------------------------- */

/* Take over a connected socket. */
void gck_peer_new(struct gck_daemon *d, int fd, const char *host);

/* Queue a message (body is not stolen); a failure closes the connection soon. */
void gck_peer_send(struct gck_peer *peer, const json_t *body);

/* Queue {"op":"error"} and close when it is sent. */
void gck_peer_refuse(struct gck_peer *peer, const char *why);

/* A frame holds 1 MiB, of which munge's armour takes a third. */
#define GCK_ANSWER_MAX (700u * 1024)

/* Answer a request of the CLI with "end"; error NULL is success. data is stolen and may be NULL. */
void gck_peer_end(struct gck_peer *peer, const char *error, json_t *data);

/* Continue to read: what the peer waited for has happened. */
void gck_peer_go_on(struct gck_peer *peer);

/* Has the other side closed it? For use while nothing is read. */
bool gck_peer_is_gone(const struct gck_peer *peer);

/* Close now; the memory is freed when no call uses it. */
void gck_peer_close(struct gck_peer *peer);

/* Close it later, from the loop; the caller may use it until then. Nothing more is sent or read. */
void gck_peer_drop(struct gck_peer *peer);

/* ---- server.c: listens where the configuration says ------------------------------------------ */

int gck_server_listen(struct gck_daemon *d, struct gck_error *err) GCK_MUST_CHECK;
void gck_server_close(struct gck_daemon *d);

/* ---- world.c: the functions that the core is given ------------------------------------------- */

extern const struct gck_world gck_real_world;

/* Make the journal as short as the state. Jobs that Slurm forgot and that have no commit are
 * dropped from the state. */
int gck_daemon_compact(struct gck_daemon *d, struct gck_error *err) GCK_MUST_CHECK;

#endif
