"use strict";
/* The page of a Sluice server: a chat over its own API, and what it is doing.
 * What a model says is put into the page as text only. */

const $ = (id) => document.getElementById(id);
const fields = ["system", "tools", "temperature", "max", "key", "think"];
let talk = [];      /* messages, as the API takes them */
let running = null; /* the AbortController of the answer that comes */

/* ---- what is kept over a reload */

function load() {
  try {
    const kept = JSON.parse(localStorage.getItem("sluice") || "{}");
    talk = Array.isArray(kept.talk) ? kept.talk : [];
    for (const f of fields)
      if (kept[f] !== undefined)
        $(f).type === "checkbox" ? ($(f).checked = kept[f])
                                 : ($(f).value = kept[f]);
  } catch (e) {
    talk = [];
  }
}

function save() {
  const kept = { talk };
  for (const f of fields)
    if (f !== "key")
      kept[f] = $(f).type === "checkbox" ? $(f).checked : $(f).value;
  try {
    localStorage.setItem("sluice", JSON.stringify(kept));
  } catch (e) {
    $("status").textContent = "The browser keeps nothing: " + e.message;
  }
}

/* ---- the conversation on the page */

function add(parent, tag, cls, text) {
  const e = document.createElement(tag);
  if (cls) e.className = cls;
  if (text) e.textContent = text;
  parent.append(e);
  return e;
}

/* The parts of one answer, made when they are first needed. */
function view(role) {
  const box = add($("log"), "article", role);
  const parts = {};
  const part = (name, make) => parts[name] || (parts[name] = make());
  return {
    box,
    reasoning(text) {
      const p = part("reasoning", () => {
        const d = add(box, "details");
        add(d, "summary", "note", "Thinking");
        return add(d, "div", "reasoning");
      });
      p.append(text);
    },
    content(text) {
      part("content", () => add(box, "div", "content")).append(text);
    },
    call(i, name, args) {
      const p = part("call" + i, () => {
        const d = add(box, "details", "call");
        return { name: add(d, "summary", "", "⚒ "), args: add(d, "pre") };
      });
      if (name) p.name.append(name);
      if (args) p.args.append(args);
    },
    note(text) {
      part("note", () => add(box, "div", "note")).textContent = text;
    },
  };
}

function show(m) {
  const v = view(m.role);
  if (m.reasoning_content) v.reasoning(m.reasoning_content);
  if (m.content) v.content(m.content);
  (m.tool_calls || []).forEach((t, i) =>
    v.call(i, t.function.name, t.function.arguments));
}

function follow(f) {
  const log = $("log");
  const at_end = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  f();
  if (at_end) log.scrollTop = log.scrollHeight;
}

/* ---- one answer */

function key() {
  return $("key").value ? { Authorization: "Bearer " + $("key").value } : {};
}

function head() {
  return { "Content-Type": "application/json", ...key() };
}

function body() {
  const messages = talk.map((m) => m);
  const b = { messages, stream: true, stream_options: { include_usage: true },
    chat_template_kwargs: { enable_thinking: $("think").checked } };
  if ($("system").value.trim())
    messages.unshift({ role: "system", content: $("system").value });
  if ($("tools").value.trim()) b.tools = JSON.parse($("tools").value);
  if ($("temperature").value) b.temperature = Number($("temperature").value);
  if ($("max").value) b.max_tokens = Number($("max").value);
  return b;
}

/* The events of a stream. Lines end with \n, an event is one line. */
async function* events(response) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    const lines = rest.split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data: ")) continue;
      if (line === "data: [DONE]") return;
      yield JSON.parse(line.slice(6));
    }
  }
}

function take(m, v, delta) {
  const thought = delta.reasoning_content || delta.reasoning;
  if (thought) {
    m.reasoning_content = (m.reasoning_content || "") + thought;
    v.reasoning(thought);
  }
  if (delta.content) {
    m.content += delta.content;
    v.content(delta.content);
  }
  for (const t of delta.tool_calls || []) {
    m.tool_calls = m.tool_calls || [];
    const c = (m.tool_calls[t.index] = m.tool_calls[t.index] ||
      { id: t.id, type: "function", function: { name: "", arguments: "" } });
    c.function.name += t.function.name || "";
    c.function.arguments += t.function.arguments || "";
    v.call(t.index, t.function.name, t.function.arguments);
  }
}

