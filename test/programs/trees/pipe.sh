#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A pipeline of ten commands.
for ((i = 0; i < 3000; i++)); do
	until [[ $i -lt 2999 || -e $UNTIL ]]; do sleep 0.1; done
	echo "line $i"
	[[ -e $UNTIL ]] || sleep 0.02
done | cat | sed -u 's/line/word/' | tr '[:lower:]' '[:upper:]' | awk '{ print NR, $0; fflush() }' |
	grep --line-buffered -v absent | tee answers | cat | sort -n | sha256sum >sum
sha256sum answers sum >final
