//! Cards: what an agent of the mesh says of itself, as A2A has it. PURE.
//!
//! One document serves both versions unless only 1.0 is wanted: the fields of 0.3 stand beside those of 1.0. What A2A
//! has no field for (schemas of skills, tag values, how to reach the agent peer to peer) is in the parameters of an
//! extension, so that nothing is lost.

use agentanycast_front::auth::AuthScheme;
use agentanycast_identity::Keypair;
use agentanycast_proto::v1::{self, AgentCard, P2pExtension, Skill};
use serde_json::{Map, Value, json};

use super::{
    error::A2aError,
    object_reader::ObjectReader,
    part::put,
    signature::{self, without_empty},
};

/// Names the extension that holds what A2A has no field for.
pub const EXTENSION: &str = "urn:agentanycast:extension:mesh:1.0";

/// The URI of the extension that names an agent's peer id and did:key: how libp2p reaches it. It is an
/// extension and not an interface because strict clients refuse a card with an interface URL that is neither
/// https nor http.
pub const P2P_BINDING: &str = "urn:agentanycast:binding:libp2p:1.0";

/// The version of 0.3 that a card in its form names.
const LEGACY_VERSION: &str = "0.3.0";

/// What agents of the mesh take and give: whatever a message can hold.
const MODES: [&str; 3] = ["text/plain", "application/json", "application/octet-stream"];

/// The role, or of OpenID Connect the scope, that a requirement names where it needs no other: verifiers of
/// signatures leave empty lists out, and a requirement that is left out is not signed.
const ROLE: &str = "caller";
const SCOPE: &str = "openid";

/// What a card says of certificates.
const MUTUAL_TLS: &str = "A certificate of an authority that the bridge trusts";

/// What a card says of the bridge that shows it.
#[derive(Clone, Debug, Default)]
pub struct CardEndpoint {
    /// Where the agent is reached, without a slash at the end.
    pub url: String,
    /// The URL of the card's gRPC interfaces; `None`: the card lists no gRPC interface.
    pub grpc: Option<String>,
    /// What gRPC names the agent by; empty for the one beside the node.
    pub tenant: String,
    /// Whether the fields of 0.3 are there too.
    pub dual: bool,
    /// How callers say who they are, any one of these; empty if they need not.
    pub schemes: Vec<AuthScheme>,
    /// What cards are signed with.
    pub key: Option<Keypair>,
    /// Whether there is a card for those who are known.
    pub extended: bool,
    /// Extensions that agents here understand, and whether a client must declare them.
    pub extensions: Vec<(String, bool)>,
}

impl CardEndpoint {
    /// The URL of the gRPC interface of 0.3. 0.3 has no tenants, so only the agent beside the node has this
    /// interface.
    fn grpc_v0_3(&self) -> Option<&str> {
        self.grpc.as_deref().filter(|_| self.tenant.is_empty())
    }
}

/// Fields of 1.0 that a card for those who are known may have anew; its skills come besides.
pub const EXTENDABLE: [&str; 9] = [
    "name",
    "description",
    "version",
    "provider",
    "documentationUrl",
    "iconUrl",
    "defaultInputModes",
    "defaultOutputModes",
    "skills",
];

/// What cards call it, its declaration in 1.0 and in 0.3, and the scopes that it needs.
fn write_scheme(scheme: &AuthScheme) -> (&'static str, Value, Value, &[String]) {
    match scheme {
        AuthScheme::Bearer => (
            "bearer",
            json!({"httpAuthSecurityScheme": {"scheme": "Bearer"}}),
            json!({"type": "http", "scheme": "Bearer"}),
            &[],
        ),
        AuthScheme::OpenId { url, scopes } => (
            "openId",
            json!({"openIdConnectSecurityScheme": {"openIdConnectUrl": url}}),
            json!({"type": "openIdConnect", "openIdConnectUrl": url}),
            scopes,
        ),
        AuthScheme::Jwt { scopes } => (
            "jwt",
            json!({"httpAuthSecurityScheme": {"scheme": "Bearer", "bearerFormat": "JWT"}}),
            json!({"type": "http", "scheme": "Bearer", "bearerFormat": "JWT"}),
            scopes,
        ),
        AuthScheme::MutualTls => (
            "mutualTls",
            json!({"mtlsSecurityScheme": {"description": MUTUAL_TLS}}),
            json!({"type": "mutualTLS", "description": MUTUAL_TLS}),
            &[],
        ),
    }
}

