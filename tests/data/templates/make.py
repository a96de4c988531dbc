#!/usr/bin/env python3
"""Makes the goldens of this folder, and the case table of src/text.

    python3 make.py              writes cases.json: small templates of our own, rendered by Jinja2
    python3 make.py --case-table writes the C table of one-to-many case mappings to stdout

Needs Jinja2 3.1 or later. The environment is the one that model templates expect (immutable sandbox, trim_blocks,
lstrip_blocks, loop controls, a generation block that passes its body through, tojson as plain json.dumps,
raise_exception, strftime_now with the clock at NOW).
cases.json is one object: "variables", and "cases": [template, text] where Jinja renders, [template, null] where it
refuses, [template, null, message] where raise_exception did."""
import copy
import datetime
import itertools
import json
import pathlib
import sys
import warnings

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = datetime.datetime(2026, 11, 29, 12, 0, 0)
VARIABLES = {
    "text": "Hello, World", "empty": "", "uni": "Grüße ß İ ΟΔΟΣ. 日本", "blank": " \t x y \u00a0\u2003\n",
    "five": 5, "zero": 0, "neg": -7, "three": 3.0, "half": 2.5, "tiny": 1e-7, "vast": 1e16, "big": 9007199254740993,
    "huge": 123456789012345678901234567890, "yes": True, "no": False, "nil": None, "nums": [3, 1, 2],
    "words": ["b", "a", "C", "a"], "mixed": [3, "1", 1.5, True, None, "x y", [1, [2]], {"a": 1}],
    "map": {"a": 1, "b": "two", "items": [1, 2], "C": None, "get": {"x": 1}}, "none_map": {},
    "deep": {"x": {"y": {"z": [1, {"k": "v"}]}}}, "quote": "it's \"q\" \\ \n \u0000 \u001f \u007f é \u200b",
    "csv": "a,b,,c", "lines": "l1\nl2\r\n\nl4",
    "messages": [{"role": "user", "content": "hi <b>", "n": 2}, {"role": "assistant", "content": None, "n": 1},
                 {"role": "user", "content": [{"type": "text", "text": "p"}]}],
}


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals.update(raise_exception=raise_exception, strftime_now=lambda f: NOW.strftime(f))
    return env


def whitespace():
    """Every mark on both sides of every kind of tag, between every two kinds of text."""
    for before, after in itertools.product(["a", "a\n", "a\n  ", "  ", "a \t"], ["b", "\nb", "\n\n b", "  \n"]):
        for left, right in itertools.product(["", "-", "+"], ["", "-"]):
            yield before + "{%" + left + " if yes " + right + "%}" + after + "{% endif %}\n"
            yield before + "{#" + left + " c " + right + "#}" + after
            if left != "+":
                yield before + "{{" + left + " five " + right + "}}" + after
    for left, right in itertools.product(["", "-", "+"], ["", "-", "+"]):
        yield "x \n {%" + left + " raw %} {{ no }} {% no %} {%" + right + " endraw %}\n y"
        yield "x\r\n {%" + left + " if yes %}\r\n y \r {% endif " + right.replace("+", "") + "%}\r\n\n"


VALUES = ["text", "empty", "uni", "blank", "five", "zero", "neg", "three", "half", "tiny", "vast", "big", "huge", "yes",
          "nil", "nums", "words", "mixed", "map", "none_map", "deep", "quote", "csv", "lines", "messages", "missing",
          "(1, 'a')", "range(3)", "[]", "{1: 2, 'k': [true]}"]
