//! Pieces of work as a distributed trace has them (W3C Trace Context, OpenTelemetry). PURE.

use std::sync::Arc;

/// What kind of work a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Asked of somebody else, to its end.
    Client,
    /// Done for somebody else, to its end.
    Server,
    /// Handed to somebody else, until it was taken.
    Producer,
}

/// One piece of work that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// All spans of one trace have it.
    pub trace_id: u128,
    /// Its own.
    pub span_id: u64,
    /// That of the work it is part of; 0: none.
    pub parent: u64,
    /// What is done.
    pub name: &'static str,
    /// See there.
    pub kind: SpanKind,
    /// Unix nanoseconds.
    pub start: u64,
    /// Unix nanoseconds.
    pub end: u64,
    /// Why it failed.
    pub error: Option<String>,
    /// Names and values, by OpenTelemetry's conventions where there are some.
    pub attributes: Vec<(&'static str, String)>,
}

/// Takes a span; returns at once.
pub type OnSpan = Arc<dyn Fn(Span) + Send + Sync>;

/// A context that is there and well formed: `00-TRACE-SPAN-FLAGS`, and longer ones of later versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// All spans of one trace have it.
    pub trace_id: u128,
    /// That of the work that what comes next is part of.
    pub span_id: u64,
    /// Whether the trace is recorded.
    pub sampled: bool,
}

impl Context {
    /// Of `traceparent`; none when it is not as the standard says.
    pub fn parse(text: &str) -> Option<Self> {
        let hex = |text: &str, len: usize| {
            let clean = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
            (text.len() == len && text.bytes().all(clean))
                .then(|| u128::from_str_radix(text, 16).ok())
                .flatten()
        };
        let mut parts = text.split('-');
        let version = hex(parts.next()?, 2)?;
        let trace_id = hex(parts.next()?, 32)?;
        let span_id = u64::try_from(hex(parts.next()?, 16)?).ok()?;
        let flags = hex(parts.next()?, 2)?;
        let ends = parts.next().is_none();
        let sound = version != 0xff && (version != 0 || ends) && trace_id != 0 && span_id != 0;
        sound.then_some(Self {
            trace_id,
            span_id,
            sampled: flags & 1 == 1,
        })
    }

    /// As `traceparent`.
    pub fn text(self) -> String {
        let flags = u8::from(self.sampled);
        format!("00-{:032x}-{:016x}-{flags:02x}", self.trace_id, self.span_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_read_as_the_standard_says() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let read = Context::parse(text).unwrap();
        assert_eq!((read.span_id, read.sampled), (0xb7ad_6b71_6920_3331, true));
        assert_eq!(read.text(), text);
        // A later version may have more, and its other flags mean nothing here.
        let later = "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-02-what-comes";
        assert!(!Context::parse(later).unwrap().sampled);
        for wrong in [
            "",
            "00",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            assert_eq!(Context::parse(wrong), None, "{wrong}");
        }
    }
}
