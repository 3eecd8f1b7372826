//! Our protocol text against the descriptors in the published Python package, field by field: the same
//! names, numbers, types, labels and oneofs. What we added is listed here, and nothing else may differ.

use std::collections::{BTreeMap, BTreeSet};

use agentanycast_proto::FILE_DESCRIPTOR_SET;
use agentanycast_tests::within;
use prost::Message as _;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorSet, ServiceDescriptorProto};

use crate::client_env::{python, scripts};

/// The first number that is ours; no published field is that high.
const OURS: i32 = 100;

/// The files that are ours altogether.
const OUR_FILES: [&str; 15] = [
    "agentanycast/v1/access_service.proto",
    "agentanycast/v1/node_agents.proto",
    "agentanycast/v1/agent_record.proto",
    "agentanycast/v1/agent_service.proto",
    "agentanycast/v1/anycast.proto",
    "agentanycast/v1/diagnostics_service.proto",
    "agentanycast/v1/directory_service.proto",
    "agentanycast/v1/invite_service.proto",
    "agentanycast/v1/network_service.proto",
    "agentanycast/v1/registry_proof.proto",
    "agentanycast/v1/relay_info.proto",
    "agentanycast/v1/sealed.proto",
    "agentanycast/v1/session_service.proto",
    "agentanycast/v1/task_list_service.proto",
    "agentanycast/v1/task_note_service.proto",
];

/// All that we added besides those files.
const ADDED: &[&str] = &[
    "enum AckOutcome: ACK_OUTCOME_ACCEPTED = 0",
    "enum AckOutcome: ACK_OUTCOME_REJECTED = 1",
    "message A2AEnvelope: joint_ack = 102",
    "message A2AEnvelope: sender_epoch = 100",
    "message A2AEnvelope: sequence = 101",
    "message A2AEnvelope: task_confirm = 110",
    "message AckPayload: also_acknowledged = 104",
    "message AckPayload: held = 103",
    "message AckPayload: next_sequence = 102",
    "message AckPayload: outcome = 100",
    "message AckPayload: reason = 101",
    "message AgentCard: agent = 101",
    "message AgentCard: agents = 100",
    "message AgentCard: agents_total = 102",
    "message AgentCard: agents_page = 103",
    "message Artifact: size_bytes = 100",
    "message DiscoveredAgent: agent = 101",
    "message DiscoveredAgent: verified = 100",
    "message DiscoverResponse: meant_skill = 102",
    "message DiscoverResponse: remembered = 100",
    "message DiscoverResponse: unanswered = 101",
    "message FederatedRegistration: addresses = 100",
    "message FederatedRegistration: claimed_version = 102",
    "message FederatedRegistration: proofs = 101",
    "message FederatedRegistration: remaining_ms = 104",
    "message FederatedRegistration: crowd = 105",
    "message FederatedRegistration: hearsay = 106",
    "message FederatedRegistration: tombstone = 103",
    "message GetPeerCardRequest: agents_page = 100",
    "message GetPeerCardRequest: public = 101",
    "message GetPeerCardResponse: successor_peer_id = 100",
    "message GetPeerCardResponse: warnings = 101",
    "message HeartbeatRequest: instance = 100",
    "message HeartbeatResponse: other_instance = 100",
    "message NodeInfo: agent_listening = 100",
    "message NodeInfo: did_dns = 102",
    "message NodeInfo: did_web = 101",
    "message NodeInfo: seals_tasks = 103",
    "message P2PExtension: instance = 101",
    "message P2PExtension: instances_seen = 102",
    "message P2PExtension: invite = 110",
    "message P2PExtension: invite_refused = 111",
    "message P2PExtension: key_rotations = 100",
    "message P2PExtension: no_agent = 112",
    "message RegisterSkillsRequest: addresses = 100",
    "message RegisterSkillsRequest: instance = 102",
    "message RegisterSkillsRequest: key_rotations = 101",
    "message RegisterSkillsResponse: max_bytes = 102",
    "message RegisterSkillsResponse: max_skills = 101",
    "message RegisterSkillsResponse: other_instance = 100",
    "message SendTaskPayload: further = 101",
    "message SendTaskPayload: invite = 104",
    "message SendTaskPayload: metadata = 100",
    "message SendTaskPayload: takes_offers = 103",
    "message SendTaskPayload: target_agent = 105",
    "message SendTaskPayload: tentative = 102",
    "message SendTaskRequest: context_id = 100",
    "message SendTaskRequest: idempotency_key = 102",
    "message SendTaskRequest: task_id = 101",
    "message SetAgentCardResponse: warnings = 100",
    "message Skill: tags = 100",
    "message SkillInfo: agent = 100",
    "message SkillRegistration: addresses = 100",
    "message SkillRegistration: origin_relay_id = 102",
    "message SkillRegistration: verified = 101",
    "message StreamEnd: error_message = 100",
    "message CompleteTaskRequest: unclaimed = 100",
    "message FailTaskRequest: unclaimed = 100",
    "message TaskFailPayload: held = 101",
    "message TaskFailPayload: returned = 100",
    "message SubscribeIncomingTasksResponse: exclusive_since = 100",
    "message UpdateTaskStatusRequest: automatic = 100",
    "message UpdateTaskStatusRequest: begun = 101",
    "message UpdateTaskStatusRequest: give_back = 102",
    "message SubscribeTaskUpdatesRequest: end_only = 100",
    "message SubscribeTaskUpdatesResponse: task = 100",
    "message SubscribeTaskStreamRequest: artifact_id = 100",
    "message GetTaskRequest: or_input = 100",
    "message SendTaskRequest: brief = 106",
    "message SendTaskRequest: group = 104",
    "message SendTaskRequest: note = 103",
    "message SendTaskRequest: sealed_for = 105",
    "message SendTaskRequest: allow_private = 111",
    "message SendTaskRequest: skill_of_peer = 110",
    "message SendTaskRequest: target_agent = 112",
    "message SubscribeIncomingTasksRequest: agent = 100",
    "message SubscribeIncomingTasksRequest: program = 101",
    "message SubscribeIncomingTasksRequest: ends = 102",
    "message SubscribeTaskUpdatesRequest: or_input = 101",
    "message SubscribeTaskStreamRequest: from_sequence = 101",
    "message SyncRegistrationsRequest: epoch = 100",
    "message SyncRegistrationsRequest: everything = 101",
    "message SyncRegistrationsResponse: epoch = 100",
    "message SyncRegistrationsResponse: more = 101",
    "enum EnvelopeType: ENVELOPE_TYPE_TASK_CONFIRM = 100",
    "message Task: agent = 104",
    "message Task: assignee_peer_id = 102",
    "message Task: attempts = 103",
    "message Task: metadata = 101",
    "message Task: status_message = 100",
];

