/* SPDX-License-Identifier: Apache-2.0
 * Three workers get numbers by a System V message queue, add them up in shared memory under a
 * semaphore, and answer by a POSIX message queue. */
#include <errno.h>
#include <mqueue.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WORKERS 3
#define NUMBERS 300

#define MUST(c) \
	do { \
		if (!(c)) { \
			fprintf(stderr, "line %d: %s: %s\n", __LINE__, #c, strerror(errno)); \
			exit(1); \
		} \
	} while (0)

struct shared {
	long sum, done[WORKERS];
};

struct order {
	long type, number;
};

static key_t key;
static int memory, semaphores, orders;
static char name[64];

static int is_slow(void)
{
	return access(getenv("UNTIL"), F_OK);
}

static void pause_ms(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

static void change(int semaphore, int by)
{
	struct sembuf one = {(unsigned short)semaphore, (short)by, SEM_UNDO};

	while (semop(semaphores, &one, 1))
		MUST(errno == EINTR);
}

/* All that a process knows is still the same. */
static void check(void)
{
	struct shmid_ds ds;

	MUST(shmget(key, 0, 0) == memory && semget(key, 0, 0) == semaphores);
	MUST(msgget(key, 0) == orders && !shmctl(memory, IPC_STAT, &ds));
	MUST(ds.shm_segsz == sizeof(struct shared));
}

static void work(struct shared *s, int me)
{
	mqd_t answers = mq_open(name, O_WRONLY);
	struct order o = {.number = 1};

	MUST(answers >= 0);
	change(1, 1); /* its end takes that back */
	while (o.number) {
		if (msgrcv(orders, &o, sizeof o.number, me + 1, 0) < 0) {
			MUST(errno == EINTR);
			continue;
		}
		change(0, -1);
		s->sum += o.number;
		if (is_slow())
			pause_ms(50);
		s->done[me] += o.number > 0;
		change(0, 1);
		check();
		MUST(!mq_send(answers, (char *)&o.number, sizeof o.number, (unsigned)me));
	}
	exit(0);
}

static void make(struct shared **s, mqd_t *answers)
{
	struct mq_attr a = {.mq_maxmsg = 8, .mq_msgsize = sizeof(long)};

	key = ftok(".", 7);
	snprintf(name, sizeof name, "/trees-ipc-%x", (unsigned)key);
	memory = shmget(key, sizeof **s, IPC_CREAT | IPC_EXCL | 0600);
	semaphores = semget(key, 2, IPC_CREAT | IPC_EXCL | 0600);
	orders = msgget(key, IPC_CREAT | IPC_EXCL | 0600);
	*answers = mq_open(name, O_RDONLY | O_CREAT | O_EXCL, 0600, &a);
	MUST(memory >= 0 && semaphores >= 0 && orders >= 0 && *answers >= 0);
	*s = shmat(memory, NULL, 0);
	MUST(*s != (void *)-1);
	change(0, 1);
}

static void order(int worker, long number)
{
	struct order o = {worker + 1, number};

	while (msgsnd(orders, &o, sizeof o.number, 0))
		MUST(errno == EINTR);
}

/* Some orders and answers wait all the time. */
static void exchange(mqd_t answers)
{
	long given = 0, got = 0, sum = 0, number;

	while (got < NUMBERS) {
		FILE *f = fopen("answers", "a");

		while (given < NUMBERS - 1 && given < got + 4 * WORKERS) {
			given++;
			order((int)(given % WORKERS), given);
		}
		if (given == NUMBERS - 1 && !is_slow()) {
			given++;
			order((int)(given % WORKERS), given);
		}
		fprintf(f, "%ld\n", got);
		fclose(f);
		while (given == NUMBERS - 1 && got == given && is_slow())
			pause_ms(50);
		if (got == given)
			continue;
		if (mq_receive(answers, (char *)&number, sizeof number, NULL) < 0) {
			MUST(errno == EINTR);
			continue;
		}
		sum += number;
		got++;
		check();
	}
	MUST(sum == NUMBERS * (NUMBERS + 1) / 2);
}

int main(void)
{
	pid_t workers[WORKERS];
	struct shared *s;
	mqd_t answers;
	FILE *final;
	int status;

	make(&s, &answers);
	for (int i = 0; i < WORKERS; i++) {
		workers[i] = fork();
		MUST(workers[i] >= 0);
		if (!workers[i])
			work(s, i);
	}
	exchange(answers);
	MUST(semctl(semaphores, 1, GETVAL) == WORKERS);
	for (int i = 0; i < WORKERS; i++)
		order(i, 0);
	for (int i = 0; i < WORKERS; i++)
		MUST(waitpid(workers[i], &status, 0) == workers[i] && !status);
	MUST(semctl(semaphores, 1, GETVAL) == 0);
	final = fopen("final", "w");
	fprintf(final, "%ld %ld %ld %ld\n", s->sum, s->done[0], s->done[1], s->done[2]);
	MUST(!fclose(final) && !shmctl(memory, IPC_RMID, NULL) && !mq_unlink(name));
	MUST(!semctl(semaphores, 0, IPC_RMID) && !msgctl(orders, IPC_RMID, NULL));
	return 0;
}
