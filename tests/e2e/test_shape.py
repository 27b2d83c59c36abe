#!/usr/bin/env python3
"""Answers in a given shape, with the embedded model at temperature 1.5: JSON
that validates, patterns, choices, grammars, calls of tools; streamed and whole,
alone and sixteen at once, with reasoning in front and without."""
import json
import os
import re
import signal
import sys

sys.path.insert(0, os.path.dirname(__file__))
from e2e import check, done, test  # noqa: E402
import serving  # noqa: E402
from judge import valid  # noqa: E402
from serving import Server  # noqa: E402

serving.LIMIT_S = 280  # sixteen answers at once, perhaps on a busy machine

C, P = "/v1/chat/completions", "/v1/completions"
S = None
HOT = {"temperature": 1.5, "top_p": 1, "top_k": 0}
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "mail": {"type": "string", "pattern": "^[a-z]{2,8}@[a-z]{2,8}\\.de$"},
        "tags": {"type": "array", "minItems": 1, "maxItems": 3,
                 "items": {"enum": ["a", "b\n", 3, None]}},
        "size": {"anyOf": [{"type": "number", "minimum": 0.5, "maximum": 2},
                           {"type": "null"}]},
        "next": {"$ref": "#/$defs/next"},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
    "$defs": {"next": {"type": "object",
                       "properties": {"ok": {"type": "boolean"}},
                       "required": ["ok"], "additionalProperties": False}},
}
TOOLS = [
    {"type": "function", "function": {
        "name": "weather", "parameters": {
            "type": "object", "required": ["city"], "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer", "minimum": 1, "maximum": 14},
                "unit": {"enum": ["C", "F"]}}}}},
    {"type": "function", "function": {
        "name": "search", "parameters": {
            "type": "object", "required": ["query", "deep"], "properties": {
                "query": {"type": "string", "maxLength": 20},
                "deep": {"type": "boolean"},
                "in": {"type": "array", "maxItems": 2,
                       "items": {"type": "string", "maxLength": 5}}}}}},
    {"type": "function", "function": {"name": "stop", "parameters": {
        "type": "object", "properties": {}}}},
]


def chat(text="Tell me about Ann.", **kw):
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 400,
            "enable_thinking": False, **HOT, **kw}


def schema(s):
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": s}}


def many(make, n):
    return serving.many(S, C, make, n)


@test
def a_person():
    cut = 0
    for m in many(lambda i: chat(seed=i, response_format=schema(PERSON),
                                 max_tokens=200), 64):
        if m["finish"] == "length":
            cut += 1
            continue
        check(valid(PERSON, json.loads(m["content"])), m)
    check(cut <= 3, f"{cut} of 64 were cut")


@test
def one_of_them():
    """What fits two alternatives of a oneOf does not come."""
    def part(name, **more):
        return {"type": "object", "required": [name], "properties": {
            name: {"type": "integer", "minimum": 0, "maximum": 99}, **more}}

    s = {"oneOf": [part("a", b={"type": "integer"}), part("b"),
                   {"type": "integer", "minimum": 0, "maximum": 20},
                   {"type": "integer", "minimum": 10, "maximum": 90}]}
    for m in many(lambda i: chat(seed=i, response_format=schema(s),
                                 max_tokens=60), 24):
        check(m["finish"] == "length" or valid(s, json.loads(m["content"])), m)


@test
def any_json_object():
    cut = 0
    for m in many(lambda i: chat(seed=i, response_format={
            "type": "json_object"}, temperature=0.7, top_k=20,
            max_tokens=200), 16):
        if m["finish"] == "length":
            cut += 1
        else:
            check(isinstance(json.loads(m["content"]), dict), m)
    check(cut < 8, f"{cut} of 16 were cut")


@test
def patterns_choices_grammars():
    shapes = [
        ({"structured_outputs": {"regex": "\\d{3}-[a-f]+"}}, "[0-9]{3}-[a-f]+"),
        ({"guided_regex": "(yes|no)!"}, "(yes|no)!"),
        ({"structured_outputs": {"choice": ["red", "green \u00e4", "blue"]}},
         "red|green \u00e4|blue"),
        ({"guided_choice": ["x", "xy"]}, "xy?"),
        ({"structured_outputs": {"grammar":
          'root ::= "<" [a-c]{2,5} ("," root)? ">"'}}, None),
        ({"grammar": 'root ::= "a"* "b"', "top_k": 5}, "a*b"),
        ({"guided_grammar": 'root ::= "\u20ac" [\\u00e0-\\u00ff]'},
         "\u20ac[\u00e0-\u00ff]"),
        ({"json_schema": {"const": {"a": [1]}}}, '\\{"a":\\[1\\]\\}'),
        ({"guided_json": {"type": "integer", "minimum": 7, "maximum": 9}},
         "[789]"),
        ({"structured_outputs": {"json": '{"enum": [1, "x"]}'}}, '1|"x"'),
    ]
    for fields, want in shapes:
        for seed in range(4):
            body = {"prompt": "Once", "max_tokens": 200, "seed": seed,
                    **HOT, **fields}
            c = S.post(P, body)["choices"][0]
            if c["finish_reason"] == "length":
                continue
            if want is None:
                check(c["text"].count("<") == c["text"].count(">") > 0, c)
            else:
                check(re.fullmatch(want, c["text"]), (fields, c))


