# SPDX-License-Identifier: Apache-2.0
"""The files under check: which there are, their text, tokens and includes, each read once."""
import os
import re
import subprocess

from . import ctoken

# A file includes headers of its own room or of a strictly lower floor.
FLOORS = {
    "base": 0,
    "contract": 1,
    "tensor": 2,
    "backend/cpu": 3,
    "backend/cuda": 3,
    "formats": 3,
    "text": 4,
    "cache": 4,
    "media": 4,
    "sample": 5,
    "model": 5,
    "spec": 6,
    "engine": 7,
    "train": 8,
    "speech": 8,
    "server": 9,
    "cli": 10,
}

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.M)
_SKIPPED_FOLDERS = {".git", "build", "__pycache__", ".cache"}


class Include:
    """One #include line."""

    def __init__(self, line, is_system, path):
        self.line = line
        self.is_system = is_system
        self.path = path


class Source:
    """One file; everything derived from its text is computed once, when first asked for."""

    def __init__(self, root, path):
        self.path = path
        self._root = root
        self._cache = {}

    def _once(self, key, make):
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]

    @property
    def raw(self):
        def read():
            with open(os.path.join(self._root, self.path), "rb") as f:
                return f.read()

        return self._once("raw", read)

    @property
    def text(self):
        return self._once("text", lambda: self.raw.decode("utf-8", "replace"))

    @property
    def lines(self):
        return self._once("lines", lambda: self.text.split("\n"))

    @property
    def tokens(self):
        return self._once("tokens", lambda: ctoken.tokenize(self.text))

    @property
    def code(self):
        return self._once("code", lambda: ctoken.code_of(self.tokens))

    @property
    def top(self):
        """(functions, file-scope rest) of ctoken.split_top."""
        return self._once("top", lambda: ctoken.split_top(self.code))

    @property
    def includes(self):
        def find():
            return [
                Include(self.text.count("\n", 0, m.start()) + 1, m.group(1) == "<", m.group(2))
                for m in _INCLUDE.finditer(self.text)
            ]

        return self._once("includes", find)

    @property
    def marks(self):
        """line -> text of the comments that touch it, for rules that a stated reason lifts."""

        def find():
            marks = {}
            for token in self.tokens:
                if token.kind == "comment":
                    last = token.line + token.text.count("\n")
                    for line in range(token.line, last + 1):
                        marks[line] = marks.get(line, "") + token.text
            return marks

        return self._once("marks", find)

    def has_mark(self, line, word):
        """A comment `/* word: reason */` on this line, or standing alone above its statement."""
        pattern = re.compile(r"\b%s:\s*\S" % re.escape(word))
        if pattern.search(self.marks.get(line, "")):
            return True
        above = line - 1
        while above > 0 and not self.lines[above - 1].rstrip().endswith((";", "{", "}", ":", "*/")):
            if not self.lines[above - 1].strip():
                return False
            above -= 1  # the statement began further up
        while above > 0 and self.lines[above - 1].strip().startswith(("/*", "*", "//")):
            if pattern.search(self.marks.get(above, "")):
                return True
            above -= 1
        return False

    @property
    def room(self):
        return room_of(self.path)


def room_of(path):
    """The room of a path under src/, or None; an unknown folder is its own first part."""
    if not path.startswith("src/"):
        return None
    parts = path[4:].split("/")
    if len(parts) > 2 and "/".join(parts[:2]) in FLOORS:
        return "/".join(parts[:2])
    return parts[0] if len(parts) > 1 else ""


def _listed(root):
    """Files of a checkout that git tracks or would track; every file where there is no git."""
    try:
        top = subprocess.run(
            ["git", "-C", root, "rev-parse", "--show-toplevel"],
            capture_output=True, text=True, check=True,
        ).stdout.strip()
        if os.path.realpath(top) == os.path.realpath(root):
            out = subprocess.run(
                ["git", "-C", root, "ls-files", "-z", "-co", "--exclude-standard"],
                capture_output=True, check=True,
            ).stdout
            return sorted({p for p in out.decode("utf-8", "replace").split("\0") if p})
    except (OSError, subprocess.CalledProcessError):
        pass
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if f not in _SKIPPED_FOLDERS]
        found += [os.path.relpath(os.path.join(folder, f), root) for f in files]
    return sorted(found)


class Tree:
    """Every file of a checkout, by path."""

    def __init__(self, root):
        self.root = os.path.realpath(root)
        self.files = {}
        for path in _listed(self.root):
            full = os.path.join(self.root, path)
            if os.path.isfile(full) and not os.path.islink(full):
                self.files[path] = Source(self.root, path)

    def under(self, *prefixes, ends=(".c", ".h")):
        """Sources under these folders with these endings, in order of path."""
        return [
            s
            for p, s in self.files.items()
            if p.startswith(tuple(prefixes)) and p.endswith(tuple(ends))
        ]

    def resolve(self, source, include):
        """The path in the tree that an include of this source means, or None."""
        own_folder = os.path.normpath(os.path.join(os.path.dirname(source.path), include.path))
        for path in ("src/" + include.path, "include/" + include.path, "tests/" + include.path,
                     own_folder):
            if path in self.files:
                return path
        return None
