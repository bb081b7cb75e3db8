//! The spellings in which a known value may turn up: as it is, in base64 once and twice, in hex, percent-encoded, in a JSON
//! string, in UTF-16.

/// Every spelling of a value that differs from the others.
pub(super) fn of(value: &[u8]) -> Vec<Vec<u8>> {
    let mut all = vec![value.to_vec(), json(value)];
    for shift in 0..3 {
        all.push(base64(value, shift, b"+/"));
        all.push(base64(value, shift, b"-_"));
    }
    // Encoded twice, as a tool does with what another has encoded.
    for inner in 0..3 {
        let once = base64(value, inner, b"+/");
        all.extend((0..3).map(|outer| base64(&once, outer, b"+/")));
    }
    all.extend(wide(value));
    for digits in [b"0123456789ABCDEF", b"0123456789abcdef"] {
        all.push(hex(value, digits));
    }
    for kept in [&b"-_.~"[..], b"-_.~!*'()", b"-_.~!*'();/?:@&=+$,#"] {
        for digits in [b"0123456789ABCDEF", b"0123456789abcdef"] {
            all.push(percent(value, kept, digits, b"%20"));
            all.push(percent(value, kept, digits, b"+"));
        }
    }
    let mut seen: Vec<Vec<u8>> = Vec::new();
    for spelling in all {
        if !seen.contains(&spelling) {
            seen.push(spelling);
        }
    }
    seen
}

/// The digits of base64 that depend on the value alone when `shift` other bytes stand before it in its group.
///
/// A value in the middle of a longer text, such as `user:password`, has one of three spellings there.
fn base64(value: &[u8], shift: usize, last_two: &[u8; 2]) -> Vec<u8> {
    let digit = |n: u32| match n {
        0..=25 => b'A' + n as u8,
        26..=51 => b'a' + (n - 26) as u8,
        52..=61 => b'0' + (n - 52) as u8,
        62 => last_two[0],
        _ => last_two[1],
    };
    let bit = |i: usize| {
        (i / 8)
            .checked_sub(shift)
            .map_or(0, |byte| u32::from(value[byte] >> (7 - i % 8) & 1))
    };
    let first = (8 * shift).div_ceil(6);
    let end = 8 * (shift + value.len()) / 6;
    (first..end)
        .map(|d| digit((6 * d..6 * d + 6).fold(0, |n, i| n << 1 | bit(i))))
        .collect()
}

/// UTF-16 in both byte orders; nothing for bytes that are no text.
fn wide(value: &[u8]) -> Vec<Vec<u8>> {
    let Ok(text) = std::str::from_utf8(value) else {
        return Vec::new();
    };
    let units = || text.encode_utf16();
    vec![
        units().flat_map(u16::to_le_bytes).collect(),
        units().flat_map(u16::to_be_bytes).collect(),
    ]
}

fn hex(value: &[u8], digits: &[u8; 16]) -> Vec<u8> {
    let both = |b: &u8| [digits[usize::from(b >> 4)], digits[usize::from(b & 15)]];
    value.iter().flat_map(both).collect()
}

fn percent(value: &[u8], kept: &[u8], digits: &[u8; 16], space: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len() * 3);
    for &b in value {
        if b.is_ascii_alphanumeric() || kept.contains(&b) {
            out.push(b);
        } else if b == b' ' {
            out.extend_from_slice(space);
        } else {
            out.extend([
                b'%',
                digits[usize::from(b >> 4)],
                digits[usize::from(b & 15)],
            ]);
        }
    }
    out
}

/// The inside of a JSON string, as most writers write it.
fn json(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    for &b in value {
        match b {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..=0x1f => out.extend_from_slice(format!("\\u{b:04x}").as_bytes()),
            _ => out.push(b),
        }
    }
    out
}
