// An agent on the official A2A SDK for JavaScript, `@a2a-js/sdk` 1.3.0, as a2a/server.py is one on the SDK for Python.
//
// Usage: a2a_server.mjs JSONRPC|HTTP+JSON|GRPC streaming|plain

import express from "express";
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { AGENT_CARD_PATH, Role, TaskState } from "@a2a-js/sdk";
import { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } from "@a2a-js/sdk/server";
import { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } from "@a2a-js/sdk/server/express";
import { A2AService, grpcService } from "@a2a-js/sdk/server/grpc";

import { Agent, held, say } from "./a2a_agent.mjs";

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
const app = express();
const listener = app.listen(0, "127.0.0.1", async () => {
  const url = `http://127.0.0.1:${listener.address().port}`;
  const grpc = new Server();
  const grpcPort = await new Promise((resolve, reject) =>
    grpc.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) => (error ? reject(error) : resolve(port))),
  );
  const urls = { JSONRPC: `${url}/rpc`, "HTTP+JSON": `${url}/rest`, GRPC: `127.0.0.1:${grpcPort}` };
  const card = {
    name: "Remote agent",
    description: "Called by URL",
    version: "1.0.0",
    supportedInterfaces: [{ url: urls[binding], protocolBinding: binding, tenant: "", protocolVersion: "1.0" }],
    provider: undefined,
    capabilities: { streaming: streaming === "streaming", pushNotifications: false, extensions: [] },
    securitySchemes: {},
    securityRequirements: [],
    defaultInputModes: ["text/plain"],
    defaultOutputModes: ["text/plain"],
    skills: [],
    signatures: [],
  };
  const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), agent);
  const userBuilder = UserBuilder.noAuthentication;
  app.use(`/${AGENT_CARD_PATH}`, agentCardHandler({ agentCardProvider: requestHandler }));
  app.use("/rpc", jsonRpcHandler({ requestHandler, userBuilder }));
  app.use("/rest", restHandler({ requestHandler, userBuilder }));
  grpc.addService(A2AService, grpcService({ requestHandler, userBuilder }));
  say({ url });
  await held(agent);
  process.exit(0);
});
