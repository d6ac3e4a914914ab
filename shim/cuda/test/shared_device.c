/* SPDX-License-Identifier: Apache-2.0
 * Two ranks on one device: rank a's copy for a checkpoint is freed when rank b needs memory. */
#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shim/cuda/test/link_agent.h"
#include "test/support/cuda_data.h"
#include "test/support/tap.h"

#define MIB ((uint64_t)1 << 20)
#define SUM (3 << 20)
#define TAKEN (66 * MIB)  /* of a rank with `more` */
#define SLABS 96          /* MiB that it has of the device */
#define RESERVE 512

static struct cuda_rank a, b;
static struct cuda_data d;
static char directory[] = "/tmp/gpuckpt-shared-XXXXXX";

/* Start both ranks on a device of this many MiB; rank a has data. */
static void start(int mib)
{
	char memory[16];

	snprintf(memory, sizeof memory, "%d", mib);
	setenv("FAKE_CUDA_MEMORY", memory, 1);
	cuda_rank_start(&a, NULL);
	cuda_rank_start(&b, NULL);
	a.cuda.keep = b.cuda.keep = 1;
	is_int(cuda_tell(&a, "more"), 0, "rank a has data on the device of both ranks");
}

static void end(void)
{
	is_int(cuda_tell(&a, "sum"), SUM, "rank a has its data");
	is_int(cuda_rank_end(&a), 0, "rank a ends well");
	is_int(cuda_rank_end(&b), 0, "rank b ends well");
	cuda_data_free(&d);
}

/* Do as the agent: pass b's requests for memory on to a until b answers. Returns their number. */
static int pass_requests_on(int *got)
{
	struct gck_thread_msg m;
	int fd, times = 0;

	while ((fd = agent_accept_reclaim(&b.agent, 2000, &m)) >= 0) {
		struct gck_thread_msg given = {.type = GCK_LINK_CUDA_RECLAIMED};

		m.type = GCK_LINK_CUDA_YIELD;
		m.seq = (uint64_t)++times;
		send(a.cuda.fd, &m, offsetof(struct gck_thread_msg, data) + m.total, MSG_NOSIGNAL);
		if (cuda_hear(&a, WAIT_MS) == GCK_LINK_CUDA_YIELDED && a.cuda.m.seq == m.seq)
			given.round = a.cuda.m.round;
		send(fd, &given, offsetof(struct gck_thread_msg, data), MSG_NOSIGNAL);
		close(fd);
		if (given.round)
			break;
	}
	*got = cuda_answer(&b, WAIT_MS);
	return times;
}

/* All but 16 MiB of the device and its reserve is allocated or a copy; b needs more than that. */
static void needed(bool drained, const char *when)
{
	char word[32];
	int got;

	start(SLABS + 32 + 66 + RESERVE + 16);
	ok(all_of(cuda_drain(&a, 1, WAIT_MS), a.cuda.m.round),
	   "%s: rank a has a copy on the device", when);
	if (!drained)
		ok(all_of(cuda_resume(&a, 1, &d), cuda_data_list(&d), cuda_data_bytes(&d) == TAKEN),
		   "rank a resumes: %s", text);
	snprintf(word, sizeof word, "huge %d", RESERVE + 40);
	cuda_begin(&b, word);
	is_int(pass_requests_on(&got), 1, "rank b needs its memory");
	is_int(got, 0, "rank b gets it");
	if (drained)
		ok(all_of(cuda_resume(&a, 1, &d), !cuda_data_list(&d)),
		   "rank a resumes, without a copy");
	else
		cuda_data_read(&d);
	ok(all_of(d.value == ENOMEM, strstr(d.why, "another rank")),
	   "the reader is told why its copy ends: %s", d.why);
	cuda_data_free(&d);
	ok(all_of(cuda_drain(&a, 2, WAIT_MS), cuda_resume(&a, 2, &d), cuda_data_list(&d),
		  cuda_data_bytes(&d) == TAKEN, cuda_data_read(&d)),
	   "rank a's next checkpoint is good: %s", d.why);
	end();
}

/* A thread creates a context without free memory. */
static void context(void)
{
	int got;

	setenv("FAKE_CUDA_MEMORY", "2048", 1);
	/* twice: empty slabs are freed after the first failure */
	cuda_rank_start(&a, "cuCtxCreate_v4:1=2,cuCtxCreate_v4:1=2");
	cuda_rank_start(&b, "cuCtxCreate_v4:1=2");
	a.cuda.keep = 1;
	ok(all_of(cuda_drain(&a, 1, WAIT_MS), a.cuda.m.round, cuda_resume(&a, 1, &d)),
	   "rank a has a copy on the device: %s", text);
	cuda_begin(&b, "first context");
	is_int(pass_requests_on(&got), 1, "rank b finds no memory for a context");
	is_int(got, 0, "rank b gets it");
	cuda_data_free(&d);
	ok(all_of(cuda_drain(&a, 2, WAIT_MS), cuda_resume(&a, 2, &d), cuda_data_list(&d)),
	   "rank a has another copy: %s", text);
	is_int(cuda_tell(&a, "first context"), 0,
	       "rank a gets the copy's memory for a context of its own");
	ok(all_of(!cuda_data_read(&d), d.value == ENOMEM),
	   "the reader is told why its copy ends: %s", d.why);
	end();
}

static void not_there(void)
{
	char word[32];
	int got;

	start(SLABS + 32 + RESERVE);
	snprintf(word, sizeof word, "huge %d", RESERVE + 40);
	cuda_begin(&b, word);
	is_int(pass_requests_on(&got), 1, "rank b asks while there is no copy");
	is_int(got, 2, "it gets no memory");
	end();
}

/* The agent limits the copy, so that memory for the other rank stays free. */
static void limited(void)
{
	start(2048);
	a.cuda.device_copy_max = 10 * MIB;
	ok(all_of(cuda_drain(&a, 1, WAIT_MS), cuda_resume(&a, 1, &d), cuda_data_list(&d)),
	   "rank a has a copy on the device: %s", text);
	is_int((long long)cuda_data_bytes(&d), 10 * MIB,
	       "the copy has the size that the agent allows");
	ok(cuda_data_read(&d), "the copy is read");
	end();
}

/* Remove the files of memory that no process uses. */
static void clean(void)
{
	DIR *all = opendir(directory);
	const struct dirent *e;

	while (all && (e = readdir(all)))
		unlinkat(dirfd(all), e->d_name, 0);
	closedir(all);
	rmdir(directory);
}

int main(void)
{
	setenv("GPUCKPT_CUDA_LIBRARY", GCK_TEST_DRIVER, 1);
	if (!mkdtemp(directory))
		return 99;
	setenv("FAKE_CUDA_SHARED", directory, 1);
	needed(false, "while it is read");
	needed(true, "while it is drained");
	context();
	not_there();
	limited();
	clean();
	return tap_done();
}
