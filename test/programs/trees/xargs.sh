#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# xargs with three processes at a time, each a shell with a pipeline.
# shellcheck disable=SC2016 # expanded by the shell that it is for
part='for ((i = 0; i < 20; i++)); do echo "$1 $i"; [[ -e $UNTIL ]] || sleep 0.05; done |
	sha256sum >part.$1; echo "$1" >>answers'
seq 1 200 | xargs -P3 -I{} bash -c "$part" bash {}
cat part.* >sums
sha256sum <sums >final
