// Which charts the grid holds.

const MOST = 4;
const COUNTS = /(count|scored|learning_rate|padding|grad)/;

/** What a grid shows that nobody has chosen: what the runs are selected by, their training loss, other validations. */
export function usual(list, names) {
  const preferred = [...new Set(list.map((run) => `validation/${run.selected_by}`)), "train/loss"];
  const first = preferred.filter((name) => names.includes(name));
  const others = names.filter((name) => name.startsWith("validation/") && !first.includes(name) && !COUNTS.test(name));
  const some = [...first, ...others].slice(0, MOST);
  return some.length ? some : names.slice(0, 1);
}

/** One card for each metric and task, so that losses of different tasks never share an axis. */
export function cardsOf(list, metrics) {
  const tasks = [...new Set(list.map((run) => run.task))];
  return metrics.flatMap((metric) => {
    const having = tasks.filter((task) => list.some((run) => run.task === task && metric in run.latest));
    return (having.length ? having : tasks.slice(0, 1)).map((task) => ({
      id: tasks.length > 1 ? `${metric} | ${task}` : metric, title: tasks.length > 1 ? `${metric}, ${task}` : metric,
      metric, task, several: tasks.length > 1, runs: list.filter((run) => run.task === task),
    }));
  });
}
