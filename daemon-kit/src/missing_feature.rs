//! Parts that a program is built without, each by a feature of the build: what it says when one is asked for.

/// A part that is not in this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "built without the {part}: build this program with `--features {feature}`, or install a package, which has all parts"
)]
pub struct MissingFeature {
    /// What it is called.
    pub part: &'static str,
    /// The feature of the build that puts it in.
    pub feature: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_what_to_do() {
        let relay = MissingFeature {
            part: "relay",
            feature: "relay",
        };
        assert_eq!(
            relay.to_string(),
            "built without the relay: build this program with `--features relay`, or install a package, which has all \
             parts"
        );
    }
}
