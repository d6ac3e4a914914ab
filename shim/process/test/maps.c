/* SPDX-License-Identifier: Apache-2.0
 * Parsing of /proc/PID/maps and smaps, of fields and lists of /proc. */
#include "config.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/process/proc/maps.c"
#include "shim/process/proc/procfs.h"
#include "shim/process/process.h"
#include "test/support/tap.h"

static const char smaps[] =
	"00400000-0041f000 r-xp 00002000 fe:01 247970                             /usr/bin/a b\n"
	"Size:                124 kB\n"
	"Rss:                 120 kB\n"
	"Anonymous:             8 kB\n"
	"Swap:                  4 kB\n"
	"VmFlags: rd ex mr mw me dc \n"
	"7fe566f2c000-7fe566f30000 rw-s 00000000 00:01 1026         /memfd:x (deleted)\n"
	"Rss:                   4 kB\n"
	"ProtectionKey:         3\n"
	"VmFlags: rd wr sh mr mw me ms wf hg lo \n"
	"7fff8669f000-7fff866c0000 ---p 00000000 00:00 0 \n"
	"VmFlags: gd dd nh ss ht io um sl \n"
	"ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";

static void test_smaps(void)
{
	struct gck_maps m;
	struct gck_error err;

	ok(!parse(strdup(smaps), &m, &err), "a text like the kernel's is parsed");
	is_int((long long)m.n, 4, "four mappings");
	ok(m.v[0].start == 0x400000 && m.v[0].end == 0x41f000 && m.v[0].offset == 0x2000 &&
	   m.v[0].inode == 247970 && m.v[0].device == makedev(0xfe, 1) && !m.v[0].shared,
	   "numbers");
	is_int(m.v[0].prot, PROT_READ | PROT_EXEC, "protection");
	is_str(m.v[0].name, "/usr/bin/a b", "a name with a blank");
	ok(m.v[0].resident == 120 << 10 && m.v[0].anonymous == 8 << 10 && m.v[0].swapped == 4 << 10,
	   "sizes");
	ok(m.v[0].flags == (GCK_VM_DONTFORK | GCK_VM_MAYWRITE), "flags");
	ok(m.v[1].shared && m.v[1].key == 3 &&
	   m.v[1].flags == (GCK_VM_WIPEONFORK | GCK_VM_HUGE | GCK_VM_LOCKED | GCK_VM_MAYWRITE),
	   "flags of a shared mapping");
	ok(gck_path_deleted(m.v[1].name) && !gck_path_deleted(m.v[0].name), "deleted");
	ok(m.v[2].prot == 0 && !*m.v[2].name &&
	   m.v[2].flags == (GCK_VM_GROWSDOWN | GCK_VM_DONTDUMP | GCK_VM_NOHUGE | GCK_VM_SHADOW |
			   GCK_VM_HUGETLB | GCK_VM_DEVICE | GCK_VM_USERFAULT | GCK_VM_SEALED),
	   "no name");
	ok(m.v[2].known && !m.v[3].known, "flags are marked as known");
	ok(gck_maps_find(&m, 0x400000) == &m.v[0] && gck_maps_find(&m, 0x41efff) == &m.v[0] &&
	   !gck_maps_find(&m, 0x41f000) && !gck_maps_find(&m, 0) &&
	   gck_maps_find(&m, 0x7fff866bffff) == &m.v[2], "found by address");
	gck_maps_free(&m);
}

static void test_damaged(void)
{
	static const char *const bad[] = {
		"x\n", "400000\n", "400000-41f000\n", "400000-41f000 r-xp\n",
		"400000-41f000 r-xp 0 fe:01\n", "41f000-400000 r-xp 00000000 fe:01 1 /x\n",
		"-1-2 r-xp 00000000 fe:01 1 /x\n", "400000-41f000 r-x\n", "Size: 4 kB\n",
		"400000-41f000 r-xp zz fe:01 1 /x\n", "400000-41f000 r-xp 0 fe01 1 /x\n",
	};
	struct gck_maps m;
	struct gck_error err;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ok(parse(strdup(bad[i]), &m, &err) == -1, "refused: %.*s",
		   (int)strcspn(bad[i], "\n"), bad[i]);
	ok(!parse(strdup(""), &m, &err) && m.n == 0, "an empty text has no mappings");
	gck_maps_free(&m);
}

