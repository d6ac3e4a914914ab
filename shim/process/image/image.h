/* SPDX-License-Identifier: Apache-2.0
 * A process in the form of an image: capture fills it, the manifest stores it as JSON
 * (doc/image-format.md), and restore builds from it. Numbers that the kernel defines (signal
 * numbers, flags, registers) are the kernel's for x86-64. Times are nanoseconds, addresses are the
 * process's own, sizes are bytes. */
#ifndef GCK_IMAGE_H
#define GCK_IMAGE_H

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>
#include <sys/types.h>

#include "common/base/error.h"
#include "common/place/place.h"
#include "storage/store/chunks.h"

#define GCK_IMAGE_FORMAT 1
#define GCK_PAGE 4096u
#define GCK_SOCKET_NAME_MAX 107
#define GCK_RIGHTS_MAX 253 /* descriptors of one message: the kernel's SCM_MAX_FD */
#define GCK_GROUP_PAGES 64u /* a chunk holds the stored pages of a group of this many pages */
#define GCK_GROUP_BYTES ((uint64_t)GCK_GROUP_PAGES * GCK_PAGE)
#define GCK_GROUP_TEXT 36 /* a page group in a manifest: 12 hex digits number, 16 mask, 8 chunk */

struct gck_pending {           /* a pending signal: the kernel's siginfo, but for the sender, by
				* the program's number */
	unsigned char info[128];
};

struct gck_sched_attr {        /* the kernel's, of sched_getattr; libc has none */
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
	uint32_t util_min, util_max; /* uclamp */
};

struct gck_thread {
	int32_t vtid;              /* glibc's TID */
	int32_t rtid;              /* the kernel's TID: when captured; after a restore the new
				    * one */
	int32_t before;            /* in a restore: rtid as it was captured */
	char name[16];
	struct user_regs_struct regs; /* ready to run: interrupted system calls set to restart */
	unsigned char *xstate;
	size_t xstate_size;
	uint64_t sigmask;
	uint64_t tid_address;      /* clear_child_tid */
	uint64_t robust_head, robust_size;
	struct { uint64_t address; uint32_t size, signature; } rseq; /* address 0: none */
	struct { uint64_t sp, size; uint32_t flags; } altstack;
	struct gck_pending *pending;
	size_t npending;
	unsigned char *affinity;   /* cpu_set_t bytes */
	size_t affinity_size;
	int nice, policy, priority;
	struct gck_sched_attr sched; /* size 0: unknown; then the three above are set */
	int32_t io_priority;       /* ioprio_get */
};

/* The stored pages of one page group of a mapping (or of a file's content). The group begins at a
 * multiple of GCK_GROUP_BYTES; bit i of mask stands for its page i; the chunk holds those pages in
 * order, as whole pages (a file's tail is padded with zeros). A page without a bit is zero
 * (anonymous, objects, data; in contents: zero if the file's size and a mapping reach it) or, in a
 * GCK_MAP_FILE mapping, comes from the content. Lists are sorted by address; an address may occur
 * several times with disjoint masks. */
struct gck_page_group {
	uint64_t address;          /* of the group; contents, objects, data: offset in the file */
	uint64_t mask;
	struct gck_chunk chunk;    /* in a list without chunks: only its number */
};

struct gck_page_groups {
	struct gck_hex_table rows;
	const struct gck_chunks *chunks; /* to which the numbers refer; NULL: unknown */
};

enum gck_map_kind {
	GCK_MAP_ANON,      /* private anonymous: heap, stacks */
	GCK_MAP_FILE,      /* private mapping of a file: `content`, with changed pages in `pages` */
	GCK_MAP_SHARED,    /* shared memory without a file that others see: memfd, /dev/zero, shm.
			    * `object` identifies mappings of one object */
	GCK_MAP_SHARED_FILE, /* shared, writable mapping of a regular file: `object`, has_path; the
			      * object has its content at the checkpoint. (A read-only one is a
			      * GCK_MAP_FILE, unless the rank has the file also otherwise, and
			      * writes it.) */
	GCK_MAP_VDSO,      /* the kernel's: vdso, vvar and similar ones are moved, not filled; the
			    * vdso's bytes are in `pages`, for another kernel */
	GCK_MAP_VVAR,
	GCK_MAP_RING,      /* of an io_uring: `ring` */
};