/// The card of an agent, as the front shows it; with what it says besides to those who are known.
pub fn write(card: &AgentCard, front: &CardEndpoint, more: Option<&Map<String, Value>>) -> Value {
    let interface = |url: &str, binding: &str, version: &str| json!({"url": url, "protocolBinding": binding, "protocolVersion": version});
    let mut interfaces = vec![
        interface(&front.url, "JSONRPC", "1.0"),
        interface(&front.url, "HTTP+JSON", "1.0"),
        interface(&front.url, "JSONRPC", "0.3"),
        interface(&front.url, "HTTP+JSON", "0.3"),
    ];
    if let Some(url) = &front.grpc {
        let mut grpc = interface(url, "GRPC", "1.0");
        if !front.tenant.is_empty() {
            grpc["tenant"] = front.tenant.clone().into();
        }
        interfaces.push(grpc);
    }
    if let Some(url) = front.grpc_v0_3() {
        interfaces.push(interface(url, "GRPC", "0.3"));
    }
    let mut mesh = json!({
        "uri": EXTENSION,
        "description": "How the agent is reached peer to peer, and the schemas of its skills",
    });
    let params = mesh_params(card);
    if !params.is_empty() {
        mesh["params"] = params.into();
    }
    let skills: Vec<Value> = card.skills.iter().map(write_skill).collect();
    let mut extensions = vec![mesh];
    extensions.extend(card.p2p_extension.as_ref().and_then(libp2p));
    for (uri, required) in &front.extensions {
        let mut extension = json!({ "uri": uri });
        if *required {
            extension["required"] = true.into();
        }
        extensions.push(extension);
    }
    let mut json = json!({
        "name": card.name,
        "description": card.description,
        "version": card.version,
        "supportedInterfaces": interfaces,
        "capabilities": {
            "streaming": true,
            "pushNotifications": true,
            "extendedAgentCard": front.extended,
            "extensions": extensions,
        },
        "defaultInputModes": MODES,
        "defaultOutputModes": MODES,
        "skills": skills,
    });
    if !front.schemes.is_empty() {
        json["securityRequirements"] = json!([]);
        json["securitySchemes"] = json!({});
    }
    for (name, declared, _, scopes) in front.schemes.iter().map(write_scheme) {
        let least = if declared.get("openIdConnectSecurityScheme").is_some() {
            SCOPE
        } else {
            ROLE
        };
        let scopes = if scopes.is_empty() {
            vec![least]
        } else {
            scopes.iter().map(String::as_str).collect()
        };
        json["securitySchemes"][name] = declared;
        let requirement = json!({"schemes": {name: {"list": scopes}}});
        json["securityRequirements"]
            .as_array_mut()
            .into_iter()
            .for_each(|all| all.push(requirement.clone()));
    }
    for (name, value) in more.into_iter().flatten() {
        match (json.get_mut(name).and_then(Value::as_array_mut), value) {
            (Some(skills), Value::Array(besides)) if name == "skills" => {
                let besides = besides.iter().cloned().filter_map(without_empty);
                skills.extend(besides.map(with_tags));
            }
            _ => {
                if let Some(value) = without_empty(value.clone()) {
                    json[name] = value;
                }
            }
        }
    }
    if let Some(key) = &front.key {
        signature::sign(&mut json, key);
    }
    if front.dual {
        add_legacy(&mut json, front);
    }
    json
}

