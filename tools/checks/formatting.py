# SPDX-License-Identifier: Apache-2.0
"""Formatting by clang-format 14 with the tree's .clang-format; clean files are remembered."""
import concurrent.futures
import hashlib
import os
import re
import shutil
import subprocess

from .rule import Rule

_VERSION = "14"


def find_tool(name):
    """The clang tool of the pinned version, or None."""
    for candidate in ("%s-%s" % (name, _VERSION), name):
        path = shutil.which(candidate)
        if path is None:
            continue
        version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
        if re.search(r"version %s\." % _VERSION, version.stdout):
            return path
    return None


def _unformatted(tree, tool, sources):
    """path -> first line that clang-format would change."""
    if not sources:
        return {}
    done = subprocess.run([tool, "--dry-run"] + [s.path for s in sources], cwd=tree.root,
                          capture_output=True, text=True, check=False)
    first = {}
    for path, line in re.findall(r"^([^\s:]+):(\d+):\d+: (?:warning|error):", done.stderr, re.M):
        first.setdefault(path, int(line))
    if done.returncode != 0 and not first:
        first[sources[0].path] = 1
    return first


def check(tree):
    sources = tree.under("src/", "include/", "tests/", "examples/", "bench/",
                         ends=(".c", ".h", ".cu", ".cuh"))
    sources = [s for s in sources if not s.path.startswith("tests/data/")]
    style = tree.files.get(".clang-format")
    if not sources or style is None:
        return
    tool = find_tool("clang-format")
    if tool is None:
        yield (sources[0].path, 1, "clang-format %s is not here: formatting was not checked"
               % _VERSION, "run scripts/deps --dev")
        return
    keys = {s.path: "format " + hashlib.sha256(style.raw + s.raw).hexdigest() for s in sources}
    todo = [s for s in sources if keys[s.path] not in tree.cache]
    n = os.cpu_count() or 1
    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        parts = pool.map(lambda k: _unformatted(tree, tool, todo[k::n]), range(n))
        bad = {path: line for part in parts for path, line in part.items()}
    for source in todo:
        if source.path in bad:
            yield source.path, bad[source.path], "not as clang-format %s would have it" % _VERSION
        else:
            tree.cache.add(keys[source.path])


RULES = [
    Rule("format", "C is formatted by clang-format 14.",
         "clang-format -i FILE (scripts/deps --dev installs it)", check),
]
