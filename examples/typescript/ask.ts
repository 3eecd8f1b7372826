// Asks whichever agent can turn a text round.
// Usage: node ask.mjs HOME TEXT, with HOME the directory of a node (`anycast --home HOME up`).

import { resolve } from "node:path";

import { Node } from "agentanycast";

const [home, text] = process.argv.slice(2);
const node = new Node({ card: { name: "Asker", description: "Asks", skills: [] }, home: resolve(home) });
await node.start();
try {
  const task = await node.sendTask({ role: "user", parts: [{ text }] }, { skill: "mirror" });
  const result = await task.wait();
  console.log(result.artifacts[0].parts[0].text);
} finally {
  await node.stop();
}