/// Adds the fields of 0.3.
fn add_legacy(json: &mut Value, front: &CardEndpoint) {
    json["url"] = front.url.clone().into();
    json["preferredTransport"] = "JSONRPC".into();
    json["protocolVersion"] = LEGACY_VERSION.into();
    json["supportsAuthenticatedExtendedCard"] = front.extended.into();
    let mut interfaces = vec![
        json!({"url": front.url, "transport": "JSONRPC"}),
        json!({"url": front.url, "transport": "HTTP+JSON"}),
    ];
    if let Some(url) = front.grpc_v0_3() {
        interfaces.push(json!({"url": url, "transport": "GRPC"}));
    }
    json["additionalInterfaces"] = interfaces.into();
    let mut security = Vec::new();
    for (name, _, declared, scopes) in front.schemes.iter().map(write_scheme) {
        if let (Some(scheme), Value::Object(declared)) =
            (json["securitySchemes"][name].as_object_mut(), declared)
        {
            scheme.extend(declared);
        }
        security.push(json!({ name: scopes }));
    }
    if !security.is_empty() {
        json["security"] = security.into();
    }
}

/// The extension that says how libp2p reaches the agent; `None` if the peer is not known.
fn libp2p(p2p: &P2pExtension) -> Option<Value> {
    let mut params = Map::new();
    put(&mut params, "peerId", p2p.peer_id.clone());
    put(&mut params, "didKey", p2p.did_key.clone());
    let is_known = params.contains_key("peerId");
    is_known.then(|| {
        json!({
            "uri": P2P_BINDING,
            "description": "The agent is reached over libp2p as this peer",
            "params": params,
        })
    })
}

fn write_skill(skill: &Skill) -> Value {
    json!({
        "id": skill.id,
        "name": skill.id,
        "description": skill.description,
        "tags": skill.tags.iter().map(tag).collect::<Vec<_>>(),
    })
}

/// A skill with the list of its tags, which is required.
fn with_tags(mut skill: Value) -> Value {
    if let Value::Object(fields) = &mut skill {
        fields.entry("tags").or_insert_with(|| json!([]));
    }
    skill
}

/// A label as a tag: its name, with its value if it has one.
fn tag((name, value): (&String, &String)) -> String {
    if value.is_empty() {
        name.clone()
    } else {
        format!("{name}={value}")
    }
}

fn mesh_params(card: &AgentCard) -> Map<String, Value> {
    let mut params = Map::new();
    put(&mut params, "protocolVersion", card.protocol_version.clone());
    if let Some(p2p) = &card.p2p_extension {
        let p2p = json!({
            "peerId": p2p.peer_id,
            "transports": p2p.supported_transports,
            "relayAddresses": p2p.relay_addresses,
            "didKey": p2p.did_key,
            "didWeb": p2p.did_web,
            "didDns": p2p.did_dns,
            "verifiableCredentials": p2p.verifiable_credentials,
        });
        if let Some(p2p) = without_empty(p2p) {
            params.insert("p2p".to_owned(), p2p);
        }
    }
    let more = card.skills.iter().filter_map(|skill| {
        let mut more = Map::new();
        put(&mut more, "inputSchema", skill.input_schema.clone());
        put(&mut more, "outputSchema", skill.output_schema.clone());
        // A tag has its value behind the first `=`.
        if skill.tags.keys().any(|name| name.contains('=')) {
            more.insert("tags".to_owned(), json!(skill.tags));
        }
        (!more.is_empty()).then(|| {
            more.insert("id".to_owned(), skill.id.clone().into());
            Value::Object(more)
        })
    });
    let more: Vec<Value> = more.collect();
    if !more.is_empty() {
        params.insert("skills".to_owned(), Value::Array(more));
    }
    params
}

