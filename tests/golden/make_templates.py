#!/usr/bin/env python3
"""Chat templates and what the reference renders.

    python3 make_templates.py                   write templates/cases.jsonl
    python3 make_templates.py --real DIR        render every *.jinja in DIR

The reference is the chat template machinery of transformers: jinja2's
ImmutableSandboxedEnvironment with trim_blocks and lstrip_blocks, its tojson,
raise_exception, strftime_now, namespace and dict, and the tags break,
continue and generation.

The first form writes one case per line: {"template": file} or {"source":
text}, the variables in "vars" (messages, tools, documents and
add_generation_prompt are always there, as the machinery passes them), and
either "out" or "error". "need": true marks the constructs that the templates
of the family use; for the others a reader may refuse, but not differ.
"raised": true marks an error that the template itself asked for: its text
must be given to the user.

The second form is for real templates, which are not kept: DIR/NAME.jsonl gets
each of the conversations below in several settings.
"""

import argparse
import datetime
import glob
import hashlib
import json
import os

import jinja2
import transformers
from transformers.utils import chat_template_utils as machinery

HERE = os.path.dirname(os.path.abspath(__file__))


def render(source, variables):
    """What the machinery gives: {"out": ...} or {"error": ...}."""
    base = {"messages": [], "tools": None, "documents": None,
            "add_generation_prompt": False}
    try:
        t = machinery._compile_jinja_template(source)
        return {"out": t.render(**(base | variables))}
    except Exception as e:
        got = {"error": f"{e}"}
        if type(e) is jinja2.exceptions.TemplateError:
            got["raised"] = True
        else:
            got["error"] = type(e).__name__ + ": " + got["error"]
        return got


# --- conversations ---------------------------------------------------------

def fn(name, about, props, required=()):
    return {"type": "function", "function": {
        "name": name, "description": about, "parameters": {
            "type": "object", "properties": props,
            "required": list(required)}}}


WEATHER = fn("get_weather", "The weather of a place, now.", {
    "place": {"type": "string", "description": "A town, e.g. \"Łódź\""},
    "unit": {"type": "string", "enum": ["°C", "°F"], "default": "°C"}},
    ["place"])
ADD = fn("add", "Adds <numbers> & returns 'the' sum.", {
    "xs": {"type": "array", "items": {"type": "number"}},
    "eps": {"type": "number", "default": 1e-07, "minimum": -0.5,
            "maximum": 1e22}, "exact": {"type": "boolean", "default": False},
    "note": {"type": ["string", "null"], "default": None}})
ODD = fn("odd/one", "Line one\nline two\ttab \u2028 \x7f \\ / \U0001f600",
         {})
BARE = {"name": "bare", "parameters": {}}


def S(t): return {"role": "system", "content": t}
def U(t): return {"role": "user", "content": t}
def T(t, **k): return {"role": "tool", "content": t} | k


def A(t, think=None, calls=None, **k):
    m = {"role": "assistant", "content": t} | k
    if think is not None:
        m["reasoning_content"] = think
    if calls is not None:
        m["tool_calls"] = calls
    return m


def C(name, args, n=0):
    return {"id": f"call_{n}", "type": "function",
            "function": {"name": name, "arguments": args}}


