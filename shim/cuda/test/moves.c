/* SPDX-License-Identifier: Apache-2.0
 * A rank with two devices is killed and restored on a node with other devices, with the same in
 * another order, or with none that fit. The file FAKE_CUDA_NODE lists the fake node's devices. */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shim/cuda/base/state.h"
#include "shim/process/gpu/gpu_type.c"
#include "shim/process/gpu/gpus.c"
#include "test/support/cuda_link.h"
#include "test/support/lineage.h"
#include "test/support/tap.h"

static struct lineage l;
static struct cuda_link cuda = {.fd = -1};
static char folder[] = "/tmp/gck-node-XXXXXX", node[64], library[64];

/* ---- the choice of devices ------------------------------------------------------------------- */

/* "aH bH": devices by letter of UUID and name; "-": a device that the process does not see. */
static struct gck_cuda_devices devices(const char *text, const char *driver)
{
	struct gck_cuda_devices d = {0};

	snprintf(d.driver, sizeof d.driver, "%s", driver);
	for (; *text; text += text[2] ? 3 : 2, d.all++) {
		memset(d.v[d.all].uuid, text[0], sizeof d.v[d.all].uuid);
		if (text[1] == '-')
			continue;
		snprintf(d.v[d.all].name, sizeof d.v[d.all].name, "%.1s100", text + 1);
		d.n++;
	}
	return d;
}

static bool replays; /* cuda=replay */

static const char *chosen(const char *was, const char *visible, const char *here,
			  const char *driver)
{
	static char text[sizeof((struct gck_error *)0)->text];
	struct gck_cuda_state s = {.devices = devices(was, "580"), .nonto = 99,
				   .replays = replays};
	const struct gck_cuda_here now = {.devices = devices(here, driver)};
	struct gck_error err = {0};

	snprintf(s.visible, sizeof s.visible, "%s", visible);
	if (driver_suits(&s, &now, &err) || choose(&s, "", &now.devices, &err)) {
		snprintf(text, sizeof text, "%s", s.nonto == 99 ? err.text : "changed");
		return text;
	}
	for (uint32_t i = 0; i < s.nonto; i++)
		text[i] = (char)s.onto[i][0];
	text[s.nonto] = '\0';
	return text;
}

static void test_choice(void)
{
	is_str(chosen("aH bH", "", "aH bH", "580"), "", "the same devices are used again");
	is_str(chosen("aH bH", "", "bH aH", "580"), "", "also in another order");
	is_str(chosen("bH", "1", "aH bH cH", "580"), "", "also among other devices");
	is_str(chosen("aH bH", "", "cH dH", "580"), "cd", "other devices are used in their order");
	is_str(chosen("aH bH", "", "bH cH", "580"), "bc",
	       "some of the same devices, in another place, are used in their order");
	is_str(chosen("aH", "", "cH dH", "580"), "c",
	       "of more devices than the image had the first is used");
	is_str(chosen("bH", "1", "cH dH", "580"), "d",
	       "a rank that chose a device gets the one in the same place");
	is_str(chosen("aH bH", "3,1", "cH dH eH fH", "580"), "fd",
	       "a rank that chose two gets those in the same places");
	is_str(chosen("aH bH", "3,4", "cH dH eH fH", "580"), "cd",
	       "unless one of the places is missing");
	is_str(chosen("aH", "GPU-5", "cH dH", "580"), "c", "or the devices were named by UUID");
	is_str(chosen("aH b-", "0", "bH a-", "580"), "ba",
	       "devices that the rank does not see change places");
	is_str(chosen("bH a-", "1", "bH c-", "580"), "", "they stay if the seen device stays");
	is_str(chosen("aH b- c-", "", "dH eH fH", "580"), "def",
	       "each device of the image gets one");
	is_str(chosen("aH b-", "", "cH", "580"),
	       "the image's rank could open 2 GPUs, the one here can open 1, and the driver needs "
	       "one for each: restart it where as many can be opened",
	       "a task that may open fewer devices is refused");
	is_str(chosen("aH bH", "", "cH", "580"),
	       "the image has 2 GPUs (H100), the task here 1: restart it with as many GPUs for "
	       "each task",
	       "a task with fewer devices is refused");
	is_str(chosen("aH bH", "", "cH dA", "580"),
	       "GPU 1 of the image is a H100, the one for it here a A100: restart it on nodes with "
	       "GPUs of that type",
	       "another type is refused");
	is_str(chosen("aH", "", "aH", "590"),
	       "the image is of the NVIDIA driver 580, the one here is 590, which cannot restore "
	       "it: restart it on nodes with that driver",
	       "another driver is refused");
	replays = true;
	is_str(chosen("aH b-", "", "aH", "590"), "",
	       "not by a rank whose driver is loaded anew, nor fewer that may be opened");
	is_str(chosen("bH", "1", "aH bH cH", "590"), "b", "which sees as many as before");
	is_str(chosen("aH bH", "", "cH dH", "590"), "cd", "in their order");
	replays = false;
}

