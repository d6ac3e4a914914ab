/* SPDX-License-Identifier: Apache-2.0
 * Freeze, capture, write; restore. The agent has one worker process per rank, which uses this. The
 * process that calls freeze or gck_restore_open is the tracer; its death releases a frozen rank
 * unchanged, or kills one that is being restored. No capability is needed.
 *
 * A live rank's registers are not changed: threads are stopped by PTRACE_INTERRUPT and read. What
 * must run inside the rank is run by the shim's helper, over the link (shim/link.h); but what only
 * one thread can do, that does itself, by code that leaves it as it was (threads/borrow.h). */
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

/* The obstacles to a checkpoint, and limits that the user should know. One entry: {"object": "fd
 * 5", "reason": "an outside TCP connection (10.0.0.1:80)", "remedy": "..", "refuse": true}. */
json_t *gck_process_able(pid_t pid, const struct gck_link_hello *hello,
			 const struct gck_options *o, struct gck_error *err) GCK_MUST_CHECK;

/* Whether the process has ended or is ending. Calls on it then fail for misleading reasons. */
bool gck_process_ended(pid_t pid);

/* Whether the process is one of the rank's: by its parents or, if one has ended, by the rank's
 * number in its environment. */
bool gck_is_descendant(pid_t pid, pid_t rank);

/* -1, EBUSY: it is stopped by a signal; what is in it, such as the shim's helper, does not answer
 * or connect. */
int gck_process_runs(pid_t pid, struct gck_error *err) GCK_MUST_CHECK;

/* Whether a signal to the whole process waits there. */
bool gck_process_pending(pid_t pid, int sig);

/* ---- checkpoint ---------------------------------------------------------------------------- */

struct gck_capture;
struct gck_device_memory; /* gpu.h */

/* Do what can be done before the rank is held: read flags of mappings, hash the files that it
 * appends to, estimate the image's size. link: the helper's socket, used by this process alone
 * until the end. */
struct gck_capture *gck_capture_open(pid_t pid, int link, const struct gck_link_hello *hello,
				     const struct gck_options *o,
				     struct gck_error *err) GCK_MUST_CHECK;

/* Bytes of memory that the image is expected to hold, before deduplication. */
uint64_t gck_capture_expected(const struct gck_capture *c);

/* Upper limit of the image's chunks: in sparsely touched memory each page may be a chunk. */
uint64_t gck_capture_chunks(const struct gck_capture *c);

/* Whether the rank uses MPI, through gpuckpt's stand-in. */
bool gck_capture_has_mpi(const struct gck_capture *c);

/* What its n processes that use CUDA through the stand-in have on their devices (gpu.h). These
 * bytes are part of those expected; a drain without device copies takes as much host memory. Owned
 * by the capture. */
struct gck_gpu_data;
const struct gck_gpu_data *gck_capture_gpus(const struct gck_capture *c, size_t *n);

/* A drain copies managed memory slowly: how long a rank with this much on its GPUs is held, in ms,
 * as measured on an H200. */
uint64_t gck_managed_hold_ms(uint64_t bytes);

/* Stop every thread but the helper. */
int gck_capture_freeze(struct gck_capture *c, struct gck_error *err) GCK_MUST_CHECK;

/* With the rank frozen: check that it has no MPI or is quiesced for checkpoint seq, and the same
 * for its GPU. ECANCELED if not: it resumed by itself meanwhile, or has just begun to use them. */
int gck_capture_quiesced(struct gck_capture *c, uint64_t seq, struct gck_error *err) GCK_MUST_CHECK;

/* With the rank frozen: read its state, copy what a fork does not freeze, fork the clone. alone: no
 * other rank of the node can share its memory. Otherwise gck_capture_copy copies that. */
int gck_capture_take(struct gck_capture *c, bool alone, struct gck_error *err) GCK_MUST_CHECK;

/* Memory that ranks of a node may share: a mapping that is shared, a memfd, a file below /dev/shm;
 * or a System V object, whose device is GCK_IPC_DEVICE. On a node the same device and inode are the
 * same memory. */
struct gck_common_memory {
	uint64_t device, inode;
	uint64_t size;               /* as far as this rank knows */
	uint64_t bytes;              /* resident here before the hold: what a copy needs, if all
				      * ranks' are added up */
	bool whole;                  /* this rank can read all of it */
	bool writes;                 /* or may write to it */
	bool has_path;
	uint64_t attached;           /* of a System V segment: how often this rank has */
	char name[128];              /* its path; for messages if it has none */
};

/* That of the rank, in *list, which the caller frees: before the hold without descendants. */
int gck_capture_memory(const struct gck_capture *c, struct gck_common_memory **list, size_t *n,
		       struct gck_error *err) GCK_MUST_CHECK;

