#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# g++, again and again.
cat >a.cc <<'C'
#include <iostream>
#include <map>
#include <regex>
std::map<int, std::regex> m = {{1, std::regex("a+b")}};
int main() { std::cout << std::regex_match("aab", m[1]) << "\n"; }
C
while g++ -O1 -o a.out a.cc && ./a.out >>answers && sha256sum a.out >>answers; do
	[[ ! -e $UNTIL ]] || break
done
sort -u answers >final
