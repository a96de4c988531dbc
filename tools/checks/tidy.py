# SPDX-License-Identifier: Apache-2.0
"""clang-tidy over chosen files: one process a file, since version 14 mixes up two in one process."""
import concurrent.futures
import os
import subprocess

from .formatting import find_tool


def changed_files(root):
    """C files that differ from HEAD, or that the last commit touched when nothing differs."""
    for arguments in (["diff", "--name-only", "HEAD"], ["diff", "--name-only", "HEAD~1", "HEAD"]):
        done = subprocess.run(["git", "-C", root] + arguments, capture_output=True, text=True,
                              check=False)
        files = [f for f in done.stdout.split("\n")
                 if f.endswith(".c") and f.startswith(("src/", "tests/"))
                 and os.path.exists(os.path.join(root, f))]
        if files:
            return files
    return []


def run(root, build, files):
    """Prints what clang-tidy says; returns the number of files with a complaint, or None."""
    tool = find_tool("clang-tidy")
    if tool is None or not os.path.exists(os.path.join(build, "compile_commands.json")):
        return None

    def one(path):
        return subprocess.run([tool, "--quiet", "-p", build, os.path.join(root, path)], cwd=root,
                              capture_output=True, text=True, check=False)

    n_bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for path, done in zip(files, pool.map(one, files)):
            if done.returncode != 0:
                n_bad += 1
                print("%s\n%s" % (path, done.stdout.strip()))
    return n_bad
