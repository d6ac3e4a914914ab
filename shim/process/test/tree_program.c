/* SPDX-License-Identifier: Apache-2.0
 * A random tree of processes: `tree_program SEED MESSAGES DIRECTORY`. All is drawn from the seed:
 * how many processes there are, how each was made, and which channels are between them. A channel
 * carries numbered messages, whose every byte is checked. Meanwhile the processes make children,
 * threads, areas, files and signals. At the end the first prints a sum of all that was received. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim/process/test/tree_ring.h"
#include "test/support/rings.h"

#define CHECK(c) \
	do { \
		if (!(c)) { \
			printf("process %d broken at line %d: %s (%s)\n", me, __LINE__, #c, \
			       strerror(errno)); \
			fflush(stdout); \
			_exit(3); \
		} \
	} while (0)

#define MAX_PROCESSES 7
#define MAX_CHANNELS 12
#define LONGEST 2000      /* bytes of a message */
#define FIRST_FD 100      /* of the channels: two each, at the same numbers in all processes */
#define FIRST_LIFE 200    /* pipes that end with a daemon */

extern char **environ;

enum made { FORK, EXEC, SPAWN, DAEMON, WAYS };
enum kind {
	PIPE, PACKETS, STREAM, SEQPACKET, DATAGRAM, RING_MUTEX, RING_SEM, LOG, COUNTER,
	FIFO, NAMED_STREAM, NAMED_SEQPACKET, NAMED_DATAGRAM, GIFT, QUEUE, MESSAGES, SEGMENT,
	URING, KINDS
};

struct process {
	enum made made;
	int parent;
	pid_t pid;
};

struct channel {
	enum kind kind;
	int from, to;
	bool named_memory;  /* a memory file, which an executed program maps again */
	uint64_t sent, received;
	bool ended;
	struct ring *ring;
	int messages, semaphores; /* of System V */
	char out[LONGEST + 64], in[LONGEST + 64];
	size_t out_size, out_done, in_size;
};

/* One of a System V queue. */
struct letter {
	long type;
	char bytes[LONGEST + 64];
};

struct message {
	uint64_t number, sum;
	uint32_t size, last;
};

/* One message at a time, guarded by a mutex with its condition, or by two semaphores. */
struct ring {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	sem_t empty, full;
	size_t size;
	char bytes[LONGEST + 64];
};

static uint64_t seed, messages, total;
static const char *directory, *program_path;
static int me, nprocesses, nchannels;
static struct process processes[MAX_PROCESSES];
static struct channel channels[MAX_CHANNELS];
static uint64_t own_random;
static volatile sig_atomic_t alarms, queued;

/* ---- the plan ------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static uint64_t draw(uint64_t *state, uint64_t below)
{
	*state += 0x9e3779b97f4a7c15ull;
	return mix(*state) % below;
}

/* Whether an executed program is between the first process and this one, or is it. */
static bool is_executed(int p)
{
	for (; p > 0; p = processes[p].parent)
		if (processes[p].made == EXEC || processes[p].made == SPAWN)
			return true;
	return false;
}

static void make_plan(void)
{
	uint64_t r = seed;

	nprocesses = 2 + (int)draw(&r, MAX_PROCESSES - 1);
	nchannels = 1 + (int)draw(&r, MAX_CHANNELS);
	for (int i = 1; i < nprocesses; i++) {
		processes[i].parent = (int)draw(&r, (uint64_t)i);
		processes[i].made = (enum made)draw(&r, WAYS);
	}
	for (int i = 0; i < nchannels; i++) {
		struct channel *c = &channels[i];

		c->kind = (enum kind)draw(&r, KINDS);
		c->from = (int)draw(&r, (uint64_t)nprocesses);
		c->to = (c->from + 1 + (int)draw(&r, (uint64_t)nprocesses - 1)) % nprocesses;
		c->named_memory = draw(&r, 2) || is_executed(c->from) || is_executed(c->to);
	}
}

static uint64_t content(int i, uint64_t number)
{
	return mix(seed ^ mix((uint64_t)i << 32 | number));
}

/* ---- making channels ----------------------------------------------------------------------- */

static int end_of(int i, bool writes)
{
	return FIRST_FD + 2 * i + writes;
}

static void place(int from, int to)
{
	CHECK(from >= 0 && dup2(from, to) == to && !close(from));
}

