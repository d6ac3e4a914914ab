/* SPDX-License-Identifier: Apache-2.0
 * Preloaded: gives the program the CUDA driver's library (GPUCKPT_MPI_LIBRARY, its real file) in a
 * link namespace of its own, with shim/namespace's root object. For the part `namespace` of
 * test/gpu/run.
 *
 * Some functions of libc that the library calls lead back to the program's namespace. Its mappings
 * without an address get one from a zone (GPU_NS_STEER=zone), or those that an earlier process got
 * (GPU_NS_STEER=FILE, written by GPU_NS_RECORD=FILE). A program says by gpu_ns_tag for which object
 * the following mappings are. */
#define _GNU_SOURCE
#include "config.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/cuda/dispatch/dispatch.h"
#include "shim/mpi/base/library.h"

#define SHOWN __attribute__((visibility("default")))
#define ZONE 0x500000000000ul
#define MOST 65536
#define OWN_PATH 128

/* Found by name in programs. load: a first or a fresh copy; end: as at a restart; steer: again,
 * where the program has its own hook in the library's mmap. */
SHOWN void gpu_ns_tag(const char *name);
SHOWN void gpu_ns_steer(void);
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
static unsigned nmade, nbefore, missed, steered;
static char tag[32] = "init";
static bool zone;
static uintptr_t zone_next = ZONE;
static void *(*real_mmap)(void *, size_t, int, int, int, off_t);

void gpu_ns_tag(const char *name)
{
	snprintf(tag, sizeof tag, "%s", name);
}

/* The address that the same object's mapping of that kind had; 0: none. */
static uintptr_t wish(size_t length, int prot, int flags)
{
	for (unsigned i = 0; i < nbefore; i++) {
		struct mapping *m = &before[i];

		if (m->used || m->fixed || m->length != length || m->prot != prot ||
		    m->flags != flags || strcmp(m->tag, tag))
			continue;
		m->used = true;
		return m->at;
	}
	return 0;
}

static uintptr_t from_zone(size_t length)
{
	uintptr_t at = zone_next;

	zone_next += (length + 0x1fffff) & -0x200000ul;
	return at;
}

