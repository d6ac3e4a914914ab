#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cuda_restart, with a folder that has the fake driver under the name of the real one, and in a PID
# namespace of its own, where it may be made.
# shellcheck source=lib.sh
. "${srcdir:-.}/shim/cuda/test/lib.sh"

alone='unshare --pid --fork --kill-child --mount-proc'
$alone true 2>/dev/null || alone=
$alone ./cuda_restart
exit $?
