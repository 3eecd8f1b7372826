// An agent on the official A2A SDK for JavaScript, `@a2a-js/sdk` 0.3.13, as a2a/server_0_3.py is one on the SDK for Python.
//
// Usage: a2a_server_0_3.mjs JSONRPC|HTTP+JSON|GRPC streaming|plain

import * as core from "a2a-js-0.3";
import * as server from "a2a-js-0.3/server";
import * as web from "a2a-js-0.3/server/express";
import * as grpc from "a2a-js-0.3/server/grpc";

import { Agent, serve } from "./a2a_agent.mjs";

const [binding, streaming] = process.argv.slice(2);
const FINAL = ["COMPLETED", "FAILED", "REJECTED", "CANCELED", "INPUT_REQUIRED", "AUTH_REQUIRED"];

// What an agent says, in the words of 0.3.
class Updater {
  constructor({ taskId, contextId, userMessage, task }, bus) {
    Object.assign(this, { taskId, contextId, bus });
    if (!task) this.first = { history: [userMessage] };
  }

  begin() {
    if (!this.first) return;
    const { taskId: id, contextId } = this;
    this.bus.publish({ kind: "task", id, contextId, status: this.statusOf("SUBMITTED"), history: this.first.history });
  }

  messageOf(text) {
    const { taskId, contextId } = this;
    return { kind: "message", messageId: crypto.randomUUID(), taskId, contextId, role: "agent", parts: [this.text(text)] };
  }

  statusOf(state, text) {
    const message = text && this.messageOf(text);
    return { state: state.toLowerCase().replace("_", "-"), message, timestamp: new Date().toISOString() };
  }

  named(text) {
    this.bus.publish(this.messageOf(text));
  }

  message(text) {
    this.bus.publish({ ...this.messageOf(text), taskId: undefined });
  }

  status(state, text) {
    const { taskId, contextId } = this;
    const [status, final] = [this.statusOf(state, text), FINAL.includes(state)];
    this.bus.publish({ kind: "status-update", taskId, contextId, status, final });
  }

  artifact(parts, { artifactId, name, metadata, append = false, lastChunk = true }) {
    const { taskId, contextId } = this;
    const artifact = { artifactId, name, parts, metadata };
    this.bus.publish({ kind: "artifact-update", taskId, contextId, artifact, append, lastChunk });
  }

  text(text) {
    return { kind: "text", text };
  }
}

const agent = new Agent({
  updaterOf: (context, bus) => new Updater(context, bus),
  cancelerOf: (taskId, contextId, bus) => new Updater({ taskId, contextId, task: {} }, bus),
  textOf: (message) => message.parts[0].text,
  metadataOf: (context) => context.userMessage.metadata ?? {},
});
await serve(agent, binding, { ...core, ...server, ...web, ...grpc }, (url) => ({
  name: "Remote agent",
  description: "Called by URL",
  version: "1.0.0",
  protocolVersion: "0.3.0",
  url,
  preferredTransport: binding,
  capabilities: { streaming: streaming === "streaming" },
  defaultInputModes: ["text/plain"],
  defaultOutputModes: ["text/plain"],
  skills: [],
}));
