# SPDX-License-Identifier: Apache-2.0
"""No raw arithmetic on numbers that came from outside, and no abort on them.

Which files: everything under src/formats, the JSON reader, and each file that says
`tdm:outside-numbers` in its opening comment.

What is refused there: a binary `*`, `+` or `<<` (or its `=` form) with an operand of a wide integer
type (size_t, uint16_t and up, int64_t) that may come from outside. May come from outside: a
parameter; a member of a struct; what a pointer to such numbers points at; what a call reads (its name holds u16, u32, le64, ...) or fills in
through `&x`; and a local that is assigned from one of those. So a local that only ever sees
constants and other such locals is free, and so is the counter of a `for`.
What is not looked at: constants and sizeof; arithmetic on doubles, also after a cast to double or
float; sums that a mask or a remainder follows, `(at + 1) & mask`; the old size of a block that is
freed or resized, which was checked when it was allocated; indexing, `&p[n]`.

A sum that provably cannot overflow carries the proof beside it: `/* bounded: both are u32 */`.
"""
import re

from .rule import Rule

_WIDE = {
    "size_t", "ssize_t", "ptrdiff_t", "off_t", "uintptr_t", "uint16_t", "uint32_t", "uint64_t",
    "int64_t", "uintmax_t", "intmax_t", "long", "unsigned",
}
_READS = re.compile(r"(^|_)(u|i|le|be)(16|32|64)(_|$)")
_OPERATORS = {"*", "+", "<<", "*=", "+=", "<<="}
_MARK = "tdm:outside-numbers"
_ALWAYS = ("src/formats/", "src/base/json.c", "src/base/json_sax.c")
_AFTER_OPERAND = {"name", "number", "text"}
_FLOATS = {"double", "float"}
_KEYWORDS = {"return", "case", "else", "do", "goto", "sizeof"}
_TYPE_WORDS = {
    "const", "volatile", "char", "short", "int", "void", "bool", "float", "double", "struct",
    "union", "enum", "signed", "static", "register", "inline",
}


def outside_files(tree):
    """Sources that hold numbers from outside."""
    found = []
    for source in tree.under("src/"):
        if source.path.startswith(_ALWAYS) or _MARK in source.text[:4000]:
            found.append(source)
    return found


def _wide_names(code):
    """Names declared with a wide type: `size_t a, b = 1, c[4], *d;` gives a, b, c and `*d`."""
    names = set()
    for i, token in enumerate(code):
        if token.kind != "name" or token.text not in _WIDE:
            continue
        j = i + 1
        while j < len(code) and code[j].text in _WIDE | {"const", "int"}:
            j += 1
        depth = 0
        is_pointer = False
        expects_name = True
        while j < len(code):
            text = code[j].text
            if text in "([{":
                depth += 1
            elif text in ")]}":
                depth -= 1
                if depth < 0:
                    break
            elif depth == 0:
                if text == ";":
                    break
                if text == ",":
                    # In a parameter list the next word starts another type.
                    nxt = code[j + 1] if j + 1 < len(code) else None
                    after = code[j + 2] if j + 2 < len(code) else None
                    if nxt is None or nxt.text in _WIDE | _TYPE_WORDS or (
                            after is not None and nxt.kind == "name" and
                            (after.kind == "name" or after.text == "*")):
                        break
                    is_pointer = False
                    expects_name = True
                elif text == "*" and expects_name:
                    is_pointer = True
                elif code[j].kind == "name" and expects_name:
                    names.add("*" + text if is_pointer else text)
                    expects_name = False
                elif expects_name:
                    break  # a cast or sizeof, no declaration
            j += 1
    return names


def _for_counters(body):
    """Names declared in the head of a `for` that counts up by one under a bound."""
    names = set()
    for i, token in enumerate(body):
        if token.text == "for" and i + 2 < len(body) and body[i + 1].text == "(":
            j = i + 2
            while j < len(body) and body[j].text not in (";", "="):
                j += 1
            if j < len(body) and body[j].text == "=" and body[j - 2].kind == "name":
                names.add(body[j - 1].text)
    return names


def _assigned(body, i):
    """The tokens of the expression that the assignment at i stores."""
    depth = 0
    j = i + 1
    while j < len(body):
        text = body[j].text
        if text in ("(", "[", "{"):
            depth += 1
        elif text in (")", "]", "}"):
            depth -= 1
        if depth < 0 or depth == 0 and text in (";", ","):
            break
        j += 1
    return body[i + 1:j]


