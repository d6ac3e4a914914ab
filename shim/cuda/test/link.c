/* SPDX-License-Identifier: Apache-2.0
 * The CUDA thread and its agent on the fake driver: check, drain and resume, and the obstacles to a
 * checkpoint. */
#define _GNU_SOURCE
#include <errno.h>
#include <glob.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/cuda/test/link_agent.h"
#include "test/support/tap.h"

#define SUM (3 << 20)      /* of the bytes of cuda_rank's memory */
#define LIMIT_MS 10000
#define WATCHDOG_MS 60000
#define NOT_READY 600

/* A whole checkpoint. */
static void whole(void)
{
	struct cuda_rank r;

	cuda_rank_start(&r, NULL);
	ok(all_of(!r.cuda.hello.restored, r.cuda.hello.state),
	   "the CUDA thread sends HELLO after cuInit");
	is_int((long long)cuda_state(&r).magic, GCK_CUDA_STATE_MAGIC,
	       "HELLO has the address of the CUDA state");
	is_str(cuda_look(&r), "", "there is no obstacle");
	is_int(cuda_tell(&r, "stack"), 1024, "the context has a stack limit");
	ok(cuda_drain(&r, 7, LIMIT_MS), "drained: %s", text);
	is_int((long long)cuda_state(&r).drained_for, 7,
	       "its state has the number of the checkpoint");
	cuda_begin(&r, "sum");
	is_int(cuda_answer(&r, 200), -1000, "a call waits while the rank is drained");
	cuda_link_say(&r.cuda, GCK_LINK_CUDA_HOLD, 7);
	ok(cuda_resume(&r, 7, NULL), "resumed: %s", text);
	is_int(cuda_answer(&r, WAIT_MS), SUM,
	       "after the resume the call goes on and finds its data");
	is_int((long long)cuda_state(&r).drained_for, 0, "its state forbids an image again");
	is_int(cuda_tell(&r, "stack"), 1024, "the stack limit is unchanged");
	is_int(cuda_tell(&r, "context"), 0, "the program makes another context");
	ok(all_of(cuda_drain(&r, 8, LIMIT_MS), cuda_resume(&r, 8, NULL)),
	   "it is drained and resumed again: %s", text);
	is_int(cuda_tell(&r, "stack"), 4096, "each context has its own limit");
	is_int(cuda_rank_end(&r), 0, "the rank ends well");
}

static const char *uvm_requests(void)
{
	static char requests[200];
	FILE *f = fopen(getenv("FAKE_CUDA_UVM"), "re");
	size_t n = f ? fread(requests, 1, sizeof requests - 1, f) : 0;

	requests[n] = '\0';
	if (f)
		fclose(f);
	return requests;
}

/* Whether one of the rank's threads has a descriptor of the kernel's memory manager. */
static bool is_registered(const struct cuda_rank *r)
{
	char pattern[80], to[64];
	bool found = false;
	glob_t fds;

	snprintf(pattern, sizeof pattern, "/proc/%d/task/*/fd/*", r->rank.pid);
	glob(pattern, GLOB_NOSORT, NULL, &fds);
	for (size_t i = 0; i < fds.gl_pathc; i++) {
		ssize_t n = readlink(fds.gl_pathv[i], to, sizeof to - 1);

		to[n > 0 ? n : 0] = '\0';
		found |= strstr(to, "nvidia-uvm") != NULL;
	}
	globfree(&fds);
	return found;
}

/* The devices stay registered with the kernel while the driver is down. */
static void registered(void)
{
	char path[] = "/tmp/gck-uvm-XXXXXX";
	struct cuda_rank r;

	close(mkstemp(path));
	setenv("FAKE_CUDA_UVM", path, 1);
	setenv("FAKE_CUDA_DEVICES", "2", 1);
	cuda_rank_start(&r, NULL);
	ok(cuda_drain(&r, 1, LIMIT_MS), "drained: %s", text);
	is_str(uvm_requests(), "initialize\nregister f\nregister f\n",
	       "a drain registers both devices");
	ok(is_registered(&r), "they are registered while the driver is down");
	ok(cuda_resume(&r, 1, NULL), "resumed: %s", text);
	for (int ms = 0; ms < WAIT_MS && is_registered(&r); ms += 20)
		pause_ms(20);
	ok(!is_registered(&r), "after the resume they are not");
	is_int(cuda_rank_end(&r), 0, "the rank ends well");
	unsetenv("FAKE_CUDA_DEVICES");
	unsetenv("FAKE_CUDA_UVM");
	unlink(path);
}

