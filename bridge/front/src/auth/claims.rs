//! What a token has to say: which algorithms, which issuer and audience, until when, which scopes. PURE but for the
//! clock that the library reads.

use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, decode, errors::ErrorKind};
use serde::Deserialize;
use serde_json::Value;

use super::is_name;

/// The algorithms that are taken. None that is none, and none with a shared secret: anybody who knows the issuer's
/// public key could sign with it.
pub(super) const ALGORITHMS: [Algorithm; 4] = [
    Algorithm::RS256,
    Algorithm::PS256,
    Algorithm::ES256,
    Algorithm::EdDSA,
];

/// What tokens call themselves: those of OAuth 2.0 (RFC 9068) and any; not those for other purposes (RFC 8725, 3.11).
const TYPES: [&str; 4] = ["jwt", "at+jwt", "application/jwt", "application/at+jwt"];

/// Longest token, in bytes.
pub(super) const LONGEST: usize = 16 << 10;

/// Longest id of a key, in bytes.
const LONGEST_KEY_ID: usize = 512;

/// Why a token is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OidcError {
    /// It is not good, for this reason.
    Bad(String),
    /// It is good and lacks this scope.
    Scope(String),
    /// There are no keys to check it with, for this reason.
    NoKeys(String),
}

/// What every token is held against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TokenRules {
    pub(super) issuer: String,
    /// One of these has to be in it.
    pub(super) audience: Vec<String>,
    /// All of these have to be in it.
    pub(super) scopes: Vec<String>,
    /// How many seconds clocks may differ.
    pub(super) leeway: u64,
}

/// What is read of a token that is good.
#[derive(Debug, PartialEq)]
pub(super) struct VerifiedToken {
    pub(super) subject: String,
    /// When it ends, in seconds since 1970, without leeway.
    pub(super) until: f64,
}

#[derive(Deserialize)]
struct TokenClaims {
    sub: String,
    exp: f64,
    /// Scopes with spaces between, as RFC 8693 has them.
    scope: Option<Value>,
    /// The same, or a list, as some issuers have them.
    scp: Option<Value>,
}

/// Which key a token is signed with.
pub(super) fn header(token: &str) -> Result<Header, OidcError> {
    let bad = |text: &str| Err(OidcError::Bad(text.to_owned()));
    if token.len() > LONGEST {
        return bad("it is too long");
    }
    let Ok(header) = jsonwebtoken::decode_header(token) else {
        return bad("it is no JWT with a known algorithm");
    };
    if !ALGORITHMS.contains(&header.alg) {
        return bad("its algorithm is none of RS256, PS256, ES256 and EdDSA");
    }
    let kind = header.typ.as_deref().map(str::to_ascii_lowercase);
    if kind.is_some_and(|kind| !TYPES.contains(&kind.as_str())) {
        return bad("its type is neither JWT nor at+jwt");
    }
    if header.crit.is_some() {
        return bad("it demands extensions that are not known here");
    }
    if header.kid.as_ref().is_some_and(|kid| kid.len() > LONGEST_KEY_ID) {
        return bad("the name of its key is too long");
    }
    Ok(header)
}

/// Checks a token that is signed with this key, and reads it.
pub(super) fn check(
    token: &str,
    algorithm: Algorithm,
    key: &DecodingKey,
    rules: &TokenRules,
) -> Result<VerifiedToken, OidcError> {
    let mut validation = Validation::new(algorithm);
    validation.leeway = rules.leeway;
    validation.validate_nbf = true;
    validation.set_issuer(&[&rules.issuer]);
    validation.set_audience(&rules.audience);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    let claims = decode::<TokenClaims>(token, key, &validation)
        .map_err(|error| OidcError::Bad(reason(error.kind())))?
        .claims;
    if let Some(missing) = rules.scopes.iter().find(|scope| !has(&claims, scope)) {
        return Err(OidcError::Scope(missing.clone()));
    }
    if !is_name(&claims.sub) {
        return Err(OidcError::Bad("its subject cannot be a caller's name".to_owned()));
    }
    Ok(VerifiedToken {
        subject: claims.sub,
        until: claims.exp,
    })
}

/// Whether a token allows this.
fn has(claims: &TokenClaims, wanted: &str) -> bool {
    [&claims.scope, &claims.scp]
        .into_iter()
        .flatten()
        .any(|scopes| match scopes {
            Value::String(scopes) => scopes.split(' ').any(|scope| scope == wanted),
            Value::Array(scopes) => scopes.iter().any(|scope| scope == wanted),
            _ => false,
        })
}

