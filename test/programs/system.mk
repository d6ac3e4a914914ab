# SPDX-License-Identifier: Apache-2.0
# make -j2 BURN=PROGRAM: its answers in the files one, two and three. make waits for the first, a
# Python program in system() for each of the others.
all: one two three

one:
	$(BURN) >$@

two three:
	/usr/bin/python3 -c 'import os; assert os.system("$(BURN) >$@") == 0'
