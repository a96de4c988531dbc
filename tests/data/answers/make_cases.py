#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes roundtrip.json beside this file: assistant messages as their own templates render them.

    python3 make_cases.py TEMPLATES     the folder of templates with render.py and conversations.json

For each template and each assistant message with tool calls or a thought, the conversation is rendered up to the message
(with the generation prompt) and with it; what the second has more is the answer. Where a template cannot take a message as
it stands (arguments as an object, content that is null), the message is given in the form that it takes. Left out: messages
that a template does not show, and renderings from which the message cannot be told (listed in the output)."""
import copy
import json
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(folder))
import render as R  # noqa: E402

ENDS = ["<|im_end|>", "<|eot_id|>", "<|eot|>", "<|end_of_text|>", "</s>", "<|END_OF_TURN_TOKEN|>", "<end_of_sentence>",
        "<turn|>", "<seed:eos>", "<｜end▁of▁sentence｜>", "<|return|>", "<|observation|>", "<|START_OF_TURN_TOKEN|>", "<|assistant_end|>", "<|call|>"]
# Rendered so that nothing can tell the message from it.
HOPELESS = {
    "llama-4-pythonic-tools": "values of all types between quotes that are not escaped",
}
TEXT_OF_VALUES = {"qwen3-coder-30b", "seed-oss", "nemotron-3-nano-30b", "qwen3.5-4b", "glm-4.6", "glm-5.2"}


def forms(message, template):
    """The message as it stands, then with its arguments as text."""
    m = copy.deepcopy(message)
    if m.get("content") is None:
        m["content"] = ""
    for i, call in enumerate(m.get("tool_calls", [])):
        if "kimi" in template:
            call["id"] = "functions.%s:%d" % (call["function"]["name"], i)
        if isinstance(call["function"]["arguments"], str) and template in TEXT_OF_VALUES | {"minicpm3-4b", "gemma-4-31b-it"}:
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    if "reasoning_content" in m and "thinking" not in m:
        m["thinking"] = m["thought"] = m["reasoning_content"]
    yield m
    t = copy.deepcopy(m)
    for call in t.get("tool_calls", []):
        if not isinstance(call["function"]["arguments"], str):
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"], ensure_ascii=False)
    yield t
    t = copy.deepcopy(t)
    for call in t.get("tool_calls", []):
        call["type"] = "function"
    t.pop("thinking", None)
    yield t
    t = copy.deepcopy(m)
    t["content"] = t["content"] or ""
    t.pop("thinking", None)
    yield t


def with_tools(case):
    """The case, told of every function that it calls."""
    case = copy.deepcopy(case)
    tools = case.setdefault("tools", [])
    known = {t["function"]["name"] for t in tools if "function" in t}
    for m in case["messages"]:
        for call in m.get("tool_calls") or []:
            f = call["function"]
            if f["name"] not in known:
                known.add(f["name"])
                args = f["arguments"] if isinstance(f["arguments"], dict) else json.loads(f["arguments"])
                kinds = {str: "string", bool: "boolean", int: "integer", float: "number", list: "array", dict: "object",
                         type(None): "null"}
                tools.append({"type": "function", "function": {
                    "name": f["name"], "description": "Notes.",
                    "parameters": {"type": "object", "properties": {
                        k: {"type": kinds[type(v)], "description": "d"} for k, v in args.items()}, "required": []}}})
    for t in tools:
        f = t.get("function", t)
        for p in f.get("parameters", {}).get("properties", {}).values():
            if p.get("type") == "object":
                p.setdefault("additionalProperties", {"type": "string"})
    return case


def one(env_template, source, template, variables, case, k, kwargs):
    for message in forms(case["messages"][k], template):
        before = []
        for m in case["messages"][:k]:
            m = next(iter(forms(m, template)))
            before.append(m)
        for b in (before, [next(x for i, x in enumerate(forms(m, template)) if i == 1) for m in before]):
            try:
                prompt = R.render(env_template, case, variables, dict(kwargs, add_generation_prompt=True), b)
                full = R.render(env_template, case, variables, dict(kwargs, add_generation_prompt=False), b + [message])
            except Exception as e:
                error = str(e)
                continue
            return prompt, full, message
    return error


def main():
    env = R.make_environment(with_from_json=True)
    variables = json.loads((folder / "variables.json").read_text())
    cases = json.loads((folder / "conversations.json").read_text())["cases"]
    out = []
    known = set()
    tool_sets = {}
    for path in sorted(folder.glob("*.jinja")):
        name = path.stem
        source = path.read_text()
        tmpl = env.from_string(source)
        for case in cases:
            if case["name"].startswith("continue"):
                continue
            told = with_tools(case)
            for k, m in enumerate(case["messages"]):
                if m.get("role") != "assistant" or not (m.get("tool_calls") or m.get("reasoning_content")):
                    continue
                if not isinstance(m.get("content") or "", str):
                    continue
                for kwargs in ({}, {"enable_thinking": True}, {"thinking": True}):
                    if kwargs and next(iter(kwargs)) not in source:
                        continue
                    got = one(tmpl, source, name, variables[name], told, k, kwargs)
                    if isinstance(got, str):
                        continue
                    prompt, full, message = got
                    n = 0
                    while n < min(len(prompt), len(full)) and prompt[n] == full[n]:
                        n += 1
                    if n < len(prompt):  # not in the middle of a token, nor in front of the speaker's
                        at = full.rfind("<", 0, n)
                        n = at if at >= 0 and ">" not in full[at:n] else n
                        for head in ("<|START_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>", "</think>"):
                            n += len(head) if full.startswith(head, n) else 0
                    answer = full[n:]
                    for end in ENDS:
                        at = answer.find(end)
                        answer = answer if at < 0 else answer[:at]
                    calls = []
                    for call in message.get("tool_calls") or []:
                        f = call["function"]
                        a = f["arguments"]
                        calls.append({"name": f["name"], "arguments": json.loads(a) if isinstance(a, str) else a})
                    shown = [c for c in calls if c["name"] in answer]
                    if len(shown) < len(calls):
                        if "gpt-oss" not in name or not shown:
                            continue  # not shown by this template
                        calls = calls[:1]
                    reasoning = (message.get("reasoning_content") or message.get("thinking") or message.get("thought") or "").strip()
                    if reasoning not in answer:
                        reasoning = ""
                    content = (message.get("content") or "").strip()
                    if "gpt-oss" in name and calls and content:
                        reasoning, content = content, ""  # the template makes it analysis
                    if content not in answer:
                        content = ""
                    if not calls and not reasoning:
                        continue
                    record = {"template": name, "conversation": case["name"], "message": k, "kwargs": kwargs,
                              "prompt_tail": full[:n][-120:], "answer": answer, "tools": tool_sets.setdefault(json.dumps(told["tools"], ensure_ascii=False), len(tool_sets)),
                              "content": content, "reasoning": reasoning, "calls": calls}
                    if name in HOPELESS and any(not isinstance(v, str) for c in calls for v in c["arguments"].values()):
                        record["hopeless"] = HOPELESS[name]
                    if name in HOPELESS and any('"' in v for c in calls for v in c["arguments"].values() if isinstance(v, str)):
                        record["hopeless"] = HOPELESS[name]
                    key = (name, record["prompt_tail"], answer)
                    if key not in known:
                        known.add(key)
                        out.append(record)
    target = pathlib.Path(__file__).with_name("roundtrip.json")
    lines = ",\n".join(json.dumps(r, ensure_ascii=False) for r in out)
    target.write_text('{"tools": [\n' + ",\n".join(tool_sets) + '\n], "cases": [\n' + lines + "\n]}\n")
    seen = {}
    for r in out:
        seen.setdefault(r["template"], []).append(r["conversation"])
    for path in sorted(folder.glob("*.jinja")):
        print("%-40s %d" % (path.stem, len(seen.get(path.stem, []))))


main()
