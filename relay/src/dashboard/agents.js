// The list of agents and what narrows it: words, a skill, tags. What is asked for stands in the page's address too.

import { arrange, button, by, copy, element, id, keepFocus, picture, set, span, until } from "./show.js";

const PAGE = 100;
// Longest list that is shown and kept up to date.
const MOST = 1000;
// Skills of one agent that are shown before the rest is asked for.
const SKILLS = 12;
// Skills that are listed beside the agents.
const LISTED = 40;

const asked = new URLSearchParams(location.search);
const filter = { q: asked.get("q") ?? "", skill: asked.get("skill") ?? "", tags: asked.getAll("tag") };
let shown = PAGE;
// The last question: an answer to an older one is dropped.
let question = 0;
// What the directory has said cannot be asked; it is not asked again.
let refused;
// What is shown of each agent, and what it was made of.
let cards = new Map();
const opened = new Set();

// What an agent is called in the network: its peer, and its name on that where the peer has several.
const addressOf = (agent) => (agent.agent ? `${agent.peer_id}/${agent.agent}` : agent.peer_id);

async function ask(path) {
  const answer = await fetch(path);
  if (answer.ok) return answer.json();
  const said = answer.status === 400 ? await answer.json().catch(() => undefined) : undefined;
  throw Object.assign(new Error(`${path}: ${answer.status}`), { refusal: said?.error?.message });
}

function words() {
  const words = new URLSearchParams();
  if (filter.q) words.set("q", filter.q);
  if (filter.skill) words.set("skill", filter.skill);
  for (const tag of filter.tags) words.append("tag", tag);
  return words;
}

function tagButton(text) {
  const chosen = filter.tags.includes(text);
  const made = button("tag", `Tag ${text}`, text, () => {
    narrow({ tags: chosen ? filter.tags.filter((tag) => tag !== text) : [...filter.tags, text] });
  });
  made.setAttribute("aria-pressed", chosen);
  return made;
}

function skillItem(skill) {
  const chosen = filter.skill === skill.id;
  const choose = button("skill", `Skill ${skill.id}`, skill.id, () => narrow({ skill: chosen ? "" : skill.id }));
  choose.setAttribute("aria-pressed", chosen);
  if (skill.description) choose.title = skill.description;
  const tags = Object.entries(skill.tags).map(([tag, value]) => tagButton(`${tag}:${value}`));
  return element("li", tags.length ? "with-tags" : "", choose, ...tags);
}

function skillList(agent) {
  const list = element("ul", "skills");
  const all = opened.has(addressOf(agent));
  list.append(...agent.skills.slice(0, all ? undefined : SKILLS).map(skillItem));
  const more = agent.skills.length - SKILLS;
  if (more > 0 && !all) {
    const open = button("skill", `Show ${more} more skills`, `+${more}`, () => {
      opened.add(addressOf(agent));
      const whole = skillList(agent);
      list.replaceWith(whole);
      whole.children[SKILLS].querySelector("button").focus();
    });
    list.append(element("li", "", open));
  }
  return list;
}

function card(agent) {
  const name = element("h3", "", agent.name || "(no name)");
  const head = element("div", "head", name);
  if (agent.verified) {
    const badge = element("span", "badge", "✓ verified");
    badge.title = "The agent has proven that this peer id is its own";
    head.append(badge);
  }
  const place = agent.agent ? element("span", "", "/", agent.agent) : undefined;
  const what = agent.agent ? "address" : "peer id";
  const identity = element("p", "identity", id(agent.peer_id), place, copy(what, addressOf(agent)));
  const said = agent.description ? element("p", "said", agent.description) : undefined;
  const origin = agent.origin ? element("span", "", "at ", id(agent.origin)) : "at this relay";
  const expires = element("span", "expires");
  const about = element("p", "about", element("span", "origin", origin), expires);
  const whole = element("li", "card", picture(addressOf(agent)), element("div", "body", head, said, identity, skillList(agent)), about);
  whole.dataset.peer = addressOf(agent);
  return { whole, expires };
}

// Shows these agents; a card is made anew only when its agent has changed.
function show(agents) {
  const before = cards;
  cards = new Map();
  for (const agent of agents) {
    const { expires_at: expires, registered_at: registered, ...rest } = agent;
    const made = JSON.stringify([rest, filter.skill, filter.tags]);
    const old = before.get(addressOf(agent));
    const now = old?.made === made ? old : { ...card(agent), made };
    now.until = expires;
    cards.set(addressOf(agent), now);
  }
  const focus = keepFocus(by("agents"), by("q"));
  arrange(by("agents"), [...cards.values()].map(({ whole }) => whole));
  focus();
  tick();
}

