/* SPDX-License-Identifier: Apache-2.0
 * Device data between a rank under the stand-in and its agent, as on a node: how long a checkpoint
 * stops a program, how fast its data are read from the device while its kernels run, and how fast
 * they are written in another process.
 *
 *   gpu_device HOLD stall GIB | pool GIB | host GIB | parts GIB | busy GIB | hash GIB | fill GIB |
 *                   check GIB | left GIB | seen GIB | moved GIB | moved_busy GIB | moved_grow GIB |
 *                   grow GIB | full GIB
 *   gpu_device VARIABLE refused 0
 *
 * HOLD is the program of hold.cu, VARIABLE that of variable.cu. pool: stall, with stream-ordered
 * memory. host: no copy may stay on the device; parts: half of it may. fill: as fast as possible,
 * with any bytes; check: with the right bytes, which the program checks. left: the agent is silent
 * or gone. seen: the rank sees all GPUs. moved: killed, and restored on the other of two GPUs, and
 * back. moved_busy: the same with kernels that need all its bandwidth. grow: the program needs the
 * memory of the copy; moved_grow: on the other GPU. full: another program has the memory that a
 * restored one needs. GPUCKPT_TEST_PRELOAD names the libraries to preload, GPUCKPT_DEVICE_GIB is
 * the size of the device. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/support/cuda_data.h"
#include "test/support/lineage.h"
#include "test/support/tap.h"

#define ROUNDS 3
#define SCRUB_MS 500    /* the driver scrubs freed memory before it is available again */
#define SLOTS (CUDA_DATA_RING / GCK_LINK_DATA_GET_MAX)
#define GIB 1073741824.0

static struct lineage l;
static struct cuda_link cuda = {.fd = -1};
static long gib;

/* GPUCKPT_PIECE_MIB: see hold.cu. */
static void figure(const char *name, double v, const char *unit)
{
	const char *mib = getenv("GPUCKPT_PIECE_MIB");

	printf("%s_%ld_gib%s%s %.*f %s\n", name, gib, mib ? "_in_mib_" : "", mib ? mib : "",
	       v < 10 ? 2 : v < 100 ? 1 : 0, v, unit);
	fflush(stdout);
}

/* ---- the program's output -------------------------------------------------------------------- */

/* The mean duration of the turns that ended between the two times (ms, CLOCK_MONOTONIC). */
static double turns(double from, double to)
{
	char path[300], line[100];
	double end, ms, sum = 0;
	int n = 0;
	FILE *f;

	snprintf(path, sizeof path, "%s/out", l.directory);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f)) {
		if (sscanf(line, "turn %lf %lf", &end, &ms) == 2 && end > from && end < to) {
			sum += ms;
			n++;
		}
	}
	if (f)
		fclose(f);
	return n ? sum / n : -1;
}

/* The number of good and of bad checks; each turn counts as a good one. */
static void looks(int *good, int *bad)
{
	unsigned long long wrong;
	char path[300], line[100];
	FILE *f;

	*good = *bad = 0;
	snprintf(path, sizeof path, "%s/out", l.directory);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f)) {
		if (!strncmp(line, "turn ", 5))
			++*good;
		else if (sscanf(line, "checked %llu", &wrong) == 1)
			++*(wrong ? bad : good);
	}
	if (f)
		fclose(f);
}

static bool looks_again(void)
{
	int before, good, bad;

	looks(&before, &bad);
	for (int ms = 0; ms < WAIT_MS; ms += 50) {
		pause_ms(50);
		looks(&good, &bad);
		if (good > before + 1 || bad)
			break;
	}
	return good > before && !bad;
}

static bool starts(void)
{
	return lineage_start(&l) == 0 && cuda_link_join(&cuda, &l.agent, false);
}

/* ---- checkpoints ---------------------------------------------------------------------------- */

/* Milliseconds from DRAIN to RESUMED; -1: it failed. */
static double cycle(uint64_t seq, struct cuda_data *d, void (*between)(void))
{
	double start = seconds();

	if (!cuda_link_drain(&cuda, seq))
		return -1;
	printf("# drained in %.0f ms\n", (seconds() - start) * 1e3);
	if (between)
		between();
	if (!d)
		return cuda_link_resume(&cuda, seq) ? (seconds() - start) * 1e3 : -1;
	cuda_data_open(d);
	cuda_data_give(d, &cuda, GCK_LINK_CUDA_RESUME, seq);
	return cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED) ? (seconds() - start) * 1e3 : -1;
}