static void map_ring(struct channel *c, int i)
{
	int flags = c->named_memory ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS;

	c->ring = mmap(NULL, sizeof *c->ring, PROT_READ | PROT_WRITE, flags,
		       c->named_memory ? end_of(i, false) : -1, 0);
	CHECK(c->ring != MAP_FAILED);
}

static void make_ring(struct channel *c, int i)
{
	pthread_mutexattr_t mutex;
	pthread_condattr_t cond;

	if (c->named_memory) {
		place(memfd_create("ring", 0), end_of(i, false));
		CHECK(!ftruncate(end_of(i, false), sizeof *c->ring));
	}
	map_ring(c, i);
	CHECK(!pthread_mutexattr_init(&mutex) && !pthread_condattr_init(&cond));
	CHECK(!pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED));
	CHECK(!pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED));
	CHECK(!pthread_mutex_init(&c->ring->mutex, &mutex));
	CHECK(!pthread_cond_init(&c->ring->changed, &cond));
	CHECK(!sem_init(&c->ring->empty, 1, 1) && !sem_init(&c->ring->full, 1, 0));
}

static void make_log(int i)
{
	char path[300];
	int fd;

	snprintf(path, sizeof path, "%s/log-%d", directory, i);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
	place(fd, end_of(i, true));
	place(open(path, O_RDWR), end_of(i, false));
}

/* A socketpair for descriptors, of which few have place in it. */
static void make_gift(int i, int ends[2])
{
	static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM};
	int size = 4096;

	CHECK(!socketpair(AF_UNIX, types[content(i, 0) % 3] | SOCK_NONBLOCK, 0, ends));
	CHECK(!setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof size));
}

static void make_pair(struct channel *c, int i)
{
	static const int types[] = {[STREAM] = SOCK_STREAM, [SEQPACKET] = SOCK_SEQPACKET,
				    [DATAGRAM] = SOCK_DGRAM};
	int ends[2];

	if (c->kind == GIFT)
		make_gift(i, ends);
	else if (c->kind == PIPE || c->kind == PACKETS || c->kind == URING)
		CHECK(!pipe2(ends, O_NONBLOCK | (c->kind == PACKETS ? O_DIRECT : 0)));
	else
		CHECK(!socketpair(AF_UNIX, types[c->kind] | SOCK_NONBLOCK, 0, ends));
	place(ends[0], end_of(i, false));
	place(ends[1], end_of(i, true));
}

/* Of a named pipe or socket. */
static void name_of(int i, char *path, size_t size)
{
	snprintf(path, size, "%s/name-%d", directory, i);
	CHECK(!unlink(path) || errno == ENOENT);
}

static void make_fifo(int i)
{
	char path[300];

	name_of(i, path, sizeof path);
	CHECK(!mkfifo(path, 0600));
	place(open(path, O_RDONLY | O_NONBLOCK), end_of(i, false));
	place(open(path, O_WRONLY | O_NONBLOCK), end_of(i, true));
	if (content(i, 0) % 2)
		CHECK(!unlink(path));
}

/* A socket with a name, of a file or abstract; and the address. */
static int make_bound(int i, int type, struct sockaddr_un *a, socklen_t *n)
{
	bool abstract = content(i, 0) % 2;
	char path[sizeof a->sun_path - 1];
	int fd = socket(AF_UNIX, type, 0);

	name_of(i, path, sizeof path);
	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	strcpy(a->sun_path + abstract, path);
	*n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + abstract + strlen(path));
	CHECK(fd >= 0 && !bind(fd, (const struct sockaddr *)a, *n));
	return fd;
}

/* One end listens under the name for a moment; a datagram socket keeps it. */
static void make_named(struct channel *c, int i)
{
	static const int types[] = {[NAMED_STREAM] = SOCK_STREAM,
				    [NAMED_SEQPACKET] = SOCK_SEQPACKET,
				    [NAMED_DATAGRAM] = SOCK_DGRAM};
	int type = types[c->kind] | SOCK_NONBLOCK;
	struct sockaddr_un a;
	socklen_t n;
	int bound = make_bound(i, type, &a, &n), from = socket(AF_UNIX, type, 0);

	CHECK(c->kind == NAMED_DATAGRAM || !listen(bound, 1));
	CHECK(!connect(from, (const struct sockaddr *)&a, n));
	place(from, end_of(i, true));
	place(c->kind == NAMED_DATAGRAM ? bound : accept4(bound, NULL, NULL, SOCK_NONBLOCK),
	      end_of(i, false));
	if (c->kind != NAMED_DATAGRAM)
		CHECK(!close(bound));
}

