//! Reads the answer of a model server out of its bytes: server-sent events, lines of JSON, or one document. PURE.
//!
//! [`HttpProvider`](super::http_provider) and [`ChatAnswer`](super::ChatAnswer) use it. The bytes decide what
//! the answer is, not its media type: some servers answer whole where a stream is asked for, label a stream as
//! JSON, or pack either. Invariants: an answer is bounded; the same bytes in other pieces give the same events;
//! an answer that cannot be read is an error that shows the beginning of the answer.

use agentanycast_readers::{
    body::words,
    excerpt::excerpt,
    gzip::{UnpackError, Unpacker},
    halves,
    json::{self, without_bom},
    sse::{EventTooLarge, SseReader},
};

use super::{
    dialect::{Flow, Framing, StreamDecoder},
    reply_json::error_in,
};
use crate::{
    error::{ErrorCode, UppError},
    event::StreamEvent,
    provider::Response,
};

/// How many bytes an answer may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerLimits {
    /// One event, one line, or an answer that is no stream.
    pub(super) piece: usize,
    /// All of it, unpacked.
    pub(super) all: usize,
}

impl Default for AnswerLimits {
    fn default() -> Self {
        Self {
            // An image as base64.
            piece: 32 << 20,
            all: 64 << 20,
        }
    }
}

/// The end of a stream that is kept for the error of one that broke off: more than an excerpt shows.
const TAIL: usize = 2 << 10;

/// Most pieces that wait behind half a character, and the bytes of all.
const MOST_BESIDE: usize = 256;
const BESIDE: usize = 1 << 20;

/// The names of fields with which a line of server-sent events begins.
const FIELDS: [&[u8]; 4] = [b"data", b"event", b"id", b"retry"];

/// Data of events that say no more than that the server is there.
const SIGNS_OF_LIFE: [&str; 5] = ["ping", "pong", "heartbeat", "keepalive", "keep-alive"];

#[derive(Debug)]
enum Form {
    /// What the answer is shows in its first bytes, of which there are too few.
    Unknown(Vec<u8>),
    Events(SseReader),
    /// A line that has not ended yet.
    Lines(Vec<u8>),
    /// A document, or whatever else is no stream.
    Whole(Vec<u8>),
}

/// A piece that ends within a character, whose other half the next piece of the same text may have.
#[derive(Debug)]
struct HeldHalf {
    piece: Vec<u8>,
    /// Pieces that have come since, which neither go on with the text nor end it.
    beside: Vec<Vec<u8>>,
    bytes: usize,
}

/// Reads an answer as its bytes come.
#[derive(Debug)]
pub(super) struct AnswerReader<D> {
    decoder: D,
    framing: Framing,
    limits: AnswerLimits,
    unpacker: Unpacker,
    form: Form,
    taken: usize,
    tail: Vec<u8>,
    half: Option<HeldHalf>,
    is_over: bool,
}

impl<D: StreamDecoder> AnswerReader<D> {
    pub(super) fn new(decoder: D, framing: Framing, limits: AnswerLimits) -> Self {
        Self {
            decoder,
            framing,
            limits,
            unpacker: Unpacker::new(limits.all),
            form: Form::Unknown(Vec::new()),
            taken: 0,
            tail: Vec::new(),
            half: None,
            is_over: false,
        }
    }

    /// The server has said that nothing follows.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// The answer has its end. What may follow, such as its usage, is not worth an error.
    pub(super) fn is_whole(&self) -> bool {
        self.is_over || self.decoder.is_whole()
    }

    /// Whether the first bytes have shown that it is a stream; `None`: there are too few.
    pub(super) fn is_stream(&self) -> Option<bool> {
        match &self.form {
            Form::Unknown(_) => None,
            Form::Events(_) | Form::Lines(_) => Some(true),
            Form::Whole(_) => Some(false),
        }
    }

    /// Reads further bytes, and adds the events that they complete, also before an error.
    pub(super) fn take(&mut self, bytes: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        let bytes = self.unpacker.take(bytes).map_err(not_unpacked)?.into_owned();
        self.take_plain(bytes, events)
    }

