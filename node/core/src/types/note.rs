//! A note that a gateway keeps with a task.

/// What a gateway has noted.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Note {
    /// The task has no second one of this name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Whose it is.
    #[prost(string, tag = "2")]
    pub owner: String,
    /// What is noted.
    #[prost(bytes = "vec", tag = "3")]
    pub content: Vec<u8>,
    /// Something is still to be done about it.
    #[prost(bool, tag = "4")]
    pub open: bool,
    /// Another one each time that it is written.
    #[prost(uint64, tag = "5")]
    pub version: u64,
}

impl Note {
    pub(crate) fn bytes(&self) -> usize {
        self.name.len() + self.owner.len() + self.content.len()
    }
}