def _outside_locals(function, wide, members):
    """Names of a function's variables that may hold a number from outside."""
    body = function.body
    outside = {n.lstrip("*") for n in _wide_names(function.params)}
    stores = []
    for i, token in enumerate(body):
        if token.kind != "name" or i == 0 or i + 1 >= len(body):
            continue
        if body[i - 1].text == "&" and i > 1 and body[i - 2].text in ("(", ","):
            outside.add(token.text)
        elif body[i + 1].text in ("=", "+=", "*=", "<<=", "|=") and body[i - 1].text not in (
                ".", "->"):
            stores.append((token.text, _assigned(body, i + 1)))
    outside -= _for_counters(body)
    changed = True
    while changed:
        changed = False
        for name, value in stores:
            if name not in outside and _mentions_outside(
                    value, outside, wide, members):
                outside.add(name)
                changed = True
    return outside - _for_counters(body)


def _mentions_outside(value, outside, wide, members):
    for k, token in enumerate(value):
        if token.kind != "name":
            continue
        is_reached = k + 1 < len(value) and value[k + 1].text == "[" \
            or k > 0 and value[k - 1].text == "*"
        if is_reached and "*" + token.text in wide:
            return True
        is_member = k > 0 and value[k - 1].text in (".", "->")
        is_call = k + 1 < len(value) and value[k + 1].text == "("
        if is_member and (token.text in members or "*" + token.text in members):
            return True
        if not is_member and token.text in outside or is_call and _READS.search(token.text):
            return True
    return False


def _back(code, i):
    """First index of the operand that ends at i: `a->b[k]` and `f(x)` count as one."""
    while i >= 0:
        text = code[i].text
        if text in (")", "]"):
            depth = 0
            while i >= 0:
                if code[i].text in (")", "]"):
                    depth += 1
                elif code[i].text in ("(", "["):
                    depth -= 1
                    if depth == 0:
                        break
                i -= 1
            if i > 0 and (code[i - 1].kind == "name" and code[i - 1].text not in _KEYWORDS
                          or code[i - 1].text in (")", "]")):
                i -= 1
                continue
            return i
        if i > 0 and code[i - 1].text in (".", "->"):
            i -= 2
            continue
        return i
    return 0


def _forward(code, i):
    """(first, last) of the operand that starts at i; casts and unary signs are stepped over."""
    first = i
    while i < len(code) and code[i].text in ("-", "~", "!", "&", "*", "(", "++", "--"):
        if code[i].text == "(":
            inner = []
            j = i + 1
            while j < len(code) and code[j].text != ")":
                inner.append(code[j].text)
                j += 1
            is_cast = j + 1 < len(code) and inner and all(
                w in _WIDE | _TYPE_WORDS or w == "*" or w.endswith("_t") for w in inner)
            if not is_cast:
                return first, i
            if _FLOATS & set(inner):
                return first, first
            i = j + 1
        else:
            i += 1
    last = i
    while last + 1 < len(code):
        text = code[last + 1].text
        if text in (".", "->") and last + 2 < len(code):
            last += 2
        elif text in ("(", "["):
            depth = 0
            j = last + 1
            while j < len(code):
                if code[j].text in ("(", "["):
                    depth += 1
                elif code[j].text in (")", "]"):
                    depth -= 1
                    if depth == 0:
                        break
                j += 1
            last = j
        else:
            break
    return first, min(last, len(code) - 1)


def _root_name(operand):
    """The last member name of `a->b.c[k]`, the function of `f(x)`; None for anything else."""
    depth = 0
    name = None
    for token in operand:
        if token.text in ("(", "["):
            depth += 1
        elif token.text in (")", "]"):
            depth -= 1
        elif depth == 0 and token.kind == "name":
            name = token.text
    return name


def _is_float_cast(code, start):
    """The operand that starts at `start` stands after `(double)` or `(float)`."""
    return start >= 3 and code[start - 1].text == ")" and code[start - 2].text in _FLOATS


def _is_member(operand):
    return any(t.text in (".", "->") for t in operand)


def _outside_operand(operand, names, code, start):
    """The name that makes this operand a number from outside, or None."""
    wide, members, outside = names
    if not operand or operand[0].text == "sizeof" or _is_float_cast(code, start):
        return None
    name = _root_name(operand)
    if name is None or name in _FLOATS or name.isupper():
        return None
    if operand[-1].text == ")" and len(operand) > 1:
        return name if _READS.search(name) else None
    is_reached = operand[-1].text == "]" or operand[0].text == "*" or (
        start >= 2 and code[start - 1].text == "*" and code[start - 2].kind == "punct"
        and code[start - 2].text not in (")", "]"))
    declared = members if _is_member(operand) else wide
    if is_reached and "*" + name in declared:
        return name
    return name if name in declared and (_is_member(operand) or name in outside) else None


