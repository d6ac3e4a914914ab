/* SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <sys/wait.h>
#include <time.h>

#include "test/support/tap.h"

#define LONGEST_S 60
#define MOST_DEVICES 8

CUcontext gpu_context;

void gpu_failed(const char *what, const char *file, int line)
{
	printf("#   %s:%d: %s\n", file, line, what);
	fflush(stdout);
	_exit(1);
}

void gpu_must(int result, const char *call, const char *file, int line)
{
	const char *name = "an unknown error";
	char text[300];

	if (!result)
		return;
	cuGetErrorName((CUresult)result, &name);
	snprintf(text, sizeof text, "%s: %d %s", call, result, name);
	gpu_failed(text, file, line);
}

void gpu_say_started(void)
{
	const char *where = getenv("GPUCKPT_SELF");
	char path[300];

	snprintf(path, sizeof path, "%s/started", where ? where : "/nowhere");
	close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

double gpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

void gpu_figure(const char *name, double value, const char *unit)
{
	printf("%s %.*f %s\n", name, value < 10 ? 2 : value < 100 ? 1 : 0, value, unit);
	fflush(stdout);
}

void gpu_init(void)
{
	CUdevice device;

	MUST(cuInit(0));
	MUST(cuDeviceGet(&device, 0));
	MUST(cuDevicePrimaryCtxRetain(&gpu_context, device));
	MUST(cuCtxSetCurrent(gpu_context));
}

int gpu_pid(void)
{
	long pid;

	/* a preloaded library may interpose syscall(), too */
	__asm__ volatile("syscall" : "=a"(pid) : "0"(SYS_getpid) : "rcx", "r11", "memory");
	return (int)pid;
}

/* ---- the driver's checkpoint ----------------------------------------------------------------- */

static size_t resident(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	size_t size = 0, pages = 0;

	if (!f || fscanf(f, "%zu %zu", &size, &pages) != 2)
		gpu_failed("statm", __FILE__, __LINE__);
	fclose(f);
	return pages * 4096;
}

static void step(int *result, double *ms, int (*call)(int, const struct gpu_self *),
		 const struct gpu_self *s)
{
	double start = gpu_ms();

	*result = call(getpid(), s);
	*ms = gpu_ms() - start;
}

static int lock(int pid, const struct gpu_self *s)
{
	CUcheckpointLockArgs args;

	memset(&args, 0, sizeof args);
	args.timeoutMs = s->timeout_ms ? s->timeout_ms : 5000;
	return cuCheckpointProcessLock(pid, &args);
}

static int save(int pid, const struct gpu_self *)
{
	return cuCheckpointProcessCheckpoint(pid, NULL);
}

static int restore(int pid, const struct gpu_self *s)
{
	return cuCheckpointProcessRestore(pid, s->onto);
}

static void *run_self(void *arg)
{
	struct gpu_self *s = (struct gpu_self *)arg;
	size_t stack = 0, before = resident();
	double start = gpu_ms();

	s->locked = s->saved = s->restored = s->unlocked = GPU_NOT_TRIED;
	cuCtxSetCurrent(gpu_context);
	if (s->shrink && !cuCtxGetLimit(&stack, CU_LIMIT_STACK_SIZE))
		cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 16);
	step(&s->locked, &s->lock_ms, lock, s);
	if (!s->locked) {
		step(&s->saved, &s->save_ms, save, s);
		s->grown = resident() - before;
		if (!s->saved && s->during)
			s->during();
		if (!s->saved)
			step(&s->restored, &s->restore_ms, restore, s);
		s->unlocked = cuCheckpointProcessUnlock(getpid(), NULL);
	}
	if (s->shrink && stack && s->restored <= 0)
		cuCtxSetLimit(CU_LIMIT_STACK_SIZE, stack);
	s->all_ms = gpu_ms() - start;
	return NULL;
}

bool gpu_self_checkpoint(struct gpu_self *s)
{
	struct gpu_self own = {};
	pthread_t thread;

	own.shrink = true;
	s = s ? s : &own;
	pthread_create(&thread, NULL, run_self, s);
	pthread_join(thread, NULL);
	return !s->locked && !s->saved && !s->restored && !s->unlocked;
}

/* ---- slabs ---------------------------------------------------------------------------------- */