fn reason(kind: &ErrorKind) -> String {
    match kind {
        ErrorKind::InvalidSignature => "its signature is wrong".to_owned(),
        ErrorKind::ExpiredSignature => "it has run out".to_owned(),
        ErrorKind::ImmatureSignature => "it is not valid yet".to_owned(),
        ErrorKind::InvalidIssuer => "it is of another issuer".to_owned(),
        ErrorKind::InvalidAudience => "it is for another audience".to_owned(),
        ErrorKind::MissingRequiredClaim(claim) => format!("it has no {claim}"),
        _ => "it cannot be read".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{EncodingKey, encode, get_current_timestamp};
    use rcgen::KeyPair;
    use serde_json::json;

    use super::*;

    fn rules() -> TokenRules {
        TokenRules {
            issuer: "https://issuer.example".to_owned(),
            audience: vec!["bridge".to_owned(), "other".to_owned()],
            scopes: vec!["tasks".to_owned()],
            leeway: 60,
        }
    }

    /// What becomes of a token with these claims, over good ones; `null` takes one away.
    fn checked(changes: &Value) -> Result<VerifiedToken, OidcError> {
        let now = get_current_timestamp();
        let mut claims = json!({"iss": "https://issuer.example", "aud": "bridge", "sub": "alice",
            "exp": now + 600, "scope": "openid tasks"});
        for (name, value) in changes.as_object().unwrap() {
            if value.is_null() {
                claims.as_object_mut().unwrap().remove(name);
            } else {
                claims[name] = value.clone();
            }
        }
        let pair = KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
        let key = EncodingKey::from_ed_der(&pair.serialize_der());
        let token = encode(&Header::new(Algorithm::EdDSA), &claims, &key).unwrap();
        check(
            &token,
            Algorithm::EdDSA,
            &DecodingKey::from_ed_der(pair.public_key_raw()),
            &rules(),
        )
    }

    #[test]
    fn what_a_token_has_to_say() {
        let now = get_current_timestamp();
        for good in [
            json!({}),
            json!({"aud": ["x", "other"]}),
            json!({"exp": now - 30}),
            json!({"nbf": now + 30}),
            json!({"scope": null, "scp": ["tasks"]}),
            json!({"scope": null, "scp": "x tasks"}),
        ] {
            assert_eq!(checked(&good).unwrap().subject, "alice", "{good}");
        }
        for bad in [
            json!({"iss": null}),
            json!({"iss": "https://issuer.example/"}),
            json!({"aud": null}),
            json!({"aud": "bridge2"}),
            json!({"aud": []}),
            json!({"exp": null}),
            json!({"exp": now - 90}),
            json!({"exp": "never"}),
            json!({"nbf": now + 90}),
            json!({"sub": null}),
            json!({"sub": ""}),
            json!({"sub": "anonymous"}),
            json!({"sub": "two words"}),
        ] {
            let why = checked(&bad).unwrap_err();
            assert!(matches!(why, OidcError::Bad(_)), "{bad} {why:?}");
        }
        for poor in [
            json!({"scope": null}),
            json!({"scope": "tasks.read xtasks"}),
            json!({"scope": 7}),
        ] {
            assert_eq!(checked(&poor), Err(OidcError::Scope("tasks".to_owned())));
        }
    }

    #[test]
    fn heads_that_are_refused() {
        use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
        let token = |head: Value| format!("{}.e30.AA", URL_SAFE_NO_PAD.encode(head.to_string()));
        assert!(header(&token(json!({"alg": "ES256", "typ": "at+JWT"}))).is_ok());
        for bad in [
            json!({"alg": "none"}),
            json!({"alg": "HS256"}),
            json!({"alg": "HS512"}),
            json!({"alg": "RS512"}),
            json!({"alg": "RS256", "typ": "logout+jwt"}),
            json!({"alg": "RS256", "crit": ["b64"]}),
            json!({"alg": "RS256", "kid": "x".repeat(600)}),
            json!({}),
        ] {
            assert!(header(&token(bad.clone())).is_err(), "{bad}");
        }
        assert!(header("a.b").is_err() && header(&"x".repeat(20_000)).is_err());
    }
}
