#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The exports of the stand-in, compared with its list and with the real libmpi.so.40. Runs in the
# build folder. GPUCKPT_MPI_LIBRARY gives another real library than the one that the loader finds.
# shellcheck source=../../../test/support/tap.sh
. "${srcdir:-.}/test/support/tap.sh"
lib=./libgpuckpt-mpi.so
real=${GPUCKPT_MPI_LIBRARY:-$(ldconfig -p | sed -n 's/^.*libmpi\.so\.40 .*=> //p' | head -n 1)}

names() { # LIBRARY
	nm -D --defined-only "$1" | awk '{ print $3 }' | LC_ALL=C sort
}

sizes() { # LIBRARY: the data objects, NAME SIZE
	nm -D -S --defined-only "$1" | awk 'NF == 4 && $3 ~ /[BDR]/ { print $4, $2 }' |
		LC_ALL=C sort
}

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
names $lib >"$tmp/exported"
map=shim/mpi/mpi.map
[ -e $map ] || map=$srcdir/$map # the tarball has it
sed -n 's/^	\([A-Za-z].*\);$/\1/p' "$map" | LC_ALL=C sort >"$tmp/listed"
none "$(LC_ALL=C comm -3 "$tmp/exported" "$tmp/listed")" "it exports only what its tables list"

entry() { # NAME: of the dynamic section
	readelf -d $lib | sed -n "s/.*($1).*\\[\\(.*\\)\\]/\\1/p"
}
same "$(entry SONAME)" libmpi.so.40 "its SONAME is Open MPI's"
same "$(entry NEEDED)" libc.so.6 "it needs only libc"

if [ ! -r "$real" ]; then
	tap_done
	echo "# no libmpi.so.40 here to compare with"
	exit 0
fi
names "$real" >"$tmp/real"
none "$(grep -E '^P?MPIX?_|^mpi_|^OMPI_C_|^OMPI_Aff' "$tmp/real" |
	LC_ALL=C comm -23 - "$tmp/exported")" "it has every function of MPI that $real has"

sizes "$real" >"$tmp/real.sizes"
sizes $lib >"$tmp/sizes"
none "$(awk 'NR == FNR { size[$1] = $2; next } ($1 in size) && size[$1] != $2' \
	"$tmp/real.sizes" "$tmp/sizes")" "objects have the same size in both libraries"
kinds='^ompi_mpi_(comm|group|op|info|win|file)_|^ompi_(request|message)_|^ompi_mpi_(int|real|char)'
none "$(awk '{ print $1 }' "$tmp/real.sizes" | grep -E '^ompi_(mpi_.*|request_null|message_null)$' |
	grep -E "_addr\$|$kinds" |
	LC_ALL=C comm -23 - "$tmp/exported" |
	grep -v -E 'status(es)?_ignore_addr$|bootstrap|comm_parent')" \
	"it has every predefined handle of $real"

cxx=$(dirname "$real")/libmpi_cxx.so.40
if [ -r "$cxx" ]; then
	nm -D -u "$cxx" | awk '{ print $2 }' | LC_ALL=C sort | LC_ALL=C comm -12 - "$tmp/real" |
		LC_ALL=C comm -23 - "$tmp/exported" >"$tmp/missing"
	none "$(cat "$tmp/missing")" "it has what Open MPI's C++ bindings need"
fi
tap_done
