/* SPDX-License-Identifier: Apache-2.0
 * The rank that is captured: its /proc entry, its shim's state and its helper. */
#ifndef GCK_TARGET_H
#define GCK_TARGET_H

#include <sys/types.h>

#include "common/base/error.h"
#include "shim/link.h"
#include "shim/process/rank/exclusions.h"

#define GCK_HELPER_MS 5000 /* within which the helper has to answer */

struct gck_target {
	pid_t pid;
	int proc;                    /* directory fd of /proc/PID */
	int pidfd;
	int link;                    /* to the helper; -1 if it may not be used */
	uint64_t address;            /* of the state in the rank */
	struct gck_shim_state *shim; /* a copy: see gck_target_refresh */
	struct gck_left_out left;    /* the same */
};

int gck_target_open(struct gck_target *t, pid_t pid, int link,
		    const struct gck_link_hello *hello, struct gck_error *err);
void gck_target_close(struct gck_target *t);

/* Read the shim's state from the rank (again), and what its MPI part wants left out. */
int gck_target_refresh(struct gck_target *t, struct gck_error *err);

/* Read or write n bytes of a process's memory, all or -1. */
int gck_memory_read(pid_t pid, uint64_t address, void *data, size_t n, struct gck_error *err);
int gck_memory_write(pid_t pid, uint64_t address, const void *data, size_t n,
		     struct gck_error *err);

/* What the program takes the thread's TID for. */
int32_t gck_target_vtid(const struct gck_target *t, int32_t rtid);

/* A descriptor of ours for the rank's open file description fd; -1 with errno. */
int gck_target_fd(const struct gck_target *t, int fd);

/* ---- the helper (shim/link.h): one message and its answer, within timeout_ms --------------- */

/* Run the m->ncalls calls of m in the rank; results are in m. */
int gck_helper_calls(const struct gck_target *t, struct gck_link_msg *m, int timeout_ms,
		     struct gck_error *err);

/* A userfaultfd of the rank's memory that only we have, which no descriptor of the rank's leads to once
 * this has returned; ask while the rank is held. */
int gck_helper_marks(const struct gck_target *t, int timeout_ms, int *uffd, struct gck_error *err);

/* Fork a frozen clone: it lives until *life is closed. Its memory is a copy now; it can be read
 * when it is ready, which need not be waited for while the rank is held. */
int gck_helper_clone(const struct gck_target *t, int timeout_ms, pid_t *clone, int *life,
		     struct gck_error *err);
int gck_clone_ready(int life, int timeout_ms, struct gck_error *err);

/* Have a clone run m's calls; fd (-1: none) is passed to it, the answer's m->pid is its number
 * there. Answers come in the order of asking. */
int gck_clone_ask(pid_t clone, int life, struct gck_link_msg *m, int fd, struct gck_error *err);
int gck_clone_answer(pid_t clone, int life, struct gck_link_msg *m, uint32_t ncalls,
		     struct gck_error *err);

int gck_helper_reap(const struct gck_target *t, pid_t clone, int timeout_ms,
		    struct gck_error *err);

#endif
