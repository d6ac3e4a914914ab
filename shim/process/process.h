/* SPDX-License-Identifier: Apache-2.0
 * Freeze, capture, write; restore. One worker process of the agent's per rank uses this: whoever
 * calls freeze or restore_begin is the tracer, and its death lets go of a frozen rank unchanged,
 * or kills one that is being restored. Nothing needs a capability.
 *
 * A live rank's registers are never changed: threads are stopped by PTRACE_INTERRUPT and read;
 * what has to run inside is run by the shim's helper over the link (shim/link.h). */
#ifndef GCK_PROCESS_H
#define GCK_PROCESS_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "common/base/options.h"
#include "shim/link.h"
#include "shim/process/image/image.h"
#include "storage/image/image.h"

/* ---- able ---------------------------------------------------------------------------------- */

/* The obstacles to a checkpoint, and what is carried with a limit. One entry: {"object":
 * "fd 5", "reason": "an outside TCP connection (10.0.0.1:80)", "remedy": "..", "refuse": true}. */
json_t *gck_process_able(pid_t pid, const struct gck_link_hello *hello,
			 const struct gck_options *o, struct gck_error *err);

/* Whether the process has ended or is ending. Calls on it then fail for misleading reasons. */
bool gck_process_ended(pid_t pid);

/* ---- checkpoint ---------------------------------------------------------------------------- */

struct gck_capture;
struct gck_device_memory; /* device.h */

/* What can be done before the rank is held: read flags of mappings, hash the files that it appends
 * to, expected size. link: the helper's socket, used by this process alone until the end. */
struct gck_capture *gck_capture_open(pid_t pid, int link, const struct gck_link_hello *hello,
				     const struct gck_options *o, struct gck_error *err);

/* Bytes of memory that the image is expected to hold, before deduplication. */
uint64_t gck_capture_expected(const struct gck_capture *c);

/* The most chunks that they may make: in sparsely touched memory each page may be a chunk. */
uint64_t gck_capture_chunks(const struct gck_capture *c);

/* Whether the rank uses MPI or CUDA, through gpuckpt's stand-ins. */
bool gck_capture_has_mpi(const struct gck_capture *c);
bool gck_capture_has_cuda(const struct gck_capture *c);

/* Bytes of those expected that GPUs have: host memory that the rank's drain takes which keeps
 * nothing there. */
uint64_t gck_capture_device(const struct gck_capture *c);

/* The same for each of its n devices, in the rank's order. Owned by the capture. */
const struct gck_device_memory *gck_capture_device_memory(const struct gck_capture *c, size_t *n);

/* Stop every thread but the helper. */
int gck_capture_freeze(struct gck_capture *c, struct gck_error *err);

/* With the rank frozen: checks that it has no MPI or is quiesced for checkpoint seq, and the same
 * of its GPU. ECANCELED if not: it resumed by itself meanwhile, or has just begun to use them. */
int gck_capture_quiesced(struct gck_capture *c, uint64_t seq, struct gck_error *err);

/* With the rank frozen: read its state, copy what a fork does not freeze, fork the clone. */
int gck_capture_take(struct gck_capture *c, struct gck_error *err);

/* With the rank taken: numbers of the last calls of gck_checkpoint() and gck_checkpoint_all() that
 * the image has. */
void gck_capture_asked(const struct gck_capture *c, uint32_t asked[GCK_ASKERS]);

/* With this rank frozen and taken, once all ranks of the step are frozen: bring what the image says
 * of files outside up to what they are now. Logs grow by what other ranks appended meanwhile;
 * EAGAIN if another file that the image carries was changed, naming it. */
int gck_capture_update_files(struct gck_capture *c, struct gck_error *err);

/* Let the rank go on. Does nothing if it is not frozen. */
void gck_capture_resume(struct gck_capture *c);

/* CLOCK_REALTIME when the first thread was asked to stop, and when the last was let go. */
void gck_capture_held(const struct gck_capture *c, int64_t *first_ns, int64_t *last_ns);

