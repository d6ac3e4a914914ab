#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# bash completion: what it offers after a few words. `status` is a fake's here.
# shellcheck source=../../../test/support/tap.sh
. "${srcdir:-.}/test/support/tap.sh"
real=$(readlink -f "${GPUCKPT:-./gpuckpt}")
gpuckpt() # as the completion calls it
{
	[[ $1 = status ]] || { "$real" "$@"; return; }
	printf '%s\n' "4711.0 alice running" "4711.1 alice running" "4720.0 alice held"
}
# shellcheck source=../../../contrib/completion/gpuckpt
. "${srcdir:-.}/contrib/completion/gpuckpt"

# offers WANT WORD...: the last word is to be completed
offers()
{
	COMP_WORDS=(gpuckpt "${@:2}") COMP_CWORD=$(($# - 1))
	_gpuckpt
	local got
	got=$(printf '%s\n' "${COMPREPLY[@]}" | sort -u | xargs)
	[[ $got = "$1" ]]
	check $? "gpuckpt ${*:2}: $got" || show "want: $1"
}

offers "vacate verify" v
offers "help" he
offers "create" create
offers "4711 4711.0 4711.1 4720 4720.0" create ""
offers "4720 4720.0" requeue 472
offers "--no-wait --noheader" create --no
offers "--quick" verify 4711 --q
offers "--store" import --s
offers "root" status -u roo
offers "" check x
tap_done
