// What all parts of the page are made with. What agents say of themselves is only ever set as text.

export const by = (id) => document.getElementById(id);

// An element with a class and its contents: texts, elements, or nothing.
export function element(name, className, ...contents) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...contents.filter((content) => content !== undefined && content !== null));
  return made;
}

export function button(className, label, text, pressed) {
  const made = element("button", className, text);
  made.type = "button";
  if (label) made.setAttribute("aria-label", label);
  made.addEventListener("click", pressed);
  return made;
}

export function set(place, text) {
  const of = typeof place === "string" ? by(place) : place;
  if (of.textContent !== String(text)) of.textContent = text;
}

export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) {
    count /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? Math.round(count) : count.toFixed(1)} ${units[unit]}`;
}

export function span(seconds) {
  if (seconds < 120) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

// The relay's clock, which the times in its answers are of.
let ahead = 0;
export function clockIs(time) {
  ahead = new Date(time) - Date.now();
}
export const until = (time) => (new Date(time) - Date.now() - ahead) / 1000;

// Long ids: beginning and end, the whole as a title.
export function id(text) {
  const made = element("code", "peer", text.length > 24 ? `${text.slice(0, 10)}…${text.slice(-8)}` : text);
  made.title = text;
  return made;
}

// Copies a text, and says so for a moment.
export function copy(what, text) {
  const made = button("copy", `Copy ${what}`, "Copy", async () => {
    try {
      await navigator.clipboard.writeText(text);
      set(made, "Copied");
    } catch {
      set(made, text);
    }
    setTimeout(() => set(made, "Copy"), 1500);
  });
  return made;
}

// Brings the children of a list to these: what is there already stays, with its focus and what is selected in it.
export function arrange(list, wanted) {
  const stay = new Set(wanted);
  for (const child of [...list.children]) if (!stay.has(child)) child.remove();
  wanted.forEach((child, place) => {
    if (list.children[place] !== child) list.insertBefore(child, list.children[place] ?? null);
  });
}

// Notes what has the focus in a list. What it gives back puts it there again when the list was changed: on the same, on its
// like where it was made anew, or on something else where there is none.
export function keepFocus(list, otherwise) {
  const held = document.activeElement;
  if (!list.contains(held)) return () => {};
  const named = (one) => JSON.stringify([one.getAttribute("aria-label"), one.closest("[data-peer]")?.dataset.peer]);
  const name = named(held);
  const alike = () => [...list.querySelectorAll("[aria-label]")].filter((one) => named(one) === name);
  const place = alike().indexOf(held);
  return () => {
    if (document.activeElement === held) return;
    const there = alike();
    (held.isConnected ? held : (there[place] ?? there[0] ?? otherwise)).focus();
  };
}

const SVG = "http://www.w3.org/2000/svg";

function drawn(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  return made;
}

// A small picture that is always the same for the same text.
export function picture(text) {
  let hash = 2166136261;
  for (const letter of text) hash = Math.imul(hash ^ letter.codePointAt(0), 16777619) >>> 0;
  const made = drawn("svg", { viewBox: "0 0 7 7", class: "picture", "aria-hidden": "true" });
  const colour = `hsl(${hash % 360} 55% 50%)`;
  made.append(drawn("rect", { width: 7, height: 7, fill: colour, "fill-opacity": 0.16 }));
  for (let cell = 0; cell < 15; cell += 1) {
    if (!((hash >>> cell) & 1)) continue;
    const [x, y] = [cell % 3, Math.floor(cell / 3)];
    for (const column of new Set([x, 4 - x])) {
      made.append(drawn("rect", { x: column + 1, y: y + 1, width: 1.02, height: 1.02, fill: colour }));
    }
  }
  return made;
}

// A line of the last figures.
export function line(place, figures) {
  const most = Math.max(...figures, 1);
  const step = 100 / Math.max(figures.length - 1, 1);
  const points = figures.map((figure, n) => `${(n * step).toFixed(1)},${(23 - (figure / most) * 21).toFixed(1)}`);
  const area = drawn("polygon", { points: `0,24 ${points.join(" ")} 100,24`, class: "area" });
  by(place).replaceChildren(area, drawn("polyline", { points: points.join(" ") }));
}
