#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The tree keeps its rule (structure.py), and structure.py sees what breaks it, in a small tree made
# here.
here=$(dirname "$(readlink -f "$0")")
type python3 nm >/dev/null || { echo "1..0 # SKIP no python3 or nm"; exit 0; }
small=$(mktemp -d)
trap 'rm -rf "$small"' EXIT
tests=0 status=0

report() # STATUS NAME
{
	tests=$((tests + 1))
	[[ $1 -eq 0 ]] || { status=1; printf 'not '; }
	echo "ok $tests - $2"
	return "$1"
}

# put FILE LINE...: a file of the small tree
put()
{
	mkdir -p "$small/$(dirname "$1")"
	printf '%s\n' "${@:2}" >"$small/$1"
}

# Two components; lib has two layers. Each header is long enough to stand alone.
make_tree()
{
	local f
	rm -rf "${small:?}"/*
	put test/structure.layers "lib: low high" "app: ."
	for f in lib/low/README.md lib/high/README.md app/README.md; do
		put "$f" "What lives here."
	done
	for f in lib/low/a lib/high/b app/c app/d app/e app/f app/g; do
		put "$f.h" "int gck_${f##*/}(void);" "$(printf '/* %d */\n' {1..30})"
		put "$f.c" "#include \"$f.h\"" "int gck_${f##*/}(void)" "{" "	return 0;" "}"
	done
	put lib/high/b.c "#include \"lib/low/a.h\"" "int gck_b(void)" "{" "	return gck_a();" "}"
	put app/c.c "#include \"lib/high/b.h\"" "int main(void)" "{" "	return gck_b();" "}"
	put app/c.h "$(printf '/* %d */\n' {1..31})"
	rm "$small"/app/[d-g].*
}

# finds KIND TEXT NAME: the small tree breaks the rule so, and in no other way; KIND empty: it does
# not
finds()
{
	local f out
	(cd "$small" && find . -name '*.c' -print0 | while read -rd '' f; do
		mkdir -p "build/$(dirname "$f")"
		"${CC:-cc}" -w -I. -c "$f" -o "build/${f%.c}.o"
	done)
	out=$("$here/structure.py" --top "$small" "$small/build" | grep '^#')
	if [[ $1 ]]; then
		[[ $out == "# $1: "*"$2"* && $out != *$'\n'* ]]
	else
		[[ -z $out ]]
	fi
	report $? "$3" || printf '# %s\n' "got: $out"
}

make_tree
finds "" "" "a tree that keeps the rule"
make_tree
put lib/low/a.c "int gck_b(void);" "int gck_a(void)" "{" "	static int n;" \
	"	return n++ ? gck_b() : 0;" "}"
finds upward "lib/low/a.c -> lib/high/b.c (gck_b)" "a call from a lower layer to an upper one"
make_tree
put lib/low/a.c "int main(void);" "int gck_a(void)" "{" "	return 0;" "}" \
	"int gck_x(void);" "int (*gck_table)(void) = gck_x;"
put app/c.c "#include \"lib/high/b.h\"" "int gck_x(void)" "{" "	return 0;" "}" \
	"int main(void)" "{" "	return gck_b();" "}"
put app/c.h "int gck_x(void);" "$(printf '/* %d */\n' {1..31})"
finds upward "lib/low/a.c -> app/c.c (gck_x)" "a reference from a lower component to an upper one"
make_tree
for pair in d:e e:f f:g g:h h:d; do
	put "app/${pair%:*}.c" "#include \"app/${pair%:*}.h\"" "int gck_${pair#*:}(void);" \
		"int gck_${pair%:*}(void)" "{" "	return gck_${pair#*:}();" "}"
	put "app/${pair%:*}.h" "int gck_${pair%:*}(void);" "$(printf '/* %d */\n' {1..30})"