FILTERS = """tojson|tojson(indent=4)|tojson(ensure_ascii=true)|tojson(separators=(',', ':'))|tojson(sort_keys=true)|trim|length
string|upper|lower|title|capitalize|list|first|last|sort|unique.list|reverse.list|join(', ')|default('D')|default('D', true)
replace('l', 'LL')|int|float|abs|round|sum|min|max|items.list|dictsort|indent(2, true)|map('upper').list
map(attribute='role').list|selectattr('role', 'equalto', 'user').list|rejectattr('n', 'defined').list|select('string').list
reject('in', [1, 2]).list|safe|escape|batch(2).list|slice(2).list|truncate(6)|center(16)|wordcount""".replace("\n", "|")
TESTS = """defined undefined none string number integer float boolean true false mapping iterable sequence callable odd even
divisibleby(2) in([1,'a']) eq(5) ne(5) gt(1) ge(5) lt(3) le(3) lower upper sameas(none)""".split()
METHODS = """upper() lower() title() capitalize() strip() lstrip() rstrip() strip('Hd') split() split(',') split('l',1)
rsplit(',',1) splitlines() startswith('H') endswith(('d','z')) replace('l','-') find('o') rfind('o') count('l') isdigit()
isalpha() isalnum() isspace() isupper() islower() join(words) items() keys() values() get('a') get('q','d') format(1)
append(1) pop() update({}) foo() partition(',') index(1)""".split()
INDEXES = ["0", "-1", "9", "'a'", "'items'", "1:", ":-1", "::-1", "::2", "1:3", "-9:", ":", "'zz'", "nil"]
EXPRESSIONS = r"""1 + 2 * 3|7 // 2|-7 // 2|-7 % 3|7 / 2|2 ** 10|2 ** -1|-2 ** 2|1 ~ 2 + '3'|'a' + 1|1 + none|[1] + [2]|'ab' * 3
1 < 2 < 3|1 < 3 < 2|1 == 1.0|1 == true|'' != false|not 1 in [1]|not nil is none|yes is not none|'a' 'b'|"\x41\u00e9\n\q\\"
(five if no)|five if no else 7|'x' if yes|five if no else six if yes else 3|[1, 2][1]|(1, 2)|(1,)|()|1, 2|{'a': {}}
missing|missing.x|missing + 1|missing ~ 'a'|missing is defined|missing == other|nil.x|nil.x.y|map.items|map['items']|map.get
text.0|messages.0.role|messages[-1].content[0].text|'%s-%5.2f|%03d' % ('a', 1.5, 7)|'{} {1} {k!r:>5}'.format(1, 2, k='v')
range(5, 0, -2)|list|range(1000000)|dict(a=1, b=[2])|namespace(a=1).a|1e400|0x1F + 0b11 + 1_000|3.0 * 2|9007199254740993 + 0
strftime_now('%Y-%m-%d %d %b %Y %B %A %H:%M:%S %j %y %p %U %%')|raise_exception('no: "' ~ text ~ '"')|'a' in 'abc'|'z' not in map
1 in nil|nums[nil]|nil|length|five|unknown|text is unknown|(five|unknown) if no else 1|loop|cycler|text.__class__|''.__class__.__mro__
yes and 'x'|no or 'y'|nil or [] or 0|[nums, {'k': quote}]|[1.0, 1e-05, 1e22, 123456.789, -0.0, 1e15, 1e16]|tojson
namespace|text.upper|'<' + ('<'|safe)|'<' ~ ('<'|safe)|('a' if yes) ~ ('b' if no)|[] == ()|{} == {}|[1,[2]] == [1,[2]]|nums|sort == [1,2,3]"""
STATEMENTS = r"""{% for x in nums %}{{ loop.index }}{{ loop.last }}{{ x }}{% else %}none{% endfor %}
{% for x in nums if x > 1 %}{{ loop.index }}/{{ loop.length }}:{{ x }}{{ ',' if not loop.last }}{% endfor %}
{% for x in [] %}x{% else %}none{% endfor %}{% for x in missing %}x{% else %}none{% endfor %}
{% for x in nil %}x{% endfor %}
{% for k, v in map.items() %}{{ k }}={{ v }};{% endfor %}{% for k, v in map|dictsort %}{{ k }};{% endfor %}
{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, b in [[1]] %}{% endfor %}
{% for x in nums %}{% continue %}{% else %}E{% endfor %}{% for x in nums %}{% break %}{% else %}E{% endfor %}
{% for x in nums %}{% if loop.last %}{% break %}{% endif %}{% else %}E{% endfor %}{{ (1, 2).copy() }}
{{ '4' > '2' }}{{ 'b' > 'a' }}{{ '4' >= '2' }}{{ '2' < '4' }}{{ ['4', '2', '8']|sort }}{{ '241'|list|sort(reverse=true) }}{{ '241'|max }}
{% for c in uni %}{{ c }}.{% endfor %}
{% for x in nums %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}
{% for x in nums %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% if x == 2 %}{% break %}{% endif %}{% endfor %}
{% for x in nums %}{% for y in words %}{{ loop.index }}{% if y == 'a' %}{% break %}{% endif %}{% endfor %}{{ loop.index }} {% endfor %}
{% for x in [[1, [2]], [3]] recursive %}<{{ loop(x) if x is iterable else x }}:{{ loop.depth }}>{% endfor %}
{% set x = 1 %}{% for i in nums %}{{ x }}{% set x = i %}{{ x }}{% endfor %}{{ x }}
{% set ns = namespace(n=0) %}{% for i in nums %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}
{% set map.a = 1 %}
{% if no %}{% set q = 1 %}{% endif %}{{ q is defined }}{% if yes %}{% set q = 2 %}{% endif %}{{ q }}
{% set x %}a{{ text }}b{% endset %}{{ x|length }}{% set y | upper | replace('A', 'o') %}aa{% endset %}{{ y }}
{% filter upper %}a{{ text }}{% filter trim %} b {% endfilter %}{% endfilter %}
{% macro f(a, b=2, c=a) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ f(1) }}{{ f(1, c=3) }}{{ f() }}{{ f(b='x', a='y') }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}
{% macro f(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, k=3) }}
{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}
{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}
{% macro f() %}({{ caller() }}{{ caller(2) }}){% endmacro %}{% call(x) f() %}{{ x }}!{{ text }}{% endcall %}
{% macro f(t) %}<{{ t }}>{{ caller() }}</{{ t }}>{% endmacro %}{% call f('a') %}{% call f('b') %}x{% endcall %}{% endcall %}
{% if yes %}{% macro g() %}g{{ z }}{% endmacro %}{% endif %}{% set z = 3 %}{{ g() }}
{% if no %}{% macro g() %}g{% endmacro %}{% endif %}{{ g() }}
{% with a = 1, b = five %}{{ a }}{{ b }}{% endwith %}{{ a }}
{% generation %}{% set w = 1 %}{{ w }}{% endgeneration %}{{ w }}
{% for i in range(3) %}{{ loop.cycle('a', 'b') }}{{ loop.changed(i // 2) }}{{ loop.revindex }}{{ loop.revindex0 }}{% endfor %}
{% if no %}{{ five|unknown }}{% endif %}ok
{% if yes %}{{ five|unknown }}{% endif %}
{% if no %}{% for x in nums %}{{ x|unknown }}{% endfor %}{% endif %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d) = [3, 4] %}{{ c }}{{ d }}
{{ '}}' }}{{ "%}" }}{{ {'a': {'b': '}}'}}['a'] }}{# {{ no }} #}
{% if yes %}{{ 1 }}
{% endif %}
{{ 1
{% for %}{% endfor %}
{% foo %}
{{ 'a }}
{{ }}
{{ [1, 2 }}
{{ 1 + }}
{% set 1 = 2 %}
{% break %}
{# never closed
{% include 'x' %}{% import 'y' as z %}"""


