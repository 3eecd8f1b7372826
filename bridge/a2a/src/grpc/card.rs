//! A card that was rendered as JSON, as the message of gRPC. PURE.

use std::collections::BTreeMap;

use agentanycast_proto::a2a::{
    AgentCapabilities, AgentCard, AgentCardSignature, AgentExtension, AgentInterface, AgentProvider,
    AgentSkill, HttpAuthSecurityScheme, MutualTlsSecurityScheme, OpenIdConnectSecurityScheme,
    SecurityRequirement, SecurityScheme, StringList, security_scheme::Scheme,
};
use serde_json::Value;

use super::json::{list, object, text, texts};

/// The card; what is no field of 1.0 is left out.
pub(super) fn to_card(json: &Value) -> AgentCard {
    AgentCard {
        name: text(json, "name"),
        description: text(json, "description"),
        supported_interfaces: list(json, "supportedInterfaces", |interface| AgentInterface {
            url: text(interface, "url"),
            protocol_binding: text(interface, "protocolBinding"),
            tenant: text(interface, "tenant"),
            protocol_version: text(interface, "protocolVersion"),
        }),
        provider: json.get("provider").map(|provider| AgentProvider {
            url: text(provider, "url"),
            organization: text(provider, "organization"),
        }),
        version: text(json, "version"),
        documentation_url: optional(json, "documentationUrl"),
        capabilities: json.get("capabilities").map(capabilities),
        security_schemes: schemes(json),
        security_requirements: list(json, "securityRequirements", requirement),
        default_input_modes: texts(json, "defaultInputModes"),
        default_output_modes: texts(json, "defaultOutputModes"),
        skills: list(json, "skills", |skill| AgentSkill {
            id: text(skill, "id"),
            name: text(skill, "name"),
            description: text(skill, "description"),
            tags: texts(skill, "tags"),
            examples: texts(skill, "examples"),
            input_modes: texts(skill, "inputModes"),
            output_modes: texts(skill, "outputModes"),
            security_requirements: list(skill, "securityRequirements", requirement),
        }),
        signatures: list(json, "signatures", |signature| AgentCardSignature {
            protected: text(signature, "protected"),
            signature: text(signature, "signature"),
            header: object(signature, "header"),
        }),
        icon_url: optional(json, "iconUrl"),
    }
}

fn optional(json: &Value, name: &str) -> Option<String> {
    json[name].as_str().map(str::to_owned)
}

fn capabilities(json: &Value) -> AgentCapabilities {
    AgentCapabilities {
        streaming: json["streaming"].as_bool(),
        push_notifications: json["pushNotifications"].as_bool(),
        extensions: list(json, "extensions", |extension| AgentExtension {
            uri: text(extension, "uri"),
            description: text(extension, "description"),
            required: extension["required"] == true,
            params: object(extension, "params"),
        }),
        extended_agent_card: json["extendedAgentCard"].as_bool(),
    }
}

fn requirement(json: &Value) -> SecurityRequirement {
    let schemes = json["schemes"].as_object().into_iter().flatten();
    let schemes = schemes.map(|(name, scopes)| {
        let list = texts(scopes, "list");
        (name.clone(), StringList { list })
    });
    SecurityRequirement {
        schemes: schemes.collect(),
    }
}

fn schemes(json: &Value) -> BTreeMap<String, SecurityScheme> {
    let all = json["securitySchemes"].as_object().into_iter().flatten();
    all.map(|(name, json)| (name.clone(), SecurityScheme { scheme: scheme(json) }))
        .collect()
}

/// The schemes that a bridge can ask for.
fn scheme(json: &Value) -> Option<Scheme> {
    if let Some(http) = json.get("httpAuthSecurityScheme") {
        return Some(Scheme::HttpAuthSecurityScheme(HttpAuthSecurityScheme {
            description: text(http, "description"),
            scheme: text(http, "scheme"),
            bearer_format: text(http, "bearerFormat"),
        }));
    }
    if let Some(oidc) = json.get("openIdConnectSecurityScheme") {
        return Some(Scheme::OpenIdConnectSecurityScheme(OpenIdConnectSecurityScheme {
            description: text(oidc, "description"),
            open_id_connect_url: text(oidc, "openIdConnectUrl"),
        }));
    }
    json.get("mtlsSecurityScheme").map(|mtls| {
        Scheme::MtlsSecurityScheme(MutualTlsSecurityScheme {
            description: text(mtls, "description"),
        })
    })
}

#[cfg(test)]
mod tests {
    use agentanycast_proto::v1;

    use super::*;
    use crate::protocol::card::{CardEndpoint, write};
    use agentanycast_front::auth::AuthScheme as Way;

    #[test]
    fn a_card_is_whole() {
        let front = CardEndpoint {
            url: "https://h/x".to_owned(),
            grpc: Some("h:443".to_owned()),
            schemes: vec![Way::Bearer, Way::MutualTls],
            extended: true,
            extensions: vec![("urn:x".to_owned(), true)],
            ..CardEndpoint::default()
        };
        let card = v1::AgentCard {
            name: "A".to_owned(),
            skills: vec![v1::Skill {
                id: "s".to_owned(),
                ..v1::Skill::default()
            }],
            ..v1::AgentCard::default()
        };
        let card = to_card(&write(&card, &front, None));
        assert_eq!((card.name.as_str(), card.skills[0].id.as_str()), ("A", "s"));
        assert_eq!(card.supported_interfaces[0].url, "https://h/x");
        let capabilities = card.capabilities.unwrap();
        assert_eq!(capabilities.extended_agent_card, Some(true));
        assert_eq!(capabilities.push_notifications, Some(true));
        let required = capabilities
            .extensions
            .iter()
            .find(|extension| extension.uri == "urn:x");
        assert!(required.is_some_and(|extension| extension.required));
        assert!(matches!(
            card.security_schemes["bearer"].scheme,
            Some(Scheme::HttpAuthSecurityScheme(_))
        ));
        assert!(card.security_requirements[0].schemes.contains_key("bearer"));
    }
}
