/* SPDX-License-Identifier: Apache-2.0
 * A thread that has a table of descriptors of its own, in which it holds some: they take no number of the
 * program's, no child of the program's has them, and they are not in flight. One that is in flight counts
 * against RLIMIT_NOFILE of all the user's processes together, which could send each other none any more. */
#ifndef GCK_CUDA_FD_VAULT_THREAD_H
#define GCK_CUDA_FD_VAULT_THREAD_H

struct gck_cuda_holder;

/* pair: a SEQPACKET socketpair; the thread has a copy of the second. NULL with errno: there is none. */
struct gck_cuda_holder *gck_cuda_holder_begin(const int pair[2]);

/* It ends, and with it what it holds. Does not wait. In a restored process, too, where it holds nothing. */
void gck_cuda_holder_end(struct gck_cuda_holder *h);

/* A number for fd, of which it has a copy; -1: it holds as many as RLIMIT_NOFILE allows. */
int gck_cuda_holder_put(struct gck_cuda_holder *h, int fd);

/* A copy of what has that number, the caller's to close. -1 with errno. */
int gck_cuda_holder_get(struct gck_cuda_holder *h, int number);
void gck_cuda_holder_drop(struct gck_cuda_holder *h, int number);

#endif
