// Questions to the server.

/** The server is not there: the top of the page says so. */
export class Gone extends Error {}

/** The answer to a path; `otherwise` where there is none, or else an error. */
export async function get(path, query, otherwise) {
  let response;
  try {
    response = await fetch(`${path}?${new URLSearchParams(query)}`);
  } catch {
    throw new Gone(path);
  }
  if (response.ok) return response.json();
  if (otherwise === undefined) throw new Error(await response.text());
  return otherwise;
}

/** Sends what a reader says of a run; the server keeps it. */
export async function send(path, content) {
  const response = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(content) });
  if (!response.ok) throw new Error(await response.text());
}