/* Before the hold: allocate memory for the copy of shared memory. */
int gck_capture_reserve(struct gck_capture *c, uint64_t bytes,
			struct gck_error *err) GCK_MUST_CHECK;

/* With the rank taken, not alone: these ranks ("0-3,8") share x. number: with the first of them it
 * stands for this memory in the step. This rank's image gets the bytes from `from` to `to`, as far
 * as the rank can read them. */
int gck_capture_share(struct gck_capture *c, const struct gck_common_memory *x, const char *ranks,
		      uint32_t number, uint64_t from, uint64_t to,
		      struct gck_error *err) GCK_MUST_CHECK;

/* With all ranks of the node taken, which have attached a System V segment so often: EOPNOTSUPP if
 * processes have that are of none of them. rank: one of them. */
int gck_segment_check(int32_t number, uint64_t attached, pid_t rank,
		      struct gck_error *err) GCK_MUST_CHECK;

/* Then, with all ranks that share its memory frozen and taken: copy the memory that this rank
 * gives, and what nobody shares. EAGAIN: some of it has changed since. */
int gck_capture_copy(struct gck_capture *c, struct gck_error *err) GCK_MUST_CHECK;

/* With the rank taken: get the numbers of the last calls of gck_checkpoint() and
 * gck_checkpoint_all() before the image. */
void gck_capture_asked(const struct gck_capture *c, uint32_t asked[GCK_REQUEST_KINDS]);

/* With this rank frozen and taken, once all ranks of the step are frozen: update what the image
 * records of files. A log grows by what other ranks have appended meanwhile. EAGAIN, naming the
 * file, if another file in the image was changed. */
int gck_capture_update_files(struct gck_capture *c, struct gck_error *err) GCK_MUST_CHECK;

/* Let the rank go on. Does nothing if it is not frozen. */
void gck_capture_resume(struct gck_capture *c);

/* End the rank, which is frozen, and the processes below it; none of them goes on before. If it was
 * taken, remove what it would leave on this node and the image has: System V objects, queues. */
void gck_capture_end(struct gck_capture *c);

/* CLOCK_REALTIME when the first thread was asked to stop, and when the last was let go. */
void gck_capture_held(const struct gck_capture *c, int64_t *first_ns, int64_t *last_ns);

/* Set the channel (struct gck_device_channel_ends.own, borrowed) over which the device copies of
 * process pid are read when the image is written. hashes: the previous commit may have the same
 * data. */
void gck_capture_device_data(struct gck_capture *c, pid_t pid, const int fds[GCK_LINK_DATA_FDS],
			     bool hashes);

/* Write the image's chunks and wait until they are stored (gck_writer_finish). They are read from
 * the clone, which ends after that; no copy of the rank's memory or device data is needed any more.
 * progress (may be NULL) gets bytes done and expected, done < expected until all are done; a result
 * other than 0 stops the write with ECANCELED. */
int gck_capture_write(struct gck_capture *c, struct gck_writer *w,
		      int (*progress)(void *, uint64_t done, uint64_t all), void *arg,
		      struct gck_error *err) GCK_MUST_CHECK;

/* Then write the manifest; the image is in the store. extra: members to add to it (rank, job, ...),
 * borrowed. */
int gck_capture_manifest(struct gck_capture *c, struct gck_writer *w, uint32_t rank,
			 const json_t *extra, char hash[GCK_HASH_TEXT],
			 struct gck_error *err) GCK_MUST_CHECK;

/* While the rank runs, once the tracker was taken (below): look which of its memory it rewrites all
 * the time, if it has much. Returns the bytes of that. Then allocate memory, so that as much of it
 * can be copied while the rank is held. */
uint64_t gck_capture_look(struct gck_capture *c);
void gck_capture_ready_copy(struct gck_capture *c, uint64_t bytes);

/* Before the rank is taken: such memory may be copied for so long while the rank is held, by so
 * many threads. 0 ms, as at first: it is not. */
void gck_capture_allow_copy(struct gck_capture *c, unsigned ms, unsigned threads);

/* Dirty page tracking. Between two checkpoints of a process the tracker lies in tracker_fds, a
 * socketpair of packets that the caller keeps. Before the rank is frozen: take it from there.
 * Before the image is written: build_on names the manifest, with its hash, that the image builds
 * on; pages that were not written since are not read, but reused by their chunks' numbers, so the
 * writer must be opened with the same manifest. When the image is written and has its hash: leave
 * the tracker there. If any of this is not done or fails, all pages are read. */