#define GCK_MAP_DONTFORK 1u
#define GCK_MAP_WIPEONFORK 2u
#define GCK_MAP_HUGE 4u        /* MADV_HUGEPAGE */
#define GCK_MAP_NOHUGE 8u
#define GCK_MAP_LOCKED 16u
#define GCK_MAP_GROWSDOWN 32u
#define GCK_MAP_DONTDUMP 64u
#define GCK_MAP_ONFAULT 128u   /* with LOCKED: MLOCK_ONFAULT */
#define GCK_MAP_SEQUENTIAL 256u /* MADV_SEQUENTIAL */
#define GCK_MAP_RANDOM 512u
#define GCK_MAP_MERGEABLE 1024u
#define GCK_MAP_DROPPABLE 2048u /* made with MAP_DROPPABLE */
#define GCK_MAP_RESERVED 4096u /* made without MAP_NORESERVE; images of 0.1.0 have it in none */
#define GCK_MAP_SEALED 8192u   /* mseal */
#define GCK_MAP_READ_SHARED 16384u /* shared, of a file that was opened to be read only */
#define GCK_MAP_ALL 32767u

struct gck_map {
	uint64_t start, end;
	int prot;                  /* PROT_* */
	enum gck_map_kind kind;
	uint32_t flags;
	int32_t content;           /* index into contents, -1: none */
	int32_t object;            /* index into objects, -1: none */
	uint64_t offset;           /* in the content or object */
	char *name;                /* "[heap]", "[vdso]", a path: for messages */
	uint64_t ring;             /* the `id` of an io_uring; 0: it is not of one */
	bool changes_only;         /* capture: a file's mapping in the rank, ANON in the image,
				    * which has only its changed pages */
	bool empty;                /* capture: a device's memory in the rank, ANON in the image,
				    * without pages */
};

/* Whether the rank has a private mapping of a file here; only changed pages are the mapping's
 * own. */
static inline bool gck_map_is_files(const struct gck_map *m)
{
	return m->kind == GCK_MAP_FILE || m->changes_only;
}

/* A file whose text is mapped privately. carried: the image has its mapped page groups, and restore
 * uses the node's own file if its bytes are the same; else the image has only its identity. */
struct gck_content {
	char *path;
	uint64_t device, inode;    /* on the node of the capture; identifies the file */
	uint64_t size;
	int64_t mtime_ns;
	bool carried;
	uint32_t owner;            /* 0: root, or unknown */
	struct gck_page_groups groups;
};

/* Shared memory: anonymous, memfd or (has_path) a file, under /dev/shm or elsewhere. Restore gives
 * it this content. A file without a name becomes a memfd. */
struct gck_object {
	char *name;                /* memfd name or path; "" is anonymous */
	bool has_path;
	uint32_t mode;             /* permission bits of a file */
	uint32_t seals;            /* F_GET_SEALS of a memfd, 0 for others */
	uint64_t size;
	uint64_t device, inode;    /* on the node of the capture; identifies the object */
	int64_t mtime_ns;          /* of one with a descriptor; 0: unknown */
	uint32_t owner;            /* of one with a path; 0: root, or unknown */
	struct gck_page_groups groups; /* address: offset in the object */
	uint32_t shared;           /* processes of the rank with the same number share it, and each
				    * may have a part of its content; 0: it is this process's
				    * alone */
	bool elsewhere;            /* another process's image, or other ranks', have all of its
				    * content; if has_path, an earlier process's of this rank or
				    * another rank's */
	char *ranks;               /* "0-3,8": the ranks of the node that share it; NULL: none
				    * but this one */
	uint32_t number;           /* with the first of these ranks: one object of the step */
	uint32_t segment;          /* it is System V shared memory: one more than the program's
				    * number; 0: it is not */
	/* not in the manifest: */
	uint64_t from, to;         /* capture: with ranks: the part that is this image's */
};

