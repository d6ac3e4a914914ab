/* SPDX-License-Identifier: Apache-2.0
 * The driver's library in a link namespace: the fake driver, and a module in its place. Copies are
 * killed in the living process, as a restart does. Runs itself for what shows at its end. */
#define _GNU_SOURCE
#include <ctype.h>
#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/cuda/apart/apart.h"
#include "shim/cuda/test/apart_module.h"
#include "shim/inside/gate.h"
#include "shim/preload/helper/raw.h"
#include "shim/preload/preload.h"
#include "test/support/tap.h"

#define UNIT (2ul << 20)
#define ZONE 0x500000000000ul
#define ZONE_END 0x510000000000ul
#define COPIES 10
#define OWN_PID 4194399 /* above any that a kernel gives by default */
#define RESERVED (PROT_NONE), (MAP_PRIVATE | MAP_ANONYMOUS)

static struct gck_ns_exclusions owned;
static struct gck_error err;
static const struct apart_module *m;

/* ---- this process, as a rank ----------------------------------------------------------------- */

static struct gck_shim_state preload;

/* Replace the preload's. */
struct gck_shim_state *gck_preload_state(void)
{
	return &preload;
}

static pid_t own_pid = OWN_PID;

pid_t getpid(void)
{
	return own_pid;
}

