// The page: slots and recent requests come by server-sent events, a prompt goes
// out as an ordinary streaming chat completion.
import { bar, explain, hit, waterfall } from "./fall.js";
import { $, el, ms, percent } from "./format.js";
import { show } from "./slots.js";

const kept = (id) => $(id).value || sessionStorage.getItem(`firstframe-${id}`) || "";
const headers = (key) => ({ "Content-Type": "application/json", ...(key && { Authorization: `Bearer ${key}` }) });

async function* sse(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const events = rest.split("\n\n");
    rest = events.pop();
    for (const event of events) if (event.startsWith("data: ")) yield event.slice(6);
  }
}

async function problem(response) {
  const body = await response.json().catch(() => null);
  return body?.error?.message ?? (body?.status === "pending" ? "the slot is being prepared, try again shortly" : `HTTP ${response.status}`);
}

async function act(op, slot) {
  $("action").textContent = `${op} ${slot}…`;
  try {
    const response = await fetch(`/api/slots/${op}`, { method: "POST", headers: headers(kept("admin") || kept("key")), body: JSON.stringify({ slot_id: slot }) });
    if (response.status === 401) $("adminbox").hidden = false;
    $("action").textContent = response.ok ? `${op} ${slot}: done` : `${op} ${slot}: ${await problem(response)}`;
  } catch (e) {
    $("action").textContent = `${op} ${slot}: ${e.message ?? e}`;
  }
}

// Recent requests, newest first.
const mostRecent = 50;
let recent = [];

function request(r) {
  const t = r.timings;
  const when = el("time", { datetime: r.time }, new Date(r.time).toLocaleTimeString([], { hour12: false }));
  if (!t) {
    return el("details", { class: "request", "data-id": r.id }, el("summary", {}, when, el("span", { class: "name" }, r.model || "–"),
      el("span", { class: "badge bad" }, r.outcome), el("span", { class: "wide error" }, r.error)), el("div", { class: "error" }, r.error));
  }
  const [word, kind] = hit(t);
  const why = t.miss_reason ? `${t.miss_reason}${t.diverged_at_token ? ` at ${t.diverged_at_token}` : ""}` : "";
  return el("details", { class: "request", "data-id": r.id },
    el("summary", {}, when, el("span", { class: "name", title: r.model }, `${t.slot_id} · ${r.model}`),
      el("span", { class: "name" }, el("span", { class: `badge ${kind}` }, word), why && el("span", { class: "quiet" }, ` ${why}`)),
      el("span", { class: "num" }, ms(r.stream && t.first_chunk_ms > 0 ? t.first_chunk_ms : t.full_response_ms)),
      t.first_chunk_ms > 0 ? bar(t) : el("span", { class: "quiet" }, "no text")),
    el("div", {}, waterfall(t), el("p", { class: "note" }, explain(t), r.stream ? "" : " Not streamed: the number is the whole answer's."),
      el("p", { class: "note" }, "identity ", el("code", {}, `${t.identity.model_revision.slice(0, 23)}… ${t.identity.precision}`))));
}

function showRecent(items) {
  const held = $("recent");
  if (recent.length === 0) held.replaceChildren();
  recent = [...items, ...recent].slice(0, mostRecent);
  held.prepend(...items.map(request));
  while (held.children.length > mostRecent) held.lastChild.remove();
  const firsts = recent.filter((r) => r.stream && r.timings?.first_chunk_ms > 0).map((r) => r.timings.first_chunk_ms).sort((a, b) => a - b);
  $("t-first").textContent = firsts.length ? ms(firsts[firsts.length >> 1]) : "–";
  const [cached, all] = recent.reduce(([c, n], { timings: t }) => (t ? [c + t.cache_n, n + t.cache_n + t.prompt_n] : [c, n]), [0, 0]);
  $("t-hits").textContent = all ? percent(cached / all) : "–";
}

// offer lists every name that means one identity, and keeps what was chosen.
function offer(names) {
  const chosen = $("model").value;
  if ([...$("model").options].map((o) => o.value).join("\n") === names.join("\n")) return;
  $("model").replaceChildren(...names.map((n) => el("option", { value: n }, n)));
  if (names.includes(chosen)) $("model").value = chosen;
}

function link(kind, text) {
  $("link").dataset.link = kind;
  $("link").textContent = text;
}

async function watch() {
  for (; ;) {
    try {
      const response = await fetch("/api/events", { headers: headers(kept("key")) });
      $("keybox").hidden = response.status !== 401 && !kept("key");
      if (!response.ok) throw new Error(await problem(response));
      link("live", "live");
      recent = [];
      for await (const data of sse(response)) {
        const event = JSON.parse(data);
        if (event.version) $("version").textContent = event.version;
        if (event.slots) { show(event.slots, act); offer(event.models ?? []); }
        if (event.recent) showRecent(event.recent);
      }
      link("lost", "connection closed, trying again…");
    } catch (e) {
      link("lost", `${e.message ?? e}, trying again…`);
    }
    await new Promise((done) => setTimeout(done, 1000));
  }
}

// The playground.
let running = null;

async function ask() {
  running?.abort();
  const mine = running = new AbortController();
  $("stop").disabled = false;
  $("answer").textContent = "";
  $("answer-fall").replaceChildren("…");
  try {
    const response = await fetch("/v1/chat/completions", { method: "POST", headers: headers(kept("key")), signal: mine.signal,
      body: JSON.stringify({ model: $("model").value, stream: true, temperature: Number($("temperature").value), max_tokens: Number($("tokens").value),
        messages: [{ role: "user", content: $("prompt").value }] }) });
    if (!response.ok || response.status === 202) throw new Error(await problem(response));
    for await (const data of sse(response)) {
      if (data === "[DONE]") break;
      const event = JSON.parse(data);
      if (event.error) throw new Error(event.error.message);
      const delta = event.choices[0]?.delta ?? {};
      if (delta.reasoning_content) $("answer").append(el("em", {}, delta.reasoning_content));
      $("answer").append(delta.content ?? "");
      if (event.timings) $("answer-fall").replaceChildren(waterfall(event.timings), el("p", { class: "note" }, explain(event.timings)));
    }
  } catch (e) {
    $("answer-fall").replaceChildren(e.name === "AbortError" ? "stopped" : el("span", { class: "error" }, `${e.message ?? e}`));
  } finally {
    if (running === mine) { running = null; $("stop").disabled = true; }
  }
}

$("play").addEventListener("submit", (submit) => { submit.preventDefault(); ask(); });
$("stop").addEventListener("click", () => running?.abort());
for (const id of ["key", "admin"]) $(id).addEventListener("change", () => sessionStorage.setItem(`firstframe-${id}`, $(id).value));
document.addEventListener("keydown", (e) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName);
  if (e.key === "/" && !typing) { e.preventDefault(); $("prompt").focus(); }
  if (e.key === "Enter" && (e.ctrlKey || e.metaKey) && document.activeElement === $("prompt")) { e.preventDefault(); $("play").requestSubmit(); }
  if (e.key === "Escape") running?.abort();
});

watch();
