#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# doc/cuda-functions.md says what its tables and the tests' sources say.
# shellcheck source=../../../test/support/tap.sh
. "${srcdir:-.}/test/support/tap.sh"
top=${srcdir:-.}
type python3 >/dev/null || { echo "1..0 # SKIP no python3"; exit 0; }

page=$top/doc/cuda-functions.md
same "$("$top/shim/cuda/document" "$top" 2>&1 | diff "$page" - | head -n 20)" "" \
	"doc/cuda-functions.md is up to date (else: make cuda-functions)"
tap_done
