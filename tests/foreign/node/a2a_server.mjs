// An agent on the official A2A SDK for JavaScript, `@a2a-js/sdk` 1.3.0, as a2a/server.py is one on the SDK for Python.
//
// Usage: a2a_server.mjs JSONRPC|HTTP+JSON|GRPC streaming|plain

import * as core from "@a2a-js/sdk";
import * as server from "@a2a-js/sdk/server";
import * as web from "@a2a-js/sdk/server/express";
import * as grpc from "@a2a-js/sdk/server/grpc";

import { Agent, serve } from "./a2a_agent.mjs";

const { Role, TaskState } = core;
const { AgentEvent } = server;
const [binding, streaming] = process.argv.slice(2);

// What an agent says, in the words of 1.0.
class Updater {
  constructor({ taskId, contextId, userMessage, task }, bus) {
    Object.assign(this, { taskId, contextId, bus });
    this.metadata = undefined;
    if (!task) this.first = { history: [userMessage] };
  }

  begin() {
    if (!this.first) return;
    const { taskId: id, contextId } = this;
    const status = this.statusOf("SUBMITTED");
    this.bus.publish(AgentEvent.task({ id, contextId, status, artifacts: [], history: this.first.history, metadata: {} }));
  }

  messageOf(text) {
    const { taskId, contextId } = this;
    const messageId = crypto.randomUUID();
    return { messageId, taskId, contextId, role: Role.ROLE_AGENT, parts: [this.text(text)], extensions: [], referenceTaskIds: [] };
  }

  statusOf(state, text) {
    const message = text && this.messageOf(text);
    return { state: TaskState[`TASK_STATE_${state}`], message, timestamp: new Date().toISOString() };
  }

  named(text) {
    this.bus.publish(AgentEvent.message(this.messageOf(text)));
  }

  message(text) {
    this.bus.publish(AgentEvent.message({ ...this.messageOf(text), taskId: "" }));
  }

  status(state, text) {
    const { taskId, contextId } = this;
    this.bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: this.statusOf(state, text), metadata: undefined }));
  }

  artifact(parts, { artifactId, name = "", metadata, append = false, lastChunk = true }) {
    const { taskId, contextId } = this;
    const artifact = { artifactId, name, description: "", parts, metadata, extensions: [] };
    this.bus.publish(AgentEvent.artifactUpdate({ taskId, contextId, artifact, append, lastChunk, metadata: undefined }));
  }

  text(value) {
    return { content: { $case: "text", value }, metadata: undefined, filename: "", mediaType: "" };
  }
}

const agent = new Agent({
  updaterOf: (context, bus) => new Updater(context, bus),
  cancelerOf: (taskId, contextId, bus) => new Updater({ taskId, contextId, task: {} }, bus),
  textOf: (message) => message.parts[0].content.value,
  metadataOf: (context) => context.request.metadata ?? {},
});
await serve(agent, binding, { ...core, ...server, ...web, ...grpc }, (url) => ({
  name: "Remote agent",
  description: "Called by URL",
  version: "1.0.0",
  supportedInterfaces: [{ url, protocolBinding: binding, tenant: "", protocolVersion: "1.0" }],
  provider: undefined,
  capabilities: { streaming: streaming === "streaming", pushNotifications: false, extensions: [] },
  securitySchemes: {},
  securityRequirements: [],
  defaultInputModes: ["text/plain"],
  defaultOutputModes: ["text/plain"],
  skills: [],
  signatures: [],
}));
