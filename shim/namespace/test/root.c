/* SPDX-License-Identifier: Apache-2.0
 * The root object replaces libc's functions for objects in the namespace, and only for those. */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim/link.h"
#include "shim/preload/preload.h"
#include "shim/namespace/namespace.h"
#include "shim/namespace/test/module.h"
#include "test/support/tap.h"

static struct gck_ns_exclusions owned;
static struct gck_error err;
static const struct module *m;

static const char *file;

static int find(char *path, size_t size, struct gck_error *error)
{
	(void)error;
	return snprintf(path, size, "%s", file) < 0 ? -1 : 0;
}

static const struct gck_namespace_variable forced[] = {{"FORCED", "0"}, {NULL, NULL}};
static const struct gck_namespace_library library = {
	.name = "library", .remedy = "build it", .find = find, .forced = forced,
};

static int load(void)
{
	return gck_namespace_load(&library, &owned, &err);
}

/* ---- the lists ------------------------------------------------------------------------------ */

static bool lists_fd(int fd)
{
	const int32_t *fds = (const int32_t *)(uintptr_t)owned.fds;

	return fd >= 0 && (uint64_t)fd < owned.nfds && fds[fd] == fd;
}

static int listed_threads(void)
{
	const int32_t *tids = (const int32_t *)(uintptr_t)owned.threads;
	int n = 0;

	for (uint64_t i = 0; i < owned.nthreads; i++)
		n += tids[i] != 0;
	return n;
}

/* The number of bytes of the range that are listed. */
static size_t listed(const void *p, size_t length)
{
	const struct gck_ns_range *r = (const struct gck_ns_range *)(uintptr_t)owned.ranges;
	uint64_t start = (uintptr_t)p, end = start + length;
	size_t sum = 0;

	for (uint64_t i = 0; i < owned.nranges; i++) {
		uint64_t a = r[i].start > start ? r[i].start : start;
		uint64_t b = r[i].start + r[i].length;

		b = b < end ? b : end;
		sum += b > a ? b - a : 0;
	}
	return sum;
}

/* ---- tests ---------------------------------------------------------------------------------- */

static void test_refusals(void)
{
	file = "/nowhere/library.so";
	ok(all_of(load() < 0, strstr(err.text, "/nowhere/library.so"),
		  strstr(err.text, "build it")),
	   "a missing library is reported: %s", err.text);
	file = "/dev/null";
	ok(all_of(load() < 0, strstr(err.text, "/dev/null")),
	   "a file that is not a library is reported: %s", err.text);
	ok(all_of(!gck_namespace.root_handle, !owned.nthreads), "nothing is loaded after an error");
	file = GCK_TEST_LIBRARY;
	ok(gck_namespace_discard(&err) < 0, "nothing can be discarded before a load: %s", err.text);
}

static void test_module(void)
{
	void *(*open_inside)(const char *, int) = dlsym(gck_namespace.root_handle, "dlopen");
	void *handle = open_inside(GCK_TEST_MODULE, RTLD_NOW | RTLD_GLOBAL);

	m = handle ? dlsym(handle, "module") : NULL;
	if (!ok(m, "a module is loaded into the namespace: %s", handle ? "" : dlerror()))
		exit(tap_done());
	ok(gck_namespace_symbol("module") == m, "the module's symbols are found from outside");
	ok(!gck_namespace_symbol("nobody_has_this"), "a missing symbol is not found");
	is_int(m->ask_library(), 42, "the module finds the library's functions without needing it");
	ok(m->load("test_namespace_module.so") == handle,
	   "the module loads by name from its own DT_RUNPATH");
}

static void test_fds(void)
{
	int fds[16], n = m->make_fds(fds, 16), own = eventfd(0, 0);
	bool all = true;

	for (int i = 0; i < n; i++) {
		if (!lists_fd(fds[i])) {
			printf("# %d of %d: %d\n", i, n, fds[i]);
			all = false;
		}
	}
	is_int(n, 12, "twelve descriptors are made in twelve ways");
	ok(all, "all descriptors of the namespace are listed");
	ok(!lists_fd(own), "the program's descriptor is not listed");
	gck_namespace_give_fd(fds[0]);
	ok(!lists_fd(fds[0]), "nor is one that the program was given");
	m->close_fds(fds, n);
	for (int i = 0; i < n; i++)
		all &= !lists_fd(fds[i]);
	ok(all, "closed descriptors are not listed");
	close(own);
}

