// The relay's dashboard: asks the directory, follows its events, shows both. What agents say of themselves is only ever
// set as text.
"use strict";

const PAGE = 100;
// Longest list that is redrawn at each change.
const MOST_SHOWN = 1000;

const by = (id) => document.getElementById(id);
let shown = PAGE;
// The last question asked: an answer to an older one is dropped.
let asked = 0;

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function set(id, text) {
  const place = by(id);
  if (place.textContent !== String(text)) place.textContent = text;
}

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) {
    count /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? count : count.toFixed(1)} ${units[unit]}`;
}

function age(seconds) {
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

function clock(text) {
  return text ? new Date(text).toLocaleTimeString() : "–";
}

function cell(label, ...content) {
  const made = element("td");
  made.dataset.label = label;
  made.append(...content);
  return made;
}

function agentRow(agent) {
  const row = element("tr");
  row.dataset.peer = agent.peer_id;
  const head = element("th");
  head.scope = "row";
  head.append(agent.name || "(no name)");
  if (agent.verified) {
    head.append(" ", element("span", "✓ verified", "verified"));
  }
  if (agent.description) head.append(element("p", agent.description));
  const id = element("p");
  id.append(element("code", agent.peer_id));
  head.append(id);
  const skills = element("ul", undefined, "skills");
  for (const skill of agent.skills) {
    const tags = Object.entries(skill.tags).map(([tag, value]) => `${tag}:${value}`).join(" ");
    const item = element("li", tags ? `${skill.id} ${tags}` : skill.id);
    if (skill.description) item.title = skill.description;
    skills.append(item);
  }
  const origin = agent.origin ? element("code", agent.origin) : "this relay";
  row.append(head, cell("Skills", skills), cell("Registered at", origin), cell("Expires", clock(agent.expires_at)));
  return row;
}

async function ask(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

async function showAgents() {
  const question = (asked += 1);
  const words = new URLSearchParams({ limit: shown });
  if (by("q").value) words.set("q", by("q").value);
  if (by("skill").value) words.set("skill", by("skill").value);
  const { agents, total } = await ask(`/api/v1/agents?${words}`);
  if (question !== asked) return;
  document.querySelector("#agents tbody").replaceChildren(...agents.map(agentRow));
  const some = agents.length < total ? `${agents.length} of ${total} agents` : `${total} agent${total === 1 ? "" : "s"}`;
  set("found", some);
  by("more").hidden = agents.length >= total || shown >= MOST_SHOWN;
}

async function showSkills() {
  const { skills } = await ask("/api/v1/skills");
  const select = by("skill");
  const chosen = select.value;
  const options = skills.map(({ id, agent_count: count }) => {
    const option = element("option", `${id} (${count})`);
    option.value = id;
    return option;
  });
  // Replacing an open list would close it.
  if (document.activeElement === select) return;
  select.replaceChildren(select.options[0], ...options);
  select.value = skills.some(({ id }) => id === chosen) ? chosen : "";
}

function showFederation(federation) {
  by("federation").hidden = !federation;
  if (!federation) return;
  const rows = federation.peer_details.map((peer) => {
    const row = element("tr");
    const head = element("th", peer.address);
    head.scope = "row";
    if (peer.relay_id && peer.relay_id !== peer.address) {
      const id = element("p");
      id.append(element("code", peer.relay_id));
      head.append(id);
    }
    let state = element("span", "not asked yet");
    if (peer.healthy) state = element("span", "healthy", "good");
    else if (peer.consecutive_failures > 0) {
      const again = peer.backoff_until ? `, again at ${clock(peer.backoff_until)}` : "";
      state = element("span", `failing: ${peer.reason || "no answer"}${again}`, "bad");
    }
    row.append(head, cell("State", state), cell("Received", peer.pulled), cell("Sent", peer.pushed),
      cell("Last answer", clock(peer.last_answer)));
    return row;
  });
  document.querySelector("#federation tbody").replaceChildren(...rows);
}

function showStats(stats) {
  set("local", stats.registry.local_count);
  set("federated", stats.registry.federated_count);
  set("peers", stats.libp2p.connected_peers);
  set("reservations", stats.relay.reservations);
  set("circuits", stats.relay.circuits);
  set("bytes", bytes(stats.relay.bytes));
  set("uptime", age(stats.uptime_seconds));
  set("peer-id", stats.peer_id);
  set("version", stats.version);
  set("skills-count", Math.max(stats.registry.skill_count, stats.registry.fed_skill_count));
  showFederation(stats.federation);
}

function refresh() {
  Promise.all([showAgents(), showSkills()]).catch(() => set("live", "The directory does not answer; trying again."));
}

function follow() {
  const events = new EventSource("/api/v1/events");
  events.addEventListener("open", () => set("live", "Live"));
  events.addEventListener("error", () => set("live", "The relay does not answer; trying again."));
  events.addEventListener("stats", (event) => {
    const stats = JSON.parse(event.data);
    showStats(stats);
    // Entries that expire are no change of their own, so every event is a reason to look.
    refresh();
  });
}

let waiting;
function soon() {
  clearTimeout(waiting);
  shown = PAGE;
  waiting = setTimeout(() => showAgents().catch(() => {}), 150);
}

by("search").addEventListener("submit", (event) => event.preventDefault());
by("q").addEventListener("input", soon);
by("skill").addEventListener("change", soon);
by("more").addEventListener("click", () => {
  shown = Math.min(shown + PAGE, MOST_SHOWN);
  showAgents().catch(() => {});
});
follow();
