// An agent on the published TypeScript SDK. The first word of a task says what to do with it, as in
// agent.py: `echo TEXT` completes at once, `fail TEXT` fails, `slow` never ends, `ask TEXT` asks for input
// and then completes with all that was said. Prints a line of JSON when it serves; ends with standard input.
//
// Usage: agent.mjs home DIRECTORY DAEMON [RELAY] | agent.mjs daemon ADDRESS

import { Node } from "agentanycast";

const [kind, where, daemonPath, relay] = process.argv.slice(2);
const card = {
  name: "TypeScript agent",
  description: "Does what the first word says",
  skills: [{ id: "echo", description: "Says it again" }],
};
const node = new Node(
  kind === "daemon" ? { card, daemonAddr: where } : { card, home: where, daemonPath, relay },
);

const say = (facts) => process.stdout.write(`${JSON.stringify(facts)}\n`);
const textOf = (message) => message.parts.map((part) => part.text ?? "").join("");

const asked = new Set();
node.onTask(async (task) => {
  // The agent's own questions are among the messages.
  const said = task.messages.filter((message) => message.role === "user").map(textOf);
  say({ task: task.taskId, said, sender: task.peerId });
  const [word, ...rest] = said[0].split(" ");
  const artifact = (text) => [{ name: "result", parts: [{ text }] }];
  if (word === "echo") await task.complete(artifact(rest.join(" ")));
  if (word === "fail") await task.fail(rest.join(" "));
  // A canceled task is handed over once more; the SDK does not say in which state.
  if (word === "slow" && !asked.has(task.taskId)) {
    asked.add(task.taskId);
    await task.updateStatus("working");
  }
  if (word === "ask" && said.length === 1) {
    await task.requestInput({ role: "agent", parts: [{ text: "what else?" }] });
  } else if (word === "ask") {
    await task.complete(artifact(said.join(" | ")));
  }
});

await node.start();
node.serveForever().catch((error) => {
  console.error(error);
  process.exit(1);
});
say({ peer_id: node.peerId });
process.stdin.resume();
process.stdin.on("end", async () => {
  await node.stop();
  process.exit(0);
});
