// A client on the official A2A SDK for JavaScript, `@a2a-js/sdk` 0.3.13: each scenario is one thing that users do with
// an agent. It prints the name of each scenario that succeeds, and ends.
//
// Usage: a2a_client_0_3.mjs URL JSONRPC|HTTP+JSON|GRPC SCENARIO...

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

import {
  ClientFactory,
  JsonRpcTransportFactory,
  RestTransportFactory,
  TaskNotCancelableError,
  TaskNotFoundError,
} from "a2a-js-0.3/client";
import { GrpcTransportFactory } from "a2a-js-0.3/client/grpc";

const [url, binding, ...names] = process.argv.slice(2);
const transports = { JSONRPC: JsonRpcTransportFactory, "HTTP+JSON": RestTransportFactory, GRPC: GrpcTransportFactory };
// No other binding is taken in its place.
const factory = new ClientFactory({ transports: [new transports[binding]()] });
const client = await factory.createFromUrl(`${url.replace(/\/$/, "")}/.well-known/agent-card.json`, "");

const request = (text, { parts = [], blocking = true, ...more } = {}) => ({
  message: { kind: "message", messageId: randomUUID(), role: "user", parts: [{ kind: "text", text }, ...parts], ...more },
  configuration: { blocking },
});
const ask = (text, more) => client.sendMessage(request(text, more));
const textsOf = (parts) => parts.map((part) => part.text);
const resultsOf = (task) => (task.artifacts ?? []).flatMap((artifact) => textsOf(artifact.parts));

async function until(id, state) {
  for (;;) {
    const task = await client.getTask({ id });
    if (task.status.state === state) return task;
    await sleep(20);
  }
}

// What a client knows at the end of a stream. `begun` is called with the first event.
async function follow(events, begun = () => {}) {
  const known = { results: [] };
  for await (const event of events) {
    if (!known.state) begun();
    if (event.kind === "task") {
      [known.id, known.state] = [event.id, event.status.state];
      known.results.push(...resultsOf(event));
    }
    if (event.kind === "status-update") known.state = event.status.state;
    if (event.kind === "artifact-update") known.results.push(...textsOf(event.artifact.parts));
  }
  return known;
}

const scenarios = {
  async card() {
    const card = await client.getAgentCard();
    assert.equal(card.name, "Python agent");
    assert.deepEqual(card.skills.map((skill) => skill.id), ["echo"]);
  },
  async send() {
    const task = await ask("echo Grüezi");
    assert.equal(task.status.state, "completed");
    assert.deepEqual(resultsOf(task), ["Grüezi"]);
  },
  async fail() {
    const task = await ask("fail no paper");
    assert.equal(task.status.state, "failed");
    assert.deepEqual(textsOf(task.status.message.parts), ["no paper"]);
  },
  async stream() {
    const known = await follow(client.sendMessageStream(request("echo live")));
    assert.deepEqual([known.state, known.results], ["completed", ["live"]]);
  },
  async question() {
    const task = await ask("ask me");
    assert.equal(task.status.state, "input-required");
    const done = await ask("that", { taskId: task.id, contextId: task.contextId });
    assert.deepEqual([done.id, resultsOf(done)], [task.id, ["ask me | that"]]);
  },
  async question_in_stream() {
    const asked = await follow(client.sendMessageStream(request("ask me")));
    assert.equal(asked.state, "input-required");
    const done = await follow(client.sendMessageStream(request("that", { taskId: asked.id })));
    assert.deepEqual([done.id, done.state, done.results], [asked.id, "completed", ["ask me | that"]]);
  },
  async resubscribe() {
    const task = await ask("ask live");
    const answer = () => ask("again", { taskId: task.id, blocking: false });
    const known = await follow(client.resubscribeTask({ id: task.id }), answer);
    assert.deepEqual([known.state, known.results], ["completed", ["ask live | again"]]);
  },
  // The answer is sent while the subscription begins: the question is not told once more.
  async answered_at_once() {
    for (let round = 0; round < 5; round += 1) {
      const { id } = await ask("ask live");
      const following = follow(client.resubscribeTask({ id })).catch((error) => error);
      await ask("again", { taskId: id, blocking: false });
      const known = await following;
      // The task may be over before the subscription.
      if (!(known instanceof Error)) assert.equal(known.state, "completed");
      else assert.match(known.message, /has ended/);
    }
  },
  async files() {
    // One of them is text that is valid base64.
    const files = [Buffer.from([0, 255, 16]), Buffer.from("test")].map((file) => file.toString("base64"));
    const parts = files.map((bytes, n) => ({
      kind: "file",
      file: { bytes, name: `${n}.bin`, mimeType: "application/x-test" },
    }));
    parts.push({ kind: "file", file: { uri: "https://example.org/a.png", mimeType: "image/png" } });
    // Over gRPC the client cannot write null.
    const list = binding === "GRPC" ? [true, "x"] : [null, true, "x"];
    parts.push({ kind: "data", data: { n: 42, f: 1.5, list } });
    const task = await ask("ask", { parts });
    const [, first, second, link, data] = (await client.getTask({ id: task.id })).history[0].parts;
    assert.deepEqual([first.file.bytes, second.file.bytes], files);
    assert.equal(first.file.mimeType, "application/x-test");
    // Over REST and gRPC the client leaves it out.
    if (binding === "JSONRPC") assert.equal(first.file.name, "0.bin");
    assert.equal(link.file.uri, "https://example.org/a.png");
    assert.deepEqual(data.data, { n: 42, f: 1.5, list });
    await client.cancelTask({ id: task.id });
  },
  async cancel() {
    const task = await ask("slow", { blocking: false });
    await until(task.id, "working");
    assert.equal((await client.cancelTask({ id: task.id })).status.state, "canceled");
    // Over gRPC the client reads this error's class from a status that the SDK for Python does not send.
    const expected = binding === "GRPC" ? /TaskNotCancelableError/ : TaskNotCancelableError;
    await assert.rejects(client.cancelTask({ id: task.id }), expected);
  },
  async errors() {
    await assert.rejects(client.getTask({ id: "no-such-task" }), TaskNotFoundError);
    // Before a stream begins.
    const unknown = follow(client.sendMessageStream(request("more", { taskId: "no-such-task" })));
    await assert.rejects(unknown, /no-such-task|TaskNotFound|not found/i);
  },
};

for (const name of names) {
  await scenarios[name]();
  console.log(name);
}
process.exit(0);
