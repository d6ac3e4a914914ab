/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>

#include "shim/kernels/pass/record.h"

#define BLOCK_HEAD 16 /* bytes of a block's record before its shared memory */
#define NO_SLOTS 4    /* bytes of a thread's record without registers: the place */
#define GRID 8        /* where the grid's workspace is in the head of the first block's record */

/* One saved register of a place. %gck_a is at the word before its own. */
typedef void slot_fn(const struct gck_plan *plan, FILE *out, uint32_t reg);

static bool is_saved(const struct gck_plan *plan, const uint64_t *live, uint32_t r)
{
	return r != GCK_CARRY && r != GCK_SPECIAL && gck_set_has(live, r) &&
	       !plan->flow.registers[r].depth && !gck_set_has(plan->recompute.registers, r);
}

static uint64_t *live_at(const struct gck_flow *f, uint32_t statement)
{
	uint64_t *live = calloc(f->words, sizeof *live);

	if (!live)
		abort();
	gck_flow_live(f, statement, live);
	return live;
}

/* Calls fn for each register that a place saves; returns the bytes up to the local variables. */
static uint64_t each_slot(const struct gck_plan *plan, uint32_t statement, FILE *out, slot_fn *fn)
{
	const struct gck_flow *f = &plan->flow;
	uint64_t *live = live_at(f, statement), size = NO_SLOTS;

	for (uint32_t r = 0; r < f->n_registers; r++)
		if (is_saved(plan, live, r)) {
			if (fn)
				fn(plan, out, r);
			size += f->registers[r].bits == 64 ? 8 : 4;
		}
	free(live);
	return size;
}

static uint64_t local_size(const struct gck_plan *plan)
{
	uint64_t size = 0;

	for (size_t i = 0; i < plan->variables.n_local; i++)
		size += plan->variables.local[i].size / plan->variables.local[i].unit * 4;
	return size;
}

void gck_record_measure(struct gck_plan *plan)
{
	plan->record_size = NO_SLOTS;
	for (size_t i = 1; i < plan->n_places; i++) {
		uint64_t size = each_slot(plan, plan->places[i].statement, NULL, NULL) +
				local_size(plan);

		plan->record_size = size > plan->record_size ? size : plan->record_size;
	}
}

void gck_record_declare(FILE *out)
{
	fputs("\t.reg .pred %gck_p, %gck_q;\n"
	      "\t.reg .b32 %gck_t, %gck_k, %gck_n, %gck_i, %gck_s, %gck_x, %gck_y;\n"
	      "\t.reg .b32 %gck_c, %gck_m, %gck_l, %gck_f;\n"
	      "\t.reg .b64 %gck_w, %gck_z, %gck_a, %gck_b, %gck_d;\n", out);
}

const char *gck_record_barrier(const struct gck_plan *plan)
{
	return plan->is_aligned ? "bar" : "barrier";
}

/* Waits for all of the block, and tells that a thread leaves. */
static void write_leaving_barrier(const struct gck_plan *plan, FILE *out)
{
	fprintf(out, "\tmov.pred %%gck_q, -1;\n\t%s.red.or.pred %%gck_p, 0, %%gck_q;\n",
		gck_record_barrier(plan));
}

void gck_record_variable(const struct gck_plan *plan, FILE *out)
{
	fprintf(out, "\tmov.u64 %%gck_z, %.*s$ckpt;\n",
		GCK_PTX_TEXT(plan->flow.ptx, plan->flow.function->name));
}

/* The threads of a grid meet at a word of its workspace, whose address is in two registers of the
 * driver. If the launch may leave, and has a workspace at all, that is in its records instead, so
 * it is the same when the launch goes on. */
