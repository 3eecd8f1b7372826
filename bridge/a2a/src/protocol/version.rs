//! The two versions of A2A that are spoken, and how a request says which it means. PURE.

use super::error::{A2aError, Reason};

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

    /// What a request's `A2A-Version` asks for; missing and empty mean 0.3.
    pub fn from_header(header: Option<&str>) -> Result<Self, A2aError> {
        let given = header.unwrap_or_default().trim();
        if given.is_empty() {
            return Ok(Self::V03);
        }
        Self::parse(given).ok_or_else(|| unsupported(given))
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

    /// Checks that a request that is written in this version also asks for it.
    pub fn check_header(self, header: Option<&str>) -> Result<(), A2aError> {
        let asked = Self::from_header(header)?;
        if asked == self {
            return Ok(());
        }
        let text = format!(
            "the request asks for version {} but is written in {}; set A2A-Version: {}",
            asked.as_str(),
            self.as_str(),
            self.as_str()
        );
        Err(A2aError::new(Reason::VersionNotSupported, text))
    }
}

fn unsupported(given: &str) -> A2aError {
    let shown: String = given.chars().take(32).collect();
    A2aError::new(
        Reason::VersionNotSupported,
        format!("version {shown:?} is not supported; 1.0 and 0.3 are"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_do_not_matter_and_nothing_means_0_3() {
        for (header, version) in [
            (None, Version::V03),
            (Some(""), Version::V03),
            (Some("0.3"), Version::V03),
            (Some("0.3.26"), Version::V03),
            (Some("1.0"), Version::V10),
            (Some(" 1.0.7 "), Version::V10),
            (Some("1"), Version::V10),
            (Some("v0.3"), Version::V03),
            (Some("0.2.6"), Version::V03),
        ] {
            assert_eq!(Version::from_header(header).unwrap(), version, "{header:?}");
        }
        for bad in ["1.1", "2.0", "0.1", "1.0.x", "one", "1.0.0.0", ".", "v"] {
            let error = Version::from_header(Some(bad)).unwrap_err();
            assert_eq!(error.reason(), Reason::VersionNotSupported, "{bad}");
        }
    }

    #[test]
    fn what_is_written_must_be_what_is_asked_for() {
        assert!(Version::V10.check_header(Some("1.0")).is_ok());
        assert!(Version::V03.check_header(None).is_ok());
        assert!(Version::V10.check_header(None).is_err());
        assert!(Version::V03.check_header(Some("1.0")).is_err());
    }
}
