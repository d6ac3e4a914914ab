/* SPDX-License-Identifier: Apache-2.0
 * The shim's link to its agent, and the part of a rank's memory that both use (doc/shim-link.md).
 *
 * A rank's preload constructor connects a SEQPACKET socket to the abstract name in GPUCKPT_LINK and
 * sends HELLO. The agent identifies it by SO_PEERCRED and answers GO, HOLD, EXIT or REFUSED; the
 * rank accepts only a listener of its own uid. After GO the link belongs to the shim's helper: a
 * thread made by a raw clone() without libc, which uses no TLS, makes only raw system calls, and
 * has all signals blocked. The helper serves CALLS, CLONE and REAP. The rank does all that must be
 * done inside it, so an agent can die at any instruction and leave no trace in the rank.
 * When the link ends, the helper kills and reaps a remaining clone and connects again. A newer
 * link of the same rank replaces the older, which children of the rank may hold open.
 *
 * Plain structs of fixed-size fields in host byte order: both ends are one build on one node. */
#ifndef GCK_LINK_H
#define GCK_LINK_H

#include <stddef.h>
#include <stdint.h>

#define GCK_LINK_VERSION 2

enum gck_link_type {
	/* rank to agent */
	GCK_LINK_HELLO = 1, /* hello; number: GCK_LINK_TAKES_LEASE, or 0 from an older shim */
	GCK_LINK_RESULTS,   /* calls: the same calls with their results (-errno on failure) */
	GCK_LINK_CLONED,    /* pid: the clone's pid, or -errno; EBUSY: another clone lives */
	GCK_LINK_REAPED,    /* pid: the reaped clone's, or -errno; ECHILD: there was none */
	GCK_LINK_ASK,       /* ask: calls of gck_checkpoint() wait. Sent at any time, also between
			     * a request and its answer, and again every second */
	GCK_LINK_DIRTY_FD,  /* pid: 0, with a userfaultfd of the rank by SCM_RIGHTS; or -errno */
	GCK_LINK_STAYS,     /* pid: -errno, why there is no process in a namespace */
	/* agent to rank */
	GCK_LINK_GO = 16,   /* Run on. pid: the agent's; it and its descendants may trace from here
			     * on. number: calls of gck_checkpoint_all() that this task's earlier
			     * program made. Also the answer to a helper's HELLO */
	GCK_LINK_HOLD,      /* pid: the agent's; allow it to trace, and wait: a restore follows */
	GCK_LINK_EXIT,      /* pid: an exit status, 0..255. The rank had finished before the
			     * checkpoint: leave before main */
	GCK_LINK_CALLS,     /* calls: run these system calls in order */
	GCK_LINK_CLONE,     /* Fork a clone; with one end of a socketpair by SCM_RIGHTS, its life:
			     * the clone lives until the other end closes. CLONED answers when the
			     * clone's memory is a copy. The clone runs `calls`, and writes
			     * GCK_LINK_FROZEN to its life when it has closed all else and can be
			     * traced and read */
	GCK_LINK_REAP,      /* pid: a clone. Kill it and wait for it; REAPED answers */
	GCK_LINK_REFUSED,   /* The process is not a rank of this step: leave it alone */
	GCK_LINK_OUTCOME,   /* outcome: of calls of gck_checkpoint(). No answer */
	GCK_LINK_TRACK_DIRTY, /* Make a userfaultfd for the agent, which tracks written pages with
			     * it (shim/process/memory/dirty_pages.h). The rank closes its own
			     * descriptor. DIRTY_FD answers */
	GCK_LINK_LEASE,     /* number: ms from now, after which the kernel stops the rank by SIGSTOP
			     * unless another LEASE comes before. 0, or the link's end: it is not
			     * stopped. Only to a rank that takes it. No answer */
	GCK_LINK_APART,     /* pid: a number. To a process that holds: have one with that number,
			     * in a PID namespace, hold in its place, which connects with a
			     * HELLO of its own; or STAYS answers. number: processes that are made
			     * there get higher ones */
	GCK_LINK_QUEUE,     /* With memory (a struct gck_link_queue) by SCM_RIGHTS: copy there the
			     * messages of a POSIX queue. RESULTS answers: one call, whose result
			     * is 0 or -errno */

