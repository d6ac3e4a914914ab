/* SPDX-License-Identifier: Apache-2.0
 * Connections: an agent's or the CLI's, until its first message anybody's. */
#ifndef GCK_PEER_H
#define GCK_PEER_H

#include "coordinator/daemon/peer/daemon.h"

/* The connection of an agent, as the core knows it. */
struct gck_agent {
	struct gck_peer *peer;
	struct gck_step *step;  /* NULL until it has joined */
	json_t *registration;   /* while Slurm is asked */
	struct gck_bucket bucket;
};

/* What becomes of the messages and of the end of connections: given to the daemon when it starts. */
struct gck_peer_ops {
	void (*message)(struct gck_peer *peer, const char *op, const json_t *body);
	void (*closed)(struct gck_peer *peer);
};

struct gck_peer {
	struct gck_peer *next;
	struct gck_daemon *daemon;
	struct gck_wire *wire;  /* NULL: closed */
	ev_io io;
	ev_timer timer;         /* first message, or when it may be heard again */
	uid_t uid;
	bool known;             /* uid is, and it is counted */
	bool broken;            /* could not be sent to, or is dropped: to be closed */
	bool closing;           /* when what is queued went out */
	bool busy;              /* a CLI whose request is not answered */
	unsigned uses;          /* pending calls that hold on to it */
	char host[64];
	struct gck_agent *agent;
	struct gck_importer *importer; /* of a CLI that imports */
};

/* Take over a connected socket. */
void gck_peer_new(struct gck_daemon *d, int fd, const char *host);

/* Queue a message (body is not stolen); a failure closes the connection soon. */
void gck_peer_send(struct gck_peer *peer, const json_t *body);

/* Queue {"op":"error"} and close when it has gone out. */
void gck_peer_refuse(struct gck_peer *peer, const char *why);

/* A frame holds 1 MiB, of which munge's armour takes a third. */
#define GCK_ANSWER_MAX (700u * 1024)

/* Answer a request of the CLI with "end"; error NULL is success. data is stolen and may be NULL. */
void gck_peer_end(struct gck_peer *peer, const char *error, json_t *data);

/* Read on: what was waited for is there. */
void gck_peer_go_on(struct gck_peer *peer);

/* The other side has closed it. Of use while nothing is read. */
bool gck_peer_is_gone(const struct gck_peer *peer);

/* Close now; memory is freed when nobody uses it. */
void gck_peer_close(struct gck_peer *peer);

/* Close it from the loop: who has it in hand may go on until then. Nothing more is said or heard. */
void gck_peer_drop(struct gck_peer *peer);

#endif
