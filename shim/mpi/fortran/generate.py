#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""generate.py TABLES OUTPUT: writes what Fortran programs call, from functions.tbl. OUTPUT is
bindings.c (a function ompi_NAME_f for each function that the kinds of its parameters describe
completely, with all its names in Open MPI's libmpi_mpifh.so.40) or names.h (the names of the
functions written by hand)."""
import importlib.machinery
import importlib.util
import os
import sys

sys.dont_write_bytecode = True

# Written by hand: callbacks, results, strings in arrays.
HAND = """Init Init_thread Wtime Wtick Pcontrol Op_create Comm_create_errhandler
File_create_errhandler Win_create_errhandler Errhandler_create Comm_create_keyval
Type_create_keyval Win_create_keyval Keyval_create Comm_get_attr Type_get_attr Win_get_attr
Attr_get Comm_set_attr Type_set_attr Win_set_attr Attr_put Grequest_start Register_datarep
Comm_spawn Comm_spawn_multiple Buffer_detach Type_get_contents""".split()
# Sections of the table that Fortran does not have.
SECTIONS = ("fortran", "tool", "tool_cvar", "tool_pvar")
# MPI-1: addresses are INTEGERs
SHORT = """Address Type_extent Type_hindexed Type_hvector Type_lb Type_struct Type_ub""".split()
# Further names in Open MPI: the same function with a C_PTR.
OTHERS = {"Alloc_mem_cptr": "Alloc_mem", "Win_allocate_cptr": "Win_allocate",
          "Win_allocate_shared_cptr": "Win_allocate_shared",
          "Win_shared_query_cptr": "Win_shared_query"}
C2F = {"comm": "Comm", "type": "Type", "group": "Group", "op": "Op", "errhandler": "Errhandler",
       "info": "Info", "request": "Request", "message": "Message", "win": "Win", "file": "File"}
WIDE = {"aint": "MPI_Aint", "offset": "MPI_Offset", "xcount": "MPI_Count"}


def load_table(folder):
    """The functions that Fortran has, as shim/mpi/generate reads them."""
    path = os.path.join(folder, "generate")
    sys.path.insert(0, folder)
    loader = importlib.machinery.SourceFileLoader("generate", path)
    spec = importlib.util.spec_from_loader("generate", loader)
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    functions = [f for f in module.read_functions(folder)
                 if f.section not in SECTIONS and f.name.startswith("MPI")
                 and f.name not in ("MPIX_Query_cuda_support", "MPI_T_init_thread")]
    return functions, module.HANDLES


class Binding:
    """One function: its Fortran parameters, and the code before and after the C call."""

    def __init__(self, function, handles):
        self.name, self.handles = function.name, handles
        self.base = function.name.split("_", 1)[1]
        self.short = self.base in SHORT
        self.parameters, self.lengths, self.arguments = [], [], []
        self.before, self.after, self.finally_ = [], [], []
        for p in function.parameters:
            self.add(p)

    def add(self, p):
        """One parameter of the table."""
        if p.kind in C2F:
            self.add_handle(p)
        elif p.kind == "string":
            self.add_string(p)
        elif p.kind == "logical" and p.length is None:
            self.add_logical(p)
        elif p.kind in ("status",):
            check = "gck_f_statuses" if p.length else "gck_f_status"
            self.take("MPI_Fint", p.name, f"{check}({p.name})")
        elif p.kind in ("choice", "address", "object", "const_address"):
            self.take("char", p.name, f"gck_f_choice({p.name})")
        elif p.kind == "triples":
            self.take("MPI_Fint", p.name, f"(int (*)[3]){p.name}")
        elif p.kind in WIDE:
            self.add_wide(p)
        else:
            self.add_int(p)

    def take(self, kind, name, argument):
        """Add a Fortran parameter and the C argument for it."""
        self.parameters.append(f"{kind} *{name}")
        self.arguments.append(argument)

    def add_handle(self, p):
        """A handle or an array of them."""
        c, kind = self.handles[p.kind][0], C2F[p.kind]
        if p.length is not None:
            self.take("MPI_Fint", p.name, f"c_{p.name}")
            n = length_of(p.length)
            self.before.append(f"{c} *c_{p.name} = gck_f_{kind.lower()}s({p.name}, {n});")
            if p.way == "&":
                self.after.append(f"gck_f_{kind.lower()}s_back({p.name}, c_{p.name}, {n});")
            self.finally_.append(f"free(c_{p.name});")
        elif p.way:
            self.take("MPI_Fint", p.name, f"&c_{p.name}")
            start = f"PMPI_{kind}_f2c(*{p.name})" if p.way == "&" else f"PMPI_{kind}_f2c(0)"
            self.before.append(f"{c} c_{p.name} = {start};" if p.way == "&"
                               else f"{c} c_{p.name};")
            self.after.append(f"*{p.name} = PMPI_{kind}_c2f(c_{p.name});")
        else:
            self.take("MPI_Fint", p.name, f"PMPI_{kind}_f2c(*{p.name})")

    def add_string(self, p):
        """A string. Fortran pads it with blanks and passes its length after all parameters."""
        self.take("char", p.name, f"c_{p.name}")
        self.lengths.append(f"int l_{p.name}")
        if p.way:
            size = p.length if p.length.startswith("MPI_") else f"*{p.length} + 1"
            self.before.append(f"char *c_{p.name} = gck_f_buffer({size});")
            flag = "if (*flag)\n\t\t\t" if self.base == "Info_get" else ""
            self.after.append(f"{flag}gck_f_string_out({p.name}, l_{p.name}, c_{p.name});")
        else:
            both = "true" if self.base.startswith("Info_") else "false"
            self.before.append(f"char *c_{p.name} = gck_f_string({p.name}, l_{p.name}, {both});")
        self.finally_.append(f"free(c_{p.name});")

    def add_logical(self, p):
        """A LOGICAL."""
        if p.way:
            self.take("MPI_Fint", p.name, f"&c_{p.name}")
            self.before.append(f"int c_{p.name} = 0;")
            self.after.append(f"*{p.name} = c_{p.name} != 0;")
        else:
            self.take("MPI_Fint", p.name, f"*{p.name} != 0")

    def add_wide(self, p):
        """An integer that is wider than INTEGER, except in MPI-1."""
        c = WIDE[p.kind]
        if not self.short:
            self.take(c, p.name, p.name if p.way or p.length is not None else f"*{p.name}")
        elif p.length is not None:
            self.take("MPI_Fint", p.name, f"c_{p.name}")
            self.before.append(f"MPI_Aint *c_{p.name} = gck_f_aints({p.name}, *{p.length});")
            self.finally_.append(f"free(c_{p.name});")
        elif p.way:
            self.take("MPI_Fint", p.name, f"&c_{p.name}")
            self.before.append(f"MPI_Aint c_{p.name} = 0;")
            self.after.append(f"*{p.name} = (MPI_Fint)c_{p.name};")
        else:
            self.take("MPI_Fint", p.name, f"*{p.name}")

    def add_int(self, p):
        """INTEGERs, alone or in an array: the same as in C, but indices begin at 1."""
        if "weights" in p.name:
            self.take("MPI_Fint", p.name, f"gck_f_weights({p.name})")
        else:
            self.take("MPI_Fint", p.name,
                      p.name if p.way or p.length is not None else f"*{p.name}")
        if self.base in ("Waitany", "Testany") and p.name == "index":
            self.after.append("if (*index != MPI_UNDEFINED && *index >= 0)\n\t\t\t++*index;")
        if p.name == "array_of_indices":
            self.after.append("for (int i = 0; *outcount != MPI_UNDEFINED && i < *outcount; i++)"
                              "\n\t\t\tarray_of_indices[i]++;")

    def text(self):
        """The function."""
        parameters = ", ".join(self.parameters + ["MPI_Fint *ierr"] + self.lengths)
        x = "x" if self.name.startswith("MPIX") else ""
        lines = [f"void ompi{x}_{self.base.lower()}_f({parameters})", "{"]
        lines += ["\t" + line for line in self.before]
        lines.append(f"\tint rc = P{self.name}({', '.join(self.arguments)});\n")
        if self.after:
            lines.append("\tif (rc == MPI_SUCCESS || rc == MPI_ERR_IN_STATUS) {")
            lines += ["\t\t" + line for line in self.after]
            lines.append("\t}")
        lines += ["\t" + line for line in self.finally_]
        lines += ["\tif (ierr)", "\t\t*ierr = rc;", "}", ""]
        return "\n".join([lines[0].replace("void ", "GCK_F void ", 1) + ";", *lines])


def length_of(text):
    """The length of an array, as an expression of the Fortran parameters."""
    if "(" in text:
        function, _, name = text.rstrip(")").partition("(")
        return f"gck_f_{function}(*{name})"
    return f"*{text}"


def names_of(prefix, x, base):
    """A function's names with a prefix (mpi, pmpi): those of compilers, and in mpi_f08."""
    lower, upper = f"{prefix}{x}_{base.lower()}", f"{prefix}{x}_{base}".upper()
    camel = f"{(prefix + x).upper()}_{base}"
    names_ = [lower, lower + "_", lower + "__", upper, camel + "_f"]
    # libmpi_usempif08 has this one itself
    return names_ if base == "Buffer_detach" else names_ + [camel + "_f08"]


