//! What the agent of a device is called. PURE.
//!
//! Invariant: a name is one of an agent of the mesh, and two ids of devices that are not names have two names.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// What all names begin with.
const PREFIX: &str = "aip.";

/// The longest part of an id, in letters.
const LONGEST: usize = 50;

/// Bytes of the digest that a changed name has.
const DIGEST: usize = 4;

/// The name of the agent that a device of this id is.
pub(super) fn agent_name(client_id: &str) -> String {
    let legal = |letter: char| match letter.to_ascii_lowercase() {
        letter @ ('a'..='z' | '0'..='9' | '.' | '_' | '-') => letter,
        _ => '-',
    };
    let short: String = client_id.chars().take(LONGEST).map(legal).collect();
    let mut name = format!("{PREFIX}{short}");
    if short != client_id {
        name.push('-');
        for byte in Sha256::digest(client_id).iter().take(DIGEST) {
            let _ = write!(name, "{byte:02x}");
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use agentanycast_proto::agent_name::is_agent_name;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_that_fits_stays() {
        assert_eq!(agent_name("linux-1.a_b"), "aip.linux-1.a_b");
        // The digest is that of `sha256sum`.
        assert_eq!(agent_name("Linux 1"), "aip.linux-1-2100c3f0");
        assert_eq!(agent_name(&"x".repeat(60)).len(), 4 + 50 + 1 + 8);
    }

    proptest! {
        #[test]
        fn every_id_has_a_legal_name(id in ".{1,300}") {
            prop_assert!(is_agent_name(&agent_name(&id)));
        }

        #[test]
        fn ids_that_differ_in_letters_that_names_do_not_have_differ(id in "[A-Z ]{1,20}", other in "[A-Z ]{1,20}") {
            prop_assert_eq!(agent_name(&id) == agent_name(&other), id == other);
        }
    }
}
