#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# libgpuckpt in programs without the plugin: it links from C, C++, Fortran and Python and returns an
# error; its exports and needs. Runs in the build folder.
srcdir=${srcdir:-.}
# shellcheck source=../../../test/support/tap.sh
. "${srcdir:-.}/test/support/tap.sh"
lib=.libs/libgpuckpt.so.0
expected='-38 -38 this program does not run under srun --gpu-ckpt'
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
user=$srcdir/shim/user

listed=$(sed -n 's/^	\([a-z].*\);$/\1/p' "$user/gpuckpt.map" | LC_ALL=C sort)
exported=$(nm -D --defined-only $lib | awk '$2 == "T" { sub("@.*", "", $3); print $3 }' |
	LC_ALL=C sort)
same "$exported" "$listed" "it exports only the listed functions"
needed=$(readelf -d $lib | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v -e '^ld-linux' | sort)
same "$needed" libc.so.6 "it needs only libc"

# builds NAME COMPILER ARGUMENTS...: the program builds and prints what is expected
builds()
{
	name=$1
	shift
	if ! command -v "$1" >/dev/null; then
		skip "$name" "no $1"
		return
	fi
	rm -f "$dir/program"
	output=$("$@" -o "$dir/program" 2>&1) || { check 1 "$name"; show "$output"; return; }
	same "$(LD_LIBRARY_PATH=.libs "$dir/program" 2>&1)" "$expected" "$name"
}

builds "C" gcc -Wall -Werror -I"$user" "$user/test/user.c" -L.libs -lgpuckpt
builds "C, with the archive" gcc -Wall -Werror -I"$user" "$user/test/user.c" libgpuckpt.a
builds "C, all static" gcc -static -I"$user" "$user/test/user.c" libgpuckpt.a
builds "C++" g++ -x c++ -Wall -Werror -I"$user" "$user/test/user.c" -x none -L.libs -lgpuckpt
builds "CheCUDA's calls, in C" gcc -Wall -Werror -I"$user" "$user/test/checuda.c" -L.libs -lgpuckpt
builds "CheCUDA's calls, in C++" g++ -x c++ -Wall -Werror -I"$user" "$user/test/checuda.c" \
	-x none -L.libs -lgpuckpt
builds "Fortran" gfortran -Wall -Werror -J "$dir" "$user/gpuckpt.f90" "$user/test/user.f90" \
	-L.libs -lgpuckpt

if command -v python3 >/dev/null; then
	cp gpuckpt.py "$dir"
	same "$(cd .libs && LD_LIBRARY_PATH=. PYTHONPATH=$dir PYTHONDONTWRITEBYTECODE=1 python3 -c '
import gpuckpt
print(gpuckpt.checkpoint(), gpuckpt.checkpoint_all(), gpuckpt.error())' 2>&1)" "$expected" "Python"
else
	skip "Python" "no python3"
fi

flags=$(PKG_CONFIG_PATH=. pkg-config --libs gpuckpt 2>/dev/null)
case $flags in
*-lgpuckpt*) check 0 "pkg-config finds it" ;;
*) check 1 "pkg-config finds it" || show "$flags" ;;
esac

tap_done
