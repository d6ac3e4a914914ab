#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""structure.py [--top DIR] BUILD [COMPONENT...]: hold the tree against its rule, over the objects
of BUILD.

A component is a line of test/structure.layers up to its colon; the folders after the colon are its
layers, lowest first. The lines are lowest first as well. Prints one line for each finding, and TAP:

  upward       a call or a reference from a lower layer to an upper one
  circle       more files call each other in a circle than CIRCLE allows
  declared     a function is declared in a header that is neither its own nor its folder's
  unused       a global function that the product does not use
  header       a header of under 30 lines that one file includes, beside a source of under 100 lines
  name         a base name that stands twice within a component
  folder       a folder with more than 25 files, or without a README.md
  function     a function of more than 70 lines
  line         a line of more than 100 columns, in sources, scripts, build rules and prose; a row of
               a table and a line with a word of more than 80 (a URL) may have more
  unlisted     a folder with sources that structure.layers does not name
  limits       a row of the last table of doc/limits.md without a verdict, or whose test is missing
  security     SECURITY.md names a test that does not exist
  readme       README.md has more than 1,200 words

The files of tests (a folder named test, and test/ at the top) are left out, but for `line` and
`unused`: a function that tests alone use counts as unused."""
import collections
import os
import re
import subprocess
import sys

CIRCLE = 4
CIRCLE_OF = {'shim/namespace/root': 9, 'shim/cuda/records': 14}
FILES = 25
LINES = 70
COLUMNS = 100
WORD = 80
HEADER = 30
README_WORDS = 1200
MODULE = 100
KINDS = ('upward', 'circle', 'declared', 'unused', 'header', 'name', 'folder', 'function',
         'line', 'unlisted', 'limits', 'security', 'readme')
OTHERS = ('.md', '.1', '.3', '.5', '.8', '.sh', '.py', '.am', '.ac', '.cu', '.F90', '.f90')
MADE = ('configure', 'configure~', 'config.status', 'libtool', 'doc/mpi.md')
VERDICTS = ('carried', 'refused', 'noted', 'harmless')
TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
USAGE = 'usage: structure.py [--top DIR] BUILD [COMPONENT...]'


def is_test(path):
    return path.startswith('test/') or '/test/' in path


def read_layers():
    """[(component, [folder, ...])], lowest first."""
    layers = []
    with open(os.path.join(TOP, 'test/structure.layers')) as f:
        for line in f:
            line = line.split('#')[0].strip()
            if line:
                component, folders = line.split(':')
                layers.append((component, [os.path.normpath(os.path.join(component, folder))
                                           for folder in folders.split()]))
    return layers


def walk():
    """The paths of all files, but for those in a build directory."""
    for base, folders, files in os.walk(TOP):
        folders[:] = [f for f in folders if not f.startswith(('.', 'build', 'autom4te'))
                      and not os.path.exists(os.path.join(base, f, 'config.status'))]
        for name in files:
            if os.path.isfile(os.path.join(base, name)):
                yield os.path.relpath(os.path.join(base, name), TOP)


def read(path, size=-1):
    with open(os.path.join(TOP, path), errors='replace') as f:
        return f.read(size)


def read_tree():
    """{path: text} of all sources and headers that are not generated."""
    tree = {}
    for path in walk():
        if path.endswith(('.c', '.h', '.S')):
            text = read(path)
            if not text.startswith('/* Generated'):
                tree[path] = text
    return tree


def read_others():
    """{path: text} of all scripts, build rules and prose that are not generated."""
    others = {}
    for path in walk():
        folder, name = os.path.split(path)
        if folder == 'm4' or path in MADE:
            continue
        if name.endswith(OTHERS) or '.' not in name and read(path, 2) == '#!':
            others[path] = read(path)
    return others


def read_tests():
    """{base name: text} of all files of tests."""
    tests = {}
    for base, _, files in os.walk(TOP):
        folder = os.path.relpath(base, TOP)
        for name in files:
            if is_test(folder + '/') and name.endswith(('.c', '.sh')):
                with open(os.path.join(base, name), errors='replace') as f:
                    tests[name] = tests.get(name, '') + f.read()
    return tests


def objects(build, tree):
    """(source, object) of each object; a generated source is not in the tree, but uses others."""
    for base, _, files in os.walk(build):
        for name in files:
            if not name.endswith('.o'):
                continue
            folder = os.path.relpath(base, build)
            if os.path.basename(folder) == '.libs':
                folder = os.path.dirname(folder)
            stem = os.path.join(folder, name[:-2].rsplit('-', 1)[-1])
            for source in stem + '.c', stem + '.S':
                if any(os.path.exists(os.path.join(place, source)) for place in (TOP, build)):
                    yield source, os.path.join(base, name)


def read_symbols(build, tree):
    """({source: {symbol: is a function}}, {source: {symbol}}): what each defines and uses."""
    defines = collections.defaultdict(dict)
    uses = collections.defaultdict(set)
    found = list(objects(build, tree))
    if not found:
        sys.exit(f'structure.py: {build} has no objects: build first')
    source_of = {obj: source for source, obj in found}
    listing = subprocess.run(['nm', '-A', '-p', *source_of], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True, check=False).stdout
    for line in listing.splitlines():
        obj, rest = line.split(':', 1)
        kind, symbol = rest.split()[-2:]
        symbol = symbol.split('@')[0]
        if kind == 'U':
            uses[source_of[obj]].add(symbol)
        elif kind in 'TWDBRCVi' and not symbol.startswith('__'):
            defines[source_of[obj]][symbol] = kind in 'TW'
    return defines, uses


def left_out(build):
    """Has configure left out a part of the tree? Tests may have built some of its files."""
    status = os.path.join(build, 'config.status')
    return os.path.exists(status) and re.search(r'"WITH_\w+_TRUE"\]="#"', read(status))


def read_exported():
    """The names that version scripts export, and that other programs find by a name in quotes."""
    found = set()
    for base, _, files in os.walk(TOP):
        for name in files:
            if name.endswith(('.map', '.c', '.h', '.py', '.in', '.f90')):
                with open(os.path.join(base, name), errors='replace') as f:
                    pattern = r'\bgck_\w+' if not name.endswith(('.c', '.h')) else r'"(gck_\w+)"'
                    found.update(re.findall(pattern, f.read()))
    return found


def edges_of(defines, uses, component_of):
    """{source: {other: symbol}}: who needs whom. Names of other libraries (malloc, MPI_Send) count
    only within their component: elsewhere they are the library's."""
    definers = collections.defaultdict(set)
    for source, symbols in defines.items():
        for symbol in symbols:
            definers[symbol].add(source)
    edges = collections.defaultdict(dict)
    for source, symbols in uses.items():
        for symbol in symbols:
            others = definers.get(symbol, ())
            near = [o for o in others if component_of(o) == component_of(source)]
            if not near and not symbol.startswith('gck_'):
                continue
            for other in near or others:
                if other != source and not is_test(other):
                    edges[source][other] = symbol
    return edges