static void test_ranges(void)
{
	const size_t page = 4096;
	char *p = m->map(8 * page), *q;
	void *own = mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	is_int(listed(p, 8 * page), 8 * page, "a mapping is listed");
	is_int(listed(own, page), 0, "the program's mapping is not listed");
	m->unmap(p + 2 * page, page);
	ok(all_of(listed(p, 8 * page) == 7 * page, !listed(p + 2 * page, page)),
	   "a page that is unmapped is not listed");
	q = m->remap(p + 3 * page, 5 * page, 64 * page);
	ok(listed(q, 64 * page) == 64 * page, "a mapping that is extended is listed");
	m->unmap(q, 64 * page);
	m->unmap(p, 2 * page);
	is_int(listed(p, 2 * page) + listed(q, 64 * page), 0, "unmapped ranges are not listed");
	munmap(own, page);
}

/* libc maps semaphores internally. */
static void test_semaphore(void)
{
	char name[64];
	sem_t *sem;

	snprintf(name, sizeof name, "/gpuckpt-test-%d", (int)getpid());
	sem = m->open_semaphore(name);
	ok(all_of(sem != SEM_FAILED, m->open_semaphore(name) == sem),
	   "a named semaphore is opened twice at one address");
	sem_unlink(name);
	is_int(listed(sem, 4096), 4096, "a named semaphore is listed");
	m->close_semaphore(sem);
	is_int(listed(sem, 4096), 4096, "a semaphore opened twice and closed once is listed");
	m->close_semaphore(sem);
	is_int(listed(sem, 4096), 0, "a semaphore closed as often as opened is not listed");
}

static void wait_for_threads(int n)
{
	struct timespec pause = { .tv_nsec = 1000000 };

	for (int i = 0; i < 20000 && listed_threads() > n; i++) {
		if (gck_namespace_hold(100, NULL) == 0)
			gck_namespace_release();
		nanosleep(&pause, NULL);
	}
}

static void test_threads(void)
{
	pthread_t a, b, c;

	ok(all_of(!m->make_thread(MODULE_PLAIN, &a), listed_threads() == 1), "a thread is listed");
	m->let_go();
	is_int(m->join_thread(a), 0, "a thread is joined");
	is_int(listed_threads(), 0, "a joined thread is not listed");
	ok(all_of(!m->make_thread(MODULE_DETACHED, &b), listed_threads() == 1),
	   "a detached thread is listed");
	is_int(m->join_thread(b), -1, "a detached thread cannot be joined");
	m->let_go();
	wait_for_threads(0);
	is_int(listed_threads(), 0, "a detached thread that has ended is not listed");
	ok(!m->make_thread(MODULE_OWN_STACK, &c), "a thread with its own stack is made");
	m->let_go();
	is_int(m->join_thread(c), 0, "a thread with its own stack is joined");
}

static int entered, left;

static void enter(void)
{
	entered++;
	ok(m->destructions() == 0, "the gate is entered before the destructor");
}

static void leave(void)
{
	left++;
}

static const struct gck_namespace_guard guard = {.enter = enter, .leave = leave}, none;

static void *use_key(void *key)
{
	gck_namespace_adopt(pthread_self());
	m->set(*(unsigned int *)key, "theirs");
	return NULL;
}

static void test_keys(void)
{
	unsigned int theirs;
	pthread_key_t ours;
	pthread_t thread;

	pthread_key_create(&ours, NULL);
	m->make_key(&theirs);
	pthread_setspecific(ours, "ours");
	ok(!m->get(theirs), "the namespace does not see the program's value of a key");
	m->set(theirs, "theirs");
	is_str(pthread_getspecific(ours), "ours", "the program's value stays");
	is_str(m->get(theirs), "theirs", "the namespace's value stays");
	gck_namespace_guard_by(&guard);
	pthread_create(&thread, NULL, use_key, &theirs);
	pthread_join(thread, NULL);
	is_int(m->destructions(), 1, "the destructor is called when a program's thread ends");
	ok(all_of(entered == 1, left == 1), "the destructor runs inside the gate");
	gck_namespace_guard_by(&none);
	m->set(theirs, NULL);
	pthread_key_delete(ours);
}

