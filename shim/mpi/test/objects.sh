#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Datatypes, operations, info, error handlers, attributes, handles as integers: MPI's results are
# the same with Open MPI alone, under the stand-in, and under the stand-in with restarts (cycles, in
# which every object is made again). Runs in the build folder.
. "${srcdir:-.}/shim/mpi/test/lib.sh"

dir=$(mktemp -d -p /dev/shm) || exit 1
trap 'rm -rf "$dir"' EXIT

# One rank runs without mpirun, which sometimes fails.
without_standin() { # RANKS PROGRAM...
	if [ "$1" -eq 1 ]; then
		shift
		timeout 300 "$@"
	else
		plain "$@"
	fi
}

with_standin() { # RANKS PROGRAM...
	if [ "$1" -eq 1 ]; then
		shift
		alone "$@"
	else
		standin "$@"
	fi
}

# A run that hangs or fails is begun anew: Open MPI, started again within one mpirun, sometimes does
# not find a segment of shared memory or takes a rank's last start for a stranger. A run that ends
# well with other results is not.
over_restarts() { # RANKS PROGRAM...
	for _ in 1 2 3 4 5; do
		GPUCKPT_MPI_TEST=$(mktemp -d -p "$dir")
		export GPUCKPT_MPI_TEST
		with_standin "$@" >"$dir/this"
		result=$?
		unset GPUCKPT_MPI_TEST
		[ $result -ne 0 ] || return 0
	done
	: >"$dir/this"
}

same() { # NAME: $dir/this and $dir/plain have the same contents
	cmp -s "$dir/plain" "$dir/this" && [ -s "$dir/this" ]
	result=$?
	check $result "$1"
	[ $result -eq 0 ] || diff "$dir/plain" "$dir/this" | head -n 20 | sed 's/^/# /'
}

family() { # RANKS NAME [ARGUMENT...]
	ranks=$1
	shift
	without_standin "$ranks" ./mpi_objects "$@" >"$dir/plain" || echo "it failed" >"$dir/plain"
	with_standin "$ranks" ./mpi_objects "$@" >"$dir/this" || : >"$dir/this"
	same "$1: the stand-in"
	[ "$ranks" -eq 1 ] || [ -n "${GPUCKPT_LONG-}" ] || return 0 # see reloads in lib.sh
	over_restarts "$ranks" ./mpi_objects "$@"
	same "$1: the stand-in over restarts"
}

# A fatal error ends the program as with Open MPI and with the same message. The message is written
# here because Open MPI's output is sometimes lost.
fatal() { # KIND FUNCTION OBJECT ERROR
	without_standin 1 ./mpi_objects fatal "$1" >/dev/null 2>&1
	echo $? >"$dir/plain"
	alone ./mpi_objects fatal "$1" 2>"$dir/words" >/dev/null
	echo $? >"$dir/this"
	same "the exit status after a fatal error of a $1"
	cat >"$dir/plain" <<-END
		*** An error occurred in $2
		*** on $3
		*** $4
		*** MPI_ERRORS_ARE_FATAL (processes in this ${3%% *} will now abort,
		***    and potentially your MPI job)
	END
	sed -n 's/^\[.*:[0-9]*\] \*\*\*/***/p' "$dir/words" >"$dir/this"
	same "the message of a fatal error of a $1"
}

family 1 types
family 1 trees 1 20
family 3 operations
family 1 info
family 1 errors
family 2 attributes
family 1 handles
family 1 mpi1
fatal comm MPI_Send "communicator MPI_COMM_WORLD" "MPI_ERR_RANK: invalid rank"
fatal win MPI_Win_call_errhandler "win a window" "MPI_ERR_RMA_SYNC: error executing rma sync"
fatal file MPI_File_call_errhandler "file /dev/null" \
	"MPI_ERR_NO_SUCH_FILE: no such file or directory"
tap_done
