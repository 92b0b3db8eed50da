// Waterfalls: the phases of one request, each beginning where the one before it ends.
import { count, el, ms } from "./format.js";

export const groups = { route: "slot", queue: "slot", slot_activation: "activation", context_lookup: "context",
  prefill: "context", decode_first_token: "delivery", first_chunk_flush: "delivery", other: "other" };

// bar is all phases on one line, for a list.
export function bar(timings) {
  const total = timings.first_chunk_ms;
  return el("span", { class: "bar", role: "img", "aria-label": `first chunk after ${ms(total)}` },
    Object.keys(groups).filter((phase) => timings.phase_ms[phase] > 0).map((phase) =>
      el("i", { class: groups[phase], title: `${phase} ${ms(timings.phase_ms[phase])}`, style: { width: `${(100 * timings.phase_ms[phase]) / total}%` } })));
}

function row(name, kind, from, value, total, attributes) {
  return el("div", { class: `row ${kind}`, ...attributes }, el("span", {}, name),
    el("span", { class: "lane" }, el("i", { style: { left: `${(100 * from) / total}%`, width: `${(100 * value) / total}%` } })),
    el("span", {}, ms(value)));
}

// waterfall is one row a phase, with the parts of an activation below it.
export function waterfall(timings) {
  const total = timings.first_chunk_ms;
  if (!(total > 0)) return el("p", { class: "note" }, "There was no text, so there is no first chunk.");
  const fall = el("div", { class: "fall" });
  let at = 0;
  for (const phase of Object.keys(groups)) {
    const value = timings.phase_ms[phase] ?? 0;
    fall.append(row(phase, groups[phase], at, value, total, { "data-phase": phase, "data-ms": value }));
    if (phase === "slot_activation") {
      let inner = at;
      for (const [part, length] of ["spawn", "prefetch", "transfer", "warmup", "canary"].map((p) => [p, timings.activation_ms?.[p] ?? 0])) {
        if (length > 0) fall.append(row(part, `${groups[phase]} part`, inner, length, total, {}));
        inner += length;
      }
    }
    at += value;
  }
  fall.append(el("div", { class: "row sum", "data-first": total }, el("span", {}, "first chunk"), el("span", { class: "lane" }), el("span", {}, ms(total))));
  return fall;
}

// hit says in a word what of the prompt was known.
export function hit(t) {
  const all = t.cache_n + t.prompt_n;
  if (!t.slot_hit) return ["cold", "warn"];
  if (t.cache_n === 0) return ["miss", ""];
  return [`hit ${t.cache_n}/${all}`, "good"];
}

// explain says the same in a sentence, with the reason of a miss.
export function explain(t) {
  const all = t.cache_n + t.prompt_n;
  const parts = [t.slot_hit ? `slot ${t.slot_id} was resident` : `slot ${t.slot_id} had to be prepared`,
    `${t.cache_n} of ${count(all, "prompt token")} came from pages`];
  if (t.miss_reason) parts.push(`the rest missed by ${t.miss_reason}${t.diverged_at_token ? ` at token ${t.diverged_at_token}` : ""}`);
  const speed = t.predicted_ms > 0 ? `, ${t.predicted_per_second.toFixed(0)} a second` : "";
  parts.push(`${count(t.predicted_n, "token")} in ${ms(t.full_response_ms)}${speed}`);
  return `${parts.join("; ")}.`;
}