def conversations():
    """(name, messages, tools), about fifty."""
    w = C("get_weather", {"place": "Łódź", "unit": "°C"})
    a = C("add", {"xs": [1, 2.5, -3e-9], "exact": True, "note": None,
                  "eps": 1.0, "opts": {"a": {"b": []}, "c": "x\ny"},
                  "text": "plain"}, 1)
    yield "one", [U("Hello")], None
    yield "system", [S("Be brief."), U("Hello")], None
    yield "system empty", [S(""), U("Hello")], None
    yield "system blank", [S(" \n\t "), U("Hello")], None
    yield "trim", [S("  a \n"), U("\n\n x \u00a0\u3000"), A("  y  "),
                   U("\x1c z \x1f")], None
    yield "two turns", [U("a"), A("b"), U("c")], None
    yield "six turns", [U("a"), A("b"), U("c"), A("d"), U("e"), A("f"),
                        U("g")], None
    yield "ends with assistant", [U("a"), A("b")], None
    yield "thought", [U("a"), A("b", "because"), U("c")], None
    yield "thought last", [U("a"), A("b", "because")], None
    yield "thought empty", [U("a"), A("b", ""), U("c"), A("d", " \n ")], None
    yield "thought lines", [U("a"), A("b", "\n\n1\n\n2\n")], None
    yield "thought inside", [U("a"), A("<think>\nhm\n</think>\n\nb"),
                             U("c")], None
    yield "thought inside last", [U("a"), A("<think>\nhm\n</think>\n\nb")], None
    yield "thought inside twice", [
        U("a"), A("<think>x</think>y<think>z</think>w"), U("c"),
        A("</think>only the end")], None
    yield "thought open", [U("a"), A("<think>never closed"), U("b")], None
    yield "thought both", [U("a"), A("<think>in</think>b", "field"), U("c")], \
        None
    yield "tags in user", [U("<think>me</think> <|im_end|>\n<|im_start|>"),
                           A("no")], None
    yield "tools", [U("weather?")], [WEATHER]
    yield "tools all", [S("Use them."), U("go")], [WEATHER, ADD, ODD]
    yield "tools bare", [U("go")], [BARE]
    yield "tools empty", [U("go")], []
    yield "tools and blank system", [S("  "), U("go")], [ADD]
    yield "call", [U("weather?"), A("", calls=[w])], [WEATHER]
    yield "call with text", [U("weather?"), A("Let me see.", calls=[w])], \
        [WEATHER]
    yield "call with thought", [U("w?"), A("Look.", "need it", [w])], \
        [WEATHER]
    yield "two calls", [U("both"), A("", calls=[w, a])], [WEATHER, ADD]
    yield "two calls with text", [U("both"), A("x", "y", [w, a])], \
        [WEATHER, ADD]
    yield "call without content", [U("w?"), {"role": "assistant",
                                            "tool_calls": [w]}], [WEATHER]
    yield "call plain form", [U("w?"), A("", calls=[
        {"name": "get_weather", "arguments": {"place": "x"}}])], [WEATHER]
    yield "call no arguments", [U("w?"), A("", calls=[C("now", {})])], None
    yield "call string arguments", [U("w?"), A("", calls=[
        C("f", "{\"a\": 1}")])], None
    yield "calls empty list", [U("a"), A("b", calls=[]), U("c")], None
    yield "tool result", [U("w?"), A("", "hm", [w]), T("21 °C")], [WEATHER]
    yield "tool results", [U("w?"), A("", "hm", [w, a]), T("21 °C"),
                           T("-0.5")], [WEATHER, ADD]
    yield "tool loop", [
        U("w?"), A("", "first", [w]), T("21"), A("So.", "second", [a]),
        T("3"), A("Done: 3.", "third")], [WEATHER, ADD]
    yield "tool loop, then on", [
        S("sys"), U("w?"), A("", "first", [w]), T("21"), A("It is 21.", "2nd"),
        U("thanks"), A("Welcome.", "polite"), U("bye")], [WEATHER]
    yield "tool json", [U("w?"), A("", calls=[w]),
                        T("{\"t\": 21, \"x\": [1, null]}\n",
                          tool_call_id="call_0")], [WEATHER]
    yield "tool parts", [U("w?"), A("", calls=[w]),
                         T([{"type": "text", "text": "21"}])], [WEATHER]
    yield "tool first", [T("lost"), U("a")], None
    yield "tool response by user", [
        U("real"), A("", calls=[w]),
        U("<tool_response>\n21\n</tool_response>"), A("ok", "so")], [WEATHER]
    yield "only tool responses", [U("<tool_response>x</tool_response>")], None
    yield "parts", [U([{"type": "text", "text": "a"},
                       {"type": "text", "text": " b "}])], None
    yield "parts system", [S([{"type": "text", "text": "s"}]), U("a")], None
    yield "parts assistant", [U("a"), A([{"type": "text", "text": "b"}]),
                              U("c")], None
    yield "image", [U([{"type": "image"}, {"type": "text", "text": "?"}])], \
        None
    yield "images and video", [U([{"image": "x"}, {"type": "video"},
                                  {"image_url": {"url": "u"}}]),
                               A("b"), U([{"type": "image"}])], None
    yield "image in system", [S([{"type": "image"}]), U("a")], None
    yield "part of no kind", [U([{"type": "sound"}])], None
    yield "content number", [U(5)], None
    yield "content object", [U({"text": "a"})], None
    yield "no content", [{"role": "user"}, A("b"), U("c")], None
    yield "late system", [U("a"), S("late"), U("b")], None
    yield "two systems", [S("a"), S("b"), U("c")], None
    yield "developer", [{"role": "developer", "content": "d"}, U("a")], None
    yield "other role", [U("a"), {"role": "critic", "content": "c"}], None
    yield "no user", [S("a")], None
    yield "only assistant", [A("a")], None
    yield "empty", [], None
    yield "unicode", [
        S("Ты — цапля. 你是苍鹭。"), U("नमस्ते दुनिया 👩‍👩‍👧 e\u0301 \u200b"),
        A("مرحبا \u2028 ok", "考えている"), U("\ufeffx\u0000y")], [ODD]
    yield "json in text", [U("{\"a\": {{ b }} {% c %} {# d #}}"),
                           A("}} %}"), U("\\n \\u0041 \\\\")], None
    yield "names", [U("a") | {"name": "ann"}, A("b", name="bot"), U("c")], None
    yield "continued thought", [U("a"), A("", "half a thought")], None
    yield "switches", [U("a /no_think"), A("b"), U("c <|think_off|>")], None
    yield "long", [U("x" * 300 + "\n" * 3)] + [
        m for i in range(12) for m in (A(f"answer {i}", f"thought {i}"),
                                       U(f"question {i}"))], None


