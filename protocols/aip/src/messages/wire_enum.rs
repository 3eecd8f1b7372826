//! Enumerations on the wire. An unknown value is an error that names the field and the value.

/// Longest part of an unknown value that an error repeats, in characters.
const SHOWN: usize = 60;

/// The error for `value`, which `field` does not have.
pub(crate) fn unknown_value(field: &str, value: &str, known: &[&str]) -> String {
    let shown: String = value.chars().take(SHOWN).collect();
    format!("unknown {field} {shown:?}; known are {}", known.join(", "))
}

/// Defines an enumeration of the wire: its variants, their texts, and the field that errors name.
macro_rules! wire_enum {
    ($(#[$meta:meta])* $name:ident, $field:literal { $($(#[$doc:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$doc])* $variant,)+
        }

        impl $name {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The text on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                match text.as_ref() {
                    $($text => Ok(Self::$variant),)+
                    other => Err(serde::de::Error::custom($crate::messages::unknown_value(
                        $field,
                        other,
                        &[$($text),+],
                    ))),
                }
            }
        }
    };
}

pub(crate) use wire_enum;

wire_enum! {
    /// The status of a message.
    MessageStatus, "status" {
        /// The exchange goes on.
        Continue = "continue",
        /// A task ended well.
        Completed = "completed",
        /// A task failed.
        Failed = "failed",
        /// Accepted.
        Ok = "ok",
        /// Refused, or an error.
        Error = "error",
    }
}
