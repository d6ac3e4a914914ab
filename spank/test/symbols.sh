#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# spank_gpuckpt.so exports Slurm's hooks and nothing else: any other name could be taken for, or
# taken over by, a symbol of srun or slurmstepd.
# shellcheck source=../../test/support/tap.sh
. "${srcdir:-.}/test/support/tap.sh"
so=.libs/spank_gpuckpt.so
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
nm -D --defined-only "$so" | awk '{ print $3 }' | sort >"$tmp/got"
sort >"$tmp/want" <<END
plugin_name
plugin_type
plugin_version
spank_plugin_version
slurm_spank_exit
slurm_spank_init
slurm_spank_init_post_opt
slurm_spank_local_user_init
slurm_spank_task_exit
slurm_spank_task_init
slurm_spank_task_init_privileged
slurm_spank_task_post_fork
slurm_spank_user_init
END
none "$(diff "$tmp/want" "$tmp/got")" "exported symbols"
none "$(nm -D --undefined-only "$so" | grep -o 'gck_.*')" "has all its own functions"
none "$(readelf -d "$so" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' |
	grep -v -e '^libc\.so' -e '^ld-linux')" \
	"needs no library but libc"
tap_done
