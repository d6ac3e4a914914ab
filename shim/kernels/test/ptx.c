/* SPDX-License-Identifier: Apache-2.0
 * The PTX reader: what nvcc makes is read whole, errors name their line, no bytes crash it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/kernels/ptx/ptx.h"
#include "test/support/tap.h"

static char *read_sample(size_t *size)
{
	char path[4096];
	FILE *file;
	char *text = calloc(1, 1 << 20);

	snprintf(path, sizeof path, "%s/shim/kernels/test/sample.ptx", getenv("srcdir") ?: ".");
	file = fopen(path, "r");
	must(file && text ? 0 : -1);
	*size = fread(text, 1, 1 << 20, file);
	fclose(file);
	return text;
}

/* The text, put together from the items and, in bodies, from the statements. */
static char *written(const struct gck_ptx *ptx, size_t *size)
{
	char *text;
	FILE *out = open_memstream(&text, size);
	uint32_t at = 0;

	for (size_t i = 0; i < ptx->n_statements; i++) {
		uint32_t end = ptx->tokens[ptx->statements[i].at.last - 1].end;

		must(end >= at ? 0 : -1);
		fwrite(ptx->text + at, 1, end - at, out);
		at = end;
	}
	fwrite(ptx->text + at, 1, ptx->size - at, out);
	fclose(out);
	return text;
}

static unsigned count(const struct gck_ptx *ptx, enum gck_ptx_does does)
{
	unsigned n = 0;

	for (size_t i = 0; i < ptx->n_statements; i++)
		n += ptx->statements[i].does == does;
	return n;
}

static void check_sample(void)
{
	size_t size, back;
	char *text = read_sample(&size), *again;
	struct gck_ptx *ptx = gck_ptx_read(text, size, NULL);
	const struct gck_ptx_statement *s;

	must(ptx ? 0 : -1);
	again = written(ptx, &back);
	ok(back == size && !memcmp(text, again, size), "what nvcc makes is written back equal");
	ok(all_of(ptx->n_functions == 2, !ptx->functions[0].is_entry, ptx->functions[1].is_entry,
		  gck_ptx_is(ptx, ptx->functions[0].name, "_Z1ffi"),
		  gck_ptx_is(ptx, ptx->functions[1].name, "_Z1kPfi")),
	   "its functions are found");
	is_int(count(ptx, GCK_PTX_POINT), 5, "a point in each copy of the unrolled loop");
	for (s = ptx->statements; s->does != GCK_PTX_POINT; s++)
		;
	ok(all_of(s->line == 11, gck_ptx_is(ptx, gck_ptx_file(ptx, s->file), "\"/src/a.cu\"")),
	   "a point's place in the source");
	for (s = ptx->statements; !s->guard; s++)
		;
	ok(all_of(gck_ptx_is(ptx, s->op, "bra"), gck_ptx_is(ptx, s->guard, "%p1"), !s->negated,
		  s->n_operands == 1),
	   "an instruction with its guard");
	free(again);
	gck_ptx_free(ptx);
	free(text);
}

static const struct {
	const char *text;
	unsigned line; /* 0: it is PTX */
} texts[] = {
	{ "", 0 },
	{ ".version 9.0\n.target sm_90, debug\n.address_size 64\n", 0 },
	{ ".entry k() { @!%p0 bra L; L: ret; }", 0 },
	{ ".entry k() { { .reg .pred p; } ld.v4.f32 {%a,%b,%c,%d}, [%r+16]; }", 0 },
	{ ".entry k() { shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1; ; }", 0 },
	{ ".entry k() { L: .branchtargets A, B; brx.idx %r1, L; }", 0 },
	{ ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);", 0 },
	{ ".visible .global .align 4 .b8 x[3] = {1, 2, 3};", 0 },
	{ ".section .debug_str\n{\nL:\n.b8 1\n}", 0 },
	{ ".weak .entry k(.param .u64 p) .maxntid 128, 1, 1 .minnctapersm 2 { ret; }", 0 },
	{ ".version 9.0\n/* a\n", 2 },
	{ "\n\n.file 1 \"a\n", 3 },
	{ ".entry k()\n{\n ret\n}", 4 },
	{ ".entry k()\n{\n ret;\n", 4 },
	{ ".entry k()\n{\n @ ret;\n}", 3 },
	{ ".entry k()\n{\n add.s32 a,,b;\n}", 3 },
	{ ".entry k()\n{\n add.s32 a, b,;\n}", 3 },
	{ ".entry k()\n{\n ld.u32 a, [b};\n}", 3 },
	{ ".entry k()\n{\n mov.b32 a, // gpuckpt point\n b;\n}", 3 },
	{ ".entry k()\n{\n \"x\";\n}", 3 },
	{ "\nret;", 2 },
	{ ".entry\n{", 2 },
	{ ".global .b32 x", 1 },
	{ ".version 9.0\n\x01", 2 },
};

static void check_texts(void)
{
	unsigned wrong = 0;

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct gck_error err = { 0 };
		struct gck_ptx *ptx = gck_ptx_read(texts[i].text, strlen(texts[i].text), &err);
		unsigned line = 0;

		if (!ptx && sscanf(err.text, "line %u:", &line) != 1)
			line = -1;
		if (line != texts[i].line) {
			printf("# %zu: line %u, not %u: %s\n", i, line, texts[i].line, err.text);
			wrong++;
		}
		gck_ptx_free(ptx);
	}
	is_int(wrong, 0, "texts that are PTX are read, errors name their line");
}

/* A few bytes of the sample are changed, or its end is cut off. */
static void check_bytes(unsigned rounds)
{
	size_t size, cut, read = 0;
	char *text = read_sample(&size), *copy = malloc(size);

	must(copy ? 0 : -1);
	srandom(23);
	for (unsigned i = 0; i < rounds; i++) {
		struct gck_ptx *ptx;

		memcpy(copy, text, size);
		for (unsigned n = 1 + random() % 4; n; n--)
			copy[random() % size] = random() % 2 ? random()
							     : "{}()[];,:@\"/*"[random() % 13];
		cut = random() % 4 ? size : random() % size;
		ptx = gck_ptx_read(copy, cut, NULL);
		read += !!ptx;
		gck_ptx_free(ptx);
	}
	ok(read > 0 && read < rounds, "random bytes in PTX are read or refused");
	free(text);
	free(copy);
}

int main(void)
{
	check_sample();
	check_texts();
	check_bytes(tap_is_long() ? 20000 : 500);
	return tap_done();
}