/* Two open files of a queue, whose name is there or not. */
static void make_queue(int i)
{
	struct mq_attr a = {.mq_maxmsg = 1 + (long)(content(i, 1) % 4),
			    .mq_msgsize = LONGEST + 64};
	char name[300];

	snprintf(name, sizeof name, "/%s-%d", strrchr(directory, '/') + 1, i);
	CHECK(mq_unlink(name) == 0 || errno == ENOENT);
	place(mq_open(name, O_RDONLY | O_CREAT | O_EXCL | O_NONBLOCK, 0600, &a), end_of(i, false));
	place(mq_open(name, O_WRONLY | O_NONBLOCK), end_of(i, true));
	if (content(i, 0) % 2)
		CHECK(!mq_unlink(name));
}

/* The number of a System V object, made or found by its key. i: of a channel, or MAX_CHANNELS. */
static key_t key_of(int i)
{
	key_t key = ftok(directory, 1 + i);

	CHECK(key != -1);
	return key;
}

static void find_segment(struct channel *c, int i, int flags)
{
	int id = shmget(key_of(i), sizeof *c->ring, flags);

	c->semaphores = semget(key_of(i), 2, flags);
	CHECK(id >= 0 && c->semaphores >= 0);
	c->ring = shmat(id, NULL, 0);
	CHECK(c->ring != (void *)-1);
	if (content(i, 0) % 2 && !flags)
		CHECK(shmat(id, NULL, SHM_RDONLY) != (void *)-1);
}

static void find_channel(struct channel *c, int i, int flags)
{
	if (c->kind == SEGMENT)
		find_segment(c, i, flags);
	if (c->kind == MESSAGES)
		CHECK((c->messages = msgget(key_of(i), flags)) >= 0);
}

static void make_segment(struct channel *c, int i)
{
	unsigned short values[2] = {1, 0};

	find_segment(c, i, IPC_CREAT | IPC_EXCL | 0600);
	CHECK(!semctl(c->semaphores, 0, SETALL, values));
}

/* What would stay when all processes have ended. */
static void remove_objects(void)
{
	char name[300];

	for (int i = 0; i < nchannels; i++) {
		const struct channel *c = &channels[i];

		snprintf(name, sizeof name, "/%s-%d", strrchr(directory, '/') + 1, i);
		CHECK(mq_unlink(name) == 0 || errno == ENOENT);
		CHECK(c->kind != MESSAGES || !msgctl(c->messages, IPC_RMID, NULL));
		CHECK(c->kind != SEGMENT ||
		      (!semctl(c->semaphores, 0, IPC_RMID) &&
		       !shmctl(shmget(key_of(i), 0, 0), IPC_RMID, NULL)));
	}
}

static void make_channels(void)
{
	for (int i = 0; i < nchannels; i++)
		switch (channels[i].kind) {
		case RING_MUTEX:
		case RING_SEM:
			make_ring(&channels[i], i);
			break;
		case LOG:
			make_log(i);
			break;
		case COUNTER:
			place(eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK), end_of(i, false));
			CHECK(dup2(end_of(i, false), end_of(i, true)) >= 0);
			break;
		case FIFO:
			make_fifo(i);
			break;
		case NAMED_STREAM:
		case NAMED_SEQPACKET:
		case NAMED_DATAGRAM:
			make_named(&channels[i], i);
			break;
		case QUEUE:
			make_queue(i);
			break;
		case MESSAGES:
			find_channel(&channels[i], i, IPC_CREAT | IPC_EXCL | 0600);
			break;
		case SEGMENT:
			make_segment(&channels[i], i);
			break;
		default:
			make_pair(&channels[i], i);
		}
}

/* ---- messages ------------------------------------------------------------------------------ */

static void fill(int i, struct channel *c)
{
	uint64_t r = content(i, c->sent);
	struct message m = {.number = c->sent, .size = (uint32_t)(r % LONGEST),
			    .last = c->sent + 1 == messages};

	m.sum = mix(r ^ m.size);
	memcpy(c->out, &m, sizeof m);
	for (uint32_t k = 0; k < m.size; k++)
		c->out[sizeof m + k] = (char)(r >> k % 57);
	c->out_size = sizeof m + m.size;
	c->out_done = 0;
}