def _enclosing(code, i):
    """(function called, argument index, whether a mask follows) of the parentheses around i."""
    depth = 0
    argument = 0
    for j in range(i - 1, -1, -1):
        text = code[j].text
        if text in (")", "]"):
            depth += 1
        elif text in ("(", "["):
            depth -= 1
            if depth < 0:
                break
        elif text == "," and depth == 0:
            argument += 1
        elif text in (";", "{", "}") and depth == 0:
            return None, 0, False
    else:
        return None, 0, False
    depth = 0
    for k in range(j, len(code)):
        if code[k].text in ("(", "["):
            depth += 1
        elif code[k].text in (")", "]"):
            depth -= 1
            if depth == 0:
                break
    is_masked = k + 1 < len(code) and code[k + 1].text in ("&", "%")
    called = code[j - 1].text if j > 0 and code[j - 1].kind == "name" else None
    return called, argument, is_masked


def _is_lifted(code, i):
    called, argument, is_masked = _enclosing(code, i)
    if called is None and is_masked:
        return True
    if called in ("tdm_mem_free", "tdm_mem_free_aligned"):
        return True
    return called == "tdm_mem_resize" and argument == 2


def _is_binary(code, i):
    before = code[i - 1]
    if before.kind in _AFTER_OPERAND:
        return before.text not in _KEYWORDS | _TYPE_WORDS | _WIDE \
            and not before.text.endswith("_t")
    return before.text in (")", "]", "++", "--")


def _is_cast(operand):
    inner = [t.text for t in operand[1:-1]]
    return bool(operand) and operand[0].text == "(" and bool(inner) and all(
        w in _WIDE | _TYPE_WORDS or w == "*" or w.endswith("_t") for w in inner)


def _scan(source, code, names):
    for i, token in enumerate(code):
        if token.kind != "punct" or token.text not in _OPERATORS or i == 0 or i + 1 >= len(code):
            continue
        if not _is_binary(code, i):
            continue
        left_at = _back(code, i - 1)
        left = code[left_at:i]
        if _is_cast(left) or _is_float_cast(code, left_at):
            continue  # `(size_t)*p` reads through a pointer
        right_at, right_last = _forward(code, i + 1)
        right = code[right_at:right_last + 1]
        if len(right) == 1 and right[0].text == "(":
            continue  # a cast to double
        name = _outside_operand(left, names, code, left_at) or _outside_operand(
            right, names, code, right_at)
        if name is None or _is_lifted(code, i) or source.has_mark(token.line, "bounded"):
            continue
        yield source.path, token.line, "raw %s on %s, a number that may come from outside" % (
            token.text, name)


def check_raw(tree):
    members = set()
    for header in tree.under("src/", ends=(".h",)):
        members |= _struct_names(header)
    for source in outside_files(tree):
        all_members = members | _struct_names(source)
        for function in source.top[0]:
            wide = _wide_names(function.params) | _wide_names(function.body)
            outside = _outside_locals(function, wide, all_members)
            yield from _scan(source, function.body, (wide, all_members, outside))


def _struct_names(source):
    """Wide members of every struct in a file: the code outside functions, blocks included."""
    inside = set()
    for function in source.top[0]:
        inside.update(id(t) for t in function.body)
        inside.update(id(t) for t in function.params)
    return _wide_names([t for t in source.code if id(t) not in inside])


def check_abort(tree):
    for source in outside_files(tree):
        for token in source.code:
            if token.text in ("TDM_CHECK", "tdm_check_failed"):
                yield source.path, token.line, "%s in a file that parses bytes from outside" % (
                    token.text)


RULES = [
    Rule("raw-arith", "Files that read numbers from outside use checked arithmetic.",
         "tdm_add_size, tdm_mul_size, tdm_pad_size, tdm_range_is_inside (base/arith.h), or the "
         "proof on the same line: /* bounded: why it cannot overflow */", check_raw),
    Rule("outside-abort", "Bytes from outside never reach TDM_CHECK.",
         "return tdm_fail with TDM_E_FORMAT or TDM_E_LIMIT, saying file and offset", check_abort),
]
