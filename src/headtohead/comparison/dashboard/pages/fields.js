// Every name by which a run can be filtered, grouped and compared.

const OWN = ["arm", "name", "seed", "status", "group", "study", "trial", "share", "id"];

/** The value of an exact name; undefined where the run has none. */
export function valueOf(run, field) {
  if (OWN.includes(field)) return run[field] ?? undefined;
  if (field in run.config) return run.config[field];
  if (field in run.results) return run.results[field];
  if (field in run.latest) return run.latest[field] ?? undefined;
  return run.progress[field] ?? run.costs[field] ?? undefined;
}

/** The same for a name typed by hand: its last part is enough, d_model for model.d_model, loss for test/loss. */
export function typed(run, field) {
  const exact = valueOf(run, field);
  if (exact !== undefined) return exact;
  for (const stage of ["test", "validation", "train"]) {
    const value = run.results[`${stage}/${field}`] ?? run.latest[`${stage}/${field}`];
    if (value !== undefined && value !== null) return value;
  }
  const known = Object.keys(run.config).find((key) => key.endsWith(`.${field}`) || key.endsWith(`/${field}`));
  return known === undefined ? undefined : run.config[known];
}

/** Fields of the configuration in which these runs differ, by name. */
export function differing(runs) {
  const first = new Map(), found = new Set();
  runs.forEach((run, index) => {
    for (const [key, value] of Object.entries(run.config)) {
      const text = JSON.stringify(value);
      if (!first.has(key)) { first.set(key, text); if (index > 0) found.add(key); } else if (first.get(key) !== text) found.add(key);
    }
    for (const key of first.keys()) if (!(key in run.config)) found.add(key);
  });
  return [...found].sort();
}

export function groupFields(runs) {
  return [...OWN.filter((field) => field !== "id"), ...differing(runs)];
}

const TERM = /^(-?)([^\s=<>!~]+)(!=|<=|>=|=|<|>|~)(.*)$/;

/** A function from run to whether it matches; every word must. */
export function matcher(text) {
  const tests = (text.match(/(?:[^\s"]|"[^"]*"?)+/g) ?? []).map((word) => test(word.replaceAll('"', "")));
  return (run) => tests.every((holds) => holds(run));
}

function test(word) {
  const term = TERM.exec(word);
  if (term) {
    const [, minus, field, sign, expected] = term;
    return (run) => compare(typed(run, field), sign, expected) !== (minus === "-");
  }
  const not = word.startsWith("-") && word.length > 1;
  const expected = (not ? word.slice(1) : word).toLowerCase();
  return (run) => haystack(run).includes(expected) !== not;
}

function haystack(run) {
  return [run.id, run.name, run.arm, run.group, run.study, run.status, run.notes, ...run.tags].join("\n").toLowerCase();
}

function compare(value, sign, expected) {
  if (value === undefined) return sign === "!=";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  if (sign === "~") return text.toLowerCase().includes(expected.toLowerCase());
  const numbers = expected !== "" && !Number.isNaN(Number(expected)) && typeof value === "number";
  if (sign === "=" || sign === "!=") {
    const same = numbers ? value === Number(expected) : alike(text, expected);
    return same === (sign === "=");
  }
  if (!numbers) return false;
  const other = Number(expected);
  return { "<": value < other, "<=": value <= other, ">": value > other, ">=": value >= other }[sign];
}

/** Capital letters make no difference; * stands for anything. */
function alike(text, expected) {
  const parts = expected.toLowerCase().split("*").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`, "s").test(text.toLowerCase());
}
