#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""messages.py [--top DIR]: hold doc/troubleshooting.md against the sources. Prints TAP.

A message is the format of a call in spank/ and coordinator/ that puts a line before a user or an
administrator: into a job's output, the log of gpuckptd or an agent, what srun prints. What it fills
in (%s, %u) is written as … on the page. The page's bullets begin with messages in backquotes.

  missing      a message of at least WORDS words has no bullet
  stale        a bullet begins with a text that no source has"""
import os
import re
import sys

WORDS = 3
TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = 'doc/troubleshooting.md'
LITERAL = r'"(?:[^"\\]|\\.)*"'
CALL = re.compile(r'\b(?:say_to_user|gck_live_say|gck_warn|gck_error_log|slurm_error|'
                  r'slurm_spank_log|slurm_info|gck_launcher_tell)\([^";]*?'
                  r'((?:' + LITERAL + r'\s*)+)')
TEXTS = re.compile(r'(?:' + LITERAL + r'\s*)+')


def plain(literals):
    """The text of adjacent literals as the page writes it."""
    text = ''.join(s[1:-1] for s in re.findall(LITERAL, literals)).replace('\\"', '"')
    text = re.sub(r'%[-0-9.*]*(?:ll|l|z|j)?[a-z]', '…', text)
    text = text.replace('%%', '%').replace('`', "'")
    return re.sub(r'\s+', ' ', text).strip()


def sources(top):
    for folder in ('spank', 'coordinator', 'common', 'storage', 'shim'):
        for base, _, files in os.walk(os.path.join(top, folder)):
            for name in files:
                if name.endswith('.c') and '/test' not in base:
                    with open(os.path.join(base, name)) as f:
                        yield folder, f.read()


def bullets(page):
    """The messages that bullets begin with."""
    for bullet in re.findall(r'^\* ((?:`[^`]*`(?:,\s+)?)+)', page, re.M):
        for message in re.findall(r'`([^`]*)`', bullet):
            yield re.sub(r'\s+', ' ', message)


def report(number, findings, name):
    print(f'{"not " if findings else ""}ok {number} - {name}')
    for f in sorted(set(findings)):
        print(f'# {f}')
    return not findings


def main():
    top = sys.argv[2] if sys.argv[1:2] == ['--top'] else TOP
    with open(os.path.join(top, PAGE)) as f:
        listed = set(bullets(f.read()))
    said, known = set(), set()
    for folder, text in sources(top):
        known |= {plain(t) for t in TEXTS.findall(text)}
        if folder in ('spank', 'coordinator'):
            said |= {plain(t) for t in CALL.findall(text)}
    long = {m for m in said if len(re.findall(r"[A-Za-z']{2,}", m)) >= WORDS}
    good = report(1, long - listed, f'{PAGE} has each of {len(long)} messages')
    good = report(2, listed - known, 'each of its messages is in the sources') and good
    print('1..2')
    return 0 if good else 1


sys.exit(main())
