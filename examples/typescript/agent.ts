// An agent that turns text round. Usage: node agent.mjs, beside a daemon that runs (`anycast up`).

import { type IncomingTask, Node } from "agentanycast";

const card = {
  name: "Mirror",
  description: "Turns a text round",
  skills: [{ id: "mirror", description: "The text from its end to its beginning" }],
};
const node = new Node({ card });

node.onTask(async (task: IncomingTask) => {
  const text = task.messages.at(-1)?.parts.map((part) => part.text ?? "").join("") ?? "";
  if (text === "") {
    await task.fail("there is no text to turn round");
    return;
  }
  await task.complete([{ name: "mirrored", parts: [{ text: [...text].reverse().join("") }] }]);
});

await node.start();
console.log(`${card.name} serves as ${node.peerId}`);
await node.serveForever();
