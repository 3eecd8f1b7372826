// The relay's dashboard: follows the relay's events and shows its figures and the other relays; the agents are in
// agents.js.

import { begin, showAgents, showSkills, tick } from "./agents.js";
import { arrange, by, bytes, clockIs, copy, element, id, line, set, span, until } from "./show.js";

// Figures that the small lines are drawn of: about five minutes on a quiet relay.
const HISTORY = 60;
// How long a browser waits that may not follow, in milliseconds.
const AGAIN = 5000;

const circuits = [];
const rates = [];
let before;

function remember(figures, figure) {
  figures.push(figure);
  if (figures.length > HISTORY) figures.shift();
}

function showTraffic({ circuits: open, bytes: carried }) {
  const now = performance.now();
  const rate = before ? Math.max(0, (carried - before.carried) / Math.max((now - before.now) / 1000, 0.1)) : 0;
  before = { now, carried };
  remember(circuits, open);
  remember(rates, rate);
  set("circuits", open);
  set("bytes", bytes(carried));
  set("rate", `${bytes(rate)}/s`);
  line("circuits-line", circuits);
  line("bytes-line", rates);
}

function state(peer) {
  if (peer.healthy) return ["good", "healthy"];
  if (peer.consecutive_failures === 0) return ["waiting", "not asked yet"];
  return ["bad", `failing (${peer.consecutive_failures}×)`];
}

function fact(name, text) {
  return element("div", "", element("dt", "", name), element("dd", "", text));
}

function relay(peer) {
  const [kind, word] = state(peer);
  const badge = element("span", "state", word);
  badge.dataset.state = kind;
  const facts = element("dl", "", fact("Received", peer.pulled), fact("Sent", peer.pushed));
  if (peer.last_answer) facts.append(fact("Last answer", `${span(-until(peer.last_answer))} ago`));
  if (peer.backoff_until) facts.append(fact("Asked again in", span(until(peer.backoff_until))));
  const known = peer.relay_id && peer.relay_id !== peer.address;
  const whole = element("li", "relay", element("div", "head", element("h3", "", peer.address), badge),
    known ? element("p", "identity", id(peer.relay_id)) : undefined, facts);
  if (kind === "bad") whole.append(element("p", "reason", peer.reason || "no answer"));
  return whole;
}

function showFederation(federation) {
  by("federation").hidden = !federation;
  if (!federation) return;
  set("healthy", `${federation.healthy_peers} of ${federation.peers} healthy`);
  arrange(by("relays"), federation.peer_details.map(relay));
}

// What a node needs that is connected and not listed.
function missing({ registry_endpoint: { address, port, loopback_only: local }, libp2p, relay }) {
  if (local && !address) {
    return "The registry listens on a loopback address only, so nodes of other hosts cannot register: set --registry-listen or --announce-registry.";
  }
  const there = `${libp2p.connected_peers} nodes are connected and ${relay.reservations} have a reservation.`;
  const where = address || `port ${port} of this host`;
  return `${there} Nodes register at ${where}; a node that asks elsewhere sets anycast.registry_addrs to that address.`;
}

function showStats(stats) {
  clockIs(stats.now);
  set("local", stats.registry.local_count);
  set("federated", stats.registry.federated_count);
  set("peers", stats.libp2p.connected_peers);
  set("reservations", stats.relay.reservations);
  set("uptime", span(stats.uptime_seconds));
  set("version", stats.version);
  if (by("peer-id").textContent !== stats.peer_id) {
    set("peer-id", stats.peer_id);
    by("peer-id").after(" ", copy("relay id", stats.peer_id));
  }
  set("nobody-hint", missing(stats));
  showTraffic(stats.relay);
  showFederation(stats.federation);
}

function live(kind, text) {
  by("live").dataset.state = kind;
  set("live", text);
}

// One question at a time: on a slow line the answers to old ones would pile up.
let asking = false;
async function refresh() {
  if (asking) return;
  asking = true;
  try {
    await Promise.all([showAgents(), showSkills()]);
  } catch {
    live("bad", "The directory does not answer; trying again");
  } finally {
    asking = false;
  }
}

async function look() {
  const answer = await fetch("/api/v1/stats").catch(() => undefined);
  if (!answer?.ok) return;
  showStats(await answer.json());
  await refresh();
  live("bad", "Not live; trying again");
}

function follow() {
  const events = new EventSource("/api/v1/events");
  events.addEventListener("error", () => {
    live("bad", "No answer; trying again");
    // Refused, as when too many follow: the browser gives up by itself then. What can be had is shown meanwhile.
    if (events.readyState === EventSource.CLOSED) {
      look();
      setTimeout(follow, AGAIN);
    }
  });
  events.addEventListener("stats", (event) => {
    live("good", "Live");
    showStats(JSON.parse(event.data));
    // Entries that expire are no change of their own, so every event is a reason to look.
    refresh();
  });
}

begin();
follow();
setInterval(tick, 1000);
