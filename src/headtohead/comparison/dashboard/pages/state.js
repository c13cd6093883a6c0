// What is looked at, kept in the address so that a view can be sent on and loaded again.

const START = {
  view: "runs", tab: "curves", q: "", stars: "", group: "arm", sort: "newest", sel: "",
  charts: "", x: "step", from: "", to: "", logx: "", logy: "", smooth: "0", show: "both", large: "", hidden: "",
  columns: "", by: "", down: "", base: "", a: "", b: "", every: "", step: "", picture: "", table: "", study: "",
};
const listeners = [];
export const state = { ...START };

export function change(values) {
  Object.assign(state, values);
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(state)) if (value !== START[key]) params.set(key, value);
  history.replaceState(null, "", `#${params}`);
  for (const listener of listeners) listener(Object.keys(values));
}

export function onChange(listener) { listeners.push(listener); }

function read() {
  const params = new URLSearchParams(location.hash.slice(1));
  for (const key of Object.keys(START)) state[key] = params.get(key) ?? START[key];
}

/** The keys that were chosen one by one, or all that are shown but some: * and !key. */
export function chosen() {
  const keys = state.sel.split(",").filter(Boolean).map(decodeURIComponent);
  return { all: keys[0] === "*", but: new Set(keys.filter((key) => key.startsWith("!")).map((key) => key.slice(1))), keys: new Set(keys) };
}

export function choose(keys) {
  change({ sel: [...keys].map(encodeURIComponent).join(",") });
}

addEventListener("hashchange", () => { read(); for (const listener of listeners) listener(Object.keys(START)); });
read();

/** A list in one value of the address. */
export const listed = (text) => text.split(",").filter(Boolean).map(decodeURIComponent);
export const joined = (items) => items.map(encodeURIComponent).join(",");
