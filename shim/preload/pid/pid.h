/* SPDX-License-Identifier: Apache-2.0
 * The libc functions that the preload interposes: declarations that their files share. */
#ifndef GCK_PRELOAD_PID_H
#define GCK_PRELOAD_PID_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>

#include "shim/preload/helper/state.h"

/* ---- libc's own functions ------------------------------------------------------------------ */

/* libc's versions of interposed functions that do more than one system call. */
struct gck_real {
	int (*pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	int (*pthread_kill)(pthread_t, int);
	int (*pthread_sigqueue)(pthread_t, int, const union sigval);
	int (*pthread_cancel)(pthread_t);
	int (*pthread_setaffinity_np)(pthread_t, size_t, const cpu_set_t *);
	int (*pthread_getaffinity_np)(pthread_t, size_t, cpu_set_t *);
	int (*pthread_setschedparam)(pthread_t, int, const struct sched_param *);
	int (*pthread_getschedparam)(pthread_t, int *, struct sched_param *);
	int (*pthread_setschedprio)(pthread_t, int);
	int (*pthread_setname_np)(pthread_t, const char *);
	int (*pthread_getname_np)(pthread_t, char *, size_t);
	int (*pthread_getcpuclockid)(pthread_t, clockid_t *);
	int (*pthread_getattr_np)(pthread_t, pthread_attr_t *);
	int (*clock_getcpuclockid)(pid_t, clockid_t *);
	int (*timer_create)(clockid_t, struct sigevent *, timer_t *);
	int (*fcntl)(int, int, ...);
	int (*waitid)(idtype_t, id_t, siginfo_t *, int);
	int (*pclose)(FILE *);
	pid_t (*fork)(void);
	pid_t (*_Fork)(void);
};

/* Find them. A rank's constructor calls it. In another process the first call of one of them does,
 * or that of sigaction or pthread_create, so that no signal handler and no second thread must; most
 * commands of a script call none. */
void gck_real_resolve(void);

const struct gck_real *gck_real(void);

/* The function of this name in the library after the preload, for functions that have no line of
 * their own in gck_real. gck_real_resolve() finds them, too. */
struct gck_next {
	const char *name;
	void *function;
};

void *gck_next(struct gck_next *n);

/* Of variables that every process writes when it starts: they lie on the page of the table above,
 * which it writes anyway. Each further page takes a page fault in each command of a script. */
#define GCK_AT_START __attribute__((section(".data.at_start")))

/* A name for which every process looks when it starts, on that page too. */
#define GCK_START_NAME(text)                      \
	({                                        \
		static char name_[] GCK_AT_START = text; \
                                                  \
		(const char *)name_;              \
	})

#define GCK_NEXT(symbol, type)                                                       \
	({                                                                           \
		static struct gck_next next_                                         \
			__attribute__((section("gck_next_table"), used)) = { #symbol, NULL }; \
                                                                                     \
		(type)gck_next(&next_);                                              \
	})

/* ---- calls without the helper -------------------------------------------------------------- */

/* Whether the helper must not exist during this system call. */
bool gck_wants_one_thread(long nr, long a, long b, long c);

/* Make such a call while the helper is away. Returns the raw result. */
long gck_call_alone(long nr, long a, long b, long c);

/* Tell the capture where gck_raw_in() compares and calls. */
void gck_guard_begin(void);

/* ---- calls with numbers -------------------------------------------------------------------- */

/* A system call with the numbers among its arguments, its paths and its result translated. Returns
 * the raw result. */
long gck_translated_call(long nr, long a, long b, long c, long d, long e, long f);

#define gck_call_(nr, a, b, c, d, e, f, ...)                                         \
	gck_translated_call(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define gck_call(...) gck_call_(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)

/* getsockopt and those that send or receive messages, with the credentials' numbers translated in
 * this start. Returns the raw result. */
long gck_message_call(uint32_t start, long nr, long a, long b, long c, long d, long e);

/* Whether it is a call of System V objects; and such a call with numbers and keys translated, and
 * with a record of what the process uses. Returns the raw result. */
bool gck_is_ipc(long nr);
long gck_ipc_call(long nr, long a, long b, long c, long d, long e);

/* A signal's sender, if it has one, by the program's number. */
void gck_signal_received(siginfo_t *info);

/* The same for what a call has read (n: its result) from a descriptor, which may be a signalfd.
 * Returns n. */
struct iovec;
long gck_was_read(int fd, const struct iovec *v, long n);

/* Tell the restorer how handlers are called. */
void gck_handlers_begin(void);

/* Whether these bytes can be read, at least one: what a program names in a call may be no memory,
 * and is then the kernel's to refuse. */
bool gck_is_memory(const void *at, size_t n);

/* ---- files that this process makes ----------------------------------------------------------- */

/* Before a file may be made: whether it would be a new one below /dev/shm. Then, once it is made:
 * record its name. */
bool gck_made_begin(const char *path);
void gck_made_end(const char *path);

/* ---- paths below /proc --------------------------------------------------------------------- */

#define GCK_PROC_PATH 512 /* longer ones are not translated */
#define GCK_DIGITS_MAX 10

/* The number's decimal digits, at the end of `digits`; *begin: the first one. Returns their number.
 * libc's functions are none that a child by vfork or a signal handler may call. */
size_t gck_write_digits(char digits[GCK_DIGITS_MAX], uint32_t number, char **begin);

/* What the link /proc/self/fd/N says, without a NUL. Returns its length up to size, or a raw
 * error. */
long gck_read_fd_link(int fd, char *target, size_t size);

/* Whether it is "/proc/PID…", "/proc/self/task/…", or a link to such a path. Like the next two, it
 * takes NULL and what is no memory for another path. */
bool gck_path_has_number(const char *path);

/* The same path with the kernel's numbers: in `space`, or the path itself. */
const char *gck_path_to_kernel(const char *path, char space[GCK_PROC_PATH]);

/* Whether it is /proc/self or /proc/thread-self; and what such a link says ("PID" or
 * "PID/task/TID"), with the program's numbers: into target, up to size. Returns the length. */
bool gck_path_is_own_link(const char *path);
long gck_link_to_program(const char *from, char *target, size_t size);

/* The number for the program of this entry of a directory of /proc that lists processes or threads.
 * 0: it has the right name. */
int32_t gck_entry_to_program(int fd, const char *name);

/* ---- over exec ----------------------------------------------------------------------------- */

#define GCK_IDS "GPUCKPT_IDS="

/* Write the table as a variable of the environment for a program that this process, or a child that
 * it spawns, executes now. */
size_t gck_ids_size(void);
void gck_ids_write(char *variable);

/* In a new program: take the table from this variable's value. */
void gck_ids_inherit(const char *value);

/* Find device and inode of the task's descriptors 0 to 2 (0, 0: closed). note: the value of
 * GPUCKPT_STDIO in the environment (NULL: not set); if it is blank, it is filled in. */
void gck_stdio_find(char *note, uint64_t stdio[3][2]);

/* What the variables of a task are in this start, and the entry of the same name; others are
 * returned as they are. */
struct gck_task_variables;
size_t gck_task_variables_size(void);
void gck_task_variables_write(struct gck_task_variables *v);
const char *gck_task_variable(const struct gck_task_variables *v, const char *entry);

/* In a new program that a descendant of a rank executes, before any of its code: if it needs a
 * library for which there is a stand-in, execute it again with the stand-ins. */
void gck_stand_ins_load(char *const *argv, char *const *envp);

/* … and if it loads any library at run time, load these stand-ins first: paths with colons between,
 * which stay there. */
void gck_stand_ins_later(const char *paths);

/* ---- children ------------------------------------------------------------------------------ */

/* Ask for the parent's death signal in a process that has executed a program. A child by fork,
 * whose number this is, has none. */
void gck_death_begin(void);
void gck_death_begin_child(int32_t rpid);

/* waitid() with the system call's fifth argument. */
int gck_waitid_usage(idtype_t type, id_t id, siginfo_t *info, int options, struct rusage *usage);

/* ---- alternate signal stacks --------------------------------------------------------------- */

/* This process is a rank: record its alternate signal stacks from now on. */
void gck_altstack_begin(void);

/* ---- threads ------------------------------------------------------------------------------- */

#define GCK_SIGCANCEL 32 /* glibc's own; so is the next one */

/* The kernel's TID of a thread whose TID in libc is a virtual one; 0: libc can handle the
 * thread. */
int32_t gck_kernel_tid(pthread_t thread);

/* Send it a signal; with info, whose sender is set, as rt_tgsigqueueinfo does. Returns the raw
 * result. */
long gck_signal_thread(pthread_t thread, int sig, siginfo_t *info);

/* In a new thread: drop a cancellation of an earlier thread with the same pthread_t. */
void gck_cancel_forget(void);

/* Address of glibc's copy of a thread's TID. On x86-64 a pthread_t is the thread's fs_base. */
static inline int32_t *gck_tid_of(pthread_t thread)
{
	return (int32_t *)(thread + gck_state.tid_offset);
}

#endif
