#!/usr/bin/env python3
"""Every field of a completion or a chat: right values, wrong types, values out
of range, and that an accepted one is honoured. The rows of `ROWS` are those of
the guide to the wire; a field that has no row here is not known and ignored."""
import json
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(__file__))
from e2e import check, done, test  # noqa: E402
from serving import KEY, Server  # noqa: E402

C, P = "/v1/chat/completions", "/v1/completions"
HI = [{"role": "user", "content": "hello"}]
S = None

# What a reader of each type refuses. null is never refused.
NOT_INT = [1.5, "x", True, [1], {}, "1.5", "nan"]
NOT_NUM = ["x", True, [1], {}, "nan", "inf"]
NOT_BOOL = [0, 1, "true", [True], {}]
NOT_STR = [1, True, ["a"], {}]
NOT_OBJ = [1, "x", True, [1]]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}
CALL = {"type": "function", "function": {"name": "f"}}


def chat(**kw):
    return {"messages": HI, "max_tokens": 2, "seed": 7, **kw}


def text(**kw):
    return {"prompt": "hello", "max_tokens": 2, "seed": 7, **kw}


class Row:
    """on: the endpoints. good: accepted. bad: refused with 400, this field as
    `param` (or as the beginning of it) and its name in the message. alone:
    fields that a good value needs beside it."""

    def __init__(self, name, on, good, bad, **alone):
        self.name, self.on, self.alone = name, on, alone
        self.good, self.bad = good, bad


def ints(lo, hi, good=(), bad=()):
    return [lo, str(lo), float(lo), hi, *good], [lo - 1, hi + 1, *NOT_INT, *bad]


def nums(lo, hi, good=(), bad=()):
    return [lo, str(lo), hi, (lo + hi) / 2, *good], [lo - 0.01, hi + 0.01,
                                                      *NOT_NUM, *bad]


