# SPDX-License-Identifier: Apache-2.0
"""A program that changes the terminal of its step (srun --pty), has a child in its foreground, and
   looks at it again at the end.
   own_terminal.py UNTIL FILE   FILE gets "changed" and, once UNTIL exists, what it finds then"""
import fcntl
import os
import struct
import sys
import termios
import time


def write(text):
    with open(sys.argv[2], "a") as f:
        f.write(text + "\n")


modes = termios.tcgetattr(0)
modes[3] &= ~termios.ECHO
modes[6][termios.VINTR] = b"\x19"
termios.tcsetattr(0, termios.TCSANOW, modes)
fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 111, 0, 0))
child = os.fork()
if not child:
    os.setpgid(0, 0)
    while not os.path.exists(sys.argv[1]):
        time.sleep(0.05)
    os._exit(0)
try:
    os.setpgid(child, child)
except PermissionError:
    pass
os.tcsetpgrp(0, child)
write("changed")
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
modes = termios.tcgetattr(0)
size = struct.unpack("HHHH", fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))
write("echo %d, interrupt %r, %d lines of %d, the child %s"
      % (modes[3] & termios.ECHO != 0, modes[6][termios.VINTR], size[0], size[1],
         "in the foreground" if os.tcgetpgrp(0) == child else "behind"))
