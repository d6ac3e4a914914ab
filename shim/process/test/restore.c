/* SPDX-License-Identifier: Apache-2.0
 * Restored programs end as if nothing had happened: each is checkpointed, killed and restored
 * repeatedly at random moments, each time after a trial, which changes nothing. */
#include "config.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "spank/input.h"
#include "test/support/lineage.h"
#include "test/support/rings.h"
#include "test/support/tap.h"

#define LONG_MS 3600000 /* a lease that does not end here */

struct program {
	const char *name, *rounds; /* rounds of a millisecond: several times as long as the
				    * checkpoints take */
	int restarts;
	int longest_ms; /* between two checkpoints */
	bool other_kernel;
	bool piped; /* standard input is a pipe with a relay, which gets all of it each time */
};

/* What a rank that runs on after its checkpoint may do to its files. */
static void spoil(const char *directory, int i)
{
	char path[300];

	snprintf(path, sizeof path, "%s/%s", directory, i % 2 ? "rewritten" : "appended");
	if (i % 3)
		unlink(path);
	else if (!access(path, F_OK))
		ok(!truncate(path, 3), "%s is cut", path);
	snprintf(path, sizeof path, "rm -rf /dev/shm/%s*", strrchr(directory, '/') + 1);
	ok(!system(path), "what it has in /dev/shm is removed");
	snprintf(path, sizeof path, "%s/shared", directory);
	if (i % 2)
		unlink(path);
}

/* Standard input of every program: 8 bytes a round. A new process gets the file with the last one's
 * offset, or a pipe that has the file from its first byte. */
static void make_input(const char *directory, const char *name, const char *rounds)
{
	char path[300];
	int fd;

	snprintf(path, sizeof path, "%s/%s", directory, name);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	for (uint64_t i = 0; i < strtoull(rounds, NULL, 10); i++)
		if (write(fd, &i, sizeof i) != sizeof i)
			printf("# %s: cannot be written\n", path);
	close(fd);
	fd = open(path, O_RDONLY);
	dup2(fd, 0);
	close(fd);
}

static void feed(const char *directory)
{
	static const char script[] = "exec cat <\"$0\"/input";
	struct gck_error err = {0};
	int end[2];

	if (pipe2(end, O_CLOEXEC)) {
		printf("# no pipe\n");
		return;
	}
	if (fork() == 0) {
		dup2(end[1], 1);
		execl("/bin/sh", "sh", "-c", script, directory, NULL);
		_exit(1);
	}
	dup2(end[0], 0);
	close(end[0]);
	close(end[1]);
	if (gck_input_relay(GCK_TEST_PROGRAM, &err))
		printf("# %s\n", err.text);
}

/* The keys of run_ipc belong to others when it comes back. */
static void occupy(key_t key)
{
	shmctl(shmget(key, 0, 0), IPC_RMID, NULL);
	semctl(semget(key, 0, 0), 0, IPC_RMID);
	msgctl(msgget(key, 0), IPC_RMID, NULL);
	ok(shmget(key, 100, IPC_CREAT | IPC_EXCL | 0600) >= 0 &&
	   semget(key, 1, IPC_CREAT | IPC_EXCL | 0600) >= 0 &&
	   msgget(key, IPC_CREAT | IPC_EXCL | 0600) >= 0, "another has its keys");
}

/* Another node does not have the queue that run_ipc has made and not used. */
static void remove_bare(const char *directory)
{
	char path[300];
	int number = -1;
	FILE *f;

	snprintf(path, sizeof path, "%s/bare", directory);
	f = fopen(path, "r");
	ok(f && fscanf(f, "%d", &number) == 1 && !msgctl(number, IPC_RMID, NULL),
	   "its unused queue is gone");
	if (f)
		fclose(f);
}

/* Whether it has the key, and the object of its former start is gone. */
static void check_former(key_t key, int former)
{
	struct shmid_ds ds;

	ok(former >= 0 && shmget(key, 0, 0) >= 0 && shmget(key, 0, 0) != former &&
	   shmctl(former, IPC_STAT, &ds), "its former segment has made way");
}

