#!/usr/bin/env python3
"""Real clients, unchanged, against the embedded model. They are no part of what
a build needs: without the openai package the one test says so and passes."""
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(__file__))
from e2e import check, done, test  # noqa: E402
from serving import Server  # noqa: E402

try:
    import openai
except ImportError:
    openai = None
S = api = None
TOOL = {"type": "function", "function": {
    "name": "get_weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}}}}


def ask(text, **kw):
    return dict(model="demo", messages=[{"role": "user", "content": text}],
                temperature=0, seed=1, max_tokens=200, **kw)


@test
def installed():
    if not openai:
        print("the openai package is not installed; nothing was tried")


if openai:
    @test
    def models():
        check([m.id for m in api.models.list()] == ["demo"])
        check(api.models.retrieve("demo").id == "demo")

    @test
    def chat_and_stream():
        r = api.chat.completions.create(**ask("What is 3 plus 4?"))
        m = r.choices[0].message
        check(m.content and r.usage.completion_tokens > 0, r)
        with api.chat.completions.create(
                **ask("What is 3 plus 4?"), stream=True,
                stream_options={"include_usage": True}) as events:
            got = list(events)
        check("".join(e.choices[0].delta.content or "" for e in got
                      if e.choices) == m.content, got)
        check(got[-1].usage.completion_tokens == r.usage.completion_tokens)
        with api.chat.completions.stream(**ask("What is 3 plus 4?")) as s:
            last = s.get_final_completion()
        check(last.choices[0].message.content == m.content, last)

    @test
    def tools():
        q = "What is the weather in Paris?"
        r = api.chat.completions.create(**ask(q, tools=[TOOL]))
        c = r.choices[0]
        check(c.finish_reason == "tool_calls" and
              c.message.tool_calls[0].function.name == "get_weather", r)
        with api.chat.completions.stream(**ask(q, tools=[TOOL])) as s:
            last = s.get_final_completion()
        check([x.function.arguments for x in
               last.choices[0].message.tool_calls] ==
              [x.function.arguments for x in c.message.tool_calls], last)

    @test
    def logprobs():
        r = api.chat.completions.create(
            **ask("Hi", logprobs=True, top_logprobs=3))
        lp = r.choices[0].logprobs.content
        check(len(lp) == r.usage.completion_tokens and
              all(len(e.top_logprobs) == 3 for e in lp), r)
        r = api.completions.create(model="demo", prompt="Anna has 3 apples.",
                                   max_tokens=0, echo=True, logprobs=1)
        lp = r.choices[0].logprobs
        check(lp.token_logprobs[0] is None and len(lp.token_logprobs) ==
              r.usage.prompt_tokens, r)

    @test
    def errors():
        try:
            api.chat.completions.create(**{**ask("Hi"), "temperature": 5})
            check(False, "it was taken")
        except openai.BadRequestError as e:
            check(e.param == "temperature" and e.code == "invalid_value", e)
        try:
            api.models.retrieve("other")
            check(False, "it was found")
        except openai.NotFoundError as e:
            check(e.code == "model_not_found", e)

if openai:
    S = Server("--max-model-len", "2048", model="demo")
    api = openai.OpenAI(base_url=f"http://127.0.0.1:{S.port}/v1",
                        api_key="none")
try:
    done()
finally:
    if S:
        S.stop(signal.SIGKILL)
