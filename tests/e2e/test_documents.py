#!/usr/bin/env python3
"""Documents of random schemas and calls of three tools, by the embedded model at
temperature 1.5, sixteen at once, streamed and not: what ends by itself is valid.

With SL_TEST_FULL two thousand documents and five hundred calls, else a share.
"""
import json
import os
import random
import signal
import sys

sys.path.insert(0, os.path.dirname(__file__))
from e2e import check, done, test  # noqa: E402
from judge import valid  # noqa: E402
from serving import Server, many  # noqa: E402

FULL = bool(os.environ.get("SL_TEST_FULL"))
N_DOC = 2000 if FULL else 96
N_CALL = 500 if FULL else 48
C = "/v1/chat/completions"
HOT = {"temperature": 1.5, "top_p": 1, "top_k": 0, "enable_thinking": False}
S = None

TOOLS = [
    {"name": "weather", "parameters": {
        "type": "object", "required": ["city"],
        "additionalProperties": False, "properties": {
            "city": {"type": "string", "minLength": 1, "maxLength": 20},
            "days": {"type": "integer", "minimum": 1, "maximum": 14},
            "unit": {"enum": ["C", "F"]}}}},
    {"name": "search", "parameters": {
        "type": "object", "required": ["query", "deep"],
        "additionalProperties": False, "properties": {
            "query": {"type": "string", "maxLength": 20},
            "deep": {"type": "boolean"},
            "since": {"type": "string", "format": "date"},
            "in": {"type": "array", "maxItems": 2,
                   "items": {"type": "string", "maxLength": 5}}}}},
    {"name": "order", "parameters": {
        "type": "object", "required": ["item", "price"],
        "additionalProperties": False, "properties": {
            "item": {"type": "object", "required": ["id"],
                     "additionalProperties": False,
                     "properties": {"id": {"type": "string",
                                           "pattern": "^[A-Z]{2}-\\d{3}$"},
                                    "n": {"type": ["integer", "null"]}}},
            "price": {"type": "number", "exclusiveMinimum": 0,
                      "maximum": 99.5}}}},
]


# ------------------------------------------------------------ random schemas

def string(r, depth):
    k = r.randrange(7)
    if k == 5:
        return {"type": "string", "pattern": r.choice(
            ["^[a-z \u00e4]*$", "^(ab|c)+", "[0-9]", "\u20ac$"]),
            "minLength": 1 + r.randrange(3), "maxLength": 4 + r.randrange(5)}
    if k == 6:
        return {"type": "string", "maxLength": 6,
                "not": {"enum": ["no", "a", ""]}}
    if k == 0:
        lo = r.randrange(4)
        return {"type": "string", "minLength": lo,
                "maxLength": lo + r.randrange(12)}
    if k == 1:
        return {"type": "string", "pattern": r.choice([
            r"^[a-z]{2,6}(-[0-9]+)?$", r"^(ab|c)\d{1,3}$", "^[^x]{0,5}$",
            r"^\w+@[a-z]{2,5}\.(com|de)$", "^(\u00e4|\u20ac|\"|\\\\){1,4}$"])}
    if k == 2:
        return {"type": "string", "format": r.choice(
            ["date", "time", "date-time", "uuid", "ipv4"])}
    if k == 3:
        return {"enum": r.sample(["red", "a\nb", 7, None, True, 0.5, "\u20ac",
                                  [1], {"k": "v"}], 3)}
    return {"const": r.choice(["x\"y", 12, False, {"a": [None]}])}


def number(r, depth):
    if r.randrange(4) == 0:
        m = r.randrange(1, 60)
        return r.choice([
            {"type": "integer", "multipleOf": m},
            {"type": "integer", "multipleOf": m, "minimum": -7 * m,
             "exclusiveMaximum": 9 * m},
            {"type": "integer", "minimum": 0, "maximum": 30,
             "not": {"enum": [m, 7, 15]}}])
    if r.randrange(2):
        lo = r.randrange(-1000, 1000)
        return {"type": "integer", r.choice(["minimum", "exclusiveMinimum"]):
                lo, "maximum": lo + 2 + r.randrange(500)}
    lo = r.randrange(-40, 40) / 8
    return {"type": "number", "minimum": lo,
            r.choice(["maximum", "exclusiveMaximum"]): lo + 0.5 + r.randrange(9)}


def simple(r, depth):
    return r.choice([{"type": "boolean"}, {"type": "null"},
                     {"type": "integer"}, {"type": "number"},
                     {"type": ["boolean", "null"]}])


def array(r, depth):
    if r.randrange(4) == 0:
        return r.choice([
            {"type": "array", "uniqueItems": True, "minItems": r.randrange(3),
             "items": {"enum": r.sample(["a", "b", 1, True, None, "\u20ac"], 4)}},
            {"type": "array", "contains": {"const": "x"}, "maxItems": 3,
             "items": {"anyOf": [{"const": "x"}, number(r, depth)]}}])
    if r.randrange(3) == 0:
        first = [schema(r, depth - 1) for _ in range(1 + r.randrange(3))]
        return {"type": "array", "prefixItems": first, "items": False,
                "minItems": r.randrange(len(first) + 1)}
    lo = r.randrange(3)
    return {"type": "array", "items": schema(r, depth - 1), "minItems": lo,
            "maxItems": lo + r.randrange(3)}


