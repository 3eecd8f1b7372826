//! Names of tasks, which upstream programs use as names of folders.

/// Longest name, in bytes.
const LONGEST: usize = 128;

/// The name where nothing is left of one.
const UNNAMED: &str = "task";

/// `name` with `_` for each character besides `A-Z a-z 0-9 . _ -`, without leading dots, of at most 128 bytes.
/// Where nothing is left: `task`.
pub fn sanitize_task_name(name: &str) -> String {
    let kept = name.trim_start_matches('.').chars().take(LONGEST);
    let clean: String = kept
        .map(|c| match c {
            'A'..='Z' | 'a'..='z' | '0'..='9' | '.' | '_' | '-' => c,
            _ => '_',
        })
        .collect();
    if clean.is_empty() {
        UNNAMED.to_owned()
    } else {
        clean
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_that_would_leave_a_folder_are_changed() {
        for (name, expected) in [
            ("probe", "probe"),
            ("../../etc/passwd", "_.._etc_passwd"),
            ("...", "task"),
            ("", "task"),
            ("a b\0c", "a_b_c"),
            (".hidden", "hidden"),
        ] {
            assert_eq!(sanitize_task_name(name), expected);
        }
    }

    proptest! {
        #[test]
        fn every_name_is_clean_and_stays_so(name in any::<String>()) {
            let clean = sanitize_task_name(&name);
            prop_assert!(!clean.is_empty() && clean.len() <= LONGEST && !clean.starts_with('.'));
            prop_assert!(clean.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b)));
            prop_assert_eq!(sanitize_task_name(&clean), clean);
        }
    }
}
