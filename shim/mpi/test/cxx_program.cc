// SPDX-License-Identifier: Apache-2.0
// Open MPI's C++ bindings, which are in the program and look inside Open MPI. One rank.
#include <mpi.h>
#include <cstdio>
#include <cstring>

static int count, failed, called;

static void ok(bool good, const char *name)
{
	count++;
	failed += !good;
	std::printf("%sok %d - %s\n", good ? "" : "not ", count, name);
}

static void product(const void *in, void *inout, int n, const MPI::Datatype &type)
{
	const int *a = static_cast<const int *>(in);
	int *b = static_cast<int *>(inout);

	for (int i = 0; i < n; i++)
		b[i] = a[i] * b[i] + (type == MPI::INT ? 0 : 1000);
}

static void handler(MPI::Comm &comm, int *code, ...)
{
	called = comm.Get_size() * 1000 + MPI::Get_error_class(*code);
}

static int copy(const MPI::Comm &comm, int, void *extra, void *in, void *out, bool &flag)
{
	*static_cast<int *>(extra) += comm.Get_size();
	*static_cast<void **>(out) = in;
	flag = true;
	return MPI_SUCCESS;
}

static int drop(MPI::Comm &, int, void *, void *extra)
{
	*static_cast<int *>(extra) += 100;
	return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
	int in[2] = {3, 4}, out[2] = {5, 6}, extra = 0, keyval, value = 7;
	int dims[1] = {1};
	bool periods[1] = {true};
	void *got = 0;

	MPI::Init(argc, argv);
	ok(MPI::COMM_WORLD.Get_size() == 1, "MPI::COMM_WORLD has a rank");

	MPI::Op op;
	op.Init(product, true);
	op.Reduce_local(in, out, 2, MPI::INT);
	ok(out[0] == 15 && out[1] == 24, "an operation in C++ works");
	MPI::COMM_WORLD.Allreduce(in, out, 2, MPI::INT, op);
	ok(out[0] == 3, "an operation in C++ works in an allreduce");
	op.Free();

	MPI::Errhandler errhandler = MPI::Comm::Create_errhandler(handler);
	MPI::Intracomm dup = MPI::COMM_WORLD.Dup();
	dup.Set_errhandler(errhandler);
	dup.Send(in, -1, MPI::INT, 0, 0);
	ok(called == 1000 + MPI_ERR_COUNT, "an error handler in C++ is called");

	keyval = MPI::Comm::Create_keyval(copy, drop, &extra);
	dup.Set_attr(keyval, &value);
	MPI::Intracomm again = dup.Dup();
	ok(again.Get_attr(keyval, &got) && got == &value, "an attribute in C++ is copied");
	ok(extra == 1, "an attribute in C++ is copied by its function");
	again.Free();
	ok(extra == 101, "an attribute in C++ is deleted by its function");

	MPI::Cartcomm cart = MPI::COMM_WORLD.Create_cart(1, dims, periods, false);
	cart.Set_attr(keyval, &value);
	MPI::Cartcomm clone = cart.Dup();
	ok(clone.Get_dim() == 1, "a topology in C++ has its class");
	clone.Free();
	cart.Free();
	dup.Free();
	MPI::Finalize();
	std::printf("1..%d\n", count);
	return failed != 0;
}