def names(x, base, target):
    """Weak aliases of a function, in assembly because C has functions of some of the names."""
    return [f'__asm__(".weak {name}\\n.set {name}, {target}");'
            for name in names_of("mpi", x, base) + names_of("pmpi", x, base)]


def split(function):
    """The parts of a function's name: "x" for an extension, and what follows MPI_."""
    return "x" if function.name.startswith("MPIX") else "", function.name.split("_", 1)[1]


def bindings_c(functions, handles):
    """All functions that are not written by hand."""
    text = ["/* Generated from functions.tbl by shim/mpi/fortran/generate.py. */",
            '#include "shim/mpi/fortran/fortran.h"', ""]
    for f in functions:
        x, base = split(f)
        if base not in HAND:
            text += [Binding(f, handles).text(), *names(x, base, f"ompi{x}_{base.lower()}_f"), ""]
    for other, base in OTHERS.items():
        same, target = f"ompi_{other.lower()}_f", f"ompi_{base.lower()}_f"
        text += [f'__asm__(".globl {same}\\n.set {same}, {target}");',
                 *names("", other, target), ""]
    return "\n".join(text)


def names_h(functions):
    """The names of the functions written by hand."""
    text = ["/* Generated from functions.tbl by shim/mpi/fortran/generate.py. */"]
    others = [("", "Aint_add"), ("", "Aint_diff"), ("", "F_sync_reg")]
    for x, base in [split(f) for f in functions] + others:
        if base in HAND or base.startswith(("Aint_", "F_sync")):
            text += names(x, base, f"ompi{x}_{base.lower()}_f")
    return "\n".join(text) + "\n"


def main():
    """Write OUTPUT."""
    functions, handles = load_table(sys.argv[1])
    output = sys.argv[2]
    text = bindings_c(functions, handles) if output.endswith("bindings.c") else names_h(functions)
    with open(output, "w", encoding="ascii") as file:
        file.write(text)


main()
