//! An invite that is to be made.

use crate::policy::invites::SECRET;

/// An invite that is to be made.
#[derive(Clone, Debug, Default)]
pub struct NewInvite {
    /// Names it; chosen at random.
    pub id: String,
    /// Empty: its id.
    pub label: String,
    /// The agent that it is for; empty: whichever is here.
    pub agent: String,
    /// The skill that it is for; empty: all.
    pub skill: String,
    /// How many peers it lets in.
    pub uses: u32,
    /// Until when peers can take a use, Unix milliseconds.
    pub expires_at: Option<u64>,
    /// Chosen at random.
    pub secret: [u8; SECRET],
}
