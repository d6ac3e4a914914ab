/* SPDX-License-Identifier: Apache-2.0
 * System V shared memory, semaphores and message queues. What the process uses is recorded in the
 * state, since the kernel has no list of it; after a restart numbers and keys are translated. */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

#include "shim/ipc_numbers.h"
#include "shim/preload/pid/pid.h"
#include "shim/preload/pid/virtual_ids.h"

#define WAYS 16 /* places that a number may have */

static const struct {
	long get, stat;
} calls[] = {
	[GCK_IPC_MEMORY] = { SYS_shmget, SYS_shmctl },
	[GCK_IPC_SEMAPHORES] = { SYS_semget, SYS_semctl },
	[GCK_IPC_MESSAGES] = { SYS_msgget, SYS_msgctl },
};

static int kind_of(long nr)
{
	switch (nr) {
	case SYS_shmget:
	case SYS_shmat:
	case SYS_shmctl:
		return GCK_IPC_MEMORY;
	case SYS_semget:
	case SYS_semop:
	case SYS_semtimedop:
	case SYS_semctl:
		return GCK_IPC_SEMAPHORES;
	case SYS_msgget:
	case SYS_msgsnd:
	case SYS_msgrcv:
	case SYS_msgctl:
		return GCK_IPC_MESSAGES;
	default:
		return -1;
	}
}

bool gck_is_ipc(long nr)
{
	return kind_of(nr) >= 0;
}

static bool is_get(long nr)
{
	return nr == SYS_shmget || nr == SYS_semget || nr == SYS_msgget;
}

/* The command of a call that looks at an object or changes it; -1: it is another call. */
static long command_of(long nr, long b, long c)
{
	switch (nr) {
	case SYS_semctl:
		return c;
	case SYS_shmctl:
	case SYS_msgctl:
		return b;
	default:
		return -1;
	}
}

/* Those that list the node's objects have no number. */
static bool is_list(int kind, long command)
{
	static const long lists[][3] = {
		[GCK_IPC_MEMORY] = { SHM_INFO, SHM_STAT, SHM_STAT_ANY },
		[GCK_IPC_SEMAPHORES] = { SEM_INFO, SEM_STAT, SEM_STAT_ANY },
		[GCK_IPC_MESSAGES] = { MSG_INFO, MSG_STAT, MSG_STAT_ANY },
	};

	return command == IPC_INFO || command == lists[kind][0] || command == lists[kind][1] ||
	       command == lists[kind][2];
}

/* ---- the record ---------------------------------------------------------------------------- */

static void note(int kind, int32_t vid)
{
	uint64_t word = GCK_SHIM_IPC_USED(kind, vid);
	uint32_t at = ((uint32_t)vid + (uint32_t)kind) * 2654435761u >> 16;

	for (uint32_t i = 0; i < WAYS; i++) {
		uint64_t *place = &gck_state.ipc_used[(at + i) % GCK_SHIM_IPC];
		uint64_t now = __atomic_load_n(place, __ATOMIC_RELAXED);

		if (now == word ||
		    (!now && __atomic_compare_exchange_n(place, &now, word, false,
							 __ATOMIC_RELAXED, __ATOMIC_RELAXED)))
			return;
	}
}

/* A removed object needs its place no more. */
static void forget(int kind, int32_t vid)
{
	uint64_t word = GCK_SHIM_IPC_USED(kind, vid);

	for (uint32_t i = 0; i < GCK_SHIM_IPC; i++)
		if (gck_state.ipc_used[i] == word)
			__atomic_store_n(&gck_state.ipc_used[i], 0, __ATOMIC_RELAXED);
}

/* ---- translation --------------------------------------------------------------------------- */

union status {
	struct shmid_ds memory;
	struct semid_ds semaphores;
	struct msqid_ds messages;
	char space[512];
};

static long read_status(int kind, int32_t id, union status *s)
{
	return kind == GCK_IPC_SEMAPHORES ? gck_raw(SYS_semctl, id, 0, IPC_STAT, s)
					  : gck_raw(calls[kind].stat, id, IPC_STAT, s);
}

/* The rank's object of this key, which is another's on this node; NULL: it has none now. */
static const struct gck_shim_ipc *by_key(int kind, int32_t key, union status *s)
{
	for (uint32_t i = 0; key && i < gck_state.nipc; i++) {
		const struct gck_shim_ipc *x = &gck_state.ipc[i];

		if (x->kind == kind && x->key == key && !read_status(kind, x->id, s))
			return x;
	}
	return NULL;
}

/* size: of a segment or of a set of semaphores. */
static long get(uint32_t start, long nr, int kind, long key, long size, long flags)
{
	long wanted = kind == GCK_IPC_MESSAGES ? size : flags, r;
	union status s;
	const struct gck_shim_ipc *x = by_key(kind, (int32_t)key, &s);

	if (x && (wanted & (IPC_CREAT | IPC_EXCL)) == (IPC_CREAT | IPC_EXCL))
		return -EEXIST;
	if (x && ((kind == GCK_IPC_MEMORY && (size_t)size > s.memory.shm_segsz) ||
		  (kind == GCK_IPC_SEMAPHORES && (unsigned long)size > s.semaphores.sem_nsems)))
		return -EINVAL;
	if (x)
		return x->vid;
	r = gck_call_in(start, nr, key, size, flags);
	/* if a restart has come since, it has the number that it had */
	if (r >= 0 && gck_start() == start)
		r = gck_ipc_to_program(&gck_state, kind, (int32_t)r);
	return r;
}

