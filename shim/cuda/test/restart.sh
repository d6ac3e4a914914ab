#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cuda_restart, with a folder that has the fake driver under the name of the real one.
# shellcheck source=lib.sh
. "${srcdir:-.}/shim/cuda/test/lib.sh"

./cuda_restart
exit $?