    fn take_plain(&mut self, mut bytes: Vec<u8>, events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        self.taken = self.taken.saturating_add(bytes.len());
        if self.taken > self.limits.all {
            return Err(too_large(self.limits.all));
        }
        self.keep_tail(&bytes);
        if let Form::Unknown(begin) = &mut self.form {
            begin.append(&mut bytes);
            let max = self.limits.piece;
            let Some(form) = form_of(begin, self.framing, max) else {
                return if begin.len() > max {
                    Err(too_large(max))
                } else {
                    Ok(())
                };
            };
            bytes = std::mem::take(begin);
            self.form = form;
        }
        match &mut self.form {
            Form::Events(reader) => {
                let pieces = reader.take(&bytes).map_err(|error| too_large(error.max_event))?;
                pieces.iter().try_for_each(|piece| self.feed(piece, events))
            }
            Form::Lines(line) => {
                let mut lines = std::mem::take(line);
                lines.append(&mut bytes);
                let end = lines
                    .iter()
                    .rposition(|byte| *byte == b'\n')
                    .map_or(0, |at| at + 1);
                let rest = lines.split_off(end);
                if rest.len() > self.limits.piece {
                    return Err(too_large(self.limits.piece));
                }
                self.form = Form::Lines(rest);
                let mut lines = lines.split(|byte| *byte == b'\n');
                lines.try_for_each(|line| self.feed(line, events))
            }
            Form::Whole(body) | Form::Unknown(body) => {
                body.append(&mut bytes);
                let max = self.limits.piece;
                if body.len() > max {
                    Err(too_large(max))
                } else {
                    Ok(())
                }
            }
        }
    }

    fn keep_tail(&mut self, bytes: &[u8]) {
        self.tail
            .extend_from_slice(&bytes[bytes.len().saturating_sub(TAIL)..]);
        let surplus = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..surplus);
    }

    fn feed(&mut self, piece: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        let piece = without_bom(piece).trim_ascii();
        if self.is_over || is_sign_of_life(piece) {
            return Ok(());
        }
        if piece == b"[DONE]" {
            self.release_all(events)?;
            self.decoder.done();
            self.is_over = true;
            return Ok(());
        }
        if self.half.is_none() && !halves::ends_within_character(piece) {
            return self.feed_json(piece, events);
        }
        self.feed_piece(piece.to_vec(), events)
    }

    fn feed_piece(&mut self, mut piece: Vec<u8>, events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        if let Some(half) = &mut self.half {
            if halves::continues(&half.piece, &piece) {
                halves::join(&mut half.piece, &mut piece);
            } else if half.beside.len() < MOST_BESIDE
                && half.bytes + piece.len() <= BESIDE
                && is_beside::<D>(&piece)
            {
                half.bytes += piece.len();
                half.beside.push(piece);
                return Ok(());
            }
            self.release(events)?;
            // What came beside it may hold half a character of another text.
            return self.feed_piece(piece, events);
        }
        if halves::ends_within_character(&piece) {
            self.half = Some(HeldHalf {
                piece,
                beside: Vec::new(),
                bytes: 0,
            });
            return Ok(());
        }
        self.feed_json(&piece, events)
    }

    /// Reads the piece that waits, and those beside it.
    fn release(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        let Some(half) = self.half.take() else {
            return Ok(());
        };
        self.feed_json(&half.piece, events)?;
        let mut beside = half.beside.into_iter();
        beside.try_for_each(|piece| self.feed_piece(piece, events))
    }

    fn release_all(&mut self, events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        while self.half.is_some() {
            self.release(events)?;
        }
        Ok(())
    }

    fn feed_json(&mut self, piece: &[u8], events: &mut Vec<StreamEvent>) -> Result<(), UppError> {
        if self.is_over {
            return Ok(());
        }
        let value = json::value(piece).map_err(|error| {
            let shown = excerpt(piece);
            UppError::invalid_response(format!("the answer holds a piece that is not JSON: {shown}"))
                .with_source(error)
        })?;
        if let Some(error) = error_in(&value) {
            return Err(error);
        }
        if self.decoder.feed(&value, events)? == Flow::End {
            self.is_over = true;
        }
        Ok(())
    }

    /// The answer, at the end of its bytes. Adds the events that are left.
    pub(super) fn finish(mut self, events: &mut Vec<StreamEvent>) -> Result<Response, UppError> {
        let rest = match self.unpacker.finish() {
            Ok(rest) => rest,
            Err(_) if self.is_whole() => Vec::new(),
            Err(error) => return Err(not_unpacked(error)),
        };
        self.take_plain(rest, events)?;
        let last = match &mut self.form {
            Form::Events(reader) => reader.finish(),
            Form::Lines(line) => vec![std::mem::take(line)],
            Form::Unknown(body) | Form::Whole(body) => {
                let body = std::mem::take(body);
                return read_whole(self.decoder, &body, events);
            }
        };
        // Half an event says less than that the answer broke off.
        let is_readable = |last: &[u8]| last.trim_ascii() == b"[DONE]" || json::value(last).is_ok();
        for last in last.iter().filter(|last| is_readable(last)) {
            self.feed(last, events)?;
        }
        self.release_all(events)?;
        if self.decoder.is_whole() {
            return self.decoder.finish();
        }
        if let Some(error) = self.decoder.error() {
            return Err(error);
        }
        let shown = last_line(&self.tail);
        Err(UppError::invalid_response(if shown.is_empty() {
            BROKE_OFF.to_owned()
        } else {
            format!("{BROKE_OFF}; it ended with: {shown}")
        }))
    }
}

