/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "shim/kernels/pass/points.h"
#include "shim/kernels/pass/record.h"
#include "shim/kernels/pass/refuse.h"

/* Between two looks at the word are so many cycles of a thread's clock, as far as it can be told
 * from the last time between two points, but at most so many points. */
#define LOOK_CYCLES 131072u
#define LOOK_POINTS 1024u

#define SHORT_LOOP 256u /* statements of one that is repeated … */
#define MOST_STATEMENTS 1024u /* … to so many at most … */
#define MOST_TIMES 8u /* … so often */

struct writer {
	const struct gck_ptx *ptx;
	const struct gck_plan *plan;
	FILE *out;
	bool is_again; /* the second body: its labels have other names */
	size_t place;  /* the next */
	bool has_mark; /* the module's */
	const char *automatic;
	FILE *notes;
};

static const char *ending(const struct writer *w)
{
	return w->is_again ? "$gck_again" : "";
}

static uint32_t begin(const struct gck_ptx *ptx, uint32_t token)
{
	return ptx->tokens[token].begin;
}

static void copy(const struct writer *w, uint32_t from, uint32_t to)
{
	fwrite(w->ptx->text + from, 1, to - from, w->out);
}

static const char *reduction(const struct writer *w, const struct gck_ptx_statement *s)
{
	return gck_instruction_has(w->ptx, s->op, "popc") ? "popc.u32"
	       : gck_instruction_has(w->ptx, s->op, "and") ? "and.pred" : "or.pred";
}

/* A barrier within inline assembly: threads come to it from the one before the braces, maybe not a
 * whole warp at once. */
static void write_inner_barrier(const struct writer *w, const struct gck_ptx_statement *s)
{
	bool reduces = gck_instruction_has(w->ptx, s->op, "red");
	uint32_t rest = w->ptx->tokens[s->op].end;

	fprintf(w->out, "%s.%s", gck_record_barrier(w->plan), reduces ? "red." : "sync");
	if (reduces)
		fputs(reduction(w, s), w->out);
	copy(w, rest, w->ptx->tokens[s->at.last - 1].end);
}

/* A statement as it is. In the second body its labels are renamed: its own, a branch's last
 * operand, all names of a table. */
static void write_statement(const struct writer *w, uint32_t i)
{
	const struct gck_ptx_statement *s = &w->plan->flow.statements[i];
	unsigned traits = w->plan->flow.traits[i];
	bool is_branch = traits & (GCK_BRANCH | GCK_TABLE_BRANCH);
	bool is_table = s->does == GCK_PTX_DIRECTIVE && gck_ptx_is(w->ptx, s->op, ".branchtargets");

	for (uint32_t at = s->at.first; at < s->at.last; at++) {
		const struct gck_ptx_token *t = &w->ptx->tokens[at];

		copy(w, at > s->at.first ? w->ptx->tokens[at - 1].end : t->begin, t->end);
		if (!w->is_again || t->kind != GCK_PTX_WORD)
			continue;
		if ((s->does == GCK_PTX_LABEL && at == s->op) || (is_table && at != s->op) ||
		    (is_branch &&
		     at == w->ptx->operands[s->operand + s->n_operands - 1].first))
			fputs(ending(w), w->out);
	}
}

/* %gck_p: whether the word is set. Its address is loaded each time: that is rare, and a register
 * less in the kernel's loops. */
static void write_look(const struct writer *w)
{
	gck_record_variable(w->plan, w->out);
	fputs("\tld.global.u64 %gck_w, [%gck_z];\n\tsetp.eq.u64 %gck_p, %gck_w, 0;\n"
	      "\t@%gck_p add.u64 %gck_w, %gck_z, 16;\n"
	      "\tld.volatile.global.u32 %gck_t, [%gck_w];\n"
	      "\tsetp.ne.u32 %gck_p, %gck_t, 0;\n", w->out);
}

/* %gck_l counts the points until the next look. A look leaves the clock in it, as a negative
 * number: the next point finds from that how many points to count, and looks as well. */