CP = (C, P)
BOOL = ([True, False], NOT_BOOL)
SORRY = ([], [1, "x", True, {}, []])
ROWS = [
    # core
    Row("model", CP, ["org/tiny", "alias", ""], NOT_STR),
    Row("messages", (C,), [HI, HI + HI],
        [[], 1, "x", {}, [1], [{}], [{"role": "x", "content": "y"}],
         [{"role": 1, "content": "y"}]]),
    Row("prompt", (P,), ["a", ["a", "b"], [5, 6], [[5], [6, 7]], ["5"]],
        ["", [], [[]], 1, {}, True, ["a", 1], [1, "a"], [[1], "a"], [1.5],
         [True], [-1], [10 ** 9]]),
    Row("max_tokens", (P,), [1, "1", 1.0, 16], [0, -1, *NOT_INT, 2 ** 31]),
    Row("max_tokens", (C,), [1, "1", 1.0, 16], [0, -1, *NOT_INT, 2 ** 31]),
    Row("max_completion_tokens", CP, [1, "1", 1.0, 16],
        [-1, *NOT_INT, 2 ** 31]),
    Row("min_tokens", CP, [0, 1, 2, "2", 2.0], [-1, 3, *NOT_INT]),
    Row("n", CP, [1, 2, "2", 2.0], [0, -1, 129, *NOT_INT]),
    Row("best_of", CP, [1, "1"], [2, 0, *NOT_INT]),
    Row("use_beam_search", CP, [False], [True, *NOT_BOOL]),
    Row("length_penalty", CP, [1.0, 1], [0.5, 2, *NOT_NUM]),
    Row("stream", CP, [False], NOT_BOOL),
    Row("stream_options", CP, [], [{}, {"include_usage": True}, *NOT_OBJ]),
    Row("seed", CP, [-1, 0, 7, "7", 7.0, 2 ** 63 - 1, -2 ** 63],
        [1e19, *NOT_INT]),
    Row("user", CP, ["u", 1, {}], []),
    Row("metadata", CP, [{}, 1], []),
    Row("store", CP, [True, "x"], []),
    Row("service_tier", CP, ["auto", 1], []),
    Row("safety_identifier", CP, ["x", 1], []),
    Row("prompt_cache_key", CP, ["x", 1], []),
    Row("prediction", CP, [{}, "x"], []),
    Row("verbosity", CP, ["low"], []),
    Row("modalities", CP, [["text"]], []),
    Row("priority", CP, [0, 1, -1, "3", 3.0], [2 ** 31, -2 ** 31 - 1, *NOT_INT]),
    Row("request_id", CP, ["a", "x" * 128, "a.b:c/d"],
        ["", "x" * 129, "a\n", "a b", "\u00e9", 'a"', *NOT_STR]),
    Row("cache_salt", CP, ["s"], ["", "a\u0000b", *NOT_STR]),
    Row("cache_prompt", CP, *BOOL),
    Row("timeout", CP, [60, "60", 1e9], [0, -1, 1e10, *NOT_NUM]),
    Row("deadline_ms", CP, [60000, "60000"], [0, -1, 1e13, *NOT_NUM]),
    Row("truncate_prompt_tokens", CP, [1, -1, "2", 3.0, 510],
        [0, -2, 511, *NOT_INT]),
    Row("truncation_side", CP, ["left", "right"], ["x", "", *NOT_STR]),
    # sampling
    Row("temperature", CP, *nums(0, 2, ["0.5"])),
    Row("top_p", CP, [1, 0.1, "0.5"], [0, -0.1, 1.01, *NOT_NUM]),
    Row("top_k", CP, [-1, 0, 1, "5", 5.0, 2 ** 31 - 1], [-2, *NOT_INT]),
    Row("min_p", CP, *nums(0, 1)),
    Row("presence_penalty", CP, *nums(-2, 2)),
    Row("frequency_penalty", CP, *nums(-2, 2)),
    Row("repetition_penalty", CP, [1, 1.0, "1.2", 0.5], [0, -1, *NOT_NUM]),
    Row("logit_bias", CP, [{}, {"1": 5}, {"1": "-3.5", "2": 1000}],
        [{"a": 1}, {"-1": 1}, {"1.5": 1}, {"1": "x"}, {"1": True},
         {"99999999": 1}, *NOT_OBJ]),
    Row("allowed_token_ids", CP, [[1, 2, 3], ["4"]],
        [[], ["a"], [-1], [1.5], [10 ** 9], 1, "x", {}]),
    Row("bad_words", CP, [[], ["x"], ["a word"]], [[""], [1], "x", 1, {}]),
    Row("stop_token_ids", CP, [[], [1], ["2"]], [1, ["a"], [-1], [1.5], "x"]),
    Row("ignore_eos", CP, *BOOL),
    Row("logits_processors", CP, *SORRY),
    Row("repetition_detection", CP, *SORRY),
    Row("thinking_token_budget", CP, [-1, 0, 5, "5", 5.0], [-2, *NOT_INT]),
    # stopping
    Row("stop", CP, ["x", ["x", None], [], ["s"] * 64],
        ["", [""], 1, {}, [1], ["s"] * 65, "x" * 4097, "a\u0000"]),
    Row("include_stop_str_in_output", CP, *BOOL),
    # log-probabilities
    Row("logprobs", (C,), *BOOL),
    Row("top_logprobs", (C,), [0, 1, 20, "3", 3.0], [-1, 21, *NOT_INT],
        logprobs=True),
    Row("logprobs", (P,), [0, 1, 20, "3", 3.0], [-1, 21, *NOT_INT]),
    Row("prompt_logprobs", CP, [0, 1, 20, "3", 3.0], [-1, -2, 21, *NOT_INT]),
    Row("echo", (P,), *BOOL),
    Row("echo", (C,), [False], [True, *NOT_BOOL]),
    Row("logprob_token_ids", CP, *SORRY),
    Row("return_tokens_as_token_ids", CP, *BOOL),
    Row("return_token_ids", CP, *BOOL),
    Row("skip_special_tokens", CP, *BOOL),
    Row("spaces_between_special_tokens", CP, *BOOL),
    # chat
    Row("add_generation_prompt", (C,), *BOOL),
    Row("continue_final_message", (C,), [False], [True, *NOT_BOOL]),
    Row("chat_template", (C,), *SORRY),
    Row("chat_template_kwargs", (C,), [{}, {"enable_thinking": False}],
        NOT_OBJ),
    Row("enable_thinking", (C,), *BOOL),
    Row("reasoning_effort", (C,), ["none", "minimal", "low", "medium", "high",
                                   "xhigh", "max"], ["x", "", *NOT_STR]),
    Row("reasoning", (C,), [{}, {"effort": "low"}, {"effort": None}], NOT_OBJ),
    Row("include_reasoning", (C,), *BOOL),
    Row("documents", (C,), [[], 1], []),
    Row("mm_processor_kwargs", (C,), [{}], []),
    Row("media_io_kwargs", (C,), [{}], []),
    Row("add_special_tokens", CP, *BOOL),
    # tools and structure
    Row("tools", (C,), [[TOOL], [CALL]],
        [[], 1, "x", {}, [1], [{}], [{"type": "x"}], [{"type": "function"}],
         [{"type": "function", "function": {}}],
         [{"type": "function", "function": {"name": ""}}],
         [{"type": "function", "function": {"name": "f", "parameters": 1}}],
         [TOOL, TOOL]]),
    Row("tool_choice", (C,),
        ["none", "auto", "required",
         {"type": "function", "function": {"name": "f"}},
         {"type": "function", "name": "f"}],
        ["x", "", 1, {}, {"type": "function"}], tools=[TOOL]),
    Row("tool_choice", (C,), ["none"], ["auto", "required"]),
    Row("parallel_tool_calls", (C,), *BOOL),
    Row("functions", (C,), *SORRY),
    Row("function_call", (C,), *SORRY),
    Row("response_format", CP,
        [{"type": "text"}, {"type": "json_object"},
         {"type": "json_object", "schema": {"type": "array"}},
         {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}],
        [{"type": "json_schema"}, {"type": "x"}, {}, {"type": 1},
         {"type": "json_schema", "json_schema": {}},
         {"type": "json_schema", "json_schema": {"schema": 1}},
         {"type": "json_schema", "json_schema": {"schema": {"not": {}}}},
         *NOT_OBJ]),
    Row("structured_outputs", CP,
        [{"json": {}}, {"json": '{"type": "null"}'}, {"regex": "a"},
         {"choice": ["a", "b"]}, {"grammar": 'root ::= "a"'},
         {"json_object": True}, {"json": None, "regex": "a"},
         {"regex": "a", "disable_any_whitespace": False}],
        [{}, {"regex": "a", "nonsense": 1}, {"regex": "a", "nonsense": None},
         {"regex": "a", "disable_any_whitespace": True}, {"json": {}, "regex": "a"}, {"structural_tag": {}}, {"regex": 1},
         {"regex": "("}, {"choice": []}, {"choice": "a"}, {"choice": [1]},
         {"grammar": ""}, {"json": 1}, {"json_object": False}, *NOT_OBJ]),
    Row("guided_json", CP, [{}, {"type": "null"}, "{}"], [1, "x", [], "[]"]),
    Row("json_schema", CP, [{}, {"type": "null"}], [1, "x", []]),
    Row("guided_regex", CP, ["a|b"], ["(", "\\1", *NOT_STR]),
    Row("guided_choice", CP, [["a"]], [[], [1], "a", 1, {}]),
    Row("guided_grammar", CP, ['root ::= "a"'], ["", "x", *NOT_STR]),
    Row("grammar", CP, ["", 'root ::= "a"'], ["x", 'a ::= "b"', *NOT_STR]),
    Row("structural_tag", CP, *SORRY),
    Row("suffix", (P,), *SORRY),
]


