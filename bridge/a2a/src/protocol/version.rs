//! The two versions of A2A that are spoken. PURE.

/// A version of A2A, `Major.Minor`; patches do not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// 0.3.
    V03,
    /// 1.0.
    V10,
}

impl Version {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V03 => "0.3",
            Self::V10 => "1.0",
        }
    }

    /// The version that a text means, as cards and requests write it: with or without a `v` and a patch. 0.2 is
    /// spoken as 0.3, and 1 is 1.0.
    pub(crate) fn parse(given: &str) -> Option<Self> {
        let bare = given.trim();
        let bare = bare.strip_prefix(['v', 'V']).unwrap_or(bare);
        // A version before a release, or a build, is spoken as the release.
        let release = bare.split(['-', '+']).next().unwrap_or_default();
        let mut numbers = release.splitn(3, '.');
        let version = match (numbers.next(), numbers.next()) {
            (Some("0"), Some("2" | "3")) => Self::V03,
            (Some("1"), None | Some("0")) => Self::V10,
            _ => return None,
        };
        let patch = numbers.next();
        patch
            .is_none_or(|patch| patch.parse::<u32>().is_ok())
            .then_some(version)
    }
}
