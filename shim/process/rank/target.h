/* SPDX-License-Identifier: Apache-2.0
 * The rank that is captured: its /proc entry, its shim's state and its helper. */
#ifndef GCK_TARGET_H
#define GCK_TARGET_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "shim/link.h"
#include "shim/process/rank/exclusions.h"

/* Descriptors that are under way in the process's sockets, as copies of ours. They have numbers
 * above its own, from `first` on. */
struct gck_flight {
	int first;
	int *fds;                    /* -1: closed */
	size_t n;
	int proc;                    /* our own /proc/PID */
};

struct gck_target {
	pid_t pid;
	int proc;                    /* directory fd of /proc/PID */
	int pidfd;
	int link;                    /* to the helper; -1: it may not be used */
	uint64_t address;            /* of the state in the rank */
	struct gck_shim_state *shim; /* a copy; gck_target_refresh updates it */
	struct gck_exclusions excluded;    /* a copy, too */
	const struct gck_target *rank; /* of a descendant: the rank; else NULL */
	uint64_t vdso_end;           /* once it was looked for (threads/borrow.c), else 0 */
	bool forked;                 /* its state was its parent's when it was read */
	int32_t vpid;                /* of a descendant: as its parent knows it */
	struct gck_flight *flight;
	int *probe;                  /* an inotify descriptor of ours, or -1 (watch/watch.c). To
				      * close one may take 20 ms: not while the rank is held */
};

int gck_target_open(struct gck_target *t, pid_t pid, int link,
		    const struct gck_link_hello *hello, struct gck_error *err) GCK_MUST_CHECK;
void gck_target_close(struct gck_target *t);

/* Open a descendant of a rank. It has no link; EAGAIN if it has just started. */
int gck_target_open_child(struct gck_target *t, const struct gck_target *parent, pid_t pid,
			  struct gck_error *err) GCK_MUST_CHECK;

/* Read the shim's state again, and what its MPI and CUDA parts exclude. */
int gck_target_refresh(struct gck_target *t, struct gck_error *err) GCK_MUST_CHECK;

/* The TID that the program sees for this thread. */
int32_t gck_target_vtid(const struct gck_target *t, int32_t rtid);

/* Whether a timer or signal is the rank's lease, which its helper made
 * (shim/preload/helper/lease.c), and not the program's. */
bool gck_target_is_lease(const struct gck_target *t, int signo, uint64_t value);

/* The process that has this descriptor, its /proc/PID, and the number there. */
struct gck_target_place {
	pid_t pid;
	int proc;
	int fd;
};
struct gck_target_place gck_target_at(const struct gck_target *t, int fd);

/* Add a copy of ours of a descriptor that is under way, which is closed in any case. first: the
 * number that the first one gets. Returns its number; -1 without memory. */
int gck_flight_add(const struct gck_target *t, int copy, int first,
		   struct gck_error *err) GCK_MUST_CHECK;

/* Close the copies: before the process runs on, which may wait for an end of file. */
void gck_flight_close(const struct gck_target *t);

/* A descriptor of ours for the rank's open file description fd; -1 with errno. */
int gck_target_fd(const struct gck_target *t, int fd) GCK_MUST_CHECK;

#endif
