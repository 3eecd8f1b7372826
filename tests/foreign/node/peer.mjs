// A peer on js-libp2p that speaks our wire protocol by hand: frames of four bytes of big-endian length and
// a message that protobufjs encodes from our .proto files. It behaves as it is told by lines of JSON on
// standard input, and prints a line of JSON for all that happens.
//
// Usage: peer.mjs PROTO_DIRECTORY [RELAY]
//
// With the multiaddr of a relay it listens nowhere else, and is ready when it has a place there.
//
// Told: {"do": "dial", "address"}         connects
//       {"do": "hang_up"}                 closes all connections
//       {"do": "answer", "peer_id"}       sends to this connected peer from now on
//       {"do": "send", "envelopes"}       each on a stream of its own, as deployed peers do
//       {"do": "send_on_one", "envelopes"} all on one stream
//       {"do": "raw", "protocol", "hex"}  these bytes on a stream of their own
//       {"do": "card", "card"}            exchanges cards; the card is answered to others from now on
//       {"do": "set", …}                  ack: whether envelopes are acknowledged (true);
//                                         close: whether a stream is closed after one envelope (false);
//                                         idle: seconds without a frame after which a stream is reset (0 = never);
//                                         ignore: types of envelopes that are never acknowledged ([])
// Said: ready, dialed, answers, hung_up, sent, raw_done, set, envelope, idle, ack_sent, card_answer, card_received

import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { noise } from "@chainsafe/libp2p-noise";
import { yamux } from "@chainsafe/libp2p-yamux";
import { circuitRelayTransport } from "@libp2p/circuit-relay-v2";
import { identify } from "@libp2p/identify";
import { tcp } from "@libp2p/tcp";
import { multiaddr } from "@multiformats/multiaddr";
import { createLibp2p } from "libp2p";
import protobuf from "protobufjs";

const A2A = "/agentanycast/a2a/1.0";
const CARD = "/agentanycast/card/1.0";
const STREAMS = { maxInboundStreams: 4096, maxOutboundStreams: 4096, runOnLimitedConnection: true };

const [protoDirectory, relay] = process.argv.slice(2);
const root = new protobuf.Root();
root.resolvePath = (_, target) =>
  target.startsWith("agentanycast/") ? join(protoDirectory, target) : target;
const files = ["a2a_models", "agent_card"].map((name) => `agentanycast/v1/${name}.proto`);
await root.load(files, { keepCase: true });
const Envelope = root.lookupType("agentanycast.v1.A2AEnvelope");
const AgentCard = root.lookupType("agentanycast.v1.AgentCard");

const encode = (type, object) => {
  const payload = type.encode(type.fromObject(object)).finish();
  const frame = Buffer.alloc(4 + payload.length);
  frame.writeUInt32BE(payload.length);
  frame.set(payload, 4);
  return frame;
};
const decode = (type, payload) =>
  type.toObject(type.decode(payload), { longs: String, enums: String, bytes: String });

const say = (event, facts = {}) =>
  process.stdout.write(`${JSON.stringify({ event, ...facts })}\n`);

const settings = { ack: true, close: false, idle: 0, ignore: [] };
let ownCard;
let inbound = 0;

const node = await createLibp2p({
  addresses: { listen: [relay ? `${relay}/p2p-circuit` : "/ip4/127.0.0.1/tcp/0"] },
  transports: relay ? [tcp(), circuitRelayTransport()] : [tcp()],
  services: relay ? { identify: identify() } : {},
  connectionEncrypters: [noise()],
  streamMuxers: [yamux()],
});

async function* frames(stream) {
  let rest = Buffer.alloc(0);
  for await (const bytes of stream) {
    rest = Buffer.concat([rest, bytes.subarray()]);
    while (rest.length >= 4 && rest.length >= 4 + rest.readUInt32BE()) {
      const end = 4 + rest.readUInt32BE();
      yield rest.subarray(4, end);
      rest = rest.subarray(end);
    }
  }
}

async function write(stream, bytes) {
  if (!stream.send(bytes)) await stream.onDrain();
}