@test
def tags_in_words_are_words():
    """Spelled by ordinary tokens, which is all that a pattern allows."""
    want = "a</think>b<tool_call>\n<function=stop>\n</tool_call>c<think>d"
    for kw in ({}, {"tools": TOOLS, "tool_choice": "none"},
               {"stop": ["</thinks", "l>\n<function=stops"]}):
        for stream in (False, True):
            m = serving.answer(S, C, chat(guided_regex=re.escape(want), **kw),
                               stream)
            check(m == {"content": want, "reasoning": "" if stream else None,
                        "finish": "stop", "tool_calls": []}, m)


@test
def log_probabilities_come_with_their_text():
    """Also where text waits, because it may become a stop text."""
    kw = {"stop": ["bcbcbcbca", "cx"], "guided_regex": "a(bc){5}d\\nx  e",
          "return_token_ids": True, **HOT}
    for path, body in (
            (P, {"prompt": "Once", "max_tokens": 100, "logprobs": 1, **kw}),
            (C, chat(logprobs=True, top_logprobs=1, **kw))):
        text, told, ids = "", "", []
        for e in S.stream(path, body):
            c = e["choices"][0]
            lp = c["logprobs"] or {}
            text += c["text"] if path == P else c["delta"].get("content") or ""
            told += "".join(lp.get("tokens", []) if path == P else
                            [x["token"] for x in lp.get("content", [])])
            ids += c.get("token_ids", [])
            check(text.startswith(told), (text, told))
            if not c["finish_reason"]:
                # Of two parts of a token, only the second one has it.
                check(len(text) - len(told) < 9, (text, told))
        check(told.startswith("abcbcbcbcbcd\nx  e") and len(ids) > 2, told)


@test
def greedy_and_choices_and_logprobs():
    r = S.post(C, chat(n=4, seed=3, logprobs=True, top_logprobs=3,
                       response_format=schema(PERSON)))
    texts = [c["message"]["content"] for c in r["choices"]]
    for c, t in zip(r["choices"], texts):
        if c["finish_reason"] == "stop":
            check(valid(PERSON, json.loads(t)), t)
    check(len(set(texts)) > 1, texts)
    a, b = (S.post(C, chat(temperature=0, response_format=schema(PERSON)))
            ["choices"][0] for _ in range(2))
    check(a["message"] == b["message"], (a, b))
    if a["finish_reason"] == "stop":
        check(valid(PERSON, json.loads(a["message"]["content"])), a)


@test
def reasoning_is_free_and_comes_first():
    """Nothing of the tag is in the answer."""
    seen = 0
    for m in many(lambda i: chat(seed=i, response_format=schema(PERSON),
                                 enable_thinking=True, max_tokens=900,
                                 temperature=0.8, top_k=20), 8):
        check("think>" not in m["content"], m)
        if m["finish"] == "stop":
            seen += 1
            check(valid(PERSON, json.loads(m["content"])), m)
        else:
            check(m["finish"] == "length", m)
    check(seen >= 2, f"{seen} of 8 came to their end")
    # The empty line behind it is not one of a root that calls itself.
    for m in many(lambda i: chat(seed=i, thinking_token_budget=2,
                                 enable_thinking=True, max_tokens=60,
                                 guided_grammar='root ::= "(" root ")" | "a"'),
                  16):
        check(re.fullmatch("[(]*(a[)]*)?", m["content"] or ""), m)


def check_calls(m, names=("weather", "search", "stop"), n=(1, 64),
                finish="tool_calls"):
    if m["finish"] == "length":
        return False
    check(m["finish"] == finish, m)
    check(n[0] <= len(m["tool_calls"]) <= n[1] and not m["content"], m)
    for t in m["tool_calls"]:
        check(t["name"] in names, m)
        tool = next(x["function"] for x in TOOLS
                    if x["function"]["name"] == t["name"])
        args = json.loads(t["arguments"])
        check(set(args) <= set(tool["parameters"]["properties"]), m)
        check(valid(tool["parameters"], args), m)
    return True


@test
def forced_calls():
    ended = 0
    for m in many(lambda i: chat(seed=i, tools=TOOLS, tool_choice="required",
                                 temperature=1.0), 32):
        ended += check_calls(m)
    check(ended >= 20, f"{ended} of 32 came to their end")