/* Reads all data into the ring. GB/s. */
static double stream(struct cuda_data *d)
{
	double start = seconds();
	uint64_t bytes = 0;

	for (size_t i = 0; i < d->n; i++) {
		uint64_t asked = 0, have = 0;

		while (have < d->v[i].size) {
			struct gck_link_data m;
			uint64_t n = d->v[i].size - asked;

			n = n < GCK_LINK_DATA_GET_MAX ? n : GCK_LINK_DATA_GET_MAX;
			if (n && asked - have < SLOTS * GCK_LINK_DATA_GET_MAX) {
				cuda_data_send(d, GCK_LINK_DATA_GET, d->v[i].address + asked, n,
					       asked / GCK_LINK_DATA_GET_MAX % SLOTS *
						       GCK_LINK_DATA_GET_MAX);
				asked += n;
				continue;
			}
			if (!cuda_data_receive(d, &m) || m.type != GCK_LINK_DATA_READY || m.value) {
				printf("# %u %s\n", m.value, m.why);
				return -1;
			}
			have += m.size;
		}
		bytes += have;
	}
	return (double)bytes / (seconds() - start) / 1e9;
}

static int by_size(const void *a, const void *b)
{
	return *(const double *)a < *(const double *)b ? -1
						       : *(const double *)a > *(const double *)b;
}

static void rounds(const char *name, bool keep, uint64_t seq)
{
	double ms[ROUNDS], rate = 0;

	cuda.keep = keep;
	for (int i = 0; i < ROUNDS; i++, seq++) {
		struct cuda_data d = {.n = 0};
		double start = seconds();

		if (!keep && cuda_link_prepare(&cuda, seq))
			printf("# host memory got ready in %.0f ms\n", (seconds() - start) * 1e3);
		ms[i] = cycle(seq, keep ? &d : NULL, NULL);
		start = seconds();
		if (keep && cuda_data_list(&d)) {
			printf("# listed in %.0f ms\n", (seconds() - start) * 1e3);
			rate = stream(&d);
		}
		if (keep)
			cuda_data_free(&d);
		pause_ms(SCRUB_MS);
	}
	qsort(ms, ROUNDS, sizeof *ms, by_size);
	ok(all_of(ms[0] > 0, looks_again()), "it goes on, with its data");
	figure(name, ms[ROUNDS / 2], "ms");
	if (keep)
		figure("drain_rate", rate, "GB/s");
}

/* device_copy_max: of each device, 0: as far as memory is free */
static void stall(const char *name, bool keep, uint64_t device_copy_max)
{
	ok(all_of(starts(), looks_again()), "it runs as a rank");
	cuda.device_copy_max = device_copy_max;
	rounds(name, keep, 1);
}

static void busy(void)
{
	struct cuda_data d;
	double from, rate, alone, beside;

	ok(starts(), "it runs as a rank");
	pause_ms(3000);
	alone = turns(seconds() * 1e3 - 1000, seconds() * 1e3);
	cuda.keep = 1;
	ok(all_of(cycle(1, &d, NULL) > 0, cuda_data_list(&d)), "drained");
	from = seconds() * 1e3;
	rate = stream(&d);
	for (int i = 0; rate > 0 && i < 3; i++)
		rate = stream(&d);
	beside = turns(from, seconds() * 1e3);
	cuda_data_free(&d);
	figure("drain_rate_busy", rate, "GB/s");
	figure("kernel_alone", alone, "ms");
	figure("kernel_slowdown", 100 * (beside / alone - 1), "%");
}

/* ---- hashes --------------------------------------------------------------------------------- */

/* Requests the hashes of all listed data. GB/s of the data. */
static double hash_all(struct cuda_data *d)
{
	double start = seconds();
	uint64_t bytes = 0;

	for (size_t i = 0; i < d->n; i++) {
		for (uint64_t at = 0; at < d->v[i].size; at += GCK_LINK_DATA_HASH_MAX) {
			uint64_t left = d->v[i].size - at;
			struct gck_link_data m;

			cuda_data_send(d, GCK_LINK_DATA_HASH, d->v[i].address + at,
				       left < GCK_LINK_DATA_HASH_MAX ? left
								     : GCK_LINK_DATA_HASH_MAX,
				       0);
			if (!cuda_data_receive(d, &m) || m.type != GCK_LINK_DATA_READY || m.value) {
				printf("# %u %s\n", m.value, m.why);
				return -1;
			}
		}
		bytes += d->v[i].size;
	}
	return (double)bytes / (seconds() - start) / 1e9;
}