/* What IPC_STAT has told, for the program. */
static void convert(int kind, const struct gck_shim_ipc *x, void *status)
{
	struct shmid_ds *memory = status;
	struct msqid_ds *messages = status;
	struct semid_ds *semaphores = status;

	if (kind == GCK_IPC_MEMORY) {
		memory->shm_cpid = gck_id_to_program(memory->shm_cpid);
		memory->shm_lpid = gck_id_to_program(memory->shm_lpid);
	} else if (kind == GCK_IPC_MESSAGES) {
		messages->msg_lspid = gck_id_to_program(messages->msg_lspid);
		messages->msg_lrpid = gck_id_to_program(messages->msg_lrpid);
	}
	if (x && x->key)
		(kind == GCK_IPC_MEMORY ? &memory->shm_perm :
		 kind == GCK_IPC_MESSAGES ? &messages->msg_perm : &semaphores->sem_perm)->__key =
			x->key;
}

static long translated(uint32_t start, long nr, long a, long b, long c, long d, long e)
{
	int kind = kind_of(nr);
	long command = command_of(nr, b, c), r;

	if (is_get(nr))
		return get(start, nr, kind, a, b, c);
	if (is_list(kind, command))
		return gck_raw_in(start, nr, a, b, c, d, e, 0);
	r = gck_raw_in(start, nr, gck_ipc_to_kernel(&gck_state, kind, (int32_t)a), b, c, d, e, 0);
	if (r >= 0 && command == IPC_STAT)
		convert(kind, gck_ipc_find(&gck_state, kind, true, (int32_t)a),
			(void *)(kind == GCK_IPC_SEMAPHORES ? d : c));
	else if (r >= 0 && nr == SYS_semctl && command == GETPID)
		r = gck_id_to_program((int32_t)r);
	else
		return r;
	return gck_start() == start ? r : GCK_STALE;
}

static long call(long nr, long a, long b, long c, long d, long e)
{
	long r = GCK_STALE;

	if (gck_is_original())
		r = gck_raw_in(0, nr, a, b, c, d, e, 0);
	while (r == GCK_STALE)
		r = translated(gck_start(), nr, a, b, c, d, e);
	return r;
}

long gck_ipc_call(long nr, long a, long b, long c, long d, long e)
{
	int kind = kind_of(nr);
	long r = call(nr, a, b, c, d, e), command = command_of(nr, b, c);

	if ((unsigned long)r >= -4095ul || is_list(kind, command))
		return r;
	if (command == IPC_RMID && kind != GCK_IPC_MEMORY)
		forget(kind, (int32_t)a);
	else
		note(kind, (int32_t)(is_get(nr) ? r : a));
	return r;
}

/* ---- libc's functions ---------------------------------------------------------------------- */

GCK_EXPORT int shmget(key_t key, size_t size, int flags)
{
	return gck_result(gck_ipc_call(SYS_shmget, key, size, flags, 0, 0));
}

GCK_EXPORT void *shmat(int id, const void *address, int flags)
{
	return (void *)gck_result(gck_ipc_call(SYS_shmat, id, (long)address, flags, 0, 0));
}

GCK_EXPORT int shmctl(int id, int command, struct shmid_ds *status)
{
	return gck_result(gck_ipc_call(SYS_shmctl, id, command, (long)status, 0, 0));
}

GCK_EXPORT int semget(key_t key, int n, int flags)
{
	return gck_result(gck_ipc_call(SYS_semget, key, n, flags, 0, 0));
}

GCK_EXPORT int semop(int id, struct sembuf *v, size_t n)
{
	return gck_result(gck_ipc_call(SYS_semop, id, (long)v, n, 0, 0));
}

GCK_EXPORT int semtimedop(int id, struct sembuf *v, size_t n, const struct timespec *timeout)
{
	return gck_result(gck_ipc_call(SYS_semtimedop, id, (long)v, n, (long)timeout, 0));
}

/* Under another name in C: the prototype is variadic. The fourth argument is a union of the size of
 * a pointer. */
int gck_semctl(int id, int n, int command, long arg) __asm__("semctl");
GCK_EXPORT int gck_semctl(int id, int n, int command, long arg)
{
	return gck_result(gck_ipc_call(SYS_semctl, id, n, command, arg, 0));
}

GCK_EXPORT int msgget(key_t key, int flags)
{
	return gck_result(gck_ipc_call(SYS_msgget, key, flags, 0, 0, 0));
}

GCK_EXPORT int msgctl(int id, int command, struct msqid_ds *status)
{
	return gck_result(gck_ipc_call(SYS_msgctl, id, command, (long)status, 0, 0));
}

/* A cancellation point, as libc's. */
static long cancelled(long nr, long a, long b, long c, long d, long e)
{
	int before;
	long r;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
	r = gck_ipc_call(nr, a, b, c, d, e);
	pthread_setcanceltype(before, NULL);
	return gck_result(r);
}

GCK_EXPORT int msgsnd(int id, const void *message, size_t n, int flags)
{
	return cancelled(SYS_msgsnd, id, (long)message, n, flags, 0);
}

GCK_EXPORT ssize_t msgrcv(int id, void *message, size_t n, long type, int flags)
{
	return cancelled(SYS_msgrcv, id, (long)message, n, type, flags);
}