/* Check what has come, if it is a whole message. Returns whether it was. */
static bool take(int i, struct channel *c)
{
	uint64_t r = content(i, c->received);
	struct message m;

	if (c->in_size < sizeof m)
		return false;
	memcpy(&m, c->in, sizeof m);
	CHECK(m.number == c->received && m.size == r % LONGEST && m.sum == mix(r ^ m.size));
	if (c->in_size < sizeof m + m.size)
		return false;
	for (uint32_t k = 0; k < m.size; k++)
		CHECK(c->in[sizeof m + k] == (char)(r >> k % 57));
	c->in_size -= sizeof m + m.size;
	CHECK(c->in_size == 0);
	c->received++;
	total += r; /* channels come in any order */
	c->ended = m.last;
	return true;
}

/* How much of the message that comes is still missing. */
static size_t missing(const struct channel *c)
{
	struct message m;

	if (c->in_size < sizeof m)
		return sizeof m - c->in_size;
	memcpy(&m, c->in, sizeof m);
	return sizeof m + m.size - c->in_size;
}

static bool would_block(void)
{
	return errno == EAGAIN || errno == EINTR || errno == ENOBUFS;
}

/* By an io_uring, or by read(2) or write(2). An io_uring would wait for a pipe that is not
 * ready. */
static ssize_t transfer(int i, const struct channel *c, void *data, size_t n, bool writes)
{
	struct pollfd ready = {.fd = end_of(i, writes), .events = writes ? POLLOUT : POLLIN};
	static int rings = -1;

	if (c->kind == URING && rings < 0)
		rings = can_carry_rings();
	if (c->kind == URING && rings && poll(&ready, 1, 0) == 1)
		return tree_ring_transfer(end_of(i, writes), data, n, writes,
					  (long)draw(&own_random, 300));
	return writes ? write(end_of(i, true), data, n) : read(end_of(i, false), data, n);
}

static bool send_bytes(int i, struct channel *c)
{
	ssize_t n = transfer(i, c, c->out + c->out_done, c->out_size - c->out_done, true);

	CHECK(n > 0 || (n < 0 && would_block()));
	if (n > 0)
		c->out_done += (size_t)n;
	return n > 0;
}

static bool receive_bytes(int i, struct channel *c)
{
	bool packets = c->kind != PIPE && c->kind != STREAM && c->kind != LOG &&
		       c->kind != FIFO && c->kind != NAMED_STREAM && c->kind != URING;
	size_t room = packets ? sizeof c->in : missing(c);
	ssize_t n = transfer(i, c, c->in + c->in_size, room, false);

	CHECK(n > 0 || (c->kind == LOG && n == 0) || (n < 0 && would_block()));
	if (n <= 0)
		return false;
	c->in_size += (size_t)n;
	if (!take(i, c))
		CHECK(!packets);
	return true;
}

/* Enter the ring, if it has room or a message; by its semaphore for that, or by the mutex. */
static bool enter(struct channel *c, sem_t *its)
{
	if (c->kind == RING_SEM)
		return !sem_trywait(its);
	CHECK(!pthread_mutex_lock(&c->ring->mutex));
	return true;
}

/* Leave it, having moved a message or not. */
static bool leave(struct channel *c, sem_t *others, bool moved)
{
	if (c->kind == RING_SEM)
		CHECK(moved && !sem_post(others));
	else
		CHECK(!pthread_cond_signal(&c->ring->changed) &&
		      !pthread_mutex_unlock(&c->ring->mutex));
	return moved;
}

static bool put_in_ring(struct channel *c)
{
	struct ring *r = c->ring;
	bool room;

	if (!enter(c, &r->empty))
		return false;
	room = !r->size;
	if (room) {
		memcpy(r->bytes, c->out, c->out_size);
		r->size = c->out_done = c->out_size;
	}
	return leave(c, &r->full, room);
}

/* Wait for a moment: a checkpoint may come while a thread waits for a condition. */
static void await_change(struct ring *r)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += 2000000;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_cond_timedwait(&r->changed, &r->mutex, &until);
}

static bool take_from_ring(int i, struct channel *c)
{
	struct ring *r = c->ring;

	if (!enter(c, &r->full))
		return false;
	if (!r->size && c->kind == RING_MUTEX)
		await_change(r);
	c->in_size = r->size;
	memcpy(c->in, r->bytes, r->size);
	r->size = 0;
	if (!leave(c, &r->empty, c->in_size > 0))
		return false;
	CHECK(take(i, c));
	return true;
}

