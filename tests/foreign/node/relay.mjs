// A circuit relay on js-libp2p. Says: ready {peer_id, addresses}; ends with its standard input.

import { noise } from "@chainsafe/libp2p-noise";
import { yamux } from "@chainsafe/libp2p-yamux";
import { circuitRelayServer } from "@libp2p/circuit-relay-v2";
import { identify } from "@libp2p/identify";
import { tcp } from "@libp2p/tcp";
import { createLibp2p } from "libp2p";

const node = await createLibp2p({
  addresses: { listen: ["/ip4/127.0.0.1/tcp/0"] },
  transports: [tcp()],
  connectionEncrypters: [noise()],
  streamMuxers: [yamux()],
  services: { identify: identify(), relay: circuitRelayServer() },
});
const ready = { event: "ready", peer_id: node.peerId.toString(), addresses: node.getMultiaddrs().map(String) };
process.stdout.write(`${JSON.stringify(ready)}\n`);
process.stdin.resume();
await new Promise((ended) => process.stdin.once("end", ended));
await node.stop();
process.exit(0);