void gck_capture_take_tracker(struct gck_capture *c, const int tracker_fds[2]);
void gck_capture_build_on(struct gck_capture *c, const json_t *manifest, const char *hash);
void gck_capture_leave_tracker(struct gck_capture *c, const int tracker_fds[2], const char *hash);

/* Resume if frozen, end and reap the clone, free. */
void gck_capture_close(struct gck_capture *c);

/* ---- restart ------------------------------------------------------------------------------- */

struct gck_restore;

/* Take over a process that waits in its preload's constructor (HOLD), tracing it with EXITKILL.
 * link_name: the name to which the restored shim connects. */
struct gck_restore *gck_restore_open(pid_t pid, const char *link_name,
				     struct gck_error *err) GCK_MUST_CHECK;

/* For a trial: the process will be built and never run. Left out is what only a task of the step
 * has (standard input, time namespace, GPUs), and what would disturb others (names of listening
 * sockets). Call before the image is chosen. */
void gck_restore_for_trial(struct gck_restore *r);

/* Choose the image, and check that it fits this node and that the files it needs exist. The reader
 * is used until the next image or the end. May be called again with another image, also after a
 * build or a failed build, until gck_restore_files. */
int gck_restore_image(struct gck_restore *r, const json_t *manifest, struct gck_reader *reader,
		      struct gck_error *err) GCK_MUST_CHECK;

/* Set the number of the last gck_checkpoint_all() that any rank had called when the commit's images
 * were taken. The restored rank's calls up to it return as in other ranks, also calls that it makes
 * only then. Call before build. */
void gck_restore_asked(struct gck_restore *r, uint32_t all);

/* What the rank shares with others: memory, or a System V object. */
struct gck_common {
	const struct gck_object *memory; /* NULL: it is none */
	struct gck_ipc *ipc;
	const char *boot;             /* with ipc: where its number was the kernel's */
};

/* Before a build: the i-th of these; false: there are no more. Those without a path are made by the
 * caller for all ranks that share them, as memory files or by gck_ipc_make: give passes one
 * (borrowed) or its number. Without it the rank gets one of its own. */
bool gck_restore_common(const struct gck_restore *r, size_t i, struct gck_common *c);
int gck_restore_give_common(struct gck_restore *r, const struct gck_object *o, int fd,
			    struct gck_error *err) GCK_MUST_CHECK;
void gck_ipc_give(struct gck_ipc *x, int32_t number, bool hidden);

/* Make an empty System V object in this process, in the place of the one of a former start on this
 * node: sets x->now and x->hidden. Remove one by the kernel's number, if it is there. */
int gck_ipc_make(struct gck_ipc *x, const char *boot, struct gck_error *err) GCK_MUST_CHECK;
void gck_ipc_remove(int32_t kind, int32_t number);

/* As a message names it. */
void gck_ipc_name(int32_t kind, int32_t number, char *name, size_t size);

/* Empty the process and rebuild it from the image: memory is fetched and verified, threads are made
 * and stay stopped. No file is changed, but what gck_restore_files will need is checked. progress
 * as in gck_capture_write. ESRCH: the process, or one below it, has ended meanwhile. */
int gck_restore_build(struct gck_restore *r, int (*progress)(void *, uint64_t, uint64_t), void *arg,
		      struct gck_error *err) GCK_MUST_CHECK;

/* Cut files back to their size at the checkpoint. The cut part is kept in a file beside, or
 * elsewhere if that is not allowed, which is noted. */
int gck_restore_files(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* Once all ranks of the node have done that, since they may share files: open those that were
 * missing, and map files. */
int gck_restore_reopen(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* Let the rank run. After that the process is an ordinary rank, and its helper connects. */
int gck_restore_run(struct gck_restore *r, struct gck_error *err) GCK_MUST_CHECK;

/* After a build: whether the image uses MPI, and the number (the program's) of its i-th process
 * that uses CUDA; 0: there are no more. The stand-ins rebuild both once the rank runs. */
bool gck_restore_has_mpi(const struct gck_restore *r);
int32_t gck_restore_cuda(const struct gck_restore *r, size_t i);

/* Once an image is chosen: bytes that its build reads. */
uint64_t gck_restore_bytes(const struct gck_restore *r);

/* Once an image is chosen: bytes of device data, which are restored once the rank runs (gpu.h). */
uint64_t gck_restore_device(const struct gck_restore *r);

/* What the user should know of this restart, known once its files are restored: n lines, owned by
 * r. */
char *const *gck_restore_notes(const struct gck_restore *r, size_t *n);

/* After a build, until the rank runs: the descriptor in its process that is the new task's standard
 * error, whatever the program has as its own. */
int gck_restore_stderr(const struct gck_restore *r);

/* Free. A rank that was not run is killed. */
void gck_restore_close(struct gck_restore *r);

#endif