static void test_fields(void)
{
	static const char text[] = "Name:\tx y\nUmask:\t0022\nUid:\t1\t2\n";

	is_int((long long)gck_proc_number(text, "Umask:", 8, 7), 022, "an octal field");
	is_int((long long)gck_proc_number(text, "mask:", 8, 7), 7, "only at the start of a line");
	ok(!strncmp(gck_proc_field(text, "Name:"), "x y\n", 4), "a text field");
	ok(!gck_proc_field(text, "Gid:") && !gck_proc_field("", "x"), "a missing field");
}

static void test_self(void)
{
	struct gck_error err = {0};
	struct gck_maps m, s;
	int proc = gck_proc_open(getpid(), &err), *list;
	uint64_t v[GCK_STAT_FIELDS];
	char state;
	size_t n;

	ok(proc >= 0, "this process");
	ok(!gck_maps_read(proc, &m, &err) && !gck_smaps_read(proc, &s, &err), "its mappings");
	ok(m.n && s.n && gck_maps_find(&m, (uintptr_t)&n) && gck_maps_find(&s, (uintptr_t)smaps),
	   "include the stack and the text");
	ok(gck_maps_find(&s, (uintptr_t)&n)->known, "with flags");
	ok(!gck_proc_list(proc, "task", &list, &n, &err) && n == 1 && list[0] == getpid(),
	   "its thread");
	ok(!gck_proc_stat(proc, &state, v, &err) && state == 'R' && v[4] == (uint64_t)getppid(),
	   "its state and parent");
	free(list);
	gck_maps_free(&m);
	gck_maps_free(&s);
	close(proc);
	ok(gck_proc_open(1 << 22, &err) == -1 && err.code == ESRCH, "no such process");
}

/* Make a directory with this stat, like a process's, and ask whether that has ended. */
static bool ended(const char *stat)
{
	char dir[] = "/tmp/gck-proc.XXXXXX", path[40];
	int proc = mkdtemp(dir) ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	bool result;
	FILE *f;

	snprintf(path, sizeof(path), "%s/stat", dir);
	f = fopen(path, "w");
	if (!f || proc < 0 || fputs(stat, f) < 0 || fclose(f))
		abort();
	result = gck_proc_ended(proc);
	close(proc);
	unlink(path);
	rmdir(dir);
	return result;
}

/* Whether `sought` waits in a process to which `sent` was sent, and which takes none. */
static bool pends(int sent, int sought)
{
	sigset_t all, before;
	bool pending;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	kill(getpid(), sent);
	pending = gck_process_pending(getpid(), sought);
	sigwaitinfo(&all, NULL);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return pending;
}

static void test_ended(void)
{
	pid_t pid = fork();
	siginfo_t info;

	if (pid == 0)
		_exit(0);
	ok(!gck_process_ended(getpid()), "a running process has not ended");
	waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
	ok(gck_process_ended(pid), "a zombie has ended");
	waitpid(pid, NULL, 0);
	ok(gck_process_ended(pid), "so has one that is dead");
	ok(!pends(SIGTERM, SIGUSR1) && pends(SIGTERM, SIGTERM), "a signal that waits is seen");
	ok(!ended("7 (a) b) S 1 7 7 0 -1 4194304 0 0\n"), "a sleeping one has not");
	ok(ended("7 (a) b) R 1 7 7 0 -1 4194308 0 0\n"),
	   "an exiting one has, before it is a zombie");
}

int main(void)
{
	test_smaps();
	test_damaged();
	test_fields();
	test_self();
	test_ended();
	return tap_done();
}
