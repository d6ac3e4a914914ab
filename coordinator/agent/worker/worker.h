/* SPDX-License-Identifier: Apache-2.0
 * The processes that work on one rank, one per rank and checkpoint or restart, and their packets
 * (packet.h). Each traces its rank and reads or writes the store itself.
 *
 * A checkpoint worker starts with `prepare` and then does what it is told, one phase at a time:
 *
 *   from   op        members
 *   agent  reserve    bytes       allocate memory for the copy of what the rank shares
 *          freeze                 stop the rank and fork the clone; held from here on
 *          common     all         all ranks of the node are held: of what this rank may share, it
 *                                 shares these: for each its `memory`, `ranks`, its `number` and
 *                                 the part that this rank's image gets: `from`, `to`
 *          copy                   copy these parts, and what it does not share
 *          resume                 let it go
 *          write     held device  write the image; held: the rank stays held until it is written;
 *                                 device: PIDs of its processes that send the copies on their
 *                                 devices
 *          upload                 with a stage: after its answer `stage`, upload what is staged
 *          hold                   a sign of life: stay held
 *          abort                  let go, leave
 *   worker memory     all         before the answers to prepare and freeze, unless the rank is
 *                                 alone: what it may share (rank_memory.h)
 *          done      phase ok     prepare: expected; freeze: first_ns asked_one asked_all;
 *                    error code   resume: first_ns last_ns; stage: staged unstaged (the memory is
 *                                 is free; bytes to upload; why not all bytes are staged);
 *                                 write: manifest put stored common (store.h) free_ns
 *          progress  phase        bytes, a few a second: of the write, or of the upload
 *                    done all
 *
 * A restorer starts with `build` of the commit that it was made for:
 *
 *   agent  build     seq hash     throw away what was built, build this commit
 *          share     number       the answer to `share`: with a descriptor if that is memory
 *                    hidden       without a path; of a System V object the kernel's number, and
 *                                 whether its key is another's here
 *          files                  restore the files
 *          reopen                 open what others have made meanwhile
 *          run                    let the rank go
 *          abort                  leave; the rank dies if it was emptied
 *   worker done      phase ok     build: seq, exit (a wait status) if the rank had finished;
 *                    error code   files; reopen; run
 *                                 apart: number, which the rank's process must have, in a PID
 *                                 namespace, where new ones have numbers above `above`; nothing
 *                                 was done to it
 *          share     ranks number name path size seals
 *                                 during a build: memory that the rank shares with these;
 *                    ipc          or a System V object
 *          progress  phase        bytes, a few a second, and 0 of them before the first is read
 *                    done all
 *
 * A checkpoint worker leaves after a failure, or when the image is written and the rank is not
 * held. Its exit status is 0 if no request on the rank's link is unanswered. A restorer stays after
 * a failed build: another commit may follow. */
#ifndef AGENT_WORKER_H
#define AGENT_WORKER_H

#include "coordinator/agent/base/step.h"
#include "shim/link.h"
#include "storage/base/open_store.h"

/* A process of the rank that uses CUDA. */
struct worker_device {
	pid_t pid;                    /* at a restart: as of gck_image_device */
	int fds[GCK_LINK_DATA_FDS];   /* over which it sends its devices' data, or gets them at a
				       * restart; -1: none */
};

struct worker_task {
	const struct step *step;
	uint32_t rank;
	pid_t pid;

	/* a checkpoint */
	int link;                     /* the helper's socket */
	struct worker_device *devices; /* at a restart: one */
	size_t ndevices;
	struct gck_link_hello hello;
	uint32_t seq;
	char nonce[64];
	bool alone;                   /* no other rank is on the node */
	unsigned backstop_ms;         /* an agent silent for so long while the rank is held
				       * counts as hung */
	bool keep_held;               /* the rank is held until its image is written */
	int tracker_fds[2];           /* passes the dirty page tracker to the next worker
				       * (shim/process/process.h); -1: none */
	bool base_named;              /* false: the newest commit in the store is the base */
	char key[GCK_WRAPPED_MAX];    /* wrapped key of the image; "": not encrypted */
	uint32_t base;                /* commit whose chunks are not written again; 0: none */

	/* a restart */
	uint32_t from_job, from_step;
	int pool;                     /* of shared chunks (storage/store/node_cache.h); -1: none */

	char hash[40];                /* of the commit seq (a restart) or base; "": not known */
};

/* struct child_ops.run; arg is a struct worker_task. */
int worker_main(int fd, void *arg);
int restorer_main(int fd, void *arg);

/* Sends a rank that was let go the data of its devices, until it has all or is gone. Reports
 * `progress`, and `done` with phase "fill" if it fails. */
int device_restore_main(int fd, void *arg);

/* Stops a rank, and keeps it stopped until this process or the rank is killed, whatever signal
 * the rank gets. arg is a struct worker_task with pid and hello. Reports `done` with phase
 * "hold" if it fails. */
int rank_tracer_main(int fd, void *arg);

#endif