#define GCK_SEGMENT UINT64_MAX /* the device of such an object; its inode is the kernel's number */

/* The device of a System V object of any kind, where it is named as memory is; GCK_SEGMENT is the
 * first. */
#define GCK_IPC_DEVICE(kind) (GCK_SEGMENT - (uint64_t)(kind))
#define GCK_IPC_KIND(device) ((int32_t)(GCK_SEGMENT - (device)))
#define GCK_IS_IPC(device) (GCK_SEGMENT - (device) < GCK_IPC_KINDS)

struct gck_ipc_message {
	int64_t type;
	uint64_t size;
};

/* A System V object (enum gck_ipc_kind), which any process of the rank may use. */
struct gck_ipc {
	int32_t kind;
	int32_t id;                /* the program's number */
	int32_t number;            /* the kernel's, as captured */
	uint32_t key;              /* the program's; 0: it has none */
	uint32_t mode;             /* the kernel's, with SHM_DEST and SHM_LOCKED */
	uint64_t size;             /* memory: bytes; semaphores: how many; messages: msg_qbytes */
	int32_t object;            /* memory: index into objects; else -1 */
	bool used;                 /* semaphores: by semop(2), which sets sem_otime */
	unsigned char *data;       /* semaphores: two bytes for each; messages: those of all */
	size_t data_size;
	struct gck_ipc_message *messages; /* in their order */
	size_t nmessages;
	char *ranks;               /* "0-3,8": the ranks of the node that use it; NULL: none but
				    * this one */
	uint32_t common;           /* with the first of these ranks: one object of the step */
	bool elsewhere;            /* semaphores, messages: another rank's image has `data` */
	/* not in the manifest: */
	uint64_t users, attached;  /* memory: mappings, all and those of the rank */
	int32_t last[2];           /* who has made or used it */
	int32_t now;               /* in a restore: the kernel's number, if it is made */
	bool made, hidden;         /* in a restore; hidden: its key is another's on this node */
	void *ours;                /* in a restore: where we have attached it; NULL: nowhere */
};

struct gck_undo {              /* what the process's end does to a System V semaphore */
	int32_t id, semaphore, value;
};

enum gck_fd_kind {
	GCK_FD_STDIO,      /* one of the task's own stdin, stdout, stderr: `peer` is 0..2 */
	GCK_FD_FILE, GCK_FD_DIR, GCK_FD_PIPE, GCK_FD_EVENTFD, GCK_FD_EPOLL, GCK_FD_TIMERFD,
	GCK_FD_SIGNALFD, GCK_FD_MEMFD, GCK_FD_SOCKETPAIR, GCK_FD_DEVICE,
	GCK_FD_LISTENER,   /* a unix socket that listens, under `name` or `path` */
	GCK_FD_SOCKET,     /* one that is no SOCKETPAIR: not connected, or a SOCK_DGRAM whose peer
			    * is not connected to it */
	GCK_FD_TERMINAL,   /* a side of a pseudo-terminal: `write_end`: the master, which has its
			    * state. `id`: both have the same. `unlinked`: the master was closed */
	GCK_FD_PIDFD,      /* of `process` */
	GCK_FD_PROC,       /* of /proc: `path` below it, or below the directory of `process` */
	GCK_FD_INOTIFY,
	GCK_FD_QUEUE,      /* a POSIX message queue: `path` is its name, `id` its own */
	GCK_FD_RING,       /* io_uring; `id`: its own. `data`: its memory, as it is mapped: the
			    * rings, then the submission queue's entries */
	GCK_FD_FANOTIFY,
};