done
finds circle "5 files of app: d.c e.c f.c g.c h.c" "a circle of five files"
make_tree
put app/c.h "int gck_a(void);" "$(printf '/* %d */\n' {1..31})"
finds declared "gck_a of lib/low/a.c in app/c.h lib/low/a.h" "a second declaration"
make_tree
put lib/low/a.h "$(printf '/* %d */\n' {1..31})"
put lib/high/b.h "int gck_a(void);" "int gck_b(void);" "$(printf '/* %d */\n' {1..31})"
put lib/high/b.c "#include \"lib/high/b.h\"" "int gck_b(void)" "{" "	return gck_a();" "}"
finds declared "gck_a of lib/low/a.c in lib/high/b.h" "a declaration in another file's header"
make_tree
put lib/low/a.c "#include \"lib/low/a.h\"" "int gck_a(void)" "{" \
	"$(printf '	;\n%.0s' {1..71})" "	return 0;" "}"
finds function "lib/low/a.c:3: 72 lines" "a function that fits no screen"
make_tree
put lib/high/a.c "#include \"lib/high/b.h\"" "static int n = 1;"
finds name "lib/high/a lib/low/a" "a name that stands twice"
make_tree
put app/c.c "#include \"lib/high/b.h\"" "int gck_lonely(void)" "{" "	return 0;" "}" \
	"int main(void)" "{" "	return gck_b();" "}"
finds unused "gck_lonely of app/c.c" "a function that nobody calls"
mkdir -p "$small/build"
echo 'S["WITH_CUDA_TRUE"]="#"' >"$small/build/config.status"
finds unused "not looked at" "which is not looked for where configure left out a part"
make_tree
put lib/low/a.h "int gck_a(void);"
put lib/high/b.c "#include \"lib/low/a.h\"" "int gck_b(void)" "{" "	return gck_a();" "}"
finds header "lib/low/a.h: 1 lines" "a header for one line"
make_tree
mkdir -p "$small/app/test"
printf '/* %098d */\n' 1 >"$small/app/test/x.h"
finds line "app/test/x.h:1: 104 columns" "a long line, in a test"
make_tree
words=$(printf 'word %.0s' {1..20})
put app/page.md "| $words" "https://$(printf '%080d' 0) $words"
finds "" "" "a long row of a table, and a long URL"
for f in app/page.md doc/man/page.8 app/run.sh app/Makemodule.am; do
	make_tree
	put "$f" "${words}x"
	finds line "$f:1: 101 columns" "a long line in ${f##*/}"
done
make_tree
put app/run "#!/bin/sh" "${words}x"
finds line "app/run:2: 101 columns" "a long line in a script without a suffix"
make_tree
rm "$small/app/README.md"
finds folder "app: no README.md" "a folder that does not say what it holds"
make_tree
put app/test/x.c "int main(void) { return 0; } /* do_this */"
put doc/limits.md "" "## Last" "| what | verdict | test |" "|---|---|---|" \
	"| this | refused: so | \`x.c\` do_this |" "| those | harmless: why | — |"
finds "" "" "a table of limits whose tests exist"
put doc/limits.md "" "## Last" "| what | verdict | test |" "|---|---|---|" \
	"| this | refused: so | \`x.c\` do_that |" "| those | harmless: why | — |"
finds limits "this: x.c has no do_that" "a limit whose test is missing"
put doc/limits.md "" "## Last" "| what | verdict | test |" "|---|---|---|" "| this | carried | — |"
finds limits "this: no verdict, or no test" "a limit without a test"
make_tree
put SECURITY.md "* So it is (\`test/structure.layers\`, \`lib/test/none.c\`)."
finds security "there is no lib/test/none.c" "a claim about security whose test is missing"
make_tree
# shellcheck disable=SC2046 # words
put README.md $(seq 1201)
finds readme "1201 words" "a README that is too long"

out=$("$here/structure.py" "${GPUCKPT_BUILD:-.}")
report $? "the tree keeps its rule" || grep '^#' <<<"$out"
echo "1..$tests"
exit $status
