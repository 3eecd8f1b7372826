//! The `.proto` files are those of the protocol: one definition a file, and every name, number, type and
//! oneof as other programs of the protocol have them.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::{collections::BTreeMap, fs, path::Path};

use agentanycast_uap_hub::FILE_DESCRIPTOR_SET;
use prost::Message as _;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet, ServiceDescriptorProto,
    field_descriptor_proto::{Label, Type},
};

const PACKAGE: &str = "uap.v1";

/// Each message: its fields as `[oneof.]name=number [repeated] type`.
const MESSAGES: [(&str, &[&str]); 26] = [
    (
        "AgentRegistration",
        &["display_name=1 string", "capabilities=2 repeated Capability"],
    ),
    ("AgentRegistrationResponse", &["client_id=1 string"]),
    (
        "Capability",
        &[
            "format.test=1 TestCapability",
            "format.translation=2 TranslationCapability",
        ],
    ),
    (
        "TestCapability",
        &["type=1 string", "payloads=2 repeated PayloadRequirement"],
    ),
    (
        "TranslationCapability",
        &[
            "type=1 string",
            "source_payloads=2 repeated PayloadRequirement",
            "target_payloads=3 repeated PayloadRequirement",
        ],
    ),
    (
        "PayloadRequirement",
        &[
            "type=1 string",
            "is_required=2 bool",
            "is_repeatable=3 bool",
            "accepted_mime_types=4 repeated string",
        ],
    ),
    (
        "ListenRequest",
        &[
            "event.ready=1 google.protobuf.Empty",
            "event.session_acceptance=2 SessionAcceptance",
        ],
    ),
    (
        "ListenResponse",
        &[
            "event.session_proposal=1 SessionProposal",
            "event.session_ready=2 SessionReady",
        ],
    ),
    (
        "SessionProposal",
        &[
            "session_id=1 string",
            "details.test=2 TestProposalDetails",
            "details.translation=3 TranslationProposalDetails",
        ],
    ),
    ("TestProposalDetails", &["type=1 string"]),
    ("TranslationProposalDetails", &["type=1 string"]),
    (
        "SessionAcceptance",
        &["session_id=1 string", "accepted=2 bool", "reason=3 string"],
    ),
    ("SessionReady", &["session_id=1 string"]),
    ("TestInit", &["test_type=1 string", "payloads=2 repeated Payload"]),
    (
        "TranslationInit",
        &["target_format=1 string", "payloads=2 repeated Payload"],
    ),
    (
        "Payload",
        &[
            "type=1 string",
            "attachment=2 Attachment",
            "metadata=3 google.protobuf.Struct",
        ],
    ),
    (
        "Attachment",
        &["name=1 string", "mime_type=2 string", "data=3 bytes"],
    ),
    (
        "TestResponse",
        &[
            "timestamp=1 google.protobuf.Timestamp",
            "event.status=2 TestStatus",
            "event.telemetry=3 Telemetry",
            "event.result=4 TestResult",
        ],
    ),
    (
        "TranslationResponse",
        &[
            "timestamp=1 google.protobuf.Timestamp",
            "event.status=2 TranslationStatus",
            "event.telemetry=3 Telemetry",
            "event.result=4 TranslationResult",
        ],
    ),
    ("TestStatus", &["state=1 TestState", "message=2 string"]),
    (
        "TranslationStatus",
        &["state=1 TranslationState", "message=2 string"],
    ),
    (
        "TestResult",
        &[
            "status=1 TestStatus",
            "reports=2 repeated StepReport",
            "summary=3 Summary",
            "attachments=4 repeated Attachment",
        ],
    ),
    (
        "TranslationResult",
        &[
            "status=1 TranslationStatus",
            "payloads=2 repeated Payload",
            "summary=3 Summary",
        ],
    ),
    (
        "StepReport",
        &[
            "name=1 string",
            "status=2 StepStatus",
            "summary=3 Summary",
            "steps=4 repeated StepReport",
        ],
    ),
    (
        "Summary",
        &[
            "total_duration=1 google.protobuf.Duration",
            "start_time=2 google.protobuf.Timestamp",
            "metadata=3 google.protobuf.Struct",
        ],
    ),
    (
        "Telemetry",
        &[
            "message=1 string",
            "attachments=2 repeated Attachment",
            "timestamp=3 google.protobuf.Timestamp",
            "severity=4 Severity",
            "source=5 string",
        ],
    ),
];

