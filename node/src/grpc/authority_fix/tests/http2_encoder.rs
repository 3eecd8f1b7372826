//! An encoder of HTTP/2 frames and header blocks, independent of the code under test, that keeps a
//! dynamic table of its own.

use std::collections::VecDeque;

/// Bits of the Huffman code of each byte (RFC 7541, appendix B); the codes follow, being canonical.
#[rustfmt::skip] // Rows of 32, as one counts them.
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// Names at some places of the static table.
const STATIC: [(&str, usize); 4] = [(":authority", 1), (":path", 4), ("host", 38), ("user-agent", 58)];

/// The table a server offers by default, in bytes.
const TABLE_BYTES: usize = 4096;

/// A field as a client may send it.
#[derive(Clone, Debug)]
pub(super) struct TestField {
    pub(super) name: String,
    pub(super) value: Vec<u8>,
    pub(super) huffman_name: bool,
    pub(super) huffman_value: bool,
    /// With incremental indexing, so that it enters the table.
    pub(super) indexed: bool,
    /// Names its name by a place in a table if there is one.
    pub(super) by_index: bool,
    /// Sends a place alone if the whole field is in the dynamic table.
    pub(super) whole: bool,
}

#[derive(Default)]
pub(super) struct Http2Encoder {
    table: VecDeque<(String, Vec<u8>)>,
}

impl Http2Encoder {
    pub(super) fn block(&mut self, fields: &[TestField]) -> Vec<u8> {
        let mut out = Vec::new();
        for field in fields {
            self.field(field, &mut out);
        }
        out
    }

    fn field(&mut self, field: &TestField, out: &mut Vec<u8>) {
        let same = |(name, value): &(String, Vec<u8>)| *name == field.name && *value == field.value;
        if let Some(age) = self.table.iter().position(same).filter(|_| field.whole) {
            return integer(0x80, 7, 62 + age, out);
        }
        let dynamic = self
            .table
            .iter()
            .position(|(name, _)| *name == field.name)
            .map(|age| 62 + age);
        let fixed = STATIC
            .iter()
            .find(|(name, _)| *name == field.name)
            .map(|(_, place)| *place);
        let place = dynamic.or(fixed).filter(|_| field.by_index).unwrap_or(0);
        let (first, bits) = if field.indexed { (0x40, 6) } else { (0x10, 4) };
        integer(first, bits, place, out);
        if place == 0 {
            string(field.name.as_bytes(), field.huffman_name, out);
        }
        string(&field.value, field.huffman_value, out);
        if field.indexed {
            self.table.push_front((field.name.clone(), field.value.clone()));
            let size = |table: &VecDeque<(String, Vec<u8>)>| -> usize {
                table
                    .iter()
                    .map(|(name, value)| name.len() + value.len() + 32)
                    .sum()
            };
            while size(&self.table) > TABLE_BYTES {
                self.table.pop_back();
            }
        }
    }
}

pub(super) fn integer(first: u8, bits: u32, value: usize, out: &mut Vec<u8>) {
    let limit = (1 << bits) - 1;
    if value < limit {
        return out.push(first | value as u8);
    }
    out.push(first | limit as u8);
    let mut rest = value - limit;
    while rest >= 128 {
        out.push(rest as u8 & 0x7f | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn string(text: &[u8], huffman: bool, out: &mut Vec<u8>) {
    let bytes = if huffman {
        huffman_code(text)
    } else {
        text.to_vec()
    };
    integer(if huffman { 0x80 } else { 0 }, 7, bytes.len(), out);
    out.extend(bytes);
}

pub(super) fn huffman_code(text: &[u8]) -> Vec<u8> {
    let mut order: Vec<u8> = (0..=255).collect();
    order.sort_by_key(|&symbol| (LENGTHS[symbol as usize], symbol));
    let (mut codes, mut code, mut length) = ([0_u32; 256], 0, LENGTHS[order[0] as usize]);
    for symbol in order {
        code <<= LENGTHS[symbol as usize] - length;
        length = LENGTHS[symbol as usize];
        codes[symbol as usize] = code;
        code += 1;
    }
    let bits = |&symbol: &u8| {
        let (code, length) = (codes[symbol as usize], LENGTHS[symbol as usize]);
        (0..length).rev().map(move |place| code >> place & 1 == 1)
    };
    let all: Vec<bool> = text.iter().flat_map(bits).collect();
    let byte = |bits: &[bool]| (0..8).fold(0, |byte, i| byte << 1 | u8::from(*bits.get(i).unwrap_or(&true)));
    all.chunks(8).map(byte).collect()
}

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
    out
}