def body_of(path, row, value):
    make = chat if path == C else text
    return make(**{**row.alone, row.name: value})


@test
def right_values():
    for row in ROWS:
        for path in row.on:
            for value in row.good:
                r = S.post(path, body_of(path, row, value))
                check(r["choices"], (row.name, value, r))
            # null is absent, also where a value is required.
            if row.name not in ("prompt", "messages"):
                S.post(path, body_of(path, row, None))


def wrong_with(row, status, e):
    """What is not right about a refusal, or nothing."""
    if status != 400:
        return f"status {status}"
    if list(e) != ["message", "type", "param", "code"]:
        return "keys"
    if e["type"] != "invalid_request_error":
        return "type"
    if e["code"] not in (None, "invalid_value", "invalid_type"):
        return "code"
    if not str(e["param"]).startswith(row.name):
        return "param"
    return "" if row.name in e["message"] else "message"


@test
def wrong_values():
    bad = []
    for row in ROWS:
        for path in row.on:
            for value in row.bad:
                r, data = S.ask("POST", path, body_of(path, row, value))
                e = json.loads(data).get("error")
                why = wrong_with(row, r.status, e)
                if why:
                    bad.append((why, path, row.name, str(value)[:60], e))
    check(not bad, "\n".join(map(str, bad)))