SETTINGS = [
    {"add_generation_prompt": True},
    {},
    {"add_generation_prompt": True, "enable_thinking": False},
    {"add_generation_prompt": True, "enable_thinking": True,
     "preserve_thinking": True},
    {"preserve_thinking": False, "add_vision_id": True,
     "reasoning_effort": "low", "add_generation_prompt": True},
    {"reasoning_effort": "medium", "add_generation_prompt": True},
    {"reasoning_effort": "none"},
]


def as_template_sees(messages):
    """The machinery drops keys that are null and copies the reasoning to
    other names before the template runs; cases hold the result."""
    return machinery._alias_reasoning_fields(
        machinery._normalize_chat_messages(messages))


def real(folder):
    for path in sorted(glob.glob(folder + "/*.jinja")):
        source = open(path, encoding="utf-8", newline="").read()
        name = os.path.basename(path)
        n = bad = 0
        with open(path[:-len(".jinja")] + ".jsonl", "w") as f:
            for title, messages, tools in conversations():
                for kwargs in SETTINGS:
                    messages = as_template_sees(messages)
                    got = render(source, {"messages": messages,
                                          "tools": tools} | kwargs)
                    f.write(json.dumps({
                        "template": name, "name": title,
                        "messages": messages, "tools": tools,
                        "kwargs": kwargs} | got, ensure_ascii=False) + "\n")
                    n += 1
                    bad += "error" in got
        print(f"{name}: {n} renderings, {bad} of them errors")


# --- own cases -------------------------------------------------------------