@test
def named_and_single_calls():
    named = {"type": "function", "function": {"name": "search"}}
    ended = 0
    for m in many(lambda i: chat(seed=i, tools=TOOLS, tool_choice=named), 16):
        ended += check_calls(m, ("search",), (1, 1), "stop")
    check(ended >= 12, f"{ended} of 16 came to their end")
    for m in many(lambda i: chat(seed=i, tools=TOOLS, tool_choice=named,
                                 parallel_tool_calls=False), 2):
        check_calls(m, ("search",), (1, 1), "stop")
    ended = 0
    for m in many(lambda i: chat(seed=i, tools=TOOLS, tool_choice="required",
                                 parallel_tool_calls=False), 16):
        ended += check_calls(m, n=(1, 1))
    check(ended >= 8, f"{ended} of 16 came to their end")


@test
def forced_calls_behind_reasoning():
    for m in many(lambda i: chat(seed=i, tools=TOOLS, tool_choice="required",
                                 enable_thinking=True, temperature=0.8,
                                 top_k=20, max_tokens=900), 4):
        check_calls(m)


@test
def shape_or_calls():
    """With tools on auto, free text follows the format; strict tools too."""
    for m in many(lambda i: chat(seed=i, tools=TOOLS, max_tokens=120,
                                 response_format=schema(PERSON)), 8):
        if m["tool_calls"] or m["finish"] == "length":
            continue
        check(valid(PERSON, json.loads(m["content"])), m)
    strict = json.loads(json.dumps(TOOLS))
    for t in strict:
        t["function"]["strict"] = True
    for m in many(lambda i: chat(seed=i, tools=strict, temperature=1,
                                 max_tokens=120), 8):
        if m["finish"] == "tool_calls":
            for t in m["tool_calls"]:
                check(json.loads(t["arguments"]) is not None, m)


@test
def refusals():
    cases = [
        ({"response_format": schema({"not": {"pattern": "a"}})},
         "response_format", ["'not'", "$"]),
        ({"response_format": schema({"properties": {"a": {"items": {
            "uniqueItems": True}}}})}, "response_format",
         ["uniqueItems", "$.a.items"]),
        ({"guided_regex": "(a"}, "guided_regex", ["')'"]),
        ({"grammar": 'root ::= root "a"'}, "grammar", ["left recursion"]),
        ({"structured_outputs": {"regex": "a", "choice": ["b"]}},
         "structured_outputs", ["leave one"]),
        ({"guided_json": {}, "response_format": {"type": "json_object"}},
         "guided_json", ["leave one"]),
        ({"structured_outputs": {}}, "structured_outputs", ["none of"]),
        ({"structured_outputs": {"regex": "a", "nonsense": 1}},
         "structured_outputs", ["nonsense"]),
        ({"guided_choice": []}, "guided_choice", ["array"]),
        ({"tool_choice": "required"}, "tool_choice", ["without tools"]),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {
            "name": "fly"}}}, "tool_choice", ["fly"]),
        ({"tools": TOOLS, "tool_choice": "required", "guided_regex": "a"},
         "tool_choice", ["leave one"]),
        # Hostile: refused at once, and the server goes on.
        ({"guided_regex": "((((x{999}){999}){999}){999})"}, "guided_regex",
         ["states"]),
        ({"grammar": "root ::= " + "(" * 5000}, "grammar", ["parentheses"]),
        ({"response_format": schema({"type": "string",
                                     "maxLength": 10 ** 9})},
         "response_format", ["maxLength"]),
        ({"guided_regex": "a" * 100000}, "guided_regex", ["shorter"]),
        ({"guided_json": {"pattern": "^(a|b)*a(a|b){40}$", "maxLength": 90}},
         "guided_json", ["simpler"]),
        ({"guided_json": {"allOf": [{"anyOf": [{"minimum": i}, {"maximum": i},
                                               True]} for i in range(60)]}},
         "guided_json", ["simpler"]),
        ({"guided_json": {"description": "x" * (3 << 19)}}, "guided_json",
         ["1048576 are read"]),
        ({"guided_regex": "x" * (3 << 20)}, "guided_regex", ["2097152"]),
        # Found out while it is generated.
        ({"guided_regex": "x(a?b?c?d?e?f?g?h?i?j?k?l?m?n?o?p?){1000}"}, "",
         ["too ambiguous"]),
    ]
    for fields, param, words in cases:
        e = S.post(C, chat(**fields), status=400)["error"]
        check((e["param"] or "").startswith(param), (fields, e))
        check(all(w in e["message"] for w in words), (fields, e))
    S.post(C, chat(max_tokens=1))


def main():
    global S
    S = Server("--max-num-seqs", "16", "--max-model-len", "2048",
               model="models/demo")
    try:
        done()
    finally:
        S.stop(signal.SIGTERM)


main()