/* The rank's work does not end: the drain is refused, and the rank is unharmed. */
static void busy(const char *word, const char *end, const char *wanted, const char *name)
{
	struct cuda_rank r;

	cuda_rank_start(&r, NULL);
	cuda_tell(&r, "spin");
	if (*word)
		cuda_tell(&r, word);
	ok(all_of(!cuda_drain(&r, 1, 700), strstr(text, wanted)), "%s: %s", name, text);
	is_int(cuda_tell(&r, end), 0, "the program goes on");
	ok(all_of(cuda_drain(&r, 2, LIMIT_MS), cuda_resume(&r, 2, NULL)),
	   "a later checkpoint succeeds: %s", text);
	is_int(cuda_tell(&r, "sum"), SUM, "the program has its data");
	cuda_rank_end(&r);
}

static void destroyed(void)
{
	struct cuda_rank r;

	cuda_rank_start(&r, NULL);
	cuda_tell(&r, "destroyed");
	ok(all_of(!cuda_drain(&r, 1, 300), strstr(text, "one that was destroyed")),
	   "a drain sees work on a destroyed stream: %s", text);
	cuda_tell(&r, "stop");
	ok(all_of(cuda_drain(&r, 2, LIMIT_MS), cuda_resume(&r, 2, NULL)),
	   "a drain after the end of that work succeeds: %s", text);
	cuda_rank_end(&r);
}

/* An event or a query of the wrong stream ends a capture: the fake driver is as strict as the real
 * one. */
static void capture(void)
{
	struct cuda_rank r;

	cuda_rank_start(&r, NULL);
	cuda_tell(&r, "capture");
	ok(all_of(cuda_drain(&r, 1, LIMIT_MS), cuda_resume(&r, 1, NULL)),
	   "a rank with a stream in capture is drained: %s", text);
	is_int(cuda_tell(&r, "captured"), 0, "its capture survives");
	cuda_tell(&r, "blocking");
	cuda_tell(&r, "capture");
	ok(all_of(cuda_drain(&r, 2, LIMIT_MS), cuda_resume(&r, 2, NULL)),
	   "a rank with a blocking stream in capture is drained: %s", text);
	is_int(cuda_tell(&r, "captured"), 0, "the blocking stream's capture survives");
	is_int(cuda_tell(&r, "green"), 0,
	       "the program has a stream of a green context, which is not listed");
	cuda_tell(&r, "capture");
	ok(all_of(cuda_drain(&r, 5, LIMIT_MS), cuda_resume(&r, 5, NULL)),
	   "with that stream in capture it is drained: %s", text);
	is_int(cuda_tell(&r, "captured"), 0, "the green context's capture survives");
	cuda_tell(&r, "destroyed");
	cuda_tell(&r, "capture");
	ok(all_of(!cuda_drain(&r, 3, 300), strstr(text, "did not end within")),
	   "a drain waits for work that only the driver sees: %s", text);
	cuda_tell(&r, "stop");
	is_int(cuda_tell(&r, "captured"), 0, "the capture survives the refused drain");
	ok(all_of(cuda_drain(&r, 4, LIMIT_MS), cuda_resume(&r, 4, NULL)),
	   "the next drain succeeds: %s", text);
	cuda_rank_end(&r);
}

static void capture_beside_failure(void)
{
	struct cuda_rank r;

	cuda_rank_start(&r, "cuMemcpyDtoDAsync_v2:1=999");
	r.cuda.keep = 1;
	cuda_tell(&r, "capture");
	ok(all_of(!cuda_drain(&r, 1, LIMIT_MS), strstr(text, "copying")),
	   "a copy on the device fails: %s", text);
	is_int(cuda_tell(&r, "captured"), 0, "a capture survives the failure");
	ok(all_of(cuda_drain(&r, 2, LIMIT_MS), cuda_resume(&r, 2, NULL)),
	   "the next drain succeeds: %s", text);
	cuda_rank_end(&r);
}

/* After cuCtxDestroy has failed the rank can still be checkpointed. */
static void contexts(void)
{
	static const char *const wrong[] = {
		"destroying no context fails", "destroying a context twice fails",
		"destroying a primary context fails",
		"destroying a context whose work has failed fails"};
	char word[32];

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct cuda_rank r;

		cuda_rank_start(&r, NULL);
		snprintf(word, sizeof word, "destroy %zu", i);
		is_int(cuda_tell(&r, word), 0, wrong[i]);
		ok(all_of(cuda_drain(&r, 1, LIMIT_MS), cuda_resume(&r, 1, NULL)),
		   "the rank is drained and resumed: %s", text);
		is_int(cuda_tell(&r, "sum"), SUM, "the program has its data");
		cuda_rank_end(&r);
	}
}