void gck_record_grid(const struct gck_plan *plan, FILE *out, uint32_t statement)
{
	const struct gck_ptx *ptx = plan->flow.ptx;
	const struct gck_ptx_range *o =
		&ptx->operands[plan->flow.statements[statement].operand];

	fputs("\n\tmov.u32 %gck_x, %envreg2;\n\tmov.u32 %gck_y, %envreg1;\n"
	      "\tmov.b64 %gck_a, {%gck_x, %gck_y};\n\tsetp.ne.u64 %gck_p, %gck_a, 0;\n", out);
	gck_record_variable(plan, out);
	fprintf(out, "\tld.global.u64 %%gck_w, [%%gck_z];\n\tsetp.ne.u64 %%gck_q, %%gck_w, 0;\n"
		     "\tand.pred %%gck_p, %%gck_p, %%gck_q;\n"
		     "\tld.global.u64 %%gck_b, [%%gck_z+8];\n\tadd.u64 %%gck_b, %%gck_b, %u;\n"
		     "\tselp.b64 %%gck_a, %%gck_b, %%gck_a, %%gck_p;\n"
		     "\tmov.b64 {%%gck_x, %%gck_y}, %%gck_a;\n\tmov.u32 %.*s, %%gck_%c;\n", GRID,
		GCK_PTX_TEXT(ptx, o[0].first), gck_ptx_is(ptx, o[1].first, "%envreg2") ? 'x' : 'y');
}

/* %gck_b: the block's record; %gck_n: the block's threads; %gck_i: the thread's number of them;
 * %gck_a: the thread's first word. Few registers: all that the kernel needs later is live here, and
 * ptxas optimises the whole kernel for as many registers as its fullest place needs. */
static void write_where(const struct gck_plan *plan, FILE *out)
{
	fputs("\tmov.u32 %gck_x, %ctaid.z;\n\tmov.u32 %gck_y, %nctaid.y;\n"
	      "\tmul.wide.u32 %gck_b, %gck_x, %gck_y;\n\tmov.u32 %gck_x, %ctaid.y;\n"
	      "\tcvt.u64.u32 %gck_a, %gck_x;\n\tadd.u64 %gck_b, %gck_b, %gck_a;\n"
	      "\tmov.u32 %gck_x, %nctaid.x;\n\tcvt.u64.u32 %gck_a, %gck_x;\n"
	      "\tmul.lo.u64 %gck_b, %gck_b, %gck_a;\n\tmov.u32 %gck_x, %ctaid.x;\n"
	      "\tcvt.u64.u32 %gck_a, %gck_x;\n\tadd.u64 %gck_b, %gck_b, %gck_a;\n"
	      "\tmov.u32 %gck_n, %ntid.x;\n\tmov.u32 %gck_x, %ntid.y;\n"
	      "\tmul.lo.u32 %gck_n, %gck_n, %gck_x;\n\tmov.u32 %gck_x, %ntid.z;\n"
	      "\tmul.lo.u32 %gck_n, %gck_n, %gck_x;\n", out);
	/* %gck_d: bytes of the block's record before its threads'; %gck_a: of all of it. */
	fprintf(out, "\tmov.u64 %%gck_d, %" PRIu64 ";\n", BLOCK_HEAD + plan->variables.shared_size);
	if (plan->variables.is_dynamic)
		fputs("\tmov.u32 %gck_x, %dynamic_smem_size;\n\tadd.u32 %gck_x, %gck_x, 15;\n"
		      "\tand.b32 %gck_x, %gck_x, -16;\n\tcvt.u64.u32 %gck_a, %gck_x;\n"
		      "\tadd.u64 %gck_d, %gck_d, %gck_a;\n", out);
	fprintf(out, "\tmul.wide.u32 %%gck_a, %%gck_n, %" PRIu64 ";\n"
		     "\tadd.u64 %%gck_a, %%gck_a, 15;\n\tand.b64 %%gck_a, %%gck_a, -16;\n"
		     "\tadd.u64 %%gck_a, %%gck_a, %%gck_d;\n"
		     "\tmul.lo.u64 %%gck_b, %%gck_b, %%gck_a;\n", plan->record_size);
	gck_record_variable(plan, out);
	fputs("\tld.global.u64 %gck_a, [%gck_z+8];\n\tadd.u64 %gck_b, %gck_b, %gck_a;\n"
	      "\tadd.u64 %gck_a, %gck_b, %gck_d;\n"
	      "\tmov.u32 %gck_i, %tid.z;\n\tmov.u32 %gck_x, %ntid.y;\n\tmov.u32 %gck_y, %tid.y;\n"
	      "\tmad.lo.u32 %gck_i, %gck_i, %gck_x, %gck_y;\n"
	      "\tmov.u32 %gck_x, %ntid.x;\n\tmov.u32 %gck_y, %tid.x;\n"
	      "\tmad.lo.u32 %gck_i, %gck_i, %gck_x, %gck_y;\n"
	      "\tmad.wide.u32 %gck_a, %gck_i, 4, %gck_a;\n", out);
}

