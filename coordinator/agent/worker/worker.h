/* SPDX-License-Identifier: Apache-2.0
 * The processes that do the work on one rank, one per rank and checkpoint or restart, and what they
 * say with the agent (packet.h). Each is the tracer of its rank and does its own store I/O.
 *
 * A checkpoint worker starts with `prepare` and then does what it is told, one phase at a time:
 *
 *   from   op        members
 *   agent  freeze                 stop the rank and fork the clone; held from here on
 *          resume                 let it go
 *          write     held device  write the image; held: the rank waits for that; device: it brings
 *                                 what its devices have kept
 *          upload                 with a stage: after its answer `stage`, what waits there
 *          hold                   nothing to do, but the agent lives: stay held
 *          abort                  let go, leave
 *   worker done      phase ok     prepare: expected; freeze: first_ns asked_one asked_all;
 *                    error code   resume: first_ns last_ns; stage: staged unstaged (the memory is
 *                                 needed no more; bytes that wait, why not all do);
 *                                 write: manifest put stored common (store.h) free_ns
 *          progress  phase        bytes, a few a second: of the write, or of the upload
 *                    done all
 *
 * A restorer starts with `build` of the commit that it was made for:
 *
 *   agent  build     seq hash     what was built is to be thrown away: build this
 *          files                  cut files back
 *          run                    let the rank go
 *          abort                  leave; the rank dies if it was emptied
 *   worker done      phase ok     build: seq, exit (a wait status) if the rank had finished;
 *                    error code   files; run
 *          progress  phase done all
 *
 * A checkpoint worker leaves after a failure, or when the image is written and the rank is not
 * held. Its exit status is 0 if the rank's link is as it was taken over. A restorer stays after a
 * failed build, for there may be another one. */
#ifndef AGENT_WORKER_H
#define AGENT_WORKER_H

#include "coordinator/agent/base/step.h"
#include "shim/link.h"
#include "storage/crypto/keyring.h"

struct worker_task {
	const struct step *step;
	uint32_t rank;
	pid_t pid;

	/* a checkpoint */
	int link;                     /* the helper's socket */
	int device[GCK_LINK_DATA_FDS]; /* over which the rank brings its devices' data, or a filler does; -1:
				       * none */
	struct gck_link_hello hello;
	uint32_t seq;
	char nonce[64];
	unsigned backstop_ms;         /* an agent so long silent while the rank is held hangs */
	int marks[2];                 /* shelf of what is known of its pages (shim/process/process.h);
				       * -1: none */
	bool base_named;              /* false: the newest commit in the store is the base */
	char key[GCK_WRAPPED_MAX];    /* that the image is encrypted with, wrapped; "": it is not */
	uint32_t base;                /* commit whose chunks are not written again; 0: none */

	/* a restart */
	uint32_t from_job, from_step;
	int pool;                     /* of what ranks share (storage/store/node_cache.h); -1: none */

	char hash[40];                /* of the commit seq (a restart) or base; "": not known */
};

/* struct child_ops.run; arg is a struct worker_task. */
int worker_main(int fd, void *arg);
int restorer_main(int fd, void *arg);

/* Brings a rank that was let go what its devices had, until it has all or is gone. Says `progress`, and
 * `done` with phase "fill" if it cannot. */
int filler_main(int fd, void *arg);

/* Stops a rank and keeps it so until this process is killed or the rank is; arg is a struct worker_task with pid and
 * hello. It stays stopped whatever signal comes. Says `done` with phase "hold" if it cannot. */
int holder_main(int fd, void *arg);

#endif
