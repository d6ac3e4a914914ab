/* SPDX-License-Identifier: Apache-2.0
 * The shim's link to its agent, and the part of a rank's memory that both know (doc/shim-link.md).
 *
 * A rank's preload constructor connects a SEQPACKET socket to the abstract name in GPUCKPT_LINK and
 * sends HELLO. The agent knows it by SO_PEERCRED and answers GO, HOLD, EXIT or REFUSED; the rank
 * takes only a listener of its own uid. After GO the link belongs to the shim's helper, a thread
 * made by a raw clone() that libc does not know, uses no TLS and only raw system calls, with all
 * signals blocked. The helper serves CALLS, CLONE and REAP: what must be done inside a rank is done
 * by the rank, so that an agent can die at any instruction without a trace in the rank.
 * When the link ends, the helper kills and reaps a clone that is left and connects again. A newer
 * link of the same rank replaces the older: children may hold the older open.
 *
 * Plain structs of fixed-size fields, host byte order: both ends are one build on one node. */
#ifndef GCK_LINK_H
#define GCK_LINK_H

#include <stddef.h>
#include <stdint.h>

#define GCK_LINK_VERSION 2

enum gck_link_type {
	/* rank to agent */
	GCK_LINK_HELLO = 1, /* hello */
	GCK_LINK_RESULTS,   /* calls: the same calls, result filled in (-errno on failure) */
	GCK_LINK_CLONED,    /* pid: the clone's pid, or -errno: EBUSY while another clone lives */
	GCK_LINK_REAPED,    /* pid: of the clone that is gone, or -errno: ECHILD if none was left */
	GCK_LINK_ASK,       /* ask: calls of gck_checkpoint() wait. At any time, also between a
			     * request and its answer, and again every second */
	GCK_LINK_MARKED,    /* pid: 0, with a userfaultfd of the rank by SCM_RIGHTS; or -errno */
	/* agent to rank */
	GCK_LINK_GO = 16,   /* pid: the agent's, which may trace from here on, as its descendants
			     * may; run on. Also the answer to a helper's HELLO. number: calls of
			     * gck_checkpoint_all() that this task's earlier program made */
	GCK_LINK_HOLD,      /* pid: the agent's; allow it to trace and wait: a restore follows */
	GCK_LINK_EXIT,      /* pid: exit status 0..255; leave before main (the rank had finished) */
	GCK_LINK_CALLS,     /* calls: run these system calls in order */
	GCK_LINK_CLONE,     /* + one end of a socketpair by SCM_RIGHTS, the clone's life: fork a
			     * clone that lives until the other end closes; answered by CLONED
			     * when its memory is a copy. The clone writes GCK_LINK_FROZEN to its
			     * life when it has closed all else and can be traced and read */
	GCK_LINK_REAP,      /* pid: wait for this clone (kill it first); answered by REAPED */
	GCK_LINK_REFUSED,   /* not a rank of this step: leave the process alone */
	GCK_LINK_TOLD,      /* told: what became of calls of gck_checkpoint(); not answered */
	GCK_LINK_MARKS,     /* make a userfaultfd for the agent, which the rank does not keep: it tells
			     * which pages are written (shim/process/memory/dirty_pages.h); answered by MARKED */

	/* The MPI thread's own link, in packets of struct gck_thread_msg. Rank to agent: */
	GCK_LINK_MPI_HELLO = 32, /* hello; again when what it says changes */
	GCK_LINK_MPI_READY,      /* seq, round, via COORDINATOR data: this rank's words */
	GCK_LINK_MPI_QUIESCED,   /* seq, value: 0 or an errno value, data: then why */
	GCK_LINK_MPI_ITEM,       /* data: object, reason, remedy, each with its NUL */
	GCK_LINK_MPI_LOOKED,     /* no more items; what is left out of an image is up to date */
	GCK_LINK_MPI_REBUILT,    /* value: 0 or an errno value, data: then why */
	GCK_LINK_MPI_BYE,        /* the process is in exit() */
	/* agent to rank: */
	GCK_LINK_MPI_QUIESCE = 40, /* seq, value: enum gck_link_mpi_via, quiesce */
	GCK_LINK_MPI_GO,         /* seq, round, via COORDINATOR data: all ranks' words */
	GCK_LINK_MPI_HOLD,       /* seq; a sign of life */
	GCK_LINK_MPI_RESUME,     /* seq; also: the quiesce is called off */
	GCK_LINK_MPI_LOOK,       /* tell what stands in the way */