@test
def places_of_errors():
    """`param` is where in the body the fault is."""
    def m(*more, **kw):
        return dict(messages=[*HI, *more], **kw)

    def one_tool(**kw):
        return m(tools=[TOOL, {"type": "function", "function": kw}])

    image = {"role": "user", "content": [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "x"}}]}
    call = {"role": "assistant", "tool_calls": [{"id": "a"}]}
    for body, param in (
            (m(image), "messages[1].content[1].type"),
            (m({"role": "user", "content": [{"text": 1}]}),
             "messages[1].content[0].text"),
            (m({"role": "user", "content": [1]}), "messages[1].content[0]"),
            (m({"role": "user", "content": [{}]}),
             "messages[1].content[0].type"),
            (m({"role": "user", "content": 1}), "messages[1].content"),
            (m({"role": "x"}), "messages[1].role"),
            (m(1), "messages[1]"),
            (m(call), "messages[1].tool_calls[0].function.name"),
            (m({"role": "assistant", "tool_calls": 1}),
             "messages[1].tool_calls"),
            (one_tool(name=""), "tools[1].function.name"),
            (one_tool(name="f"), "tools[1].function.name"),
            (one_tool(name="g", parameters=1), "tools[1].function.parameters"),
            (one_tool(name="g", parameters={"type": "object", "properties": {
                "a": {"pattern": "("}}}, strict=True),
             "tools[1].function.parameters"),
            (m(tools=[TOOL, {"type": "function", "function": {
                "name": "a>"}}], tool_choice="required"),
             "tools[1].function.name"),
            (m(tools=[TOOL], tool_choice="auto", response_format={
                "type": "json_schema", "json_schema": {
                    "schema": {"type": "x"}}}),
             "response_format.json_schema.schema"),
            (m(tools=[1]), "tools[0]"),
            (m(tools=[{"type": "x"}]), "tools[0].type"),
            (m(tools=[{"type": "function"}]), "tools[0].function"),
            (m(tools=[TOOL], tool_choice={"type": "x"}), "tool_choice.type"),
            (m(tools=[TOOL], tool_choice={"type": "function", "function": {
                "name": "g"}}), "tool_choice.function.name"),
            (m(reasoning={"effort": "x"}), "reasoning.effort"),
            (m(response_format={"type": "x"}), "response_format.type"),
            (m(response_format={}), "response_format.type"),
            (m(response_format={"type": "json_schema", "json_schema": {
                "schema": {"type": "x"}}}),
             "response_format.json_schema.schema"),
            (m(structured_outputs={"choice": ["a", 1]}),
             "structured_outputs.choice[1]"),
            (m(structured_outputs={"x": 1}), "structured_outputs.x"),
            (m(structured_outputs={"regex": "a", "json_object": 1}),
             "structured_outputs.json_object"),
            (m(chat_template_kwargs={"add_generation_prompt": 1}),
             "chat_template_kwargs.add_generation_prompt"),
            (m(continue_final_message=True, add_generation_prompt=False),
             "continue_final_message"),
            (m(stop=["a", ""]), "stop[1]"),
            (m(stop_token_ids=[1, "x"]), "stop_token_ids[1]"),
            (m(allowed_token_ids=[1, 10 ** 8]), "allowed_token_ids[1]"),
            (m(logit_bias={"1": 0, "100000000": 1}), "logit_bias.100000000"),
            (m(logit_bias={"05": 1}), "logit_bias.05"),
            (m(logit_bias={"+5": 1}), "logit_bias.+5"),
            (m(bad_words=["a", 1]), "bad_words[1]"),
            (dict(prompt=[1, 10 ** 8]), "prompt[1]"),
            (dict(prompt=[1, "x"]), "prompt[1]"),
            (dict(prompt=[[1], [2, 10 ** 8]]), "prompt[1][1]"),
            (dict(prompt=["a", []]), "prompt[1]")):
        S.refused(P if "prompt" in body else C, {"max_tokens": 2, **body}, 400,
                  param=param, words=[param.split(".")[0].split("[")[0]])
    S.refused("/detokenize", {"tokens": [1, 10 ** 8]}, 400, param="tokens[1]")
    S.refused("/tokenize", m(image), 400, param="messages[1].content[1].type")


