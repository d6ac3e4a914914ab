#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Programs that the stand-in is preloaded into, and their MPI is another, or a tool stands before it,
# or they have none until they load a module. Runs in the build folder.
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

gives() { # NAME WANTED COMMAND...: what it prints
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

gives "another MPI: the program runs with it, its arguments as they were" "a tool
another MPI
libother.so.12 <a b> <>
$dir/libtool.so" under "$library:$dir/libtool.so:$fortran" "$dir/other" "a b" ""
gives "in a shell's command, too" "another MPI
libother.so.12
(null)" under "$library:$fortran" sh -c "$dir/other; :"
gives "a later Open MPI: the program runs with it, and it is said why" "another MPI
libmpi.so.40
(null)
$dir/later/libmpi.so.40 is Open MPI 5.0.3, but gpuckpt supports only Open MPI 4.1" \
	under "$library:$fortran" "$dir/later/open"
says "with mpi=openmpi it ends, with the reason" "$dir/later/libmpi.so.40 has no .*: it is not Open MPI 4.1" \
	under "$library" env GPUCKPT_MPI=openmpi "$dir/later/open"
gives "a module that needs another MPI gets it" "another MPI
libother.so.12 <$dir/other.so>
$library" under "$library" "$dir/loader" "$dir/other.so"
gives "a module that needs Open MPI gets the stand-in" "libgpuckpt-mpi.so <$dir/open.so>
$library" under "$library" "$dir/loader" "$dir/open.so"
gives "a program that needs Open MPI is left alone" "libgpuckpt-mpi.so
$library" under "$library" "$dir/open"
gives "a tool that was linked before libmpi stays before it" "a tool
libgpuckpt-mpi.so
$dir/libtool.so:$library" under "$library" "$dir/tooled"
gives "one that was linked after it stays after it" "libgpuckpt-mpi.so
$library" under "$library" "$dir/untooled"
gives "a tool that is preloaded stands before the stand-in" "a tool
libgpuckpt-mpi.so
$dir/libtool.so:$library:$dir/libtool.so" under "$library:$dir/libtool.so" "$dir/open"

tap_done
