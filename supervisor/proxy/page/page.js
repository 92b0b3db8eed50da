// The page: slots and recent requests come by server-sent events, a prompt goes
// out as an ordinary streaming chat completion. All text from outside is set as
// text, never as markup.
const $ = (id) => document.getElementById(id);
const groups = { route: "slot", queue: "slot", slot_activation: "activation", context_lookup: "context",
  prefill: "context", decode_first_token: "delivery", first_chunk_flush: "delivery", other: "other" };

function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) node.setAttribute(name, value);
  node.append(...children.filter((c) => c !== null && c !== undefined));
  return node;
}

const key = () => $("key").value || sessionStorage.getItem("firstframe-key") || "";
const headers = () => ({ "Content-Type": "application/json", ...(key() && { Authorization: `Bearer ${key()}` }) });

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
  return body?.error?.message ?? (body?.status === "pending" ? "being prepared, try again shortly" : `HTTP ${response.status}`);
}

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return `${n.toFixed(i && n < 100 ? 1 : 0)} ${units[i]}`;
}

const ms = (n) => `${n >= 100 ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toFixed(2)} ms`;

function waterfall(timings) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "fall");
  svg.setAttribute("viewBox", "0 0 1000 14");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `first chunk after ${ms(timings.first_chunk_ms)}`);
  const list = el("ul", { class: "phases" });
  let x = 0;
  for (const phase of Object.keys(groups)) {
    const value = timings.phase_ms[phase] ?? 0;
    const width = timings.first_chunk_ms > 0 ? (value / timings.first_chunk_ms) * 1000 : 0;
    const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    for (const [name, v] of Object.entries({ class: groups[phase], x, y: 0, width: Math.max(width, 0), height: 14 })) rect.setAttribute(name, v);
    svg.append(rect);
    x += width;
    list.append(el("li", { class: groups[phase], "data-phase": phase, "data-ms": value }, `${phase} ${ms(value)}`));
  }
  return [svg, list];
}

function request(r) {
  const t = r.timings;
  const head = el("p", {}, el("strong", {}, r.model), el("span", { class: "quiet" }, new Date(r.time).toLocaleTimeString()));
  if (!t) head.append(el("span", { class: "error" }, `${r.outcome}: ${r.error}`));
  else head.append(
    el("span", {}, r.stream ? `first chunk ${ms(t.first_chunk_ms)}` : `whole answer ${ms(t.full_response_ms)}`),
    el("span", { class: "quiet" }, `${t.slot_hit ? "slot was resident" : "slot was prepared"} · ${t.cache_n} of ${t.cache_n + t.prompt_n} prompt tokens cached · ${t.predicted_n} tokens · ${t.slot_id}`));
  return el("div", { class: "request", "data-id": r.id }, head, ...(t && t.first_chunk_ms > 0 ? waterfall(t) : []));
}

async function act(op, slot) {
  $("action").textContent = `${op} ${slot}…`;
  const response = await fetch(`/api/slots/${op}`, { method: "POST", headers: headers(), body: JSON.stringify({ slot_id: slot }) });
  $("action").textContent = response.ok ? `${op} ${slot}: done` : `${op} ${slot}: ${await problem(response)}`;
}

function slotRow(s) {
  const loading = s.total_bytes > 0 && s.status === "prefetching" ? ` ${Math.floor((100 * s.done_bytes) / s.total_bytes)} %` : "";
  const buttons = ["prepare", "evict", "restart"].map((op) => {
    const b = el("button", { type: "button", "data-op": op, "aria-label": `${op} ${s.slot_id}` }, op);
    b.addEventListener("click", () => act(op, s.slot_id).catch((e) => { $("action").textContent = String(e); }));
    return b;
  });
  return el("tr", { "data-slot": s.slot_id },
    el("td", {}, s.slot_id, s.last_error ? el("div", { class: "error" }, s.last_error) : null),
    el("td", {}, s.model, " ", el("code", { title: s.identity.model_revision }, s.identity.precision)),
    el("td", {}, el("span", { class: `state ${s.status}` }, s.status + loading)),
    el("td", {}, el("span", { class: `state ${s.process}` }, s.process), s.restarts ? ` (${s.restarts} restarts)` : ""),
    el("td", { class: "num" }, String(s.in_flight)),
    el("td", { class: "num" }, bytes(s.host_bytes + s.device_bytes)),
    el("td", {}, ...buttons));
}

function showSlots(slots, aliases) {
  const focused = document.activeElement?.dataset?.op && [document.activeElement.dataset.op, document.activeElement.closest("tr")?.dataset.slot];
  $("slots").replaceChildren(...slots.map(slotRow));
  if (focused) [...$("slots").querySelectorAll("button")].find((b) => b.dataset.op === focused[0] && b.closest("tr").dataset.slot === focused[1])?.focus();
  const names = [...new Set([...slots.filter((s) => s.identity.precision).map((s) => `${s.model}:${s.identity.precision}`), ...Object.keys(aliases ?? {})])];
  const chosen = $("model").value;
  if ([...$("model").options].map((o) => o.value).join("\n") !== names.join("\n")) {
    $("model").replaceChildren(...names.map((n) => el("option", { value: n }, n)));
    if (names.includes(chosen)) $("model").value = chosen;
  }
}

async function watch() {
  for (; ;) {
    try {
      const response = await fetch("/api/events", { headers: headers() });
      if (response.status === 401) { $("keybox").hidden = false; throw new Error("an API key is needed"); }
      if (!response.ok) throw new Error(await problem(response));
      $("link").textContent = "live";
      for await (const data of sse(response)) {
        const event = JSON.parse(data);
        if (event.slots) showSlots(event.slots, event.aliases);
        if (event.recent?.length) $("recent").replaceChildren(...event.recent.map(request));
      }
      $("link").textContent = "connection closed, trying again…";
    } catch (e) {
      $("link").textContent = `${e.message ?? e}, trying again…`;
    }
    await new Promise((done) => setTimeout(done, 1000));
  }
}

let running = null;
$("stop").addEventListener("click", () => running?.abort());
$("key").addEventListener("change", () => sessionStorage.setItem("firstframe-key", $("key").value));
$("play").addEventListener("submit", async (submit) => {
  submit.preventDefault();
  running?.abort();
  const mine = running = new AbortController();
  $("stop").disabled = false;
  $("answer").textContent = "";
  $("answer-fall").replaceChildren();
  try {
    const response = await fetch("/v1/chat/completions", { method: "POST", headers: headers(), signal: mine.signal,
      body: JSON.stringify({ model: $("model").value, stream: true, temperature: 0, max_tokens: Number($("tokens").value),
        messages: [{ role: "user", content: $("prompt").value }] }) });
    if (!response.ok || response.status === 202) throw new Error(await problem(response));
    for await (const data of sse(response)) {
      if (data === "[DONE]") break;
      const event = JSON.parse(data);
      if (event.error) throw new Error(event.error.message);
      $("answer").append(event.choices[0]?.delta?.content ?? "");
      if (event.timings) $("answer-fall").replaceChildren(...waterfall(event.timings));
    }
  } catch (e) {
    if (e.name !== "AbortError") $("answer").append(el("span", { class: "error" }, ` ${e.message ?? e}`));
  } finally {
    if (running === mine) { running = null; $("stop").disabled = true; }
  }
});

watch();
