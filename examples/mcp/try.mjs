// Does what a client does with its settings: starts each server that they name, lists its tools, and asks an agent.
// Usage: node try.mjs SETTINGS SKILL TEXT

import { readFileSync } from "node:fs";

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [settings, skill, message] = process.argv.slice(2);
const { mcpServers, servers = mcpServers } = JSON.parse(readFileSync(settings, "utf8"));
for (const [name, { command, args, env }] of Object.entries(servers)) {
  const client = new Client({ name: "try", version: "1.0.0" });
  await client.connect(new StdioClientTransport({ command, args, env: { ...process.env, ...env } }));
  const { tools } = await client.listTools();
  console.log(`${name}: ${tools.map((tool) => tool.name).join(", ")}`);
  const answer = await client.callTool({ name: "ask_agent", arguments: { skill, message } });
  for (const { text } of answer.content) console.log(text);
  await client.close();
  if (answer.isError) process.exitCode = 1;
}