static const struct cuda_piece *largest(const struct cuda_data *d)
{
	size_t i = 0;

	for (size_t k = 1; k < d->n; k++)
		i = d->v[k].size > d->v[i].size ? k : i;
	return &d->v[i];
}

/* Checks those of the first 64 MiB of the largest piece, which begin with a page group. */
static bool hashes_are_right(struct cuda_data *d)
{
	struct cuda_piece p = {.address = largest(d)->address, .size = GCK_LINK_DATA_HASH_MAX};
	const uint64_t *hash = (const void *)d->ring;
	struct gck_link_data m;
	bool right = p.address % GCK_LINK_DATA_PAGE_GROUP == 0 && cuda_data_read_piece(d, &p);

	cuda_data_send(d, GCK_LINK_DATA_HASH, p.address, p.size, 0);
	right = right && cuda_data_receive(d, &m) && !m.value;
	if (!right)
		printf("# %" PRIu64 " bytes at %#" PRIx64 ", %s\n", largest(d)->size, p.address,
		       d->why);
	for (uint64_t at = 0; right && at < p.size; at += GCK_LINK_DATA_PAGE_GROUP, hash += 2) {
		struct gck_hash h = gck_hash_bytes(p.bytes + at, GCK_LINK_DATA_PAGE_GROUP);

		right = !memcmp(hash, &h, sizeof h);
		if (!right)
			printf("# wrong hash at %#" PRIx64 "\n", p.address + at);
	}
	free(p.bytes);
	return right;
}

/* The kernel is loaded at the second drain. */
static void hashes(void)
{
	struct cuda_data d;
	double rate = 0;

	ok(all_of(starts(), looks_again()), "it runs as a rank");
	cuda.keep = 1;
	for (uint64_t seq = 1; seq <= 3; seq++) {
		double ms = cycle(seq, &d, NULL);

		ok(all_of(ms > 0, cuda_data_list(&d)), "drained, stall %.0f ms", ms);
		rate = seq > 1 ? hash_all(&d) : 0;
		ok(seq == 1 || (rate > 0 && hashes_are_right(&d)), "its hashes are right");
		cuda_data_free(&d);
	}
	ok(looks_again(), "it goes on, with its data");
	figure("hash_rate", rate, "GB/s");
}

/* ---- restarts ------------------------------------------------------------------------------- */

static void capture(void)
{
	ok(lineage_checkpoint(&l) == 0, "captured");
}

/* Answers each GET with the bytes that are in the ring. Seconds from the first GET, which comes
 * after the driver's own restore. */
static double answer_at_once(struct cuda_data *over)
{
	struct gck_link_data m;
	double start = -1;

	memset(over->ring, 1, CUDA_DATA_RING);
	while (cuda_data_receive(over, &m) && m.type == GCK_LINK_DATA_GET) {
		start = start < 0 ? seconds() : start;
		m.type = GCK_LINK_DATA_READY;
		send(over->fd, &m, offsetof(struct gck_link_data, why), MSG_NOSIGNAL);
	}
	return m.type == GCK_LINK_DATA_DONE ? seconds() - start : -1;
}

/* Kills a rank and restores it from the copies on its devices. */
static void killed_and_filled(uint64_t seq, bool right)
{
	struct cuda_data d, over;
	double start, there = -1;

	cuda.keep = 1;
	ok(all_of(cycle(seq, &d, capture) > 0, cuda_data_list(&d), (!right || cuda_data_read(&d))),
	   "its data are there");
	cuda_data_close(&d);
	lineage_kill(&l);
	ok(all_of(lineage_restore(&l, l.seq) == 0, cuda_link_join(&cuda, &l.agent, true)),
	   "restored");
	start = seconds();
	cuda_data_open(&over);
	cuda_data_give(&over, &cuda, GCK_LINK_CUDA_RESTORE, 0);
	ok(right ? cuda_data_fill(&d, &over, -1u) : (there = answer_at_once(&over)) > 0,
	   "its data are written");
	ok(cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED), "the GPU is back");
	printf("# CUDA and data back in %.0f ms\n", (seconds() - start) * 1e3);
	if (right)
		ok(looks_again(), "and its data are right");
	else
		figure("fill_rate", (double)cuda_data_bytes(&d) / there / 1e9, "GB/s");
	cuda_data_free(&d);
	cuda_data_free(&over);
}

static void refill(bool right)
{
	ok(all_of(starts(), looks_again()), "it runs as a rank");
	killed_and_filled(1, right);
}