static void lockstep(void)
{
	struct cuda_rank r;

	cuda_rank_start(&r, NULL);
	cuda_begin(&r, "lockstep");
	cuda_link_ask_drain(&r.cuda, 1, LIMIT_MS, WATCHDOG_MS);
	is_int(cuda_hear(&r, WAIT_MS), GCK_LINK_CUDA_DRAINED,
	       "a callback waits for a lock of a thread at the gate: no deadlock");
	if (value == 0)
		cuda_resume(&r, 1, NULL);
	is_int(cuda_answer(&r, WAIT_MS), 0, "the program goes on");
	cuda_rank_end(&r);
}

static void obstacle(const char *word, const char *wanted, const char *undo)
{
	struct cuda_rank r;

	/* The drain must not begin: the driver would refuse every later checkpoint. */
	cuda_rank_start(&r, "cuCheckpointProcessLock=999");
	cuda_tell(&r, word);
	ok(all_of(strstr(cuda_look(&r), wanted), !strstr(cuda_look(&r), "times")),
	   "able names %s once", wanted);
	ok(all_of(!cuda_drain(&r, 1, LIMIT_MS), strstr(text, wanted)),
	   "a drain is refused: %s", text);
	if (undo) {
		is_int(cuda_tell(&r, undo), 0, "the program gives the object up");
		is_str(cuda_look(&r), "", "able names it no longer");
	}
	is_int(cuda_tell(&r, "sum"), SUM, "the program goes on");
	cuda_rank_end(&r);
}

/* Memory of another process by cuIpcOpenMemHandle; memory on slabs cannot be exported that way. */
static void memory_of_another(void)
{
	int fd = memfd_create("theirs", 0);
	struct cuda_rank r;
	char word[32];

	snprintf(word, sizeof word, "ipc %d", fd);
	if (fd < 0 || ftruncate(fd, 1 << 20))
		exit(99);
	obstacle(word, "memory of another process (cuIpcOpenMemHandle)", "ipc close");
	close(fd);
	cuda_rank_start(&r, NULL);
	is_int(cuda_tell(&r, "own handle"), 1,
	       "memory on slabs cannot be exported: CUDA_ERROR_INVALID_VALUE");
	is_str(cuda_look(&r), "", "the attempt is no obstacle");
	cuda_rank_end(&r);
}

/* The obstacle is found when the module is loaded. */
static void variable_of_library(void)
{
	struct cuda_rank r;

	cuda_rank_start(&r, NULL);
	is_int(cuda_tell(&r, "library"), 0,
	       "the program loads a library with a __managed__ variable");
	ok(strstr(cuda_look(&r), "a __managed__ variable"), "able names it");
	is_int(cuda_tell(&r, "unload library"), 0, "the program unloads the library");
	is_str(cuda_look(&r), "", "able names it no longer");
	cuda_rank_end(&r);
}

/* Without a stack limit libc is mapped at other addresses. */
static void variable_without_stack_limit(void)
{
	struct rlimit before, most;

	getrlimit(RLIMIT_STACK, &before);
	most = (struct rlimit){before.rlim_max, before.rlim_max};
	setrlimit(RLIMIT_STACK, &most);
	obstacle("variable", "a __managed__ variable", "unload");
	setrlimit(RLIMIT_STACK, &before);
}

/* A thread uses pinned memory all the time, even write-combined memory. */
static void write_combined(void)
{
	struct cuda_rank r;

	cuda_rank_start(&r, NULL);
	is_int(cuda_tell(&r, "combined"), 0,
	       "a thread writes to write-combined memory all the time");
	ok(cuda_drain(&r, 1, LIMIT_MS), "drained: %s", text);
	pause_ms(20);
	ok(cuda_resume(&r, 1, NULL), "resumed: %s", text);
	is_int(cuda_tell(&r, "sum"), SUM, "the rank goes on");
	cuda_rank_end(&r);
}

