#!/usr/bin/env python3
"""Real clients, unchanged, against the embedded model. They are no part of what
a build needs: each is skipped, and says so, where it is not installed beside
the Python that runs this or on the PATH."""
import functools
import http.server
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.dirname(__file__))
from e2e import check, done, test  # noqa: E402
from serving import LIMIT_S, Server  # noqa: E402

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


PATH = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
TOOLS = {name: shutil.which(name, path=PATH)
         for name in ("vllm", "lm_eval", "guidellm", "llama-benchy")}
DEMO = os.path.abspath("models/demo")
TASKS = {
    "demo_choice": """task: demo_choice
dataset_path: json
dataset_kwargs: {data_files: {test: DIR/data.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: "Question: {{question}}\\nAnswer:"
doc_to_choice: ["7", "8", "no apples", "it rains in Paris"]
doc_to_target: 0
metric_list: [{metric: acc}, {metric: acc_norm}]
""",
    "demo_until": """task: demo_until
dataset_path: json
dataset_kwargs: {data_files: {test: DIR/data.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{question}}"
doc_to_target: "7"
generation_kwargs: {until: ["\\n\\n", "###"], max_gen_toks: 20, temperature: 0}
metric_list: [{metric: exact_match}]
"""}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@test
def installed():
    for name, there in {"openai": openai, **TOOLS}.items():
        if not there:
            print(f"{name} is not installed: not tried")


def tool(name, *argv, cwd):
    """Run it to its end; what it printed."""
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "OPENAI_API_KEY": "none",
           "HF_DATASETS_CACHE": cwd, "PATH": PATH}
    p = subprocess.run([TOOLS[name], *argv], cwd=cwd, env=env,
                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, timeout=LIMIT_S)
    text = p.stdout.decode("utf-8", "replace")
    check(p.returncode == 0, text[-3000:])
    return text


if TOOLS["vllm"]:
    @test
    def vllm_bench_serve():
        """Both backends: nothing fails, and as many tokens as asked for."""
        for backend, path in (("openai", "/v1/completions"),
                              ("openai-chat", "/v1/chat/completions")):
            with tempfile.TemporaryDirectory() as d:
                tool("vllm", "bench", "serve", "--backend", backend,
                     "--base-url", f"http://127.0.0.1:{S.port}", "--endpoint",
                     path, "--model", "demo", "--tokenizer", DEMO,
                     "--dataset-name", "random", "--random-input-len", "64",
                     "--random-output-len", "16", "--num-prompts", "20",
                     "--max-concurrency", "8", "--ignore-eos", "--save-result",
                     "--result-dir", d, "--result-filename", "r.json", cwd=d)
                r = json.loads(pathlib.Path(d, "r.json").read_text())
            check(r["completed"] == 20 and r["total_output_tokens"] == 320 and
                  r["mean_ttft_ms"] > 0, r)


if TOOLS["lm_eval"]:
    @test
    def lm_eval():
        """A task of each kind: by log-likelihood, and generated, as completions
        and as chats."""
        url = f"http://127.0.0.1:{S.port}/v1"
        with tempfile.TemporaryDirectory() as d:
            for name, text in TASKS.items():
                pathlib.Path(d, name + ".yaml").write_text(
                    text.replace("DIR", d))
            pathlib.Path(d, "data.jsonl").write_text("".join(
                json.dumps({"question": f"What is {i} plus {7 - i}?"}) + "\n"
                for i in range(8)))
            for model, path, task, more in (
                    ("local-completions", "completions", "demo_choice", []),
                    ("local-completions", "completions", "demo_until", []),
                    ("local-chat-completions", "chat/completions",
                     "demo_until", ["--apply_chat_template"])):
                args = (f"model=demo,base_url={url}/{path},num_concurrent=4,"
                        f"max_retries=1,tokenizer={DEMO},max_length=2048")
                text = tool("lm_eval", "--model", model, "--model_args", args,
                            "--tasks", task, "--include_path", d, *more, cwd=d)
                check(task in text and "|" in text, text[-2000:])


if TOOLS["guidellm"]:
    @test
    def guidellm():
        with tempfile.TemporaryDirectory() as d:
            tool("guidellm", "run", "--disable-console-interactive",
                 "--backend", "kind=openai_http,model=demo,target="
                 f"http://127.0.0.1:{S.port}", "--profile",
                 "kind=concurrent,streams=4", "--constraint",
                 "kind=max_requests,count=12", "--tokenizer",
                 f"kind=huggingface_auto,model={DEMO}", "--data",
                 "kind=synthetic_text,prompt_tokens=64,output_tokens=16",
                 "--output", f"kind=json,path={d}/r.json", cwd=d)
            r = json.loads(pathlib.Path(d, "r.json").read_text())
            r = r["benchmarks"][0]
        made = r["metrics"]["request_totals"]
        check(made["successful"] == 12 and made["errored"] == 0, made)


if TOOLS["llama-benchy"]:
    @test
    def llama_benchy():
        with tempfile.TemporaryDirectory() as d:
            pathlib.Path(d, "book.txt").write_text("It rains in Paris. " * 4000)
            make = functools.partial(Quiet, directory=d)
            with http.server.ThreadingHTTPServer(("127.0.0.1", 0), make) as h:
                threading.Thread(target=h.serve_forever, daemon=True).start()
                text = tool("llama-benchy", "--base-url",
                            f"http://127.0.0.1:{S.port}/v1", "--model", "demo",
                            "--tokenizer", DEMO, "--pp", "128", "--tg", "16",
                            "--runs", "2", "--skip-coherence",
                            "--book-url",
                            f"http://127.0.0.1:{h.server_port}/book.txt", cwd=d)
                h.shutdown()
        check("pp128" in text and "tg16" in text, text[-2000:])


if openai:
    @test
    def models():
        check([m.id for m in api.models.list()][0] == "demo")
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

if openai or any(TOOLS.values()):
    S = Server("--max-model-len", "2048", model="demo")
if openai:
    api = openai.OpenAI(base_url=f"http://127.0.0.1:{S.port}/v1",
                        api_key="none")
try:
    done()
finally:
    if S:
        S.stop(signal.SIGKILL)