	/* The CUDA thread's own link, in packets of struct gck_thread_msg, too. Rank to agent: */
	GCK_LINK_CUDA_HELLO = 48, /* cuda_hello */
	GCK_LINK_CUDA_DRAINED,   /* seq, value: 0 or an errno value, data: then why. round: 1, something
				  * is kept on a device for RESUME's descriptors; else 0 */
	GCK_LINK_CUDA_RESUMED,   /* seq, value: 0, or an errno value: the GPU is lost, data: why */
	GCK_LINK_CUDA_ITEM,      /* data: object, reason, remedy, each with its NUL */
	GCK_LINK_CUDA_LOOKED,    /* no more items */
	GCK_LINK_CUDA_YIELDED,   /* seq of YIELD; round: 1, something of that device was given back, or 0 */
	GCK_LINK_CUDA_NEED,      /* the only message of a connection of its own, of whichever thread: no memory
				  * on a device; data: its UUID, 16 bytes. Answered there by GIVEN */
	GCK_LINK_CUDA_EXPECTED,  /* seq of EXPECT */
	/* agent to rank: */
	GCK_LINK_CUDA_DRAIN = 56, /* seq, cuda_drain */
	GCK_LINK_CUDA_HOLD,      /* seq; a sign of life */
	GCK_LINK_CUDA_RESUME,    /* seq; the image is taken, or none will be. With two descriptors by
				  * SCM_RIGHTS (GCK_LINK_DATA_FDS): what the device has kept is read */
	GCK_LINK_CUDA_LOOK,      /* tell what stands in the way */
	GCK_LINK_CUDA_FILL,      /* to a HELLO with `wanting`. value 0, and the two descriptors: the data
				  * come over these; else an errno value, data: why there are none */
	GCK_LINK_CUDA_YIELD,     /* seq; data: the UUID of a device, on which another rank found no memory: what
				  * is kept there for a checkpoint goes */
	GCK_LINK_CUDA_EXPECT,    /* seq, cuda_drain: such a DRAIN is about to come; get ready within limit_ms what
				  * can be while the program runs. RESUME, or the link's end: it does not come */
	GCK_LINK_CUDA_GIVEN,     /* to a NEED. round: so many ranks have given something back */
};

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

/* Which of the two functions of shim/user/gpuckpt.h. */
enum gck_link_asker {
	GCK_ASKER_ONE,       /* gck_checkpoint() */
	GCK_ASKER_ALL,       /* gck_checkpoint_all() */
	GCK_ASKERS,
};

struct gck_link_ask {
	uint32_t asked[GCK_ASKERS]; /* number of the last call, whether it still waits or not */
};

#define GCK_ASK_WHY 240

struct gck_link_told {
	uint32_t asker;
	uint32_t committed;  /* calls up to this number are answered: done */
	uint32_t failed;     /* those up to this one, and above committed: not done */
	uint32_t code;       /* errno value of these, and the reason */
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
		struct gck_link_told told;
		struct gck_link_call calls[GCK_LINK_MAX_CALLS];
	};
};

/* ---- the MPI thread's link ------------------------------------------------------------------ */

enum gck_link_mpi_via {
	GCK_LINK_MPI_COORDINATOR,
	GCK_LINK_MPI_PMIX,
};

#define GCK_LINK_MPI_PIECE 32768