# Expressions every reader needs: operators, literals, the filters, tests and
# methods that the family's templates and their fixes use.
NEED = r"""
{{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ 7 - 2 - 1 }} {{ -3 + 1 }} {{ 2 * -3 }}
{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 6 / 4 }} {{ 6 / 3 }}
{{ 1.5 + 1 }} {{ 0.1 + 0.2 }} {{ 1e3 }} {{ 2.0 }} {{ 1.0 * 3 }} {{ 12345678901234567 }}
{{ 'a' + 'b' }} {{ 'a' ~ 1 ~ none ~ true ~ 2.5 ~ [1, 'x'] ~ {'k': 'v'} }} {{ 'ab' * 3 }}
{{ [1] + [2, 3] }} {{ (1, 2) + (3,) }} {{ 'a' 'b' }}
{{ 1 < 2 }} {{ 2 <= 2 }} {{ 3 > 4 }} {{ 3 >= 4 }} {{ 1 == 1.0 }} {{ 1 != 2 }} {{ 'a' < 'b' }} {{ 'a' == 'a' }}
{{ true == 1 }} {{ [1, 2] == [1, 2] }} {{ {'a': 1} == {'a': 1} }} {{ none == none }} {{ 'x' == 1 }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1 == 1 }}
{{ true and false }} {{ true or false }} {{ not true }} {{ not 0 }} {{ not '' }} {{ not [] }} {{ not {} }}
{{ 'a' or 'b' }} {{ '' or 'b' }} {{ 'a' and 'b' }} {{ 0 and 'b' }} {{ none or 0 }} {{ '' and x.y.z }}
{{ not true or true }} {{ not (true or true) }} {{ true or false and false }} {{ not 1 == 2 }} {{ not 'a' in 'b' }}
{{ 'b' in 'abc' }} {{ 'd' not in 'abc' }} {{ 2 in [1, 2] }} {{ 'k' in {'k': 1} }} {{ 'v' in {'k': 'v'} }} {{ '' in 'a' }} {{ 1 in (1, 2) }}
{{ 'yes' if true else 'no' }} {{ 'yes' if false }}| {{ 'a' if false else 'b' if false else 'c' }} {{ ('a' if true else 'b') + 'c' }}
{{ 'a' + 'b' if true else 'c' + 'd' }} {{ 1 if 0 else 2 if 1 else 3 }}
{{ true }} {{ false }} {{ none }} {{ True }} {{ False }} {{ None }}
{{ 'single' }} {{ "double" }} {{ 'q"q' }} {{ "q'q" }} {{ 'it\'s' }} {{ "a\"b" }}
{{ 'tab\tline\nback\\slash\r' }} {{ '\x41\u00e9\U0001f600' }} {{ '\'' }}
{{ [] }} {{ {} }} {{ [1, 'a', [2, {'b': none}], true] }} {{ {'a': 1, 'b': [1.5, 'x']} }} {{ [1, 2,] }} {{ {'a': 1,} }}
{{ ['it\'s', "q\"q", 'both\'"', 'a\nb', '\\', 'é', '😀'] }}
{{ [1.0, 0.5, 1e16, 0.0001, -0.0, 123456.789] }}
{{ seq[0] }} {{ seq[-1] }} {{ seq[1:] }} {{ seq[:2] }} {{ seq[1:2] }} {{ seq[::-1] }} {{ seq[::2] }} {{ seq[-2:] }} {{ seq[:-1] }} {{ seq[5:] }} {{ seq[2:0:-1] }} {{ seq[:] }}
{{ word[0] }} {{ word[-1] }} {{ word[1:3] }} {{ word[::-1] }} {{ word[:-2] }} {{ word[10:] }}|
{{ map.a }} {{ map['a'] }} {{ map.missing }}| {{ map['missing'] }}| {{ map.b.c }} {{ map.b['c'] }} {{ map['b'].c }}
{{ missing }}| {{ missing is defined }} {{ missing is undefined }} {{ map.missing is defined }} {{ map.a is defined }} {{ seq[9] is defined }}
{{ missing or 'x' }} {{ missing if missing else 'y' }} {{ missing == none }} {{ missing is none }} {{ not missing }}
{{ 'a' is string }} {{ 1 is string }} {{ none is string }} {{ [] is string }}
{{ [] is iterable }} {{ {} is iterable }} {{ 'a' is iterable }} {{ 1 is iterable }} {{ none is iterable }} {{ missing is iterable }}
{{ {} is mapping }} {{ [] is mapping }} {{ 'a' is mapping }} {{ missing is mapping }}
{{ [] is sequence }} {{ {} is sequence }} {{ 'a' is sequence }} {{ 1 is sequence }} {{ none is sequence }}
{{ none is none }} {{ 0 is none }} {{ true is true }} {{ 1 is true }} {{ false is false }} {{ 0 is false }} {{ 'true' is true }}
{{ 1 is number }} {{ 1.5 is number }} {{ '1' is number }} {{ true is number }}
{{ none is not none }} {{ 'a' is not string }} {{ missing is not defined }} {{ not missing is defined }}
{{ 'a' is string and 1 is number }} {{ 'x' if 'a' is string else 'y' }} {{ 1 + 1 is number }} {{ (map.a is defined) == true }}
{{ 'a,b,,c'.split(',') }} {{ 'a b  c\n'.split() }} {{ 'a,b,c'.split(',')[-1] }} {{ ''.split(',') }} {{ 'abc'.split('x')[0] }} {{ 'a--b--c'.split('--') }}
{{ '  a '.strip() }}| {{ '  a '.lstrip() }}| {{ '  a '.rstrip() }}| {{ 'xxaxx'.strip('x') }} {{ '\n\na\n'.lstrip('\n') }}| {{ 'abcba'.rstrip('ab') }} {{ 'abc'.strip('') }}
{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith('bc') }} {{ 'abc'.startswith('') }} {{ ''.endswith('a') }} {{ 'abc'.startswith('abcd') }}
{{ 'abcabc'.replace('b', 'XY') }} {{ 'aaa'.replace('a', '') }} {{ 'abc'.replace('x', 'y') }} {{ 'aaa'.replace('a', 'b', 2) }} {{ 'ab'.replace('', '-') }}
{{ 'abcabc'.find('c') }} {{ 'abc'.find('x') }} {{ 'abcabc'.rfind('c') }} {{ 'abc'.rfind('x') }} {{ 'é😀x'.find('x') }}
{{ 'aBc Dé'.upper() }} {{ 'ABC DÉ'.lower() }} {{ map.items() | length }} {{ map.get('a') }} {{ map.get('q') }} {{ map.get('q', 'dflt') }}
{{ map.keys() | list }} {{ map.values() | list | length }}
{{ ' a b \n' | trim }}| {{ '\u00a0\u3000\x1ca\x85' | trim }}| {{ 'xax' | trim('x') }}
{{ 'abc' | length }} {{ seq | length }} {{ map | length }} {{ '' | length }} {{ 'é😀' | length }} {{ [] | count }}
{{ missing | default('d') }} {{ none | default('d') }} {{ '' | default('d') }}| {{ '' | default('d', true) }} {{ none | default('d', true) }} {{ 'v' | default('d') }} {{ missing | d('e') }} {{ missing | default }}|
{{ seq | first }} {{ seq | last }} {{ 'abc' | first }} {{ [] | first is defined }} {{ ['a'] | last }}
{{ ['a', 'b'] | join(', ') }} {{ ['a', 'b'] | join }} {{ [1, none, true, 2.5] | join('-') }} {{ [] | join('x') }}| {{ 'abc' | join('.') }}
{{ 'AbC' | lower }} {{ 'AbC' | upper }} {{ 1 | string }} {{ none | string }} {{ true | string }} {{ [1] | string }} {{ 'a' | string | length }} {{ 2.50 | string }}
{{ 'a<b>&"\'' | safe }} {{ 'a<b' }} {{ 'aXb' | replace('X', 'Y') }} {{ 'aaa' | replace('a', 'b', 1) }}
{{ 'a' | upper | lower ~ 'B' | lower }} {{ ('a' ~ 'b') | upper }} {{ 'x' | trim | length + 1 }}
{{ map | items | list }} {{ {} | items | list }} {{ (1, 2) | list }} {{ 'abc' | list }}
{{ range(4) | list }} {{ range(1, 4) | list }} {{ range(5, 0, -2) | list }} {{ range(0) | list }}
{{ namespace(a=1).a }} {{ dict(a=1)['a'] }}
{%- if 0 %}a{% elif '' %}b{% elif none %}c{% elif [] %}d{% elif {} %}e{% elif missing %}f{% else %}g{% endif %}
{% if seq %}a{% endif %}{% if not seq %}b{% endif %}{% if 'a' in seq or 1 in seq %}c{% endif %}{% if seq and map %}d{% endif %}
{% if a is defined and a is not none and a %}x{% else %}y{% endif %} {% if (1 == 1) and not (2 == 3) %}z{% endif %}
{{ 'a' if map.a == 1 and map.b is mapping else 'b' }} {{ (seq | length - 1) - 1 }} {{ seq | length - 1 }} {{ seq|length>2 }} {{ (seq|length)-1 }}
{{ {'a': {'b': [1, 2, {'c': 'deep'}]}}.a.b[2].c }} {{ [[1, 2], [3]][0][1] }} {{ 'a-b'.split('-')[0].upper()[0] }}
{{ map.a.b is defined }} {{ ''.x is defined }} {{ word.nothing is defined }} {{ none.x is defined }}
"""