#define GCK_RING_MOST (1u << 28) /* a restart counts up to what was submitted */
#define GCK_RING_TABLE 4096      /* registered buffers, or files */

struct gck_ring_buffer {
	uint64_t address, size;    /* size 0: this place is empty */
};

struct gck_ring_file {
	int32_t fd;                /* a descriptor of the registered file; -1: none */
};

struct gck_ring {
	uint32_t submissions, completions; /* entries of its two queues */
	uint32_t submitted;        /* what the kernel has taken, and completed, modulo 2^32 */
	bool thread;               /* the kernel's submits (SQPOLL) */
	unsigned char offsets[80]; /* of struct io_uring_params: sq_off, cq_off */
	struct gck_ring_buffer *buffers; /* registered */
	size_t nbuffers;
	struct gck_ring_file *files;
	size_t nfiles;
	/* not in the manifest: */
	bool single;               /* capture: only one thread may submit */
};

#define GCK_WATCH_MAX (1u << 18) /* a restart counts up to a watch's number */

struct gck_watch {             /* of an inotify or fanotify descriptor */
	int32_t wd;                /* fanotify: 0 */
	uint32_t mask;             /* without IN_DONT_FOLLOW, IN_ONLYDIR */
	uint32_t ignored, flags;   /* fanotify: the ignored mask, FAN_MARK_* */
	char *path;                /* of the file itself, without links */
	struct gck_place_file was;
};

struct gck_epoll_entry {
	int32_t fd;
	uint32_t events;
	uint64_t data;
};

struct gck_right {             /* a descriptor that comes with a packet (SCM_RIGHTS) */
	int32_t fd;                /* one of `fds`, above the process's own: a restart opens it to
				    * send it, and closes it */
};

struct gck_packet {
	uint64_t size;
	unsigned char *from;       /* sun_path of the socket that sent it, if it has a name */
	size_t from_size;
	struct gck_right *rights;
	size_t nrights;
	uint32_t priority;         /* of a message in a QUEUE */
};

struct gck_connection {        /* that waits to be accepted */
	uint64_t id;               /* of the client, a SOCKETPAIR without a second end */
};

struct gck_socket_option {     /* of SOL_SOCKET, as getsockopt(2) returns it */
	int32_t name;
	unsigned char *value;
	size_t size;
};

enum gck_lock_kind { GCK_LOCK_FLOCK, GCK_LOCK_PROCESS, GCK_LOCK_FILE, GCK_LOCK_LEASE };

struct gck_lock {
	int32_t kind;
	bool exclusive;
	int64_t start, length;     /* 0: to the file's end, wherever that is */
};

#define GCK_PROCESS_RANK 1

#define GCK_TERMINAL_SETTINGS 44 /* the kernel's struct termios2 */
#define GCK_TERMINAL_WAITS 4095   /* bytes that a terminal's queue holds */

struct gck_terminal {          /* a pseudo-terminal, as its master shows it */
	unsigned char settings[GCK_TERMINAL_SETTINGS], size[8]; /* size: struct winsize */
	bool packets, locked;      /* TIOCPKT, TIOCSPTLCK */
	int32_t number;            /* of /dev/pts/N */
	int32_t session, foreground; /* rpid of a child: as captured; 0: none */
	unsigned char *input;      /* waits for who reads the terminal: in canonical mode with */
	size_t input_size;         /* marks at the ends of lines, objects/terminal_data.c */
	unsigned char *output;     /* waits for who reads the master */
	size_t output_size;
	bool closed;               /* who used it has closed it; not in the manifest */
};