/* The CPU uses managed memory all the time. */
static void managed(void)
{
	struct cuda_rank r;

	cuda_rank_start(&r, NULL);
	is_int(cuda_tell(&r, "model"), 0, "a thread counts in managed memory all the time");
	is_str(cuda_look(&r), "", "managed memory is no obstacle");
	for (uint64_t seq = 1; seq < 6; seq++) {
		is_int(cuda_tell(&r, "steps"), 0, "the program uses it at random");
		ok(cuda_drain(&r, seq, LIMIT_MS), "drained: %s", text);
		pause_ms(20);
		ok(cuda_resume(&r, seq, NULL), "resumed: %s", text);
	}
	is_int(cuda_tell(&r, "steps"), 0, "the program uses it at random after the last resume");
	is_int(cuda_tell(&r, "model ends"), 0, "no data is lost");
	is_int(cuda_state(&r).managed_mib, 32, "its state has the size of its managed memory");
	is_int((long long)cuda_state(&r).device_bytes, 64ll << 20,
	       "empty managed memory is freed, except for 64 MiB");
	is_int(cuda_rank_end(&r), 0, "the rank ends well");
}

/* Memory that a pool only caches is not copied, and stays in the pool. */
static void pools(void)
{
	struct cuda_rank r;

	cuda_rank_start(&r, "cuDeviceGraphMemTrim=801");
	is_int(cuda_tell(&r, "pools"), 0, "a program has stream-ordered memory");
	is_int(cuda_tell(&r, "reserved"), 24, "its pools keep freed memory");
	ok(all_of(cuda_drain(&r, 1, LIMIT_MS), cuda_resume(&r, 1, NULL)),
	   "drained and resumed: %s", text);
	is_int(cuda_tell(&r, "reserved"), 24,
	       "after a checkpoint they still do, and used memory has its contents");
	cuda_rank_end(&r);
}

/* Drains between the steps of a program that uses stream-ordered memory. */
static void in_order(void)
{
	struct cuda_rank r;

	cuda_rank_start(&r, NULL);
	is_int(cuda_tell(&r, "order"), 0, "a program has stream-ordered memory");
	for (uint64_t seq = 1; seq < 6; seq++) {
		is_int(cuda_tell(&r, "order steps"), 0, "the program uses it at random");
		ok(cuda_drain(&r, seq, LIMIT_MS), "drained: %s", text);
		ok(cuda_resume(&r, seq, NULL), "resumed: %s", text);
	}
	is_int(cuda_tell(&r, "order steps"), 0,
	       "the program uses it at random after the last resume");
	is_int(cuda_tell(&r, "order ends"), 0, "no data is lost");
	cuda_rank_end(&r);
}

/* A debugger traces the rank: its threads cannot be stopped, so the drain is refused at once. */
static void traced(void)
{
	struct cuda_rank r;

	cuda_rank_start(&r, NULL);
	cuda_tell(&r, "managed");
	is_int(ptrace(PTRACE_SEIZE, r.rank.pid, 0, 0), 0, "a debugger traces a rank");
	ok(all_of(!cuda_drain(&r, 1, LIMIT_MS), strstr(text, "cannot be traced")),
	   "its drain is refused: %s", text);
	is_int(cuda_tell(&r, "sum"), SUM, "the program goes on");
	ptrace(PTRACE_INTERRUPT, r.rank.pid, 0, 0);
	waitpid(r.rank.pid, NULL, __WALL);
	ptrace(PTRACE_DETACH, r.rank.pid, 0, 0);
	ok(all_of(cuda_drain(&r, 2, LIMIT_MS), cuda_resume(&r, 2, NULL)),
	   "a drain after the debugger's end succeeds: %s", text);
	is_int(cuda_tell(&r, "unmanaged"), 0, "the program frees its managed memory");
	cuda_rank_end(&r);
}

/* Wait until the rank's anonymous memory is down to kib, with some tolerance. */
static bool comes_down_to(const struct cuda_rank *r, long kib)
{
	for (int ms = 0; ms < WAIT_MS && cuda_anonymous_kib(r) > kib + 8192; ms += 20)
		pause_ms(20);
	return cuda_anonymous_kib(r) <= kib + 8192;
}

