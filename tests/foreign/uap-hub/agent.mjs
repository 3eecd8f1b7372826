// An execution agent on @grpc/grpc-js, which reads our .proto files by @grpc/proto-loader. It does one session as its
// variant says.
//
// Usage: agent.mjs HUB TYPE VARIANT PROTO_DIRECTORY
//
// Variants and TYPE as in agent.py. It prints a line for each thing that happens. It names its session alone, and not
// itself, when it opens the stream of a session.

import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const [hub, kind, variant, directory] = process.argv.slice(2);
const definition = loader.loadSync("AgentHub.proto", {
  includeDirs: [directory],
  keepCase: true,
  longs: Number,
  enums: String,
  oneofs: true,
});
const { AgentHub } = grpc.loadPackageDefinition(definition).uap.v1;
const client = new AgentHub(hub.replace("http://", ""), grpc.credentials.createInsecure());
const say = (what) => process.stdout.write(`${what}\n`);

// Ends the process if the variant wants it here, without a word to the hub.
const vanish = (when) => {
  if (variant === when) process.kill(process.pid, "SIGKILL");
};

const metadata = (name, id) => {
  const metadata = new grpc.Metadata();
  metadata.set(name, id);
  return metadata;
};

const capability = () => {
  const suite = { type: "suite", is_required: true, accepted_mime_types: ["text/xml"] };
  const settings = { type: "settings" };
  if (variant !== "translation") return { test: { type: kind, payloads: [suite, settings] } };
  const script = { type: "script", is_required: true };
  return { translation: { type: kind, source_payloads: [suite, settings], target_payloads: [script] } };
};

// What the agent was given, as a file.
const described = (name, payloads) => {
  const told = payloads.map(({ type, attachment }) =>
    attachment ? `${type}: ${attachment.name} ${attachment.mime_type} ${attachment.data}` : `${type}:`,
  );
  return { name: "told.txt", mime_type: "text/plain", data: Buffer.from([name, ...told].join("\n")) };
};

const translate = (init, call) => {
  call.write({ status: { state: "TRANSLATION_STATE_PROCESSING", message: "on it" } });
  const payloads = [{ type: "script", attachment: described(init.target_format, init.payloads) }];
  call.write({ result: { status: { state: "TRANSLATION_STATE_COMPLETED", message: "done" }, payloads } });
  call.end();
};

const test = (init, call) => {
  const status = (state, message) => call.write({ status: { state: `TEST_STATE_${state}`, message } });
  status("RUNNING", "on it");
  if (variant === "running") return;
  call.write({ telemetry: { message: "slow", severity: "SEVERITY_WARN", source: "disk" } });
  if (variant === "status-only") {
    status("COMPLETED", "done");
    call.end();
    return;
  }
  const failed = variant === "failed-then-result";
  const steps = [{ name: "inner", status: "STEP_STATUS_SKIPPED" }];
  const result = {
    status: { state: failed ? "TEST_STATE_FAILED" : "TEST_STATE_COMPLETED", message: "done" },
    reports: [{ name: "outer", status: failed ? "STEP_STATUS_FAILED" : "STEP_STATUS_PASSED", steps }],
    summary: {
      total_duration: { seconds: 1, nanos: 500_000_000 },
      metadata: init.payloads.find(({ type }) => type === "settings").metadata,
    },
    attachments: [described(init.test_type, init.payloads)],
  };
  if (failed) status("FAILED", "it broke");
  call.write({ result });
  if (variant === "result-then-status") status("COMPLETED", "done");
  call.end();
};

const session = (id) => {
  const translates = variant === "translation";
  const call = translates
    ? client.Translate(metadata("x-session-id", id))
    : client.Execute(metadata("x-session-id", id));
  if (variant === "acknowledged") call.write({ status: { state: "TEST_STATE_ACKNOWLEDGED" } });
  call.on("data", (init) => {
    vanish("gone-after-open");
    (translates ? translate : test)(init, call);
  });
  call.on("error", (error) => say(`error ${error.message}`));
  call.on("end", () => say("ended"));
};

client.Register({ display_name: `node ${variant}`, capabilities: [capability()] }, (error, response) => {
  if (error) throw error;
  const listen = client.Listen(metadata("x-client-id", response.client_id));
  listen.write({ ready: {} });
  listen.on("error", (error) => say(`error ${error.message}`));
  listen.on("data", ({ session_proposal: proposal, session_ready: ready }) => {
    if (!proposal) {
      vanish("gone-after-accept");
      session(ready.session_id);
      return;
    }
    vanish("gone-after-proposal");
    const { type } = proposal[proposal.details];
    const accepted = variant !== "rejects" && type === kind;
    const answer = { session_id: proposal.session_id, accepted, reason: accepted ? "" : "no display" };
    listen.write({ session_acceptance: answer });
    say("answered");
  });
});
