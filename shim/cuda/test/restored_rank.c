/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/test/restored_rank.h"

#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shim/cuda/base/state.h"

#define SUM (3 << 20)

struct lineage lineage;
struct cuda_link cuda = {.fd = -1};
const char *const phases[] = {"restore", "drain", "back"};

static struct cuda_data image_data; /* what was on the device when the image was taken */
static char node[300];              /* FAKE_CUDA_NODE */
static char no_kernel[300];         /* FAKE_CUDA_NO_KERNEL */

static void must_be(bool good, const char *what)
{
	if (good)
		return;
	printf("Bail out! %s failed\n", what);
	exit(99);
}

/* The copy that stays on the device has 20 MiB at most: the rest is in the image. */
static void take_image(void)
{
	static const char *const words[] = {"init",  "odd", "forget", "model",
					    "steps", "vmm", "vmm few"};

	must_be(told_start(&lineage), "a program");
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		must_be(told(words[i]) == 0, words[i]);
	must_be(cuda_link_join(&cuda, &lineage.agent, false), "its CUDA thread");
	cuda.keep = 1;
	cuda.device_copy_max = 20 << 20;
	must_be(cuda_link_drain(&cuda, 1) && cuda.m.round && lineage_checkpoint(&lineage) == 0,
		"its image");
	cuda_data_open(&image_data);
	cuda_data_give(&image_data, &cuda, GCK_LINK_CUDA_RESUME, 1);
	must_be(cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED) && cuda_data_list(&image_data) &&
			cuda_data_read(&image_data), "what its device has");
	cuda_data_close(&image_data);
	lineage_kill(&lineage);
	cuda.device_copy_max = 0;
}

void restored_begin(void)
{
	static char program[] = "./cuda_rank", *argv[] = {program, NULL};

	setenv("GPUCKPT_CUDA_LIBRARY", GCK_TEST_DRIVER, 1);
	must_be(lineage_begin(&lineage, "/dev/shm", argv) == 0, "the directory");
	snprintf(node, sizeof node, "%s/node", lineage.directory);
	setenv("FAKE_CUDA_NODE", node, 1);
	snprintf(no_kernel, sizeof no_kernel, "%s/no-kernel", lineage.directory);
	setenv("FAKE_CUDA_NO_KERNEL", no_kernel, 1);
	setenv("FAKE_CUDA_MEMORY", "2048", 1);
	cuda_node_has(node, SAME_DEVICE);
	faults_begin(lineage.directory);
	take_image();
}

void restored_end(void)
{
	unlink(no_kernel);
	cuda_data_free(&image_data);
	lineage_end(&lineage);
}

/* ---- phases ---------------------------------------------------------------------------------- */

/* The next message. A failure of it is final if `fatal`. */
static void hear(uint32_t type, bool fatal, struct outcome *o)
{
	uint32_t got = cuda_link_receive(&cuda, WAIT_MS);

	o->failed = got != type || cuda.m.value;
	o->lost = o->failed && (fatal || got != type);
	snprintf(o->text, sizeof o->text, "%.*s", (int)(o->failed ? cuda.m.total : 0),
		 (const char *)cuda.m.data);
}

static void restore(struct outcome *o)
{
	struct cuda_data filled;

	bool built = !lineage_restore(&lineage, lineage.seq);

	told_restored();
	if (!built || !cuda_link_join(&cuda, &lineage.agent, true)) {
		*o = (struct outcome){true, true, "not restored", false};
		return;
	}
	if (cuda.hello.data_missing) {
		cuda_data_open(&filled);
		cuda_data_give(&filled, &cuda, GCK_LINK_CUDA_RESTORE, 0);
		cuda_data_fill(&image_data, &filled, UINT_MAX);
		cuda_data_free(&filled);
	}
	hear(GCK_LINK_CUDA_RESUMED, true, o);
}

void restored_drain(struct outcome *o)
{
	cuda_link_ask_drain(&cuda, lineage.seq + 1, WAIT_MS, WAIT_MS);
	hear(GCK_LINK_CUDA_DRAINED, false, o);
}

void restored_resume(struct cuda_data *d, struct outcome *o)
{
	cuda_data_open(d);
	cuda_data_give(d, &cuda, GCK_LINK_CUDA_RESUME, lineage.seq + 1);
	hear(GCK_LINK_CUDA_RESUMED, true, o);
}

/* The rank frees its copy on the device after it was read, and then closes the socket. */
void restored_read_all(struct cuda_data *d, struct outcome *o)
{
	struct gck_link_data m;
	bool read = cuda_data_list(d) && cuda_data_read(d);

	if (read && !cuda_data_is_of(d, lineage.pid))
		*o = (struct outcome){true, true, "its copy is not what its memory has", false};
	else if (!read)
		snprintf(o->text, sizeof o->text, "not read: %.300s", d->why);
	o->on_device = read && d->n;
	if (!read)
		shutdown(d->fd, SHUT_WR);
	while (cuda_data_receive(d, &m))
		;
}

void restored_back(struct outcome *o)
{
	struct cuda_data d;

	restored_resume(&d, o);
	if (!o->failed)
		restored_read_all(&d, o);
	cuda_data_free(&d);
}

/* The copy is freed a moment after its reader ends. */
static void wait_until_hit(const struct fault *f)
{
	for (int ms = 0; ms < 100 && (!f->name || faults_armed()); ms += 10)
		pause_ms(10);
}

static void run_phase(enum phase p, struct outcome *o)
{
	static void (*const phase[])(struct outcome *) = {restore, restored_drain, restored_back};

	phase[p](o);
}

static void run_with_fault(const struct fault *f, enum phase p, struct outcome *o)
{
	faults_arm(f);
	run_phase(p, o);
	wait_until_hit(f);
	o->missed = !faults_disarm() && f->nth <= FAULT_FIRST;
}

void restored_run(const struct fault *f, const struct place *at, struct outcome *o)
{
	cuda_node_has(node, at->device);
	*o = (struct outcome){.failed = false};
	for (enum phase p = RESTORE; p < at->in && !o->failed; p++)
		run_phase(p, o);
	if (!o->failed)
		run_with_fault(f, at->in, o);
	if (at->in == DRAIN && !o->failed)
		restored_back(o);
}

void restored_run_without_fault(enum phase in, const char *device, struct outcome *o)
{
	restored_run(&(struct fault){NULL, 0, 0}, &(struct place){in, device, 0}, o);
}

bool restored_has_its_data(void)
{
	return told("sum") == SUM && told("steps") == 0 && told("vmm look") == 0;
}