async function answer() {
  const m = { role: "assistant", content: "" };
  const v = view("assistant");
  const began = performance.now();
  let n = 0, why = "";
  running = new AbortController();
  $("stop").disabled = false;
  $("send").disabled = true;
  try {
    const r = await fetch("v1/chat/completions", { method: "POST",
      headers: head(), body: JSON.stringify(body()), signal: running.signal });
    if (!r.ok) throw new Error((await r.json()).error.message);
    for await (const e of events(r)) {
      if (e.error) throw new Error(e.error.message);
      if (e.usage) n = e.usage.completion_tokens;
      const c = e.choices && e.choices[0];
      if (!c) continue;
      follow(() => take(m, v, c.delta || {}));
      why = c.finish_reason || why;
    }
    const s = (performance.now() - began) / 1000;
    v.note(`${n} tokens, ${(n / s).toFixed(1)} per second` +
      (why === "length" ? "; cut by its length" : ""));
  } catch (e) {
    if (e.name === "AbortError") {
      v.note("stopped");
    } else {
      v.box.classList.add("error");
      v.note(e.message);
    }
  }
  if (m.content || m.tool_calls || m.reasoning_content) talk.push(m);
  running = null;
  $("stop").disabled = true;
  $("send").disabled = false;
  save();
  $("text").focus();
}

function send() {
  const text = $("text").value.trim();
  if (!text || running) return;
  talk.push({ role: "user", content: text });
  $("text").value = "";
  follow(() => show(talk[talk.length - 1]));
  $("log").scrollTop = $("log").scrollHeight;
  save();
  answer();
}

/* ---- what the server is doing, from its metrics */

let last = null;

function sum(text, name) {
  let s = 0, found = false;
  for (const line of text.split("\n"))
    if (line.startsWith(name + "{") || line.startsWith(name + " ")) {
      s += Number(line.slice(line.lastIndexOf(" ")));
      found = true;
    }
  return found ? s : null;
}

function percent(a, b) {
  return b ? Math.round((100 * a) / b) + " %" : "–";
}

async function look() {
  try {
    const r = await fetch("metrics", { headers: key() });
    if (r.status === 401) {
      $("status").textContent = "The server wants a key.";
      return;
    }
    const t = await r.text();
    if (!$("model").textContent) name();
    const now = { at: performance.now(), n: sum(t, "vllm:generation_tokens_total") };
    $("running").textContent = sum(t, "vllm:num_requests_running");
    $("waiting").textContent = sum(t, "vllm:num_requests_waiting");
    if (last)
      $("rate").textContent =
        ((1000 * (now.n - last.n)) / (now.at - last.at)).toFixed(1);
    last = now;
    const kv = sum(t, "vllm:kv_cache_usage_perc");
    $("kv").textContent = kv === null ? "–" : percent(kv, 1);
    $("prefix").textContent = percent(sum(t, "vllm:prefix_cache_hits_total"),
      sum(t, "vllm:prefix_cache_queries_total"));
    $("drafts").textContent = percent(
      sum(t, "vllm:spec_decode_num_accepted_tokens_total"),
      sum(t, "vllm:spec_decode_num_draft_tokens_total"));
    $("status").textContent = "";
  } catch (e) {
    $("status").textContent = "The server does not answer.";
  }
}

async function name() {
  try {
    const i = await (await fetch(".", {
      headers: { Accept: "application/json", ...key() } })).json();
    $("model").textContent = i.model.id;
    document.title = "Sluice – " + i.model.id;
  } catch (e) {
    $("model").textContent = "";
  }
}

/* Something to try, for those who have no tools at hand. */
const example = [{ type: "function", function: { name: "get_weather",
  description: "The weather of a city", strict: true, parameters: {
    type: "object", required: ["city"], additionalProperties: false,
    properties: { city: { type: "string", maxLength: 40 },
      unit: { enum: ["C", "F"] } } } } }];

load();
talk.forEach(show);
$("form").addEventListener("submit", (e) => { e.preventDefault(); send(); });
$("text").addEventListener("keydown", (e) => {
  if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
    e.preventDefault();
    send();
  }
});
document.addEventListener("keydown", (e) => {
  if (e.key === "Escape" && running) running.abort();
});
$("stop").addEventListener("click", () => running && running.abort());
$("fresh").addEventListener("click", () => {
  if (running) running.abort();
  talk = [];
  $("log").replaceChildren();
  save();
  $("text").focus();
});
$("example").addEventListener("click", () => {
  $("tools").value = JSON.stringify(example, null, 1);
  save();
});
$("settings").addEventListener("change", save);
$("log").scrollTop = $("log").scrollHeight;
name();
look();
setInterval(look, 2000);
$("text").focus();
