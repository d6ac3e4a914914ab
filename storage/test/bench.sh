#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# bench_store writes and reads what it is told to, and leaves nothing: its figures are test/bench's.
# shellcheck source=../../test/support/tap.sh
. "${srcdir:-.}/test/support/tap.sh"
bench=${BENCH_STORE:-./storage/test/bench_store}
dir=$(mktemp -d) || exit 99
trap 'rm -rf "$dir"' EXIT

writes() # ARGUMENT...: 32 MiB of noise
{
	output=$("$bench" "$@" 2>&1)
	result=$?
	case $output in *"store_objects 2 objects"*) ;; *) result=1 ;; esac
	check $result "bench_store $*" || show "$output"
}

writes "$dir" 32 none
writes "$dir" 32 lz4
if [ -x ./storage/test/sealed.t ]; then
	writes -e "$dir" 32 none
	writes -e "$dir" 32 zstd 1 2
fi
none "$(find "$dir" -type f)" "nothing is left"
tap_done