/* The copy of device memory is in host memory only until the resume. */
static void host_memory(void)
{
	struct cuda_rank r;
	long before;

	cuda_rank_start(&r, NULL);
	cuda_tell(&r, "more");
	before = cuda_anonymous_kib(&r);
	ok(cuda_drain(&r, 1, LIMIT_MS), "drained: %s", text);
	ok(cuda_anonymous_kib(&r) >= before + (64 << 10),
	   "the device's 64 MiB are in host memory");
	ok(cuda_resume(&r, 1, NULL), "resumed: %s", text);
	ok(comes_down_to(&r, before), "the resume frees that host memory");
	ok(cuda_state(&r).device_bytes == 96ull << 20,
	   "the rank's state has the size of its device memory");
	cuda_tell(&r, "less");
	ok(cuda_state(&r).device_bytes == 32ull << 20, "the size goes down when memory is freed");
	cuda_rank_end(&r);

	cuda_rank_start(&r, "cuCheckpointProcessLock:1=600");
	cuda_tell(&r, "more");
	before = cuda_anonymous_kib(&r);
	ok(!cuda_drain(&r, 1, LIMIT_MS), "a drain fails: %s", text);
	ok(comes_down_to(&r, before), "the failure frees the host memory");
	cuda_rank_end(&r);
}

/* A copy takes longer than the limit of the drain, on any machine. */
static void too_slow(void)
{
	struct cuda_rank r;

	setenv("FAKE_CUDA_SLOW", "cuMemcpyDtoHAsync_v2=2000", 1);
	cuda_rank_start(&r, NULL);
	unsetenv("FAKE_CUDA_SLOW");
	ok(all_of(!cuda_drain(&r, 1, 1500), value == ETIMEDOUT, strstr(text, "memory")),
	   "a drain with a copy that takes too long fails: %s", text);
	is_int(cuda_tell(&r, "sum"), SUM, "the program goes on");
	ok(all_of(cuda_drain(&r, 2, WAIT_MS), cuda_resume(&r, 2, NULL)),
	   "with more time it succeeds: %s", text);
	is_int(cuda_tell(&r, "sum"), SUM, "the program has its data");
	cuda_rank_end(&r);
}

/* The name of the driver's socket cannot collide with that of another process. */
static void socket_name(void)
{
	struct cuda_rank r;
	char line[512], wanted[64];
	int plain = 0, own = 0;
	FILE *f;

	cuda_rank_start(&r, NULL);
	snprintf(wanted, sizeof wanted, "@cuda-uvmfd-4711-%d", r.rank.pid);
	f = fopen("/proc/net/unix", "r");
	while (f && fgets(line, sizeof line, f)) {
		const char *at = strstr(line, wanted);

		own += at && at[strlen(wanted)] == '-' && strlen(at) >= strlen(wanted) + 17;
		plain += at && at[strlen(wanted)] != '-';
	}
	fclose(f);
	ok(all_of(own == 1, plain == 0),
	   "the name of the driver's socket is unique to the process");
	cuda_rank_end(&r);
}

/* The agent is silent, or gone. */
static void alone(void)
{
	struct cuda_rank r;

	cuda_rank_start(&r, NULL);
	cuda_link_ask_drain(&r.cuda, 1, LIMIT_MS, 300);
	is_int(cuda_hear(&r, WAIT_MS), GCK_LINK_CUDA_DRAINED, "drained");
	cuda_begin(&r, "sum");
	is_int(cuda_hear(&r, WAIT_MS), GCK_LINK_CUDA_RESUMED,
	       "it resumes when its watchdog expires");
	is_int(cuda_answer(&r, WAIT_MS), SUM, "the program goes on");
	ok(cuda_drain(&r, 2, LIMIT_MS), "drained again");
	close(r.cuda.fd);
	r.cuda.fd = -1;
	is_int(cuda_tell(&r, "sum"), SUM, "it resumes when its agent has gone");
	ok(all_of(cuda_accept(&r, WAIT_MS), !r.cuda.hello.restored), "it connects to a new agent");
	ok(all_of(cuda_drain(&r, 3, LIMIT_MS), cuda_resume(&r, 3, NULL)),
	   "the new agent can drain it");
	cuda_rank_end(&r);
}

static bool uses_cuda(const struct cuda_rank *r, const struct gck_link_hello *hello)
{
	uint64_t address = 0;

	agent_peek(r->rank.pid, hello->state + offsetof(struct gck_shim_state, cuda_state),
		   &address, sizeof address);
	return address != 0;
}

