# SPDX-License-Identifier: Apache-2.0
# terminals.py ROUNDS OUT: what Python and other programs make of processes' own kernel objects: a
# shell in a pseudo-terminal, as expect has it, and a pidfd of it. It answers ROUNDS commands,
# each typed while the last one's answer waits, and OUT gets the answers. With
# TERMINALS_UNTIL=FILE in the environment it is slow and does not end before FILE exists.
import os
import pty
import select
import sys
import termios
import time

PROMPT = b"ready> "


def start():
    pid, master = pty.fork()
    if pid == 0:
        os.environ["PS1"] = PROMPT.decode()
        os.environ.pop("PS0", None)
        os.execv("/bin/bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"])
    settings = termios.tcgetattr(master)
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(master, termios.TCSANOW, settings)
    return pid, master


def read_prompt(master, seen):
    while PROMPT not in seen:
        seen += os.read(master, 1024)
    answer, _, rest = seen.partition(PROMPT)
    return answer, rest


def main():
    rounds, out = int(sys.argv[1]), open(sys.argv[2], "a", buffering=1)
    until = os.environ.get("TERMINALS_UNTIL")
    pid, master = start()
    ended = select.poll()
    ended.register(os.pidfd_open(pid), select.POLLIN)
    _, seen = read_prompt(master, b"")
    i = 0
    while i < rounds or (until and not os.path.exists(until)):
        command = "/bin/echo $((%d * %d)) | cat; jobs; [[ -t 0 ]] || echo none" % (i, i)
        os.write(master, command[:9].encode())
        time.sleep(0.02 if until else 0)
        os.write(master, command[9:].encode() + b"\n")
        answer, seen = read_prompt(master, seen)
        text = answer.decode().replace("\r", "").strip()
        assert text == str(i * i), (i, answer)
        assert not ended.poll(0)
        if i < rounds:
            out.write(text + "\n")
        i += 1
    os.write(master, b"exit 3\n")
    try:
        while os.read(master, 100):
            pass
    except OSError:
        pass
    assert ended.poll()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
    out.write("end\n")


main()