/// One line per field, enum value, oneof and call: the line without its detail, and the detail.
type DescriptorLines = BTreeMap<String, String>;

fn facts(set: &FileDescriptorSet) -> DescriptorLines {
    let mut facts = DescriptorLines::new();
    for file in &set.file {
        if OUR_FILES.contains(&file.name()) {
            continue;
        }
        if !file.package().starts_with("agentanycast.") {
            continue;
        }
        facts.insert(
            format!("file {}", file.name()),
            format!("{} {}", file.package(), file.syntax()),
        );
        file.message_type
            .iter()
            .for_each(|message| of_message("", message, &mut facts));
        file.enum_type
            .iter()
            .for_each(|kind| of_enum("", kind, &mut facts));
        file.service
            .iter()
            .for_each(|service| of_service(service, &mut facts));
    }
    facts
}

fn of_message(within: &str, message: &DescriptorProto, facts: &mut DescriptorLines) {
    let name = format!("{within}{}", message.name());
    facts.insert(format!("message {name}"), String::new());
    for field in &message.field {
        // A field that may be absent has a oneof of its own, which says nothing more.
        let group = field
            .oneof_index
            .filter(|_| !field.proto3_optional())
            .map_or("", |index| message.oneof_decl[index as usize].name());
        facts.insert(
            format!("message {name}: {} = {}", field.name(), field.number()),
            format!(
                "{:?} {:?} {:?} in {group:?}, optional: {}",
                field.r#type(),
                field.label(),
                field.type_name(),
                field.proto3_optional(),
            ),
        );
    }
    let nested = format!("{name}.");
    for inner in &message.nested_type {
        of_message(&nested, inner, facts);
    }
    for kind in &message.enum_type {
        of_enum(&nested, kind, facts);
    }
}

fn of_enum(within: &str, kind: &EnumDescriptorProto, facts: &mut DescriptorLines) {
    let name = format!("{within}{}", kind.name());
    for value in &kind.value {
        facts.insert(
            format!("enum {name}: {} = {}", value.name(), value.number()),
            String::new(),
        );
    }
}

fn of_service(service: &ServiceDescriptorProto, facts: &mut DescriptorLines) {
    for call in &service.method {
        facts.insert(
            format!("service {}: {}", service.name(), call.name()),
            format!(
                "{} ({}) -> {} ({})",
                call.input_type(),
                call.client_streaming(),
                call.output_type(),
                call.server_streaming()
            ),
        );
    }
}

/// Whether an addition is no more than the entry type of a map that is itself an addition.
fn is_entry_of_added(line: &str, added: &BTreeSet<&str>) -> bool {
    let name = line
        .trim_start_matches("message ")
        .split(':')
        .next()
        .unwrap_or_default();
    let Some((message, entry)) = name.rsplit_once('.') else {
        return false;
    };
    let Some(field) = entry.strip_suffix("Entry") else {
        return false;
    };
    let prefix = format!("message {message}: {} = ", field.to_lowercase());
    added.iter().any(|line| line.starts_with(&prefix))
}

#[tokio::test]
async fn our_protocol_is_the_published_one_and_what_is_listed() {
    let mut command = tokio::process::Command::new(python());
    command.arg(scripts().join("python/descriptors.py"));
    let output = within("the script ends", command.output()).await.unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let published = facts(&FileDescriptorSet::decode(output.stdout.as_slice()).unwrap());
    let ours = facts(&FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap());
    assert!(
        published.len() > 200,
        "the package has only {} facts",
        published.len()
    );

    let differing: Vec<_> = published
        .iter()
        .filter(|(line, detail)| ours.get(*line) != Some(*detail))
        .map(|(line, detail)| format!("{line}: {detail}; ours: {:?}", ours.get(line)))
        .collect();
    assert!(differing.is_empty(), "{differing:#?}");

    let listed: BTreeSet<&str> = ADDED.iter().copied().collect();
    let added: BTreeSet<&str> = ours
        .keys()
        .filter(|line| !published.contains_key(*line))
        .map(String::as_str)
        .filter(|line| !is_entry_of_added(line, &listed))
        .collect();
    assert_eq!(added, listed);
    for line in added.iter().filter(|line| line.starts_with("message ")) {
        let number: i32 = line.rsplit(' ').next().unwrap().parse().unwrap();
        assert!(number >= OURS, "{line}");
    }
}