static void *ask_for_space(void *unused)
{
	(void)unused;
	gck_namespace_adopt(pthread_self());
	return m->is_space(' ') && !m->is_space('x') ? &owned : NULL;
}

static void test_strangers(void)
{
	pthread_t thread;
	void *result;

	pthread_create(&thread, NULL, ask_for_space, NULL);
	pthread_join(thread, &result);
	ok(result, "a thread of the program can call isspace()");
}

static void test_environment(void)
{
	setenv("GCK_TEST_LATE", "1", 1);
	setenv("FORCED", "1", 1);
	ok(!m->getenv("GCK_TEST_LATE"), "the copy has its own environment");
	ok(!gck_namespace_take_environment(&err), "the environment is copied: %s", err.text);
	is_str(m->getenv("GCK_TEST_LATE"), "1", "the copy takes the program's environment");
	is_str(m->getenv("FORCED"), "0",
	       "the copy does not take values that would do harm");
	is_str(getenv("FORCED"), "1", "the program keeps such values");
	unsetenv("FORCED");
	unsetenv("GCK_TEST_LATE");
	is_str(m->getenv("GCK_TEST_LATE"), "1",
	       "a variable that the program unsets stays in the copy");
}

static void *make_fd_slowly(void *made)
{
	int fds[16], n = m->make_fds(fds, 16);

	__atomic_store_n((int *)made, 1, __ATOMIC_SEQ_CST);
	m->close_fds(fds, n);
	return NULL;
}

static void test_hold(void)
{
	struct timespec pause = { .tv_nsec = 50000000 };
	pthread_t thread;
	int made = 0;

	is_int(gck_namespace_hold(60000, &err), 0, "the copy is held");
	pthread_create(&thread, NULL, make_fd_slowly, &made);
	nanosleep(&pause, NULL);
	is_int(__atomic_load_n(&made, __ATOMIC_SEQ_CST), 0,
	       "no descriptor is made while the copy is held");
	gck_namespace_release();
	pthread_join(thread, NULL);
	is_int(made, 1, "a descriptor is made after the release");
}

static void say_goodbye(void)
{
	static const char text[] = "# the program's own handler\n";

	if (write(1, text, sizeof text - 1) > 0)
		_exit(7);
}

static void test_exit(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		atexit(say_goodbye);
		m->exit(3);
	}
	waitpid(pid, &status, 0);
	ok(all_of(WIFEXITED(status), WEXITSTATUS(status) == 7),
	   "exit() runs the program's handlers");
}

/* ---- forks of the program ------------------------------------------------------------------- */

#define FORKS 200
#define RUN 50000 /* bytes: pages, for which there is one lock */

static _Atomic bool enough;

static void *allocate(void *unused)
{
	while (!enough)
		m->free(m->malloc(RUN));
	return unused;
}

/* Whether the child can allocate and map in the copy; if it waits for a lock it is killed. */
static bool child_can(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		alarm(5);
		_exit(m->malloc(RUN) && !m->unmap(m->map(RUN), RUN) ? 0 : 1);
	}
	return waitpid(pid, &status, 0) == pid && status == 0;
}

static void test_fork(void)
{
	pthread_t thread;
	int n = 0;

	pthread_create(&thread, NULL, allocate, NULL);
	while (n < FORKS && child_can())
		n++;
	enough = true;
	pthread_join(thread, NULL);
	is_int(n, FORKS, "a child can allocate, whatever another thread did at the fork");
}

/* ---- restored ------------------------------------------------------------------------------- */

#define TAKEN 64

static struct gck_shim_state preload;

/* Replaces the preload's function; this process has no preload. */
struct gck_shim_state *gck_preload_state(void)
{
	return &preload;
}