static void write_count(const struct writer *w, size_t place)
{
	fprintf(w->out, "\n\tadd.s32 %%gck_l, %%gck_l, -1;\n"
			"\tsetp.le.s32 %%gck_p, %%gck_l, 0;\n\t@!%%gck_p bra $gck_looked_%zu%s;\n"
			"\tmov.u32 %%gck_t, %%clock;\n"
			"\tsetp.lt.s32 %%gck_q, %%gck_l, 0;\n"
			"\tsub.u32 %%gck_s, %%gck_t, %%gck_l;\n"
			"\tand.b32 %%gck_s, %%gck_s, 0x7fffffff;\n"
			"\tbfind.u32 %%gck_s, %%gck_s;\n\tmov.u32 %%gck_l, %u;\n"
			"\tshr.u32 %%gck_l, %%gck_l, %%gck_s;\n"
			"\tmin.u32 %%gck_l, %%gck_l, %u;\n\tmax.u32 %%gck_l, %%gck_l, 1;\n"
			"\tor.b32 %%gck_t, %%gck_t, 0x80000001;\n"
			"\tselp.b32 %%gck_l, %%gck_l, %%gck_t, %%gck_q;\n",
		place + 1, ending(w), LOOK_CYCLES, LOOK_POINTS);
}

/* A thread leaves here if the word is set. It comes back behind the test. If all threads looked
 * each time, they would wait for one bank of the memory: they look when some time has passed. */
static void write_test(const struct writer *w, size_t place)
{
	if (w->plan->places[place].kind == GCK_PLACE_ENTRY) {
		fputs("\n\tmov.u32 %gck_l, 1;\n", w->out);
		write_look(w);
	} else {
		write_count(w, place);
		write_look(w);
		fprintf(w->out, "$gck_looked_%zu%s:\n", place + 1, ending(w));
	}
	if (w->plan->is_together && !w->plan->places[place].is_alone)
		fputs("\tvote.sync.any.pred %gck_p, %gck_p, 0xffffffff;\n", w->out);
	if (w->plan->places[place].barrier != GCK_NONE)
		fprintf(w->out, "\tmov.u32 %%gck_f, %zu;\n\t@%%gck_p bra $gck_meet_%u%s;\n",
			place + 1, w->plan->places[place].barrier, ending(w));
	else
		fprintf(w->out, "\t@%%gck_p bra $gck_leave_%zu;\n", place + 1);
	if (w->is_again)
		fprintf(w->out, "$gck_place_%zu:\n", place + 1);
}

static void write_guard(const struct writer *w, const struct gck_ptx_statement *s, bool is_not)
{
	fprintf(w->out, "\t@%s%.*s ", s->negated != is_not ? "!" : "",
		GCK_PTX_TEXT(w->ptx, s->guard));
}

static bool has_meeting(const struct gck_plan *plan, size_t barrier)
{
	for (size_t i = 0; i < plan->n_places; i++)
		if (gck_plan_meets(&plan->places[i], &plan->places[barrier]))
			return true;
	return false;
}

/* All of the block tell at a barrier whether they leave. If one does, those who wait leave as
 * waiting, and come back before the barrier. Who was alone before it, and leaves, comes to its
 * middle with the number of its place. Behind it all are with their warps again. */
