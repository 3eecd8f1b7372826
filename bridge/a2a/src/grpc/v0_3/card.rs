//! A card in the form of 0.3 that was rendered as JSON, as the message of gRPC. PURE.

use std::collections::BTreeMap;

use agentanycast_proto::a2a_0_3::{
    AgentCapabilities, AgentCard, AgentCardSignature, AgentExtension, AgentInterface, AgentProvider,
    AgentSkill, HttpAuthSecurityScheme, MutualTlsSecurityScheme, OpenIdConnectSecurityScheme, Security,
    SecurityScheme, StringList, security_scheme::Scheme,
};
use serde_json::Value;

use crate::grpc::json::{list, object, text, texts};

/// The card; what is no field of 0.3 is left out.
pub(super) fn to_card(json: &Value) -> AgentCard {
    AgentCard {
        name: text(json, "name"),
        description: text(json, "description"),
        url: text(json, "url"),
        provider: json.get("provider").map(|provider| AgentProvider {
            url: text(provider, "url"),
            organization: text(provider, "organization"),
        }),
        version: text(json, "version"),
        documentation_url: text(json, "documentationUrl"),
        capabilities: json.get("capabilities").map(capabilities),
        security_schemes: schemes(json),
        security: list(json, "security", security),
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
            security: list(skill, "security", security),
        }),
        supports_authenticated_extended_card: json["supportsAuthenticatedExtendedCard"] == true,
        preferred_transport: text(json, "preferredTransport"),
        additional_interfaces: list(json, "additionalInterfaces", |interface| AgentInterface {
            url: text(interface, "url"),
            transport: text(interface, "transport"),
        }),
        protocol_version: text(json, "protocolVersion"),
        signatures: list(json, "signatures", |signature| AgentCardSignature {
            protected: text(signature, "protected"),
            signature: text(signature, "signature"),
            header: object(signature, "header"),
        }),
        icon_url: text(json, "iconUrl"),
    }
}

fn capabilities(json: &Value) -> AgentCapabilities {
    AgentCapabilities {
        streaming: json["streaming"] == true,
        push_notifications: json["pushNotifications"] == true,
        extensions: list(json, "extensions", |extension| AgentExtension {
            uri: text(extension, "uri"),
            description: text(extension, "description"),
            required: extension["required"] == true,
            params: object(extension, "params"),
        }),
    }
}

fn security(json: &Value) -> Security {
    let named = json.as_object().into_iter().flatten();
    let named = named.map(|(name, _)| {
        (
            name.clone(),
            StringList {
                list: texts(json, name),
            },
        )
    });
    Security {
        schemes: named.collect(),
    }
}

fn schemes(json: &Value) -> BTreeMap<String, SecurityScheme> {
    let all = json["securitySchemes"].as_object().into_iter().flatten();
    all.map(|(name, json)| (name.clone(), SecurityScheme { scheme: scheme(json) }))
        .collect()
}

/// The schemes that a bridge can ask for.
fn scheme(json: &Value) -> Option<Scheme> {
    let description = text(json, "description");
    Some(match json["type"].as_str()? {
        "http" => Scheme::HttpAuthSecurityScheme(HttpAuthSecurityScheme {
            description,
            scheme: text(json, "scheme"),
            bearer_format: text(json, "bearerFormat"),
        }),
        "openIdConnect" => Scheme::OpenIdConnectSecurityScheme(OpenIdConnectSecurityScheme {
            description,
            open_id_connect_url: text(json, "openIdConnectUrl"),
        }),
        "mutualTLS" => Scheme::MtlsSecurityScheme(MutualTlsSecurityScheme { description }),
        _ => return None,
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
        let scopes = vec!["a2a".to_owned()];
        let front = CardEndpoint {
            url: "https://h".to_owned(),
            grpc: Some("h:443".to_owned()),
            dual: true,
            schemes: vec![Way::Bearer, Way::Jwt { scopes }, Way::MutualTls],
            extended: true,
            extensions: vec![("urn:x".to_owned(), true)],
            ..CardEndpoint::default()
        };
        let skill = v1::Skill {
            id: "s".to_owned(),
            ..v1::Skill::default()
        };
        let card = v1::AgentCard {
            name: "A".to_owned(),
            skills: vec![skill],
            ..v1::AgentCard::default()
        };
        let card = to_card(&write(&card, &front, None));
        assert_eq!((card.name.as_str(), card.skills[0].id.as_str()), ("A", "s"));
        assert_eq!(
            (card.url.as_str(), card.protocol_version.as_str()),
            ("https://h", "0.3.0")
        );
        assert!(card.supports_authenticated_extended_card);
        let transports = card.additional_interfaces.iter();
        let transports: Vec<_> = transports
            .map(|interface| (interface.transport.as_str(), interface.url.as_str()))
            .collect();
        assert_eq!(
            transports,
            [
                ("JSONRPC", "https://h"),
                ("HTTP+JSON", "https://h"),
                ("GRPC", "h:443")
            ]
        );
        let capabilities = card.capabilities.unwrap();
        assert!(capabilities.streaming && capabilities.push_notifications);
        assert!(capabilities.extensions.iter().any(|extension| extension.required));
        assert_eq!(card.security[1].schemes["jwt"].list, ["a2a"]);
        assert!(matches!(
            card.security_schemes["mutualTls"].scheme,
            Some(Scheme::MtlsSecurityScheme(_))
        ));
    }
}
