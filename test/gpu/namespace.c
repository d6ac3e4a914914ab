/* SPDX-License-Identifier: Apache-2.0
 * Preloaded: gives the program the CUDA driver's library (GPUCKPT_CUDA_LIBRARY, its real file) in a
 * link namespace of its own, by shim/cuda/apart. For the part `namespace` of test/gpu/run.
 *
 * A program says by gpu_ns_tag for which object the following mappings are. They get the addresses
 * that an earlier process wrote down (GPU_NS_RECORD=FILE), if GPU_NS_STEER=FILE gives that file. */
#define _GNU_SOURCE
#include "config.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/cuda/apart/apart.h"
#include "shim/cuda/dispatch/dispatch.h"
#include "shim/cuda/dispatch/load.h"
#include "shim/inside/gate.h"

#define SHOWN __attribute__((visibility("default")))
#define MOST 65536
#define TAGS 256
#define ALL 1 /* the object of all mappings of a tag is its index, and this */

/* Found by name in programs. load: a first or a fresh copy; end: as at a restart. */
SHOWN void gpu_ns_tag(const char *name);
SHOWN void gpu_ns_write_record(void);
SHOWN void *gpu_ns_load(void);
SHOWN int gpu_ns_end(void);

/* For dlopen at the end of this file. */
extern void *(*gpu_ns_libc_dlopen)(const char *, int);
extern void *gpu_ns_for(const char *file);

void *(*gpu_ns_libc_dlopen)(const char *, int);
static void *library; /* its handle */

/* ---- mappings -------------------------------------------------------------------------------- */

