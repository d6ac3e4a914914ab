/* SPDX-License-Identifier: Apache-2.0
 * Two ranks that count in turns in System V shared memory, of which one part has a key and the
 * other was removed, by semaphores; each sends the other its numbers by a message queue. Each
 * compares what it finds there with what it has itself. At the end each prints the number that both
 * have made.
 *   sysv KEY STEPS PAUSE_US UNTIL   KEY: hexadecimal; there is no pause any more once the file
 *                                   UNTIL exists. The rank is SLURM_PROCID's. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <unistd.h>

#define LARGE ((size_t)10 << 20) /* each rank's image gets a part */
#define WORDS (LARGE / sizeof(unsigned long))
#define BEHIND 3                 /* messages that wait of each rank */
#define PRESENT 2                /* the semaphore that counts ranks, whose ends undo that */

struct shared {
	int large;
	long counts[2];
	unsigned long number;
};

struct message {
	long type;
	unsigned long number;
};

static int memory, semaphores, messages;
static key_t key;

#define MUST(c) \
	do { \
		if (!(c)) { \
			printf("line %d: %s: %d\n", __LINE__, #c, errno); \
			exit(1); \
		} \
	} while (0)

static void change(int semaphore, int by, int flags)
{
	struct sembuf one = {(unsigned short)semaphore, (short)by, (short)flags};

	while (semop(semaphores, &one, 1))
		MUST(errno == EINTR);
}

static int value(int semaphore)
{
	return semctl(semaphores, semaphore, GETVAL);
}

static void make(void)
{
	struct shared *s;

	memory = shmget(key, sizeof *s, IPC_CREAT | IPC_EXCL | 0600);
	messages = msgget(key, IPC_CREAT | IPC_EXCL | 0600);
	s = shmat(memory, NULL, 0);
	MUST(memory >= 0 && messages >= 0 && s != (void *)-1);
	s->large = shmget(IPC_PRIVATE, LARGE, 0600);
	MUST(s->large >= 0 && !shmdt(s));
	semaphores = semget(key, 3, IPC_CREAT | IPC_EXCL | 0600);
	MUST(semaphores >= 0);
	change(0, 1, 0);
}

static void find(void)
{
	while ((semaphores = semget(key, 0, 0)) < 0 || !value(PRESENT))
		usleep(1000);
	memory = shmget(key, 0, 0);
	messages = msgget(key, 0);
	MUST(memory >= 0 && messages >= 0);
}

/* Numbers and keys are what they were. */
static void check(void)
{
	MUST(shmget(key, sizeof(struct shared), 0) == memory && msgget(key, 0) == messages);
	MUST(semget(key, 3, 0) == semaphores && value(PRESENT) == 2);
}

/* A message of the other comes some steps later. */
static void tell(int me, long n, unsigned long number)
{
	struct message m = {me + 1, number + (unsigned long)n};

	while (msgsnd(messages, &m, sizeof m.number, 0))
		MUST(errno == EINTR);
}

static void hear(int me, long n, const unsigned long *sent)
{
	struct message m;

	if (n <= BEHIND)
		return;
	while (msgrcv(messages, &m, sizeof m.number, !me + 1, 0) < 0)
		MUST(errno == EINTR);
	MUST(m.number == sent[(n - BEHIND) % (BEHIND + 1)] + (unsigned long)(n - BEHIND));
}

/* What the other made of the number, the rank can tell by itself. */
static unsigned long next(unsigned long number, long n, int who)
{
	return number * 6364136223846793005ul + (unsigned long)(n + who);
}

static void step(struct shared *s, unsigned long *large, int me, long n)
{
	static unsigned long sent[BEHIND + 1];
	unsigned long before;

	change(me, -1, 0);
	MUST(s->counts[me] == n - 1 && s->counts[!me] == n - !me);
	before = s->number;
	s->number = next(before, n, me);
	sent[n % (BEHIND + 1)] = me ? before : next(s->number, n, 1);
	large[(size_t)(2 * n + me) * 4099 % WORDS] += s->number;
	s->counts[me] = n;
	tell(me, n, s->number);
	change(!me, 1, 0);
	hear(me, n, sent);
	check();
}

int main(int argc, char **argv)
{
	const char *rank = getenv("SLURM_PROCID");
	int me = rank ? atoi(rank) : 0, enough = 0;
	unsigned long *large, sum = 0;
	struct shared *s;

	if (argc != 5 || me > 1)
		return 2;
	key = (key_t)strtoul(argv[1], NULL, 16);
	if (me)
		find();
	else
		make();
	s = shmat(memory, NULL, 0);
	MUST(s != (void *)-1);
	large = shmat(s->large, NULL, 0);
	MUST(large != (void *)-1);
	change(PRESENT, 1, SEM_UNDO);
	while (value(PRESENT) < 2)
		usleep(1000);
	MUST(me || !shmctl(s->large, IPC_RMID, NULL)); /* it stays as long as it is attached */
	for (long n = 1; n <= atol(argv[2]); n++) {
		step(s, large, me, n);
		enough = enough || access(argv[4], F_OK) == 0;
		if (!enough)
			usleep((useconds_t)atol(argv[3]));
	}
	change(1, me ? -1 : 1, 0); /* neither leaves before the other's last check */
	while (!me && value(PRESENT) == 2)
		usleep(1000);
	for (size_t i = 0; i < WORDS; i++)
		sum = sum * 31 + large[i];
	printf("rank %d: %lx %lx\n", me, s->number, sum);
	MUST(me || (!shmctl(memory, IPC_RMID, NULL) && !semctl(semaphores, 0, IPC_RMID) &&
		    !msgctl(messages, IPC_RMID, NULL)));
	return 0;
}
