// Registers, renews, finds and takes off an agent with the registry client of the published TypeScript SDK, as deployed
// clients do: no signature, and an id that is no peer id. Prints each step when it has passed.
//
// Usage: registry.mjs HOST:PORT

import assert from "node:assert/strict";
import { realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";

// The package exports its client of a node only; this one lies beside it.
const here = dirname(fileURLToPath(import.meta.url));
const dist = join(realpathSync(join(here, "node_modules", "agentanycast")), "dist");
const generated = join(dist, "generated/agentanycast/v1/registry_service.js");
const { RegistryServiceClient } = await import(pathToFileURL(generated));
const { credentials, status } = createRequire(generated)("@grpc/grpc-js");

const client = new RegistryServiceClient(process.argv[2], credentials.createInsecure());
const call = (name) => promisify(client[name].bind(client));
const [register, unregister, discover, heartbeat] =
  ["registerSkills", "unregisterSkills", "discoverBySkill", "heartbeat"].map(call);
const question = { skillId: "translate", tags: {}, limit: 0, federated: false };
const found = async (more) => (await discover({ ...question, ...more })).agents;

const { expiresAt } = await register({
  peerId: "made-up-agent",
  skills: [{ skillId: "translate", description: "Translates", tags: { lang: "de" } }],
  agentName: "Made up",
  agentDescription: "By the TypeScript SDK",
});
assert.ok(expiresAt > new Date(Date.now() - 2000));
console.log("register");

const [agent, ...others] = await found({ tags: { lang: "de" } });
assert.deepEqual([agent.peerId, agent.agentName, agent.skills[0].tags, others.length], ["made-up-agent", "Made up", { lang: "de" }, 0]);
assert.equal((await found({ tags: { lang: "fr" } })).length, 0);
console.log("discover");

await heartbeat({ peerId: "made-up-agent" });
await assert.rejects(heartbeat({ peerId: "nobody" }), { code: status.NOT_FOUND });
console.log("heartbeat");

await unregister({ peerId: "made-up-agent", skillIds: [] });
assert.equal((await found({})).length, 0);
console.log("unregister");

await assert.rejects(discover({ ...question, skillId: "" }), { code: status.INVALID_ARGUMENT });
console.log("refused");
client.close();