static void test_code(void)
{
	ok(has_code("sm_90", 90) && !has_code("sm_90", 80) && !has_code("sm_90", 100),
	   "compiled code is for GPUs of its major version");
	ok(has_code("sm_80", 86) && !has_code("sm_86", 80), "from its minor one");
	ok(has_code("compute_70", 120) && !has_code("compute_90", 89), "PTX for all later ones");
	ok(has_code("sm_90a compute_90a", 90) && !has_code("compute_90a", 100) &&
	   !has_code("sm_100a", 103), "what is for one GPU is for no other");
	ok(has_code("compute_100f", 103) && !has_code("compute_100f", 120),
	   "what is for a family is for its major version");
	ok(has_code("sm_80 sm_86 compute_80", 120), "one of a module's is enough");
	ok(!has_code("x", 90), "an unknown word is none");
}

static void test_sound(void)
{
	const struct gck_cuda_devices good = devices("aH bH c-", "580");
	struct gck_cuda_devices d = good;

	ok(is_list_sound(&d), "a list may have a device that the process does not see");
	d.n = d.all = GCK_CUDA_DEVICES_MAX;
	ok(is_list_sound(&d), "a list may have the largest number of devices");
	d.all++;
	ok(!is_list_sound(&d), "a list with one more is not sound");
	d = good;
	d.n = d.all + 1;
	ok(!is_list_sound(&d), "nor is one with more seen devices than devices");
	d = good;
	memset(d.driver, '5', sizeof d.driver);
	ok(!is_list_sound(&d), "nor is one with an unterminated version");
	d = good;
	memset(d.v[2].name, 'H', sizeof d.v[2].name);
	ok(!is_list_sound(&d), "nor is one with an unterminated name");
}

/* ---- a rank ---------------------------------------------------------------------------------- */

/* The letters of the devices that the rank's stand-in has recorded. */
static const char *letters(void)
{
	static char text[GCK_CUDA_DEVICES_MAX + 1];
	struct gck_cuda_state s;
	struct iovec to = {&s, sizeof s}, from = {(void *)(uintptr_t)cuda.hello.state, sizeof s};

	if (process_vm_readv(l.pid, &to, 1, &from, 1, 0) != (ssize_t)sizeof s)
		return "unreadable";
	for (uint32_t i = 0; i < s.devices.n; i++)
		text[i] = (char)s.devices.v[i].uuid[0];
	text[s.devices.n] = '\0';
	return text;
}

/* A checkpoint after which the rank runs on. */
static bool runs_on(void)
{
	return cuda_link_drain(&cuda, l.seq + 1) && lineage_checkpoint(&l) == 0 &&
	       cuda_link_resume(&cuda, l.seq);
}

/* The agent disconnects while the rank is drained. */
static bool runs_on_alone(void)
{
	if (!cuda_link_drain(&cuda, l.seq + 1))
		return false;
	close(cuda.fd);
	cuda.fd = -1;
	return cuda_link_join(&cuda, &l.agent, false);
}

/* A drain that fails before any memory has left the device. */
static bool drain_lacks_host_memory(void)
{
	bool drained;

	cuda.host_copy_max = 1;
	drained = cuda_link_drain(&cuda, l.seq + 1);
	cuda.host_copy_max = UINT64_MAX;
	return !drained;
}

/* A checkpoint that may leave a copy on the devices; the copy is not read. */
static bool continues_with_copies(bool copies)
{
	bool as_said;

	cuda.keep = 1;
	as_said = cuda_link_drain(&cuda, l.seq + 1) && !cuda.m.round == !copies;
	cuda.keep = 0;
	return as_said && cuda_link_resume(&cuda, l.seq + 1);
}

/* Checkpoint, kill, restore on a node with these devices. Returns whether CUDA is restored. */
static bool comes_back(const char *lines)
{
	if (!cuda_link_drain(&cuda, l.seq + 1) || lineage_checkpoint(&l))
		return false;
	lineage_kill(&l);
	cuda_node_has(node, lines);
	return lineage_restore(&l, l.seq) == 0 && cuda_link_join(&cuda, &l.agent, true) &&
	       cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED);
}

