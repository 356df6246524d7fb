// Numbers, amounts and times as people read them.

export function tokens(count) {
  if (count === null || count === undefined) return "–";
  const size = Math.abs(count);
  if (size >= 999500) return `${(count / 1e6).toFixed(2)}M`;
  if (size >= 99950) return `${Math.round(count / 1000)}k`;
  if (size >= 1000) return `${(count / 1000).toFixed(1)}k`;
  return String(Math.round(count));
}

export function whole(count) {
  return count === null || count === undefined ? "–" : Math.round(count).toLocaleString("en-US");
}

export function money(usd) {
  if (usd === null || usd === undefined) return "unknown";
  const size = Math.abs(usd);
  const sign = usd < 0 ? "−" : "";
  if (size !== 0 && size < 0.01) return `${sign}$${size.toPrecision(2)}`;
  return `${sign}$${size.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}

export function percent(share) {
  if (share > 0 && share < 0.01) return "<1%";
  return `${Math.round(share * 100)}%`;
}

export function bytes(count) {
  if (count >= 1e6) return `${(count / 1e6).toFixed(2)} MB`;
  if (count >= 1000) return `${(count / 1000).toFixed(1)} kB`;
  return `${count} bytes`;
}

export function when(seconds) {
  if (seconds === null || seconds === undefined) return "";
  return moment(new Date(seconds * 1000));
}

// The day, and the time or, of another year, the year: for lists, where there is little room.
export function day(seconds) {
  const date = new Date(seconds * 1000);
  const within = date.getFullYear() === new Date().getFullYear();
  return date.toLocaleString("en-GB", within ? { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" }
    : { day: "numeric", month: "short", year: "numeric" });
}

export function stamp(text) {
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? "" : moment(date);
}

function moment(date) {
  return date.toLocaleString("en-GB", { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" });
}

export function pause(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${(seconds / 3600).toFixed(1)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

export function plural(count, noun) {
  return `${whole(count)} ${noun}${count === 1 ? "" : "s"}`;
}