/// Each enum, what its values begin with, and the values in the order of their numbers, which begin with 0.
const ENUMS: [(&str, &str, &[&str]); 4] = [
    (
        "TestState",
        "TEST_STATE_",
        &[
            "UNSPECIFIED",
            "ACKNOWLEDGED",
            "INVALID",
            "RUNNING",
            "COMPLETED",
            "FAILED",
        ],
    ),
    (
        "TranslationState",
        "TRANSLATION_STATE_",
        &[
            "UNSPECIFIED",
            "ACKNOWLEDGED",
            "INVALID",
            "PROCESSING",
            "COMPLETED",
            "FAILED",
        ],
    ),
    (
        "StepStatus",
        "STEP_STATUS_",
        &["UNSPECIFIED", "PASSED", "FAILED", "SKIPPED"],
    ),
    (
        "Severity",
        "SEVERITY_",
        &["UNSPECIFIED", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"],
    ),
];

/// The service's methods as `name(request) -> response`.
const METHODS: [&str; 4] = [
    "Register(AgentRegistration) -> AgentRegistrationResponse",
    "Listen(stream ListenRequest) -> stream ListenResponse",
    "Execute(stream TestResponse) -> stream TestInit",
    "Translate(stream TranslationResponse) -> stream TranslationInit",
];

#[test]
fn each_file_holds_one_definition_of_its_own_name() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto/proto/uap/v1");
    let mut present: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    present.sort();
    let mut described = Vec::new();
    for file in descriptors().file {
        let name = file.name().to_owned();
        if name.starts_with("google/protobuf/") {
            continue;
        }
        assert_eq!(file.package(), PACKAGE, "{name}");
        assert_eq!(file.syntax(), "proto3", "{name}");
        let definitions: Vec<&str> = (file.message_type.iter().map(DescriptorProto::name))
            .chain(file.enum_type.iter().map(EnumDescriptorProto::name))
            .chain(file.service.iter().map(ServiceDescriptorProto::name))
            .collect();
        assert_eq!(definitions, [name.strip_suffix(".proto").unwrap()], "{name}");
        for message in &file.message_type {
            assert!(
                message.nested_type.is_empty() && message.enum_type.is_empty(),
                "{name}"
            );
        }
        described.push(name);
    }
    described.sort();
    assert_eq!(described, present);
    assert_eq!(present.len(), 31);
}

#[test]
fn messages_are_those_of_the_protocol() {
    let found: BTreeMap<String, Vec<String>> = own_files()
        .flat_map(|file| file.message_type)
        .map(|message| (message.name().to_owned(), fields(&message)))
        .collect();
    let expected = MESSAGES
        .iter()
        .map(|(name, fields)| {
            (
                (*name).to_owned(),
                fields.iter().map(|field| (*field).to_owned()).collect(),
            )
        })
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn enums_are_those_of_the_protocol() {
    let found: BTreeMap<String, Vec<(String, i32)>> = own_files()
        .flat_map(|file| file.enum_type)
        .map(|each| {
            let values = each
                .value
                .iter()
                .map(|value| (value.name().to_owned(), value.number()));
            (each.name().to_owned(), values.collect())
        })
        .collect();
    let expected = ENUMS
        .iter()
        .map(|(name, prefix, values)| {
            let values = values.iter().map(|value| format!("{prefix}{value}")).zip(0..);
            ((*name).to_owned(), values.collect())
        })
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn the_service_is_that_of_the_protocol() {
    let services: Vec<ServiceDescriptorProto> = own_files().flat_map(|file| file.service).collect();
    let [service] = services.as_slice() else {
        panic!("{} services", services.len());
    };
    assert_eq!(service.name(), "AgentHub");
    let found: Vec<String> = (service.method.iter())
        .map(|method| {
            format!(
                "{}({}{}) -> {}{}",
                method.name(),
                if method.client_streaming() { "stream " } else { "" },
                own_name(method.input_type()),
                if method.server_streaming() { "stream " } else { "" },
                own_name(method.output_type()),
            )
        })
        .collect();
    assert_eq!(found, METHODS);
}

fn descriptors() -> FileDescriptorSet {
    FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap()
}

fn own_files() -> impl Iterator<Item = prost_types::FileDescriptorProto> {
    descriptors()
        .file
        .into_iter()
        .filter(|file| file.package() == PACKAGE)
}

/// The fields of `message`, as in [`MESSAGES`].
fn fields(message: &DescriptorProto) -> Vec<String> {
    message.field.iter().map(|field| shown(message, field)).collect()
}

fn shown(message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    assert!(!field.proto3_optional(), "{}.{}", message.name(), field.name());
    let oneof = field
        .oneof_index
        .map(|index| format!("{}.", message.oneof_decl[index as usize].name()))
        .unwrap_or_default();
    let repeated = match field.label() {
        Label::Optional => "",
        Label::Repeated => "repeated ",
        Label::Required => "required ",
    };
    let kind = match field.r#type() {
        Type::String => "string",
        Type::Bool => "bool",
        Type::Bytes => "bytes",
        Type::Message | Type::Enum => own_name(field.type_name()),
        other => panic!("{other:?}"),
    };
    format!("{oneof}{}={} {repeated}{kind}", field.name(), field.number())
}

/// `name` without the protocol's own package.
fn own_name(name: &str) -> &str {
    let name = name.strip_prefix('.').unwrap();
    name.strip_prefix("uap.v1.").unwrap_or(name)
}
