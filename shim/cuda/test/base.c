/* SPDX-License-Identifier: Apache-2.0
 * Single modules of the stand-in: maps of handles and arenas of memory against plain models, the
 * cache of ld.so, the names of cuGetProcAddress, and the vault of descriptors. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/cuda/base/arena.h"
#include "shim/cuda/base/fd_vault.h"
#include "shim/cuda/base/handle_map.h"
#include "shim/cuda/base/state.h"
#include "shim/cuda/real.h"
#include "shim/cuda/dispatch/function_table.h"
#include "shim/cuda/dispatch/ld_cache.h"
#include "test/support/tap.h"

/* ---- handle maps ----------------------------------------------------------------------------- */

#define HANDLES 300
#define STEPS 200000

static bool agree(const struct gck_cuda_handle_map *s, const uint64_t *values)
{
	size_t n = 0;

	for (uint64_t h = 1; h <= HANDLES; h++) {
		const uint64_t *v = gck_cuda_handle_map_get(s, h << 40);

		n += v != NULL;
		if (values[h] ? !v || *v != values[h] : v != NULL)
			return false;
	}
	return n == s->n;
}

static void sets(void)
{
	struct gck_cuda_handle_map s = {.entries = NULL};
	uint64_t values[HANDLES + 1] = {0};
	bool good = true;

	srand(1);
	for (int i = 1; good && i <= STEPS; i++) {
		uint64_t h = 1 + (uint64_t)rand() % HANDLES;

		if (rand() % 2) {
			*gck_cuda_handle_map_put(&s, h << 40) = (uint64_t)i;
			values[h] = (uint64_t)i;
		} else {
			gck_cuda_handle_map_drop(&s, h << 40);
			values[h] = 0;
		}
		good = i % 100 ? true : agree(&s, values);
	}
	ok(good, "a map has what was put and not dropped");
	ok(all_of(!gck_cuda_handle_map_put(&s, 0), !gck_cuda_handle_map_get(&s, 0)),
	   "a map does not take 0");
	free(s.entries);
}

/* ---- arenas --------------------------------------------------------------------------------- */

#define UNIT 64
#define UNITS 512
#define BASE 0x600000000000ull

static unsigned char taken[UNITS]; /* 0: free; else which allocation */

static unsigned longest_free(void)
{
	unsigned most = 0, run = 0;

	for (int i = 0; i < UNITS; i++) {
		run = taken[i] ? 0 : run + 1;
		most = run > most ? run : most;
	}
	return most;
}

/* The suballocations are in order and without holes, free ones are joined, and those that are free
 * are so in the model. */
static bool is_whole(const struct gck_cuda_arena *a)
{
	uint64_t at = a->base, free_bytes = 0;

	for (size_t i = 0; i < a->n; i++) {
		const struct gck_cuda_suballocation *p = &a->v[i];

		if (p->base != at || !p->size || p->size % UNIT ||
		    (i && !p->requested && !a->v[i - 1].requested))
			return false;
		for (uint64_t u = (p->base - BASE) / UNIT; u < (p->base + p->size - BASE) / UNIT;
		     u++) {
			if ((taken[u] != 0) != (p->requested != 0))
				return false;
		}
		free_bytes += p->requested ? 0 : p->size;
		at += p->size;
	}
	return at == a->base + a->size && free_bytes == a->free;
}

static bool take_one(struct gck_cuda_arena *a, unsigned char id, uint64_t *base)
{
	uint64_t bytes = 1 + (uint64_t)rand() % (rand() % 4 ? 300 : 5000);
	const struct gck_cuda_suballocation *p = gck_cuda_arena_take(a, bytes);
	unsigned units = (unsigned)((bytes + UNIT - 1) / UNIT);
	size_t first;

	*base = p ? p->base : 0;
	if (!p)
		return longest_free() < units;
	first = (p->base - BASE) / UNIT;
	for (size_t u = first; u < first + units; u++) {
		if (taken[u])
			return false;
		taken[u] = id;
	}
	p = gck_cuda_arena_find(a, *base + bytes - 1);
	return p && p->base == *base && p->requested == bytes &&
	       (bytes % UNIT == 0 || !gck_cuda_arena_find(a, *base + bytes));
}

static void give_one(struct gck_cuda_arena *a, unsigned char id, uint64_t base)
{
	gck_cuda_arena_give(a, base);
	for (int u = 0; u < UNITS; u++)
		taken[u] = taken[u] == id ? 0 : taken[u];
}

