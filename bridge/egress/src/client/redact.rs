//! What a host was told in secret is hidden in whatever it says, since it may repeat it. PURE.
//!
//! The one rule: nothing of an answer is kept, logged or told before it was looked through for what was sent with the question.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use base64::{Engine as _, prelude::BASE64_STANDARD_NO_PAD};
use serde_json::{Map, Value};

use crate::error::{OutboundError, one_line};

/// What stands in the place of a secret.
const HIDDEN: &str = "***";

/// Shortest secret that is hidden in reasons, in bytes, and in what a task is about: shorter ones are in texts by chance.
const LEAST: usize = 4;
const LEAST_IN_CONTENT: usize = 12;

/// Secrets of one host that are remembered; the oldest go first. Each call takes one, and they are renewed now and then.
const MOST: usize = 8;

/// What one host was told lately.
#[derive(Default)]
pub(super) struct SentSecrets(Mutex<Vec<Arc<[String]>>>);

impl fmt::Debug for SentSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SentSecrets").finish_non_exhaustive()
    }
}

impl SentSecrets {
    /// It is told this now.
    pub(super) fn add(&self, secret: &str) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if secret.len() < LEAST {
            return;
        }
        if let Some(known) = told.iter().position(|forms| forms[0] == secret) {
            told[..=known].rotate_right(1);
            return;
        }
        told.insert(0, forms(secret).into());
        told.truncate(MOST);
    }

    /// What hides it.
    pub(super) fn redactor(&self) -> Redactor {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One may be part of another.
        let longest_first = |mut secrets: Vec<String>| {
            secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
            secrets
        };
        let whole = told.iter().map(|forms| BASE64_STANDARD_NO_PAD.encode(&forms[0]));
        Redactor {
            secrets: longest_first(told.iter().flat_map(|forms| forms.iter().cloned()).collect()),
            base64: longest_first(whole.collect()),
        }
    }
}

/// A secret as it was told, which is the first one, and as servers write it into their answers.
fn forms(secret: &str) -> Vec<String> {
    let mut forms = vec![secret.to_owned(), one_line(secret), secret.replace('/', "\\/")];
    // As forms, `encodeURIComponent` and Python's `quote` do it.
    for (bare, space) in [("-._*", "+"), ("-_.!~*'()", "%20"), ("-_.~/", "%20")] {
        for lower in [false, true] {
            forms.push(percent_encoded(secret, bare, space, lower));
        }
    }
    // As Python and most others do it, and as Go's templates do.
    for entities in [
        [
            ("&", "&amp;"),
            ("<", "&lt;"),
            (">", "&gt;"),
            ("\"", "&quot;"),
            ("'", "&#x27;"),
        ]
        .as_slice(),
        &[
            ("&", "&amp;"),
            ("<", "&lt;"),
            (">", "&gt;"),
            ("\"", "&#34;"),
            ("'", "&#39;"),
            ("+", "&#43;"),
        ],
    ] {
        let encoded = entities.iter().fold(secret.to_owned(), |text, (letter, entity)| {
            text.replace(letter, entity)
        });
        forms.push(encoded);
    }
    let mut known = std::collections::HashSet::new();
    forms.retain(|form| form.len() >= LEAST && known.insert(form.clone()));
    forms
}

/// All but letters, digits and what is in `bare` by its bytes' numbers, a space as `space`.
pub(super) fn percent_encoded(text: &str, bare: &str, space: &str, lower: bool) -> String {
    text.bytes().fold(String::new(), |mut form, byte| {
        use std::fmt::Write as _;
        match byte {
            b' ' => form.push_str(space),
            byte if byte.is_ascii_alphanumeric() || bare.as_bytes().contains(&byte) => {
                form.push(char::from(byte));
            }
            byte if lower => drop(write!(form, "%{byte:02x}")),
            byte => drop(write!(form, "%{byte:02X}")),
        }
        form
    })
}

/// Hides what a host was told until now.
pub struct Redactor {
    secrets: Vec<String>,
    /// The same in base64, which is looked for in reasons only: what a task is about must stay base64 where it is.
    base64: Vec<String>,
}

impl Redactor {
    /// A reason for people that has words of the host, and may be cut short.
    pub fn text(&self, text: &str) -> String {
        let mut text = without(&self.secrets, text, LEAST).unwrap_or_else(|| text.to_owned());
        text = without(&self.base64, &text, LEAST).unwrap_or(text);
        let whole = text.trim_end_matches('…');
        let begun = self
            .secrets
            .iter()
            .chain(&self.base64)
            .filter_map(|secret| cut_off_secret(whole, secret))
            .min();
        if let Some(at) = begun {
            text.truncate(at);
            text.push_str(HIDDEN);
            text.push('…');
        }
        text
    }

    /// The same of a failure.
    pub fn error(&self, fault: OutboundError) -> OutboundError {
        if self.secrets.is_empty() {
            return fault;
        }
        let told = self.text(&fault.to_string());
        fault.with_reason(told)
    }

