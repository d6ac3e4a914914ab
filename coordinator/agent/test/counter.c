/* SPDX-License-Identifier: Apache-2.0
 * A rank for the tests. Two threads count, and one writes a line "rank count other" now and then.
 * It counts on after a restart if memory, registers, threads and the file's offset are restored.
 * counter FILE RANK [LIMIT]: at the limit it exits with status 3. COUNTER_KEEPS=PATH: it keeps
 * that file open for writing; +PATH: for appending; 2PATH: as its standard error.
 * COUNTER_SHARES=PATH: ranks 0 and 1 count in memory that they share, none more than LEAD ahead,
 * and exit with status 4 if a count there is not their own; +PATH: they keep it open; -PATH: they
 * remove its name; =PATH: rank 1 only reads. #KEY: it is System V memory; they count in semaphores,
 * too, which their ends undo, and tell each other by messages; at the limit these are removed. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <unistd.h>

#define LEAD 5
#define SHARED_SIZE ((size_t)9 << 20)
#define APART (((size_t)6 << 20) / sizeof(atomic_ulong)) /* of the ranks' counts there */

static volatile unsigned long other;

static void *count(void *arg)
{
	(void)arg;
	for (;;) {
		other++;
		usleep(1000);
	}
	return NULL;
}

static void keep_open(const char *keeps)
{
	int how = keeps && *keeps == '+' ? O_APPEND : 0;
	bool in_place = keeps && *keeps == '2';

	if (in_place)
		close(2);
	if (keeps && open(keeps + (how || in_place), O_RDWR | O_CREAT | how, 0644) < 0)
		exit(2);
}

static struct {
	key_t key;
	int memory, semaphores, messages;
} by_key;

static bool has_key(void)
{
	return shmget(by_key.key, SHARED_SIZE, 0) == by_key.memory &&
	       semget(by_key.key, 2, 0) == by_key.semaphores &&
	       msgget(by_key.key, 0) == by_key.messages;
}

static atomic_ulong *attach(const char *key)
{
	atomic_ulong *p;

	by_key.key = (key_t)strtoul(key, NULL, 16);
	by_key.memory = shmget(by_key.key, SHARED_SIZE, IPC_CREAT | 0600);
	by_key.semaphores = semget(by_key.key, 2, IPC_CREAT | 0600);
	by_key.messages = msgget(by_key.key, IPC_CREAT | 0600);
	p = shmat(by_key.memory, NULL, 0);
	if (p == (void *)-1 || !has_key())
		exit(2);
	return p;
}

static void remove_objects(void)
{
	if (shmctl(by_key.memory, IPC_RMID, NULL) || semctl(by_key.semaphores, 0, IPC_RMID) ||
	    msgctl(by_key.messages, IPC_RMID, NULL))
		exit(7);
}

/* One's own semaphore has the number of its counts, and a message of each is LEAD behind. */
static void count_by_key(int rank, unsigned long n)
{
	struct sembuf up = { (unsigned short)rank, 1, SEM_UNDO };
	struct { long type; unsigned long n; } m = { rank + 1, n };

	if (semctl(by_key.semaphores, rank, GETVAL) != (int)n - 1 || !has_key() ||
	    semop(by_key.semaphores, &up, 1))
		exit(4);
	while (msgsnd(by_key.messages, &m, sizeof m.n, 0))
		if (errno != EINTR)
			exit(5);
	while (n > LEAD && msgrcv(by_key.messages, &m, sizeof m.n, !rank + 1, 0) < 0)
		if (errno != EINTR)
			exit(5);
	if (n > LEAD && m.n != n - LEAD)
		exit(6);
}

/* Waits until somebody has made it. */
static int open_to_read(const char *path)
{
	int fd;

	while ((fd = open(path, O_RDONLY)) < 0 || lseek(fd, 0, SEEK_END) < (off_t)SHARED_SIZE) {
		close(fd);
		usleep(1000);
	}
	return fd;
}

static atomic_ulong *map_shared(const char *how, int rank)
{
	const char *path = how + (*how != '/');
	bool reads = *how == '=' && rank;
	int fd = *how == '#' ? -1 : reads ? open_to_read(path) : open(path, O_RDWR | O_CREAT, 0600);
	atomic_ulong *p = *how == '#' ? attach(path) : MAP_FAILED;

	if (fd >= 0 && (reads || !ftruncate(fd, SHARED_SIZE)))
		p = mmap(NULL, SHARED_SIZE, reads ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED,
			 fd, 0);
	if (p == MAP_FAILED)
		exit(2);
	if (*how != '+')
		close(fd);
	if (!reads)
		atomic_store(p + (size_t)rank * APART + 1, 1);
	while (*how != '=' && !atomic_load(p + (size_t)!rank * APART + 1))
		usleep(1000);
	if (*how == '-')
		unlink(path);
	return p;
}

/* The n-th count. One that only reads waits for each of the other's, which does not wait. */
static void count_shared(atomic_ulong *shared, char how, int rank, unsigned long n)
{
	atomic_ulong *own = shared + (size_t)rank * APART;
	atomic_ulong *others = shared + (size_t)!rank * APART;
	static unsigned long seen;

	if (how == '=' && rank) {
		while (atomic_load(others) == seen)
			usleep(1000);
		seen = atomic_load(others);
		return;
	}
	if (atomic_load(own) != n - 1)
		exit(4);
	while (how != '=' && n > atomic_load(others) + LEAD)
		usleep(1000);
	atomic_store(own, n);
	if (how == '#')
		count_by_key(rank, n);
}

int main(int argc, char **argv)
{
	unsigned long n = 0, limit = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;
	unsigned char *memory = malloc(8 << 20);
	const char *how = getenv("COUNTER_SHARES");
	atomic_ulong *shared = NULL;
	pthread_t thread;
	int fd;

	if (argc < 3 || !memory)
		return 2;
	fd = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0644);
	if (fd < 0 || pthread_create(&thread, NULL, count, NULL))
		return 2;
	keep_open(getenv("COUNTER_KEEPS"));
	if (how)
		shared = map_shared(how, atoi(argv[2]));
	while (!limit || n < limit) {
		n++;
		if (shared)
			count_shared(shared, *how, atoi(argv[2]), n);
		memory[n * 4096 % (1 << 17)] = (unsigned char)n;
		if (n % 5 == 0)
			dprintf(fd, "%s %lu %lu\n", argv[2], n, other);
		usleep(2000);
	}
	if (shared && *how == '#')
		remove_objects();
	return 3;
}