static void check_occupied(key_t key)
{
	ok(!shmctl(shmget(key, 0, 0), IPC_RMID, NULL) &&
	   !semctl(semget(key, 0, 0), 0, IPC_RMID) && !msgctl(msgget(key, 0), IPC_RMID, NULL),
	   "the other still has what has its keys");
}

static void live_through(const struct program *p, const char *directory, struct lineage *l)
{
	bool good = ok(!lineage_start(l), "%s: started", p->name), ipc = !strcmp(p->name, "ipc");
	key_t key = 0x67000000 | (l->pid & 0xffffff);
	int former = -1;

	for (int i = 0; good && i < p->restarts; i++) {
		pause_ms(20 + rand() % p->longest_ms);
		good = !lineage_checkpoint(l);
		ok(good, "%s: checkpoint %d (held %.1f ms)", p->name, i + 1, l->held * 1e3);
		pause_ms(rand() % 40);
		lineage_kill(l);
		spoil(directory, i);
		if (ipc && !i) {
			former = shmget(key, 0, 0);
			remove_bare(directory);
		}
		if (ipc && i == 1)
			occupy(key);
		good = good && !lineage_try(l, l->seq);
		if (p->piped)
			feed(directory);
		good = good && !lineage_restore(l, l->seq);
		ok(good, "%s: restart %d (%.1f ms)", p->name, i + 1, l->restored * 1e3);
		if (ipc && !i)
			check_former(key, former);
	}
	is_int(good ? lineage_wait(l) : -1, 0, "it ends well");
	if (ipc)
		check_occupied(key);
}

static void test_program(const struct program *p)
{
	char alone[300], directory[] = "/tmp/gpuckpt-program-XXXXXX";
	char *argv[] = {(char *)GCK_TEST_PROGRAM, (char *)p->name, (char *)p->rounds, directory,
			NULL};
	struct lineage l;

	if (!mkdtemp(directory) || !ok(!lineage_begin(&l, "/tmp", argv), "%s: a store%s", p->name,
				       p->other_kernel ? "; under another kernel" : ""))
		return;
	l.other_kernel = p->other_kernel;
	make_input(directory, "numbers", "100000");
	make_input(directory, "input", p->rounds);
	if (p->piped)
		feed(directory);
	is_int(lineage_alone(&l), 0, "it runs without checkpoints");
	snprintf(alone, sizeof alone, "%s", lineage_output(&l));
	if (p->piped)
		feed(directory);
	else
		lseek(0, 0, SEEK_SET);
	live_through(p, directory, &l);
	is_str(lineage_output(&l), alone, "with the same result");
	lineage_end(&l);
	snprintf(alone, sizeof alone, "rm -rf %s", directory);
	ok(!system(alone), "its files are removed");
}

/* A restored rank that executes another program is still a rank: the program's environment has the
 * new process's PID and link. */
static void test_exec(void)
{
	char path[300], directory[] = "/tmp/gpuckpt-program-XXXXXX";
	char *argv[] = {(char *)GCK_TEST_PROGRAM, (char *)"exec", (char *)"0", directory, NULL};
	struct lineage l;
	int link;

	if (!mkdtemp(directory) || lineage_begin(&l, "/tmp", argv) || lineage_start(&l))
		return;
	agent_lease(l.link, LONG_MS);
	ok(agent_sees_lease(l.pid, true) && !lineage_checkpoint(&l),
	   "exec: a rank is captured, which has a lease");
	lineage_kill(&l);
	ok(!lineage_restore(&l, l.seq) && agent_sees_lease(l.pid, false), "restored without it");
	agent_lease(l.link, LONG_MS);
	ok(agent_sees_lease(l.pid, true), "it is given another one");
	snprintf(path, sizeof path, "%s/go", directory);
	close(creat(path, 0600));
	link = agent_admit(&l.agent, &l.hello);
	ok(link >= 0 && !l.hello.reconnect,
	   "and executes a program, whose constructor sends HELLO");
	agent_lease(link, LONG_MS);
	ok(agent_sees_lease(l.pid, true), "which is given its own lease");
	close(l.link);
	l.link = link;
	ok(!lineage_checkpoint(&l), "which can be captured, too");
	is_int(lineage_wait(&l), 0, "it ends well");
	lineage_end(&l);
	snprintf(path, sizeof path, "rm -rf %s", directory);
	ok(!system(path), "its files are removed");
}