	/* The MPI thread's own link, in packets of struct gck_thread_msg. Rank to agent: */
	GCK_LINK_MPI_HELLO = 32, /* hello; sent again when any of it changes */
	GCK_LINK_MPI_READY,      /* seq, round; via COORDINATOR: data, this rank's words */
	GCK_LINK_MPI_QUIESCED,   /* seq; value: 0, or an errno value with the reason in data */
	GCK_LINK_MPI_OBSTACLE,   /* data: object, reason, remedy, each with its NUL */
	GCK_LINK_MPI_OBSTACLES_END, /* No more obstacles; the list of what images leave out is up
				  * to date */
	GCK_LINK_MPI_REBUILT,    /* value: 0, or an errno value with the reason in data */
	GCK_LINK_MPI_BYE,        /* The process is in exit() */
	/* agent to rank: */
	GCK_LINK_MPI_QUIESCE = 40, /* seq; value: enum gck_link_mpi_via; quiesce */
	GCK_LINK_MPI_GO,         /* seq, round; via COORDINATOR: data, all ranks' words */
	GCK_LINK_MPI_HOLD,       /* seq; a sign of life */
	GCK_LINK_MPI_RESUME,     /* seq; run on. Also cancels a quiesce */
	GCK_LINK_MPI_LIST_OBSTACLES, /* Report what prevents a checkpoint now */

	/* The CUDA thread's own link, also in packets of struct gck_thread_msg. Rank to agent: */
	GCK_LINK_CUDA_HELLO = 48, /* cuda_hello */
	GCK_LINK_CUDA_DRAINED,   /* seq; value: 0, or an errno value with the reason in data.
				  * round: 1 if device copies wait to be read over RESUME's
				  * descriptors, else 0 */
	GCK_LINK_CUDA_RESUMED,   /* seq; value: 0, or an errno value with the reason in data: the
				  * GPU is lost */
	GCK_LINK_CUDA_OBSTACLE,  /* data: object, reason, remedy, each with its NUL. round: 1 if no
				  * checkpoint is refused for it, else 0 */
	GCK_LINK_CUDA_OBSTACLES_END, /* No more obstacles. round: for so many ms what was queued on
				  * the GPU was not done; 0: it is done, or nobody looked */
	GCK_LINK_CUDA_YIELDED,   /* seq of YIELD; round: 1 if memory of that device was freed, else
				  * 0 */
	GCK_LINK_CUDA_RECLAIM,   /* data: UUID (16 bytes) of a device without free memory. The only
				  * message of a connection of its own, by any thread; RECLAIMED
				  * answers there */
	GCK_LINK_CUDA_PREPARED,  /* seq of PREPARE */
	/* agent to rank: */
	GCK_LINK_CUDA_DRAIN = 56, /* seq, cuda_drain */
	GCK_LINK_CUDA_HOLD,      /* seq; a sign of life */
	GCK_LINK_CUDA_RESUME,    /* seq; the image is taken, or will not be. With two descriptors by
				  * SCM_RIGHTS (GCK_LINK_DATA_FDS), the device copies are read */
	GCK_LINK_CUDA_LIST_OBSTACLES, /* Report what prevents a checkpoint now */
	GCK_LINK_CUDA_RESTORE,   /* Answers a HELLO with data_missing. value: 0, with the two
				  * descriptors over which the data come; else an errno value with
				  * the reason in data */
	GCK_LINK_CUDA_YIELD,     /* seq; data: UUID of a device on which another rank found no
				  * memory. Free the device copies there */
	GCK_LINK_CUDA_PREPARE,   /* seq, cuda_drain: such a DRAIN comes soon. Prepare it within
				  * limit_ms, while the program runs. RESUME, or the link's end,
				  * cancels it */
	GCK_LINK_CUDA_RECLAIMED, /* Answers a RECLAIM. round: number of ranks that freed memory */
};

#define GCK_LINK_TAKES_LEASE 1
#define GCK_LINK_FROZEN 'F'
#define GCK_LINK_MAX_CALLS 96

