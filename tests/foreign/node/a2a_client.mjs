// A client on the official A2A SDK for JavaScript, `@a2a-js/sdk` 1.3.0: each scenario is one thing that users do with
// an agent. It prints the name of each scenario that succeeds, and ends.
//
// Usage: a2a_client.mjs URL JSONRPC|HTTP+JSON|GRPC SCENARIO...

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

import { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } from "@a2a-js/sdk/client";
import { GrpcTransportFactory } from "@a2a-js/sdk/client/grpc";
import { TaskNotCancelableError, TaskNotFoundError } from "@a2a-js/sdk/errors";
import { Role, TaskState } from "@a2a-js/sdk";

const [url, binding, ...names] = process.argv.slice(2);
const transports = { JSONRPC: JsonRpcTransportFactory, "HTTP+JSON": RestTransportFactory, GRPC: GrpcTransportFactory };
// No other binding is taken in its place.
const factory = new ClientFactory({ transports: [new transports[binding]()] });
const client = await factory.createFromUrl(`${url.replace(/\/$/, "")}/.well-known/agent-card.json`, "");

const part = ($case, value, more = {}) => ({ content: { $case, value }, filename: "", mediaType: "", ...more });
const request = (text, { parts = [], returnImmediately = false, ...more } = {}) => ({
  tenant: "",
  message: {
    messageId: randomUUID(),
    contextId: "",
    taskId: "",
    role: Role.ROLE_USER,
    parts: [part("text", text), ...parts],
    extensions: [],
    referenceTaskIds: [],
    ...more,
  },
  configuration: { acceptedOutputModes: [], taskPushNotificationConfig: undefined, returnImmediately },
});
const ask = (text, more) => client.sendMessage(request(text, more));
const named = (id) => ({ tenant: "", id });
const stateOf = (task) => TaskState[task.status.state].replace("TASK_STATE_", "");
const textsOf = (parts) => parts.map(({ content }) => content.value);
const resultsOf = (task) => task.artifacts.flatMap((artifact) => textsOf(artifact.parts));

async function until(id, state) {
  for (;;) {
    const task = await client.getTask(named(id));
    if (stateOf(task) === state) return task;
    await sleep(20);
  }
}

// What a client knows at the end of a stream. `begun` is called with the first event.
async function follow(events, begun = () => {}) {
  const known = { results: [] };
  for await (const { payload } of events) {
    if (!known.state) begun();
    const { $case, value } = payload;
    if ($case === "task") [known.id, known.state] = [value.id, stateOf(value)];
    if ($case === "task") known.results.push(...resultsOf(value));
    if ($case === "statusUpdate") known.state = stateOf(value);
    if ($case === "artifactUpdate") known.results.push(...textsOf(value.artifact.parts));
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
    assert.equal(stateOf(task), "COMPLETED");
    assert.deepEqual(resultsOf(task), ["Grüezi"]);
  },
  async fail() {
    const task = await ask("fail no paper");
    assert.equal(stateOf(task), "FAILED");
    assert.deepEqual(textsOf(task.status.message.parts), ["no paper"]);
  },
  async stream() {
    const known = await follow(client.sendMessageStream(request("echo live")));
    assert.deepEqual([known.state, known.results], ["COMPLETED", ["live"]]);
  },
  async question() {
    const task = await ask("ask me");
    assert.equal(stateOf(task), "INPUT_REQUIRED");
    const done = await ask("that", { taskId: task.id, contextId: task.contextId });
    assert.deepEqual([done.id, resultsOf(done)], [task.id, ["ask me | that"]]);
  },
  // The stream ends when the agent asks, so that the caller can answer.
  async question_in_stream() {
    const asked = await follow(client.sendMessageStream(request("ask me")));
    assert.equal(asked.state, "INPUT_REQUIRED");
    const done = await follow(client.sendMessageStream(request("that", { taskId: asked.id })));
    assert.deepEqual([done.id, done.state, done.results], [asked.id, "COMPLETED", ["ask me | that"]]);
  },
  async resubscribe() {
    const task = await ask("ask live");
    const answer = () => ask("again", { taskId: task.id, returnImmediately: true });
    const known = await follow(client.resubscribeTask(named(task.id)), answer);
    assert.deepEqual([known.state, known.results], ["COMPLETED", ["ask live | again"]]);
  },
  async files() {
    // One of them is text that is valid base64.
    const files = [Buffer.from([0, 255, 16]), Buffer.from("test")];
    const parts = files.map((file, n) => part("raw", file, { filename: `${n}.bin`, mediaType: "application/x-test" }));
    parts.push(part("url", "https://example.org/a.png", { mediaType: "image/png" }));
    parts.push(part("data", { n: 42, f: 1.5, list: [null, true, "x"] }));
    const task = await ask("ask", { parts });
    const [, first, second, link, data] = (await client.getTask(named(task.id))).history[0].parts;
    assert.deepEqual([first.content.value, second.content.value].map(Buffer.from), files);
    assert.deepEqual([first.filename, first.mediaType], ["0.bin", "application/x-test"]);
    assert.equal(link.content.value, "https://example.org/a.png");
    assert.deepEqual(data.content.value, { n: 42, f: 1.5, list: [null, true, "x"] });
    await client.cancelTask(named(task.id));
  },
  async cancel() {
    const task = await ask("slow", { returnImmediately: true });
    await until(task.id, "WORKING");
    assert.equal(stateOf(await client.cancelTask(named(task.id))), "CANCELED");
    await assert.rejects(client.cancelTask(named(task.id)), TaskNotCancelableError);
  },
  async errors() {
    await assert.rejects(client.getTask(named("no-such-task")), TaskNotFoundError);
    // Before a stream begins.
    const unknown = follow(client.sendMessageStream(request("more", { taskId: "no-such-task" })));
    await assert.rejects(unknown, TaskNotFoundError);
  },
};

for (const name of names) {
  await scenarios[name]();
  console.log(name);
}
process.exit(0);