static void arenas(void)
{
	uint64_t bases[200] = {0};
	struct gck_cuda_arena a;
	bool good = true;

	if (gck_cuda_arena_init(&a, BASE, (uint64_t)UNIT * UNITS, UNIT))
		abort();
	for (int i = 0; good && i < STEPS; i++) {
		unsigned char id = (unsigned char)(1 + rand() % 199);

		if (bases[id]) {
			give_one(&a, id, bases[id]);
			bases[id] = 0;
		} else {
			good = take_one(&a, id, &bases[id]);
		}
		good = good && is_whole(&a);
	}
	ok(good, "an arena allocates what is free, once, if it fits anywhere");
	for (unsigned id = 1; id < 200; id++) {
		if (bases[id])
			give_one(&a, (unsigned char)id, bases[id]);
	}
	ok(all_of(gck_cuda_arena_is_empty(&a), a.n == 1),
	   "after all frees it is one suballocation again");
	ok(all_of(!gck_cuda_arena_take(&a, 0), !gck_cuda_arena_take(&a, UINT64_MAX)),
	   "zero bytes and too many are refused");
	ok(all_of(!gck_cuda_arena_find(&a, BASE), !gck_cuda_arena_find(&a, 1)),
	   "nothing is found in an empty arena");
	gck_cuda_arena_free(&a);
}

/* ---- the vault of descriptors ---------------------------------------------------------------- */

struct gck_cuda_state gck_cuda_state;

#define KEPT 100
#define LIMIT 48 /* descriptors that fit into a table: it takes several threads */

static uint64_t keys[KEPT];

static bool is_file(int fd, ino_t inode)
{
	struct stat st;
	bool same = fd >= 0 && fstat(fd, &st) == 0 && st.st_ino == inode;

	close(fd);
	return same;
}

/* The program puts a file of its own at the number of one of the sockets. */
static void replaced(void)
{
	int socket = gck_cuda_state.kept_fd[1], own = memfd_create("own", MFD_CLOEXEC);
	struct stat st;
	uint64_t name;

	fstat(own, &st);
	dup2(own, socket);
	ok(all_of(gck_cuda_vault_get(keys[1]) < 0, !gck_cuda_vault_has(keys[1])),
	   "after the program closed a socket the vault has no descriptor");
	name = gck_cuda_vault_put(own);
	ok(all_of(name, is_file(gck_cuda_vault_get(name), st.st_ino)),
	   "a new pair of sockets keeps the next descriptor");
	ok(!gck_cuda_vault_has(keys[1]), "what was lost stays lost");
	ok(is_file(dup(socket), st.st_ino), "the program's file has its number");
	close(socket);
}

/* The vault alone has a pipe's end: it is not in flight, and no child has it. */
static void alone(void)
{
	struct pollfd end = {.events = POLLIN};
	uint64_t name;
	int pipes[2];
	pid_t pid;

	if (pipe2(pipes, O_CLOEXEC))
		return;
	end.fd = pipes[0];
	name = gck_cuda_vault_put(pipes[1]);
	pid = fork();
	if (!pid) {
		gck_cuda_vault_drop(name); /* the parent's */
		_exit(gck_cuda_vault_get(name) < 0 && gck_cuda_vault_put(dup(0)) ? pause() : 1);
	}
	usleep(50000);
	is_int(poll(&end, 1, 0), 0, "a child cannot drop what its parent's vault has");
	gck_cuda_vault_drop(name);
	is_int(poll(&end, 1, 0), 1, "a child does not hold what its parent drops");
	ok(waitpid(pid, NULL, WNOHANG) == 0, "a child has a vault of its own");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(pipes[0]);
}

static void kept(void)
{
	struct rlimit before, few = {.rlim_cur = LIMIT};
	ino_t inodes[KEPT];
	struct stat st;
	bool good = true;

	getrlimit(RLIMIT_NOFILE, &before);
	few.rlim_max = before.rlim_max;
	setrlimit(RLIMIT_NOFILE, &few);
	for (int i = 0; i < KEPT; i++) {
		int fd = memfd_create("kept", MFD_CLOEXEC);

		fstat(fd, &st);
		inodes[i] = st.st_ino;
		keys[i] = gck_cuda_vault_put(fd);
		good = good && keys[i];
	}
	ok(good, "the vault has more descriptors than the process may have");
	for (int i = 0; good && i < 1000; i++) {
		int which = rand() % KEPT;

		good = is_file(gck_cuda_vault_get(keys[which]), inodes[which]);
	}
	ok(good, "the process gets them in any order, more than once");
	for (int i = 0; i < KEPT; i += 2)
		gck_cuda_vault_drop(keys[i]);
	ok(all_of(gck_cuda_vault_get(keys[0]) < 0, is_file(gck_cuda_vault_get(keys[1]), inodes[1])),
	   "dropped ones are gone");
	ok(all_of(gck_cuda_vault_get(0) < 0, !gck_cuda_vault_has(0)),
	   "an unknown name is not found");
	alone();
	replaced();
	gck_cuda_vault_forget();
	ok(all_of(gck_cuda_vault_get(keys[1]) < 0, gck_cuda_state.kept_fd[0] == -1),
	   "a restored process has none");
	setrlimit(RLIMIT_NOFILE, &before);
}

/* ---- the loader's cache --------------------------------------------------------------------- */

static char path[256], file[] = "/tmp/gck-cache-XXXXXX";