static void write_barrier(const struct writer *w, uint32_t i, size_t place)
{
	const struct gck_ptx_statement *s = &w->plan->flow.statements[i];
	const struct gck_ptx_range *o = &w->ptx->operands[s->operand];

	fputs("\n", w->out);
	if (s->guard) {
		write_guard(w, s, true);
		fprintf(w->out, "bra $gck_past_%zu%s;\n", place + 1, ending(w));
	}
	if (w->is_again)
		fprintf(w->out, "$gck_place_%zu:\n", place + 1);
	if (has_meeting(w->plan, place))
		fprintf(w->out, "\tmov.u32 %%gck_f, 0;\n$gck_meet_%u%s:\n"
				"\tsetp.ne.u32 %%gck_q, %%gck_f, 0;\n", i, ending(w));
	else
		fputs("\tmov.pred %gck_q, 0;\n", w->out);
	fprintf(w->out, "\t%s.red.or.pred %%gck_p, 0, %%gck_q;\n\t@%%gck_p bra $gck_wait_%zu;\n",
		gck_record_barrier(w->plan), place + 1);
	if (s->does == GCK_PTX_INSTRUCTION && gck_instruction_has(w->ptx, s->op, "red")) {
		fprintf(w->out, "\t%s.red.%s ", gck_record_barrier(w->plan), reduction(w, s));
		copy(w, begin(w->ptx, o[0].first), w->ptx->tokens[s->at.last - 1].end);
		fputs("\n", w->out);
	}
	if (s->guard)
		fprintf(w->out, "$gck_past_%zu%s:\n", place + 1, ending(w));
	else if (w->plan->is_together && !w->plan->is_aligned &&
		 !gck_set_has(w->plan->graph.apart, w->plan->flow.block_of[i]))
		fputs("\tbar.warp.sync 0xffffffff;\n", w->out);
}

static uint32_t table_of(const struct writer *w, uint32_t name)
{
	const struct gck_flow *f = &w->plan->flow;
	uint32_t i = 0;

	while (f->statements[i].does != GCK_PTX_LABEL ||
	       !gck_ptx_same(w->ptx, f->statements[i].op, name))
		i++;
	while (!gck_ptx_is(w->ptx, f->statements[i].op, ".branchtargets"))
		i++;
	return i;
}

/* A branch by a table, as a chain of branches. If threads of a warp may come to barriers apart,
 * ptxas (13.0) takes them to be together behind brx.idx, and does not bring them together. */
static void write_chain(const struct writer *w, uint32_t i)
{
	const struct gck_ptx_statement *s = &w->plan->flow.statements[i];
	const struct gck_ptx_range *o = &w->ptx->operands[s->operand];
	const struct gck_ptx_statement *table =
		&w->plan->flow.statements[table_of(w, o[1].first)];

	fputs("\n", w->out);
	if (s->guard) {
		write_guard(w, s, true);
		fprintf(w->out, "bra $gck_beside_%u%s;\n", i, ending(w));
	}
	for (uint32_t k = 0; k < table->n_operands; k++) {
		uint32_t target = w->ptx->operands[table->operand + k].first;

		if (k + 1 < table->n_operands)
			fprintf(w->out, "\tsetp.eq.u32 %%gck_p, %.*s, %u;\n\t@%%gck_p",
				GCK_PTX_TEXT(w->ptx, o[0].first), k);
		fprintf(w->out, "\tbra %.*s%s;\n", GCK_PTX_TEXT(w->ptx, target), ending(w));
	}
	if (s->guard)
		fprintf(w->out, "$gck_beside_%u%s:\n", i, ending(w));
}

/* ---- short loops ---------------------------------------------------------------------------- */

/* Whether block b is a loop by itself, of plain instructions, with one point. */
static bool is_short_loop(const struct gck_plan *plan, const struct gck_block *b, uint32_t block)
{
	const struct gck_flow *f = &plan->flow;
	uint32_t last = b->last - 1;
	size_t points = 0;

	if (b->last - b->first > SHORT_LOOP || !(f->traits[last] & GCK_BRANCH) ||
	    !f->statements[last].guard || f->successors[b->successor] != block)
		return false;
	for (uint32_t i = b->first; i < b->last; i++)
		if (f->statements[i].depth ||
		    (f->traits[i] & (GCK_BARRIER | GCK_CALL | GCK_GRID)) ||
		    gck_ptx_is(f->ptx, f->statements[i].op, ".pragma"))
			return false;
	for (size_t i = 0; i < plan->n_places; i++)
		points += plan->places[i].kind != GCK_PLACE_ENTRY &&
			  f->block_of[plan->places[i].statement] == block;
	return points == 1;
}

/* At the end of a short loop, where ptxas would have repeated its statements: they are repeated
 * without the point, so that it costs less. */
