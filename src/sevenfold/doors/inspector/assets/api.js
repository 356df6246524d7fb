// What the page asks its server for. The token comes in the fragment of the address, which no server and no log sees,
// and travels in a header; a cookie would go to every server on this address.

const KEY = "sevenfold-token";

export function takeToken() {
  const [path, query] = location.hash.replace(/^#/, "").split("?");
  const token = new URLSearchParams(query ?? "").get("token");
  if (token) {
    localStorage.setItem(KEY, token);
    history.replaceState(null, "", `#${path || "/"}`);
  }
}

function headers() {
  return { "X-Sevenfold-Token": localStorage.getItem(KEY) ?? "" };
}

export class Refused extends Error {}

export async function get(path, signal) {
  const answer = await fetch(path, { headers: headers(), signal, cache: "no-store" });
  if (answer.status === 401) throw new Refused("This page has no valid token. Open the address that sevenfold inspect printed.");
  const data = await answer.json();
  if (!answer.ok) throw new Error(data.error ?? `The server answered ${answer.status}.`);
  return data;
}

export async function post(path, order) {
  const answer = await fetch(path, { method: "POST", headers: { ...headers(), "Content-Type": "application/json" },
    body: JSON.stringify(order), cache: "no-store" });
  if (answer.status === 401) throw new Refused("This page has no valid token. Open the address that sevenfold inspect printed.");
  const data = await answer.json();
  if (!answer.ok) throw new Error(data.error ?? `The server answered ${answer.status}.`);
  return data;
}

export async function getBytes(path, signal) {
  const answer = await fetch(path, { headers: headers(), signal, cache: "no-store" });
  if (!answer.ok) throw new Error(await answer.text());
  return { body: new Uint8Array(await answer.arrayBuffer()), masked: Number(answer.headers.get("X-Masked")) };
}

// Server-sent events by fetch: EventSource cannot send the token. After a lost connection it goes on behind the last
// event, whose id it sends as EventSource does; before the first one, from `address()`.
export function follow(address, take, state) {
  const ending = new AbortController();
  run(address, take, state, ending.signal);
  return () => ending.abort();
}

async function run(address, take, state, signal) {
  let wait = 250;
  const seen = { id: "" };
  while (!signal.aborted) {
    try {
      const from = seen.id ? { "Last-Event-ID": seen.id } : {};
      const answer = await fetch(address(), { headers: { ...headers(), ...from }, signal, cache: "no-store" });
      if (answer.status === 401) { state("refused"); return; }
      if (!answer.ok) throw new Error(String(answer.status));
      state("live");
      wait = 250;
      await read(answer.body.getReader(), take, seen);
    } catch (error) {
      if (signal.aborted) return;
    }
    state("lost");
    await new Promise((done) => setTimeout(done, wait));
    wait = Math.min(wait * 2, 4000);
  }
}

async function read(reader, take, seen) {
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += decoder.decode(value, { stream: true });
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      const lines = text.slice(0, end).split("\n");
      text = text.slice(end + 2);
      const data = lines.filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
      if (data) take(JSON.parse(data));
      const id = lines.find((line) => line.startsWith("id: "));
      if (id) seen.id = id.slice(4);
    }
  }
}
