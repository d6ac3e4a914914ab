#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Programs with the stand-in preloaded that use another MPI, have a tool before MPI, or use MPI only
# in a module that they load. Runs in the build folder.
# shellcheck source=lib.sh
. "${srcdir:-.}/shim/mpi/test/lib.sh"

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
mpi=$(ldconfig -p | sed -n 's/^.*libmpi\.so\.40 .*=> //p' | head -n 1)
fortran=$PWD/libgpuckpt-mpi-fortran.so

build() { # FILE OPTION...
	file=$1
	shift
	cc -O1 -o "$dir/$file" "${srcdir:-.}/shim/mpi/test/reexec.c" "-Wl,-rpath,$dir" \
		-Wl,--no-as-needed "$@"
}

gives() { # NAME WANTED COMMAND...: the command prints WANTED
	name=$1
	wanted=$2
	shift 2
	same "$("$@" 2>&1)" "$wanted" "$name"
}

under() { # LD_PRELOAD PROGRAM...
	list=$1
	shift
	timeout 300 env LD_PRELOAD="$list" "$@"
}

build libother.so.12 -DOTHER -shared -fPIC -Wl,-soname,libother.so.12
build other "$dir/libother.so.12"
build other.so -shared -fPIC "$dir/libother.so.12"
mkdir "$dir/later"
build later/libmpi.so.40 -DOTHER -DLATER -shared -fPIC -Wl,-soname,libmpi.so.40
build later/open "-Wl,-rpath,$dir/later" "$dir/later/libmpi.so.40"
build libtool.so -DTOOL -shared -fPIC -Wl,-soname,libtool.so
build tooled "$dir/libtool.so" "$mpi"
build untooled "$mpi" "$dir/libtool.so"
build open "$mpi"
build open.so -shared -fPIC "$mpi"
build loader -DLOADER

gives "a program with another MPI runs with it and with its arguments" "a tool
another MPI
libother.so.12 <a b> <>
$dir/libtool.so" under "$library:$dir/libtool.so:$fortran" "$dir/other" "a b" ""
gives "a program with another MPI runs with it in a shell's command" "another MPI
libother.so.12
(null)" under "$library:$fortran" sh -c "$dir/other; :"
gives "a program with a later Open MPI runs with it, and the reason is printed" "another MPI
libmpi.so.40
(null)
$dir/later/libmpi.so.40 is Open MPI 5.0.3, but gpuckpt supports only Open MPI 4.1" \
	under "$library:$fortran" "$dir/later/open"
says "with mpi=openmpi a program with a later Open MPI ends with the reason" \
	"$dir/later/libmpi.so.40 has no .*: it is not Open MPI 4.1" \
	under "$library" env GPUCKPT_MPI=openmpi "$dir/later/open"
gives "a module that needs another MPI gets it" "another MPI
libother.so.12 <$dir/other.so>
$library" under "$library" "$dir/loader" "$dir/other.so"
gives "a module that needs Open MPI gets the stand-in" "libgpuckpt-mpi.so <$dir/open.so>
$library" under "$library" "$dir/loader" "$dir/open.so"
gives "a program that needs Open MPI is not executed again" "libgpuckpt-mpi.so
$library" under "$library" "$dir/open"
gives "a tool that is linked before libmpi stays before it" "a tool
libgpuckpt-mpi.so
$dir/libtool.so:$library" under "$library" "$dir/tooled"
gives "a tool that is linked after libmpi stays after it" "libgpuckpt-mpi.so
$library" under "$library" "$dir/untooled"
gives "a tool that is preloaded comes before the stand-in" "a tool
libgpuckpt-mpi.so
$dir/libtool.so:$library:$dir/libtool.so" under "$library:$dir/libtool.so" "$dir/open"

tap_done