/* cuInit opens devices, before there is a CUDA thread: a checkpoint must know why. */
static void starts(void)
{
	char file[] = "/tmp/gpuckpt-cuda-slow-XXXXXX", slow[64];
	struct gck_link_hello hello;
	struct cuda_rank r;

	close(mkstemp(file));
	snprintf(slow, sizeof slow, "cuInit=%d@%s", WAIT_MS, file);
	setenv("FAKE_CUDA_SLOW", slow, 1);
	cuda_rank_launch(&r, NULL, &hello);
	unsetenv("FAKE_CUDA_SLOW");
	ok(!uses_cuda(&r, &hello), "a rank does not use CUDA");
	cuda_begin(&r, "init");
	for (int ms = 0; ms < WAIT_MS && !uses_cuda(&r, &hello); ms += 5)
		pause_ms(5);
	ok(all_of(uses_cuda(&r, &hello), !cuda_accept(&r, 0)),
	   "it says that it does before cuInit ends");
	unlink(file);
	is_int(cuda_answer(&r, WAIT_MS), 0, "cuInit ends");
	ok(cuda_accept(&r, WAIT_MS), "then it has a CUDA thread");
	cuda_rank_end(&r);

	cuda_rank_launch(&r, "cuInit=100", &hello);
	cuda_tell(&r, "init");
	ok(!uses_cuda(&r, &hello), "a rank whose cuInit fails does not use CUDA");
	cuda_rank_end(&r);
}

/* exit() shuts the driver down: neither during a checkpoint nor on the way back. */
static void exits(void)
{
	struct cuda_rank r;

	cuda_rank_start(&r, NULL);
	ok(cuda_drain(&r, 1, LIMIT_MS), "drained: %s", text);
	cuda_begin(&r, "exit");
	is_int(cuda_answer(&r, 200), -1000, "a program in exit() waits while the rank is drained");
	ok(cuda_resume(&r, 1, NULL), "resumed: %s", text);
	is_int(cuda_answer(&r, WAIT_MS), 0, "its exit() goes on");
	ok(all_of(!cuda_drain(&r, 2, 500), strstr(text, "is in exit")),
	   "from then on a drain is refused: %s", text);
	is_int(cuda_rank_end(&r), 0, "the program ends well");
}

/* It refuses nothing. */
static void kernel_without_points(void)
{
	struct cuda_rank r;

	setenv("GPUCKPT_KERNELS", "loops,barred", 1);
	cuda_rank_start(&r, NULL);
	unsetenv("GPUCKPT_KERNELS");
	is_int(cuda_tell(&r, "ptx"), 0, "a program loads PTX, and two of its kernels are named");
	is_str(cuda_look(&r), "kernel barred;it has no points: PTX line 33: a named barrier;"
	       "doc/kernels.md has what is refused; or leave it out of kernels=\n",
	       "able names the one that cannot have points");
	ok(all_of(cuda_drain(&r, 1, LIMIT_MS), cuda_resume(&r, 1, NULL)), "it refuses nothing");
	is_int(cuda_rank_end(&r), 0, "the program ends");
}

int main(void)
{
	setenv("GPUCKPT_CUDA_LIBRARY", GCK_TEST_DRIVER, 1);
	whole();
	registered();
	busy("", "stop", "stream 0x", "a drain fails beside a kernel that waits for the host");
	busy("waiter", "stop", "(waiter) is in cuStreamSynchronize",
	     "a drain fails beside a thread that waits for that kernel");
	destroyed();
	capture();
	capture_beside_failure();
	contexts();
	lockstep();
	setenv("FAKE_CUDA_CONCURRENT", "0", 1);
	obstacle("managed", "managed memory", "unmanaged");
	unsetenv("FAKE_CUDA_CONCURRENT");
	managed();
	traced();
	pools();
	in_order();
	kernel_without_points();
	obstacle("event", "an event of another process", NULL);
	obstacle("future", "cuFakeFuture", NULL);
	obstacle("use cuGLInit", "OpenGL", NULL);
	obstacle("use cudbgApiInit", "a debugger of CUDA programs", NULL);
	obstacle("use cuMemGetAttribute", "cuMemGetAttribute", NULL);
	obstacle("use cuEGLStreamConsumerConnect", "EGL with CUDA", NULL);
	obstacle("use cuVDPAUGetDevice", "VDPAU with CUDA", NULL);
	memory_of_another();
	obstacle("import pool", "a memory pool of another process", "drop pool");
	obstacle("import memory", "memory of another interface", "drop memory");
	obstacle("import semaphore", "a semaphore of another interface", "drop semaphore");
	obstacle("multicast", "a multicast object", NULL);
	obstacle("allow host", "access of the host to memory made by cuMemCreate",
		 "unmap for host");
	obstacle("host", "memory of the host made by cuMemCreate", NULL);
	obstacle("variable", "a __managed__ variable", "unload");
	variable_of_library();
	variable_without_stack_limit();
	write_combined();
	host_memory();
	too_slow();
	socket_name();
	alone();
	starts();
	exits();
	return tap_done();
}
