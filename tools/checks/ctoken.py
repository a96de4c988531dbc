# SPDX-License-Identifier: Apache-2.0
"""A small C tokenizer and what the rules need from it: function definitions and their bodies.

It knows comments, strings, numbers, names, operators and preprocessor lines, nothing of types or
scopes. A preprocessor line is one token, so that an unbalanced brace in a macro cannot shift the
depth of the code around it.
"""
import re
from typing import NamedTuple


class Token(NamedTuple):
    kind: str  # comment, text, number, name, punct or pp
    text: str
    line: int


class Function(NamedTuple):
    name: str
    line: int
    last_line: int
    is_static: bool
    params: list  # tokens between the parentheses
    body: list  # tokens between the braces


_PATTERN = re.compile(
    r"""
      (?P<comment> /\*.*?\*/ | //[^\n]* )
    | (?P<pp>      ^[ \t]*\#(?:[^\n\\/]|\\.|\\\n|/(?![/*])|/\*.*?\*/|//[^\n]*)* )
    | (?P<text>    (?:u8|[uUL])?"(?:[^"\\\n]|\\.)*" | [uUL]?'(?:[^'\\\n]|\\.)*' )
    | (?P<number>  \.?[0-9](?:[eEpP][+-]|[\w.])* )
    | (?P<name>    [A-Za-z_]\w* )
    | (?P<punct>   \.\.\.|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[^\s\w] )
    """,
    re.X | re.S | re.M,
)


def tokenize(text, first_line=1):
    """All tokens of a text; unknown bytes become one-character operators."""
    tokens = []
    line = first_line
    at = 0
    for match in _PATTERN.finditer(text):
        line += text.count("\n", at, match.start())
        at = match.start()
        tokens.append(Token(match.lastgroup, match.group(), line))
    return tokens


def code_of(tokens):
    """Tokens without comments."""
    return [t for t in tokens if t.kind != "comment"]


def macro_bodies(tokens):
    """The token lists of every #define's replacement text."""
    bodies = []
    for token in tokens:
        if token.kind != "pp":
            continue
        match = re.match(r"\s*#\s*define\s+\w+(?:\([^)]*\))?", token.text)
        if match:
            skipped = token.text.count("\n", 0, match.end())
            bodies.append(code_of(tokenize(token.text[match.end() :], token.line + skipped)))
    return bodies


def _matching_open(code, close_idx):
    """Index of the parenthesis that the one at close_idx closes, or None."""
    depth = 0
    for i in range(close_idx, -1, -1):
        if code[i].text == ")":
            depth += 1
        elif code[i].text == "(":
            depth -= 1
            if depth == 0:
                return i
    return None


def _matching_brace(code, open_idx):
    depth = 0
    for i in range(open_idx, len(code)):
        if code[i].text == "{":
            depth += 1
        elif code[i].text == "}":
            depth -= 1
            if depth == 0:
                return i
    return len(code) - 1


def _function_at(code, brace_idx):
    """The function whose body opens at brace_idx, or None for any other block."""
    close = brace_idx - 1
    while close >= 0 and code[close].text == ")":
        opening = _matching_open(code, close)
        if opening is None or opening == 0:
            return None
        name = code[opening - 1]
        if name.text in ("__attribute__", "__asm__"):
            close = opening - 2
            continue
        if name.kind != "name":
            return None
        is_static = False
        for token in reversed(code[: opening - 1]):
            if token.text in (";", "}") or token.kind == "pp":
                break
            is_static = is_static or token.text == "static" or bool(
                re.fullmatch(r"[A-Z0-9_]*(INLINE|STATIC)", token.text))
        end = _matching_brace(code, brace_idx)
        return Function(
            name.text,
            name.line,
            code[end].line,
            is_static,
            code[opening + 1 : close],
            code[brace_idx + 1 : end],
        )
    return None


def split_top(code):
    """(functions, rest): every function definition, and the file-scope tokens around them.

    Inside `rest` a block that is no function (a struct, an initializer) is the one token `{}`.
    """
    functions = []
    rest = []
    i = 0
    while i < len(code):
        token = code[i]
        if token.text != "{" or token.kind != "punct":
            rest.append(token)
            i += 1
            continue
        if i > 0 and code[i - 1].kind == "text":  # extern "C" {
            i += 1
            continue
        function = _function_at(code, i)
        end = _matching_brace(code, i)
        if function is not None:
            functions.append(function)
            rest.append(Token("punct", "fn{}", token.line))
        else:
            rest.append(Token("punct", "{}", token.line))
        i = end + 1
    return functions, rest
