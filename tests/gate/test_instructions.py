#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions of the six hottest kernels, scalar and AVX2, counted by callgrind and held against
instructions.txt beside this file. A kernel that became slower shows here without any timing; one
that became faster has to be written down, or the slack would hide the next slow change.

    tests/gate/test_instructions.py            compare; exit 1 when a count left its band
    tests/gate/test_instructions.py --write    write the counts of this build down

Counts are those of gcc's release build; callgrind knows no AVX-512. TDM_BINARY_DIR names the build.
"""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
BUILD = os.environ.get("TDM_BINARY_DIR", os.path.join(HERE, "..", "..", "build", "release"))
PROGRAM = os.path.join(BUILD, "bench", "micro", "count_kernels")
FILE = os.path.join(HERE, "instructions.txt")
SETS = ("scalar", "avx2")
BAND = (-10.0, 3.0)  # per cent of what is written down, for a file that is new
SECONDS_MAX = 300
NAME = re.compile(r"^cfn=\((\d+)\)(?: (.*))?$")
ANY_NAME = re.compile(r"^c?fn=\((\d+)\) (.*)$")


def inclusive(lines):
    """Inclusive counts of the functions called count_NAME out of callgrind's lines."""
    names = {}
    counts = {}
    called = None
    is_next_the_cost = False
    for line in lines:
        line = line.rstrip("\n")
        if is_next_the_cost:
            is_next_the_cost = False
            name = names.get(called, "")
            if name.startswith("count_"):
                kernel = name[len("count_"):]
                counts[kernel] = counts.get(kernel, 0) + int(line.split()[1])
            continue
        told = ANY_NAME.match(line)
        if told:  # a name is spelled once, then its number stands for it
            names[told.group(1)] = told.group(2)
        call = NAME.match(line)
        if call:
            called = call.group(1)
        elif line.startswith("calls="):
            is_next_the_cost = True
    return counts


def count(isa):
    with tempfile.TemporaryDirectory(prefix="tandem-count-") as folder:
        out = os.path.join(folder, "callgrind")
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", "--compress-strings=yes", "--callgrind-out-file=" + out,
             PROGRAM, isa], check=False, capture_output=True, text=True, timeout=SECONDS_MAX)
        if done.returncode != 0:
            sys.exit("FAIL: count_kernels %s under callgrind: exit %d\n%s"
                     % (isa, done.returncode, done.stderr[-2000:]))
        if done.stdout.split()[:1] != ["cpu-" + isa]:
            sys.exit("FAIL: asked for %s, ran %s" % (isa, done.stdout))
        with open(out, encoding="utf-8") as file:
            return inclusive(file)


def measure():
    return {(isa, kernel): n for isa in SETS for kernel, n in count(isa).items()}


def read():
    """The band and the counts that are written down."""
    band, counts = None, {}
    with open(FILE, encoding="utf-8") as file:
        for line in file:
            words = line.split("#")[0].split()
            if words[:1] == ["band"]:
                band = (float(words[1]), float(words[2]))
            elif words:
                counts[words[0], words[1]] = int(words[2])
    return band, counts


def write(counts):
    band = read()[0] if os.path.exists(FILE) else BAND
    with open(FILE, "w", encoding="utf-8") as file:
        file.write("# Instructions of one call, counted by callgrind in gcc's release build.\n"
                   "# Written by tests/gate/test_instructions.py --write; a commit that writes it says why.\n"
                   "# The band is in per cent of a count.\n"
                   "band %g %g\n" % band)
        for (isa, kernel), n in sorted(counts.items()):
            file.write("%-6s %-16s %d\n" % (isa, kernel, n))


def compare(counts):
    """What left its band, as lines."""
    band, told = read()
    wrong = []
    for key in sorted(set(counts) | set(told)):
        now, then = counts.get(key), told.get(key)
        if now is None or then is None:
            wrong.append("%s %s: %s" % (*key, "not counted any more" if now is None else "not written down"))
            continue
        change = 100.0 * (now - then) / then
        is_in = band[0] <= change <= band[1]
        print("%-6s %-16s %10d %10d %+6.2f %%%s" % (*key, then, now, change, "" if is_in else "  <--"))
        if not is_in:
            wrong.append("%s %s: %d instructions, %d written down (%+.1f %%, band %+g to %+g)"
                         % (*key, now, then, change, *band))
    return wrong


def main():
    if subprocess.run(["which", "valgrind"], check=False, capture_output=True).returncode != 0:
        reason = "valgrind is not installed (scripts/deps --dev)"
        if os.environ.get("TANDEM_NO_SKIP"):
            print("FAIL: a skip is not allowed here (TANDEM_NO_SKIP): " + reason)
            return 1
        print("SKIP: " + reason)
        return 77
    counts = measure()
    if len(counts) != 6 * len(SETS):
        print("FAIL: %d counts instead of %d: %s" % (len(counts), 6 * len(SETS), sorted(counts)))
        return 1
    if sys.argv[1:] == ["--write"]:
        write(counts)
    wrong = compare(counts)
    for line in wrong:
        print("FAIL: " + line)
    if wrong:
        print("If that is meant: tests/gate/test_instructions.py --write, and say why in the commit.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
