# SPDX-License-Identifier: Apache-2.0
"""Headers: guards named by path, and each compiles alone and included twice.

The compile is cached by the content of the header and of every own header that it reaches, so a
second run costs nothing.
"""
import concurrent.futures
import hashlib
import os
import platform
import re
import shutil
import subprocess
import tempfile

from .rule import Rule

_FLAGS = ["-std=c11", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
# The instruction sets of src/backend/cpu, as its flags.cmake gives them to the sources beside.
_ISA_FLAGS = {
    "avx2": ["-mavx2", "-mfma", "-mf16c"],
    "avxvnni": ["-mavx2", "-mfma", "-mf16c", "-mavxvnni"],
    "avx512": ["-mavx2", "-mfma", "-mf16c", "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl",
               "-mavx512vnni"],
}


def guards_of(path):
    """src/cache/rotating.h -> TDM_CACHE_ROTATING_H; include/tandem/tandem.h -> TANDEM_TANDEM_H.

    A folder's own header may say its name once: src/cache/cache.h -> TDM_CACHE_H as well.
    """
    start = "TDM_"
    if path.startswith("src/"):
        path = path[len("src/"):]
    elif path.startswith("include/"):
        start, path = "", path[len("include/"):]
    guards = [start + re.sub(r"\W", "_", path).upper()]
    folder, name = os.path.split(path)
    if start and os.path.basename(folder) == name[:-2]:
        guards.append(start + re.sub(r"\W", "_", folder + ".h").upper())
    return guards


def _plain_headers(tree):
    """Headers that stand alone; *_tmpl.h is included once per type on purpose."""
    return [s for s in tree.under("src/", "include/", "tests/", "bench/", ends=(".h",))
            if not s.path.endswith("_tmpl.h")]


def _flags_of(path):
    return _FLAGS + _ISA_FLAGS.get(os.path.basename(os.path.dirname(path)), [])


def _can_compile(path):
    """Headers of another processor's instruction sets are left to a machine that has it."""
    folder = os.path.basename(os.path.dirname(path))
    is_x86 = platform.machine() in ("x86_64", "AMD64")
    return (folder not in _ISA_FLAGS or is_x86) and (folder != "neon" or not is_x86)


def check_guards(tree):
    owner = {}
    for source in _plain_headers(tree):
        want = guards_of(source.path)
        pps = [t for t in source.tokens if t.kind == "pp"]
        words = [t.text.split() for t in pps[:2]]
        if len(words) < 2 or len(words[0]) < 2 or words[0][0] != "#ifndef" or words[1][0] != "#define":
            yield source.path, 1, "no include guard; it would be %s" % want[0]
            continue
        guard = words[0][1]
        if owner.setdefault(guard, source.path) != source.path:
            yield source.path, pps[0].line, "%s guards %s too" % (guard, owner[guard])
        is_free = source.path.startswith("tests/") and re.fullmatch(r"TDM_TESTS_\w+_H", guard)
        if words[1][1:2] != [guard] or guard not in want and not is_free:
            yield source.path, pps[0].line, "the guard is %s, its path asks for %s" % (
                guard, " or ".join(want))


def _reach(tree, source):
    """The header and every own header that it includes, directly or not."""
    seen = {source.path}
    work = [source]
    while work:
        current = work.pop()
        for include in current.includes:
            target = None if include.is_system else tree.resolve(current, include)
            if target is not None and target not in seen:
                seen.add(target)
                work.append(tree.files[target])
    return sorted(seen)


def _compile(tree, compiler, source):
    """The first error line of compiling the header twice over, or None."""
    with tempfile.TemporaryDirectory() as folder:
        unit = os.path.join(folder, "twice.c")
        name = os.path.join(tree.root, source.path)
        with open(unit, "w", encoding="utf-8") as f:
            f.write('#include "%s"\n#include "%s"\nextern int tdm_not_empty;\n' % (name, name))
        roots = ["-I" + os.path.join(tree.root, d) for d in ("src", "include", "tests", "bench")]
        done = subprocess.run([compiler] + _flags_of(source.path) + roots + [unit], capture_output=True, text=True,
                              check=False)
    if done.returncode == 0:
        return None
    errors = [line for line in done.stderr.split("\n") if "error" in line]
    return (errors or ["the compiler failed"])[0].replace(tree.root + "/", "")


def check_alone(tree):
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    headers = [s for s in _plain_headers(tree) if _can_compile(s.path)]
    if not headers:
        return
    if compiler is None:
        yield headers[0].path, 1, "no C compiler: headers were not compiled", "run scripts/deps"
        return
    keys = {}
    for source in headers:
        key = hashlib.sha256((compiler + " ".join(_flags_of(source.path))).encode())
        for path in _reach(tree, source):
            key.update(path.encode() + b"\0" + tree.files[path].raw)
        keys[source.path] = "header " + key.hexdigest()
    todo = [s for s in headers if keys[s.path] not in tree.cache]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for source, error in zip(todo, pool.map(lambda s: _compile(tree, compiler, s), todo)):
            if error is None:
                tree.cache.add(keys[source.path])
            else:
                yield source.path, 1, "does not compile alone and twice: " + error


RULES = [
    Rule("guard", "A header's guard is named by its path (in tests: TDM_TESTS_..._H) and is its own.",
         "#ifndef, #define and #endif with the name that the path gives, as the first directives",
         check_guards),
    Rule("header-alone", "A header compiles alone and included twice.",
         "include what its declarations need (lower floors, then system), define nothing but "
         "static inline functions", check_alone),
]
