/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>

#include "shim/kernels/pass/record.h"

#define BLOCK_HEAD 16 /* bytes of a block's record before its shared memory */

/* One live register of a place and where its value lies in the thread's record. */
typedef void slot_fn(const struct gck_plan *plan, FILE *out, uint32_t reg, uint64_t offset);

static bool is_saved(const struct gck_flow *f, const uint64_t *live, uint32_t r)
{
	return r != GCK_CARRY && r != GCK_SPECIAL && gck_set_has(live, r) && !f->registers[r].depth;
}

/* Calls fn for each live register of a place; returns the bytes up to the local variables. First
 * those of eight bytes, behind the place's number and four bytes that one register may have. The
 * words of a block's threads lie side by side, and threads leave at different places: so the words
 * of four bytes begin at the same offset at all places. */
static uint64_t each_slot(const struct gck_plan *plan, uint32_t statement, FILE *out, slot_fn *fn)
{
	const struct gck_flow *f = &plan->flow;
	uint64_t *live = calloc(f->words, sizeof *live), offset = 8, spare = 4;

	if (!live)
		abort();
	gck_flow_live(f, statement, live);
	for (uint32_t r = 0; r < f->n_registers; r++)
		if (is_saved(f, live, r) && f->registers[r].bits == 64) {
			if (fn)
				fn(plan, out, r, offset);
			offset += 8;
		}
	offset = plan->wide_end > offset ? plan->wide_end : offset;
	for (uint32_t r = 0; r < f->n_registers; r++)
		if (is_saved(f, live, r) && f->registers[r].bits < 64) {
			if (fn)
				fn(plan, out, r, spare ? spare : offset);
			offset += spare ? 0 : 4;
			spare = 0;
		}
	free(live);
	return offset;
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
	const struct gck_flow *f = &plan->flow;
	uint64_t *live = calloc(f->words, sizeof *live);

	if (!live)
		abort();
	plan->wide_end = plan->record_size = 8;
	for (size_t i = 1; i < plan->n_places; i++) {
		uint64_t end = 8;

		gck_flow_live(f, plan->places[i].statement, live);
		for (uint32_t r = 0; r < f->n_registers; r++)
			end += is_saved(f, live, r) && f->registers[r].bits == 64 ? 8 : 0;
		plan->wide_end = end > plan->wide_end ? end : plan->wide_end;
	}
	free(live);
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
	      "\t.reg .b32 %gck_c, %gck_m, %gck_l;\n"
	      "\t.reg .b64 %gck_w, %gck_z, %gck_r, %gck_t4, %gck_t8, %gck_a, %gck_b, %gck_d, "
	      "%gck_e;\n", out);
}

void gck_record_variable(const struct gck_plan *plan, FILE *out)
{
	fprintf(out, "\tmov.u64 %%gck_z, %.*s$ckpt;\n",
		GCK_PTX_TEXT(plan->flow.ptx, plan->flow.function->name));
}

/* %gck_i: the thread's number in its block, %gck_n: their number; %gck_b: the block's record,
 * %gck_r: that of its threads, %gck_t4, %gck_t8: this thread's words of four and of eight bytes. */
static void write_where(const struct gck_plan *plan, FILE *out)
{
	gck_record_variable(plan, out);
	fputs("\tmov.u32 %gck_i, %tid.z;\n\tmov.u32 %gck_x, %ntid.y;\n\tmov.u32 %gck_y, %tid.y;\n"
	      "\tmad.lo.u32 %gck_i, %gck_i, %gck_x, %gck_y;\n"
	      "\tmov.u32 %gck_n, %ntid.x;\n\tmov.u32 %gck_y, %tid.x;\n"
	      "\tmad.lo.u32 %gck_i, %gck_i, %gck_n, %gck_y;\n"
	      "\tmul.lo.u32 %gck_n, %gck_n, %gck_x;\n\tmov.u32 %gck_x, %ntid.z;\n"
	      "\tmul.lo.u32 %gck_n, %gck_n, %gck_x;\n"
	      "\tmov.u32 %gck_x, %ctaid.z;\n\tmov.u32 %gck_y, %nctaid.y;\n"
	      "\tmul.wide.u32 %gck_b, %gck_x, %gck_y;\n\tmov.u32 %gck_x, %ctaid.y;\n"
	      "\tcvt.u64.u32 %gck_a, %gck_x;\n\tadd.u64 %gck_b, %gck_b, %gck_a;\n"
	      "\tmov.u32 %gck_x, %nctaid.x;\n\tcvt.u64.u32 %gck_a, %gck_x;\n"
	      "\tmul.lo.u64 %gck_b, %gck_b, %gck_a;\n\tmov.u32 %gck_x, %ctaid.x;\n"
	      "\tcvt.u64.u32 %gck_a, %gck_x;\n\tadd.u64 %gck_b, %gck_b, %gck_a;\n", out);
	/* %gck_r: bytes of a block's record before its threads'; %gck_d: of its threads'. */
	fprintf(out, "\tmov.u64 %%gck_r, %" PRIu64 ";\n", BLOCK_HEAD + plan->variables.shared_size);
	if (plan->variables.is_dynamic)
		fputs("\tmov.u32 %gck_x, %dynamic_smem_size;\n\tadd.u32 %gck_x, %gck_x, 15;\n"
		      "\tand.b32 %gck_x, %gck_x, -16;\n\tcvt.u64.u32 %gck_a, %gck_x;\n"
		      "\tadd.u64 %gck_r, %gck_r, %gck_a;\n", out);
	fprintf(out, "\tmul.wide.u32 %%gck_d, %%gck_n, %" PRIu64 ";\n"
		     "\tadd.u64 %%gck_d, %%gck_d, 15;\n\tand.b64 %%gck_d, %%gck_d, -16;\n"
		     "\tadd.u64 %%gck_d, %%gck_d, %%gck_r;\n"
		     "\tmul.lo.u64 %%gck_b, %%gck_b, %%gck_d;\n"
		     "\tld.global.u64 %%gck_a, [%%gck_z+8];\n"
		     "\tadd.u64 %%gck_b, %%gck_b, %%gck_a;\n"
		     "\tadd.u64 %%gck_r, %%gck_b, %%gck_r;\n"
		     "\tmul.wide.u32 %%gck_t4, %%gck_i, 4;\n\tmul.wide.u32 %%gck_t8, %%gck_i, 8;\n"
		     "\tadd.u64 %%gck_t4, %%gck_t4, %%gck_r;\n"
		     "\tadd.u64 %%gck_t8, %%gck_t8, %%gck_r;\n", plan->record_size);
}