/* Write into the rank's state, checkpoint and kill it. Is its image refused for this? */
static bool refused_with(size_t member, void *value, size_t size, const char *why)
{
	uint64_t at = cuda.hello.state + member;
	struct iovec from = {value, size}, to = {(void *)(uintptr_t)at, size};

	if (!cuda_link_drain(&cuda, l.seq + 1) ||
	    process_vm_writev(l.pid, &from, 1, &to, 1, 0) != (ssize_t)size ||
	    lineage_checkpoint(&l))
		return false;
	lineage_kill(&l);
	return lineage_restore(&l, l.seq) != 0 && strstr(l.failure, why);
}

#define REFUSED_WITH(member, value, why) \
	refused_with(offsetof(struct gck_cuda_state, member), &(value), sizeof(value), why)

static bool comes_back_from(uint32_t seq)
{
	lineage_kill(&l);
	return lineage_restore(&l, seq) == 0 && cuda_link_join(&cuda, &l.agent, true) &&
	       cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED);
}

static void test_unsound(void)
{
	uint64_t no_end[] = {cuda.hello.state, 4}; /* where the list is, and its bytes */
	uint64_t too_long = GCK_CUDA_FUNCTIONS_SIZE + 1;
	uint32_t all = GCK_CUDA_DEVICES_MAX + 1, good = l.seq;

	ok(REFUSED_WITH(devices.all, all, "list of GPUs is invalid"),
	   "an image with more devices than there can be is refused");
	ok(comes_back_from(good), "the image before that one is restored");
	ok(REFUSED_WITH(functions_size, too_long, "list of GPUs is invalid"),
	   "so is one with too many functions");
	ok(comes_back_from(good), "the image before that one is restored");
	ok(REFUSED_WITH(code, no_end, "list of what it needs of the CUDA driver is invalid"),
	   "and one with a list without an end");
	ok(comes_back_from(good), "the image before that one is restored");
}

static void test_rank(void)
{
	static char program[] = "./cuda_work", *argv[] = {program, NULL};
	char alone[300];

	setenv("LD_LIBRARY_PATH", folder, 1);
	setenv("FAKE_CUDA_NODE", node, 1);
	cuda_node_has(node, "a H100\nb H100\n");
	if (lineage_begin(&l, "/dev/shm", argv))
		exit(99);
	is_int(lineage_alone(&l), 0, "the program runs alone");
	strcpy(alone, lineage_output(&l));
	ok(all_of(lineage_start(&l) == 0, cuda_link_join(&cuda, &l.agent, false)),
	   "the program starts as a rank");
	ok(cuda_link_has_memory(&cuda, l.pid), "it has device memory");
	is_str(letters(), "ab", "it has two devices");
	ok(runs_on(), "it goes on after a checkpoint");
	ok(comes_back("c H100\nd H100\n"), "it is restored on two other devices");
	is_str(letters(), "cd", "its state has the new devices");
	ok(drain_lacks_host_memory(), "a drain fails");
	ok(all_of(continues_with_copies(true), continues_with_copies(true)),
	   "checkpoints leave copies on both");
	ok(all_of(runs_on(), runs_on_alone(), runs_on()),
	   "it goes on after checkpoints there");
	ok(comes_back("d H100\nx A100\nc H100\n"),
	   "it is restored on a node with its devices in another order");
	is_str(letters(), "cd", "it has the same devices");
	ok(runs_on(), "it goes on after a checkpoint there");
	ok(all_of(comes_back("a H100\nb H100\n"), runs_on()),
	   "it is restored on its first devices and goes on");
	ok(comes_back("b H100\nc H100\n"), "it is restored on two that overlap with them");
	is_str(letters(), "bc", "the second of its first devices is its first one now");
	ok(all_of(continues_with_copies(true), runs_on()),
	   "checkpoints leave copies on both, and it goes on");
	setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
	ok(comes_back("e H100\nx A100\nf H100\n"),
	   "it is restored with the new task's choice of devices");
	is_str(letters(), "fe", "it has them in the task's order");
	ok(!comes_back("g H100\n"), "it is not restored with too few devices");
	unsetenv("CUDA_VISIBLE_DEVICES");
	cuda_node_has(node, "c H100\nd H100\n");
	ok(all_of(lineage_restore(&l, l.seq) == 0, cuda_link_join(&cuda, &l.agent, true),
		  cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED)),
	   "the same image is restored where there are enough");
	test_unsound();
	is_int(lineage_wait(&l), 0, "the program ends well");
	is_str(lineage_output(&l), alone, "its answer is that of a run alone");
	lineage_end(&l);
}

/* ---- GPUs of another type, with cuda=replay -------------------------------------------------- */

#define H200 "a H200 | memory=1024\n"

static bool replay_starts(char *const argv[])
{
	bool good;

	cuda_node_has(node, H200);
	l.argv = argv;
	setenv("GPUCKPT_CUDA", "replay", 1);
	good = lineage_start(&l) == 0 && cuda_link_join(&cuda, &l.agent, false) &&
	       cuda_link_has_memory(&cuda, l.pid);
	unsetenv("GPUCKPT_CUDA");
	return good;
}