struct gck_link_call {
	int64_t nr;
	uint64_t args[6];
	int64_t result;
};

struct gck_link_hello {
	uint32_t version;
	uint32_t reconnect;  /* 0: from the constructor, 1: from a helper whose link had ended */
	uint64_t state;      /* address of the rank's struct gck_shim_state */
};

/* By the function of shim/user/gpuckpt.h that was called. */
enum gck_link_request_kind {
	GCK_REQUEST_ONE,     /* gck_checkpoint() */
	GCK_REQUEST_ALL,     /* gck_checkpoint_all() */
	GCK_REQUEST_KINDS,
};

struct gck_link_ask {
	uint32_t asked[GCK_REQUEST_KINDS]; /* number of the last call, also if it waits no more */
};

#define GCK_ASK_WHY 240

struct gck_link_outcome {
	uint32_t kind;
	uint32_t committed;  /* calls up to this number have succeeded */
	uint32_t failed;     /* calls above committed, up to this number, have failed */
	uint32_t code;       /* their errno value; why: the reason */
	char why[GCK_ASK_WHY];
};

struct gck_link_msg {
	uint32_t type;
	int32_t pid;
	uint32_t ncalls;     /* the packet is cut after the last call */
	uint32_t number;
	union {
		struct gck_link_hello hello;
		struct gck_link_ask ask;
		struct gck_link_outcome outcome;
		struct gck_link_call calls[GCK_LINK_MAX_CALLS];
	};
};

/* The messages of a POSIX queue, which the rank takes from it and puts back: it does so alone,
 * since what was taken must not be lost with the agent. */
struct gck_link_queue {
	char path[32];       /* of the rank's descriptor, below /proc/self/fd */
	uint64_t size;       /* of all of this memory: enough for one message more than the queue
			      * can hold */
	uint32_t message_max; /* bytes */
	uint32_t n;          /* the rank's: so many messages follow, in the queue's order */
};

struct gck_link_message {
	uint32_t size, priority; /* its bytes follow, then the next one */
};

#define GCK_LINK_MESSAGE(bytes) \
	((sizeof(struct gck_link_message) + (uint64_t)(bytes) + 7) / 8 * 8)

/* ---- the MPI thread's link ------------------------------------------------------------------ */

enum gck_link_mpi_via {
	GCK_LINK_MPI_COORDINATOR,
	GCK_LINK_MPI_PMIX,
};

struct gck_link_mpi_hello {
	uint32_t version;
	uint32_t restored;   /* 1: restored from an image; REBUILT follows */
	uint32_t rank, size; /* in MPI_COMM_WORLD. size 0: MPI_Init is under way, or mpi_inactive */
	uint32_t pmix;       /* 1: words can go through PMIx */
	uint32_t mpi_inactive; /* 1: before MPI_Init or after MPI_Finalize. The rank has nothing to
			      * exchange; it answers QUIESCE with QUIESCED alone */
	uint64_t state;      /* address of struct gck_mpi_state (shim/mpi/base/state.h) */
};

struct gck_link_mpi_quiesce {
	uint32_t limit_ms;   /* for all rounds together */
	uint32_t watchdog_ms; /* a rank that receives nothing for this long resumes by itself */
};

struct gck_link_cuda_hello {
	uint32_t version;
	uint32_t restored;   /* 1: restored from an image and not back on the GPU yet, or the GPU
			      * is lost; RESUMED follows */
	uint32_t data_missing; /* 1: restored, and no page of the image has its device data;
			      * RESTORE follows */
	uint32_t pid;        /* as getpid() gives it to the program: the image knows it by that */
	uint64_t state;      /* address of struct gck_cuda_state (shim/cuda/base/state.h) */
};

#define GCK_LINK_CUDA_DEVICES 32