static void write_register(const struct gck_plan *plan, FILE *out, uint32_t reg)
{
	const struct gck_register *r = &plan->flow.registers[reg];

	fprintf(out, "%.*s", GCK_PTX_TEXT(plan->flow.ptx, r->token));
	if (r->number != GCK_NONE)
		fprintf(out, "%u", r->number);
}

/* The words of a block's threads lie side by side. */
static const char next_word[] = "\tmad.wide.u32 %gck_a, %gck_n, 4, %gck_a;\n";

static void save_slot(const struct gck_plan *plan, FILE *out, uint32_t reg)
{
	uint32_t bits = plan->flow.registers[reg].bits;

	fputs(next_word, out);
	if (bits == 1)
		fputs("\tselp.b32 %gck_x, 1, 0, ", out);
	else if (bits == 64)
		fputs("\tmov.b64 {%gck_x, %gck_y}, ", out);
	else
		fprintf(out, "\tst.global.b%u [%%gck_a], ", bits);
	write_register(plan, out, reg);
	fputs(";\n", out);
	if (bits == 1 || bits == 64)
		fputs("\tst.global.b32 [%gck_a], %gck_x;\n", out);
	if (bits == 64)
		fprintf(out, "%s\tst.global.b32 [%%gck_a], %%gck_y;\n", next_word);
}

static void load_slot(const struct gck_plan *plan, FILE *out, uint32_t reg)
{
	uint32_t bits = plan->flow.registers[reg].bits;

	fputs(next_word, out);
	if (bits == 1 || bits == 64)
		fputs("\tld.global.b32 %gck_x, [%gck_a];\n", out);
	if (bits == 64)
		fprintf(out, "%s\tld.global.b32 %%gck_y, [%%gck_a];\n", next_word);
	if (bits == 1)
		fputs("\tsetp.ne.b32 ", out);
	else if (bits == 64)
		fputs("\tmov.b64 ", out);
	else
		fprintf(out, "\tld.global.b%u ", bits);
	write_register(plan, out, reg);
	fputs(bits == 1 ? ", %gck_x, 0;\n" : bits == 64 ? ", {%gck_x, %gck_y};\n"
							: ", [%gck_a];\n", out);
}

/* Copies each local variable: a word of the record for each unit of it. The accesses are volatile,
 * and generic (volatile needs that), or ptxas takes the variable apart into registers. */
static void write_local(const struct gck_plan *plan, FILE *out, size_t place, bool is_load)
{
	for (size_t i = 0; i < plan->variables.n_local; i++) {
		const struct gck_variable *v = &plan->variables.local[i];
		const char *way = is_load ? "load" : "save";

		fprintf(out, "\tmov.u64 %%gck_d, %.*s;\n"
			     "\tcvta.local.u64 %%gck_d, %%gck_d;\n"
			     "\tmov.u32 %%gck_s, 0;\n$gck_local_%s_%zu_%zu:\n%s",
			GCK_PTX_TEXT(plan->flow.ptx, v->name), way, place, i, next_word);
		if (is_load)
			fprintf(out, "\tld.global.b32 %%gck_x, [%%gck_a];\n"
				     "\tst.volatile.b%u [%%gck_d], %%gck_x;\n", v->unit * 8);
		else
			fprintf(out, "\tld.volatile.b%u %%gck_x, [%%gck_d];\n"
				     "\tst.global.b32 [%%gck_a], %%gck_x;\n", v->unit * 8);
		fprintf(out, "\tadd.u64 %%gck_d, %%gck_d, %u;\n"
			     "\tadd.u32 %%gck_s, %%gck_s, 1;\n"
			     "\tsetp.lt.u32 %%gck_p, %%gck_s, %" PRIu64 ";\n"
			     "\t@%%gck_p bra $gck_local_%s_%zu_%zu;\n",
			v->unit, v->size / v->unit, way, place, i);
	}
}

