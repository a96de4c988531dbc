# SPDX-License-Identifier: Apache-2.0
"""What a rule is, and what it reports."""
from typing import Callable, NamedTuple


class Finding(NamedTuple):
    path: str
    line: int
    rule: str
    what: str
    instead: str

    def __str__(self):
        return "%s:%d: [%s] %s\n    instead: %s" % self


class Rule(NamedTuple):
    """check(tree) yields (path, line, what) or (path, line, what, instead)."""

    name: str
    law: str  # one sentence, printed by --list
    instead: str  # what to do in place of what was found
    check: Callable

    def run(self, tree):
        for found in self.check(tree):
            path, line, what = found[:3]
            instead = found[3] if len(found) > 3 else self.instead
            yield Finding(path, line, self.name, what, instead)


def cycles(graph):
    """Tarjan's strongly connected components of {node: iterable of nodes}, without recursion.

    Returns the components that hold a cycle, each as a sorted list.
    """
    index = {}
    low = {}
    on_stack = set()
    stack = []
    found = []
    for start in sorted(graph):
        if start in index:
            continue
        work = [(start, iter(sorted(graph.get(start, ()))))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on_stack.add(start)
        while work:
            node, edges = work[-1]
            for target in edges:
                if target not in graph:
                    continue
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(sorted(graph.get(target, ())))))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        component.append(member)
                        if member == node:
                            break
                    if len(component) > 1 or node in graph.get(node, ()):
                        found.append(sorted(component))
    return found