def circles(nodes, edges):
    """Strongly connected sets of more than one node (Tarjan's algorithm, without recursion)."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []
    for root in nodes:
        if root in index:
            continue
        work = [(root, iter(edges.get(root, ())))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, others = work[-1]
            for other in others:
                if other not in nodes:
                    continue
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(edges.get(other, ()))))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    members = []
                    while not members or members[-1] != node:
                        members.append(stack.pop())
                        on_stack.discard(members[-1])
                    if len(members) > 1:
                        found.append(sorted(members))
    return found


def without_comments(text):
    return re.sub(r'/\*.*?\*/|//[^\n]*', ' ', text, flags=re.S)


def outermost(text):
    """What stands outside of all braces and comments, so: declarations and heads of definitions."""
    text = without_comments(text)
    text = re.sub(r'^#(?:.*\\\n)*.*', ' ', text, flags=re.M)
    text = text.replace('extern "C" {', ' ')
    out, depth = [], 0
    for piece in re.split(r'([{}])', text):
        if piece == '{':
            depth += 1
        elif piece == '}':
            depth = max(0, depth - 1)
            out.append(';')
        elif depth == 0:
            out.append(piece)
    return ''.join(out)


def declared_in(tree):
    """{function: {header}}; a static inline one is not meant."""
    found = collections.defaultdict(set)
    for path, text in tree.items():
        if not path.endswith('.h'):
            continue
        for statement in outermost(text).split(';'):
            if re.match(r'\s*(typedef|static)\b', statement):
                continue
            match = re.search(r'\b(\w+)\s*\(', statement)
            while match and match[1] in ('__attribute__', 'GCK_PRINTF', 'sizeof', 'void'):
                match = re.search(r'\b(\w+)\s*\(', statement[match.end():])
            if match:
                found[match[1]].add(path)
    return found


def own_headers(source, folders):
    """The headers that may declare what source defines: its own, and the public one of its folder
    or of its component, which has the folder's name."""
    yield os.path.splitext(source)[0] + '.h'
    folder = os.path.dirname(source)
    while folder:
        yield os.path.join(folder, os.path.basename(folder) + '.h')
        yield folder + '.h'
        folder = os.path.dirname(folder)


