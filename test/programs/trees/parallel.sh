#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# GNU parallel.
# shellcheck disable=SC2016 # expanded by the shell that it is for
part='for ((i = 0; i < 20; i++)); do echo "$1 $i"; [[ -e $UNTIL ]] || sleep 0.05; done | sha256sum'
seq 1 200 | parallel --will-cite -j3 -k "bash -c '$part' bash {}; echo {} >>answers" >sums
sha256sum <sums >final
