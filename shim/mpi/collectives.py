# SPDX-License-Identifier: Apache-2.0
"""Bodies of the `collective` functions, for shim/mpi/generate. Blocking ones tick the collective
clock and call the real function. Non-blocking and persistent ones, which write a request, retain
their arguments (nonblocking.h)."""
import re

# Code that retains the input that a non-blocking collective overwrites when its send buffer is
# MPI_IN_PLACE. Collectives not listed do not overwrite their input.
ONE = ["gck_mpi_retain_input(&a->n, recvbuf, count, datatype);"]
IN_PLACE = {
    "allreduce": ONE, "reduce": ONE, "scan": ONE, "exscan": ONE,
    "reduce_scatter": [
        "long total = 0;",
        "for (long i = 0; i < gck_mpi_size(comm); i++)",
        "\ttotal += recvcounts[i];",
        "gck_mpi_retain_input(&a->n, recvbuf, total, datatype);"],
    "reduce_scatter_block": [
        "gck_mpi_retain_input(&a->n, recvbuf, recvcount * gck_mpi_size(comm), datatype);"],
    "alltoall": [
        "gck_mpi_retain_input(&a->n, recvbuf, recvcount * gck_mpi_size(comm), recvtype);"],
    "alltoallv": [
        "MPI_Aint lb, extent = 0;",
        "gck_mpi_real.Type_get_extent(GCK_MPI_REAL_TYPE(recvtype), &lb, &extent);",
        "for (long i = 0; i < gck_mpi_size(comm); i++)",
        "\tgck_mpi_retain_input(&a->n, (char *)recvbuf + rdispls[i] * extent, recvcounts[i], "
        "recvtype);"],
    "alltoallw": [
        "for (long i = 0; i < gck_mpi_size(comm); i++)",
        "\tgck_mpi_retain_input(&a->n, (char *)recvbuf + rdispls[i], recvcounts[i], "
        "recvtypes[i]);"],
}


def operation(f):
    """The collective of which f is a blocking, non-blocking or persistent form."""
    return re.sub("^(X_|I(?=[a-z]))|_init$", "", f.short).lower()


def is_persistent(f):
    """True for MPIX_Something_init, which has an info before the request."""
    return f.short.endswith("_init")


def significant(f, p):
    """A C expression: is this parameter significant in this rank? None: always."""
    name = operation(f)
    rooted = any(q.name == "root" for q in f.parameters)
    sends = p.name.startswith("s") or (p.name == "displs" and name == "scatterv")
    if rooted and name in ("bcast", "reduce"):
        return "root != MPI_PROC_NULL"
    if rooted and sends == name.startswith("scatter"):
        return "gck_mpi_at_root(comm, root)"
    if rooted:
        return ("sendbuf" if sends else "recvbuf") + " != MPI_IN_PLACE && root >= 0"
    if sends and re.match("all(gather|toall)", name):
        return "sendbuf != MPI_IN_PLACE"
    return None


def handle(f, p):
    """The handle parameter, or a harmless one where it is not significant."""
    when = significant(f, p)
    if when is None or p.kind not in ("type", "op"):
        return p.name
    return f"gck_mpi_if_{p.kind}({when}, {p.name})"


def length(f, p):
    """The number of significant elements of an array; -1: the array is not significant."""
    when = significant(f, p)
    return p.count() if when is None else f"{when} ? {p.count()} : -1"


REAL = {"comm": "GCK_MPI_REAL_COMM", "type": "GCK_MPI_REAL_TYPE", "op": "GCK_MPI_REAL_OP"}


def blocking(f):
    """The body of a blocking collective."""
    before, arguments, after = [], [], []
    for p in f.parameters:
        if not p.handle:
            arguments.append(p.name)
        elif p.length is None:
            arguments.append(f"{REAL[p.kind]}({handle(f, p)})")
        else:
            before += [f"struct gck_mpi_array many_{p.name};",
                       f"const MPI_Datatype *real_{p.name} = gck_mpi_array_in(&many_{p.name}, "
                       f"{p.name}, {length(f, p)}, GCK_MPI_DATATYPE);"]
            arguments.append(f"{p.name} ? real_{p.name} : NULL")
            after.append(f"gck_mpi_array_free(&many_{p.name});")
    yield f"GCK_MPI_FUNCTION({f.short}, ({f.declare()}))\n{{\n\tint rc;\n"
    yield '\tgck_mpi_enter();\n\tgck_mpi_clock_tick(&gck_mpi_comm_of(comm)->clock);'
    yield from ("\t" + line for line in before)
    yield f"\trc = gck_mpi_real.{f.short}({', '.join(arguments)});"
    yield from ("\t" + line for line in after)
    yield "\tgck_mpi_leave();"
    yield f'\treturn gck_mpi_collective_end(comm, rc, "{f.name}");\n}}\n'