async function onFreshStream(peer, protocol, chunks) {
  const stream = await node.dialProtocol(peer, protocol, STREAMS);
  for (const bytes of chunks) await write(stream, bytes);
  await stream.close();
  return stream;
}

async function acknowledge(peer, envelope) {
  const ack = {
    envelope_id: randomUUID(),
    type: "ENVELOPE_TYPE_ACK",
    timestamp: { seconds: Math.floor(Date.now() / 1000) },
    ack: { acknowledged_envelope_id: envelope.envelope_id },
  };
  await onFreshStream(peer, A2A, [encode(Envelope, ack)]);
  say("ack_sent", { envelope_id: envelope.envelope_id });
}

async function onEnvelopes(stream, connection) {
  const number = ++inbound;
  let timer;
  const rearm = () => {
    clearTimeout(timer);
    if (settings.idle > 0) timer = setTimeout(() => giveUp(), settings.idle * 1000);
  };
  const giveUp = () => {
    stream.abort(new Error("idle"));
    say("idle", { stream: number });
  };
  rearm();
  for await (const frame of frames(stream)) {
    rearm();
    const envelope = decode(Envelope, frame);
    say("envelope", { stream: number, envelope });
    const ignored = ["ENVELOPE_TYPE_ACK", ...settings.ignore].includes(envelope.type);
    if (settings.ack && !ignored) {
      await acknowledge(connection.remotePeer, envelope);
    }
    // What comes later on this stream is not read: a deployed peer that has waited too long does so too.
    if (settings.close) break;
  }
  clearTimeout(timer);
  await stream.close().catch(() => {});
}

async function onCard(stream) {
  for await (const frame of frames(stream)) {
    say("card_received", { card: decode(AgentCard, frame) });
    if (ownCard) await write(stream, encode(AgentCard, ownCard));
    break;
  }
  await stream.close();
}

// A stream that the other side resets is no reason to end.
const quietly = (handler) => (stream, connection) =>
  Promise.resolve(handler(stream, connection)).catch((error) => console.error(error.message));

await node.handle(A2A, quietly(onEnvelopes), STREAMS);
await node.handle(CARD, quietly(onCard), STREAMS);

let other;
const told = {
  async dial({ address }) {
    const connection = await node.dial(multiaddr(address));
    other = connection.remotePeer;
    say("dialed");
  },
  async answer({ peer_id }) {
    other = node.getConnections().find((at) => at.remotePeer.toString() === peer_id).remotePeer;
    say("answers");
  },
  async hang_up() {
    await Promise.all(node.getConnections().map((connection) => connection.close()));
    say("hung_up");
  },
  async send({ envelopes }) {
    for (const envelope of envelopes) await onFreshStream(other, A2A, [encode(Envelope, envelope)]);
    say("sent");
  },
  async send_on_one({ envelopes }) {
    await onFreshStream(other, A2A, envelopes.map((envelope) => encode(Envelope, envelope)));
    say("sent");
  },
  async raw({ protocol, hex }) {
    // The daemon may reset the stream while it is being written; that is for it to decide.
    await onFreshStream(other, protocol, [Buffer.from(hex, "hex")]).catch((error) =>
      console.error(error.message),
    );
    say("raw_done");
  },
  async card({ card }) {
    ownCard = card;
    const stream = await node.dialProtocol(other, CARD, STREAMS);
    await write(stream, encode(AgentCard, card));
    await stream.close();
    let answer = null;
    for await (const frame of frames(stream)) answer = decode(AgentCard, frame);
    say("card_answer", { card: answer });
  },
  async set(changes) {
    Object.assign(settings, changes);
    say("set");
  },
};

while (relay && node.getMultiaddrs().length === 0) {
  await new Promise((changed) => node.addEventListener("self:peer:update", changed, { once: true }));
}
say("ready", {
  peer_id: node.peerId.toString(),
  addresses: node.getMultiaddrs().map(String),
});
for await (const line of createInterface({ input: process.stdin })) {
  const { do: what, ...how } = JSON.parse(line);
  await told[what](how);
}
await node.stop();
process.exit(0);