static void repeat_loop(const struct writer *w, uint32_t end)
{
	const struct gck_flow *f = &w->plan->flow;
	const struct gck_block *b = &f->blocks[f->block_of[end]];
	uint32_t times = MOST_STATEMENTS / (b->last - b->first);

	for (times = times < MOST_TIMES ? times : MOST_TIMES; times > 1; times--) {
		write_guard(w, &f->statements[end], true);
		fprintf(w->out, "bra $gck_done_%u;\n", end);
		for (uint32_t i = b->first; i < end; i++)
			if (f->statements[i].does == GCK_PTX_INSTRUCTION) {
				fputs("\t", w->out);
				write_statement(w, i);
				fputs("\n", w->out);
			}
	}
	fputs("\t", w->out);
	write_statement(w, end);
	fprintf(w->out, "\n$gck_done_%u:\n", end);
}

static bool ends_short_loop(const struct writer *w, uint32_t i)
{
	const struct gck_flow *f = &w->plan->flow;
	const struct gck_block *b = &f->blocks[f->block_of[i]];

	return !w->is_again && i + 1 == b->last && is_short_loop(w->plan, b, f->block_of[i]);
}

/* ---- bodies --------------------------------------------------------------------------------- */

static bool is_declaration(const struct writer *w, const struct gck_ptx_statement *s)
{
	static const char *const names[] = { ".reg", ".local", ".shared", ".param", ".global",
					     ".const", ".extern", ".visible", ".weak", ".tex" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (s->does == GCK_PTX_DIRECTIVE && !s->depth &&
		    gck_ptx_is(w->ptx, s->op, names[i]))
			return true;
	return false;
}

static void write_body(struct writer *w)
{
	const struct gck_flow *f = &w->plan->flow;
	uint32_t at = w->ptx->tokens[f->function->header.last].end;

	w->place = 0;
	for (uint32_t i = 0; i < f->n_statements; i++) {
		const struct gck_ptx_statement *s = &f->statements[i];
		bool is_written = false;

		copy(w, at, begin(w->ptx, s->at.first));
		at = w->ptx->tokens[s->at.last - 1].end;
		for (; w->place < w->plan->n_places &&
		       w->plan->places[w->place].statement == i; w->place++) {
			enum gck_place_kind kind = w->plan->places[w->place].kind;

			if (kind == GCK_PLACE_BARRIER)
				write_barrier(w, i, w->place);
			else
				write_test(w, w->place);
			is_written |= kind == GCK_PLACE_BARRIER && s->does != GCK_PTX_OPEN;
		}
		if (s->depth && (f->traits[i] & GCK_BARRIER) && !w->plan->stays[i])
			write_inner_barrier(w, s);
		else if ((f->traits[i] & GCK_TABLE_BRANCH) && w->plan->needs_barrier &&
			 !w->plan->is_aligned)
			write_chain(w, i);
		else if (f->traits[i] & GCK_GRID)
			gck_record_grid(w->plan, w->out, i);
		else if (ends_short_loop(w, i))
			repeat_loop(w, i);
		else if (!is_written && !(w->is_again && is_declaration(w, s)))
			write_statement(w, i);
		if (s->does == GCK_PTX_POINT)
			fputs("\n", w->out);
	}
	fputs("\n\tret;\n", w->out);
}

/* NAME$ckpt: the word's address (0: never leave), the records' address, a zero to read as the word
 * and whether this launch goes on; then for whoever launches: the bytes of a thread's record, of
 * the static shared memory, and whether the dynamic is saved as well (1), and the first block's
 * record has the grid's workspace (2). */
static void write_variable(const struct writer *w)
{
	const struct gck_ptx_function *f = w->plan->flow.function;
	bool is_weak = false;

	for (uint32_t i = f->header.first; i < f->name; i++)
		is_weak |= gck_ptx_is(w->ptx, i, ".weak");
	fprintf(w->out, "%s .global .align 8 .u64 %.*s$ckpt[6] = {0, 0, 0, %" PRIu64 ", %" PRIu64
			", %d};\n\n", is_weak ? ".weak" : ".visible",
		GCK_PTX_TEXT(w->ptx, f->name), w->plan->record_size, w->plan->variables.shared_size,
		w->plan->variables.is_dynamic + 2 * w->plan->has_grid);
}

/* The upper half of the third word is not zero in a launch that goes on. */
static void write_begin(const struct writer *w)
{
	fputs("\n", w->out);
	gck_record_declare(w->out);
	gck_record_variable(w->plan, w->out);
	fputs("\tld.global.u32 %gck_t, [%gck_z+20];\n\tsetp.ne.u32 %gck_p, %gck_t, 0;\n"
	      "\t@%gck_p bra $gck_resume;\n", w->out);
}

/* An empty kernel, by which the run time knows a module with points. */
static void write_mark(struct writer *w)
{
	if (!w->has_mark)
		fputs(".weak .entry gpuckpt$points()\n{\n\tret;\n}\n\n", w->out);
	w->has_mark = true;
}

static void write_kernel(struct writer *w)
{
	const struct gck_ptx_function *f = w->plan->flow.function;

	write_mark(w);
	write_variable(w);
	copy(w, begin(w->ptx, f->at.first), w->ptx->tokens[f->header.last].end);
	write_begin(w);
	w->is_again = false;
	write_body(w);
	gck_record_write(w->plan, w->out);
	w->is_again = true;
	write_body(w);
	fputs("}\n", w->out);
}

static bool has_marks(const struct gck_ptx *ptx, const struct gck_ptx_function *f)
{
	for (uint32_t i = 0; i < f->n_statements; i++)
		if (ptx->statements[f->statement + i].does == GCK_PTX_POINT)
			return true;
	return false;
}

/* Whether a list has the token's text between its commas. */
static bool lists(const char *list, const struct gck_ptx *ptx, uint32_t token)
{
	size_t n = ptx->tokens[token].end - begin(ptx, token), k;

	for (; *list; list += k + (list[k] == ',')) {
		k = strcspn(list, ",");
		if (k == n && !memcmp(list, ptx->text + begin(ptx, token), n))
			return true;
	}
	return false;
}

static void note(const struct writer *w, const struct gck_ptx_function *f, const char *why)
{
	if (w->notes)
		fprintf(w->notes, "%.*s has no points: %s\n", GCK_PTX_TEXT(w->ptx, f->name), why);
}

/* Sets at behind the function if it was written anew. */
static int write_function(struct writer *w, size_t i, uint32_t *at, struct gck_error *err)
{
	const struct gck_ptx_function *f = &w->ptx->functions[i];
	struct gck_error why = { 0 };
	struct gck_plan plan;
	bool is_named = w->automatic && lists(w->automatic, w->ptx, f->name);
	bool is_auto = is_named || (w->automatic && !strcmp(w->automatic, GCK_POINTS_AUTO));
	int result = 0;

	if (!f->is_entry)
		return gck_refuse_marks(w->ptx, f, err);
	if (gck_plan_make(&plan, w->ptx, i, is_auto, &why)) {
		if (has_marks(w->ptx, f))
			result = gck_fail(err, why.code, "%s", why.text);
		else
			note(w, f, why.text);
	} else if (!plan.has_points) {
		if (is_named)
			note(w, f, "it has no loop");
	} else {
		copy(w, *at, begin(w->ptx, f->at.first));
		gck_record_measure(&plan);
		w->plan = &plan;
		write_kernel(w);
		*at = w->ptx->tokens[f->at.last - 1].end;
	}
	gck_plan_clear(&plan);
	return result;
}

int gck_points_write(const struct gck_ptx *ptx, const char *automatic, FILE *out, FILE *notes,
		     struct gck_error *err)
{
	struct writer w = { .ptx = ptx, .out = out, .automatic = automatic, .notes = notes };
	uint32_t at = 0;

	for (size_t i = 0; i < ptx->n_functions; i++)
		if (write_function(&w, i, &at, err))
			return -1;
	copy(&w, at, ptx->size);
	return fflush(out) ? gck_fail(err, errno, "cannot write PTX") : 0;
}