/// Whether a piece neither ends a text nor tells of an error.
fn is_beside<D: StreamDecoder>(piece: &[u8]) -> bool {
    json::value(piece).is_ok_and(|value| error_in(&value).is_none() && D::is_beside(&value))
}

/// The error of a stream that ended before its end.
const BROKE_OFF: &str = "the answer broke off before its end";

/// What these first bytes of an answer are the beginning of; `None`: more bytes are needed.
fn form_of(begin: &[u8], framing: Framing, max: usize) -> Option<Form> {
    let text = without_bom(begin).trim_ascii_start();
    let first = text.first()?;
    if framing == Framing::Lines {
        // JSON that is laid out over several lines is one document.
        let end = text.iter().position(|byte| *byte == b'\n')?;
        let is_json = json::value(&text[..end]).is_ok();
        return Some(if is_json {
            Form::Lines(Vec::new())
        } else {
            Form::Whole(Vec::new())
        });
    }
    let is_field = |field: &&[u8]| match text.strip_prefix(*field) {
        Some(rest) => rest.first().is_none_or(|byte| b":\r\n".contains(byte)),
        None => field.starts_with(text),
    };
    let name_ends = text.iter().any(|byte| b":\r\n".contains(byte));
    match FIELDS.iter().any(is_field) {
        _ if *first == b':' => {}
        true if !name_ends => return None,
        true => {}
        false => return Some(Form::Whole(Vec::new())),
    }
    Some(Form::Events(SseReader::new(max)))
}

fn is_sign_of_life(piece: &[u8]) -> bool {
    let is = |sign: &&str| piece.eq_ignore_ascii_case(sign.as_bytes());
    piece.is_empty() || SIGNS_OF_LIFE.iter().any(is)
}

/// The answer in a document, whose events are added.
fn read_whole<D: StreamDecoder>(
    decoder: D,
    body: &[u8],
    events: &mut Vec<StreamEvent>,
) -> Result<Response, UppError> {
    if without_bom(body).trim_ascii().is_empty() {
        return Err(UppError::invalid_response("the answer is empty"));
    }
    let value = json::value(body).map_err(|error| {
        let shown = words(body);
        UppError::invalid_response(format!(
            "the answer is neither JSON nor a stream of events ({error}): {shown}"
        ))
        .with_source(error)
    })?;
    // Gemini wraps the object into a list.
    let value = value.get(0).unwrap_or(&value);
    if let Some(error) = error_in(value) {
        return Err(error);
    }
    decoder.read(value, events).map_err(|error| match error.code() {
        ErrorCode::InvalidResponse => {
            let text = format!("{}; the answer is: {}", error.message(), excerpt(body));
            UppError::invalid_response(text)
        }
        _ => error,
    })
}

/// The last line that holds something, and more than that the stream is over.
fn last_line(tail: &[u8]) -> String {
    let lines = tail.rsplit(|byte| matches!(byte, b'\n' | b'\r'));
    let mut lines = lines.map(<[u8]>::trim_ascii);
    let says_something = |line: &&[u8]| !line.is_empty() && !line.ends_with(b"[DONE]");
    lines.find(says_something).map(words).unwrap_or_default()
}

fn not_unpacked(error: UnpackError) -> UppError {
    match error {
        UnpackError::TooLarge { max } => too_large(max),
        error => UppError::invalid_response(error.to_string()).with_source(error),
    }
}

/// The error of an answer that is too large; its source is an [`EventTooLarge`].
fn too_large(max: usize) -> UppError {
    UppError::invalid_response(format!("the answer has more than {max} bytes"))
        .with_source(EventTooLarge { max_event: max })
}

#[cfg(test)]
mod tests;
