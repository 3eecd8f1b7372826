//! Which version of A2A a request asks for. PURE.

use super::{
    error::{A2aError, Reason},
    version::Version,
};

impl Version {
    /// What a request's `A2A-Version` asks for; missing and empty mean 0.3.
    pub fn from_header(header: Option<&str>) -> Result<Self, A2aError> {
        let given = header.unwrap_or_default().trim();
        if given.is_empty() {
            return Ok(Self::V03);
        }
        Self::parse(given).ok_or_else(|| unsupported(given))
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