@test
def options_of_streams():
    for path, make in ((C, chat), (P, text)):
        for key in ("include_usage", "continuous_usage_stats"):
            for value in NOT_BOOL:
                S.refused(path, make(stream=True, stream_options={key: value}),
                          400, param=f"stream_options.{key}")
            S.stream(path, make(stream_options={key: None}))
        events = S.stream(path, make(stream_options={
            "include_usage": True, "continuous_usage_stats": True}))
        check(all(e["usage"]["total_tokens"] for e in events) and
              not events[-1]["choices"], events)


@test
def not_json():
    for path in (C, P):
        for body in ("", "[1]", "{", '{"prompt": "a"} x', "nul", '"x"',
                     '{"prompt": "a", "temperature": NaN}',
                     '{"prompt": "a", "temperature": Infinity}',
                     '{"prompt":' + "[" * 200 + "]" * 200 + "}",
                     '{"prompt": "a", "seed": 9223372036854775808}',
                     '{"seed": 1' + "0" * 400 + "}", '{"prompt": "\xff"}'):
            S.refused(path, body.encode("latin-1"), 400)


@test
def numbers_beyond_64_bits():
    """Where nobody reads them they do not matter."""
    for n in ("18446744073709551616", "-9223372036854775809", "1" + "0" * 400,
              "-1e999", "123456789" * 30, "1.5E+400"):
        for path, body in ((P, '"prompt": "a"'),
                           (C, '"messages": [{"role": "user", "content": "a"}],'
                               '"chat_template_kwargs": {"x": %s}' % n)):
            raw = '{%s, "max_tokens": 1, "metadata": [%s], "x":%s}' % (
                body, n, n)
            S.post(path, raw)
            for key in ("seed", "top_k", "temperature"):
                S.refused(path, raw.replace('"x":', f'"{key}":'), 400,
                          param=key)
    for n in ("9223372036854775807", "-9223372036854775808"):
        S.post(P, '{"prompt": "a", "max_tokens": 1, "seed": %s}' % n)


@test
def request_ids():
    for path, prefix in ((C, "chatcmpl-"), (P, "cmpl-")):
        make = chat if path == C else text
        r, data = S.ask("POST", path, make(request_id="mine"))
        check(r.getheader("X-Request-Id") == "mine", r.headers)
        check(json.loads(data)["id"] == prefix + "mine", data)
        r, data = S.ask("POST", path, make(request_id="mine"),
                        {**KEY, "X-Request-Id": "head"})
        check(r.getheader("X-Request-Id") == "head", r.headers)
        check(json.loads(data)["id"] == prefix + "head", data)
        events = S.stream(path, make(request_id="mine"))
        check(all(e["id"] == prefix + "mine" for e in events), events)


@test
def cache_is_asked_or_not():
    ids = [(7 * i) % 900 for i in range(200)]
    r = S.post(P, text(prompt=ids, max_tokens=20, ignore_eos=True,
                       return_token_ids=True))
    ids += r["choices"][0]["token_ids"]

    def cached(**kw):
        r = S.post(P, text(prompt=ids, max_tokens=3, **kw))
        got = r["usage"]["prompt_tokens_details"]["cached_tokens"]
        return got, r["choices"][0]["text"]

    cold = cached(cache_prompt=False)
    check(cold[0] == 0, cold)
    for kw in ({"cache_salt": "a"}, {"cache_salt": "b"}):
        check(cached(**kw) == cold, kw)
    warm = cached()
    check(warm[0] > 200 and warm[1] == cold[1], (warm, cold))
    # What one tenant has read is there for the same one.
    S.post(P, text(prompt=ids[:200], max_tokens=20, ignore_eos=True,
                   cache_salt="a"))
    warm = cached(cache_salt="a")
    check(warm[0] > 200 and warm[1] == cold[1], (warm, cold))
    check(cached(cache_salt="b") == cold and cached(cache_prompt=False) == cold, cold)


