/* SPDX-License-Identifier: Apache-2.0
 * Two ranks that count in turns in POSIX shared memory, with a mutex and a condition variable of
 * their processes; without MPI. Each compares what it finds there with what it has itself. At the
 * end each prints the number that both have made.
 *   pair NAME STEPS PAUSE_US UNTIL   NAME: of shm_open; there is no pause any more once the file
 *                                    UNTIL exists. The rank is SLURM_PROCID's. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct shared {
	atomic_int ready;
	pthread_mutex_t lock;
	pthread_cond_t turned;
	int turn;
	long counts[2];
	unsigned long number;
};

static struct shared *map(int fd)
{
	struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (s == MAP_FAILED)
		exit(2);
	close(fd);
	return s;
}

static struct shared *make(const char *name)
{
	int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	pthread_mutexattr_t of_lock;
	pthread_condattr_t of_turned;
	struct shared *s;

	if (fd < 0 || ftruncate(fd, sizeof *s))
		exit(2);
	s = map(fd);
	pthread_mutexattr_init(&of_lock);
	pthread_mutexattr_setpshared(&of_lock, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&s->lock, &of_lock);
	pthread_condattr_init(&of_turned);
	pthread_condattr_setpshared(&of_turned, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&s->turned, &of_turned);
	atomic_store(&s->ready, 1);
	return s;
}

static struct shared *find(const char *name)
{
	struct shared *s;
	off_t size = 0;
	int fd = -1;

	while (size < (off_t)sizeof *s) {
		usleep(1000);
		if (fd < 0)
			fd = shm_open(name, O_RDWR, 0);
		size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
	}
	s = map(fd);
	while (!atomic_load(&s->ready))
		usleep(1000);
	return s;
}

static void step(struct shared *s, int me, long n)
{
	pthread_mutex_lock(&s->lock);
	while (s->turn != me)
		pthread_cond_wait(&s->turned, &s->lock);
	if (s->counts[me] != n - 1 || s->counts[!me] != n - !me) {
		printf("rank %d: at step %ld the counts are %ld and %ld\n", me, n, s->counts[0],
		       s->counts[1]);
		exit(1);
	}
	s->counts[me] = n;
	s->number = s->number * 6364136223846793005ul + (unsigned long)(n + me);
	s->turn = !me;
	pthread_cond_broadcast(&s->turned);
	pthread_mutex_unlock(&s->lock);
}

int main(int argc, char **argv)
{
	const char *rank = getenv("SLURM_PROCID");
	int me = rank ? atoi(rank) : 0, enough = 0;
	struct shared *s;

	if (argc != 5 || me > 1)
		return 2;
	s = me ? find(argv[1]) : make(argv[1]);
	for (long n = 1; n <= atol(argv[2]); n++) {
		step(s, me, n);
		enough = enough || access(argv[4], F_OK) == 0;
		if (!enough)
			usleep((useconds_t)atol(argv[3]));
	}
	while (s->counts[!me] != atol(argv[2]))
		usleep(1000);
	printf("rank %d: %lx\n", me, s->number);
	return 0;
}
