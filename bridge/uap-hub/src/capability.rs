//! What a client of the hub can do, as the mesh sees it: a type of tests or of translations is a skill, its payload
//! requirements are the schema of the skill's input. Used by `fleet`, which finds a client for a task, and by `parts`, which
//! makes payloads. PURE.
//!
//! Invariant: what is made here from a registration has the bounds of this file.

use std::{fmt, sync::Arc};

use agentanycast_proto::v1::Skill;
use agentanycast_uap_hub::v1::{AgentRegistration, Capability, PayloadRequirement, capability::Format};
use serde_json::{Value, json};

pub use agentanycast_uap_hub::agent::Domain;

/// Capabilities of one client, payload requirements of one capability, and media types of one requirement, at most.
const MOST_CAPABILITIES: usize = 64;
const MOST_REQUIREMENTS: usize = 64;
const MOST_MEDIA_TYPES: usize = 64;

/// The longest type, media type or name, in bytes.
const LONGEST_NAME: usize = 200;

/// What ids of skills of a domain begin with.
fn prefix(domain: Domain) -> &'static str {
    match domain {
        Domain::Test => "uap:test:",
        Domain::Translation => "uap:translate:",
    }
}

/// A type of tests or of translations. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// Which of the two.
    pub domain: Domain,
    /// The type, as clients call it.
    pub name: Arc<str>,
}

impl Kind {
    /// A type of this domain.
    pub fn new(domain: Domain, name: &str) -> Self {
        let name = Arc::from(name);
        Self { domain, name }
    }

    /// The kind whose skill has this id.
    pub fn of_skill(id: &str) -> Option<Self> {
        let of = |domain: Domain| {
            let name = id.strip_prefix(prefix(domain)).filter(|name| !name.is_empty());
            name.map(|name| Self::new(domain, name))
        };
        of(Domain::Test).or_else(|| of(Domain::Translation))
    }
}

/// The id of its skill.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", prefix(self.domain), self.name)
    }
}

/// One payload that a capability takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Requirement {
    name: String,
    is_required: bool,
    is_repeatable: bool,
    media_types: Vec<String>,
}

impl Requirement {
    fn accepts(&self, media_type: &str) -> bool {
        self.media_types.is_empty()
            || media_type.is_empty()
            || self
                .media_types
                .iter()
                .any(|accepted| matches_media_type(accepted, media_type))
    }
}

/// What a capability takes, and what comes of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requirements {
    input: Vec<Requirement>,
    output: Vec<Requirement>,
}

/// A part of a task, as far as requirements speak of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InputShape {
    /// The payload type that its sender gave it.
    pub(crate) label: Option<String>,
    /// Empty: not known.
    pub(crate) media_type: String,
}

/// A registration whose bounds were checked.
#[derive(Clone, Debug)]
pub(crate) struct CheckedRegistration {
    /// What people call the client.
    pub(crate) name: String,
    /// What it can do, each kind once.
    pub(crate) capabilities: Vec<(Kind, Requirements)>,
}

impl CheckedRegistration {
    /// Of a registration as it came.
    ///
    /// # Errors
    /// The first bound that is not kept, or a kind that is there twice.
    pub(crate) fn read(registration: AgentRegistration) -> Result<Self, String> {
        let count = registration.capabilities.len();
        if count == 0 || count > MOST_CAPABILITIES {
            return Err(format!(
                "{count} capabilities; an agent has 1 to {MOST_CAPABILITIES}"
            ));
        }
        if registration.display_name.len() > LONGEST_NAME {
            return Err(format!("display_name has over {LONGEST_NAME} bytes"));
        }
        let mut capabilities: Vec<(Kind, Requirements)> = Vec::with_capacity(count);
        for (at, capability) in registration.capabilities.into_iter().enumerate() {
            let read = read_capability(capability).map_err(|why| format!("capabilities[{at}]: {why}"))?;
            if capabilities.iter().any(|(kind, _)| *kind == read.0) {
                return Err(format!("capabilities[{at}]: {} is there twice", read.0));
            }
            capabilities.push(read);
        }
        let name = match printable(&registration.display_name) {
            name if name.is_empty() => "an agent without a name".to_owned(),
            name => name,
        };
        Ok(Self { name, capabilities })
    }
}