/* What its devices have was kept there: it comes over these (struct gck_device_channel_ends.own, borrowed)
 * when the image is written. hashes: the commit before may have the same. */
void gck_capture_device_data(struct gck_capture *c, const int fds[GCK_LINK_DATA_FDS], bool hashes);

/* Write the chunks of the image from the clone, which ends when it is read, to their end
 * (gck_writer_finish); then all copies of the rank's memory are gone, and what the devices kept is
 * needed no more. progress (may be NULL) is called with bytes done and expected, which are more
 * than those done until all are; not 0 stops the write with ECANCELED. */
int gck_capture_write(struct gck_capture *c, struct gck_writer *w,
		      int (*progress)(void *, uint64_t done, uint64_t all), void *arg,
		      struct gck_error *err);

/* Then its manifest, after which the image is in the store. extra: members to add to it (rank,
 * job, ...), borrowed. */
int gck_capture_manifest(struct gck_capture *c, struct gck_writer *w, uint32_t rank,
			 const json_t *extra, char hash[GCK_HASH_TEXT], struct gck_error *err);

/* What the kernel knows of the pages that were written since an image was taken lies, between one
 * checkpoint of a process and the next, on a shelf: a socketpair of packets that the caller keeps.
 * Before the rank is frozen: take it from there. Then, before the image is written: it builds on
 * this manifest, with that hash; what has not been written since is not read, but taken by its
 * chunks' numbers: the writer has to be opened with the same manifest. When it is written and has
 * that hash: put it back. Whatever does not happen or fails costs that all is read, and nothing
 * else. */
void gck_capture_take_tracker(struct gck_capture *c, const int tracker_fds[2]);
void gck_capture_build_on(struct gck_capture *c, const json_t *manifest, const char *hash);
void gck_capture_leave_tracker(struct gck_capture *c, const int tracker_fds[2], const char *hash);

/* Resume if frozen, end and reap the clone, free. */
void gck_capture_close(struct gck_capture *c);

/* ---- restart ------------------------------------------------------------------------------- */

struct gck_restore;

/* Take a process that waits in its preload's constructor (HOLD), tracing it with EXITKILL from here
 * on. link_name: what the restored shim is to connect to. */
struct gck_restore *gck_restore_open(pid_t pid, const char *link_name, struct gck_error *err);

/* Choose the image, and check that it fits this node and that the files it needs are there. The
 * reader is used until the next image or the end. May be called again with another image, also
 * after a build or a failed one, until gck_restore_files. */
int gck_restore_image(struct gck_restore *r, const json_t *manifest, struct gck_reader *reader,
		      struct gck_error *err);

/* Number of the last gck_checkpoint_all() that any rank was in when the commit's images were
 * taken: those calls return in the restored rank as the others', even if it makes them only then.
 * Before build. */
void gck_restore_asked(struct gck_restore *r, uint32_t all);

/* Empty the process and rebuild it from the image: memory fetched and verified, threads made, all
 * stopped. No file outside is changed. progress as in gck_capture_write. */
int gck_restore_build(struct gck_restore *r, int (*progress)(void *, uint64_t, uint64_t), void *arg,
		      struct gck_error *err);

/* Cut files back to their size at the checkpoint (the cut part is kept beside), then let the rank
 * run. After this the process is an ordinary rank and its helper connects. */
int gck_restore_files(struct gck_restore *r, struct gck_error *err);
int gck_restore_run(struct gck_restore *r, struct gck_error *err);

/* After a build: whether the image uses MPI or CUDA. The stand-ins rebuild them once the rank
 * runs. */
bool gck_restore_has_mpi(const struct gck_restore *r);
bool gck_restore_has_cuda(const struct gck_restore *r);

/* Once an image is chosen: bytes that its devices had, which are brought when the rank runs
 * (device.h). */
uint64_t gck_restore_device(const struct gck_restore *r);

/* Free. A rank that was not run is killed. */
void gck_restore_close(struct gck_restore *r);

#endif
