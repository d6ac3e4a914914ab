/* SPDX-License-Identifier: Apache-2.0
 * The program's reduction operations. The real library calls a user function with its own datatype
 * and without the operation, so each operation has a stub of code that knows its number. */
#include <stdlib.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/base/participant.h"
#include "shim/mpi/handles/fortran_number.h"
#include "shim/mpi/handles/op.h"
#include "shim/mpi/types/datatype.h"
#include "shim/mpi/types/handle_ref.h"

/* The most operations at a time, and the size of a stub; the assembly below repeats both. */
#define STUBS 4096
#define STUB_BYTES 16

struct op {
	struct gck_mpi_handle h;
	void (*function)(void); /* the program's; C++: libmpi_cxx's, which calls `cxx` */
	void (*cxx)(void);
	enum gck_mpi_language language;
	int commute;
	unsigned stub;
};

static struct op *ops[STUBS]; /* by stub */
static unsigned last_stub;

/* STUBS stubs; each jumps to call() with its number as the fifth argument. */
__asm__(".text\n"
	".balign 16\n"
	"gck_mpi_op_stubs:\n"
	".set .Lstub, 0\n"
	".rept 4096\n"
	".balign 16\n"
	"endbr64\n"
	"movl $.Lstub, %r8d\n"
	"jmp gck_mpi_op_call\n"
	".set .Lstub, .Lstub + 1\n"
	".endr\n"
	".balign 16\n");
extern char gck_mpi_op_stubs[];

static MPI_User_function *stub_code(unsigned stub)
{
	return (MPI_User_function *)(void *)(gck_mpi_op_stubs + (size_t)stub * STUB_BYTES);
}

/* The stand-in's datatype for a real one. If the program freed its handle while the operation was
 * pending, *temporary is a handle for the time of this call. */
static MPI_Datatype type_of(MPI_Datatype real, struct gck_mpi_handle **temporary)
{
	MPI_Datatype type = gck_mpi_find(GCK_MPI_DATATYPE, real);

	*temporary = NULL;
	if (type)
		return type;
	*temporary = gck_mpi_handle_new(GCK_MPI_DATATYPE, sizeof(**temporary), real);
	return *temporary ? (MPI_Datatype)*temporary : MPI_DATATYPE_NULL;
}

/* The stubs jump to this assembly name. */
static void call(void *in, void *inout, int *length, MPI_Datatype *real, unsigned stub)
	__asm__("gck_mpi_op_call") __attribute__((used));

static void call(void *in, void *inout, int *length, MPI_Datatype *real, unsigned stub)
{
	const struct op *op = __atomic_load_n(&ops[stub], __ATOMIC_ACQUIRE);
	struct gck_mpi_handle *temporary;
	MPI_Datatype type;
	MPI_Fint number;

	gck_mpi_enter();
	type = type_of(*real, &temporary);
	if (op->language == GCK_MPI_C) {
		((MPI_User_function *)op->function)(in, inout, length, &type);
	} else if (op->language == GCK_MPI_CXX) {
		((void (*)(void *, void *, int *, MPI_Datatype *, void (*)(void)))op->function)(
			in, inout, length, &type, op->cxx);
	} else {
		number = gck_mpi_fortran_number(type, GCK_MPI_DATATYPE);
		((void (*)(void *, void *, MPI_Fint *, MPI_Fint *))op->function)(in, inout, length,
										 &number);
	}
	if (temporary)
		gck_mpi_handle_free(temporary);
	gck_mpi_leave();
}

/* Takes a free stub, going round, so that a freed one is reused as late as possible; -1: no stub
 * is free. */
static int take_stub(struct op *op)
{
	for (unsigned i = 0; i < STUBS; i++) {
		unsigned stub = (__atomic_add_fetch(&last_stub, 1, __ATOMIC_RELAXED)) % STUBS;
		struct op *expected = NULL;

		op->stub = stub;
		if (__atomic_compare_exchange_n(&ops[stub], &expected, op, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return 0;
	}
	return -1;
}

static void op_destroy(struct op *op)
{
	MPI_Op real = op->h.real;

	if (real)
		gck_mpi_real.Op_free(&real);
	__atomic_store_n(&ops[op->stub], NULL, __ATOMIC_RELEASE);
	gck_mpi_handle_free(op);
}

void gck_mpi_op_set_cxx(MPI_Op op, void (*cxx)(void))
{
	struct op *o = (struct op *)op;

	o->cxx = cxx;
	o->language = GCK_MPI_CXX;
}

int gck_mpi_op_create(void (*function)(void), enum gck_mpi_language language, int commute,
		      MPI_Op *op)
{
	struct op *new;
	MPI_Op real;
	int rc;

	if (!function || !op)
		return MPI_ERR_ARG;
	new = gck_mpi_handle_new(GCK_MPI_OP, sizeof(*new), NULL);
	if (!new)
		return MPI_ERR_NO_MEM;
	new->function = function;
	new->language = language;
	new->commute = commute;
	if (take_stub(new)) {
		gck_mpi_handle_free(new);
		return MPI_ERR_NO_MEM;
	}
	rc = gck_mpi_real.Op_create(stub_code(new->stub), commute, &real);
	if (rc != MPI_SUCCESS) {
		op_destroy(new);
		return rc;
	}
	gck_mpi_handle_set_real(new, real);
	*op = (MPI_Op)new;
	return MPI_SUCCESS;
}

GCK_MPI_FUNCTION(Op_create, (MPI_User_function *function, int commute, MPI_Op *op))
{
	int rc;

	gck_mpi_enter();
	rc = gck_mpi_op_create((void (*)(void))function, GCK_MPI_C, commute, op);
	gck_mpi_leave();
	return gck_mpi_error(NULL, rc, "MPI_Op_create");
}

GCK_MPI_FUNCTION(Op_free, (MPI_Op *op))
{
	struct op *o = op && gck_mpi_is(*op, GCK_MPI_OP) ? (struct op *)*op : NULL;

	if (!o || o->h.flags & GCK_MPI_PREDEFINED)
		return gck_mpi_error(NULL, MPI_ERR_OP, "MPI_Op_free");
	gck_mpi_enter();
	if (gck_mpi_handle_ref_free(&o->h))
		op_destroy(o);
	gck_mpi_leave();
	*op = MPI_OP_NULL;
	return MPI_SUCCESS;
}

void gck_mpi_op_ref_made(MPI_Op op)
{
	gck_mpi_handle_ref((struct gck_mpi_handle *)op);
}

void gck_mpi_op_unref_made(MPI_Op op)
{
	if (gck_mpi_handle_unref((struct gck_mpi_handle *)op))
		op_destroy((struct op *)op);
}

static int rebuild(struct gck_error *err)
{
	for (struct gck_mpi_handle *h = gck_mpi_first(GCK_MPI_OP); h; h = h->next) {
		const struct op *op = (const struct op *)h;
		MPI_Op real;
		int rc = gck_mpi_real.Op_create(stub_code(op->stub), op->commute, &real);

		if (rc != MPI_SUCCESS)
			return gck_fail(err, EIO, "an operation of MPI_Op_create cannot be made "
						  "again after a restart: MPI error %d", rc);
		gck_mpi_handle_set_real(h, real);
	}
	return 0;
}

const struct gck_mpi_participant gck_mpi_op_participant = {"op", NULL, rebuild, NULL};
