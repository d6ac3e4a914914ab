/* SPDX-License-Identifier: Apache-2.0
 * The pass: random kernels run plain, and with points at which they are stopped again and again;
 * their memory is the same in the end. GPUCKPT_SEED=N runs one seed; --print N shows its PTX. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "generate.h"
#include "machine.h"
#include "shim/kernels/pass/points.h"
#include "test/support/tap.h"

#define BLOCKS 4
#define RECORDS (MACHINE_GLOBAL + (1u << 19))
#define WORD (MACHINE_GLOBAL + (1u << 18))
#define WORKSPACE (WORD + 64) /* of the grid, as a driver has it */
#define ABSENT 0x1234567800u  /* one that nobody must use */
#define RESULTS (1u << 18) /* bytes of memory that are compared */
#define MOST_STOPS 200

static struct {
	unsigned kernels, different, stops, launches;
} seen;

static unsigned rounds_random;

static unsigned draw(unsigned n)
{
	rounds_random = rounds_random * 1664525 + 1013904223;
	return (rounds_random >> 8) % n;
}

/* What the pass makes of it, for free(). */
static char *pointed(const char *text, size_t size, bool is_auto, size_t *made,
		     struct gck_error *err)
{
	struct gck_ptx *ptx = gck_ptx_read(text, size, err);
	char *out = NULL;
	FILE *file = ptx ? open_memstream(&out, made) : NULL;

	if (file && gck_points_write(ptx, is_auto ? GCK_POINTS_AUTO : NULL, file, NULL, err)) {
		fclose(file);
		free(out);
		out = NULL;
	} else if (file) {
		fclose(file);
	}
	gck_ptx_free(ptx);
	return out;
}

static void set_u64(uint8_t *memory, uint64_t address, uint64_t value)
{
	memcpy(memory + address - MACHINE_GLOBAL, &value, 8);
}

static void set_u32(uint8_t *memory, uint64_t address, uint32_t value)
{
	memcpy(memory + address - MACHINE_GLOBAL, &value, 4);
}

/* Runs to the end with stops: after a launch with a stop comes one that goes on. */
static int run_with_stops(struct machine *m, uint8_t *memory, struct launch *l, uint64_t steps,
			  uint64_t variable)
{
	bool stopped = true;

	set_u64(memory, variable, WORD);
	set_u64(memory, variable + 8, RECORDS);
	l->word = WORD;
	for (unsigned i = 0; stopped; i++) {
		set_u32(memory, WORD, 0);
		set_u32(memory, variable + 20, i > 0);
		l->seed = draw(1u << 30);
		l->resident = l->workspace ? l->blocks : 1 + draw(BLOCKS);
		l->stop = i < MOST_STOPS ? 1 + draw(steps / (1 + draw(8)) + 1) : 0;
		if (machine_run(m, memory, l))
			return -1;
		stopped = memory[WORD - MACHINE_GLOBAL];
		seen.launches++;
		seen.stops += stopped;
	}
	return 0;
}

/* Whether the memory is the same after a plain run and after one with stops. */
static bool compare(struct machine *plain, struct machine *with, const struct shape *shape,
		    const char *variable)
{
	struct launch l = { .blocks = shape->has_grid ? 1 + draw(BLOCKS) : BLOCKS,
			    .threads = shape->threads, .dynamic = shape->dynamic,
			    .params = { MACHINE_GLOBAL, 2, 1 },
			    .workspace = shape->has_grid ? WORKSPACE : 0 };
	uint8_t *a = calloc(1, MACHINE_BYTES), *b = calloc(1, MACHINE_BYTES);
	uint8_t *c = calloc(1, MACHINE_BYTES);
	uint64_t at;
	bool same;

	l.resident = shape->has_grid ? l.blocks : 2;
	l.seed = draw(1000000);
	same = !machine_run(plain, a, &l);
	machine_variable(with, variable, b);
	same = same && !machine_run(with, b, &l); /* without gpuckpt */
	same = same && !memcmp(a, b, RESULTS);
	at = machine_variable(with, variable, c);
	l.workspace = shape->has_grid && at ? ABSENT : l.workspace;
	if (at) /* --auto finds no loop in some */
		same = same && !run_with_stops(with, c, &l, l.steps, at) && !memcmp(a, c, RESULTS);
	free(a);
	free(b);
	free(c);
	return same;
}