long syscall(long nr, ...)
{
	long a[6];
	va_list rest;

	va_start(rest, nr);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(rest, long);
	va_end(rest);
	a[0] = nr == SYS_getpid ? OWN_PID : gck_raw(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (a[0] >= 0)
		return a[0];
	errno = (int)-a[0];
	return -1;
}

static void admit(void)
{
}

const struct gck_gate_owner gck_gate_owner = {.admit = admit, .admitted = gck_namespace_adopt};

static bool load(void)
{
	void *library = gck_cuda_apart_load(GCK_TEST_MODULE, &owned, &err);

	m = library ? dlsym(library, APART_MODULE) : NULL;
	if (!m)
		printf("# %s\n", err.text);
	return m;
}

static bool end(void)
{
	if (!gck_namespace_kill(&err) && !gck_cuda_apart_discard(&err))
		return true;
	printf("# %s\n", err.text);
	return false;
}

static bool restart(void)
{
	return end() && load();
}

/* ---- the fake driver ------------------------------------------------------------------------- */

static int devices(void *library)
{
	CUresult (*init)(unsigned flags), (*get_count)(int *n);
	int n = -1;

	*(void **)&init = dlsym(library, "cuInit");
	*(void **)&get_count = dlsym(library, "cuDeviceGetCount");
	return init(0) || get_count(&n) ? -1 : n;
}

static void test_driver(void)
{
	void *library;
	int good = 0;

	ok(!gck_cuda_apart_load("/nowhere/libcuda.so.1", &owned, &err) &&
	   strstr(err.text, "/nowhere/libcuda.so.1"), "a library that is not there: %s", err.text);
	ok(gck_cuda_apart_discard(&err) < 0, "nothing is there to discard: %s", err.text);
	for (int i = 0; i < COPIES; i++) {
		library = gck_cuda_apart_load(GCK_TEST_DRIVER, &owned, &err);
		good += library && devices(library) > 0 && end();
	}
	is_int(good, COPIES, "a fresh driver comes up each time");
}

/* ---- mappings -------------------------------------------------------------------------------- */

static uintptr_t map_for(uint64_t object, size_t length)
{
	uintptr_t at;

	gck_cuda_apart_maps_for(object);
	at = (uintptr_t)m->map(NULL, length, RESERVED);
	gck_cuda_apart_maps_for(0);
	return at;
}

/* Objects 1 and 2 are made, in this order or the other. */
static void make(uintptr_t at[5], bool other_order)
{
	for (int i = 0; i < 2; i++) {
		int k = i ^ other_order;

		at[2 * k] = map_for(1 + k, UNIT);
		at[2 * k + 1] = map_for(1 + k, 3 * UNIT + 1);
	}
	at[4] = map_for(0, UNIT);
}

static void test_steered(void)
{
	uintptr_t first[5], again[5], *all[] = {first};
	size_t lengths[] = {UNIT, 4 * UNIT, UNIT, 4 * UNIT, UNIT};
	int same = 0, apart = 0;

	make(first, false);
	for (int i = 0; i < 5; i++) {
		for (int j = 0; j < 5; j++)
			apart += i == j || all[0][i] >= all[0][j] + lengths[j] ||
				 all[0][j] >= all[0][i] + lengths[i];
		apart += first[i] >= ZONE && first[i] < ZONE_END && first[i] % UNIT == 0;
	}
	is_int(apart, 30, "mappings lie beside each other in the zone");
	for (int i = 0; i < COPIES && restart(); i++) {
		make(again, i % 2);
		same += !memcmp(first, again, sizeof first);
	}
	is_int(same, COPIES, "each copy's lie where the first one's did, in whatever order objects "
	       "are made");
}

static void test_ended(void)
{
	uintptr_t kept = map_for(30, 2 * UNIT), gone = map_for(31, 2 * UNIT), first, second;

	m->unmap((void *)gone, 2 * UNIT);
	ok(gck_cuda_apart_object_ended(30), "the library keeps what was an ended object's");
	ok(!gck_cuda_apart_object_ended(31), "but what it has unmapped");
	restart();
	first = map_for(32, 2 * UNIT);
	second = map_for(32, 2 * UNIT);
	is_int(first == kept, 1, "the next object of a fresh copy gets what was kept");
	ok(second != gone && second >= ZONE && second < ZONE_END,
	   "no object gets the other addresses");
	restart();
	ok(map_for(33, 2 * UNIT) != kept && map_for(32, 2 * UNIT) == kept &&
	   map_for(32, 2 * UNIT) == second, "from then on that is its own");
}

static void test_unmapped(void)
{
	uintptr_t none = map_for(0, 5 * UNIT), trimmed = map_for(0, 6 * UNIT), made, behind;

	m->unmap((void *)none, 5 * UNIT);
	m->unmap((void *)trimmed, UNIT);
	m->unmap((void *)(trimmed + 5 * UNIT), UNIT);
	made = map_for(9, UNIT);
	m->unmap((void *)made, UNIT);
	behind = map_for(9, UNIT);
	ok(made != behind, "an address is not used twice");
	restart();
	ok(map_for(0, 5 * UNIT) != none, "what was unmapped and for no object is forgotten");
	is_int(map_for(0, 6 * UNIT) == trimmed, 1, "not so if a part of it is mapped");
	is_int(map_for(9, UNIT) == made && map_for(9, UNIT) == behind, 1,
	       "an object's mappings keep their order, whatever was unmapped");
	m->unmap((void *)trimmed, 3 * UNIT);
	m->map((void *)trimmed, UNIT, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED);
	m->unmap((void *)(trimmed + 3 * UNIT), 3 * UNIT);
	restart();
	is_int(map_for(0, 6 * UNIT) == trimmed, 1, "nor if something is mapped into it");
}

static void test_order(void)
{
	uintptr_t at[3];

	for (int i = 0; i < 3; i++)
		at[i] = map_for(0, 7 * UNIT);
	m->unmap((void *)at[0], 7 * UNIT);
	restart();
	is_int(map_for(0, 7 * UNIT) == at[1] && map_for(0, 7 * UNIT) == at[2], 1,
	       "the others keep their order when one is forgotten");
}

/* Another version of the library maps more or less for an object. */
static void test_other_lengths(void)
{
	uintptr_t first[3] = {map_for(20, 4 * UNIT), map_for(20, 2 * UNIT), map_for(21, UNIT)};

	restart();
	is_int(map_for(20, 8 * UNIT) == first[0] && map_for(20, 2 * UNIT) == first[1] &&
	       map_for(21, UNIT / 2) == first[2], 1, "longer and shorter ones are in their places");
	restart();
	is_int(map_for(20, 3 * UNIT) == first[0] && map_for(20, 4 * UNIT) == first[1], 1,
	       "also after the next restart");
	ok(map_for(20, UNIT) > first[2], "one more is elsewhere");
	restart();
	ok(map_for(20, 9 * UNIT) > first[2], "and one for which there is no room");
}

static void test_taken(void)
{
	uintptr_t at = map_for(10, UNIT), got;

	mmap((void *)(at + UNIT), UNIT, PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	got = map_for(10, UNIT);
	ok(got > at + UNIT && got < ZONE_END, "a place of the program's is left out");
	munmap((void *)(at + UNIT), UNIT);
	ok((uintptr_t)m->map(NULL, UNIT, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT) <
	   1ul << 32, "a mapping for 32 bits is where it must be");
}

/* As many as make the list grow. */
static void test_many(void)
{
	static uintptr_t at[3000];
	size_t same = 0;

	for (size_t i = 0; i < 3000; i++)
		at[i] = map_for(i % 7 + 20, 4096);
	restart();
	for (size_t i = 0; i < 3000; i++)
		same += map_for(i % 7 + 20, 4096) == at[i];
	is_int((long)same, 3000, "thousands of mappings");
}

/* ---- handles --------------------------------------------------------------------------------- */

#define HANDLES 100

static int compare(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return (x > y) - (x < y);
}

static void test_handles(void)
{
	static uintptr_t handles[COPIES * HANDLES];
	size_t n = 0, twice = 0;

	for (int i = 0; i < COPIES && restart(); i++) {
		for (int k = 0; k < HANDLES; k++)
			handles[n++] = (uintptr_t)m->allocate(k % 2 ? 48 : 40000);
	}
	qsort(handles, n, sizeof *handles, compare);
	for (size_t i = 1; i < n; i++)
		twice += handles[i] == handles[i - 1];
	ok(n == COPIES * HANDLES && !twice, "no handle equals one of a dead copy: %zu of %zu do",
	   twice, n);
}

/* ---- threads --------------------------------------------------------------------------------- */

static int callback(void)
{
	return isalpha('x') && !isalpha('1') && strtod(" 2.5e1", NULL) == 25;
}

static sem_t waits, loaded;

/* The result counts the copies in which it has the library's tables. */
static void *program_thread(void *unused)
{
	long n;

	(void)unused;
	gck_gate_enter("test", 0);
	gck_gate_leave();
	n = m->is_space(' ') && !m->is_space('x');
	sem_post(&waits);
	sem_wait(&loaded);
	n += m->is_space(' ') && !m->is_space('x');
	return (void *)n;
}

static void test_threads(void)
{
	void *result = NULL;
	pthread_t thread;

	is_int(m->in_thread(callback), 1, "a callback in the library's thread has the program's "
	       "character tables");
	sem_init(&waits, 0, 0);
	sem_init(&loaded, 0, 0);
	pthread_create(&thread, NULL, program_thread, NULL);
	sem_wait(&waits);
	restart();
	sem_post(&loaded);
	pthread_join(thread, &result);
	is_int((long)result, 2, "and a thread of the program's that calls CUDA each copy's");
}

/* ---- threads of the library in the gate's list ----------------------------------------------- */

static int visits;

static void visit(pthread_t thread)
{
	(void)thread;
	visits++;
}

static int listed(void)
{
	visits = 0;
	gck_gate_each_thread(visit);
	return visits;
}

/* A callback that calls CUDA. */
static int called(void)
{
	gck_gate_enter("test", 0);
	gck_gate_leave();
	sem_post(&waits);
	return listed();
}

static void test_list(void)
{
	int before = listed();

	is_int(m->in_thread(called), before + 1, "a thread of the library's can call CUDA");
	is_int(listed(), before, "when it ends it is not listed any more");
	m->stay(called);
	sem_wait(&waits);
	sem_wait(&waits);
	is_int(listed(), before + 1, "another one does not end");
	restart();
	is_int(listed(), before, "nor is one that is dead");
}

/* ---- fork ------------------------------------------------------------------------------------ */

static char marks[32];
static bool restores; /* the process is restored while it forks */

static void note(char mark)
{
	size_t n = strlen(marks);

	preload.restarts += restores;
	marks[n] = mark;
	marks[n + 1] = '\0';
}

/* Forks; the marks of the child, behind which this process has its own. */
static const char *marks_of_fork(void)
{
	static char both[64];
	int ends[2];
	pid_t pid;
	ssize_t n;

	marks[0] = '\0';
	if (pipe(ends) || (pid = fork()) < 0)
		return "no fork";
	if (pid == 0) {
		n = write(ends[1], marks, strlen(marks));
		_exit(n < 0);
	}
	close(ends[1]);
	n = read(ends[0], both, 31);
	close(ends[0]);
	waitpid(pid, NULL, 0);
	snprintf(both + (n < 0 ? 0 : n), 33, " %s", marks);
	return both;
}

static void test_fork(void)
{
	m->at_fork(note);
	is_str(marks_of_fork(), "bc bp", "the library's handlers run at a fork");
	restart();
	is_str(marks_of_fork(), " ", "a dead copy's do not");
	m->at_fork(note);
	is_str(marks_of_fork(), "bc bp", "a fresh copy's do");
	preload.restarts++;
	is_str(marks_of_fork(), " ", "nor do they before a restored process has discarded it");
	preload.restarts--;
	restores = true;
	is_str(marks_of_fork(), "b b", "nor the rest of them if a restart comes between");
	restores = false;
	preload.restarts--;
}

/* A thread of the program maps while others fork: the child can map. */
static _Atomic bool enough;

static void *map_on(void *unused)
{
	while (!enough)
		m->unmap((void *)map_for(0, 4096), 4096);
	return unused;
}

static void test_fork_while_mapping(void)
{
	pthread_t thread;
	int n = 0, status = 0;

	pthread_create(&thread, NULL, map_on, NULL);
	for (; n < 200 && !status; n += !status) {
		pid_t pid = fork();

		if (pid == 0) {
			alarm(5);
			_exit(m->unmap((void *)map_for(0, 4096), 4096));
		}
		waitpid(pid, &status, 0);
	}
	enough = true;
	pthread_join(thread, NULL);
	is_int(n, 200, "a child can map, whatever another thread did at the fork");
}

/* ---- exit ------------------------------------------------------------------------------------ */

static void show(char mark)
{
	putchar(mark);
}

static void show_first(void)
{
	show('1');
}

static void show_last(void)
{
	show('2');
}

/* The process that exits. */
static int exits(const char *how)
{
	atexit(show_first);
	if (!load())
		return 1;
	m->at_exit(show, 'a');
	atexit(show_last);
	if (!strcmp(how, "fresh") && restart())
		m->at_exit(show, 'b');
	if (!strcmp(how, "dead"))
		preload.restarts++;
	if (!strcmp(how, "discarded") && !end())
		return 1;
	return 0;
}

static const char *shown_by(const char *how)
{
	static char shown[16];
	char command[64];
	size_t n;
	FILE *f;

	snprintf(command, sizeof command, "./cuda_apart %s", how);
	f = popen(command, "r");
	n = f ? fread(shown, 1, sizeof shown - 1, f) : 0;
	shown[n] = '\0';
	if (f)
		pclose(f);
	return shown;
}

static void test_exit(void)
{
	is_str(shown_by("plain"), "2a1", "the library's handler runs among the program's");
	is_str(shown_by("fresh"), "2b1", "a fresh copy's is in the place of the dead one's");
	is_str(shown_by("dead"), "21", "a dead copy's does not run");
	is_str(shown_by("discarded"), "21", "nor does it once that is discarded");
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void test_numbers(void)
{
	char path[64];

	is_int(m->pid(), OWN_PID, "the library has the program's number");
	is_int(m->pid_by_number(), OWN_PID, "also by syscall()");
	is_int(m->kill(OWN_PID), ESRCH, "it gets the error of a function of the program's libc");
	snprintf(path, sizeof path, "/proc/%d/status", OWN_PID);
	is_int(m->open(path) || m->fopen(path), 0, "it opens its files in /proc");
	snprintf(path, sizeof path, "/proc/%d", OWN_PID);
	is_int(m->opendir(path), 0, "and its folder");
	snprintf(path, sizeof path, "/proc/%ld", gck_raw(SYS_getpid));
	own_pid = (pid_t)gck_raw(SYS_getpid) / 10;
	is_int(m->opendir(path), 0, "and another, whose number begins with its own");
	own_pid = OWN_PID;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return exits(argv[1]);
	gck_gate_enter("test", 0);
	gck_gate_leave();
	test_driver();
	if (!ok(load(), "the module is loaded"))
		return tap_done();
	test_steered();
	test_ended();
	test_unmapped();
	test_order();
	test_other_lengths();
	test_taken();
	test_many();
	test_handles();
	test_threads();
	test_list();
	test_fork();
	test_fork_while_mapping();
	test_exit();
	test_numbers();
	return tap_done();
}
