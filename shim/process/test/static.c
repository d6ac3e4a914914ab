/* SPDX-License-Identifier: Apache-2.0
 * A script whose programs take no preload is checkpointed, killed and restored, and goes on with
 * the numbers that its programs know: glibc's, musl's and busybox's, where they are there. Root may
 * give a process its number; in a PID namespace no other process has it. */
#include "config.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test/support/lineage.h"
#include "test/support/tap.h"

#define RESTARTS 4
#define NUMBER 21000 /* of the rank */

static char directory[] = "/tmp/gpuckpt-static-XXXXXX";

static int live_through(struct lineage *l)
{
	if (lineage_start(l))
		return -1;
	l->number = l->pid; /* as its programs know it */
	for (int i = 0; i < RESTARTS; i++) {
		pause_ms(40 + rand() % 120);
		if (lineage_checkpoint(l))
			return i;
		pause_ms(rand() % 40);
		lineage_kill(l);
		if (lineage_restore(l, l->seq))
			return i;
	}
	return RESTARTS;
}

static void test_script(const char *name, const char *script)
{
	char *argv[] = {(char *)"/bin/sh", (char *)"-c", (char *)script, NULL}, alone[300];
	struct lineage l;

	if (!ok(!lineage_begin(&l, "/tmp", argv), "%s", name))
		return;
	is_int(lineage_alone(&l), 0, "it runs alone");
	snprintf(alone, sizeof alone, "%s", lineage_output(&l));
	l.number = NUMBER;
	is_int(live_through(&l), RESTARTS, "checkpoints and restarts");
	is_int(l.pid ? lineage_wait(&l) : -1, 0, "it ends well");
	is_str(lineage_output(&l), alone, "its answer");
	lineage_end(&l);
}

static void test_programs(const char *name, const char *program)
{
	char script[1000], title[100];

	snprintf(title, sizeof title, "%s, a child", name);
	snprintf(script, sizeof script, "%s 800; echo status $?", program);
	test_script(title, script);
	snprintf(title, sizeof title, "%s, a pipeline", name);
	snprintf(script, sizeof script, "%s 300 | cat; { %s 400; %s 300; } | tail -n 1", program,
		 program, program);
	test_script(title, script);
}

/* A checkpoint without a restart leaves it as it was. */
static void test_unharmed(const char *name, const char *program)
{
	char script[400], alone[300];
	char *argv[] = {(char *)"/bin/sh", (char *)"-c", script, NULL};
	struct lineage l;
	int done = 0;

	snprintf(script, sizeof script, "%s 800; true", program);
	if (!ok(!lineage_begin(&l, "/tmp", argv) && !lineage_alone(&l), "%s: it runs alone", name))
		return;
	snprintf(alone, sizeof alone, "%s", lineage_output(&l));
	is_int(lineage_start(&l), 0, "unharmed: started");
	for (; done < 6; done++) {
		pause_ms(20 + rand() % 40);
		if (lineage_checkpoint(&l))
			break;
	}
	is_int(done, 6, "unharmed: checkpoints");
	is_int(lineage_wait(&l), 0, "unharmed: it ends well");
	is_str(lineage_output(&l), alone, "unharmed: its answer");
	lineage_end(&l);
}

/* The program by another compiler; false: that cannot make it here. */
static bool build(const char *name, const char *compiler, char *program, size_t size)
{
	char command[1200];

	snprintf(program, size, "%s/%s", directory, name);
	snprintf(command, sizeof command, "%s -O1 -pthread -o %s %s 2>/dev/null", compiler,
		 program, GCK_STATIC_SOURCE);
	return !system(command);
}

static void test_libc(const char *name, const char *compiler)
{
	char program[300];

	if (!build(name, compiler, program, sizeof program)) {
		skip(name, "no compiler makes its programs here");
		return;
	}
	test_unharmed(name, program);
	test_programs(name, program);
}

static void test_busybox(void)
{
	if (access("/bin/busybox", X_OK)) {
		skip("busybox", "it is not installed");
		return;
	}
	test_script("busybox",
		    "/bin/busybox sh -c 'i=0; me=$$; while [ $i -lt 60 ]; do "
		    "/bin/busybox kill -0 $me || exit 1; [ $me = $$ ] || exit 2; "
		    "/bin/busybox sh -c \"[ \\$PPID = $me ]\" || exit 3; "
		    "/bin/busybox usleep 10000; i=$((i+1)); done; echo $i rounds'; echo $?");
}

static int run_all(void)
{
	char command[300];

	srand((unsigned)time(NULL));
	if (!mkdtemp(directory))
		return 1;
	test_libc("glibc", "gcc -static");
	test_libc("musl", "musl-gcc -static");
	test_busybox();
	snprintf(command, sizeof command, "rm -rf %s", directory);
	return system(command) ? 1 : tap_done();
}

/* PID 1 of a namespace waits for all. */
static int be_init(pid_t tests)
{
	int status, result = 1;
	pid_t pid;

	while ((pid = wait(&status)) > 0)
		if (pid == tests)
			result = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
	return result;
}

static int run_inside(void)
{
	pid_t tests;

	if (mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL) ||
	    mount("proc", "/proc", "proc", 0, NULL)) {
		skip("static programs", "no /proc can be mounted here");
		return tap_done();
	}
	tests = fork();
	return tests ? be_init(tests) : run_all();
}

int main(void)
{
	int status;
	pid_t pid;

	if (geteuid() || unshare(CLONE_NEWPID | CLONE_NEWNS)) {
		skip("static programs", "only root may give a process its number");
		return tap_done();
	}
	pid = fork();
	if (!pid)
		return run_inside();
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