# Larger pieces that must work.
NEED_BLOCKS = [
    "{{ raise_exception('stop here: ' ~ word) }}",
    "{% if not messages %}{{ raise_exception('No messages — keine') }}{% endif %}",
    "a{% set x %}{{ word }}!{% endset %}{{ x }}",
    "{% macro m(a, b=false) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, true) }}{{ m(b=2, a=3) }}{{ m() }}",
    "{% macro m(a) %}{% for x in a %}{{ x }}{% if x is iterable and x is not string %}{{ m(x) }}{% endif %}{% endfor %}{% endmacro %}{{ m([1, [2, [3]]]) }}",
    "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}",
    "{% for a in seq %}{% for b in seq %}{{ loop.index0 }}{% endfor %}{{ loop.index0 }} {% endfor %}",
    "{% for x in missing %}a{% else %}b{% endfor %}",
    "{% set ns = namespace(x=0) %}{% for i in seq %}{% set ns.x = ns.x + loop.index %}{% endfor %}{{ ns.x }}",
    "{%- set x = 1 -%}\n\n  {{- x -}}  \n\n{%- if x -%}  yes  {%- endif -%}\n",
    "line\n{% set x = 1 %}\n{% if x %}\nin\n{% endif %}\nout\n",
    "  {% if true %}\n    a\n  {% endif %}\n  b\n",
    "\ta {# note #} b\n  {# whole line #}\nc\n",
    "{# a {{ b }} {% c %} #}x",
    "{% raw %}{{ x }}{% y %}{% endraw %}",
    "{%- raw -%}  a  {%- endraw -%}",
    "\n\nx\n\n", "\n", "", "x\r\ny\r\n", "x\n", "{{ 'a' }}\n", "{{ 'a' }}\n\n",
    "{% if true %}\r\nx\r\n{% endif %}\r\n",
    "{% if true %}x{% endif %}\n", "{%- if true %}\n x{% endif -%}\n y",
    "{{- '' -}}  a", "a  {{- '' }}  b", "{{ '}}' }}{{ '%}' }}{{ '{{' }}",
    "{{{'a': 1}.a}}", "{{ {'a': {'b': 1}} }}", "{% if {'a': 1}.a == 1 %}x{% endif %}",
    "{% set a = {'x': [1, 2]} %}{{ a.x[0] }}{% set a = a.x %}{{ a }}",
    "{% for k, v in {'b': 1, 'a': 2}.items() %}{{ k }}{{ v }}{% endfor %}",
    "{{ 'x' | tojson }} {{ 1 | tojson }} {{ 1.0 | tojson }} {{ none | tojson }} {{ true | tojson }} {{ [] | tojson }} {{ {} | tojson }} {{ (1, 2) | tojson }}",
    "{{ 'a\"b\\\\c/\\n\\t\\r\\u0008\\u000c\\u0001\\x7f\\u2028é😀<>&\\'' | tojson }}",
    "{{ 'é😀\\u2028' | tojson(ensure_ascii=true) }}",
    "{{ [1e22, 1e-7, 0.1, 1e16, 123456789012345680.0, -0.0] | tojson }}",
    "{{ {'a': [1, {'b': []}], 'c': {}} | tojson(indent=2) }}",
    "{{ {'b': 1, 'a': 2} | tojson(sort_keys=true, separators=(',', ':')) }}",
    "{% generation %}{{ word }}{% endgeneration %}",
    "{% if x is defined %}{% endif %}{% set x = x if x is defined else 'd' %}{{ x }}",
    "{{ messages[0]['role'] if messages else 'none' }}",
    "{{ messages|length }}{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}",
    "{% for i in range(3) %}{{ i }}{{ ', ' if not loop.last }}{% endfor %}",
    "{% for x in [1, 2, 3, 4] if x % 2 == 0 %}{{ loop.index }}{{ x }}{% if loop.last %}!{% endif %}{% endfor %}",
    "{% for a in [1, 2] %}{% set b = a %}{% if b == 2 %}{% set c = b %}{{ c }}{% endif %}{% endfor %}{{ c is defined }}",
    "{{ missing.x }}", "{{ missing['x'] }}", "{{ missing() }}", "{{ 1 + 'a' }}", "{{ 'a' + 1 }}",
    "{{ none.x.y }}", "{{ [1][5] }}|", "{{ 1 // 0 }}", "{{ 'a' < 1 }}", "{{ 'a' + none }}", "{{ 'a' + missing }}",
    "{% for x in 5 %}{% endfor %}", "{{ none | length }}", "{% for x in none %}{% endfor %}", "{{ 5 in 5 }}",
    "{{ {} | tojson(bad=1) }}", "{{ word.nosuch() }}", "{{ 'a'.split(1) }}", "{{ [].items() }}", "{% for k, v in 'x' | items %}{% endfor %}",
    "{% set ns = namespace(_x=1) %}", "{% set ns = namespace() %}{% set ns._x = 1 %}", "{% set map.a = 2 %}{{ map.a }}",
]