@test
def masks():
    r = S.post(P, text(max_tokens=20, ignore_eos=True, temperature=1,
                       allowed_token_ids=[100, 200, 300],
                       return_token_ids=True))["choices"][0]
    check(set(r["token_ids"]) <= {100, 200, 300}, r)
    r = S.post(P, text(max_tokens=20, temperature=1, ignore_eos=True,
                       logit_bias={"100": 100}, return_token_ids=True))
    check(r["choices"][0]["token_ids"] == [100] * 20, r)
    # A word that would come does not.
    full = S.post(P, text(max_tokens=30, ignore_eos=True, temperature=0,
                          logprobs=0))["choices"][0]["logprobs"]["tokens"]
    word = next(t for t in full if t.strip() and "\ufffd" not in t)
    r = S.post(P, text(max_tokens=30, ignore_eos=True, temperature=0,
                       logprobs=0, bad_words=[word]))["choices"][0]
    check(full != r["logprobs"]["tokens"] and
          word not in r["logprobs"]["tokens"], (word, r))


@test
def masks_that_leave_nothing():
    """The request is wrong, not the server."""
    word = S.post("/tokenize", {"prompt": "a"})["tokens"]
    end = S.post("/tokenize", {"prompt": "<|im_end|>"})["tokens"]
    check(len(word) == len(end) == 1, (word, end))
    kw = dict(max_tokens=4, temperature=1)
    for body in (dict(allowed_token_ids=word, bad_words=["a"]),
                 dict(allowed_token_ids=end, stop_token_ids=end,
                      min_tokens=1)):
        for stream in (False, True):
            S.refused(P, text(**body, **kw, stream=stream), 400,
                      param="allowed_token_ids", code="invalid_value",
                      words=["min_tokens"])
    # What only drawing shows: the second token, and shapes.
    for body in (dict(allowed_token_ids=word + end, bad_words=["aa"],
                      stop_token_ids=end, min_tokens=2),
                 dict(allowed_token_ids=word, guided_regex="[b-z]")):
        S.refused(P, text(**body, **kw), 400, code="invalid_value",
                  words=["allowed_token_ids", "bad_words"])
        e = S.stream(P, text(**body, **kw))[-1]["error"]
        check(e["type"] == "invalid_request_error", e)
    check(S.metric("vllm:corrupted_requests_total") == 0, "corrupted")


@test
def special_tokens_shown():
    end = S.post("/tokenize", {"prompt": "<|im_end|>"}, headers={})["tokens"]
    check(len(end) == 1, end)
    kw = dict(max_tokens=3, ignore_eos=True, allowed_token_ids=end)
    check(S.post(P, text(**kw))["choices"][0]["text"] == "", "skipped")
    r = S.post(P, text(skip_special_tokens=False, **kw))["choices"][0]
    check(r["text"] == "<|im_end|>" * 3, r)
    # As a stop id it ends the answer, and is shown only when asked for.
    kw["stop_token_ids"] = end
    r = S.post(P, text(**kw, skip_special_tokens=False))["choices"][0]
    check((r["text"], r["finish_reason"], r["stop_reason"]) ==
          ("", "stop", end[0]), r)
    r = S.post(P, text(**kw, skip_special_tokens=False,
                       include_stop_str_in_output=True))["choices"][0]
    check(r["text"] == "<|im_end|>" and r["stop_reason"] == end[0], r)


@test
def offsets_of_tokens():
    """text_offset is where in the text a token begins: special tokens are not
    in it, half characters are, and a prompt may be of one token."""
    ids = S.post("/tokenize", {"prompt": "<|im_end|>a \u00e9"})["tokens"]
    half = [0x80 + 50, 0x80 + 60]
    for kw in (dict(allowed_token_ids=ids), dict(allowed_token_ids=half + ids),
               dict(allowed_token_ids=ids, stop=["aaa", "a \u00e9a"])):
        body = text(prompt=ids[1:2], max_tokens=30, ignore_eos=True, echo=True,
                    temperature=2, logprobs=0, **kw)
        r = S.post(P, body)["choices"][0]
        lp, t = r["logprobs"], r["text"]
        check(lp["tokens"][0] == t[0] == "a" and lp["text_offset"][0] == 0, r)
        ends = lp["text_offset"][1:] + [len(t)]
        for token, at, end in zip(lp["tokens"], lp["text_offset"], ends):
            check(token == "<|im_end|>" and at == end or
                  "\ufffd" in token + t[at:end] or
                  token.startswith(t[at:end]), (token, at, end, r))
        got = {k: [] for k in lp}
        for e in S.stream(P, body):
            for k, v in e["choices"][0]["logprobs"].items():
                got[k] += v
        check(got == lp, (got, lp))


