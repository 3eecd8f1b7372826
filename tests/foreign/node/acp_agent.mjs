// An agent on the published package of the Agent Client Protocol. The words of a prompt say what it does: `permit` asks for
// permission to edit, `work` works until it is canceled, which makes a file beside this one,
// `history` tells what it was asked before in the session, and
// everything else is said again.
import { writeFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const sessions = new Map();
const { agent: to, client: from } = acp.methods;

async function prompt({ params: { sessionId, prompt }, client }) {
  const session = sessions.get(sessionId);
  const text = prompt.map((block) => block.text ?? "").join(" ");
  session.history.push(text);
  const update = (update) => client.notify(from.session.update, { sessionId, update });
  const say = (text) => update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
  if (text === "permit") {
    const toolCall = { toolCallId: "edit-1", title: "Edit main.rs", kind: "edit", status: "pending" };
    await update({ sessionUpdate: "tool_call", ...toolCall });
    const options = [
      { optionId: "yes", name: "Allow this edit", kind: "allow_once" },
      { optionId: "always", name: "Allow all edits", kind: "allow_always" },
      { optionId: "no", name: "Reject", kind: "reject_once" },
    ];
    const { outcome } = await client.request(from.session.requestPermission, { sessionId, toolCall, options });
    await say(`the answer is ${outcome.outcome === "selected" ? outcome.optionId : outcome.outcome}`);
  } else if (text === "work") {
    await update({ sessionUpdate: "tool_call", toolCallId: "work-1", title: "Works", status: "in_progress" });
    await new Promise((resolve) => (session.cancel = resolve));
    return { stopReason: "cancelled" };
  } else if (text === "history") {
    await say(session.history.join("|"));
  } else {
    for (const word of text.split(" ")) await say(`${word} `);
  }
  return { stopReason: "end_turn" };
}

acp
  .agent({ name: "test agent" })
  .onRequest(to.initialize, () => ({
    protocolVersion: acp.PROTOCOL_VERSION,
    agentCapabilities: { loadSession: false, promptCapabilities: { embeddedContext: true } },
  }))
  .onRequest(to.session.new, () => {
    const sessionId = crypto.randomUUID();
    sessions.set(sessionId, { history: [], cancel: undefined });
    return { sessionId };
  })
  .onRequest(to.session.prompt, prompt)
  .onNotification(to.session.cancel, ({ params: { sessionId } }) => {
    writeFileSync(new URL("canceled", import.meta.url), sessionId);
    sessions.get(sessionId)?.cancel?.();
  })
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