/* One open file description; several descriptors may share it. */
struct gck_file {
	enum gck_fd_kind kind;
	uint32_t flags;            /* F_GETFL, without O_ASYNC */
	int64_t offset;
	char *path;                /* files, directories, devices, output files, sockets with the
				    * name of a file, FIFOs, PROC; NULL otherwise */
	uint64_t size;             /* of a file at the checkpoint; a log (O_APPEND) may be larger */
	uint64_t least;            /* its size when the rank was scanned, a lower bound */
	int64_t mtime_ns;
	uint32_t mode;
	bool unlinked;             /* its name is gone: restored from `data` */
	bool whole;                /* a written file whose content is in `data`. Otherwise, if
				    * written, its first `size` bytes must still hash to `prefix` */
	bool written;
	struct gck_hash prefix;
	struct gck_page_groups data;   /* content in the image: of a file, pipe or memfd */
	uint64_t data_size;
	uint64_t id;               /* pipes and socketpairs: both ends have the same id; an end that
				    * is not in the list was closed. SOCKET: its own */
	unsigned char *name;       /* sockets: the bytes after the zero that makes it abstract; */
	size_t name_size;          /* may contain zeros, as libcuda's does at its end */
	int32_t sock_type;         /* SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET */
	uint32_t shutdown;         /* socketpair: bit 0 receiving, bit 1 sending is shut down */
	int32_t peer;              /* GCK_FD_STDIO: 0..2 */
	bool write_end;
	uint32_t pipe_size;
	uint64_t count;            /* eventfd: counter; listener: backlog */
	bool semaphore;            /* eventfd */
	int32_t clock;             /* timerfd */
	uint64_t value_ns, interval_ns, ticks; /* timerfd: 0 value: disarmed */
	uint64_t sigmask;          /* signalfd */
	int32_t object;            /* GCK_FD_MEMFD: index into objects; else -1 */
	struct gck_epoll_entry *entries;
	size_t nentries;
	struct gck_packet *packets; /* that wait in a pipe or socketpair that keeps them apart:
				     * `data` is all of them; none: it is a stream */
	size_t npackets;
	struct gck_socket_option *options; /* of a socketpair's end */
	size_t noptions;
	struct gck_place_file was; /* files and directories */
	uint32_t shared;           /* processes of the rank with the same number have one open file
				    * description; 0: it is this process's alone */
	struct gck_lock *locks;    /* that it or its process holds */
	size_t nlocks;
	bool async;                /* O_ASYNC */
	int32_t signo;             /* F_SETSIG; 0: SIGIO */
	int32_t owner;             /* who gets it: F_OWNER_TID: rtid of a thread, as captured; else
				    * rpid of a child, also as a group's leader, or
				    * GCK_PROCESS_RANK, which stands for the rank's group, too;
				    * 0: nobody */
	int32_t owner_type;        /* F_OWNER_* */
	struct gck_connection *queue; /* listener: in the order in which accept(2) finds them */
	size_t nqueue;
	struct gck_terminal *terminals; /* of a TERMINAL's master: one; of STDIO that is a terminal:
					 * one with settings and size alone */
	size_t nterminals;
	struct gck_watch *watches; /* INOTIFY: by number; FANOTIFY */
	size_t nwatches;
	uint32_t init_flags, event_flags; /* FANOTIFY: as of fanotify_init(2) */
	int32_t process;           /* PIDFD, PROC: rpid of a child, as captured; GCK_PROCESS_RANK;
				    * 0: PIDFD: of one that has ended and was waited for; PROC:
				    * of none */
	uint64_t to;               /* SOCKET: id of the one to which it is connected; 0: none */
	int32_t peer_pid;          /* of unix sockets, SO_PEERCRED: the program's number of who made
				    * the other end, or listens; 0: nobody, or unknown */
	int64_t mq_most, mq_size;  /* QUEUE: messages that it holds, and bytes of each */
	struct gck_ring *rings;    /* RING: one */
	size_t nrings;
	/* not in the manifest: */
	uint32_t in_flight;        /* descriptors in its queue */
	int32_t first_right;       /* the number of the first one */
	bool queued;               /* a pair's first end, whose connection is not accepted yet */
	bool unread;               /* ... and which has sent something */
	int32_t other_pid, other_fd; /* a pair's other end, if it is in another process; 0: none */
	bool elsewhere;            /* a pipe's or pair's other end is in another process; a queue's
				    * messages are with another file */
	uint64_t device, inode;    /* of the file, as fstat(2) shows them */
};

