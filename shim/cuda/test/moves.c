/* SPDX-License-Identifier: Apache-2.0
 * A rank with two devices is killed and restored on a node with other devices, with the same in
 * another order, or with none that fit. The file FAKE_CUDA_NODE lists the devices of the fake node.
 * */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shim/cuda/base/state.h"
#include "shim/process/gpu/gpus.c"
#include "test/support/cuda_link.h"
#include "test/support/lineage.h"
#include "test/support/tap.h"

static struct lineage l;
static struct cuda_link cuda = {.fd = -1};
static char folder[] = "/tmp/gck-node-XXXXXX", node[64], library[64];

/* ---- the choice of devices
 * ----------------------------------------------------------------------------- */

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

static const char *chosen(const char *was, const char *visible, const char *here,
			  const char *driver)
{
	static char text[sizeof((struct gck_error *)0)->text];
	struct gck_cuda_state s = {.devices = devices(was, "580"), .nonto = 99};
	const struct gck_cuda_devices now = devices(here, driver);
	struct gck_error err = {0};

	snprintf(s.visible, sizeof s.visible, "%s", visible);
	if (choose(&s, &now, &err)) {
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
	is_str(chosen("aH bH", "", "aH bH", "580"), "", "the same devices stay");
	is_str(chosen("aH bH", "", "bH aH", "580"), "", "in another order as well");
	is_str(chosen("bH", "1", "aH bH cH", "580"), "", "and among others");
	is_str(chosen("aH bH", "", "cH dH", "580"), "cd", "others, in their order");
	is_str(chosen("aH bH", "", "bH cH", "580"), "bc", "some of them, in another place");
	is_str(chosen("aH", "", "cH dH", "580"), "c", "the first, of more than there were");
	is_str(chosen("bH", "1", "cH dH", "580"), "d",
	       "that in the rank's place, where it chose itself");
	is_str(chosen("aH bH", "3,1", "cH dH eH fH", "580"), "fd", "those in their places");
	is_str(chosen("aH bH", "3,4", "cH dH eH fH", "580"), "cd",
	       "not where one of them is missing");
	is_str(chosen("aH", "GPU-5", "cH dH", "580"), "c", "nor where they were named otherwise");
	is_str(chosen("aH b-", "0", "bH a-", "580"), "ba", "those that are not seen change places");
	is_str(chosen("bH a-", "1", "bH c-", "580"), "", "and stay where the seen one does");
	is_str(chosen("aH b- c-", "", "dH eH fH", "580"), "def", "one for each");
	is_str(chosen("aH b-", "", "cH", "580"),
	       "the image is of a node with 2 GPUs, this one has 1, and the driver needs one for "
	       "each: restart it on nodes with as many",
	       "or it is refused");
	is_str(chosen("aH bH", "", "cH", "580"),
	       "the image has 2 GPUs (H100), the task here 1: restart it with as many GPUs for "
	       "each task",
	       "too few are refused");
	is_str(chosen("aH bH", "", "cH dA", "580"),
	       "GPU 1 of the image is a H100, the one for it here a A100: restart it on nodes with "
	       "GPUs of that type",
	       "another type is refused");
	is_str(chosen("aH", "", "aH", "590"),
	       "the image is of the NVIDIA driver 580, the one here is 590, which cannot restore "
	       "it: restart it on nodes with that driver",
	       "another driver is refused");
}

static void test_sound(void)
{
	const struct gck_cuda_devices good = devices("aH bH c-", "580");
	struct gck_cuda_devices d = good;

	ok(is_list_sound(&d), "a list with one that is not seen");
	d.n = d.all = GCK_CUDA_DEVICES_MAX;
	ok(is_list_sound(&d), "as many as there can be");
	d.all++;
	ok(!is_list_sound(&d), "one more is no list");
	d = good;
	d.n = d.all + 1;
	ok(!is_list_sound(&d), "nor with more that are seen than there are");
	d = good;
	memset(d.driver, '5', sizeof d.driver);
	ok(!is_list_sound(&d), "nor with a version without an end");
	d = good;
	memset(d.v[2].name, 'H', sizeof d.v[2].name);
	ok(!is_list_sound(&d), "nor with such a name");
}

/* ---- a rank
 * --------------------------------------------------------------------------------------- */

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

/* Wait until the program has device memory: a checkpoint before that has nothing to keep. */
static bool has_memory(void)
{
	struct gck_cuda_state state = {.device_bytes = 0};

	for (int ms = 0; ms < WAIT_MS && !state.device_bytes; ms += 5) {
		pause_ms(5);
		agent_peek(l.pid, cuda.hello.state, &state, sizeof state);
	}
	return state.device_bytes != 0;
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
static bool finds_no_room(void)
{
	bool drained;

	cuda.host_copy_max = 1;
	drained = cuda_link_drain(&cuda, l.seq + 1);
	cuda.host_copy_max = UINT64_MAX;
	return !drained;
}

/* A checkpoint that may leave a copy on the devices, which nobody reads. */
static bool runs_on_keeping(bool kept)
{
	bool as_said;

	cuda.keep = 1;
	as_said = cuda_link_drain(&cuda, l.seq + 1) && !cuda.m.round == !kept;
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

/* Write a wrong number of devices into the rank's state, checkpoint and kill it. Is its image
 * refused? */
static bool refused_with(uint32_t all)
{
	uint64_t at = cuda.hello.state + offsetof(struct gck_cuda_state, devices.all);
	struct iovec from = {&all, sizeof all}, to = {(void *)(uintptr_t)at, sizeof all};

	if (!cuda_link_drain(&cuda, l.seq + 1) ||
	    process_vm_writev(l.pid, &from, 1, &to, 1, 0) != (ssize_t)sizeof all ||
	    lineage_checkpoint(&l))
		return false;
	lineage_kill(&l);
	return lineage_restore(&l, l.seq) != 0;
}

static void test_rank(void)
{
	static char program[] = "./cuda_work", *argv[] = {program, NULL};
	char alone[300];

	setenv("LD_LIBRARY_PATH", folder, 1);
	setenv("FAKE_CUDA_NODE", node, 1);
	/* the default is for one device only: cuda_restore_faults */
	setenv("GPUCKPT_CUDA_EXTERNAL_MAPPINGS", "1", 1);
	cuda_node_has(node, "a H100\nb H100\n");
	if (lineage_begin(&l, "/dev/shm", argv))
		exit(99);
	is_int(lineage_alone(&l), 0, "the program by itself");
	strcpy(alone, lineage_output(&l));
	ok(all_of(lineage_start(&l) == 0, cuda_link_join(&cuda, &l.agent, false)), "as a rank");
	ok(has_memory(), "with memory on the device");
	is_str(letters(), "ab", "on two devices");
	ok(runs_on(), "a checkpoint that it lives through");
	ok(comes_back("c H100\nd H100\n"), "restored on two others");
	is_str(letters(), "cd", "which it has from then on");
	ok(finds_no_room(), "a drain that fails");
	ok(all_of(runs_on_keeping(true), runs_on_keeping(true)),
	   "checkpoints that keep data on both, by external mappings");
	ok(all_of(runs_on(), runs_on_alone(), runs_on()),
	   "checkpoints there that it lives through");
	ok(comes_back("d H100\nx A100\nc H100\n"), "restored where they are in another order");
	is_str(letters(), "cd", "on the same");
	ok(runs_on(), "a checkpoint there");
	ok(all_of(comes_back("a H100\nb H100\n"), runs_on()), "and on the first ones");
	setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
	ok(comes_back("e H100\nx A100\nf H100\n"), "restored with the new task's choice");
	is_str(letters(), "fe", "in its order");
	ok(!comes_back("g H100\n"), "not with too few of them");
	unsetenv("CUDA_VISIBLE_DEVICES");
	cuda_node_has(node, "c H100\nd H100\n");
	ok(all_of(lineage_restore(&l, l.seq) == 0, cuda_link_join(&cuda, &l.agent, true),
		  cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED)),
	   "the same image, where there are enough again");
	ok(refused_with(GCK_CUDA_DEVICES_MAX + 1),
	   "an image with more devices than there can be is refused");
	lineage_kill(&l);
	ok(all_of(lineage_restore(&l, l.seq - 1) == 0, cuda_link_join(&cuda, &l.agent, true),
		  cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED)), "the one before is good");
	is_int(lineage_wait(&l), 0, "it ends well");
	is_str(lineage_output(&l), alone, "with the answer that it gives when nothing happens");
	lineage_end(&l);
}

/* Where external mappings (external_mapping.h) are not used. */
static void test_without_windows(const char *visible, const char *variable, const char *value)
{
	static char program[] = "./cuda_work", *argv[] = {program, NULL};

	setenv("CUDA_VISIBLE_DEVICES", visible, 1);
	setenv(variable, value, 1);
	cuda_node_has(node, "a H100\nb H100\n");
	if (lineage_begin(&l, "/dev/shm", argv))
		exit(99);
	ok(all_of(lineage_start(&l) == 0, cuda_link_join(&cuda, &l.agent, false)),
	   "a rank on %s with %s=%s", visible, variable, value);
	ok(all_of(has_memory(), runs_on_keeping(true)),
	   "a checkpoint that keeps data on its devices");
	ok(all_of(comes_back("c H100\nd H100\n"), runs_on_keeping(false), runs_on()),
	   "on others it keeps nothing there");
	is_int(lineage_wait(&l), 0, "it ends well");
	lineage_end(&l);
	unsetenv(variable);
	unsetenv("CUDA_VISIBLE_DEVICES");
}

int main(void)
{
	test_choice();
	test_sound();
	if (!mkdtemp(folder))
		return 99;
	snprintf(node, sizeof node, "%s/node", folder);
	snprintf(library, sizeof library, "%s/libcuda.so.1", folder);
	if (symlink(GCK_TEST_DRIVER, library))
		return 99;
	test_rank();
	unsetenv("GPUCKPT_CUDA_EXTERNAL_MAPPINGS");
	test_without_windows("0", "GPUCKPT_CUDA_EXTERNAL_MAPPINGS", "0");
	test_without_windows("0", "FAKE_CUDA_VERSION", "12090");
	test_without_windows("0,1", "FAKE_CUDA_VERSION", "13000");
	unlink(node);
	unlink(library);
	rmdir(folder);
	return tap_done();
}