@test
def stop_texts():
    kw = dict(max_tokens=40, ignore_eos=True, temperature=0)
    full = S.post(P, text(**kw))["choices"][0]["text"]
    at = next(i for i in range(4, len(full) - 4)
              if full.index(full[i:i + 3]) == i and "\ufffd" not in
              full[i:i + 3])
    stop = full[at:at + 3]
    r = S.post(P, text(**kw, stop=["never seen", stop]))
    c = r["choices"][0]
    check((c["text"], c["stop_reason"]) == (full[:at], stop), (c, full))
    n = r["usage"]["completion_tokens"]
    c = S.post(P, text(**kw, stop=stop, include_stop_str_in_output=True))
    check(c["choices"][0]["text"] == full[:at + 3], (c, full))
    check(c["usage"]["completion_tokens"] == n, (c, n))
    # The one that ends first, whatever begins first.
    long = full[at - 2:at + 4]
    c = S.post(P, text(**kw, stop=[long, stop]))["choices"][0]
    check((c["text"], c["stop_reason"]) == (full[:at], stop), (c, full))
    # Not before the minimum, and without it as before.
    c = S.post(P, text(**kw, stop=stop, min_tokens=40))["choices"][0]
    check((c["text"], c["finish_reason"]) == (full, "length"), c)
    events = S.stream(P, text(**kw, stop=stop))
    check("".join(e["choices"][0]["text"] for e in events) == full[:at],
          events)


@test
def truncation():
    ids = list(range(10, 60))
    for side, want in (("left", ids[-5:]), ("right", ids[:5])):
        r = S.post(P, text(prompt=ids, truncate_prompt_tokens=5,
                           truncation_side=side, return_token_ids=True))
        check(r["choices"][0]["prompt_token_ids"] == want, r)
    events = S.stream(P, text(prompt=ids, return_token_ids=True))
    check(events[0]["choices"][0]["prompt_token_ids"] == ids, events[0])
    check(all("prompt_token_ids" not in e["choices"][0]
              for e in events[1:]), events)


@test
def truncation_may_take_the_think_tag():
    kw = dict(enable_thinking=True, max_tokens=4, ignore_eos=True)
    for keep, side, thinks in ((3, "right", False), (3, "left", True)):
        m = S.post(C, chat(truncate_prompt_tokens=keep, truncation_side=side,
                           **kw))
        n = m["usage"]["completion_tokens_details"]["reasoning_tokens"]
        check(n == (4 if thinks else 0), m)


@test
def thinking_is_cut():
    def ask(**kw):
        r = S.post(C, chat(max_tokens=30, temperature=1, ignore_eos=True,
                           logprobs=True, return_token_ids=True,
                           chat_template_kwargs={"enable_thinking": True},
                           **kw))
        return r["choices"][0], r["usage"]["completion_tokens_details"]

    close = S.post("/tokenize", {"prompt": "\n</think>\n\n"})["tokens"]
    free, usage = ask()
    check(usage["reasoning_tokens"] == 30, free)
    for budget in (0, 3, 10):
        c, usage = ask(thinking_token_budget=budget)
        ids = c["token_ids"]
        check(ids[:budget] == free["token_ids"][:budget], (ids, free))
        check(ids[budget:budget + len(close)] == close, (ids, close))
        check(len(ids) == 30 and len(c["logprobs"]["content"]) == 30, c)
        check(usage["reasoning_tokens"] <= budget + len(close), usage)
        check(all(e["logprob"] < 0 for e in c["logprobs"]["content"]), c)
        check("think>" not in c["message"]["content"] and
              c["message"]["content"], c)
    check(ask(thinking_token_budget=-1)[0] == free, "no budget")


@test
def keys_that_look_alike():
    """Half characters are one key of an object; no key comes twice."""
    _, data = S.ask("POST", P, text(max_tokens=40, ignore_eos=True,
                                    temperature=2, logprobs=20))

    def once(pairs):
        keys = [k for k, _ in pairs]
        check(len(set(keys)) == len(keys), keys)
        return dict(pairs)

    lp = json.loads(data, object_pairs_hook=once)["choices"][0]["logprobs"]
    for t, v, top in zip(lp["tokens"], lp["token_logprobs"],
                         lp["top_logprobs"]):
        check(top[t] >= v, (t, v, top))


S = Server("--api-key", "secret", "--served-model-name", "org/tiny,alias")
try:
    done()
finally:
    S.stop(signal.SIGKILL)