static bool run_seed(unsigned seed)
{
	struct shape shape;
	size_t size, made;
	bool is_marked = seed % 4, same = false; /* else with --auto */
	char *text = generate(seed, is_marked, &shape, &size);
	struct gck_error err = { 0 };
	char *out = pointed(text, size, !is_marked, &made, &err);
	struct machine *plain = machine_create(text, size), *with = NULL;

	rounds_random = seed;
	if (!out)
		printf("# seed %u: %s\n", seed, err.text);
	else
		with = machine_create(out, made);
	if (plain && with)
		same = compare(plain, with, &shape, "k$ckpt");
	machine_free(plain);
	machine_free(with);
	free(text);
	free(out);
	return same;
}

static void check_seeds(unsigned first, unsigned n)
{
	for (unsigned seed = first; seed < first + n; seed++) {
		seen.kernels++;
		if (!run_seed(seed)) {
			printf("# seed %u differs\n", seed);
			seen.different++;
		}
	}
	printf("# %u kernels, %u launches, of which %u were stopped\n", seen.kernels, seen.launches,
	       seen.stops);
	is_int(seen.different, 0, "random kernels that are stopped end with the same memory");
}

/* A loop of 50 rounds of a single thread, with a point in each. */
static const char lonely[] =
	".version 8.0\n.target sm_90\n.address_size 64\n"
	".visible .entry k(.param .u64 out)\n{\n\t.reg .b64 %l<2>;\n\t.reg .b32 %r<2>;\n"
	"\t.reg .pred %p;\n\tld.param.u64 %l0, [out];\n\tmov.u32 %r0, 0;\n$L:\n"
	"\t// gpuckpt point\n\tred.global.add.u32 [%l0], 1;\n\tadd.u32 %r0, %r0, 1;\n"
	"\tsetp.lt.u32 %p, %r0, 50;\n\t@%p bra $L;\n\tret;\n}\n";

/* Each launch leaves at its next point: no round is done twice, none is left out. */
static void check_progress(void)
{
	struct launch l = { .blocks = 1, .threads = 1, .resident = 1, .stop = 1, .word = WORD,
			    .params = { MACHINE_GLOBAL } };
	uint8_t *memory = calloc(1, MACHINE_BYTES);
	struct gck_error err = { 0 };
	size_t size;
	char *text = pointed(lonely, sizeof lonely - 1, false, &size, &err);
	struct machine *m = text ? machine_create(text, size) : NULL;
	uint64_t variable = m ? machine_variable(m, "k$ckpt", memory) : 0;
	uint32_t count = 0, last = 0;
	unsigned launches = 0;

	must(variable ? 0 : -1);
	set_u64(memory, variable, WORD);
	set_u64(memory, variable + 8, RECORDS);
	set_u32(memory, WORD, 1);
	for (; count < 50 && launches < 100; launches++) {
		must(machine_run(m, memory, &l));
		memcpy(&count, memory, 4);
		if (launches > 1 && count != last + 1)
			break;
		last = count;
		set_u32(memory, variable + 20, 1);
	}
	ok(count == 50 && launches == 52, "a kernel that is always asked to leave gets on");
	machine_free(m);
	free(text);
	free(memory);
}

/* The two warps of a block meet at different barriers, and only the first one's have a point before
 * them. Each thread adds what its neighbour in the other warp wrote before. */
