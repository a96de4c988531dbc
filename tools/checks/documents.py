# SPDX-License-Identifier: Apache-2.0
"""Documents that state numbers stay true: docs/limits.md against the macros, docs/errors.md against
the list of statuses."""
import re

from .rule import Rule

_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_LIMIT_ROW = re.compile(r"^\|[^|]*\|\s*([\d ]+?)\s*(KiB|MiB|GiB)?\s*\|\s*`(\w+)` in `([^`]+)`\s*\|")
_STATUS_ROW = re.compile(r"^\|\s*`(\w+)`\s*\|\s*(\d+)\s*\|\s*(\d+)\s*\|")


def _value(text):
    """The value of a constant integer expression in C, or None."""
    text = re.sub(r"/\*.*?\*/|\((?:u?int\d+_t|size_t)\)", "", text)
    text = re.sub(r"(?<=[\d])[uUlL]+|\.0\b", "", text)
    if not re.fullmatch(r"[\d\s()<*+-]+", text):
        return None
    try:
        return eval(text, {"__builtins__": {}})  # digits and operators only, see above
    except (SyntaxError, TypeError):
        return None


def check_limits(tree):
    document = tree.files.get("docs/limits.md")
    for number, line in enumerate(document.lines if document else (), 1):
        match = _LIMIT_ROW.match(line)
        if match is None:
            continue
        told = int(match.group(1).replace(" ", "")) * _UNITS.get(match.group(2), 1)
        name, path = match.group(3), match.group(4)
        source = tree.files.get(path)
        define = source and re.search(r"^#define %s[ \t]+(.+)$" % name, source.text, re.M)
        if not define:
            yield document.path, number, "%s is not defined in %s" % (name, path)
        elif _value(define.group(1)) != told:
            yield document.path, number, "%s is %s, not %d" % (name, define.group(1), told)


def check_statuses(tree):
    document, header = tree.files.get("docs/errors.md"), tree.files.get("include/tandem/tandem.h")
    if document is None or header is None:
        return
    true = {name: (exit_code, http) for name, http, exit_code in re.findall(
        r'X\(\w+, "(\w+)",\s*"[^"]*",\s*(\d+),\s*(\d+)\)', header.text)}
    told = {}
    for number, line in enumerate(document.lines, 1):
        match = _STATUS_ROW.match(line)
        if match:
            told[match.group(1)] = match.group(2, 3)
            if true.get(match.group(1)) != match.group(2, 3):
                yield document.path, number, "%s: exit and HTTP are %s in tandem.h" % (
                    match.group(1), " and ".join(true.get(match.group(1), ("nothing",))))
    for name in sorted(set(true) - set(told)):
        yield document.path, 1, "status %s is missing" % name


RULES = [
    Rule("limits-doc", "docs/limits.md tells the limits that the code has.",
         "change the row and say so in CHANGELOG.md", check_limits),
    Rule("errors-doc", "docs/errors.md tells the statuses that the code has.",
         "change the row; a code that scripts know does not change its exit code", check_statuses),
]