struct mapping {
	char tag[32];
	size_t length;
	int prot, flags, fixed; /* fixed: the library chose the address */
	uintptr_t at, asked;
	bool used;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mapping made[MOST], before[MOST];
static unsigned nmade, nbefore, missed;
static char tags[TAGS][32] = {"init"};
static unsigned ntags = 1, tag;
static void *(*apart_mmap)(void *, size_t, int, int, int, off_t);

void gpu_ns_tag(const char *name)
{
	pthread_mutex_lock(&lock);
	for (tag = 0; tag < ntags && strcmp(tags[tag], name); tag++)
		;
	if (tag == ntags && ntags < TAGS)
		snprintf(tags[ntags++], sizeof *tags, "%s", name);
	pthread_mutex_unlock(&lock);
}

/* The address that the same object's mapping of that kind had; 0: none. */
static uintptr_t wish(size_t length, int prot, int flags)
{
	for (unsigned i = 0; i < nbefore; i++) {
		struct mapping *m = &before[i];

		if (m->used || m->fixed || m->length != length || m->prot != prot ||
		    m->flags != flags || strcmp(m->tag, tags[tag]))
			continue;
		m->used = true;
		return m->at;
	}
	return 0;
}

static void *hooked_mmap(void *start, size_t length, int prot, int flags, int fd, off_t offset)
{
	bool free_choice = !start && !(flags & MAP_FIXED);
	void *r = MAP_FAILED;
	uintptr_t at;

	pthread_mutex_lock(&lock);
	gck_cuda_apart_maps_for(tag + ALL);
	at = free_choice ? wish(length, prot, flags) : 0;
	if (at)
		r = apart_mmap((void *)at, length, prot, flags | MAP_FIXED_NOREPLACE, fd, offset);
	if (r == MAP_FAILED) {
		missed += free_choice && nbefore;
		r = apart_mmap(start, length, prot, flags, fd, offset);
	}
	gck_cuda_apart_maps_for(0);
	if (nmade < MOST) {
		struct mapping *m = &made[nmade++];

		strcpy(m->tag, tags[tag]);
		m->length = length;
		m->prot = prot;
		m->flags = flags;
		m->fixed = !free_choice;
		m->at = (uintptr_t)r;
		m->asked = (uintptr_t)start;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

static void read_record(const char *path)
{
	FILE *f = fopen(path, "r");
	struct mapping *m = before;

	while (f && nbefore < MOST &&
	       fscanf(f, "%31s %zx %x %x %d %lx %lx", m->tag, &m->length, &m->prot, &m->flags,
		      &m->fixed, &m->asked, &m->at) == 7) {
		nbefore++;
		m++;
	}
	if (f)
		fclose(f);
}

void gpu_ns_write_record(void)
{
	const char *path = getenv("GPU_NS_RECORD");
	FILE *f = path ? fopen(path, "w") : NULL;

	for (unsigned i = 0; f && i < nmade; i++)
		fprintf(f, "%s %zx %x %x %d %lx %lx\n", made[i].tag, made[i].length, made[i].prot,
			made[i].flags, made[i].fixed, made[i].asked, made[i].at);
	if (f)
		fclose(f);
	fprintf(stderr, "# mappings %u missed %u\n", nmade, missed);
}

static void hook(void)
{
	*(void **)&apart_mmap = gck_cuda_got_find(library, "mmap");
	gck_cuda_got_hook(library, "mmap", (void *)hooked_mmap);
	gck_cuda_got_hook(library, "mmap64", (void *)hooked_mmap);
}

/* ---- threads: the program's need the character tables of the namespace's libc ---------------- */

struct start {
	void *(*function)(void *);
	void *arg;
};

static void *program_thread(void *p)
{
	struct start s = *(struct start *)p;

	free(p);
	gck_namespace_adopt(pthread_self());
	return s.function(s.arg);
}

SHOWN int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*function)(void *),
			 void *arg)
{
	static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	struct start *s = malloc(sizeof *s);

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
	*s = (struct start){function, arg};
	return next(thread, attr, program_thread, s);
}

/* ---- loading --------------------------------------------------------------------------------- */

static void admit(void)
{
}

const struct gck_gate_owner gck_gate_owner = {.admit = admit};

void *gpu_ns_load(void)
{
	static struct gck_ns_exclusions owned;
	static bool begun;
	struct gck_error err = {0};

	library = gck_cuda_apart_load(getenv(GCK_CUDA_LIBRARY_VARIABLE), &owned, &err);
	if (!library) {
		fprintf(stderr, "# %s\n", err.text);
		_exit(3);
	}
	if (!begun && getenv("GPU_NS_STEER"))
		read_record(getenv("GPU_NS_STEER"));
	begun = true;
	hook();
	return library;
}

int gpu_ns_end(void)
{
	struct gck_error err = {0};

	if (gck_namespace_kill(&err) || gck_cuda_apart_discard(&err)) {
		fprintf(stderr, "# %s\n", err.text);
		return -1;
	}
	library = NULL;
	return 0;
}

/* True: the driver's library by its path; by its name only if nothing preloaded has that name. */
static bool is_driver(const char *file)
{
	const char *real = getenv(GCK_CUDA_LIBRARY_VARIABLE);

	if (!file || !real)
		return false;
	if (!strcmp(file, real))
		return true;
	return (!strcmp(file, "libcuda.so.1") || !strcmp(file, "libcuda.so")) &&
	       !gpu_ns_libc_dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
}

/* The handle for a dlopen of the driver's library; NULL: it is another library. */
__attribute__((used)) void *gpu_ns_for(const char *file)
{
	static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

	if (!gpu_ns_libc_dlopen)
		*(void **)&gpu_ns_libc_dlopen = dlsym(RTLD_NEXT, "dlopen");
	if (!is_driver(file))
		return NULL;
	pthread_mutex_lock(&loading);
	if (library) /* it is closed as often as it is opened */
		dlmopen(gck_namespace.id, getenv(GCK_CUDA_LIBRARY_VARIABLE),
			RTLD_NOW | RTLD_NOLOAD);
	else
		gpu_ns_load();
	pthread_mutex_unlock(&loading);
	return library;
}

/* Others go to libc by a jump: it searches where its caller is. */
__asm__(".text\n"
	".globl dlopen\n"
	".type dlopen, @function\n"
	"dlopen:\n"
	"	push %rdi\n"
	"	push %rsi\n"
	"	sub $8, %rsp\n"
	"	call gpu_ns_for\n"
	"	add $8, %rsp\n"
	"	pop %rsi\n"
	"	pop %rdi\n"
	"	test %rax, %rax\n"
	"	jz 1f\n"
	"	ret\n"
	"1:	jmp *gpu_ns_libc_dlopen(%rip)\n"
	".size dlopen, . - dlopen\n");
