//! Counts of tokens, of one inference and of all inferences of a turn.

use serde::{Deserialize, Serialize};

/// Tokens that were read and written.
///
/// ```
/// use agentanycast_upp::TokenUsage;
///
/// let mut turn = TokenUsage::default();
/// turn.add_cycle(&TokenUsage::new(10, 2));
/// turn.add_cycle(&TokenUsage::new(15, 4));
/// assert_eq!((turn.input_tokens, turn.output_tokens, turn.total_tokens), (25, 6, 31));
/// assert_eq!(turn.cycles.len(), 2);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenUsage {
    /// Tokens of the input.
    pub input_tokens: u64,
    /// Tokens of the output.
    pub output_tokens: u64,
    /// Both.
    pub total_tokens: u64,
    /// Tokens of the input that the provider had in its cache.
    pub cache_read_tokens: u64,
    /// Tokens of the input that the provider put into its cache.
    pub cache_write_tokens: u64,
    /// The counts of each inference of a turn, in order; empty for one inference.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cycles: Vec<TokenUsage>,
}

impl TokenUsage {
    /// The counts of one inference without a cache.
    pub fn new(input_tokens: u64, output_tokens: u64) -> Self {
        Self {
            input_tokens,
            output_tokens,
            total_tokens: input_tokens.saturating_add(output_tokens),
            ..Self::default()
        }
    }

    /// Adds the counts of `other`, without its cycles.
    pub fn add(&mut self, other: &Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.total_tokens = self.total_tokens.saturating_add(other.total_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(other.cache_read_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
    }

    /// Adds one inference: its counts, and itself as a cycle.
    pub fn add_cycle(&mut self, inference: &Self) {
        self.add(inference);
        self.cycles.push(inference.clone());
    }
}