struct gck_link_mpi_hello {
	uint32_t version;
	uint32_t restored;   /* 1: out of an image; REBUILT follows */
	uint32_t rank, size; /* in MPI_COMM_WORLD; size 0: MPI_Init is under way, or outside */
	uint32_t pmix;       /* 1: words can go through PMIx */
	uint32_t outside;    /* 1: before MPI_Init or past MPI_Finalize, nothing to exchange: QUIESCE
			      * is answered by QUIESCED alone */
	uint64_t state;      /* address of struct gck_mpi_state (shim/namespace/state.h) */
};

struct gck_link_mpi_quiesce {
	uint32_t limit_ms;   /* for all rounds together */
	uint32_t lease_ms;   /* a rank that hears nothing for so long lets go by itself */
};

struct gck_link_cuda_hello {
	uint32_t version;
	uint32_t restored;   /* 1: out of an image, and not back yet, or lost; RESUMED follows */
	uint32_t wanting;    /* 1: restored, and its device data are in no page of the image: FILL */
	uint32_t unused;
	uint64_t state;      /* address of struct gck_cuda_state (shim/cuda/base/state.h) */
};

#define GCK_LINK_CUDA_DEVICES 32

struct gck_link_cuda_drain {
	uint32_t limit_ms;   /* until DRAINED */
	uint32_t lease_ms;   /* a rank that hears nothing for so long while it is drained resumes */
	uint64_t host_most;  /* bytes of host memory that may be taken; needs it more: ENOMEM */
	uint64_t keep_most[GCK_LINK_CUDA_DEVICES]; /* bytes that may be kept on each device, in the order of
			      * the rank's gck_cuda_state, as far as there is room; where any is not 0
			      * RESUME comes before the image is written */
};

/* A packet of the MPI thread's link or of the CUDA thread's. A message's data may be more than a
 * packet holds: then it comes in several packets, in order and with the same head. */
struct gck_thread_msg {
	uint32_t type, round;
	uint64_t seq;
	uint32_t value;
	uint32_t total;      /* bytes of the message's data */
	uint32_t offset;     /* of this piece */
	uint32_t unused;
	union {              /* cut to its use */
		struct gck_link_mpi_hello hello;
		struct gck_link_mpi_quiesce quiesce;
		struct gck_link_cuda_hello cuda_hello;
		struct gck_link_cuda_drain cuda_drain;
		unsigned char data[GCK_LINK_MPI_PIECE];
	};
};

/* ---- device data ---------------------------------------------------------------------------- */

/* Beside the CUDA thread's link: what a rank's devices have goes between the rank and a process of
 * the agent's over a SEQPACKET socket of their own, and through a ring: a sealed memfd that both
 * have mapped (doc/shim-link.md, "Device data"). Whoever wants bytes says GET, whoever has them
 * puts them at that place of the ring and says READY, in the order of the GETs (and HASHes). */
#define GCK_LINK_DATA_FDS 2               /* RESUME's and FILL's: the socket, then the ring */
#define GCK_LINK_DATA_MOST (4u << 20)     /* bytes of a GET */
#define GCK_LINK_DATA_HASHES (64u << 20)  /* bytes that one HASH is about */
#define GCK_LINK_DATA_WINDOW (256u << 10) /* what a hash is of, at multiples of it */
#define GCK_LINK_DATA_WHY 200

enum gck_link_data_type {
	GCK_LINK_DATA_LIST = 1, /* to a rank that runs; answered by PIECEs and END */
	GCK_LINK_DATA_PIECE,    /* address, size */
	GCK_LINK_DATA_END,      /* value: 0 or an errno value, why: that was all */
	GCK_LINK_DATA_GET,      /* address, size, number: where in the ring, at a page */
	GCK_LINK_DATA_HASH,     /* to a rank that runs: address, size, number as of a GET, for a struct
				 * gck_hash of the bytes (storage/store/store.h) of each window that these
				 * are in, as far as they are */
	GCK_LINK_DATA_READY,    /* address and size as asked; value: 0 or an errno value, why */
	GCK_LINK_DATA_DONE,     /* from who wanted: nothing more is */
};

