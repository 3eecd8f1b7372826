// Sends tasks with the published TypeScript SDK to an agent as agent.py is one, and checks how they end.
// Prints each scenario when it has passed; anything unexpected is an error and code 1.
//
// Usage: asker.mjs daemon ADDRESS PEER SCENARIO… | asker.mjs home DIRECTORY DAEMON RELAY PEER SCENARIO… with the
// scenarios many, fail, cancel, card, skill.

import assert from "node:assert/strict";

import { Node, TaskCanceledError, TaskFailedError } from "agentanycast";

const LIMIT = 60_000;
const MANY = 50;

const [kind, where, ...rest] = process.argv.slice(2);
const [daemonPath, relay] = kind === "home" ? rest.splice(0, 2) : [];
const [peerId, ...names] = rest;
const card = { name: "TypeScript asker", skills: [] };
const node = new Node(
  kind === "home" ? { card, home: where, daemonPath, relay } : { card, daemonAddr: where },
);
const send = (text) => node.sendTask({ role: "user", parts: [{ text }] }, { peerId });

async function echo(number) {
  const handle = await send(`echo ${number}`);
  const task = await handle.wait(LIMIT);
  assert.equal(task.artifacts[0].parts[0].text, String(number));
}

const scenarios = {
  async many() {
    for (let number = 0; number < MANY; number++) await echo(number);
    await Promise.all(Array.from({ length: MANY }, (_, number) => echo(MANY + number)));
  },
  async fail() {
    const handle = await send("fail no such city");
    await assert.rejects(handle.wait(LIMIT), TaskFailedError);
  },
  async cancel() {
    const handle = await send("slow");
    const deadline = Date.now() + LIMIT;
    while (handle.status !== "working") {
      assert(Date.now() < deadline, `the task is ${handle.status}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    await handle.cancel();
    await assert.rejects(handle.wait(LIMIT), TaskCanceledError);
  },
  async skill() {
    const found = await node.discover("echo");
    assert.deepEqual(found.map((agent) => agent.peerId), [peerId]);
    const handle = await node.sendTask({ role: "user", parts: [{ text: "echo by skill" }] }, { skill: "echo" });
    const task = await handle.wait(LIMIT);
    assert.equal(task.artifacts[0].parts[0].text, "by skill");
  },
  async card() {
    await node.connectPeer(peerId);
    const card = await node.getCard(peerId);
    assert.equal(card.peerId, peerId);
    assert.deepEqual(card.skills.map((skill) => skill.id), ["echo"]);
  },
};

await node.start();
for (const name of names) {
  await scenarios[name]();
  process.stdout.write(`${name}\n`);
}
await node.stop();
process.exit(0);