fn read_capability(capability: Capability) -> Result<(Kind, Requirements), String> {
    let (domain, name, input, output) = match capability.format {
        Some(Format::Test(test)) => (Domain::Test, test.r#type, test.payloads, Vec::new()),
        Some(Format::Translation(translation)) => (
            Domain::Translation,
            translation.r#type,
            translation.source_payloads,
            translation.target_payloads,
        ),
        None => return Err("neither test nor translation is set".to_owned()),
    };
    check_name("type", &name)?;
    let requirements = Requirements {
        input: read_requirements(input)?,
        output: read_requirements(output)?,
    };
    Ok((Kind::new(domain, &name), requirements))
}

fn read_requirements(given: Vec<PayloadRequirement>) -> Result<Vec<Requirement>, String> {
    if given.len() > MOST_REQUIREMENTS {
        return Err(format!("{} payloads, at most {MOST_REQUIREMENTS}", given.len()));
    }
    let read = |payload: PayloadRequirement| {
        check_name("the type of a payload", &payload.r#type)?;
        if payload.accepted_mime_types.len() > MOST_MEDIA_TYPES {
            let most = MOST_MEDIA_TYPES;
            return Err(format!("payload {}: over {most} media types", payload.r#type));
        }
        for media_type in &payload.accepted_mime_types {
            check_name("a media type", media_type)?;
        }
        Ok(Requirement {
            name: payload.r#type,
            is_required: payload.is_required,
            is_repeatable: payload.is_repeatable,
            media_types: payload.accepted_mime_types,
        })
    };
    given.into_iter().map(read).collect()
}

fn check_name(what: &str, name: &str) -> Result<(), String> {
    if name.is_empty() || name.len() > LONGEST_NAME || name.chars().any(char::is_control) {
        return Err(format!(
            "{what} has 1 to {LONGEST_NAME} bytes without control characters"
        ));
    }
    Ok(())
}

/// Text of a client as one line for people.
pub(crate) fn printable(text: &str) -> String {
    let one_line = |c: char| if c.is_control() { ' ' } else { c };
    text.chars()
        .map(one_line)
        .take(1000)
        .collect::<String>()
        .trim()
        .to_owned()
}

/// Whether a media type is one of an accepted range: `*/*`, `text/*`, or the type itself; parameters do not count, and the two
/// types of XML are one (RFC 7303).
fn matches_media_type(accepted: &str, media_type: &str) -> bool {
    let plain = |text: &str| {
        let text = text.split(';').next().unwrap_or_default();
        match text.trim().to_ascii_lowercase().as_str() {
            "application/xml" => "text/xml".to_owned(),
            plain => plain.to_owned(),
        }
    };
    let (accepted, media_type) = (plain(accepted), plain(media_type));
    match accepted.strip_suffix("/*") {
        Some("*") => true,
        Some(group) => media_type.split('/').next() == Some(group),
        None => accepted == media_type,
    }
}

impl Requirements {
    /// The payload type of each part: the one that it is labelled with; else one that takes its media type, by preference one
    /// that is required and has nothing yet, then one that names media types; where none takes it, an empty one.
    ///
    /// # Errors
    /// The payload that is missing, is there too often or has a media type that is not accepted.
    pub(crate) fn assign(&self, parts: &[InputShape]) -> Result<Vec<String>, String> {
        let mut counts = vec![0_usize; self.input.len()];
        let mut types: Vec<Option<String>> = vec![None; parts.len()];
        for (part, assigned) in parts.iter().zip(&mut types) {
            let Some(label) = &part.label else { continue };
            if let Some(at) = self.input.iter().position(|payload| payload.name == *label) {
                let payload = &self.input[at];
                if !payload.accepts(&part.media_type) {
                    return Err(format!(
                        "payload {label} has the media type {:?}, accepted are {}",
                        part.media_type,
                        payload.media_types.join(", ")
                    ));
                }
                counts[at] += 1;
            }
            *assigned = Some(label.clone());
        }
        for (part, assigned) in parts.iter().zip(&mut types) {
            if assigned.is_some() {
                continue;
            }
            let takes = |at: &usize| {
                let payload = &self.input[*at];
                payload.accepts(&part.media_type) && (counts[*at] == 0 || payload.is_repeatable)
            };
            // Required and still missing first; of these one that names media types, since others take more.
            let order = |at: &usize| {
                let payload = &self.input[*at];
                let is_missing = counts[*at] == 0 && payload.is_required;
                (!is_missing, payload.media_types.is_empty())
            };
            let at = (0..self.input.len()).filter(takes).min_by_key(order);
            let name = at.map(|at| {
                counts[at] += 1;
                self.input[at].name.clone()
            });
            *assigned = Some(name.unwrap_or_default());
        }
        for (payload, count) in self.input.iter().zip(counts) {
            if payload.is_required && count == 0 {
                let accepted = match payload.media_types.as_slice() {
                    [] => String::new(),
                    types => format!(" ({})", types.join(", ")),
                };
                return Err(format!(
                    "payload {}{accepted} is required and missing",
                    payload.name
                ));
            }
            if count > 1 && !payload.is_repeatable {
                return Err(format!(
                    "payload {} is there {count} times, at most once is taken",
                    payload.name
                ));
            }
        }
        Ok(types.into_iter().map(Option::unwrap_or_default).collect())
    }

    /// As a skill of this kind.
    pub(crate) fn skill(&self, kind: &Kind) -> Skill {
        let description = match kind.domain {
            Domain::Test => format!("Runs tests of the type {}", kind.name),
            Domain::Translation => format!("Translates into {}", kind.name),
        };
        let domain = match kind.domain {
            Domain::Test => "test",
            Domain::Translation => "translate",
        };
        let tags = [("protocol", "uap-v1"), ("domain", domain)];
        Skill {
            id: kind.to_string(),
            description,
            input_schema: schema(&self.input),
            output_schema: schema(&self.output),
            tags: tags
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        }
    }
}

/// The parts of a message as JSON Schema; empty where nothing is said of them.
fn schema(payloads: &[Requirement]) -> String {
    if payloads.is_empty() {
        return String::new();
    }
    let names: Vec<&str> = payloads.iter().map(|payload| payload.name.as_str()).collect();
    let rules: Vec<Value> = payloads
        .iter()
        .map(|payload| {
            let mut one = json!({"type": {"const": payload.name}});
            let named: Vec<&String> = payload
                .media_types
                .iter()
                .filter(|name| !name.contains('*'))
                .collect();
            if !named.is_empty() && named.len() == payload.media_types.len() {
                one["mimeType"] = json!({"enum": named});
            }
            let mut rule = json!({
                "contains": {"properties": one, "required": ["type"]},
                "minContains": u8::from(payload.is_required),
            });
            if !payload.is_repeatable {
                rule["maxContains"] = 1.into();
            }
            rule
        })
        .collect();
    let schema = json!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "type": {"type": "string", "examples": names},
                "name": {"type": "string"},
                "mimeType": {"type": "string"},
                "data": {"type": "string", "contentEncoding": "base64"},
                "metadata": {"type": "object"},
            },
            "required": ["type"],
        },
        "allOf": rules,
    });
    schema.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use agentanycast_uap_hub::v1::{TestCapability, TranslationCapability};

    fn payload(name: &str, is_required: bool, is_repeatable: bool, types: &[&str]) -> PayloadRequirement {
        PayloadRequirement {
            r#type: name.to_owned(),
            is_required,
            is_repeatable,
            accepted_mime_types: types.iter().map(|name| (*name).to_owned()).collect(),
        }
    }

    fn test_of(name: &str, payloads: Vec<PayloadRequirement>) -> Capability {
        Capability {
            format: Some(Format::Test(TestCapability {
                r#type: name.to_owned(),
                payloads,
            })),
        }
    }

    fn read(capabilities: Vec<Capability>) -> Result<CheckedRegistration, String> {
        CheckedRegistration::read(AgentRegistration {
            display_name: "runner\n1".to_owned(),
            capabilities,
        })
    }

    fn requirements(payloads: Vec<PayloadRequirement>) -> Requirements {
        read(vec![test_of("junit", payloads)])
            .unwrap()
            .capabilities
            .remove(0)
            .1
    }

    fn part(label: Option<&str>, media_type: &str) -> InputShape {
        InputShape {
            label: label.map(str::to_owned),
            media_type: media_type.to_owned(),
        }
    }

    #[test]
    fn kinds_are_ids_of_skills() {
        for id in ["uap:test:junit", "uap:translate:playwright-py", "uap:test:a:b"] {
            assert_eq!(Kind::of_skill(id).unwrap().to_string(), id);
        }
        for id in ["uap:test:", "uap:other:x", "junit", ""] {
            assert_eq!(Kind::of_skill(id), None, "{id}");
        }
    }

    #[test]
    fn a_registration_has_bounds() {
        let good = read(vec![test_of(
            "junit",
            vec![payload("suite", true, false, &["text/xml"])],
        )])
        .unwrap();
        assert_eq!(good.name, "runner 1");
        for (capabilities, told) in [
            (vec![], "0 capabilities"),
            (vec![test_of("a", vec![]); 65], "65 capabilities"),
            (
                vec![test_of("a", vec![]), test_of("a", vec![])],
                "capabilities[1]: uap:test:a is there twice",
            ),
            (vec![Capability { format: None }], "neither test nor translation"),
            (vec![test_of("", vec![])], "type has 1 to 200 bytes"),
            (vec![test_of("a\nb", vec![])], "control characters"),
            (vec![test_of(&"x".repeat(201), vec![])], "type has 1 to 200"),
            (
                vec![test_of("a", vec![payload("p", true, true, &[]); 65])],
                "65 payloads",
            ),
            (
                vec![test_of("a", vec![payload("p", true, true, &["t/t"; 65])])],
                "over 64 media types",
            ),
            (
                vec![test_of("a", vec![payload("", true, true, &[])])],
                "the type of a payload",
            ),
        ] {
            let error = read(capabilities).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn parts_get_the_types_that_are_required() {
        let suite = payload("suite", true, false, &["text/xml", "application/xml"]);
        let data = payload("data", false, true, &["text/*"]);
        let both = requirements(vec![data, suite]);
        let types = |parts: &[InputShape]| both.assign(parts);
        // What is required is served first, whatever the order.
        assert_eq!(types(&[part(None, "text/xml")]).unwrap(), ["suite"]);
        assert_eq!(
            types(&[
                part(None, "text/xml"),
                part(None, "text/csv"),
                part(None, "text/xml; charset=utf-8")
            ])
            .unwrap(),
            ["suite", "data", "data"]
        );
        assert_eq!(
            types(&[part(Some("data"), "text/xml"), part(None, "text/xml")]).unwrap(),
            ["data", "suite"]
        );
        // A label that the capability does not know is passed on.
        assert_eq!(
            types(&[part(Some("other"), "x/y"), part(None, "TEXT/XML")]).unwrap(),
            ["other", "suite"]
        );
        for (parts, told) in [
            (
                vec![],
                "payload suite (text/xml, application/xml) is required and missing",
            ),
            (
                vec![part(None, "image/png")],
                "payload suite (text/xml, application/xml) is required and missing",
            ),
            (
                vec![part(Some("suite"), "text/xml"); 2],
                "payload suite is there 2 times",
            ),
            (
                vec![part(Some("suite"), "image/png")],
                "payload suite has the media type \"image/png\"",
            ),
        ] {
            assert!(types(&parts).unwrap_err().contains(told), "{:?}", types(&parts));
        }
        let two = requirements(vec![
            payload("any", true, false, &[]),
            payload("xml", true, false, &["text/xml"]),
        ]);
        let parts = [part(None, "text/xml"), part(None, "text/csv")];
        assert_eq!(
            two.assign(&parts).unwrap(),
            ["xml", "any"],
            "the one that takes less is served first"
        );
        let xml = requirements(vec![payload("suite", true, false, &["application/xml"])]);
        for media_type in ["text/xml", "application/xml; charset=utf-8", ""] {
            assert!(xml.assign(&[part(None, media_type)]).is_ok(), "{media_type}");
        }
        assert_eq!(requirements(vec![]).assign(&[part(None, "a/b")]).unwrap(), [""]);
    }

    #[test]
    fn a_skill_says_what_it_takes() {
        let registration = read(vec![Capability {
            format: Some(Format::Translation(TranslationCapability {
                r#type: "playwright-py".to_owned(),
                source_payloads: vec![payload("script", true, false, &["text/x-java"])],
                target_payloads: vec![payload("out", true, true, &[])],
            })),
        }]);
        let (kind, requirements) = registration.unwrap().capabilities.remove(0);
        let skill = requirements.skill(&kind);
        assert_eq!(skill.id, "uap:translate:playwright-py");
        assert_eq!(
            (skill.tags["protocol"].as_str(), skill.tags["domain"].as_str()),
            ("uap-v1", "translate")
        );
        let input: Value = serde_json::from_str(&skill.input_schema).unwrap();
        assert_eq!(
            input["allOf"][0]["contains"]["properties"]["type"]["const"],
            "script"
        );
        assert_eq!(
            input["allOf"][0]["contains"]["properties"]["mimeType"]["enum"][0],
            "text/x-java"
        );
        assert_eq!(
            (
                &input["allOf"][0]["minContains"],
                &input["allOf"][0]["maxContains"]
            ),
            (&json!(1), &json!(1))
        );
        let output: Value = serde_json::from_str(&skill.output_schema).unwrap();
        assert!(output["allOf"][0].get("maxContains").is_none());
    }
}