// Keeps the remaining times true.
export function tick() {
  for (const { expires, until: time } of cards.values()) {
    const left = until(time);
    set(expires, `expires in ${span(left)}`);
    expires.classList.toggle("soon", left < 10);
  }
}

function nobody(total) {
  const narrowed = words().size > 0;
  by("nobody").hidden = total > 0;
  by("clear").hidden = !narrowed;
  set("nobody-text", narrowed ? "No agent matches." : "No agent is registered here yet.");
}

export async function showAgents() {
  const asking = words();
  const asks = asking.toString();
  if (refused === asks) return;
  const mine = (question += 1);
  asking.set("limit", shown);
  const answer = await ask(`/api/v1/agents?${asking}`).catch((error) => {
    if (!error.refusal) throw error;
    return error;
  });
  if (mine !== question) return;
  refused = answer.refusal ? asks : undefined;
  if (refused !== undefined) {
    show([]);
    nobody(0);
    set("nobody-text", answer.refusal);
    set("found", "");
    by("more").hidden = true;
    return;
  }
  const { agents, total } = answer;
  show(agents);
  nobody(total);
  set("found", agents.length < total ? `${agents.length} of ${total} agents` : `${total} agent${total === 1 ? "" : "s"}`);
  by("more").hidden = agents.length >= total || shown >= MOST;
}

// Skills beside the agents, those of most agents first.
const listed = new Map();
export async function showSkills() {
  const { skills, total } = await ask(`/api/v1/skills?limit=${LISTED}`);
  set("skills-count", total);
  const items = skills.map(({ id: skill, agent_count: agents }) => {
    if (!listed.has(skill)) {
      const number = element("span", "number");
      const choose = button("skill", "", element("span", "", skill), () => narrow({ skill: filter.skill === skill ? "" : skill }));
      choose.append(" ", number);
      listed.set(skill, { item: element("li", "", choose), choose, number });
    }
    const { item, choose, number } = listed.get(skill);
    set(number, agents);
    choose.setAttribute("aria-pressed", filter.skill === skill);
    choose.setAttribute("aria-label", `Skill ${skill}, ${agents} agent${agents === 1 ? "" : "s"}`);
    return item;
  });
  arrange(by("skills"), items);
  const there = new Set(items);
  for (const [skill, { item }] of listed) if (!there.has(item)) listed.delete(skill);
  set("skills-shown", total > LISTED ? `${LISTED} of ${total}` : total);
}

function showFilters() {
  const drop = (text, change) => element("li", "", button("filter", `Remove ${text}`, `${text} ×`, () => narrow(change)));
  const items = filter.tags.map((tag) => drop(`tag ${tag}`, { tags: filter.tags.filter((other) => other !== tag) }));
  if (filter.skill) items.unshift(drop(`skill ${filter.skill}`, { skill: "" }));
  const focus = keepFocus(by("filters"), by("q"));
  by("filters").replaceChildren(...items);
  by("filters").hidden = items.length === 0;
  focus();
}

// Asks for what matches now.
function narrow(change) {
  Object.assign(filter, change);
  shown = PAGE;
  const search = words().toString();
  history.replaceState(null, "", search ? `?${search}` : location.pathname);
  if (by("q").value !== filter.q) by("q").value = filter.q;
  showFilters();
  // Should it fail, the next event of the relay asks again.
  showAgents().catch(() => {});
  showSkills().catch(() => {});
}

let waiting;
export function begin() {
  by("q").value = filter.q;
  showFilters();
  by("search").addEventListener("submit", (event) => event.preventDefault());
  by("q").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => narrow({ q: by("q").value.trim() }), 120);
  });
  by("clear").addEventListener("click", () => {
    narrow({ q: "", skill: "", tags: [] });
    by("q").focus();
  });
  by("more").addEventListener("click", () => {
    shown = Math.min(shown + PAGE, MOST);
    showAgents().catch(() => {});
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== by("q")) {
      event.preventDefault();
      by("q").focus();
    } else if (event.key === "Escape" && document.activeElement === by("q")) {
      narrow({ q: "" });
    }
  });
}
