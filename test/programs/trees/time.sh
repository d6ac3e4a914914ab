#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# time(1), which waits for a program.
# shellcheck disable=SC2016 # expanded by the shell that it is for
/usr/bin/time -o status -f %x bash -c 'for ((i = 0; i < 2000; i++)); do
	echo "$i"
	[[ -e $UNTIL ]] || sleep 0.05
done; exit 3' >answers
cat status answers >final
