# SPDX-License-Identifier: Apache-2.0
"""What every text file obeys: licence line, opening comment, no loose ends, no machine's traces."""
import re

from .rule import Rule

_CODE = (".c", ".h", ".cu", ".cuh", ".py", ".sh", ".cmake", ".map")
_LICENCE = "SPDX-License-Identifier: Apache-2.0"
_C = (".c", ".h", ".cu", ".cuh")

# Put together so that this file does not name what it looks for.
_LEAKS = re.compile(
    r"(?<![\w.}/-])/(?:%s)/" % "|".join(("wo" + "rk", "ro" + "ot", "fa" + "rm", "tm" + "p/w", "ho" + "me"))
    + r"|\b(?:%s)\b" % "|".join(re.escape(a + b) for a, b in (
        ("pypi.", "org"), ("pythonhosted", ".org"), ("npmjs.", "org"), ("npmjs.", "com"),
        ("deb.debian", ".org"), ("crates.", "io"), ("repo.maven", ".apache.org"),
        ("proxy.golang", ".org"))))
_LOOSE = re.compile(r"\b(%s)\b(?!\(#\d+\))" % "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK")))
_DEAD = re.compile(r"^\s*#\s*if\s+0\b|\bif\s*\(\s*(?:0|false)\s*(?:&&|\))", re.M)


def _is_text(source):
    return not source.path.endswith((".safetensors", ".gguf", ".bin", ".png")) \
        and not source.path.startswith("tests/fuzz/corpus/") and b"\0" not in source.raw[:4096]


def _is_ours(source):
    """Written by us: generated data keeps the text that its maker gave it."""
    return _is_text(source) and not source.path.startswith("tests/data/")


def _is_code(source):
    name = source.path.rsplit("/", 1)[-1]
    return name.endswith(_CODE) or name == "CMakeLists.txt" or source.raw[:2] == b"#!"


def check_licence(tree):
    for source in tree.files.values():
        if _is_ours(source) and _is_code(source):
            first = 1 if source.raw[:2] == b"#!" else 0
            if len(source.lines) <= first or _LICENCE not in source.lines[first]:
                yield source.path, first + 1, "no SPDX line"


def check_opening(tree):
    for source in tree.under("src/", "tests/", "examples/", "bench/", ends=_C):
        if source.path.startswith("tests/data/"):
            continue
        opening = []
        for token in source.tokens:
            if token.kind != "comment":
                break
            opening.append(token.text)
        words = re.findall(r"[A-Za-z]{2,}", " ".join(opening).replace(_LICENCE, ""))
        if len(words) < 3:
            yield source.path, 1, "no opening comment"


def check_leaks(tree):
    for source in tree.files.values():
        if not _is_text(source) or len(source.raw) > 4 << 20:
            continue
        for match in _LEAKS.finditer(source.text):
            line = source.text.count("\n", 0, match.start()) + 1
            yield source.path, line, "%s is a machine's path or a registry's host" % match.group()


def check_loose(tree):
    for source in tree.files.values():
        if _is_ours(source) and not source.path.endswith((".json", ".jinja")):
            for match in _LOOSE.finditer(source.text):
                line = source.text.count("\n", 0, match.start()) + 1
                yield source.path, line, "%s without an issue number" % match.group(1)


def check_dead(tree):
    for source in tree.under("src/", "tests/", "include/", "examples/", "bench/", ends=_C):
        for match in _DEAD.finditer(source.text):
            line = source.text.count("\n", 0, match.start() + len(match.group()) - 1) + 1
            yield source.path, line, "code that can never run"


RULES = [
    Rule("licence", "The first line of every source names the licence.",
         "put `" + _LICENCE + "` into a comment on the first line (after a #! line)",
         check_licence),
    Rule("opening", "Every C file opens with what it owns, what it refuses and why so.",
         "a sentence or two after the SPDX line, in the same comment", check_opening),
    Rule("machine-path", "No file names a machine's path or a package registry's host.",
         "a path relative to the repository, an environment variable, or the client's own default",
         check_leaks),
    Rule("loose-end", "A loose end names its issue.",
         "finish it, refuse the case with a typed error, or write the word with (#ISSUE) after it",
         check_loose),
    Rule("dead-code", "No code that is switched off by a constant.", "delete it; git remembers",
         check_dead),
]