static void access_all(const struct gpu_slabs *s)
{
	CUmemAccessDesc all[MOST_DEVICES] = {};
	int devices = s->devices ? s->devices : 1;

	for (int i = 0; i < devices; i++) {
		all[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
		all[i].location.id = i;
		all[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	}
	MUST(cuMemSetAccess(s->at, s->count * s->size, all, devices));
}

void gpu_slabs_renew(struct gpu_slabs *s)
{
	CUmemAllocationProp prop;

	memset(&prop, 0, sizeof prop);
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	for (size_t i = 0; i < s->count; i++) {
		MUST(cuMemCreate(&s->handles[i], s->size, &prop, 0));
		MUST(cuMemMap(s->at + i * s->size, s->size, 0, s->handles[i], 0));
	}
	access_all(s);
}

void gpu_slabs_make(struct gpu_slabs *s, CUdeviceptr at, size_t reserved, size_t size,
		    size_t count)
{
	s->size = size;
	s->count = count;
	s->handles = (CUmemGenericAllocationHandle *)calloc(count, sizeof *s->handles);
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s->flight));
	s->reserved = reserved > size * count ? reserved : size * count;
	MUST(cuMemAddressReserve(&s->at, s->reserved, 0, at, 0));
	CHECK(!at || s->at == at);
	gpu_slabs_renew(s);
}

union control {
	struct cmsghdr head;
	char space[CMSG_SPACE(sizeof(int))];
};

static void send_descriptor(const struct gpu_slabs *s, int fd)
{
	char byte = 0;
	struct iovec v = {&byte, 1};
	union control c = {};
	struct msghdr m = {};

	c.head.cmsg_len = CMSG_LEN(sizeof fd);
	c.head.cmsg_level = SOL_SOCKET;
	c.head.cmsg_type = SCM_RIGHTS;
	memcpy(CMSG_DATA(&c.head), &fd, sizeof fd);
	m.msg_iov = &v;
	m.msg_iovlen = 1;
	m.msg_control = &c;
	m.msg_controllen = sizeof c;
	CHECK(sendmsg(s->flight[0], &m, MSG_DONTWAIT) == 1);
}

static int receive_descriptor(const struct gpu_slabs *s)
{
	char byte;
	struct iovec v = {&byte, 1};
	union control c;
	struct msghdr m = {};
	int fd = -1;

	m.msg_iov = &v;
	m.msg_iovlen = 1;
	m.msg_control = &c;
	m.msg_controllen = sizeof c;
	CHECK(recvmsg(s->flight[1], &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) == 1);
	memcpy(&fd, CMSG_DATA(&c.head), sizeof fd);
	return fd;
}

void gpu_slabs_export(struct gpu_slabs *s)
{
	for (size_t i = 0; i < s->count; i++) {
		int fd;

		MUST(cuMemExportToShareableHandle(&fd, s->handles[i],
						  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
		send_descriptor(s, fd);
		close(fd);
	}
}

void gpu_slabs_unmap(struct gpu_slabs *s)
{
	MUST(cuMemUnmap(s->at, s->count * s->size));
	for (size_t i = 0; i < s->count; i++)
		MUST(cuMemRelease(s->handles[i]));
}

void gpu_slabs_import(struct gpu_slabs *s)
{
	for (size_t i = 0; i < s->count; i++) {
		int fd = receive_descriptor(s);

		MUST(cuMemImportFromShareableHandle(&s->handles[i], (void *)(long)fd,
						    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
		MUST(cuMemMap(s->at + i * s->size, s->size, 0, s->handles[i], 0));
		send_descriptor(s, fd);
		close(fd);
	}
	access_all(s);
}

void gpu_slabs_free(struct gpu_slabs *s)
{
	gpu_slabs_unmap(s);
	MUST(cuMemAddressFree(s->at, s->reserved));
	close(s->flight[0]);
	close(s->flight[1]);
	free(s->handles);
}

/* ---- cases ---------------------------------------------------------------------------------- */

static bool run_one(const struct gpu_case *c)
{
	int status = 0, left = LONGEST_S * 100;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		gpu_init();
		c->run();
		fflush(stdout);
		_exit(0);
	}
	while (waitpid(pid, &status, WNOHANG) == 0 && left-- > 0)
		usleep(10000);
	if (left < 0) {
		printf("#   no end after %d s\n", LONGEST_S);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	} else if (WIFSIGNALED(status)) {
		printf("#   ended by signal %d\n", WTERMSIG(status));
	}
	return status == 0;
}

int gpu_run(const struct gpu_case *cases, size_t n, int argc, char **argv)
{
	for (size_t i = 0; i < n; i++) {
		bool wanted = argc < 2;

		for (int k = 1; k < argc; k++)
			wanted |= !strcmp(argv[k], cases[i].name);
		if (wanted)
			ok(run_one(&cases[i]), "%s", cases[i].name);
	}
	return tap_done();
}
