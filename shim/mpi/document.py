# SPDX-License-Identifier: Apache-2.0
"""doc/mpi.md, for shim/mpi/generate: every function, what becomes of it, and what shows it. The tests
are found in their sources, so that the page cannot claim one that is not there."""
import glob
import os
import re
import sys

HEAD = """\
# MPI: every function, and what becomes of it

*passed on*: the stand-in translates handles and calls Open MPI; there is nothing to carry over a
restart but the objects named. *counted*: the same, and the collective clock counts it. *here*: the
stand-in has a body of its own, in the section's file. The last column names the tests whose
programs use the function; they run with Open MPI alone, under the stand-in, and over checkpoints
and restarts. Traffic is `test/mpi`, whose programs are random.
"""
HOW = {"local": "passed on", "collective": "counted", "hand": "here"}


def callers(folder):
    """What calls each function: {lower-case name: {test, ...}}."""
    found = {}
    tests = sorted(glob.glob(os.path.join(folder, "test", "*.c*"))) + \
        sorted(glob.glob(os.path.join(folder, "test", "*.[fF]90"))) + \
        sorted(glob.glob(os.path.join(folder, "..", "..", "test", "mpi", "*.[cfF]*")))
    for path in tests:
        name = re.sub(r"_.*|\..*", "", os.path.basename(path))
        if os.path.basename(os.path.dirname(path)) == "mpi":
            name = "traffic"
        with open(path, encoding="utf-8") as source:
            text = re.sub(r"/\*.*?\*/|//[^\n]*|\"[^\"\n]*\"", " ", source.read(), flags=re.DOTALL)
            for call in re.findall(r"\bP?(mpix?_\w+)", text, re.IGNORECASE):
                found.setdefault(call.lower(), set()).add(name)
    return found


def mpi_md(functions, _):
    """The page."""
    found = callers(sys.argv[1])
    yield HEAD
    section = None
    for f in functions:
        if f.section != section:
            section = f.section
            yield f"\n## {section}\n\n{f.carried[:1].upper()}{f.carried[1:]}.\n"
            yield "| function | | shown by |\n|---|---|---|"
        tests = ", ".join(sorted(found.get(f.name.lower(), [])))
        yield f"| `{f.name}` | {HOW[f.how]} | {tests} |"