struct gck_link_cuda_drain {
	uint32_t limit_ms;   /* until DRAINED */
	uint32_t watchdog_ms; /* a drained rank that receives nothing for this long resumes */
	uint64_t host_copy_max; /* limit of the copies in host memory, in bytes; ENOMEM above it */
	uint64_t device_copy_max[GCK_LINK_CUDA_DEVICES]; /* limit of the copies on each device, in
			      * bytes, in the order of the rank's gck_cuda_state; also bounded by
			      * free memory. If any is not 0, RESUME comes before the image is
			      * written */
};

#define GCK_THREAD_MSG_DATA 32768

/* A packet of the MPI thread's or the CUDA thread's link. A message with more data than a packet
 * holds is sent as several packets, in order, with the same type, round, seq, value and total. */
struct gck_thread_msg {
	uint32_t type, round;
	uint64_t seq;
	uint32_t value;
	uint32_t total;      /* bytes of the whole message's data */
	uint32_t offset;     /* of this packet's data in the message's */
	uint32_t unused;
	union {              /* cut after the last byte used */
		struct gck_link_mpi_hello hello;
		struct gck_link_mpi_quiesce quiesce;
		struct gck_link_cuda_hello cuda_hello;
		struct gck_link_cuda_drain cuda_drain;
		unsigned char data[GCK_THREAD_MSG_DATA];
	};
};

/* ---- device data ---------------------------------------------------------------------------- */

/* The data of a rank's devices go between the rank and a process of the agent over a SEQPACKET
 * socket and through a ring, a sealed memfd that both have mapped (doc/shim-link.md, "Device
 * data"). The receiving side sends GET; the side with the bytes writes them to that place of the
 * ring and sends READY, in the order of the GETs (and HASHes). */
#define GCK_LINK_DATA_FDS 2               /* RESUME's and RESTORE's: the socket, then the ring */
#define GCK_LINK_DATA_GET_MAX (4u << 20)  /* bytes that one GET may ask for */
#define GCK_LINK_DATA_HASH_MAX (64u << 20) /* bytes that one HASH may cover */
#define GCK_LINK_DATA_PAGE_GROUP (256u << 10) /* a hash covers one; they begin at its multiples */
#define GCK_LINK_DATA_WHY 200

enum gck_link_data_type {
	GCK_LINK_DATA_LIST = 1, /* to a rank that runs; PIECEs and END answer */
	GCK_LINK_DATA_PIECE,    /* address, size */
	GCK_LINK_DATA_END,      /* end of the list; value: 0, or an errno value with why */
	GCK_LINK_DATA_GET,      /* address, size; number: offset in the ring, at a page */
	GCK_LINK_DATA_HASH,     /* to a rank that runs: address, size and number as in GET. Asks for
				 * a struct gck_hash (storage/store/store.h) for each page group
				 * with such bytes; it covers only these */
	GCK_LINK_DATA_READY,    /* address and size as in the GET or HASH; value: 0, or an errno
				 * value with why */
	GCK_LINK_DATA_DONE,     /* from the receiving side: it needs nothing more */
};

struct gck_link_data {
	uint32_t type, value;
	uint64_t address, size; /* multiples of 4 KiB */
	uint64_t number;
	char why[GCK_LINK_DATA_WHY]; /* NUL-terminated. A packet may be cut after the NUL; one with
				      * an empty text is cut before this field */
};

/* In the rank's memory (the preload's data), readable and writable from outside by
 * process_vm_readv/writev while the rank is held. Part of every image, so that a restored rank
 * finds it at the same address. The restorer writes the fields marked R. An entry of tids whose
 * rtid is no thread and no child of the process is stale and has no meaning. */
#define GCK_SHIM_MAGIC 0x6b636b7075706731ull
#define GCK_SHIM_MAX_TIDS 4096
#define GCK_SHIM_SCRATCH 65536

/* A thread or a child of the process. */
struct gck_shim_tid {
	int32_t vtid; /* the program's and glibc's number; 0: free entry */
	int32_t rtid; /* the kernel's */
};

#define GCK_TRACER_ANY (-1) /* PR_SET_PTRACER_ANY: any process of the user */