def conditional(r, depth):
    """Members that depend on the value or on the presence of others."""
    s = {"type": "object", "required": ["kind"], "additionalProperties": False,
         "properties": {"kind": {"enum": ["a", "b", "c"]},
                        "x": schema(r, depth - 1), "y": {"type": "boolean"}}}
    case = {"if": {"properties": {"kind": {"const": "a"}}},
            "then": {"required": ["x"]}, "else": {"required": ["y"]}}
    return {**s, **r.choice([
        case, {"dependentRequired": {"x": ["y"]}},
        {"allOf": [case, {"if": {"properties": {"kind": {"const": "b"}}},
                          "then": {"properties": {"x": False}}}]},
        {"dependentSchemas": {"y": {"properties": {"kind": {"const": "b"}}}}},
        {"not": {"required": ["x", "y"]}}])}


def mapping(r, depth):
    """Members whose names are not listed."""
    n = r.randrange(2)
    return {"type": "object", **r.choice([
        {"patternProperties": {"^x-[a-z]{1,4}$": schema(r, depth - 1)},
         "additionalProperties": False},
        {"propertyNames": {"pattern": "^[a-z]+$", "maxLength": 5},
         "additionalProperties": schema(r, depth - 1)},
        {"properties": {"x-a": {"type": "number"}, "b": schema(r, depth - 1)},
         "patternProperties": {"^x-.?$": {"type": ["integer", "null"]},
                               "^.{1,3}$": {"type": ["integer", "null"]}},
         "additionalProperties": False, "required": ["x-a"]},
        {"additionalProperties": {"type": "boolean"},
         "propertyNames": {"maxLength": 8}}]),
        "minProperties": n, "maxProperties": n + 1 + r.randrange(2)}


def obj(r, depth):
    k = r.randrange(4)
    return (mapping, conditional, plain, plain)[k](r, depth)


def plain(r, depth):
    names = r.sample(["name", "id", "a b", "\u00fc", "na", "q\"", "x"],
                     1 + r.randrange(4))
    return {"type": "object", "properties": {n: schema(r, depth - 1)
                                             for n in names},
            "required": [n for n in names if r.randrange(2)],
            "additionalProperties": False}


def union(r, depth):
    k = r.randrange(3)
    if k == 0:
        return {r.choice(["anyOf", "oneOf"]): [
            {"type": "string", "maxLength": 6}, number(r, depth),
            {"type": "array", "maxItems": 1, "items": schema(r, depth - 1)}]}
    if k == 1:
        a, b = plain(r, depth), {"type": "object", "properties": {
            "more": schema(r, depth - 1)}, "required": ["more"]}
        del a["additionalProperties"]
        return {"allOf": [a, b]}
    return {"$ref": "#/$defs/point"}


def schema(r, depth):
    flat = [string, string, number, simple]
    return r.choice(flat if depth == 0 else
                    flat[1:] + [array, obj, obj, union])(r, depth)


def document(i):
    r = random.Random(i)
    return {**r.choice([obj, obj, array, union, schema])(r, 3), "$defs": {
        "point": {"type": "object", "properties": {
            "x": {"type": "integer"}, "y": {"type": "integer"}},
            "required": ["x", "y"], "additionalProperties": False}}}


@test
def documents():
    cut = 0
    first = 0 if FULL else 5000

    def body(i):
        return {"messages": [{"role": "user", "content": "Write JSON."}],
                "seed": i, "max_tokens": 1500, "response_format": {
                    "type": "json_schema", "json_schema": {
                        "name": "x", "schema": document(first + i)}}, **HOT}
    for i, m in enumerate(many(S, C, body, N_DOC)):
        if m["finish"] == "length":
            cut += 1
        else:
            check(valid(document(first + i), json.loads(m["content"])),
                  (document(first + i), m))
    print(f"{N_DOC} documents, {cut} of them cut, the others valid")
    check(cut * 20 <= N_DOC, f"{cut} of {N_DOC} were cut")


# -------------------------------------------------------------------- tools

def call_body(i):
    """required, named and auto in turn."""
    named = {"type": "function", "function": {"name": TOOLS[i // 3 % 3]["name"]}}
    return {"messages": [{"role": "user", "content":
                          "Call the weather tool for Paris, please."}],
            "seed": i, "max_tokens": 500, **HOT,
            "tools": [{"type": "function", "function": {**t, "strict": True}}
                      for t in TOOLS],
            "tool_choice": ["required", named, "auto"][i % 3]}


@test
def calls():
    count = {"valid": 0, "cut": 0, "without a call": 0}
    n_answer = 0
    while count["valid"] < N_CALL:
        at = n_answer
        n_answer += max(16, (N_CALL - count["valid"]) // 16 * 16)
        for i, m in enumerate(many(S, C, lambda k: call_body(at + k),
                                   n_answer - at)):
            kind = (at + i) % 3
            if m["finish"] == "length":
                count["cut"] += 1
                continue
            check(kind == 2 or m["tool_calls"], m)
            # The named one is no choice of the model.
            check((m["finish"] == "tool_calls") ==
                  (bool(m["tool_calls"]) and kind != 1), m)
            count["without a call"] += not m["tool_calls"]
            check(kind != 1 or len(m["tool_calls"]) == 1, m)
            for t in m["tool_calls"]:
                tool = next(x for x in TOOLS if x["name"] == t["name"])
                check(kind != 1 or tool is TOOLS[(at + i) // 3 % 3], m)
                check(valid(tool["parameters"], json.loads(t["arguments"])), m)
                count["valid"] += 1
    print(f"{n_answer} answers: {count}")
    check(count["cut"] * 5 < n_answer, count)


def main():
    global S
    S = Server("--max-num-seqs", "16", "--max-model-len", "3072",
               model="models/demo")
    try:
        done()
    finally:
        S.stop(signal.SIGTERM)


main()