/* The task's own standard output or error, if that is a file. */
static inline bool gck_file_is_output(const struct gck_file *f)
{
	return f->kind == GCK_FD_STDIO && f->path;
}

struct gck_fd {
	int32_t fd;
	bool cloexec;
	uint32_t file;             /* index into files */
	bool in_flight;            /* it is in a socket's queue, and no descriptor of the process */
};

struct gck_sigaction {         /* the kernel's struct, as in rt_sigaction */
	uint64_t handler, flags, restorer, mask;
};

struct gck_itimer {
	uint64_t value_ns, interval_ns; /* ITIMER_REAL, VIRTUAL, PROF */
};

struct gck_posix_timer {
	int32_t id, clock, notify, signo;
	int32_t vtid;              /* SIGEV_THREAD_ID */
	uint64_t sigval;
	uint64_t value_ns, interval_ns;
};

/* A child, which runs or has ended and was not waited for. */
struct gck_child {
	int32_t vpid;              /* the program's number */
	int32_t rpid;              /* the kernel's: as of a thread */
	int32_t status;            /* as wait(2) reports it; 0 if it runs */
	int32_t exit_signal;       /* what its end sent to the rank; 0: nothing */
	int32_t group;             /* vpid of its process group's leader: itself or a child before
				    * it; 0: it is in the rank's group */
	bool session;              /* it leads a session */
	bool runs;                 /* its image is the next one of `processes` */
	bool orphan;               /* of the rank: a descendant whose parent has ended. It runs */
	int32_t leader;            /* of an orphan: the number of its session, which is also its
				    * group's unless `group` is set, and whose leader has ended;
				    * 0: the session is its own or the rank's */
	int32_t leader_rpid;       /* in a restore: the kernel's */
	int32_t before;            /* in a restore: rpid as it was captured */
};

struct gck_attribute {         /* of a process: objects/process_attributes.c */
	char *name;
	uint64_t value;
};

struct gck_image {
	int32_t vpid;
	uint32_t restarts;
	char *exe, *cwd;
	uint32_t umask;
	uint64_t brk, start_brk, start_code, end_code, start_data, end_data, start_stack;
	uint64_t arg_start, arg_end, env_start, env_end;
	unsigned char *auxv;
	size_t auxv_size;
	struct gck_sigaction actions[65]; /* by signal number */
	struct gck_itimer itimers[3];
	struct gck_posix_timer *timers;
	size_t ntimers;
	struct gck_pending *pending; /* of the process */
	size_t npending;
	struct gck_thread *threads;  /* [0] is the main thread; the shim's helper is not here */
	size_t nthreads;
	struct gck_map *maps;        /* by address */
	size_t nmaps;
	struct gck_content *contents;
	size_t ncontents;
	struct gck_object *objects;
	size_t nobjects;
	struct gck_page_groups pages;    /* of GCK_MAP_ANON, _FILE and _VDSO, by address */
	struct gck_page_groups guards;   /* pages with MADV_GUARD_INSTALL; no chunks */
	struct gck_page_groups device;   /* memory of CUDA devices by device address, as far as the
					  * drain put it into no page */
	struct gck_file *files;
	size_t nfiles;
	struct gck_fd *fds;
	size_t nfds;
	struct gck_chunks chunks;    /* the manifest's */
	uint64_t shim_state;         /* address of struct gck_shim_state */
	uint64_t limits[16][2];      /* rlimits, soft and hard */
	char *cpu_flags;             /* /proc/cpuinfo's flags: a node without all of them is
				      * refused */
	struct gck_hash vdso;        /* of the vdso's bytes */
	int64_t realtime_ns, monotonic_ns; /* the clocks as the rank read them when it was frozen */
	int32_t dumpable, thp_disable;
	uint32_t personality;
	struct gck_attribute *attributes;
	size_t nattributes;
	struct gck_child *children;  /* in the order in which wait(2) finds them */
	size_t nchildren;
	struct gck_image *processes; /* of children that run, with theirs; in an image of a
				      * descendant `chunks` is empty, and the rank's is used */
	size_t nprocesses;
	bool keeps_numbers;          /* its program learns PIDs from the kernel alone: a restart
				      * gives all processes of the rank their old ones */
	struct gck_ipc *ipc;         /* of a rank: all that its processes use */
	size_t nipc;
	struct gck_undo *undo;       /* of this process */
	size_t nundo;
	char *boot;                  /* boot_id of the node where `ipc` was, and its IPC namespace;
				      * NULL: unknown */
	int32_t lock_future;         /* mlockall of memory to come: MCL_FUTURE, MCL_ONFAULT */
};

