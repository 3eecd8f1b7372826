// What an agent of a2a_server.mjs and a2a_server_0_3.mjs does: as the first word of a message says. The servers say how
// it is said in the words of their version.

import { createInterface } from "node:readline";

import express from "express";
import { Server, ServerCredentials } from "@grpc/grpc-js";

export const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);

export class Agent {
  constructor(words) {
    Object.assign(this, words);
    this.waiting = [];
    this.granted = 0;
    this.canceled = new Set();
    this.contexts = new Map();
  }

  // One step of what is held.
  release() {
    const next = this.waiting.shift();
    if (next) next();
    else this.granted += 1;
  }

  async step() {
    if (this.granted > 0) this.granted -= 1;
    else await new Promise((resolve) => this.waiting.push(resolve));
  }

  execute = async (context, bus) => {
    const text = this.textOf(context.userMessage);
    say({ got: context.userMessage.messageId, text, context: context.contextId });
    this.contexts.set(context.taskId, context.contextId);
    const updater = this.updaterOf(context, bus);
    if (text === "message") updater.message("no task");
    // The message names a task that the server does not keep.
    else if (text === "named") updater.named("no task");
    else {
      updater.begin();
      const [word, rest] = text.split("\n")[0].split(/ (.*)/);
      const does = Object.hasOwn(this.does, word) ? this.does[word] : () => this.answer(updater, `answered ${text}`);
      await does(updater, rest, context);
    }
    bus.finished();
  };

  cancelTask = async (taskId, bus) => {
    say({ canceled: taskId });
    this.canceled.add(taskId);
    this.cancelerOf(taskId, this.contexts.get(taskId), bus).status("CANCELED");
    bus.finished();
  };

  answer(updater, text) {
    updater.artifact([updater.text(text)], { artifactId: "answer", name: "Answer" });
    updater.status("COMPLETED", "done");
  }

  does = {
    echo: (updater, rest) => {
      updater.status("WORKING", "begun");
      this.answer(updater, rest);
    },
    metadata: (updater, _, context) => this.answer(updater, JSON.stringify(this.metadataOf(context))),
    parts: (updater, _, context) => {
      updater.artifact(context.userMessage.parts.slice(1), { artifactId: "parts", metadata: { n: 1.5, l: [true] } });
      updater.status("COMPLETED");
    },
    steps: (updater, rest) => {
      for (let step = 0; step < Number(rest); step += 1) {
        updater.status("WORKING", `step ${step}`);
        const [append, lastChunk] = [step > 0, step + 1 === Number(rest)];
        updater.artifact([updater.text(`${step};`)], { artifactId: "steps", append, lastChunk });
      }
      updater.status("COMPLETED");
    },
    held: async (updater, rest) => {
      for (let step = 0; step < Number(rest); step += 1) {
        const [append, lastChunk] = [step > 0, step + 1 === Number(rest)];
        updater.artifact([updater.text(`${step};`)], { artifactId: "held", append, lastChunk });
        updater.status("WORKING", `held ${step}`);
        await this.step();
      }
      updater.status("COMPLETED");
    },
    question: (updater) => updater.status("INPUT_REQUIRED", "which one?"),
    login: (updater) => updater.status("AUTH_REQUIRED", "log in"),
    fail: (updater) => updater.status("FAILED", "it broke"),
    reject: (updater) => updater.status("REJECTED", "not mine"),
    wait: async (updater, _, { taskId }) => {
      updater.status("WORKING");
      while (!this.canceled.has(taskId)) await new Promise((resolve) => setTimeout(resolve, 20));
    },
  };
}

// Serves the agent over each binding at free ports and says its URL. `sdk` is what an SDK of either version exports; `cardOf`
// makes the card of the binding's URL. A line on standard input lets what is held go on by one step; its end is the end.
export async function serve(agent, binding, sdk, cardOf) {
  const app = express();
  const listener = app.listen(0, "127.0.0.1");
  await new Promise((resolve, reject) => listener.once("listening", resolve).once("error", reject));
  const url = `http://127.0.0.1:${listener.address().port}`;
  const grpc = new Server();
  const grpcPort = await new Promise((resolve, reject) =>
    grpc.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) => (error ? reject(error) : resolve(port))),
  );
  const urls = { JSONRPC: `${url}/rpc`, "HTTP+JSON": `${url}/rest`, GRPC: `127.0.0.1:${grpcPort}` };
  const requestHandler = new sdk.DefaultRequestHandler(cardOf(urls[binding]), new sdk.InMemoryTaskStore(), agent);
  const userBuilder = sdk.UserBuilder.noAuthentication;
  app.use(`/${sdk.AGENT_CARD_PATH}`, sdk.agentCardHandler({ agentCardProvider: requestHandler }));
  app.use("/rpc", sdk.jsonRpcHandler({ requestHandler, userBuilder }));
  app.use("/rest", sdk.restHandler({ requestHandler, userBuilder }));
  grpc.addService(sdk.A2AService, sdk.grpcService({ requestHandler, userBuilder }));
  say({ url });
  for await (const _ of createInterface({ input: process.stdin })) agent.release();
  process.exit(0);
}
