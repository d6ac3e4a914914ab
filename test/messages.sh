#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# doc/troubleshooting.md has each message, and messages.py sees what is missing or stale.
here=$(dirname "$(readlink -f "$0")")
type python3 >/dev/null || { echo "1..0 # SKIP no python3"; exit 0; }
page=doc/troubleshooting.md
small=$(mktemp -d)
trap 'rm -rf "$small"' EXIT
mkdir "$small/doc"
ln -s "$here"/../{common,coordinator,shim,spank,storage} "$small"
tests=0 status=0

report() # STATUS NAME
{
	tests=$((tests + 1))
	[[ $1 -eq 0 ]] || { status=1; printf 'not '; }
	echo "ok $tests - $2"
}

# finds LINE FROM TO NAME: with FROM changed to TO on the page, this is what is found
finds()
{
	sed "s/$2/$3/" "$here/../$page" >"$small/$page"
	[[ $("$here/messages.py" --top "$small" | grep '^#') = "$1" ]]
	report $? "$4"
}

finds '# each rank fetches shared chunks itself: …' '^\* `each rank fetches.*' '* An' \
	"a message without a bullet is found"
# shellcheck disable=SC2016 # backquotes
finds '# no such text of gpuckpt' '^\* `each rank' '* `no such text of gpuckpt`, `each rank' \
	"a bullet without a message is found"
out=$("$here/messages.py")
report $? "the page has the messages of the sources"
grep '^#' <<<"$out"
echo "1..$tests"
exit $status