static const char beside[] =
	".version 8.0\n.target sm_90\n.address_size 64\n"
	".visible .entry k(.param .u64 out)\n{\n\t.reg .b64 %l<4>;\n\t.reg .b32 %r<9>;\n"
	"\t.reg .pred %p<3>;\n\t.shared .align 4 .b8 box[256];\n\tld.param.u64 %l0, [out];\n"
	"\tmov.u32 %r0, %tid.x;\n\tmov.u32 %r1, %ctaid.x;\n\tmad.lo.u32 %r1, %r1, 64, %r0;\n"
	"\tmul.wide.u32 %l1, %r1, 4;\n\tadd.u64 %l0, %l0, %l1;\n\tmov.u32 %r2, box;\n"
	"\tshl.b32 %r3, %r0, 2;\n\tadd.u32 %r3, %r2, %r3;\n\txor.b32 %r4, %r0, 32;\n"
	"\tshl.b32 %r4, %r4, 2;\n\tadd.u32 %r4, %r2, %r4;\n\tmov.u32 %r5, 0;\n"
	"\tmov.u32 %r6, 0;\n\tsetp.lt.u32 %p0, %r0, 32;\n\t@!%p0 bra $B;\n"
	"$A:\n\tst.shared.u32 [%r3], %r6;\n\tbar.sync 0;\n\t// gpuckpt point\n"
	"\tld.shared.u32 %r7, [%r4];\n\tadd.u32 %r5, %r5, %r7;\n\tbar.sync 0;\n"
	"\tadd.u32 %r6, %r6, 1;\n\tsetp.lt.u32 %p1, %r6, 50;\n\t@%p1 bra $A;\n"
	"\tbra.uni $C;\n"
	"$B:\n\tst.shared.u32 [%r3], %r6;\n\tbar.sync 0;\n\tld.shared.u32 %r7, [%r4];\n"
	"\tadd.u32 %r5, %r5, %r7;\n\tbar.sync 0;\n\tadd.u32 %r6, %r6, 1;\n"
	"\tsetp.lt.u32 %p2, %r6, 50;\n\t@%p2 bra $B;\n"
	"$C:\n\tst.global.u32 [%l0], %r5;\n\tret;\n}\n";

static void check_beside(void)
{
	struct gck_error err = { 0 };
	size_t size;
	char *text = pointed(beside, sizeof beside - 1, false, &size, &err);
	struct machine *plain = machine_create(beside, sizeof beside - 1);
	struct machine *with = text ? machine_create(text, size) : NULL;
	bool same = plain && with;

	for (unsigned i = 0; i < 20; i++)
		same = same && compare(plain, with, &(struct shape){ 64, 0, false }, "k$ckpt");
	ok(same, "warps that meet at different barriers");
	machine_free(plain);
	machine_free(with);
	free(text);
}

/* grid.sync(), barrier_arrive() and barrier_wait(), as nvcc makes them. */
static void check_grid(void)
{
	char path[4096], text[1 << 16];
	struct gck_error err = { 0 };
	struct machine *plain, *with;
	size_t size, made;
	bool same;
	FILE *file;
	char *out;

	snprintf(path, sizeof path, "%s/shim/kernels/test/grid.ptx", getenv("srcdir") ?: ".");
	file = fopen(path, "r");
	must(file ? 0 : -1);
	size = fread(text, 1, sizeof text, file);
	fclose(file);
	out = pointed(text, size, false, &made, &err);
	plain = machine_create(text, size);
	with = out ? machine_create(out, made) : NULL;
	same = plain && with;
	for (unsigned i = 0; i < 20; i++)
		same = same && compare(plain, with, &(struct shape){ 64, 0, true }, "k$ckpt");
	ok(same, "barriers of the grid, as nvcc makes them");
	machine_free(plain);
	machine_free(with);
	free(out);
}

static void print_seed(unsigned seed)
{
	struct shape shape;
	size_t size, made;
	struct gck_error err = { 0 };
	char *text = generate(seed, seed % 4, &shape, &size);
	char *out = pointed(text, size, !(seed % 4), &made, &err);

	puts(out ? out : text);
	if (!out)
		fprintf(stderr, "%s\n", err.text);
	free(text);
	free(out);
}

int main(int argc, char **argv)
{
	const char *seed = getenv("GPUCKPT_SEED");

	if (argc == 3 && !strcmp(argv[1], "--print")) {
		print_seed(atoi(argv[2]));
		return 0;
	}
	if (argc == 3 && !strcmp(argv[1], "--plain")) {
		struct shape shape;
		size_t size;
		char *text = generate(atoi(argv[2]), true, &shape, &size);

		puts(text);
		free(text);
		return 0;
	}
	check_seeds(seed ? atoi(seed) : 1, seed ? 1 : tap_is_long() ? 2000 : 150);
	check_progress();
	check_beside();
	check_grid();
	return tap_done();
}