static bool send_count(int i, struct channel *c)
{
	uint64_t one = 1;
	ssize_t n = write(end_of(i, true), &one, sizeof one);

	CHECK(n == sizeof one || would_block());
	c->out_done = n > 0 ? c->out_size : 0;
	return n > 0;
}

static bool receive_count(int i, struct channel *c)
{
	uint64_t one;
	ssize_t n = read(end_of(i, false), &one, sizeof one);

	CHECK((n == sizeof one && one == 1) || would_block());
	if (n > 0)
		c->ended = ++c->received == messages;
	return n > 0;
}

/* A byte with a descriptor: to is sent to, or what is received is put there. */
static ssize_t pass(int fd, int *to, bool sends)
{
	char space[CMSG_SPACE(sizeof(int))] = {0}, byte = 'g';
	struct iovec part = {&byte, 1};
	struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space,
			   .msg_controllen = sizeof space};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	ssize_t n;

	if (sends) {
		*c = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
		memcpy(CMSG_DATA(c), to, sizeof *to);
		return sendmsg(fd, &m, 0);
	}
	n = recvmsg(fd, &m, 0);
	CHECK(n < 0 || (byte == 'g' && c->cmsg_len == CMSG_LEN(sizeof(int))));
	if (n > 0)
		memcpy(to, CMSG_DATA(c), sizeof *to);
	return n;
}

/* The message is in a memory file, or in a pipe, which nobody else has. */
static bool send_gift(int i, struct channel *c)
{
	bool memory = content(i, c->sent) % 2;
	int ends[2] = {-1, -1}, gift;
	ssize_t n;

	CHECK(memory ? (ends[1] = memfd_create("gift", 0)) >= 0 : !pipe(ends));
	CHECK(write(ends[1], c->out, c->out_size) == (ssize_t)c->out_size);
	CHECK(!memory || !lseek(ends[1], 0, SEEK_SET));
	gift = ends[memory ? 1 : 0];
	n = pass(end_of(i, true), &gift, true);
	CHECK(n == 1 || would_block());
	c->out_done = n > 0 ? c->out_size : 0;
	CHECK(!close(ends[1]) && (memory || !close(ends[0])));
	return n > 0;
}

static bool receive_gift(int i, struct channel *c)
{
	int gift;
	ssize_t n = pass(end_of(i, false), &gift, false);

	CHECK(n == 1 || would_block());
	if (n < 0)
		return false;
	c->in_size = (size_t)read(gift, c->in, sizeof c->in);
	CHECK(take(i, c) && !read(gift, c->in, 1) && !close(gift));
	return true;
}

static bool send_queue(int i, struct channel *c)
{
	int failed = mq_send(end_of(i, true), c->out, c->out_size, (unsigned)i);

	CHECK(!failed || would_block());
	c->out_done = failed ? 0 : c->out_size;
	return !failed;
}

static bool receive_queue(int i, struct channel *c)
{
	unsigned priority;
	ssize_t n = mq_receive(end_of(i, false), c->in, sizeof c->in, &priority);

	CHECK(n > 0 ? priority == (unsigned)i : would_block());
	c->in_size = n > 0 ? (size_t)n : 0;
	return n > 0 && take(i, c);
}

/* Others with other types wait in the same queue. */
static bool send_letter(int i, struct channel *c)
{
	struct letter m = {.type = 1 + (long)(c->sent % 3)};
	int failed;

	memcpy(m.bytes, c->out, c->out_size);
	failed = msgsnd(c->messages, &m, c->out_size, IPC_NOWAIT);
	CHECK(!failed || would_block());
	c->out_done = failed ? 0 : c->out_size;
	(void)i;
	return !failed;
}

static bool receive_letter(int i, struct channel *c)
{
	struct letter m;
	ssize_t n = msgrcv(c->messages, &m, sizeof m.bytes, 1 + (long)(c->received % 3),
			   IPC_NOWAIT);

	CHECK(n > 0 || errno == ENOMSG || errno == EINTR);
	if (n <= 0)
		return false;
	memcpy(c->in, m.bytes, (size_t)n);
	c->in_size = (size_t)n;
	CHECK(take(i, c));
	return true;
}

static bool change(const struct channel *c, int semaphore, int by)
{
	struct sembuf one = {(unsigned short)semaphore, (short)by, IPC_NOWAIT};
	int failed = semop(c->semaphores, &one, 1);

	CHECK(!failed || would_block());
	return !failed;
}

