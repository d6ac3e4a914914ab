/* SPDX-License-Identifier: Apache-2.0
 * Scanning descriptors: what is known of one while it is classified. */
#ifndef GCK_FDS_H
#define GCK_FDS_H

#include <sys/stat.h>

#include "shim/process/rank/scan.h"

struct gck_fd_view {
	int fd;
	char *link;        /* /proc/PID/fd/N */
	char *info;        /* /proc/PID/fdinfo/N */
	struct stat st;
	uint32_t flags;    /* F_GETFL and O_CLOEXEC */
	char object[32];   /* "fd N" */
};

/* Fill x->kind and what belongs to it, or report why the descriptor cannot be carried (then the
 * kind does not matter). -1 only when the scan itself failed. */
int gck_fd_file(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x);
int gck_fd_memfd(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x);
int gck_fd_device(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x);
int gck_fd_anonymous(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x);
int gck_fd_pipe(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x);
int gck_fd_socket(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x);

/* When all descriptors are known: does everything that one refers to exist? fds[i] is a descriptor
 * of img->files[i]. */
int gck_fds_check_epolls(struct gck_scan *s, const int *fds);
int gck_fds_check_ends(struct gck_scan *s, const int *fds);

/* A written file whose content has to be in the image: it is small, or not only appended to. */
bool gck_file_whole(const struct gck_file *x);

/* Bytes of content of this file that the image carries. */
uint64_t gck_file_carried(const struct gck_file *x);

/* Open the rank's file again, for reading at offsets of our own. */
int gck_fd_reopen(const struct gck_target *t, int fd, struct gck_error *err);

#endif