# Broken templates: every one an error with a place.
BROKEN = [
    "{{", "{{ 1", "{% if", "{% if true %}", "{% endif %}", "{% for x in %}{% endfor %}", "{{ 1 + }}", "{{ ) }}",
    "{% unknown %}", "{{ 'a' | nosuch }}", "{{ 'a' is nosuch }}", "{{ 'unclosed }}", "{% for x in y %}{% endif %}",
    "{# never closed", "{% raw %}x", "{{ a b }}", "{{ [1, 2 }}", "{{ {'a' 1} }}", "{% set %}", "{% set x %}y",
    "{% macro %}{% endmacro %}", "{% macro m(a=1, b) %}{% endmacro %}", "{% else %}", "{{ 1 if }}", "{{ a. }}",
    "{{ a[ }}", "{% if true %}{% else %}{% else %}{% endif %}", "{% break %}", "{{ 'a' ! 'b' }}", "{{ a | }}",
    "{{ x is }}", "{% for loop in y %}{% endfor %}", "{% elif x %}", "{{ ~ }}", "{{ 1 2 }}", "{% endfor %}",
]

# Jinja that the family does not use: equal or refused.
MORE = r"""
{{ ['it\'s', "q\"q", 'both\'"', 'a\nb', '\\', 'é', '😀', '\u200b', '\x7f', '\x00'] }}
{{ [1.0, 0.5, 1e16, 1e15, 1e-5, 0.0001, -0.0, 123456.789, 1e100, 5e-324] }}
{{ objs | selectattr('k', 'equalto', 1) | list | length }} {{ objs | map(attribute='k') | list }} {{ objs | rejectattr('k') | list | length }} {{ objs | selectattr('k', 'defined') | list | length }} {{ ['a', 'b'] | map('upper') | list }} {{ [0, 1, '', 'a'] | select | list }} {{ [1, none] | reject('none') | list }}
{{ '3' | int + 1 }} {{ 'x' | int }} {{ 3.9 | int }} {{ '2.5' | float }} {{ 1 | float }} {{ 'x' | int(7) }}
{{ [3, 1, 2] | sort }} {{ [1, 2, 3] | reverse | list }}
{{ -1 | abs }} {{ -1.5 | abs }}
{{ 2 ** 10 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 2 ** -1 }}
{{ '%s and %d' % ('a', 3) }} {{ '%s' | format('x') }} {{ '{} {}'.format(1, 2) }}
{{ 'hello world' | title }} {{ 'hello' | capitalize }} {{ 'HELLO'.capitalize() }} {{ 'a b'.title() }} {{ 'aBc'.swapcase() }}
{{ '<a&b>' | e }} {{ '<a>' | escape }} {{ 'a' | center(5) }}| {{ 'a\nb' | indent(2) }} {{ 'a\nb' | indent(2, true) }}
{{ [3, 1, 2] | sort(reverse=true) }} {{ ['b', 'A'] | sort }} {{ ['b', 'A'] | sort(case_sensitive=true) }} {{ objs | sort(attribute='n') | map(attribute='n') | list }}
{{ [1, 2, 2, 1] | unique | list }} {{ [1, 2, 3] | sum }} {{ [1, 5, 3] | max }} {{ [4, 2] | min }} {{ [1, 2, 3, 4, 5] | batch(2) | list }} {{ [1, 2, 3] | slice(2) | list }}
{{ 3.14159 | round(2) }} {{ 2.5 | round }} {{ 3 | round }} {{ 1234567 | filesizeformat }} {{ 'a b c' | wordcount }} {{ 'abcdef' | truncate(4, true, '') }}
{{ 1 is odd }} {{ 2 is even }} {{ 6 is divisibleby 3 }} {{ 'a' is in 'abc' }} {{ 1 is eq 1 }} {{ 1 is lt 2 }} {{ 'A' is upper }} {{ 'a' is lower }} {{ 1 is integer }} {{ 1.0 is float }} {{ true is boolean }} {{ raise_exception is callable }} {{ 'a' is sameas 'a' }} {{ 'x' is escaped }}
{{ 'abc'.index('b') }} {{ 'abcb'.count('b') }} {{ 'a'.isdigit() }} {{ '12'.isdigit() }} {{ 'a'.join(['x', 'y']) }} {{ 'a.b.c'.rsplit('.', 1) }} {{ 'a,b,c'.split(',', 1) }} {{ 'a\nb'.splitlines() }} {{ 'ab'.partition('b') }} {{ '7'.zfill(3) }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }}
{{ not not true }} {{ + 3 }} {{ 1_000 }} {{ 0x1f }} {{ 0b11 }} {{ 0o17 }} {{ 1.5e3 }} {{ .5 is defined }}
{{ seq.index(2) }} {{ seq.count(1) }} {{ map | dictsort }} {{ map | list }} {{ [[1, 'a'], [2, 'b']] | list }} {{ dict([['a', 1]]) }}
{{ 'x' if missing is defined and missing else ('y' if true else 'z') }} {{ [x for x in seq] }}
{{ objs | groupby('k') | list | length }} {{ [1, 2] | map('string') | join('+') }} {{ 'abc' | reverse }} {{ objs | map(attribute='n', default=0) | list }}
{{ [1, 2, 3][1] }} {{ (1, 2)[0] }} {{ 'abc'[1] }} {{ {'a': 1}['a'] }} {{ seq.0 }} {{ seq[0.0] }}
{{ cycler('a', 'b').next() }} {{ joiner(', ')() }}| {{ lipsum is defined }} {{ strftime_now is defined }} {{ self is defined }}
{{ 5 | string | int * 2 }} {{ 'a' in 'abc' in ['x'] }} {{ 1 if true }} {{ (1 if false) is defined }}
{{ 'ß'.upper() }} {{ 'İ'.lower() }} {{ 'ǆ'.title() }} {{ 'ΑΣ'.lower() }} {{ 'é' == 'e\u0301' }}
"""
MORE_BLOCKS = [
    "{{ {1: 2, none: 4, 1.5: 5} | tojson }}", "{{ 100000000000000000000 | tojson }}",
    "{% for k, v in {'b': 1, 'a': 2} | dictsort %}{{ k }}{{ v }}{% endfor %}",
    "{% call(x) outer() %}{{ x }}{% endcall %}",
    "{% macro w() %}[{{ caller() }}]{% endmacro %}{% call w() %}in{% endcall %}",
    "{% macro v(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ v(1, 2, b=3) }}",
    "{% macro m(a, b=1) %}{% endmacro %}{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}",
    "{% for x in [[1, [2]], 3] recursive %}{% if x is iterable %}<{{ loop(x) }}>{% else %}{{ x }}{% endif %}{% endfor %}",
    "{% filter upper %}a{{ word }}{% endfilter %}",
    "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}",
    "{% set a, b = b, a %}{{ a is defined }}",
    "{% do seq.append(1) %}", "{{ seq.append(1) }}", "{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}",
    "{% block b %}in{% endblock %}", "{% autoescape true %}{{ '<' }}{% endautoescape %}",
    "{{ ''.__class__ }}", "{{ seq.__len__() }}", "{{ map | attr('a') }}", "{% print(1) %}",
    "{% if true %}{% set x = 1 %}{% endif %}{{ x }}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}",
    "{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in [[1, 2, 3]] %}{% endfor %}",
    "# line\n## comment\n% set x\n", "{%- for i in range(2) -%} {{ i }} {%- endfor -%}",
    "{{ missing.x | default('d') }}", "{{ (missing | default({})).x | default('d') }}",
    "{% set x = [] %}{% for i in seq %}{% set x = x + [i] %}{% endfor %}{{ x }}",
    "{{ [1, 2] | tojson(indent='--') }}", "{{ 1.5 | tojson(indent=none) }}",
    "{{ 'a' | default('b', boolean=true) }}", "{{ '' | default(default_value='b', boolean=true) }}",
    "{{ range(1000000) | length }}", "{{ range(5)[2] }} {{ range(5) }}",
]