struct gck_link_data {
	uint32_t type, value;
	uint64_t address, size; /* in pages of 4 KiB */
	uint64_t number;
	char why[GCK_LINK_DATA_WHY]; /* ends with its NUL; the packet may be cut to its use, and is cut
				      * before it where there is nothing to say */
};

/* In the rank's memory (the preload's data), readable and writable from outside by
 * process_vm_readv/writev while the rank is held. Part of every image, so that a restored rank
 * finds it at the same address; the restorer writes the fields marked R. Entries of tids whose rtid
 * is no thread of the process any more are left over and mean nothing. */
#define GCK_SHIM_MAGIC 0x6b636b7075706731ull
#define GCK_SHIM_MAX_TIDS 4096
#define GCK_SHIM_SCRATCH 65536

struct gck_shim_tid {
	int32_t vtid; /* what the program and glibc know; 0: free entry */
	int32_t rtid; /* what the kernel knows */
};

struct gck_shim_altstack {
	uint64_t fs_base; /* the thread; 0: free entry */
	uint64_t sp, size;
	uint32_t flags, unused; /* as given to sigaltstack: SS_DISABLE or SS_AUTODISARM bits */
};

/* Calls of one of the functions of shim/user/gpuckpt.h. Each has its number, from 1 on. */
struct gck_shim_asker {
	uint32_t asked;          /* the last call's; an image has what it was then */
	uint32_t committed;      /* R of gck_checkpoint(): all that were asked; as the next, those of
				  * struct gck_link_told */
	uint32_t failed, code;
	char why[GCK_ASK_WHY];
};

struct gck_shim_state {
	uint64_t magic;
	uint32_t version, size;
	int32_t vpid;              /* the PID that the program knows: that of its first start */
	int32_t rpid;              /* R the kernel's */
	char link[108];            /* R abstract name of the agent's socket, NUL-terminated */
	int32_t helper_tid;        /* R 0 while there is none */
	int64_t tid_offset;        /* from a thread's fs_base to where glibc keeps its TID */
	uint64_t helper_entry;     /* R starts a helper here, with this stack, in a new thread */
	uint64_t helper_stack_top;
	uint64_t scratch;          /* GCK_SHIM_SCRATCH bytes for CALLS' arguments and results */
	int32_t link_fd;           /* R the helper's socket, -1 while there is none */
	uint32_t restarts;         /* R times this rank was restored */
	uint32_t ntids;            /* R entries in use or used; lookups go up to here */
	uint32_t naltstacks;
	uint64_t stdio[3][2];      /* R device and inode of descriptors 0..2 as the first
				    * constructor found them (0, 0: closed): what the task was
				    * given, so that a file that a program puts there comes back */
	struct gck_shim_tid tids[GCK_SHIM_MAX_TIDS]; /* R threads whose two TIDs differ */
	struct gck_shim_altstack altstacks[GCK_SHIM_MAX_TIDS];
	uint32_t overflow;         /* not 0: a table was full, so this rank cannot be carried */
	uint64_t mpi_state;        /* address of struct gck_mpi_state (shim/namespace/state.h) once the
				    * process has loaded MPI; 0 */
	uint64_t cuda_state;       /* address of struct gck_cuda_state (shim/cuda/base/state.h) from the
				    * first cuInit on; 0 */
	uint64_t environ_at;       /* address of libc's `environ` */
	uint64_t environment;      /* R the launcher's variables that the task of this start was given
				    * (common/base/environ_slots.h); 0 at a first start */
	uint64_t environment_size, environment_room; /* R bytes; the list follows after `room` */
	uint64_t environment_list; /* R entries that the list behind them may have */
	struct gck_shim_asker askers[GCK_ASKERS];
	uint32_t ask_word;         /* futex: changes with any of these, and after a restart */
	uint32_t all_restored;     /* R number of the last gck_checkpoint_all() that any rank of the
				    * step was in when the image was taken */
	uint32_t linked;           /* an agent has let this rank go, or taken it back */
	int32_t tracer;            /* PR_SET_PTRACER: who may trace, and its descendants; 0: nobody */
};

#endif