def cases():
    yield from whitespace()
    for v in VALUES:
        yield "{{ " + v + " }}"
        for f in FILTERS.split("|"):
            yield "{{ " + v + "|" + f.replace(".list", "|list") + " }}"
        for t in TESTS:
            yield "{{ " + v + " is " + t + " }}"
        for i in INDEXES:
            if v[0] == "{" and ":" in i:
                continue  # Jinja folds a slice of a constant mapping to nothing; of any other it is an error
            yield "{{ " + v + "[" + i + "] }}"
    for v in ["text", "uni", "csv", "blank", "map", "nums", "five"]:
        for m in METHODS:
            yield "{{ " + v + "." + m + " }}"
    for line in EXPRESSIONS.split("\n"):
        for part in line.split("|"):
            yield "{{ " + part + " }}"
        yield "{{ " + line.split("|")[-2] + "|" + line.split("|")[-1] + " }}"
    yield from STATEMENTS.split("\n")


def unstable(text):
    """Texts that hold an address or the name of a Python type."""
    return any(mark in text.lower() for mark in [" at 0x", "<class", "<function", "built-in method", "<generator"])


def make_cases():
    env = environment()
    rows = []
    for template in dict.fromkeys(cases()):
        try:
            text = env.from_string(template).render(**copy.deepcopy(VARIABLES))
            if not unstable(text):
                rows.append([template, text])
        except Exception as e:
            is_raised = type(e) is jinja2.exceptions.TemplateError
            rows.append([template, None, str(e)] if is_raised else [template, None])
    body = ",\n".join(json.dumps(r, ensure_ascii=False) for r in rows)
    target = pathlib.Path(__file__).resolve().parent / "cases.json"
    target.write_text('{"variables": ' + json.dumps(VARIABLES, ensure_ascii=False) + ',\n"cases": [\n' + body + "\n]}\n",
                      encoding="utf-8")
    print(len(rows), "cases,", sum(r[1] is None for r in rows), "of them refusals")


def case_table():
    def row(s):
        return "{" + ", ".join(f"0x{ord(c):04X}" for c in s.ljust(3, "\0")) + "}"

    for cp in itertools.chain(range(0xD800), range(0xE000, 0x110000)):
        upper, title = chr(cp).upper(), chr(cp).title()
        if len(upper) > 1 or len(title) > 1:
            print(f"    {{0x{cp:04X}, {row(upper)}, {row(title)}}},")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    case_table() if "--case-table" in sys.argv else make_cases()