/// Reads a card of either version; what the mesh has no field for is left out.
pub fn read(json: Value) -> Result<AgentCard, A2aError> {
    let mut fields = ObjectReader::new(json, "card")?;
    let mut card = AgentCard {
        name: fields.text_or_empty("name")?,
        description: fields.text_or_empty("description")?,
        version: fields.text_or_empty("version")?,
        ..AgentCard::default()
    };
    for skill in fields.list("skills")? {
        let mut skill = ObjectReader::new(skill, "card.skills")?;
        let mut read = Skill {
            id: skill.text_or_empty("id")?,
            description: skill.text_or_empty("description")?,
            ..Skill::default()
        };
        for tag in skill.list("tags")? {
            if let Some((name, value)) = tag.as_str().map(|tag| tag.split_once('=').unwrap_or((tag, ""))) {
                read.tags.insert(name.to_owned(), value.to_owned());
            }
        }
        card.skills.push(read);
    }
    if let Some(mut capabilities) = fields.nested("capabilities")? {
        let ours = |extension: &Value| extension["uri"] == EXTENSION;
        if let Some(extension) = capabilities.list("extensions")?.into_iter().find(ours) {
            read_params(extension, &mut card)?;
        }
    }
    Ok(card)
}

fn read_params(extension: Value, card: &mut AgentCard) -> Result<(), A2aError> {
    let mut extension = ObjectReader::new(extension, "card.capabilities.extensions")?;
    let Some(mut params) = extension.nested("params")? else {
        return Ok(());
    };
    card.protocol_version = params.text_or_empty("protocolVersion")?;
    let texts = |list: Vec<Value>| -> Vec<String> {
        let texts = list.into_iter();
        texts
            .filter_map(|text| text.as_str().map(str::to_owned))
            .collect()
    };
    if let Some(mut p2p) = params.nested("p2p")? {
        card.p2p_extension = Some(P2pExtension {
            peer_id: p2p.text_or_empty("peerId")?,
            supported_transports: texts(p2p.list("transports")?),
            relay_addresses: texts(p2p.list("relayAddresses")?),
            did_key: p2p.text_or_empty("didKey")?,
            did_web: p2p.text_or_empty("didWeb")?,
            did_dns: p2p.text_or_empty("didDns")?,
            verifiable_credentials: texts(p2p.list("verifiableCredentials")?),
            // The rest is told from node to node only.
            ..P2pExtension::default()
        });
    }
    for more in params.list("skills")? {
        let mut more = ObjectReader::new(more, "card.skills")?;
        let id = more.text_or_empty("id")?;
        let Some(skill) = card.skills.iter_mut().find(|skill| skill.id == id) else {
            continue;
        };
        skill.input_schema = more.text_or_empty("inputSchema")?;
        skill.output_schema = more.text_or_empty("outputSchema")?;
        if let Some(tags) = more.object("tags")? {
            let tags = tags.into_iter();
            let tags = tags.filter_map(|(name, value)| Some((name, value.as_str()?.to_owned())));
            skill.tags = tags.collect();
        }
    }
    Ok(())
}

/// The card of a skill: of any agent that has it.
pub fn skill_card(skill: &str, agents: &[v1::DiscoveredAgent]) -> AgentCard {
    let mut offered = agents.iter().flat_map(|agent| &agent.skills);
    let found = offered.find(|offered| offered.skill_id == skill);
    let description = found.map(|found| found.description.clone()).unwrap_or_default();
    AgentCard {
        name: skill.to_owned(),
        description: if description.is_empty() {
            format!("Any agent that has the skill {skill}")
        } else {
            description.clone()
        },
        version: "1.0.0".to_owned(),
        protocol_version: "1.0".to_owned(),
        skills: vec![Skill {
            id: skill.to_owned(),
            description,
            tags: found.map(|found| found.tags.clone()).unwrap_or_default(),
            ..Skill::default()
        }],
        ..AgentCard::default()
    }
}

#[cfg(test)]
mod tests;
