// A client on the official MCP SDK for TypeScript: each scenario is one thing that an application does with the tools.
// It prints the name of each scenario that succeeds, and ends.
//
// Usage: mcp_client.mjs 1|2 URL|COMMAND PEER SCENARIO..., 1: `@modelcontextprotocol/sdk`, 2: `@modelcontextprotocol/client`.

import assert from "node:assert/strict";

const [version, server, peer, ...names] = process.argv.slice(2);
const { Client } = await import(
  version === "1" ? "@modelcontextprotocol/sdk/client/index.js" : "@modelcontextprotocol/client"
);

async function transport() {
  if (server.startsWith("http")) {
    const { StreamableHTTPClientTransport } = await import(
      version === "1" ? "@modelcontextprotocol/sdk/client/streamableHttp.js" : "@modelcontextprotocol/client"
    );
    return new StreamableHTTPClientTransport(new URL(server));
  }
  const { StdioClientTransport } = await import(
    version === "1" ? "@modelcontextprotocol/sdk/client/stdio.js" : "@modelcontextprotocol/client/stdio"
  );
  const [command, ...args] = server.split(" ");
  return new StdioClientTransport({ command, args });
}

// The newer SDK takes the revision of today where the server has it.
const client = new Client({ name: "test", version: "1" }, version === "1" ? {} : { versionNegotiation: { mode: "auto" } });
await client.connect(await transport());

async function call(name, args, options) {
  const params = { name, arguments: args };
  return version === "1" ? client.callTool(params, undefined, options) : client.callTool(params, options);
}
const ask = (message, more, options) => call("ask_agent", { agent: peer, message, ...more }, options);
const words = (result) => result.content[0].text;

const scenarios = {
  async tools() {
    const { tools } = await client.listTools();
    assert.ok(tools.find((tool) => tool.name === "ask_agent"));
    // What providers of models take.
    for (const { name, inputSchema } of tools) {
      assert.match(name, /^[A-Za-z0-9_.-]{1,64}$/);
      for (const word of ["oneOf", "anyOf", "allOf", "not", "enum", "$ref"]) assert.ok(!(word in inputSchema), name);
    }
  },
  async answer() {
    const result = await ask("echo hello", { files: [{ name: "a.txt", text: "x" }], data: { n: 1 } });
    assert.ok(!result.isError, words(result));
    assert.equal(result.structuredContent.results[0].parts[0].text, "hello");
  },
  async fail() {
    const result = await ask("fail because of the weather");
    assert.ok(result.isError);
    assert.match(words(result), /because of the weather/);
  },
  async file() {
    const result = await ask("large 1000");
    assert.equal(result.content.at(-1).resource.blob.length, 1336);
  },
  async progress() {
    const heard = [];
    const onprogress = ({ message }) => heard.push(message);
    const result = await ask("slow", { wait_seconds: 3 }, { onprogress });
    assert.equal(result.structuredContent.state, "working");
    assert.ok(heard.some((message) => message.startsWith("working")), heard);
    const ended = await call("cancel_task", { task_id: result.structuredContent.task_id });
    assert.equal(ended.structuredContent.state, "canceled");
  },
  async question() {
    const asked = await ask("ask one");
    assert.equal(asked.structuredContent.state, "input_required");
    const done = await call("reply_to_task", { task_id: asked.structuredContent.task_id, message: "two" });
    assert.equal(done.structuredContent.results[0].parts[0].text, "ask one | two");
  },
  async mistake() {
    const result = await call("get_task", { task_id: "no-such-task" });
    assert.ok(result.isError);
    assert.match(words(result), /there is no task/);
    await assert.rejects(call("format_disk", {}), /format_disk/);
  },
};

for (const name of names) {
  await scenarios[name]();
  console.log(name);
}
await client.close();
process.exit(0);