static void write_register(const struct gck_plan *plan, FILE *out, uint32_t reg)
{
	const struct gck_register *r = &plan->flow.registers[reg];

	fprintf(out, "%.*s", GCK_PTX_TEXT(plan->flow.ptx, r->token));
	if (r->number != GCK_NONE)
		fprintf(out, "%u", r->number);
}

static void write_address(FILE *out, uint64_t offset, uint32_t bits)
{
	fprintf(out, "\tmad.wide.u32 %%gck_a, %%gck_n, %" PRIu64 ", %%gck_t%u;\n", offset,
		bits == 64 ? 8 : 4);
}

static void save_slot(const struct gck_plan *plan, FILE *out, uint32_t reg, uint64_t offset)
{
	uint32_t bits = plan->flow.registers[reg].bits;

	write_address(out, offset, bits);
	if (bits == 1) {
		fputs("\tselp.b32 %gck_x, 1, 0, ", out);
		write_register(plan, out, reg);
		fputs(";\n\tst.global.b32 [%gck_a], %gck_x;\n", out);
		return;
	}
	fprintf(out, "\tst.global.b%u [%%gck_a], ", bits);
	write_register(plan, out, reg);
	fputs(";\n", out);
}

static void load_slot(const struct gck_plan *plan, FILE *out, uint32_t reg, uint64_t offset)
{
	uint32_t bits = plan->flow.registers[reg].bits;

	write_address(out, offset, bits);
	if (bits == 1) {
		fputs("\tld.global.b32 %gck_x, [%gck_a];\n\tsetp.ne.b32 ", out);
		write_register(plan, out, reg);
		fputs(", %gck_x, 0;\n", out);
		return;
	}
	fprintf(out, "\tld.global.b%u ", bits);
	write_register(plan, out, reg);
	fputs(", [%gck_a];\n", out);
}

/* Copies each local variable: a word of the record for each unit of it. The accesses are volatile,
 * and generic (volatile needs that), or ptxas takes the variable apart into registers. */
