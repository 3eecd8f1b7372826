//! The rules of `[policy]`: from the settings to what the policy reads.

use agentanycast_core::policy::{self, InvalidRule, PolicyRules, WrittenOverride, WrittenRule, WrittenRules};

use crate::config::{self, AclRule, PolicyConfig, RateOverride};

// Said in the settings' table and checked by the policy.
const _: () = assert!(config::MAX_POLICY_ENTRIES == policy::MAX_POLICY_ENTRIES);

/// What these settings say.
///
/// # Errors
/// The first value that makes no rule.
pub fn policy_rules(settings: &PolicyConfig) -> Result<PolicyRules, InvalidRule> {
    PolicyRules::parse(&WrittenRules {
        trust: match settings.trust {
            config::TrustMode::Open => policy::TrustMode::Open,
            config::TrustMode::Known => policy::TrustMode::Known,
            config::TrustMode::Pinned => policy::TrustMode::Pinned,
        },
        trusted_peers: settings.trusted_peers.clone(),
        trusted_issuers: settings.trusted_issuers.clone(),
        groups: settings.groups.0.clone(),
        gateways: settings.gateways.clone(),
        acl: settings.acl.iter().map(written_rule).collect(),
        default_rps: settings.default_rps,
        max_in_flight: settings.max_in_flight,
        max_bytes: settings.max_bytes.0,
        overrides: settings.overrides.iter().map(written_override).collect(),
    })
}

fn written_rule(rule: &AclRule) -> WrittenRule {
    WrittenRule {
        source: rule.source.clone(),
        skill: rule.skill.clone(),
        agent: rule.agent.clone(),
        allow: rule.allow,
    }
}

fn written_override(one: &RateOverride) -> WrittenOverride {
    WrittenOverride {
        source: one.source.clone(),
        rps: one.rps,
        max_in_flight: one.max_in_flight,
        max_bytes: one.max_bytes.map(|size| size.0),
    }
}