static bool has_tid(int32_t tid)
{
	for (int i = 0; i < TAKEN; i++) {
		if (preload.tids[i].vtid == tid)
			return true;
	}
	return false;
}

/* The next TIDs of the kernel are those of restored threads. */
static void test_numbers(void)
{
	const int32_t *tids = (const int32_t *)(uintptr_t)owned.threads;
	bool fit = false;
	pthread_t thread;

	m->make_thread(MODULE_PLAIN, &thread);
	for (int i = 0; i < TAKEN; i++)
		preload.tids[i] = (struct gck_shim_tid){ tids[0] + 1 + i, 1 };
	preload.ntids = TAKEN;
	m->let_go();
	m->join_thread(thread);
	m->make_thread(MODULE_PLAIN, &thread);
	for (uint64_t i = 0; i < owned.nthreads; i++)
		fit |= tids[i] && !has_tid(tids[i]);
	ok(fit, "a new thread does not have a restored thread's TID");
	preload.ntids = 0;
	m->let_go();
	m->join_thread(thread);
	is_int(listed_threads(), 0, "threads with such a TID are gone");
}

static bool is_listed(int32_t tid)
{
	const int32_t *tids = (const int32_t *)(uintptr_t)owned.threads;
	bool listed = false;

	for (uint64_t i = 0; i < owned.nthreads; i++)
		listed |= tids[i] == tid;
	return listed;
}

/* The image has the copy, and each restart gives its threads new numbers. */
static void test_carried(void)
{
	const int32_t *tids = (const int32_t *)(uintptr_t)owned.threads;
	pthread_t thread;
	int32_t tid;

	m->make_thread(MODULE_PLAIN, &thread);
	tid = tids[0];
	gck_namespace_carry();
	preload.restarts++;
	ok(gck_namespace_is_alive(), "a copy in an image is alive after a restart");
	preload.tids[0] = (struct gck_shim_tid){tid, 1};
	preload.ntids = 1;
	gck_namespace_carried();
	ok(all_of(gck_namespace_is_alive(), is_listed(1), !is_listed(tid)),
	   "so it is later, with its thread's number there");
	((int32_t *)(uintptr_t)owned.threads)[0] = tid; /* 1 is no thread here */
	preload.tids[0] = (struct gck_shim_tid){2, tid};
	gck_namespace_carry();
	ok(all_of(is_listed(2), !is_listed(tid)),
	   "the image has the number that the program knows");
	preload.restarts++;
	gck_namespace_carried();
	ok(all_of(gck_namespace_is_alive(), is_listed(tid)), "and it is carried again");
	preload.ntids = 0;
	preload.restarts++;
	ok(!gck_namespace_is_alive(), "a copy that is not carried is dead after a restart");
	preload.restarts--;
	m->let_go();
	m->join_thread(thread);
	is_int(listed_threads(), 0, "its thread ends");
}

static void test_death(void)
{
	struct timespec pause = { .tv_nsec = 50000000 };
	pthread_t thread = 0;

	m->make_thread(MODULE_DETACHED, &thread);
	m->make_thread(MODULE_OWN_STACK, &thread);
	m->make_thread(MODULE_JOINING, &thread);
	is_int(listed_threads(), 3,
	       "a detached thread, one with its own stack and one that joins it are listed");
	nanosleep(&pause, NULL); /* until it waits */
	err.text[0] = '\0';
	ok(gck_namespace_kill(&err) == 0, "the copy with threads is killed: %s", err.text);
	ok(gck_namespace_discard(&err) == 0, "the copy with threads is discarded: %s", err.text);
	ok(load() == 0, "the library is loaded again: %s", err.text);
	is_int(listed_threads(), 0, "the new copy has no threads");
}

int main(void)
{
	test_refusals();
	err.text[0] = '\0';
	ok(load() == 0, "the real library is loaded: %s", err.text);
	test_module();
	test_fds();
	test_ranges();
	test_semaphore();
	test_threads();
	test_keys();
	test_strangers();
	test_environment();
	test_hold();
	test_exit();
	test_fork();
	test_numbers();
	test_carried();
	test_death();
	return tap_done();
}
