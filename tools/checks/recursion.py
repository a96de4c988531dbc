# SPDX-License-Identifier: Apache-2.0
"""No recursion: input from outside must never choose the depth of the stack.

The call graph holds every function defined under src/. An edge is any mention of a function's name
inside another's body, so a callback that is passed counts as called. Static functions are known by
file, extern ones by name. Calls through tables are not seen; the tables' laws forbid calling back.
"""
from .rule import Rule, cycles


def _graph(sources):
    """({node: set of nodes}, {node: line}); a node is (path, name)."""
    extern = {}
    for source in sources:
        for function in source.top[0]:
            if not function.is_static:
                extern.setdefault(function.name, (source.path, function.name))
    graph = {}
    line_of = {}
    for source in sources:
        own = {f.name: (source.path, f.name) for f in source.top[0]}
        for function in source.top[0]:
            node = own[function.name]
            line_of[node] = function.line
            edges = graph.setdefault(node, set())
            shadowed = {t.text for t in function.params if t.kind == "name"}
            for i, token in enumerate(function.body):
                if token.kind != "name" or (i > 0 and function.body[i - 1].text in (".", "->")):
                    continue
                is_call = i + 1 < len(function.body) and function.body[i + 1].text == "("
                target = own.get(token.text) or extern.get(token.text)
                if target is not None and (is_call or token.text not in shadowed):
                    edges.add(target)
    return graph, line_of


def check(tree):
    sources = tree.under("src/", ends=(".c", ".h"))
    graph, line_of = _graph(sources)
    for component in cycles(graph):
        path, name = component[0]
        names = [n for _, n in component]
        if len(names) == 1:
            what = "%s calls itself" % name
        else:
            what = "a circle of calls: %s" % ", ".join(names)
        yield path, line_of[component[0]], what


RULES = [
    Rule("recursion", "No function under src/ reaches itself.",
         "an explicit stack with a stated depth limit, whose overflow is TDM_E_LIMIT", check),
]