#define GCK_SHIM_WAITS 1u    /* wait() and its kin give a restored child's first PID */
#define GCK_SHIM_SUMMON 2u   /* a stopped thread can make a helper */
#define GCK_SHIM_SUMMONED 4u /* W the helper serves one link and ends */
#define GCK_SHIM_LEFT_GPU 8u /* it was forked from a process that uses CUDA, and uses none: what it
			      * has of the driver's devices is its parent's */
#define GCK_SHIM_DESCENDANT 16u /* a descendant of the rank: without a helper, its stand-ins may
			      * connect to the agent all the same */
#define GCK_SHIM_IMPLANTED 32u /* W its program takes no preload: the agent has put this one into it
				* for the helper, unrelocated */
#define GCK_SHIM_DEATH_SHIFT 8
#define GCK_SHIM_DEATH (127u << GCK_SHIM_DEATH_SHIFT) /* the main thread's PR_SET_PDEATHSIG */

/* In a descendant of the rank there is no helper until a tracer summons one: it writes this into
 * the helper's stack, GCK_SHIM_SUMMON_AT bytes below its top, and sets the registers of a stopped
 * thread: rip helper_entry, rax 1, rsp this. The thread makes the helper and is then as it was; no
 * tracer is needed for that. */
#define GCK_SHIM_SUMMON_AT 49152
struct gck_shim_summon {
	uint64_t mask, all;        /* its signal mask; all signals */
	uint64_t stack;            /* the helper's */
	uint64_t r15, r14, r13, r12, rbp, rbx, r11, r10, r9, r8, rax, rcx, rdx, rsi, rdi;
	uint64_t rip, cs, eflags, rsp, ss;
};

struct gck_shim_altstack {
	uint64_t fs_base; /* the thread; 0: free entry */
	uint64_t sp, size;
	uint32_t flags, unused; /* as given to sigaltstack: SS_DISABLE or SS_AUTODISARM bits */
};

/* Calls of one of the functions of shim/user/gpuckpt.h, numbered from 1. */
struct gck_shim_requests {
	uint32_t asked;          /* number of the last call; in an image, at the checkpoint */
	uint32_t committed;      /* this and the next three: as in struct gck_link_outcome. R of
				  * gck_checkpoint(): the restorer sets it to asked */
	uint32_t failed, code;
	char why[GCK_ASK_WHY];
};

/* A name that the process has watched by inotify; it follows, with its NUL. */
#define GCK_SHIM_WATCHED 256
struct gck_shim_watched {
	uint64_t next;           /* address; 0: it is the list's last */
	uint32_t size, unused;
};

/* The name of a file below /dev/shm that the process has made. */
#define GCK_SHIM_MADE 4096
enum gck_shim_made_state { GCK_MADE_FREE, GCK_MADE_BUSY, GCK_MADE_KNOWN };
struct gck_shim_made {
	uint32_t state;
	char name[252];          /* with its NUL, after "/dev/shm/" */
};

/* A System V object that has another number, or another key, for the program than for the kernel
 * (shim/ipc_numbers.h). */
enum gck_ipc_kind { GCK_IPC_MEMORY, GCK_IPC_SEMAPHORES, GCK_IPC_MESSAGES, GCK_IPC_KINDS };
#define GCK_SHIM_IPC 1024
struct gck_shim_ipc {
	int32_t kind;
	int32_t vid;             /* the program's number */
	int32_t id;              /* the kernel's */
	int32_t key;             /* the program's, if it is another object's here; else 0 */
};

/* One that the process has used: its kind and the program's number. */
#define GCK_SHIM_IPC_USED(kind, vid) ((uint64_t)((kind) + 1) << 32 | (uint32_t)(vid))

#define GCK_SHIM_SIGNALS 64

/* A thread is about to execute a program or to spawn one: it prepares an environment that holds for
 * one start. At `mark`, on its stack, is GCK_SHIM_EXECUTION xor that address. A thread that has
 * jumped out of the call (siglongjmp) leaves this behind: its stack then ends above, or has other
 * bytes there. */
#define GCK_SHIM_EXECUTION 0x676b636578656331ull
struct gck_shim_execution {
	uint64_t mark;           /* 0: it is not */
	int32_t pid;             /* the kernel's PID of its process, which may be a child by vfork
				  * or the parent of one by fork */
	uint32_t unused;
};

