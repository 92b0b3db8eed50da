// The cards of the slots.
import { $, bytes, count, el, percent } from "./format.js";

// state is what a person wants to know first: how the slot is, or what its
// process is going through.
export function state(s) {
  if (s.process === "failed") return ["failed", "bad"];
  if (s.process === "backoff" || (s.process === "starting" && s.restarts > 0)) return ["restarting", "warn"];
  if (s.process === "starting") return ["starting", "warn"];
  const kind = { resident: "good", active: "good active", prefetching: "warn", evicting: "warn" }[s.status];
  return [s.status, kind ?? (s.last_error ? "bad" : "")];
}

function meter(part, total, kind) {
  return el("span", { class: "track" }, el("i", { class: kind, style: { width: `${total > 0 ? Math.min(100, (100 * part) / total) : 0}%` } }));
}

function requests(s) {
  const pips = el("span", { class: "pips", "aria-hidden": "true" });
  for (let i = 0; i < Math.min(s.parallel, 16); i++) pips.append(el("i", { class: i < s.in_flight ? "on" : "" }));
  const waiting = Math.max(s.in_flight - s.parallel, 0);
  for (let i = 0; i < Math.min(waiting, 8); i++) pips.append(el("i", { class: "wait" }));
  return [pips, `${Math.min(s.in_flight, s.parallel)} of ${s.parallel} running${waiting ? `, ${waiting} waiting` : ""}`];
}

function fact(name, ...content) { return [el("dt", {}, name), el("dd", {}, ...content)]; }

function card(s, act) {
  const [word, kind] = state(s);
  const bytesAll = s.host_bytes + s.device_bytes;
  const facts = el("dl", { class: "facts" });
  if (s.status === "prefetching") {
    facts.append(...fact("Preparing", el("span", { class: "meter" }, meter(s.done_bytes ?? 0, s.total_bytes || 1, ""),
      `${s.stage ?? "…"}${s.total_bytes ? ` ${Math.floor((100 * s.done_bytes) / s.total_bytes)} %` : ""}`)));
  }
  facts.append(...fact("Requests", ...requests(s)));
  facts.append(...fact("Memory", bytesAll === 0 ? el("span", { class: "quiet" }, "none held") : el("span", { class: "meter" },
    el("span", { class: "track" }, el("i", { class: "host", style: { width: `${(100 * s.host_bytes) / bytesAll}%` } }),
      el("i", { class: "device", style: { width: `${(100 * s.device_bytes) / bytesAll}%` } })),
    `${bytes(s.host_bytes)}${s.pinned ? " locked" : ""} + ${bytes(s.device_bytes)} ${s.device}`)));
  if (s.kv_tokens_total > 0) facts.append(...fact("Context", el("span", { class: "meter" }, meter(s.kv_tokens_used, s.kv_tokens_total, ""),
    `${s.kv_tokens_used} of ${s.kv_tokens_total} tokens`)));
  const p = s.pages;
  const asked = p.hit_tokens + p.prefilled_tokens;
  if (p.off) facts.append(...fact("Pages", el("span", { class: "quiet" }, `off: ${p.off}`)));
  else if (p.host_pages + p.disk_pages + asked > 0) facts.append(...fact("Pages",
    `${p.host_pages} in memory (${bytes(p.host_bytes)})${p.disk_pages ? `, ${p.disk_pages} on disk` : ""}${asked ? `, ${percent(p.hit_tokens / asked)} hit` : ""}`));
  const buttons = ["prepare", "evict", "restart"].map((op) => {
    const off = (op === "prepare" && ["resident", "active", "prefetching"].includes(s.status)) || (op === "evict" && s.status === "empty");
    const b = el("button", { type: "button", "data-op": op, "aria-label": `${op} ${s.slot_id}`, disabled: off }, op);
    b.addEventListener("click", () => act(op, s.slot_id));
    return b;
  });
  return el("article", { class: `card ${kind.split(" ")[0]}`, "data-slot": s.slot_id, "data-state": word, "data-status": s.status },
    el("header", {}, el("h3", {}, s.slot_id), el("span", { class: `badge ${kind}` }, word)),
    el("p", { class: "sub" }, s.model, " ", el("b", { title: s.identity.model_revision }, s.identity.precision || "…"),
      ` · ${s.transfer}${s.pid ? ` · pid ${s.pid}` : ` · process ${s.process}`}${s.restarts ? ` · ${count(s.restarts, "restart")}` : ""}`),
    facts, s.last_error ? el("p", { class: "error" }, s.last_error) : null,
    s.transfer_reason ? el("p", { class: "sub" }, `transfer ${s.transfer_reason}${s.device_model ? ` (${s.device_model})` : ""}`) : null,
    s.pin_note ? el("p", { class: "sub" }, `not locked: ${s.pin_note}`) : null, el("footer", {}, buttons));
}

// show replaces the cards; a button that had the focus gets it back.
export function show(slots, act) {
  const focused = document.activeElement?.dataset?.op;
  const of = document.activeElement?.closest?.("[data-slot]")?.dataset.slot;
  $("slots").replaceChildren(...slots.map((s) => card(s, act)));
  if (focused) {
    const again = [...$("slots").querySelectorAll("button")].find((b) => b.dataset.op === focused && b.closest("[data-slot]").dataset.slot === of);
    (again?.disabled ? again.parentNode.querySelector("button:not(:disabled)") : again)?.focus();
  }
  $("t-ready").textContent = `${slots.filter((s) => s.status === "resident" || s.status === "active").length}/${slots.length}`;
  const waiting = slots.reduce((n, s) => n + Math.max(s.in_flight - s.parallel, 0), 0);
  $("t-waiting").textContent = waiting;
  $("t-running").textContent = slots.reduce((n, s) => n + s.in_flight, 0) - waiting;
}