static int find_in(const void *data, size_t size)
{
	FILE *f = fopen(file, "w");

	fwrite(data, 1, size, f);
	fclose(f);
	return gck_cuda_cache_find(file, "libcuda.so.1", path, sizeof path);
}

/* glibc-ld.so.cache1.1, three libraries. */
static void cache(void)
{
	struct {
		char magic[20];
		uint32_t n, size, unused[5];
		struct {
			int32_t flags;
			uint32_t name, path, unused;
			uint64_t hwcap;
		} entries[3];
		char strings[64];
	} c = {.magic = {'g', 'l', 'i', 'b', 'c', '-', 'l', 'd', '.', 's',
			 'o', '.', 'c', 'a', 'c', 'h', 'e', '1', '.', '1'},
	       .n = 3,
	       .size = 64,
	       .strings = "libz.so.1\0libcuda.so.1\0/nowhere/x\0/proc/self/exe"};
	uint32_t strings = (uint32_t)((char *)c.strings - (char *)&c);

	close(mkstemp(file));
	c.entries[0].flags = c.entries[2].flags = 0x0303;
	c.entries[1].flags = 3; /* of 32 bits */
	c.entries[0].name = strings;
	c.entries[1].name = c.entries[2].name = strings + 10;
	c.entries[0].path = c.entries[1].path = strings + 23;
	c.entries[2].path = strings + 34;
	is_int(find_in(&c, sizeof c), 0, "a library is found in the cache");
	is_str(path, "/proc/self/exe", "it is the 64-bit one");
	c.entries[2].path = strings + 23;
	ok(find_in(&c, sizeof c) != 0, "a file that does not exist is not found");
	c.entries[2].path = 1 << 30;
	ok(find_in(&c, sizeof c) != 0, "a name outside of the cache file is refused");
	c.entries[2].path = strings + 34;
	ok(find_in(&c, sizeof c - 16) != 0, "a name cut off by the file's end is refused");
	c.n = 1 << 30;
	ok(find_in(&c, sizeof c) != 0, "more entries than the file has are refused");
	ok(all_of(find_in("x", 1) != 0, find_in("", 0) != 0), "a file that is no cache is refused");
	unlink(file);
	ok(gck_cuda_cache_find("/nonexistent", "libcuda.so.1", path, sizeof path) != 0,
	   "a missing cache file is reported");
	is_int(gck_cuda_cache_find(NULL, "libc.so.6", path, sizeof path), 0,
	       "libc is found in this machine's cache");
}

/* ---- names ---------------------------------------------------------------------------------- */

struct gck_cuda_real gck_cuda_real;
static char code[5];

#define MEMBER(i) ((void **)(void *)&gck_cuda_real + (i))

const struct gck_cuda_function gck_cuda_functions[] = {
	{"cuA", &code[0], MEMBER(0), 2000},
	{"cuAB", &code[1], MEMBER(1), 2000},
	{"cuA_ptsz", &code[2], MEMBER(2), 7000},
	{"cuA_v2", &code[3], MEMBER(3), 12000},
	{"cuA_v2_ptsz", &code[4], MEMBER(4), 12000},
};
const size_t gck_cuda_nfunctions = 5;

static void means(int version, int per_thread, const char *name)
{
	const struct gck_cuda_function *f = gck_cuda_by_version("cuA", version, per_thread);

	ok(f ? name && !strcmp(f->name, name) : !name, "cuA of CUDA %d%s is %s", version,
	   per_thread ? ", per thread," : "", name ? name : "none");
}

static void names(void)
{
	static struct gck_cuda_real found;

	means(1000, 0, NULL);
	means(2000, 0, "cuA");
	means(11999, 0, "cuA");
	means(13000, 0, "cuA_v2");
	means(6000, 1, "cuA");
	means(7000, 1, "cuA_ptsz");
	means(13000, 1, "cuA_v2_ptsz");
	for (size_t i = 0; i < 5; i++)
		*gck_cuda_member(&found, &gck_cuda_functions[i]) = &code[4 - i];
	*gck_cuda_member(&found, &gck_cuda_functions[1]) = NULL;
	*gck_cuda_member(&found, &gck_cuda_functions[2]) = &code[4];
	gck_cuda_table_sort(&found);
	is_str(gck_cuda_by_address(&code[1], NULL)->name, "cuA_v2",
	       "a function is found by its address");
	is_str(gck_cuda_by_address(&code[4], "cuA_p")->name, "cuA_ptsz",
	       "of two with the same address the hint decides");
	ok(!gck_cuda_by_address(&code[3], NULL), "a function that the driver lacks has no address");
	is_str(gck_cuda_by_name("cuAB")->name, "cuAB", "a function is found by its name");
	ok(all_of(!gck_cuda_by_name("cuABC"), !gck_cuda_by_name("")),
	   "unknown names are not found");
}

int main(void)
{
	sets();
	arenas();
	kept();
	cache();
	names();
	return tap_done();
}