def may_be_long(line):
    """A row of a table, and what cannot be wrapped."""
    return line.startswith('|') or max(map(len, line.split())) > WORD


class Check:
    def __init__(self, build, chosen):
        self.layers = read_layers()
        self.tree = read_tree()
        self.chosen = chosen
        self.rank = {}
        for i, (_, folders) in enumerate(self.layers):
            for j, folder in enumerate(folders):
                self.rank[folder] = (i, j)
        self.build = os.path.abspath(build)
        self.defines, self.uses = read_symbols(build, self.tree)
        self.edges = edges_of(self.defines, self.uses, self.component)
        self.found = collections.defaultdict(list)

    def layer(self, path):
        """The longest listed folder that path lies in."""
        folder = os.path.dirname(path)
        while folder and folder not in self.rank:
            folder = os.path.dirname(folder)
        return folder

    def component(self, path):
        layer = self.layer(path)
        return self.layers[self.rank[layer][0]][0] if layer else None

    def wanted(self, path):
        component = self.component(path)
        return not is_test(path) and (not self.chosen or component in self.chosen)

    def say(self, kind, text):
        self.found[kind].append(text)

    def sources(self):
        return sorted(p for p in self.tree if self.wanted(p))

    def upward(self):
        for source in self.sources():
            for other, symbol in sorted(self.edges.get(source, {}).items()):
                here, there = self.layer(source), self.layer(other)
                if here and there and self.rank[there] > self.rank[here]:
                    self.say('upward', f'{source} -> {other} ({symbol})')

    def circle(self):
        members = collections.defaultdict(set)
        for source in self.sources():
            members[self.component(source)].add(source)
        for component, nodes in sorted(members.items(), key=str):
            allowed = CIRCLE_OF.get(component, CIRCLE)
            for circle in circles(nodes, self.edges):
                if len(circle) > allowed:
                    self.say('circle', f'{len(circle)} files of {component}: '
                             + ' '.join(os.path.relpath(p, component or '.') for p in circle))

    def declared(self):
        headers = declared_in(self.tree)
        for source in self.sources():
            for symbol, function in sorted(self.defines.get(source, {}).items()):
                if not function:
                    continue
                foreign = headers.get(symbol, set()) - set(own_headers(source, self.rank))
                if len(headers.get(symbol, ())) > 1 or foreign:
                    self.say('declared', f'{symbol} of {source} in '
                             + ' '.join(sorted(headers[symbol])))

    def unused(self):
        users = collections.defaultdict(set)
        for source, symbols in self.uses.items():
            if not is_test(source):
                for symbol in symbols:
                    users[symbol].add(source)
        built = {self.component(source) for source in self.defines}
        parts = {self.component(source) for source in self.sources()}
        if not parts <= built or left_out(self.build):
            print('# unused: not looked at, since parts of the tree are not built')
            return
        exported = read_exported()
        for source in self.sources():
            for symbol, function in sorted(self.defines.get(source, {}).items()):
                here = len(re.findall(rf'\b{symbol}\b', without_comments(self.tree[source])))
                if (function and symbol.startswith('gck_') and symbol not in exported
                        and not users[symbol] - {source} and here < 2):
                    self.say('unused', f'{symbol} of {source}')

    def header(self):
        includers = collections.defaultdict(set)
        for path, text in self.tree.items():
            for name in re.findall(r'^#include "([^"]+)"', text, flags=re.M):
                near = os.path.normpath(os.path.join(os.path.dirname(path), name))
                includers[name if name in self.tree else near].add(path)
        for path in self.sources():
            lines = self.tree[path].count('\n')
            others = {os.path.splitext(i)[0] for i in includers[path]}
            others.discard(os.path.splitext(path)[0])
            own = self.tree.get(path[:-2] + '.c', '').count('\n')
            if path.endswith('.h') and lines < HEADER and own < MODULE and len(others) <= 1:
                self.say('header', f'{path}: {lines} lines, included by '
                         + (' '.join(sorted(includers[path])) or 'nobody'))

    def name(self):
        places = collections.defaultdict(set)
        for path in self.sources():
            stem = os.path.splitext(path)[0]
            places[self.component(path), os.path.basename(stem)].add(stem)
        for (component, _), stems in sorted(places.items(), key=str):
            if len(stems) > 1:
                self.say('name', f'{component}: ' + ' '.join(sorted(stems)))

    def folder(self):
        counts = collections.Counter(os.path.dirname(p) for p in self.sources())
        for folder, count in sorted(counts.items()):
            if count > FILES:
                self.say('folder', f'{folder}: {count} files')
            if not os.path.exists(os.path.join(TOP, folder, 'README.md')):
                self.say('folder', f'{folder}: no README.md')

    def function(self):
        for path in self.sources():
            begin = 0
            for i, line in enumerate(self.tree[path].split('\n'), 1):
                if line.startswith('{'):
                    begin = i
                elif line.startswith('}') and begin:
                    if i - begin - 1 > LINES:
                        self.say('function', f'{path}:{begin}: {i - begin - 1} lines')
                    begin = 0

    def line(self):
        for path, text in sorted((self.tree | read_others()).items()):
            for i, line in enumerate(text.expandtabs(8).split('\n'), 1):
                if (len(line) > COLUMNS and not (path not in self.tree and may_be_long(line))
                        and (not self.chosen or self.component(path) in self.chosen)):
                    self.say('line', f'{path}:{i}: {len(line)} columns')

    def unlisted(self):
        for folder in sorted({os.path.dirname(p) for p in self.tree if not is_test(p)}):
            if folder not in self.rank and (folder + '/').startswith(
                    tuple(c + '/' for c in self.chosen) or ''):
                self.say('unlisted', folder)

    def limits(self):
        """A row: | what | verdict: explanation | `FILE` TEXT; ... |. A test file has the text."""
        path = os.path.join(TOP, 'doc/limits.md')
        if self.chosen or not os.path.exists(path):
            return
        with open(path) as f:
            rows = re.findall(r'^\| (.*?) \| (.*?) \| (.*) \|$', f.read().split('\n## ')[-1],
                              flags=re.M)
        tests = read_tests()
        for what, verdict, test in rows[1:]:
            verdict = re.match(r'\w*', verdict)[0]
            named = re.findall(r'`([\w.]+)` ([^;]+)', test)
            if verdict not in VERDICTS or not (named or verdict == 'harmless'):
                self.say('limits', f'{what}: no verdict, or no test')
            for name, text in named:
                if text.strip() not in tests.get(name, ''):
                    self.say('limits', f'{what}: {name} has no {text.strip()}')

    def security(self):
        path = os.path.join(TOP, 'SECURITY.md')
        if self.chosen or not os.path.exists(path):
            return
        with open(path) as f:
            for test in sorted(set(re.findall(r'`([\w./-]*test/[\w./-]+)`', f.read()))):
                if not os.path.exists(os.path.join(TOP, test)):
                    self.say('security', f'SECURITY.md: there is no {test}')

    def readme(self):
        path = os.path.join(TOP, 'README.md')
        words = len(read(path).split()) if os.path.exists(path) else 0
        if not self.chosen and words > README_WORDS:
            self.say('readme', f'{words} words')

    def run(self):
        for kind in KINDS:
            getattr(self, kind)()
        print(f'1..{len(KINDS)}')
        for i, kind in enumerate(KINDS, 1):
            for text in self.found[kind]:
                print(f'# {kind}: {text}')
            print(f"{'not ok' if self.found[kind] else 'ok'} {i} - {kind}: "
                  f'{len(self.found[kind])} found')
        return 1 if any(self.found.values()) else 0


def main():
    global TOP
    args = sys.argv[1:]
    if len(args) > 2 and args[0] == '--top':
        TOP, args = args[1], args[2:]
    if not args or args[0].startswith('-'):
        sys.exit(USAGE)
    return Check(args[0], set(args[1:])).run()


if __name__ == '__main__':
    sys.exit(main())