/* The last image, on other devices. */
static void refused_on(const char *lines, const char *why)
{
	cuda_node_has(node, lines);
	ok(all_of(lineage_restore(&l, l.seq) != 0, strstr(l.failure, why)), "refused: %s",
	   l.failure);
	lineage_kill(&l);
}

static void test_other_type(void)
{
	static char program[] = "./cuda_work", replay[] = "replay", fatbin[] = "fatbin",
		    cubin[] = "cubin", *with_ptx[] = {program, replay, fatbin, NULL},
		    *without[] = {program, replay, cubin, NULL};
	char alone[300];

	setenv("FAKE_CUDA_PARTS", "1", 1);
	cuda_node_has(node, H200);
	if (lineage_begin(&l, "/dev/shm", with_ptx))
		exit(99);
	is_int(lineage_alone(&l), 0, "the program runs alone");
	strcpy(alone, lineage_output(&l));
	ok(replay_starts(with_ptx), "a rank has code for its GPU and PTX");
	ok(all_of(comes_back("b B200 | arch=100 l2=100 memory=512\n"),
		  strstr(l.note, "GPU 0 is a B200 here, and was a H200; MiB of memory: 512 (1024); "
				 "compute capability, major: 10 (9); bytes of L2 cache: 100 (")),
	   "it is restored on a later one with less memory, of which is told: %s", l.note);
	ok(comes_back(H200), "and where it was");
	ok(comes_back("x A100\n" H200), "and with another one before that");
	is_str(letters(), "a", "which it does not get");
	ok(all_of(cuda_link_drain(&cuda, l.seq + 1), lineage_checkpoint(&l) == 0), "captured");
	lineage_kill(&l);
	refused_on("c H100 | multiprocessors=114\n", "a H100 with other limits "
		   "(multiprocessors: 114, not 132), which the program may rely on");
	refused_on("c A100 | shared=166912\n", "(bytes of shared memory for a block, at most: "
		   "166912, not 232448)");
	refused_on("c H100 | memory=1\n", "a H100 of 1 MiB, which have no room for the program's ");
	cuda_node_has(node, H200);
	ok(all_of(lineage_restore(&l, l.seq) == 0,
		  cuda_link_join(&cuda, &l.agent, true),
		  cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED)), "the same image is restored");
	is_int(lineage_wait(&l), 0, "the program ends well");
	is_str(lineage_output(&l), alone, "its answer is that of a run alone");
	ok(all_of(replay_starts(without), cuda_link_drain(&cuda, l.seq + 1),
		  lineage_checkpoint(&l) == 0), "a rank has no PTX");
	lineage_kill(&l);
	refused_on("c B200 | arch=100\n", "a B200 of compute capability 10.0, for which the "
		   "program has no code (sm_90)");
	lineage_end(&l);
	unsetenv("FAKE_CUDA_PARTS");
}

/* Where the driver cannot recall memory on a device that is new to it. */
static void test_without_recall(const char *visible)
{
	static char program[] = "./cuda_work", *argv[] = {program, NULL};

	setenv("CUDA_VISIBLE_DEVICES", visible, 1);
	setenv("FAKE_CUDA_NO_KERNEL", node, 1);
	cuda_node_has(node, "a H100\nb H100\n");
	if (lineage_begin(&l, "/dev/shm", argv))
		exit(99);
	ok(all_of(lineage_start(&l) == 0, cuda_link_join(&cuda, &l.agent, false)),
	   "a rank starts on %s", visible);
	ok(all_of(cuda_link_has_memory(&cuda, l.pid), continues_with_copies(true)),
	   "a checkpoint leaves copies on its devices");
	ok(all_of(comes_back("c H100\nd H100\n"), continues_with_copies(false), runs_on()),
	   "on other devices a checkpoint leaves no copies");
	is_int(lineage_wait(&l), 0, "the program ends well");
	lineage_end(&l);
	unsetenv("FAKE_CUDA_NO_KERNEL");
	unsetenv("CUDA_VISIBLE_DEVICES");
}

int main(void)
{
	test_choice();
	test_code();
	test_sound();
	if (!mkdtemp(folder))
		return 99;
	snprintf(node, sizeof node, "%s/node", folder);
	snprintf(library, sizeof library, "%s/libcuda.so.1", folder);
	if (symlink(GCK_TEST_DRIVER, library))
		return 99;
	test_rank();
	test_other_type();
	test_without_recall("0");
	test_without_recall("0,1");
	unlink(node);
	unlink(library);
	rmdir(folder);
	return tap_done();
}