static bool put_in_segment(struct channel *c)
{
	if (!change(c, 0, -1))
		return false;
	memcpy(c->ring->bytes, c->out, c->out_size);
	c->ring->size = c->out_done = c->out_size;
	CHECK(change(c, 1, 1));
	return true;
}

static bool take_from_segment(int i, struct channel *c)
{
	if (!change(c, 1, -1))
		return false;
	c->in_size = c->ring->size;
	memcpy(c->in, c->ring->bytes, c->in_size);
	CHECK(take(i, c) && change(c, 0, 1));
	return true;
}

static bool is_ring(const struct channel *c)
{
	return c->kind == RING_MUTEX || c->kind == RING_SEM;
}

static bool step_from(int i, struct channel *c)
{
	bool moved;

	if (c->sent == messages)
		return false;
	if (!c->out_size)
		fill(i, c);
	if (c->kind == LOG)
		CHECK(!flock(end_of(i, true), LOCK_EX));
	moved = is_ring(c)            ? put_in_ring(c)
		: c->kind == COUNTER  ? send_count(i, c)
		: c->kind == GIFT     ? send_gift(i, c)
		: c->kind == QUEUE    ? send_queue(i, c)
		: c->kind == MESSAGES ? send_letter(i, c)
		: c->kind == SEGMENT  ? put_in_segment(c)
				      : send_bytes(i, c);
	if (c->kind == LOG)
		CHECK(!flock(end_of(i, true), LOCK_UN));
	if (c->out_done == c->out_size) {
		c->sent++;
		c->out_size = c->out_done = 0;
	}
	return moved;
}

static bool step_to(int i, struct channel *c)
{
	if (c->ended)
		return false;
	if (is_ring(c))
		return take_from_ring(i, c);
	return c->kind == COUNTER ? receive_count(i, c)
	       : c->kind == GIFT     ? receive_gift(i, c)
	       : c->kind == QUEUE    ? receive_queue(i, c)
	       : c->kind == MESSAGES ? receive_letter(i, c)
	       : c->kind == SEGMENT  ? take_from_segment(i, c)
				     : receive_bytes(i, c);
}

/* ---- what else a process does -------------------------------------------------------------- */

static void pause_us(long us)
{
	struct timespec t = {0, us * 1000};

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

static void on_signal(int signal)
{
	if (signal == SIGALRM)
		alarms++;
	else
		queued++;
}

static void wait_for(pid_t pid, int expected)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == expected);
}

static void make_child(void)
{
	int expected = 20 + (int)draw(&own_random, 20);
	pid_t pid = fork();

	if (!pid)
		_exit(expected);
	CHECK(pid > 0);
	wait_for(pid, expected);
}

/* /proc by the numbers that the process knows. */
static void check_proc(pid_t pid)
{
	char path[64], said[16] = "";

	CHECK(readlink("/proc/self", said, sizeof said - 1) > 0 && atoi(said) == pid);
	snprintf(path, sizeof path, "/proc/%d/task/%d", pid, gettid());
	CHECK(!access(path, F_OK));
	snprintf(path, sizeof path, "/proc/%d", getppid());
	CHECK(!access(path, F_OK));
}

/* The program executed again: its parent has the number that this process knows. */
static void run_child(void)
{
	char number[16];
	char *const argv[] = {(char *)program_path, number, NULL};
	pid_t pid;

	snprintf(number, sizeof number, "%d", getpid());
	pid = fork();
	if (pid == 0) {
		execv(program_path, argv);
		_exit(4);
	}
	wait_for(pid, 5);
}

static int executed_child(pid_t parent)
{
	CHECK(getppid() == parent && !kill(parent, 0));
	check_proc(getpid());
	return 5;
}

static void run_true(void)
{
	char *const argv[] = {(char *)"true", NULL};
	pid_t pid;

	CHECK(!posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ));
	wait_for(pid, 0);
}

static void *square(void *arg)
{
	*(uint64_t *)arg *= *(uint64_t *)arg;
	return arg;
}

static void make_thread(void)
{
	uint64_t n = draw(&own_random, 1000), was = n;
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, square, &n) && !pthread_join(thread, NULL));
	CHECK(n == was * was);
}