static void write_size(const struct gck_variable *v, FILE *out)
{
	if (v->size)
		fprintf(out, "\tmov.u32 %%gck_t, %" PRIu64 ";\n", v->size);
	else
		fputs("\tmov.u32 %gck_t, %dynamic_smem_size;\n", out);
}

/* Copies the shared memory: this thread is %gck_c of %gck_m that do it. */
static void write_shared(const struct gck_plan *plan, FILE *out, size_t place, bool is_load)
{
	for (size_t i = 0; i < plan->variables.n_shared; i++) {
		const struct gck_variable *v = &plan->variables.shared[i];
		const char *way = is_load ? "load" : "save";

		write_size(v, out);
		fprintf(out, "\tmul.lo.u32 %%gck_s, %%gck_c, %u;\n"
			     "\tmul.lo.u32 %%gck_y, %%gck_m, %u;\n"
			     "$gck_shared_%s_%zu_%zu:\n"
			     "\tsetp.ge.u32 %%gck_p, %%gck_s, %%gck_t;\n"
			     "\t@%%gck_p bra $gck_copied_%s_%zu_%zu;\n"
			     "\tmov.u32 %%gck_x, %.*s;\n\tadd.u32 %%gck_x, %%gck_x, %%gck_s;\n"
			     "\tcvt.u64.u32 %%gck_d, %%gck_s;\n"
			     "\tadd.u64 %%gck_d, %%gck_d, %%gck_b;\n",
			v->unit, v->unit, way, place, i, way, place, i,
			GCK_PTX_TEXT(plan->flow.ptx, v->name));
		if (is_load)
			fprintf(out, "\tld.global.b%u %%gck_i, [%%gck_d+%" PRIu64 "];\n"
				     "\tst.shared.b%u [%%gck_x], %%gck_i;\n", v->unit * 8,
				BLOCK_HEAD + v->offset, v->unit * 8);
		else
			fprintf(out, "\tld.shared.b%u %%gck_i, [%%gck_x];\n"
				     "\tst.global.b%u [%%gck_d+%" PRIu64 "], %%gck_i;\n",
				v->unit * 8, v->unit * 8, BLOCK_HEAD + v->offset);
		fprintf(out, "\tadd.u32 %%gck_s, %%gck_s, %%gck_y;\n"
			     "\tbra.uni $gck_shared_%s_%zu_%zu;\n$gck_copied_%s_%zu_%zu:\n",
			way, place, i, way, place, i);
	}
}

static void write_thread(const struct gck_plan *plan, FILE *out, size_t i)
{
	fprintf(out, "\tst.global.u32 [%%gck_a], %zu;\n", i + 1);
	if (plan->places[i].kind == GCK_PLACE_ENTRY)
		return;
	each_slot(plan, plan->places[i].statement, out, save_slot);
	write_local(plan, out, i + 1, false);
}

/* At a barrier: who waits, and who came there to leave from a place of its own. */
static void write_meeting(const struct gck_plan *plan, FILE *out, size_t barrier)
{
	for (size_t i = 0; i < plan->n_places; i++) {
		if (!gck_plan_meets(&plan->places[i], &plan->places[barrier]))
			continue;
		fprintf(out, "\tsetp.ne.u32 %%gck_p, %%gck_f, %zu;\n"
			     "\t@%%gck_p bra $gck_not_%zu;\n", i + 1, i + 1);
		write_thread(plan, out, i);
		fprintf(out, "\tbra $gck_saved_%zu;\n$gck_not_%zu:\n", barrier + 1, i + 1);
	}
	write_thread(plan, out, barrier);
	fprintf(out, "$gck_saved_%zu:\n", barrier + 1);
}

/* A thread that leaves at a place. From a point it tells those who wait at a barrier; they come
 * here, too. When all have saved themselves, no thread of the block writes any more, and they share
 * the copying of its memory. */