static void killed_and_moved(uint64_t seq, const char *gpu)
{
	cuda.keep = 0;
	ok(cycle(seq, NULL, capture) > 0, "drained");
	lineage_kill(&l);
	setenv("CUDA_VISIBLE_DEVICES", gpu, 1);
	ok(all_of(lineage_restore(&l, l.seq) == 0, cuda_link_join(&cuda, &l.agent, true),
		  cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED), looks_again()),
	   "restored on GPU %s, with its data", gpu);
}

/* On another GPU, and back. */
static void moved(void)
{
	setenv("CUDA_VISIBLE_DEVICES", "0", 1);
	ok(all_of(starts(), looks_again()), "it runs as a rank");
	killed_and_moved(1, "1");
	rounds("stall_moved", true, 2);
	killed_and_filled(2 + ROUNDS, true);
	killed_and_moved(3 + ROUNDS, "0");
	rounds("stall_moved_back", true, 4 + ROUNDS);
}

static void moved_busy(void)
{
	struct cuda_data d;
	double ms;

	setenv("CUDA_VISIBLE_DEVICES", "0", 1);
	ok(all_of(starts(), looks_again()), "it runs as a rank");
	killed_and_moved(1, "1");
	pause_ms(3000);
	cuda.keep = 1;
	ms = cycle(2, &d, NULL);
	ok(all_of(ms > 0, cuda_data_list(&d)), "drained");
	figure("stall_moved_busy", ms, "ms");
	figure("drain_rate_moved_busy", stream(&d), "GB/s");
	cuda_data_free(&d);
	ok(looks_again(), "it goes on");
}

/* ---- failures -------------------------------------------------------------------------------- */

static bool drained(uint64_t seq, uint32_t watchdog_ms)
{
	cuda_link_ask_drain(&cuda, seq, WAIT_MS, watchdog_ms);
	return cuda_link_hear(&cuda, GCK_LINK_CUDA_DRAINED);
}

/* The next message has this type and reports a failure with this reason. */
static bool fails(uint32_t type, const char *why)
{
	bool failed = cuda_link_receive(&cuda, WAIT_MS) == type && cuda.m.value;

	printf("# %.*s\n", (int)cuda.m.total, (const char *)cuda.m.data);
	return failed && memmem(cuda.m.data, cuda.m.total, why, strlen(why));
}

/* With its data on the device, and in host memory. */
static void left(void)
{
	uint64_t seq = 1;

	ok(all_of(starts(), looks_again()), "it runs as a rank");
	for (cuda.keep = 0; cuda.keep < 2; cuda.keep++) {
		ok(all_of(drained(seq++, 1000), cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED),
			  looks_again()), "its agent is silent: it goes on, with its data");
		ok(drained(seq++, WAIT_MS), "drained again");
		close(cuda.fd);
		cuda.fd = -1;
		ok(looks_again(), "its agent is gone: it goes on, with its data");
		ok(all_of(cuda_link_accept(&cuda, &l.agent, WAIT_MS), !cuda.hello.restored),
		   "and finds another");
	}
	ok(all_of(cycle(seq, NULL, NULL) > 0, looks_again()), "which can checkpoint it");
}

/* Beside data and copy there is no memory left for a second allocation of that size. */
static void grows(uint64_t seq)
{
	struct cuda_data d;
	char path[300];

	cuda.keep = 1;
	ok(all_of(cycle(seq, &d, NULL) > 0, cuda_data_list(&d),
		  cuda_data_bytes(&d) >= (uint64_t)gib << 30), "a copy of all is on the device");
	snprintf(path, sizeof path, "%s/grow", l.directory);
	ok(all_of(close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600)) == 0, looks_again(),
		  looks_again()), "the program gets the memory, and has its data");
	ok(all_of(!cuda_data_list(&d), d.value == ENOMEM),
	   "the copy's reader gets the reason: %s", d.why);
	cuda_data_free(&d);
	ok(all_of(cycle(seq + 1, &d, NULL) > 0, looks_again()), "the next checkpoint is good");
	cuda_data_free(&d);
}

static void grow(void)
{
	setenv("GPUCKPT_SELF", l.directory, 1);
	ok(all_of(starts(), looks_again()), "it runs as a rank");
	grows(1);
}