/* An area that is kept from one call to the next. */
static void change_area(void)
{
	static unsigned char *area;
	static size_t size;
	static unsigned char value;

	for (size_t i = 0; i < size; i += 511)
		CHECK(area[i] == value);
	if (size)
		CHECK(!munmap(area, size));
	size = (1 + draw(&own_random, 60)) * 4096;
	value = (unsigned char)draw(&own_random, 256);
	area = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(area != MAP_FAILED);
	memset(area, value, size);
	CHECK(!mprotect(area, size, PROT_READ));
}

/* A file that grows, and is read back. */
static void append(void)
{
	static uint64_t count;
	static int fd = -1;
	uint64_t is;
	char path[300];

	snprintf(path, sizeof path, "%s/file-%d", directory, me);
	if (fd < 0)
		fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && write(fd, &count, sizeof count) == sizeof count);
	CHECK(pread(fd, &is, sizeof is, (off_t)(count * sizeof is)) == sizeof is && is == count);
	count++;
	CHECK(lseek(fd, 0, SEEK_CUR) == (off_t)(count * sizeof is));
}

static void queue_signal(void)
{
	static int sent;

	sent++;
	CHECK(!sigqueue(getpid(), SIGRTMIN + 2, (union sigval){.sival_int = sent}));
	while (queued < sent)
		pause_us(10);
	CHECK(queued == sent);
}

static void await_alarm(void)
{
	struct itimerval soon = {.it_value = {0, 300}};
	int before = alarms;

	CHECK(!setitimer(ITIMER_REAL, &soon, NULL));
	while (alarms == before)
		pause_us(100);
	CHECK(alarms == before + 1);
}

static void check_numbers(void)
{
	static pid_t pid;

	if (!pid)
		pid = getpid();
	CHECK(getpid() == pid && !kill(pid, 0));
	check_proc(pid);
	for (int i = 1; i < nprocesses; i++)
		if (processes[i].parent == me && processes[i].pid)
			CHECK(!kill(processes[i].pid, 0));
}

/* Each process counts in a semaphore, which its end takes back. */
static void count_undo(void)
{
	struct sembuf one = {(unsigned short)me, 1, SEM_UNDO};
	static int set, count;

	if (!count)
		set = semget(key_of(MAX_CHANNELS), MAX_PROCESSES, 0);
	CHECK(set >= 0 && !semop(set, &one, 1));
	count++;
	CHECK(semctl(set, me, GETVAL) == count && semctl(set, me, GETPID) == getpid());
}

static void check_undone(void)
{
	int set = semget(key_of(MAX_CHANNELS), 0, 0);

	for (int i = 1; i < nprocesses; i++)
		CHECK(semctl(set, i, GETVAL) == 0);
	CHECK(!semctl(set, 0, IPC_RMID));
}

static void act(void)
{
	static void (*const acts[])(void) = {make_child, run_true, run_child, make_thread,
					     change_area, append, queue_signal, await_alarm,
					     check_numbers, count_undo};

	acts[draw(&own_random, sizeof acts / sizeof acts[0])]();
}

/* ---- the processes ------------------------------------------------------------------------- */

static int life_of(int p, bool writes)
{
	return FIRST_LIFE + 2 * p + writes;
}

/* Close what only others use. */
static void close_others(void)
{
	for (int i = 0; i < nchannels; i++) {
		if (is_ring(&channels[i])) {
			close(end_of(i, false));
			continue;
		}
		if (channels[i].kind == MESSAGES || channels[i].kind == SEGMENT)
			continue;
		if (channels[i].to != me)
			close(end_of(i, false));
		if (channels[i].from != me)
			close(end_of(i, true));
	}
	for (int p = 1; p < nprocesses; p++) {
		if (me)
			close(life_of(p, false));
		if (p != me)
			close(life_of(p, true));
	}
}

static void save_sum(void)
{
	char path[300];
	int fd;

	snprintf(path, sizeof path, "%s/sum-%d", directory, me);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0 && write(fd, &total, sizeof total) == sizeof total && !close(fd));
}

static bool is_done(void)
{
	for (int i = 0; i < nchannels; i++)
		if ((channels[i].from == me && channels[i].sent < messages) ||
		    (channels[i].to == me && !channels[i].ended))
			return false;
	return true;
}

/* The test lets it run until the last restart. */
static bool may_end(const char *hurry)
{
	return !hurry || !access(hurry, F_OK);
}

