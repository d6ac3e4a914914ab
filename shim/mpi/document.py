# SPDX-License-Identifier: Apache-2.0
"""doc/mpi.md, for shim/mpi/generate: every function, its support, and the tests that call it. The
tests are found in their sources, so that the page names none that does not exist."""
import glob
import os
import re
import sys

HEAD = """\
# MPI: every function and its support

*passed on*: the stand-in translates handles and calls Open MPI; a restart carries only the objects
named. *counted*: the same, and the collective clock counts it. *here*: the stand-in implements it.
The last column names the tests whose programs call the function, with Open MPI alone and under the
stand-in, and most of them over checkpoints and restarts (handles and deprecated run one rank once).
Traffic is `test/mpi`, random programs; chapters is `test/mpi/chapters`; fortran and cluster are
programs of `test/mpi/fortran` and `test/programs`. A function that no test calls fails the build.
"""
HOW = {"local": "passed on", "collective": "counted", "hand": "here"}


# Folders of tests' programs, and their names on the page; None: the file's, up to the first "_".
PROGRAMS = (("test/*.c*", None), ("../../test/mpi/*.c", "traffic"),
            ("../../test/mpi/chapters/*.c", "chapters"),
            ("../../test/mpi/fortran/*.[cF]*", "fortran"), ("../../test/programs/*.c", "cluster"))
CALL = re.compile(r"\b(?:P?(mpix?_\w+)|(ompi_affinity_str))\b", re.IGNORECASE)
NO_CODE = re.compile(r"/\*.*?\*/|//[^\n]*|\"[^\"\n]*\"", re.DOTALL)


def callers(folder):
    """The tests that call each function: {lower-case name: {test, ...}}."""
    found = {}
    for pattern, name in PROGRAMS:
        for path in glob.glob(os.path.join(folder, pattern)):
            test = name or re.sub(r"_.*|\..*", "", os.path.basename(path))
            with open(path, encoding="utf-8") as source:
                for call in CALL.findall(NO_CODE.sub(" ", source.read())):
                    found.setdefault((call[0] or call[1]).lower(), set()).add(test)
    return found


def mpi_md(functions, _):
    """The page."""
    found = callers(sys.argv[1])
    untested = [f.name for f in functions if f.name.lower() not in found]
    if untested:
        sys.exit(f"doc/mpi.md: no test calls {', '.join(untested)}")
    yield HEAD
    section = None
    for f in functions:
        if f.section != section:
            section = f.section
            yield f"\n## {section}\n\n{f.carried[:1].upper()}{f.carried[1:]}.\n"
            yield "| function | | shown by |\n|---|---|---|"
        tests = ", ".join(sorted(found.get(f.name.lower(), [])))
        yield f"| `{f.name}` | {HOW[f.how]} | {tests} |"