def member(p):
    """The declaration of a retained argument."""
    if p.length is None:
        return p.declare()
    return p.declare()[:-len(p.name + "[]")] + "*" + p.name


def issue(f, retained):
    """The struct of arguments, and the function that makes the real call with it."""
    yield f"struct {f.short} {{\n\tstruct gck_mpi_nonblocking n;"
    yield from (f"\t{member(p)};" for p in retained)
    yield "};\n"
    yield f"static int issue_{f.short}(struct gck_mpi_nonblocking *n, MPI_Request *request)\n{{"
    if retained:
        yield f"\tconst struct {f.short} *a = (const struct {f.short} *)n;"
    arguments = []
    for p in retained:
        if p.handle and p.length is None:
            arguments.append(f"{REAL[p.kind]}(a->{p.name})")
        elif p.handle:
            yield f"\tconst MPI_Datatype *real_{p.name} = gck_mpi_retain_reals(n, a->{p.name});"
            arguments.append(f"real_{p.name}")
        else:
            arguments.append(f"a->{p.name}")
    arguments.append("GCK_MPI_REAL_COMM(n->comm)")
    if is_persistent(f):
        arguments.append("GCK_MPI_REAL_INFO(n->info)")
    arguments.append("request")
    yield f"\treturn gck_mpi_real.{f.short}({', '.join(arguments)});\n}}\n"


def retain(f, p):
    """The expression that retains an argument."""
    if p.handle and p.length is None:
        return f"gck_mpi_retain_{p.kind}(&a->n, {handle(f, p)})"
    if p.handle:
        return f"gck_mpi_retain_types(&a->n, {p.name}, {length(f, p)})"
    if p.length is not None:
        return f"gck_mpi_retain(&a->n, {p.name}, {length(f, p)}, sizeof *{p.name})"
    return p.name


def nonblocking(f):
    """The body of a non-blocking collective, which starts it, or of a persistent one."""
    retained = f.parameters[:-3 if is_persistent(f) else -2]
    yield from issue(f, retained)
    define = f"GCK_MPIX_FUNCTION({f.short[2:]}" if is_persistent(f) \
        else f"GCK_MPI_FUNCTION({f.short}"
    yield f"{define}, ({f.declare()}))\n{{\n\tstruct {f.short} *a;\n\tint rc;\n"
    yield "\tgck_mpi_enter();"
    yield f"\ta = gck_mpi_nonblocking_new(sizeof *a, comm, issue_{f.short});\n"
    if retained:
        yield "\tif (a) {"
        yield from (f"\t\ta->{p.name} = {retain(f, p)};" for p in retained)
        yield "\t}"
    if operation(f) in IN_PLACE:
        yield "\tif (a && sendbuf == MPI_IN_PLACE) {"
        yield from ("\t\t" + line for line in IN_PLACE[operation(f)])
        yield "\t}"
    begin = "persistent_begin(a ? &a->n : NULL, info" if is_persistent(f) else \
        "nonblocking_begin(a ? &a->n : NULL"
    yield f"\trc = gck_mpi_{begin}, request);\n\tgck_mpi_leave();"
    yield f'\treturn gck_mpi_error(comm, rc, "{f.name}");\n}}\n'


def collectives_c(functions, _):
    """The bodies of all collectives."""
    yield '#include "shim/mpi/collective/collective.h"\n#include "shim/mpi/base/function.h"'
    yield '#include "shim/mpi/types/info.h"'
    yield '#include "shim/mpi/collective/nonblocking.h"\n#include "shim/mpi/handles/wrap.h"\n'
    for f in functions:
        if f.how == "collective":
            yield from (nonblocking if f.parameters[-1].kind == "request" else blocking)(f)