struct gck_shim_state {
	uint64_t magic;
	uint32_t version, size;
	int32_t vpid;              /* the PID that the program sees: that of its first start */
	int32_t rpid;              /* R the kernel's PID */
	char link[108];            /* R abstract name of the agent's socket, NUL-terminated */
	int32_t helper_tid;        /* R 0: no helper */
	int64_t tid_offset;        /* from a thread's fs_base to glibc's copy of its TID */
	uint64_t helper_entry;     /* the restorer starts a helper here, in a new thread with this
				    * stack */
	uint64_t helper_stack_top;
	uint64_t scratch;          /* GCK_SHIM_SCRATCH bytes for CALLS' arguments and results */
	int32_t link_fd;           /* R the helper's socket; -1: none */
	uint32_t restarts;         /* R how many times this rank was restored */
	uint64_t guard_check, guard_call; /* instructions: a thread that was captured after the
				    * first and has not executed the other begins again at the
				    * first, since it may use numbers of the start before */
	uint32_t ntids;            /* R length of tids; some entries may be free or stale */
	uint32_t naltstacks;
	uint64_t stdio[3][2];      /* R device and inode of descriptors 0..2 as the first
				    * constructor found them (0, 0: closed). They tell the task's
				    * stdio from a file that the program put there, which is
				    * restored */
	struct gck_shim_tid tids[GCK_SHIM_MAX_TIDS]; /* R threads and children whose two numbers
				    * differ */
	struct gck_shim_altstack altstacks[GCK_SHIM_MAX_TIDS];
	uint32_t overflow;         /* not 0: a table was full; the rank cannot be checkpointed */
	uint32_t features;         /* GCK_SHIM_WAITS and those after it */
	uint64_t mpi_state;        /* address of struct gck_mpi_state (shim/mpi/base/state.h) once
				    * the process has loaded MPI; else 0 */
	uint64_t cuda_state;       /* address of struct gck_cuda_state (shim/cuda/base/state.h) from
				    * the first cuInit on; else 0 */
	uint64_t environ_at;       /* address of libc's `environ` */
	uint64_t environment;      /* R address of the slots with the launcher's variables of this
				    * start (common/base/environ_slots.h); 0 at a first start */
	uint64_t environment_size, environment_capacity; /* R bytes; the list of pointers begins
				    * after the capacity */
	uint64_t environment_list; /* R entries for which the list has space */
	struct gck_shim_requests requests[GCK_REQUEST_KINDS];
	uint32_t ask_word;         /* futex: changes with any request, and after a restart */
	uint32_t all_restored;     /* R number of the last gck_checkpoint_all() that any rank of the
				    * step had called when the image was taken */
	uint32_t linked;           /* 1: an agent has answered GO, to the constructor or a helper */
	int32_t tracer;            /* R PR_SET_PTRACER: this process and its descendants may trace;
				    * 0: nobody; GCK_TRACER_ANY */
	uint64_t watched[GCK_SHIM_WATCHED]; /* lists of struct gck_shim_watched: addresses, 0:
				    * empty. They only grow, at the front */
	uint64_t made;             /* address of GCK_SHIM_MADE struct gck_shim_made; 0: it has made
				    * none */
	uint64_t handler_entry;    /* after a restart the kernel calls this in place of a handler
				    * that is told a signal's sender (SA_SIGINFO) … */
	uint64_t handlers[GCK_SHIM_SIGNALS + 1]; /* R … which is here */
	int32_t rank_pid;          /* R the kernel's PID of the rank, also in its descendants; 0: it
				    * is in no step */
	uint32_t nipc;             /* R length of ipc */
	struct gck_shim_ipc ipc[GCK_SHIM_IPC]; /* R those of the rank */
	uint64_t ipc_used[GCK_SHIM_IPC]; /* GCK_SHIM_IPC_USED; 0: free. The kernel's word on who
				    * has made or used an object last has others */
	int64_t execution_offset;  /* from a thread's fs_base to its struct gck_shim_execution; 0:
				    * no thread has executed or spawned a program yet */
};

#endif
