// How numbers and elements are made. All text from outside is set as text,
// never as markup, and widths through the style object: the page's policy
// allows no inline style.
export const $ = (id) => document.getElementById(id);

export function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name === "style") Object.assign(node.style, value);
    else if (value !== false && value !== undefined && value !== null) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let i = 0;
  for (; n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return `${n.toFixed(i && n < 100 ? 1 : 0)} ${units[i]}`;
}

export function ms(n) {
  if (n >= 10000) return `${(n / 1000).toFixed(1)} s`;
  return `${n >= 100 ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toFixed(2)} ms`;
}

export const percent = (n) => `${(100 * n).toFixed(n > 0 && n < 0.1 ? 1 : 0)} %`;
export const count = (n, word) => `${n} ${word}${n === 1 ? "" : "s"}`;