/* A script that starts one program after the other, each beside a pipe's other end. */
static void test_script(void)
{
	static const char script[] =
		"unset GPUCKPT_TEST_HURRY; for i in 1 2 3 4 5; do "
		"\"$0\" input 1000 $1 <$1/numbers | tee -a $1/log; done; "
		"sort -u $1/log | wc -l; exec wc -l <$1/log";
	char path[300], directory[] = "/tmp/gpuckpt-program-XXXXXX";
	char *argv[] = {(char *)"/bin/bash", (char *)"-c", (char *)script,
			(char *)GCK_TEST_PROGRAM, directory, NULL};
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct lineage l;
	bool good;
	int link;

	if (!mkdtemp(directory) || lineage_begin(&l, "/tmp", argv))
		return;
	make_input(directory, "numbers", "1000");
	dup2(null, 0);
	close(null);
	good = ok(!lineage_start(&l), "script: started");
	for (int i = 0; good && i < 4; i++) {
		pause_ms(100 + rand() % 800);
		good = !lineage_checkpoint(&l);
		ok(good, "script: checkpoint %d (held %.1f ms)", i + 1, l.held * 1e3);
		pause_ms(rand() % 100);
		lineage_kill(&l);
		good = good && !lineage_try(&l, l.seq);
		good = good && !lineage_restore(&l, l.seq);
		ok(good, "script: restart %d (%.1f ms)", i + 1, l.restored * 1e3);
	}
	link = good ? agent_admit(&l.agent, &l.hello) : -1;
	ok(link >= 0, "it executes a program in its own place, which is a rank again");
	is_int(link >= 0 ? lineage_wait(&l) : -1, 0, "it ends well");
	is_str(lineage_output(&l), "5", "with the same result");
	close(link);
	lineage_end(&l);
	snprintf(path, sizeof path, "rm -rf %s", directory);
	ok(!system(path), "its files are removed");
}

int main(int argc, char **argv)
{
	static const struct program programs[] = {
		{"process", "4000", 4, 200},     {"kernel", "4000", 4, 300},
		{"numbers", "2000", 6, 60},      {"names", "1000", 2, 100},
		{"shared", "4000", 4, 300},      {"signals", "4000", 4, 300},
		{"threads", "6000", 10, 200},    {"areas", "5000", 3, 400, false},
		{"input", "3000", 3, 150}, {"input", "3000", 3, 150, .piped = true},
		{"clock", "4000", 4, 200, true}, {"children", "4000", 4, 200},
		{"tree", "3000", 5, 200},        {"family", "2000", 4, 300},
		{"orphans", "2000", 4, 300},     {"locks", "2000", 4, 300},
		{"owners", "2000", 4, 300},
		{"reopened", "2000", 4, 300},    {"sockets", "2000", 4, 300},
		{"terminals", "2000", 4, 300},   {"pidfds", "1000", 3, 200},
		{"proc", "1000", 3, 200},        {"watches", "1000", 4, 200},
		{"made", "500", 4, 200},         {"queues", "2000", 4, 200},
		{"ipc", "2000", 4, 300},         {"rings", "1000", 4, 200},
	};

	srand((unsigned)time(NULL));
	for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
		if (!strcmp(programs[i].name, "rings") && !can_carry_rings())
			skip("rings", "needs io_uring of Linux 6.8");
		else if (argc < 2 || !strcmp(argv[1], programs[i].name))
			test_program(&programs[i]);
	if (argc < 2 || !strcmp(argv[1], "script"))
		test_script();
	if (argc < 2 || !strcmp(argv[1], "exec"))
		test_exec();
	return tap_done();
}