VARS = {"seq": [1, 2, 3], "word": "héron", "map": {"a": 1, "b": {"c": "d"}},
        "objs": [{"k": 1, "n": 3}, {"k": 0, "n": 1}, {"n": 2}]}

JSON_VALUES = [
    {"name": "né", "list": [1, 2.0, True, None, "x"], "empty": {}, "none": []},
    ["a\"b", "\\", "/", "\n\t\r\b\f\u0001\u001f\u007f", "\u2028\u2029\ufeff",
     "\U0001f600", "<&>'"],
    [0, -1, 2 ** 53 + 1, 2 ** 63 - 1, -2 ** 63],
    [0.5, -0.0, 1e-7, 1e-5, 1e-4, 123456789.125, 1e15, 1e16, 1e21, 1.1e22,
     3.0, 1.7976931348623157e308, 5e-324, 0.1, 1 / 3, 2.5e-8],
    {"z": {"y": {"x": [[], [[]], {}]}}, "a": [{"b": 1}, {"c": 2}]},
    "text", 5, 2.5, True, None, [], {}, "",
    {"type": "function", "function": {"name": "f", "parameters": {
        "type": "object", "properties": {"q": {"type": "string"}},
        "required": ["q"]}}},
]


def own_cases():
    for line in NEED.strip("\n").split("\n"):
        yield {"source": line, "need": True, "vars": VARS}
    for s in NEED_BLOCKS:
        yield {"source": s, "need": True, "vars": VARS | {
            "messages": [] if "not messages" in s else [U("q"), A("é")]}}
    for s in BROKEN:
        yield {"source": s, "need": True, "vars": {}}
    # One expression at a time: a reader may know some and refuse others.
    for line in MORE.strip("\n").split("\n"):
        for part in line.split("}} "):
            part += "" if part.rstrip("|").endswith("}}") else "}}"
            yield {"source": part, "need": False, "vars": VARS}
    for s in MORE_BLOCKS:
        yield {"source": s, "need": False, "vars": VARS}
    for v in JSON_VALUES:
        yield {"template": "json.jinja", "need": True, "vars": {"value": v}}
    tree = {"name": "root", "kids": [{"name": "a", "kids": [{"name": "b"}]},
                                     {"name": "ç"}]}
    yield {"template": "macros.jinja", "need": True,
           "vars": {"root": tree, "word": "w"}}
    yield {"template": "sets.jinja", "need": True, "vars": {}}
    yield {"template": "sets.jinja", "need": True, "vars": {"x": 0, "y": None}}
    yield {"template": "space.jinja", "need": True, "vars": {}}
    for seq in ([], ["a"], ["a", "b"], ["a", "b", "b", "é"]):
        yield {"template": "loops.jinja", "need": True, "vars": {
            "seq": seq, "skip": "b", "word": "né😀",
            "map": {"k": 1, "j": [2]}}}
    settings = [{"add_generation_prompt": True},
                {"keep": True, "mood": "deep"},
                {"thinking": False, "mood": "sad",
                 "add_generation_prompt": True}]
    for i, (_, messages, tools) in enumerate(conversations()):
        picked = settings[:2] if i % 9 else settings
        for kwargs in picked[i % 2:] if i % 9 else picked:
            text = json.dumps(messages)
            text = text.replace("think>", "))").replace("<))", "((") \
                .replace("</))", "))").replace("<tool_response>", "{{") \
                .replace("</tool_response>", "}}") \
                .replace("\"image\"", "\"picture\"")
            yield {"template": "chat.jinja", "need": True, "vars": {
                "messages": as_template_sees(json.loads(text)),
                "tools": tools} | kwargs}


