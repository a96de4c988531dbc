#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes corpus/fuzz_answer: one answer a dialect and more, every mark between « and » a special token."""
import pathlib

ORDER = ("hermes minimax nemotron granite3 apertus command-r7b command-r firefunction phi4-mini llama3-json llama4-json "
         "plain-think plain qwen3-coder seed-oss minimax-m2 deepseek-v3.2 glm deepseek-v3 kimi-k2 mistral functionary glm4 "
         "gemma4 harmony lfm2 minicpm3 gemma3 llama-pythonic").split()
ARGS = '{"s": "a \\"b\\" \\u00e9\\ud83d\\ude00", "n": -1.5e3, "a": [1, {}, null], "u": true}'
TEXTS = [
    ("hermes", '<think>\nso `</think>` is\n```\n</think>\n```\n</think>\n\nLook:\n<tool_call>\n{"name": "f", "arguments": %s}\n</tool_call>\n<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>' % ARGS),
    ("hermes", '<tool_call>{"name": "f", "arguments": "{\\"s\\": \\"x\\"}", "id": "q"}</tool_call> tail'),
    ("hermes", "<tool_call>{'name': 'f', 'arguments': {'s': 'it\\'s', 'n': .5, 'u': True,}}</tool_cal"),
    ("minimax", '<tool_calls>\n{"name": "f", "arguments": %s}\n{"name": "g", "arguments": {}}\n</tool_calls>' % ARGS),
    ("nemotron", '<TOOLCALL>[{"name": "f", "arguments": %s}, {"name": "g"}]</TOOLCALL>' % ARGS),
    ("granite3", '<think>a</think><response>«<|tool_call|>»[{"name": "f", "arguments": %s}]' % ARGS),
    ("apertus", '«<|inner_prefix|>»hm«<|inner_suffix|>»ok«<|tools_prefix|>»[{"f": %s}, {"g": {}}]«<|tools_suffix|>»' % ARGS),
    ("command-r7b", '«<|START_THINKING|>»p«<|END_THINKING|>»«<|START_ACTION|>»[\n {"tool_call_id": "0", "tool_name": "f", "parameters": %s}\n]«<|END_ACTION|>»' % ARGS),
    ("command-r7b", '«<|START_RESPONSE|>»Hello.«<|END_RESPONSE|>»'),
    ("command-r", 'Action:\n```json\n[\n {"tool_name": "f", "parameters": {"n": 1}}\n]```\n'),
    ("firefunction", 'Sure. functools[{"name": "f", "arguments": {"n": 1}}]'),
    ("phi4-mini", '«<|tool_call|>»[{"name": "f", "arguments": {"n": 1}}]«<|/tool_call|>»functools[{"name": "f"}]'),
    ("llama3-json", '{"name": "f", "parameters": {"n": 1}}; {"name": "f", "parameters": {}}'),
    ("llama3-json", '«<|python_tag|>»f.call(s="x", n=2)'),
    ("llama3-json", '[f(s="x"), f(a=[1, (2, 3)])]'),
    ("llama4-json", '«<|python_start|>»Hm.«<|python_end|>»{"name": "f", "parameters": {"n": 1}}'),
    ("plain-think", '<think>a "</think>" b</think> c'),
    ("plain", 'nothing <think> here'),
    ("qwen3-coder", 'a\n\n<tool_call>\n<function=f>\n<parameter=s>\n5\n</parameter>\n<parameter=n>\n5\n</parameter>\n<parameter=a>\n[1, \'x\', None]\n</parameter>\n</function>\n</tool_call>'),
    ("qwen3-coder", '<function=f>\n<parameter=s>\n\n</parameter></function>'),
    ("seed-oss", '<seed:think>x</seed:think>\n<seed:tool_call>\n<function=f>\n<parameter=u>True</parameter>\n</function>\n</seed:tool_call>'),
    ("minimax-m2", '<minimax:tool_call>\n<invoke name="f">\n<parameter name="s">x</parameter>\n</invoke>\n</minimax:tool_call>'),
    ("deepseek-v3.2", '\n\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="s" string="true">x</｜DSML｜parameter>\n<｜DSML｜parameter name="n" string="false">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>'),
    ("glm", '<think></think>\n<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>x</arg_value>\n</tool_call><tool_call>g</tool_call>'),
    ("deepseek-v3", '<think>q</think>«<｜tool▁calls▁begin｜>»«<｜tool▁call▁begin｜>»function«<｜tool▁sep｜>»f\n```json\n{"n": 1}\n```«<｜tool▁call▁end｜>»\n«<｜tool▁call▁begin｜>»g«<｜tool▁sep｜>»{}«<｜tool▁call▁end｜>»«<｜tool▁calls▁end｜>»'),
    ("kimi-k2", '«<|tool_calls_section_begin|>»«<|tool_call_begin|>»functions.f:0«<|tool_call_argument_begin|>»{"n": 1}«<|tool_call_end|>»«<|tool_calls_section_end|>»'),
    ("mistral", '«[THINK]»a«[/THINK]»b«[TOOL_CALLS]»f«[CALL_ID]»abcdefghi«[ARGS]»{"n": 1}«[TOOL_CALLS]»f{"n": 2}'),
    ("mistral", '«[TOOL_CALLS]» [{"name": "f", "arguments": {"n": 1}, "id": "abcdefghi"}]'),
    ("functionary", 'all\nHello.>>>f\n{"n": 1}>>>f\n{}'),
    ("glm4", 'f\n{"n": 1}'),
    ("gemma4", '«<|channel>»thought\nx\n«<channel|>»«<|tool_call>»call:f{s:«<|"|>»a "b" <|"|> c«<|"|>»,a:[1,{k:None}],n:2}«<tool_call|>»'),
    ("harmony", '«<|channel|>»analysis«<|message|>»hm«<|end|>»«<|start|>»assistant to=functions.f«<|channel|>»commentary json«<|message|>»{"n": 1}«<|call|>»'),
    ("harmony", '«<|channel|>»commentary to=functions.f «<|constrain|>»json«<|message|>»{"n": 1}«<|call|>»«<|start|>»assistant«<|channel|>»final«<|message|>»Yes.«<|return|>»'),
    ("lfm2", '«<|tool_call_start|>»[f(s="x", n=1), g()]«<|tool_call_end|>»ok'),
    ("minicpm3", '«<|thought_start|>»\nx\n«<|thought_end|>»\n«<|tool_call_start|>»\n```python\nf(s="x",n=1)\ng()\n```\n«<|tool_call_end|>»\nok'),
    ("gemma3", 'Sure.\n```tool_code\nf(s="x")\n```'),
    ("llama-pythonic", 'See [1] and [f(n="5", s="6")]'),
]
folder = pathlib.Path(__file__).with_name("corpus") / "fuzz_answer"
folder.mkdir(parents=True, exist_ok=True)
for i, (dialect, text) in enumerate(TEXTS):
    body = text.replace("«", "\x1d\x1e").replace("»", "\x1d").encode()
    for options in (1, 9):
        (folder / ("%s-%d-%d" % (dialect, i, options))).write_bytes(bytes([ORDER.index(dialect), options, i]) + body)
