/* SPDX-License-Identifier: Apache-2.0
 * Every call of the driver's by which a restored process has its GPU back fails once, in a process of the same image
 * each time: what cannot be had is said, or the program has its data all the same. Which calls there are says a
 * restore without a failure. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/test/tap.h"
#include "shim/cuda/test/faults.h"
#include "shim/test/cuda_data.h"
#include "shim/test/cuda_link.h"
#include "shim/test/restore_lineage.h"

#define SUM (3 << 20)

static struct lineage l;
static struct cuda_link cuda = {.fd = -1};
static struct cuda_data kept;  /* what the device had */
static int words = -1;         /* the program's standard input */
static FILE *answers;

static int tell(const char *word)
{
	char line[32] = "";

	dprintf(words, "%s\n", word);
	for (int ms = 0; ms < WAIT_MS && !fgets(line, sizeof line, answers); ms += 5) {
		clearerr(answers);
		pause_ms(5);
	}
	return *line ? atoi(line) : -1000;
}

static bool start(void)
{
	char path[300];
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) || dup2(ends[0], 0) || lineage_start(&l))
		return false;
	words = ends[1];
	snprintf(path, sizeof path, "%s/out", l.directory);
	answers = fopen(path, "re");
	return answers && tell("init") == 0 && cuda_link_join(&cuda, &l.agent, false);
}

/* Some of it in the image, some to be brought. */
static void take_image(void)
{
	static const char *const names[] = {"odd", "forget", "model", "steps", "vmm", "vmm few"};

	ok(start(), "a program");
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		is_int(tell(names[i]), 0, names[i]);
	cuda.keep = 1;
	cuda.keep_most = 20 << 20;
	ok(cuda_link_drain(&cuda, 1) && cuda.m.round && lineage_checkpoint(&l) == 0, "its image");
	cuda_data_open(&kept);
	cuda_data_give(&kept, &cuda, GCK_LINK_CUDA_RESUME, 1);
	ok(cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED) && cuda_data_list(&kept) && cuda_data_read(&kept),
	   "and what its device has");
	cuda_data_close(&kept);
	lineage_kill(&l);
}

/* As far as it comes: what is said of the end of it, "": it is back. */
static const char *come_back(void)
{
	static char text[400];
	struct cuda_data over;

	if (lineage_restore(&l, l.seq) || !cuda_link_join(&cuda, &l.agent, true))
		return "not built";
	if (cuda.hello.wanting) {
		cuda_data_open(&over);
		cuda_data_give(&over, &cuda, GCK_LINK_CUDA_FILL, 0);
		cuda_data_fill(&kept, &over, UINT_MAX);
		cuda_data_free(&over);
	}
	if (cuda_link_receive(&cuda, WAIT_MS) != GCK_LINK_CUDA_RESUMED)
		return NULL;
	snprintf(text, sizeof text, "%.*s", (int)(cuda.m.value ? cuda.m.total : 0), (const char *)cuda.m.data);
	return cuda.m.value && !*text ? NULL : text;
}

static bool has_its_data(void)
{
	return tell("sum") == SUM && tell("steps") == 0 && tell("vmm look") == 0;
}

static void one(const struct fault *f, void *arg)
{
	const char *said;

	(void)arg;
	faults_arm(f);
	said = come_back();
	faults_disarm();
	if (said && !*said)
		ok(has_its_data(), "%s, call %d: the program has its data", f->name, f->nth);
	else
		ok(said != NULL, "%s, call %d: %s", f->name, f->nth, said ? said : "nothing is said");
	lineage_kill(&l);
}

int main(void)
{
	static char program[] = "./cuda_rank", *argv[] = {program, NULL};
	const struct fault none = {NULL, 0};
	const char *said;

	setenv("GPUCKPT_CUDA_LIBRARY", GCK_TEST_DRIVER, 1);
	if (lineage_begin(&l, "/dev/shm", argv))
		return 99;
	faults_begin(l.directory);
	take_image();
	faults_arm(&none);
	said = come_back();
	faults_disarm();
	ok(said && !*said && has_its_data(), "restored without a failure: %s", said ? said : "nothing is said");
	lineage_kill(&l);
	faults_each(one, NULL);
	cuda_data_free(&kept);
	lineage_end(&l);
	return tap_done();
}
