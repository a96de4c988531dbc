# SPDX-License-Identifier: Apache-2.0
"""Who may include whom: floors, private headers, circles, and the form of an include line."""
import os

from .rule import Rule, cycles
from .tree import FLOORS, room_of

_BACKEND_DOOR = "src/cli/boot.c"


def check_rooms(tree):
    for source in tree.under("src/", ends=(".c", ".h", ".cu")):
        if source.room not in FLOORS:
            yield source.path, 1, "src/%s is no room of the design" % source.room


def check_floors(tree):
    for source in tree.under("src/", ends=(".c", ".h", ".cu")):
        if source.room not in FLOORS:
            continue
        floor = FLOORS[source.room]
        for include in source.includes:
            room = room_of("src/" + include.path)
            if include.is_system or room not in FLOORS or room == source.room:
                continue
            if FLOORS[room] >= floor:
                yield (source.path, include.line, '"%s" is on floor %d, this file is on floor %d'
                       % (include.path, FLOORS[room], floor))


def check_public_header(tree):
    for source in tree.under("include/"):
        for include in source.includes:
            if not include.is_system and not include.path.startswith("tandem/"):
                yield source.path, include.line, 'a public header includes "%s"' % include.path
    for source in tree.under("examples/"):
        for include in source.includes:
            path = include.path
            if path in tree.files or path.startswith("tandem/") and path != "tandem/tandem.h" \
                    or tree.resolve(source, include) not in (None, "include/tandem/tandem.h"):
                yield source.path, include.line, "an example reaches inside: %s" % path


def check_backend_door(tree):
    for source in tree.under("src/"):
        for include in source.includes:
            if (include.path.startswith("backend/") and not (source.room or "").startswith("backend/")
                    and source.path != _BACKEND_DOOR):
                yield source.path, include.line, '"%s" names a backend' % include.path


def check_private(tree):
    for source in tree.under("src/", ends=(".c", ".h", ".cu")):
        for include in source.includes:
            stem = os.path.splitext(include.path)[0]
            if stem.endswith(("_priv", "_inl", "_tmpl")) \
                    and room_of("src/" + include.path) != source.room:
                yield source.path, include.line, '"%s" is private to its room' % include.path


def check_form(tree):
    for source in tree.under("src/", "include/", "tests/", "examples/", "bench/",
                             ends=(".c", ".h", ".cu")):
        for include in source.includes:
            if include.is_system:
                if "src/" + include.path in tree.files:
                    yield source.path, include.line, "<%s> is our own header" % include.path
            elif include.path.endswith(".c") and not include.path.endswith("_tmpl.c"):
                yield source.path, include.line, '"%s" is a source file' % include.path
            elif source.path.startswith("src/") and "src/" + include.path not in tree.files \
                    and "include/" + include.path not in tree.files:
                yield (source.path, include.line, '"%s" is not found from the one root, src/'
                       % include.path)


def check_circles(tree):
    headers = tree.under("src/", "include/", "tests/")
    graph = {}
    for source in headers:
        targets = (tree.resolve(source, i) for i in source.includes if not i.is_system)
        graph[source.path] = {t for t in targets if t is not None and t.endswith(".h")}
    for component in cycles({p: t for p, t in graph.items() if p.endswith(".h")}):
        yield component[0], 1, "circle of includes: " + " -> ".join(component + component[:1])


RULES = [
    Rule("room", "Every source under src/ stands in a room of the design.",
         "move it into the room that owns the idea; a new room is a change of the design and of "
         "FLOORS in tools/checks/tree.py", check_rooms),
    Rule("floor", "A file includes its own room or strictly lower floors.",
         "move the shared type one floor down (often into src/contract), or turn the call into an "
         "entry of a function table that the upper room fills", check_floors),
    Rule("public-header", "include/tandem and examples/ see nothing from inside.",
         "declare what an embedder needs in include/tandem/tandem.h; keep the rest in src/",
         check_public_header),
    Rule("backend-door", "Only src/cli/boot.c names a backend.",
         "take the table of contract/backend.h as a parameter", check_backend_door),
    Rule("private", "*_priv.h, *_inl.h and *_tmpl.* are seen only inside their room.",
         "ask the room for a public call, or move the declaration into its public header",
         check_private),
    Rule("include-form", 'Own headers are included as "room/file.h" from src/, never a .c.',
         'write the path from src/ in quotes; split what two sources share into a header or a '
         "*_tmpl.c", check_form),
    Rule("include-circle", "Headers do not include each other in a circle.",
         "a circular need means a missing header one floor down: move the shared types there",
         check_circles),
]