/* Starts the program alone with this many GiB, and returns when it has them. */
static pid_t take_memory(char *program, long wanted)
{
	char text[24], check[] = "check", *argv[] = {program, text, check, NULL};
	int out[2];
	pid_t pid;

	snprintf(text, sizeof text, "%ld", wanted);
	if (pipe(out))
		return -1;
	pid = fork();
	if (pid == 0) {
		dup2(out[1], 1);
		execv(argv[0], argv);
		_exit(127);
	}
	close(out[1]);
	if (read(out[0], text, 1) != 1)
		pid = -1;
	close(out[0]);
	return pid;
}

/* What a program can have of the device. */
static long device_gib(void)
{
	const char *all = getenv("GPUCKPT_DEVICE_GIB");

	return all ? atol(all) : 0;
}

static void full(void)
{
	pid_t other;

	ok(all_of(starts(), looks_again()), "it runs as a rank");
	cuda.keep = 0;
	ok(cycle(1, NULL, capture) > 0, "captured");
	lineage_kill(&l);
	other = take_memory(l.argv[0], device_gib() - gib / 2);
	ok(other > 0, "another program has the device's memory");
	ok(all_of(lineage_restore(&l, l.seq) == 0, cuda_link_join(&cuda, &l.agent, true)),
	   "restored but for its GPU");
	ok(fails(GCK_LINK_CUDA_RESUMED, "too little memory is free on GPU-"),
	   "its GPU does not come back");
	lineage_kill(&l);
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	pause_ms(SCRUB_MS);
	ok(all_of(lineage_restore(&l, l.seq) == 0, cuda_link_join(&cuda, &l.agent, true),
		  cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED), looks_again()),
	   "when memory is free again it does, with its data");
}

static void moved_grow(void)
{
	pid_t other;

	setenv("GPUCKPT_SELF", l.directory, 1);
	setenv("CUDA_VISIBLE_DEVICES", "0", 1);
	ok(all_of(starts(), looks_again()), "it runs as a rank");
	killed_and_moved(1, "1");
	other = take_memory(l.argv[0], device_gib() - 2 * gib - gib / 2);
	ok(other > 0, "another program has the rest of the device's memory");
	grows(2);
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
}

static void refused(void)
{
	ok(all_of(starts(), looks_again()), "it runs as a rank");
	for (uint64_t seq = 1; seq <= 2; seq++) {
		cuda_link_ask_drain(&cuda, seq, WAIT_MS, WAIT_MS);
		ok(fails(GCK_LINK_CUDA_DRAINED, "__managed__"), "refused");
		ok(looks_again(), "it goes on, with its data");
	}
}

/* ---- all ------------------------------------------------------------------------------------- */

static void stall_kept(void)
{
	stall("stall", true, 0);
}

static void stall_pool(void)
{
	stall("stall_pool", true, 0);
}

static void stall_of_seen(void)
{
	unsetenv("CUDA_VISIBLE_DEVICES");
	stall("stall_of_all_seen", true, 0);
}

static void stall_to_host(void)
{
	stall("stall_to_host", false, 0);
}

static void stall_in_parts(void)
{
	stall("stall_in_parts", true, (uint64_t)gib << 29);
}

static void fill(void)
{
	refill(false);
}

static void check(void)
{
	refill(true);
}

/* program: the program's second argument */
static const struct {
	const char *name, *program;
	void (*run)(void);
} kinds[] = {
	{"stall", "check", stall_kept},
	{"pool", "pool", stall_pool},
	{"host", "check", stall_to_host},
	{"parts", "check", stall_in_parts},
	{"busy", "triad", busy},
	{"hash", "check", hashes},
	{"fill", "check", fill},
	{"check", "check", check},
	{"seen", "check", stall_of_seen},
	{"moved", "check", moved},
	{"moved_busy", "triad", moved_busy},
	{"moved_grow", "grow", moved_grow},
	{"left", "check", left},
	{"grow", "grow", grow},
	{"full", "check", full},
	{"refused", "", refused},
};

int main(int argc, char **argv)
{
	size_t i = 0;
	char what[16], *program[] = {NULL, NULL, what, NULL};

	while (argc == 4 && i < sizeof kinds / sizeof kinds[0] && strcmp(argv[2], kinds[i].name))
		i++;
	if (argc != 4 || i == sizeof kinds / sizeof kinds[0] || !getenv("GPUCKPT_TEST_PRELOAD"))
		return 2;
	gib = atol(argv[3]);
	snprintf(what, sizeof what, "%s", kinds[i].program);
	program[0] = argv[1];
	program[1] = argv[3];
	if (lineage_begin(&l, "/dev/shm", program))
		return 99;
	kinds[i].run();
	lineage_kill(&l);
	lineage_end(&l);
	return tap_done();
}