void gck_image_free(struct gck_image *img);

/* The device data of the process with this number (vpid); NULL: there is no such process. */
const struct gck_page_groups *gck_image_device(const struct gck_image *img, int32_t vpid);

/* Bytes of device data of all processes. */
uint64_t gck_image_device_bytes(const struct gck_image *img);

/* A descriptor of the process for img->files[file]; -1: it has none. */
int gck_image_fd_of(const struct gck_image *img, size_t file);

/* Check what the tables of image_fields.c cannot express: order, overlap, indexes. */
int gck_image_check(const struct gck_image *img, struct gck_error *err) GCK_MUST_CHECK;

/* Append a zeroed element of size bytes to a list of *n elements. list: address of the pointer to
 * it. Returns the new element; NULL without memory, and nothing has changed. */
void *gck_grow(void *list, size_t *n, size_t size, struct gck_error *err) GCK_MUST_CHECK;

/* Append a page group; -1 without memory. */
int gck_page_groups_add(struct gck_page_groups *w, const struct gck_page_group *x,
			struct gck_error *err) GCK_MUST_CHECK;
struct gck_page_group gck_page_groups_at(const struct gck_page_groups *w, size_t i);
uint64_t gck_page_groups_address(const struct gck_page_groups *w, size_t i);
void gck_page_groups_sort(struct gck_page_groups *w);

/* Read a list from JSON; free it with gck_hex_table_clear. chunks may be NULL: page groups then
 * have only their chunk's number. */
int gck_page_groups_load(struct gck_page_groups *w, const json_t *value,
			 const struct gck_chunks *chunks, struct gck_error *err) GCK_MUST_CHECK;

/* Index of the first page group that ends after an address. */
size_t gck_page_groups_find(const struct gck_page_groups *w, uint64_t address);
uint64_t gck_page_groups_bytes(const struct gck_page_groups *w);

/* Convert to and from a manifest: {"format": 1, "image": {..}}. from_json needs the member "store"
 * that the store's writer added, and checks every value: a manifest is data from outside. */
json_t *gck_image_to_json(const struct gck_image *img, struct gck_error *err) GCK_MUST_CHECK;
struct gck_image *gck_image_from_json(const json_t *manifest, struct gck_error *err) GCK_MUST_CHECK;

/* The number that the rank's process must have for a restart, since one of its processes
 * keeps_numbers; 0: any. */
int32_t gck_image_number(const json_t *manifest);

/* The highest number of its processes, threads and ended children. */
int32_t gck_image_last_number(const json_t *manifest);

/* Its list `pages` alone, without its chunks, to be given to gck_hex_table_clear. */
int gck_image_pages(const json_t *manifest, struct gck_page_groups *pages,
		    struct gck_error *err) GCK_MUST_CHECK;

#endif
