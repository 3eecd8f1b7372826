//! Names of agents on a node: `[a-z0-9][a-z0-9._-]{0,63}`. PURE.

/// Longest name, in bytes.
pub const MAX_AGENT_NAME: usize = 64;

/// Whether an agent can have this name.
pub fn is_agent_name(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let first = name.bytes().next().is_some_and(inner);
    first && name.len() <= MAX_AGENT_NAME && name.bytes().all(|byte| inner(byte) || b"._-".contains(&byte))
}

/// The name that an agent with this name on its card gets: lower case, other characters as `-`; `agent` if nothing is left.
pub fn agent_name_of_card(card_name: &str) -> String {
    let mut name = String::new();
    for character in card_name.chars() {
        let lower = character.to_ascii_lowercase();
        let fits = lower.is_ascii_lowercase() || lower.is_ascii_digit() || "._-".contains(lower);
        let lower = if fits { lower } else { '-' };
        let begins = lower.is_ascii_alphanumeric();
        if (!name.is_empty() || begins) && !(lower == '-' && name.ends_with('-')) {
            name.push(lower);
        }
        if name.len() == MAX_AGENT_NAME {
            break;
        }
    }
    let end = name.trim_end_matches('-').len();
    name.truncate(end);
    if name.is_empty() { "agent".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn cards_make_names() {
        for (card, name) in [
            ("Translator", "translator"),
            ("Weather & News (beta)", "weather-news-beta"),
            ("a.b_c-d", "a.b_c-d"),
            ("--x--", "x"),
            ("Übersetzer", "bersetzer"),
            ("日本", "agent"),
            ("", "agent"),
        ] {
            assert_eq!(agent_name_of_card(card), name);
        }
        for name in ["", "-a", "A", "a b", "ü", ".a", &"a".repeat(65)] {
            assert!(!is_agent_name(name), "{name:?}");
        }
    }

    proptest! {
        #[test]
        fn each_card_makes_a_name(card in ".{0,200}") {
            let name = agent_name_of_card(&card);
            prop_assert!(is_agent_name(&name), "{name:?}");
            prop_assert_eq!(&agent_name_of_card(&name), &name);
        }
    }
}