static void write_local(const struct gck_plan *plan, FILE *out, uint64_t offset, size_t place,
			bool is_load)
{
	for (size_t i = 0; i < plan->variables.n_local; i++) {
		const struct gck_variable *v = &plan->variables.local[i];
		const char *way = is_load ? "load" : "save";

		write_address(out, offset, 32);
		fprintf(out, "\tmov.u64 %%gck_d, %.*s;\n"
			     "\tcvta.local.u64 %%gck_d, %%gck_d;\n"
			     "\tmul.wide.u32 %%gck_e, %%gck_n, 4;\n"
			     "\tmov.u32 %%gck_s, 0;\n$gck_local_%s_%zu_%zu:\n",
			GCK_PTX_TEXT(plan->flow.ptx, v->name), way, place, i);
		if (is_load)
			fprintf(out, "\tld.global.b32 %%gck_x, [%%gck_a];\n"
				     "\tst.volatile.b%u [%%gck_d], %%gck_x;\n", v->unit * 8);
		else
			fprintf(out, "\tld.volatile.b%u %%gck_x, [%%gck_d];\n"
				     "\tst.global.b32 [%%gck_a], %%gck_x;\n", v->unit * 8);
		fprintf(out, "\tadd.u64 %%gck_d, %%gck_d, %u;\n"
			     "\tadd.u64 %%gck_a, %%gck_a, %%gck_e;\n"
			     "\tadd.u32 %%gck_s, %%gck_s, 1;\n"
			     "\tsetp.lt.u32 %%gck_p, %%gck_s, %" PRIu64 ";\n"
			     "\t@%%gck_p bra $gck_local_%s_%zu_%zu;\n",
			v->unit, v->size / v->unit, way, place, i);
		offset += v->size / v->unit * 4;
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
			     "\tcvt.u64.u32 %%gck_a, %%gck_s;\n"
			     "\tadd.u64 %%gck_a, %%gck_a, %%gck_b;\n",
			v->unit, v->unit, way, place, i, way, place, i,
			GCK_PTX_TEXT(plan->flow.ptx, v->name));
		if (is_load)
			fprintf(out, "\tld.global.b%u %%gck_k, [%%gck_a+%" PRIu64 "];\n"
				     "\tst.shared.b%u [%%gck_x], %%gck_k;\n", v->unit * 8,
				BLOCK_HEAD + v->offset, v->unit * 8);
		else
			fprintf(out, "\tld.shared.b%u %%gck_k, [%%gck_x];\n"
				     "\tst.global.b%u [%%gck_a+%" PRIu64 "], %%gck_k;\n",
				v->unit * 8, v->unit * 8, BLOCK_HEAD + v->offset);
		fprintf(out, "\tadd.u32 %%gck_s, %%gck_s, %%gck_y;\n"
			     "\tbra.uni $gck_shared_%s_%zu_%zu;\n$gck_copied_%s_%zu_%zu:\n",
			way, place, i, way, place, i);
	}
}

/* What thread leaves at a place. From a point it tells those who wait at a barrier; they come
 * here, too. Then no thread of the block writes any more, and they share the copying. */
static void write_leave(const struct gck_plan *plan, FILE *out, size_t i)
{
	const struct gck_place *place = &plan->places[i];
	uint64_t offset = 8;

	if (place->kind != GCK_PLACE_BARRIER)
		fprintf(out, "$gck_leave_%zu:\n", i + 1);
	if (place->kind != GCK_PLACE_BARRIER && plan->needs_barrier)
		fputs("\tmov.pred %gck_q, -1;\n\tbarrier.red.or.pred %gck_p, 0, %gck_q;\n", out);
	if (place->kind == GCK_PLACE_BARRIER)
		fprintf(out, "$gck_wait_%zu:\n", i + 1);
	write_where(plan, out);
	if (plan->is_async)
		fputs("\tcp.async.wait_all;\n", out);
	if (plan->needs_barrier)
		fputs("\tatom.global.add.u32 %gck_c, [%gck_b], 1;\n"
		      "\tmov.pred %gck_q, -1;\n\tbarrier.red.or.pred %gck_p, 0, %gck_q;\n"
		      "\tld.volatile.global.u32 %gck_m, [%gck_b];\n", out);
	write_shared(plan, out, i + 1, false);
	if (place->kind != GCK_PLACE_ENTRY) {
		offset = each_slot(plan, place->statement, out, save_slot);
		write_local(plan, out, offset, i + 1, false);
	}
	fprintf(out, "\tst.global.u32 [%%gck_t4], %zu;\n\tret;\n", i + 1);
}

/* A launch that goes on: every thread reads its place. Who had ended helps to load the shared
 * memory, and ends. */
static void write_resume(const struct gck_plan *plan, FILE *out)
{
	fputs("$gck_resume:\n\tmov.u32 %gck_l, %clock;\n", out);
	write_where(plan, out);
	fputs("\tmov.u32 %gck_c, %gck_i;\n\tmov.u32 %gck_m, %gck_n;\n", out);
	write_shared(plan, out, 0, true);
	fputs("\tld.global.u32 %gck_k, [%gck_t4];\n\tmov.u32 %gck_x, 0;\n"
	      "\tst.global.u32 [%gck_t4], %gck_x;\n", out);
	if (plan->needs_barrier)
		fputs("\tst.global.u32 [%gck_b], %gck_x;\n\tbarrier.sync 0;\n", out);
	fputs("\tsetp.eq.u32 %gck_p, %gck_k, 0;\n\t@%gck_p ret;\n", out);
	for (size_t i = 0; i < plan->n_places; i++)
		fprintf(out, "\tsetp.eq.u32 %%gck_p, %%gck_k, %zu;\n"
			     "\t@%%gck_p bra $gck_load_%zu;\n", i + 1, i + 1);
	fputs("\ttrap;\n\tret;\n", out);
	for (size_t i = 0; i < plan->n_places; i++) {
		uint64_t offset;

		fprintf(out, "$gck_load_%zu:\n", i + 1);
		if (plan->places[i].kind != GCK_PLACE_ENTRY) {
			offset = each_slot(plan, plan->places[i].statement, out, load_slot);
			write_local(plan, out, offset, i + 1, true);
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