    /// A card: all texts in it but where its agent is called, which a secret may be part of.
    pub fn card(&self, card: &mut Value) {
        const CALLED: [&str; 3] = ["url", "supportedInterfaces", "additionalInterfaces"];
        let called = CALLED.map(|name| Some((name.to_owned(), card.get(name)?.clone())));
        self.value(card);
        if let Value::Object(fields) = card {
            fields.extend(called.into_iter().flatten());
        }
    }

    /// An answer: all texts in it.
    pub fn value(&self, value: &mut Value) {
        if self.secrets.is_empty() {
            return;
        }
        match value {
            Value::String(text) => {
                if let Some(hidden) = without(&self.secrets, text, LEAST_IN_CONTENT) {
                    *text = hidden;
                }
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.value(value)),
            Value::Object(fields) => {
                fields.values_mut().for_each(|value| self.value(value));
                if fields
                    .keys()
                    .any(|name| without(&self.secrets, name, LEAST_IN_CONTENT).is_some())
                {
                    let hidden = std::mem::take(fields).into_iter().map(|(name, value)| {
                        let hidden = without(&self.secrets, &name, LEAST_IN_CONTENT);
                        (hidden.unwrap_or(name), value)
                    });
                    *fields = hidden.collect::<Map<_, _>>();
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// A text without those of these secrets that have so many bytes; `None`: there is none in it.
fn without(secrets: &[String], text: &str, least: usize) -> Option<String> {
    let long = secrets.iter().filter(|secret| secret.len() >= least);
    long.fold(None, |hidden: Option<String>, secret| {
        let text = hidden.as_deref().unwrap_or(text);
        if text.contains(secret.as_str()) {
            Some(text.replace(secret.as_str(), HIDDEN))
        } else {
            hidden
        }
    })
}

/// Where a secret begins that a text was cut off in.
fn cut_off_secret(text: &str, secret: &str) -> Option<usize> {
    let ends = text.char_indices().map(|(at, _)| (at, &text[at..]));
    let mut ends = ends.filter(|(_, end)| (LEAST..secret.len()).contains(&end.len()));
    ends.find_map(|(at, end)| secret.starts_with(end).then_some(at))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::Kind;

    fn mask(secrets: &[&str]) -> Redactor {
        let told = SentSecrets::default();
        for secret in secrets {
            told.add(secret);
        }
        told.redactor()
    }

    #[test]
    fn a_secret_is_hidden_in_each_form_and_where_it_is_cut_off() {
        let mask = mask(&["to/ken with spaces", "ken with", "abc"]);
        for (text, hidden) in [
            ("no: to/ken with spaces!", "no: ***!"),
            ("no: to%2Fken+with+spaces!", "no: ***!"),
            ("no: to%2fken%20with%20spaces!", "no: ***!"),
            ("no: to/ken%20with%20spaces!", "no: ***!"),
            (r"no: to\/ken with spaces!", "no: ***!"),
            ("no: dG8va2VuIHdpdGggc3BhY2Vz!", "no: ***!"),
            ("ken with, abc", "***, abc"),
            ("no: to/ken w…", "no: ***…"),
            ("no: to/ken w", "no: ***…"),
            ("no: to/…", "no: to/…"),
            ("é to/k", "é ***…"),
            ("", ""),
        ] {
            assert_eq!(mask.text(text), hidden, "{text}");
        }
        let told = super::tests::mask(&["a+b&c\"d'e"]);
        for text in [
            "a&#43;b&amp;c&#34;d&#39;e",
            "a+b&amp;c&quot;d&#x27;e",
            "a%2Bb%26c%22d%27e",
        ] {
            assert_eq!(told.text(text), "***");
        }
        let long = "x".repeat(5000);
        let fault = OutboundError::new(Kind::Busy, format!("it said {long}"))
            .with_retry_after(Some(std::time::Duration::ZERO));
        let told = super::tests::mask(&[&long]).error(fault.clone());
        assert_eq!(told.to_string(), "it said ***…");
        assert_eq!((told.kind(), told.after()), (fault.kind(), fault.after()));
    }

    #[test]
    fn an_answer_has_none_of_them_and_is_the_same_else() {
        let token = "sk-1234567890";
        let mut answer =
            json!({"a": [format!("you are {token}{token}"), 7, null], token: {"b": "short secrets stay"}});
        mask(&[token, "short"]).value(&mut answer);
        assert_eq!(
            answer,
            json!({"a": ["you are ******", 7, null], "***": {"b": "short secrets stay"}})
        );
    }

    #[test]
    fn where_an_agent_is_called_stays_as_it_is() {
        let token = "sk-1234567890";
        let mut card = json!({
            "name": token, "url": format!("https://a.b/{token}"),
            "supportedInterfaces": [{"url": format!("https://a.b/{token}/v1"), "tenant": token}],
        });
        let mut told = card.clone();
        told["name"] = json!("***");
        mask(&[token]).card(&mut card);
        assert_eq!(card, told);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_not_shown() {
        let told = SentSecrets::default();
        for number in 0..100 {
            told.add(&format!("secret {number:02}"));
            told.add("secret 99");
        }
        let mask = told.redactor();
        assert!(mask.secrets.len() <= 4 * MOST && mask.text("secret 99") == "***");
        assert_eq!(mask.text("secret 10"), "secret 10");
        assert!(!format!("{told:?}").contains("secret 99"));
    }
}
