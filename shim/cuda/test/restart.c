/* SPDX-License-Identifier: Apache-2.0
 * A CUDA program on the fake driver, drained, captured, killed and restored in new processes, where
 * its CUDA thread brings it back; and one that goes on after its image was taken. */
#define _GNU_SOURCE
#include <stddef.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/test/tap.h"
#include "shim/test/restore_lineage.h"

#define HEAD offsetof(struct gck_link_mpi, data)
#define RESTARTS 4

static struct lineage l;
static int cuda = -1;
static struct gck_link_mpi m;

static bool hear(uint32_t type)
{
	struct pollfd p = {.fd = cuda, .events = POLLIN};

	memset(&m, 0, sizeof m);
	return poll(&p, 1, WAIT_MS) == 1 && recv(cuda, &m, sizeof m, 0) >= (ssize_t)HEAD &&
	       m.type == type && m.value == 0;
}

static bool join(bool restored)
{
	if (cuda >= 0)
		close(cuda);
	cuda = agent_accept_cuda(&l.agent, WAIT_MS, &m);
	return cuda >= 0 && (m.cuda_hello.restored != 0) == restored;
}

static bool drain(uint64_t seq)
{
	m = (struct gck_link_mpi){.type = GCK_LINK_CUDA_DRAIN, .seq = seq, .total = sizeof m.cuda_drain,
				  .cuda_drain = {3000, 60000}};
	send(cuda, &m, HEAD + sizeof m.cuda_drain, MSG_NOSIGNAL);
	return hear(GCK_LINK_CUDA_DRAINED);
}

static bool resume(uint64_t seq)
{
	m = (struct gck_link_mpi){.type = GCK_LINK_CUDA_RESUME, .seq = seq};
	send(cuda, &m, HEAD, MSG_NOSIGNAL);
	return hear(GCK_LINK_CUDA_RESUMED);
}

/* A chain of deaths, and once the original goes on. */
static void lineage(void)
{
	ok(drain(1) && lineage_checkpoint(&l) == 0, "drained and captured");
	ok(resume(1), "the original goes on");
	for (uint32_t i = 1; i <= RESTARTS; i++) {
		pause_ms(150);
		ok(drain(i + 1) && lineage_checkpoint(&l) == 0, "captured again");
		lineage_kill(&l);
		ok(lineage_restore(&l, l.seq) == 0, "restored in a new process");
		ok(join(true), "its CUDA thread says so");
		ok(hear(GCK_LINK_CUDA_RESUMED), "and that CUDA is back");
	}
}

int main(void)
{
	static char program[] = "./cuda_work", *argv[] = {program, NULL};
	char alone[300];

	setenv("GPUCKPT_CUDA_LIBRARY", GCK_TEST_DRIVER, 1);
	if (lineage_begin(&l, "/dev/shm", argv))
		return 99;
	is_int(lineage_alone(&l), 0, "the program by itself");
	strcpy(alone, lineage_output(&l));
	ok(lineage_start(&l) == 0 && join(false), "under the stand-in");
	pause_ms(100);
	lineage();
	is_int(lineage_wait(&l), 0, "it ends well");
	is_str(lineage_output(&l), alone, "with the answer that it gives when nothing happens");
	lineage_end(&l);
	return tap_done();
}