static void *hooked_mmap(void *start, size_t length, int prot, int flags, int fd, off_t offset)
{
	bool free_choice = !start && !(flags & MAP_FIXED);
	uintptr_t at = 0;
	void *r = MAP_FAILED;

	pthread_mutex_lock(&lock);
	if (free_choice && nbefore)
		at = wish(length, prot, flags);
	else if (free_choice && zone)
		at = from_zone(length);
	if (at)
		r = real_mmap((void *)at, length, prot, flags | MAP_FIXED_NOREPLACE, fd, offset);
	if (at && r != MAP_FAILED)
		steered++;
	else if (free_choice && (nbefore || zone))
		missed++;
	if (r == MAP_FAILED)
		r = real_mmap(start, length, prot, flags, fd, offset);
	if (nmade < MOST) {
		struct mapping *m = &made[nmade++];

		strcpy(m->tag, tag);
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
	fprintf(stderr, "# mappings %u steered %u missed %u\n", nmade, steered, missed);
}

void gpu_ns_steer(void)
{
	gck_cuda_got_hook(library, "mmap", (void *)hooked_mmap);
	gck_cuda_got_hook(library, "mmap64", (void *)hooked_mmap);
	gck_cuda_got_hook(library, "munmap", dlsym(gck_namespace.root_handle, "munmap"));
}

static void begin_steering(void)
{
	const char *how = getenv("GPU_NS_STEER");

	if (how && !strcmp(how, "zone"))
		zone = true;
	else if (how)
		read_record(how);
	if (!how && !getenv("GPU_NS_RECORD"))
		return;
	*(void **)&real_mmap = dlsym(gck_namespace.root_handle, "mmap");
	gpu_ns_steer();
}

/* ---- exit and fork --------------------------------------------------------------------------- */

extern int __cxa_atexit(void (*)(void *), void *, void *);
extern void *__dso_handle;

static unsigned copy; /* counts the copies of the library; a dead copy's handlers do not run */

struct at_exit {
	void (*function)(void *);
	void *arg;
	unsigned copy;
};

static void run_at_exit(void *p)
{
	struct at_exit *h = p;

	if (h->copy == copy)
		h->function(h->arg);
}

/* Among the program's handlers, where it would be without a namespace. */
static int outer_atexit(void (*function)(void *), void *arg, void *dso)
{
	struct at_exit *h = malloc(sizeof *h);

	(void)dso;
	*h = (struct at_exit){function, arg, copy};
	return __cxa_atexit(run_at_exit, h, __dso_handle);
}

static struct {
	void (*prepare)(void), (*parent)(void), (*child)(void);
} forks[16];
static unsigned nforks;

static void prepare(void)
{
	for (unsigned i = nforks; i-- > 0;)
		if (forks[i].prepare)
			forks[i].prepare();
}

static void parent(void)
{
	for (unsigned i = 0; i < nforks; i++)
		if (forks[i].parent)
			forks[i].parent();
}

static void child(void)
{
	for (unsigned i = 0; i < nforks; i++)
		if (forks[i].child)
			forks[i].child();
}

static int outer_atfork(void (*before_it)(void), void (*in_parent)(void), void (*in_child)(void),
			void *dso)
{
	static bool registered;

	(void)dso;
	if (nforks == sizeof forks / sizeof *forks)
		return ENOMEM;
	forks[nforks].prepare = before_it;
	forks[nforks].parent = in_parent;
	forks[nforks++].child = in_child;
	if (!registered)
		registered = pthread_atfork(prepare, parent, child) == 0;
	return 0;
}

/* ---- threads ---------------------------------------------------------------------------------
 * The program's threads need the character tables of the namespace's libc, and the library's
 * threads, in which callbacks of the program run, those of the program's. */

struct start {
	void *(*function)(void *);
	void *arg;
};

static void (*outer_ctype)(void);
static int (*root_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static struct start *start_of(void *(*function)(void *), void *arg)
{
	struct start *s = malloc(sizeof *s);

	*s = (struct start){function, arg};
	return s;
}

static void *library_thread(void *p)
{
	struct start s = *(struct start *)p;

	free(p);
	outer_ctype();
	return s.function(s.arg);
}

static int library_creates(pthread_t *thread, const pthread_attr_t *attr,
			   void *(*function)(void *), void *arg)
{
	return root_create(thread, attr, library_thread, start_of(function, arg));
}

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

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
	return next(thread, attr, program_thread, start_of(function, arg));
}

/* ---- loading --------------------------------------------------------------------------------- */

static struct gck_ns_exclusions owned;

/* The library finds its process by the program's number, which the namespace's libc cannot do after
 * a restart. */
static const char *own_path(const char *path, char space[OWN_PATH])
{
	size_t n = (size_t)snprintf(space, OWN_PATH, "/proc/%d", (int)getpid());

	if (strncmp(path, space, n) || (path[n] && path[n] != '/'))
		return path;
	snprintf(space, OWN_PATH, "/proc/self%s", path + n);
	return space;
}

static struct {
	DIR *(*opendir)(const char *);
	FILE *(*fopen)(const char *, const char *);
	int (*open)(const char *, int, ...);
} root;

static DIR *own_opendir(const char *path)
{
	char space[OWN_PATH];

	return root.opendir(own_path(path, space));
}

static FILE *own_fopen(const char *path, const char *mode)
{
	char space[OWN_PATH];

	return root.fopen(own_path(path, space), mode);
}

static int own_open(const char *path, int flags, ...)
{
	char space[OWN_PATH];
	va_list rest;
	int mode;

	va_start(rest, flags);
	mode = va_arg(rest, int);
	va_end(rest);
	return root.open(own_path(path, space), flags, mode);
}

static void lead_to_own_process(void)
{
	*(void **)&root.opendir = dlsym(gck_namespace.root_handle, "opendir");
	*(void **)&root.fopen = dlsym(gck_namespace.root_handle, "fopen");
	*(void **)&root.open = dlsym(gck_namespace.root_handle, "open");
	gck_cuda_got_hook(library, "opendir", (void *)own_opendir);
	gck_cuda_got_hook(library, "fopen", (void *)own_fopen);
	gck_cuda_got_hook(library, "fopen64", (void *)own_fopen);
	gck_cuda_got_hook(library, "open", (void *)own_open);
	gck_cuda_got_hook(library, "open64", (void *)own_open);
}

/* The functions of the preload and the stand-in, in a rank. */
static void lead_to_rank(void)
{
	static const char *const outer[] = {"getpid", "kill", "pthread_kill", "waitpid", "syscall"};

	gck_cuda_got_hook(library, "bind", dlsym(RTLD_DEFAULT, "bind"));
	if (!dlsym(RTLD_DEFAULT, "gck_preload_state"))
		return;
	for (size_t i = 0; i < sizeof outer / sizeof *outer; i++)
		gck_cuda_got_hook(library, outer[i], dlsym(RTLD_DEFAULT, outer[i]));
	lead_to_own_process();
}

static void lead_out(void)
{
	lead_to_rank();
	gck_cuda_got_hook(library, "__register_atfork", (void *)outer_atfork);
	gck_cuda_got_hook(library, "__cxa_atexit", (void *)outer_atexit);
	*(void **)&outer_ctype = dlsym(RTLD_DEFAULT, "__ctype_init");
	*(void **)&root_create = dlsym(gck_namespace.root_handle, "pthread_create");
	gck_cuda_got_hook(library, "pthread_create", (void *)library_creates);
}

void *gpu_ns_load(void)
{
	struct gck_error err = {0};

	if (gck_namespace_load(&gck_mpi_library, &owned, &err)) {
		fprintf(stderr, "# %s\n", err.text);
		_exit(3);
	}
	library = gck_namespace.handle;
	lead_out();
	begin_steering();
	return library;
}

/* The next copy's mappings get the addresses of this one's. */
static void steer_as_before(void)
{
	memcpy(before, made, nmade * sizeof *made);
	nbefore = nmade;
	nmade = 0;
}

/* The copy's heap, in which its handles are. */
static struct gck_ns_range heap(void)
{
	const struct gck_ns_range *r =
		(const struct gck_ns_range *)(uintptr_t)gck_namespace.owned->ranges;
	void *(*allocate)(size_t);
	uintptr_t in;

	*(void **)&allocate = dlsym(gck_namespace.root_handle, "malloc");
	in = (uintptr_t)allocate(1);
	for (uint64_t i = 0; i < gck_namespace.owned->nranges; i++)
		if (in - r[i].start < r[i].length)
			return r[i];
	return (struct gck_ns_range){0, 0};
}

/* Ends the copy as a restart does. No later copy's handle is one of this copy's. */
int gpu_ns_end(void)
{
	struct gck_ns_range old = heap();
	struct gck_error err = {0};

	if (nmade)
		steer_as_before();
	if (gck_namespace_kill(&err) || gck_namespace_discard(&err)) {
		fprintf(stderr, "# %s\n", err.text);
		return -1;
	}
	if (old.length)
		mmap((void *)(uintptr_t)old.start, old.length, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
	copy++;
	nforks = 0;
	library = NULL;
	return 0;
}

/* True: the driver's library by its path; by its name only if nothing preloaded has that name. */
static bool is_driver(const char *file)
{
	const char *real = getenv("GPUCKPT_MPI_LIBRARY");

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
		dlmopen(gck_namespace.id, getenv("GPUCKPT_MPI_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
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