static void exchange(void)
{
	const char *hurry = getenv("GPUCKPT_TEST_HURRY");

	while (!is_done() || !may_end(hurry)) {
		bool moved = false;

		for (int k = 0; k < nchannels; k++) {
			if (channels[k].from == me)
				moved |= step_from(k, &channels[k]);
			if (channels[k].to == me)
				moved |= step_to(k, &channels[k]);
		}
		if (draw(&own_random, 4) == 0)
			act();
		if (!moved || !may_end(hurry))
			pause_us(200);
	}
}

static void start(int p);
static void start_children(void);

static int end_status(int p)
{
	return 50 + p;
}

/* The life of process p, which ends here. */
static void live(int p)
{
	me = p;
	own_random = mix(seed + 77 * (uint64_t)p);
	total = 0;
	alarms = queued = 0;
	start_children();
	close_others();
	exchange();
	for (int i = 1; i < nprocesses; i++)
		if (processes[i].parent == me && processes[i].pid)
			wait_for(processes[i].pid, end_status(i));
	save_sum();
	if (me)
		_exit(end_status(me));
}

static void start_children(void)
{
	for (int i = me + 1; i < nprocesses; i++)
		if (processes[i].parent == me)
			start(i);
}

static void executed(int p, pid_t *pid)
{
	char texts[3][24];
	char *const argv[] = {(char *)program_path, texts[0], texts[1], (char *)directory,
			      texts[2], NULL};

	snprintf(texts[0], sizeof texts[0], "%llu", (unsigned long long)seed);
	snprintf(texts[1], sizeof texts[1], "%llu", (unsigned long long)messages);
	snprintf(texts[2], sizeof texts[2], "%d", p);
	if (pid)
		CHECK(!posix_spawn(pid, program_path, NULL, NULL, argv, environ));
	else
		execv(program_path, argv);
}

static void start(int p)
{
	struct process *x = &processes[p];

	if (x->made == SPAWN) {
		executed(p, &x->pid);
		return;
	}
	x->pid = fork();
	CHECK(x->pid >= 0);
	if (x->pid) {
		if (x->made == DAEMON)
			wait_for(x->pid, 1);
		if (x->made == DAEMON)
			x->pid = 0;
		return;
	}
	if (x->made == EXEC) {
		executed(p, NULL);
		_exit(4);
	}
	if (x->made == DAEMON && (setsid() < 0 || fork()))
		_exit(1);
	for (int i = 0; i < nprocesses; i++)
		processes[i].pid = 0;
	live(p);
}

static void begin(void)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	CHECK(!sigaction(SIGALRM, &action, NULL) && !sigaction(SIGRTMIN + 2, &action, NULL));
	make_plan();
}

static void run_first(void)
{
	uint64_t all = 0, sum;
	char path[300], byte;

	make_channels();
	CHECK(semget(key_of(MAX_CHANNELS), MAX_PROCESSES, IPC_CREAT | IPC_EXCL | 0600) >= 0);
	for (int p = 1; p < nprocesses; p++) {
		int ends[2];

		CHECK(!pipe(ends));
		place(ends[0], life_of(p, false));
		place(ends[1], life_of(p, true));
	}
	live(0);
	for (int p = 0; p < nprocesses; p++) {
		int fd;
		ssize_t n;

		while (p && (n = read(life_of(p, false), &byte, 1)) != 0)
			CHECK(n < 0 && errno == EINTR);
		snprintf(path, sizeof path, "%s/sum-%d", directory, p);
		fd = open(path, O_RDONLY);
		CHECK(fd >= 0 && read(fd, &sum, sizeof sum) == sizeof sum && !close(fd));
		all = mix(all ^ sum);
	}
	check_undone();
	remove_objects();
	printf("tree %llu: %d processes, %d channels, %016llx\n", (unsigned long long)seed,
	       nprocesses, nchannels, (unsigned long long)all);
}

int main(int argc, char **argv)
{
	if (argc == 2)
		return executed_child(atoi(argv[1]));
	if (argc < 4)
		return 2;
	seed = strtoull(argv[1], NULL, 10);
	messages = strtoull(argv[2], NULL, 10);
	directory = argv[3];
	program_path = argv[0];
	begin();
	if (argc == 4) {
		run_first();
		return 0;
	}
	for (int i = 0; i < nchannels; i++) {
		if (is_ring(&channels[i]) && channels[i].named_memory)
			map_ring(&channels[i], i);
		find_channel(&channels[i], i, 0);
	}
	live(atoi(argv[4]));
	return 0;
}