def own(folder):
    path = folder + "/cases.jsonl"
    n = 0
    with open(path, "w", encoding="utf-8", newline="\n") as f:
        for case in own_cases():
            source = case.get("source")
            if source is None:
                source = open(f"{folder}/{case['template']}",
                              encoding="utf-8", newline="").read()
            case |= render(source, case["vars"])
            assert " at 0x" not in case.get("out", ""), source
            if "vars" in case and not case["vars"]:
                del case["vars"]
            f.write(json.dumps(case, ensure_ascii=False,
                               separators=(",", ":")) + "\n")
            n += 1
    print(f"{path}: {n} cases, {os.path.getsize(path)} bytes")


def note(folder):
    """The entry of manifest.json."""
    path = os.path.dirname(folder) + "/manifest.json"
    man = json.load(open(path)) if os.path.exists(path) else {}
    man["templates"] = {
        "command": "python3 tests/golden/make_templates.py",
        "date": datetime.date.today().isoformat(),
        "implementation": f"transformers {transformers.__version__}, "
                          f"jinja2 {jinja2.__version__}",
        "sha256": {f"templates/{os.path.basename(f)}": hashlib.sha256(
            open(f, "rb").read()).hexdigest()
            for f in sorted(glob.glob(folder + "/*.js*")
                            + glob.glob(folder + "/*.jinja"))}}
    with open(path, "w") as f:
        json.dump(man, f, indent=1)
        f.write("\n")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--real", metavar="DIR")
    a = ap.parse_args()
    if a.real:
        real(a.real)
        return
    own(HERE + "/templates")
    note(HERE + "/templates")


if __name__ == "__main__":
    main()
