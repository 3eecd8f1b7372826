// Two Node objects of the published TypeScript SDK in one process, at the same daemon.
//
// Prints a line of JSON when both serve, and one for each time that a handler is called. The first node's handler completes
// the task; the second one's only says that it was called. Ends with standard input.
//
// Usage: two_nodes.mjs ADDRESS

import { Node } from "agentanycast";

const card = {
  name: "Pair",
  description: "Is served by two nodes",
  skills: [{ id: "pair", description: "" }],
};
const nodes = [1, 2].map(() => new Node({ card, daemonAddr: process.argv[2] }));
const say = (facts) => process.stdout.write(`${JSON.stringify(facts)}\n`);

nodes.forEach((node, at) =>
  node.onTask(async (task) => {
    const text = task.messages[0].parts[0].text;
    say({ node: at + 1, text });
    if (at === 0) await task.complete([{ name: "answer", parts: [{ text: text.toUpperCase() }] }]);
  }),
);
for (const node of nodes) {
  await node.start();
  node.serveForever().catch((error) => {
    console.error(error);
    process.exit(1);
  });
}
say({ peer_id: nodes[0].peerId });
process.stdin.resume();
process.stdin.on("end", async () => {
  for (const node of nodes) await node.stop();
  process.exit(0);
});