static void write_leave(const struct gck_plan *plan, FILE *out, size_t i)
{
	const struct gck_place *place = &plan->places[i];

	if (place->barrier != GCK_NONE)
		return; /* it leaves there */
	if (place->kind != GCK_PLACE_BARRIER)
		fprintf(out, "$gck_leave_%zu:\n", i + 1);
	if (place->kind != GCK_PLACE_BARRIER && plan->needs_barrier)
		write_leaving_barrier(plan, out);
	if (place->kind == GCK_PLACE_BARRIER)
		fprintf(out, "$gck_wait_%zu:\n", i + 1);
	write_where(plan, out);
	write_meeting(plan, out, i);
	if (plan->is_async)
		fputs("\tcp.async.wait_all;\n", out);
	if (plan->needs_barrier) {
		fputs("\tatom.global.add.u32 %gck_c, [%gck_b], 1;\n", out);
		write_leaving_barrier(plan, out);
		fputs("\tld.volatile.global.u32 %gck_m, [%gck_b];\n", out);
	}
	write_shared(plan, out, i + 1, false);
	fputs("\tret;\n", out);
}

/* Computes the registers that are live at a statement and were not saved. */
static void write_recompute(const struct gck_plan *plan, FILE *out, uint32_t statement)
{
	const struct gck_flow *f = &plan->flow;
	uint64_t *wanted = live_at(f, statement);

	gck_recompute_close(&plan->recompute, f, wanted);
	for (size_t n = 0; n < plan->recompute.n; n++) {
		uint32_t i = plan->recompute.order[n];
		const struct gck_ptx_range *at = &f->statements[i].at;
		uint32_t begin = f->ptx->tokens[at->first].begin;

		if (!gck_flow_writes(f, i, wanted))
			continue;
		if (f->traits[i] & GCK_GRID)
			gck_record_grid(plan, out, i);
		else
			fprintf(out, "\t%.*s\n",
				(int)(f->ptx->tokens[at->last - 1].end - begin),
				f->ptx->text + begin);
	}
	free(wanted);
}

/* A launch that goes on: every thread reads its place. Who had ended helps to load the shared
 * memory, and ends. */
static void write_resume(const struct gck_plan *plan, FILE *out)
{
	fputs("$gck_resume:\n\tmov.u32 %gck_l, 1;\n", out);
	write_where(plan, out);
	fputs("\tld.global.u32 %gck_k, [%gck_a];\n\tmov.u32 %gck_x, 0;\n"
	      "\tst.global.u32 [%gck_a], %gck_x;\n", out);
	if (plan->variables.n_shared)
		fputs("\tmov.u32 %gck_c, %gck_i;\n\tmov.u32 %gck_m, %gck_n;\n", out);
	write_shared(plan, out, 0, true);
	if (plan->needs_barrier)
		fputs("\tmov.u32 %gck_x, 0;\n\tst.global.u32 [%gck_b], %gck_x;\n"
		      "\tbar.sync 0;\n", out);
	fputs("\tsetp.eq.u32 %gck_p, %gck_k, 0;\n\t@%gck_p ret;\n", out);
	for (size_t i = 0; i < plan->n_places; i++)
		fprintf(out, "\tsetp.eq.u32 %%gck_p, %%gck_k, %zu;\n"
			     "\t@%%gck_p bra $gck_load_%zu;\n", i + 1, i + 1);
	fputs("\ttrap;\n\tret;\n", out);
	for (size_t i = 0; i < plan->n_places; i++) {
		fprintf(out, "$gck_load_%zu:\n", i + 1);
		if (plan->places[i].kind != GCK_PLACE_ENTRY) {
			uint32_t statement = plan->places[i].statement;

			each_slot(plan, statement, out, load_slot);
			write_local(plan, out, i + 1, true);
			write_recompute(plan, out, statement);
		}
		fprintf(out, "\tbra.uni $gck_place_%zu;\n", i + 1);
	}
}

void gck_record_write(const struct gck_plan *plan, FILE *out)
{
	for (size_t i = 0; i < plan->n_places; i++)
		write_leave(plan, out, i);
	write_resume(plan, out);
}
