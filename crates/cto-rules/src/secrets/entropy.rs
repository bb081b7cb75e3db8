//! Whether a value looks random, or like something that stands where a secret will be.

/// Shannon entropy in bits a byte.
pub(super) fn bits_per_byte(value: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for b in value {
        counts[usize::from(*b)] += 1;
    }
    let total = value.len() as f64;
    counts
        .iter()
        .filter(|c| **c > 0)
        .map(|c| f64::from(*c) / total)
        .map(|share| -share * share.log2())
        .sum()
}

/// Letters and digits mixed as no word and no name of a function mixes them.
pub(super) fn is_mixed(value: &[u8]) -> bool {
    let count = |wanted: fn(&u8) -> bool| value.iter().filter(|b| wanted(b)).count();
    let digits = count(u8::is_ascii_digit);
    let letters = count(u8::is_ascii_alphabetic);
    digits >= 2 && letters >= 2 && (digits >= 4 || count(u8::is_ascii_uppercase) > 0)
}

/// True for values that people write where a secret would stand.
pub(super) fn is_placeholder(value: &[u8]) -> bool {
    const WORDS: [&str; 20] = [
        "example",
        "changeme",
        "change_me",
        "change-me",
        "placeholder",
        "dummy",
        "sample",
        "redacted",
        "your_",
        "your-",
        "insert",
        "xxxx",
        "****",
        "....",
        "${",
        "$(",
        "{{",
        "<",
        "%(",
        "1234567890",
    ];
    let folded = String::from_utf8_lossy(value).to_ascii_lowercase();
    WORDS.iter().any(|w| folded.contains(w)) || has_long_run(value)
}

/// Eight times the same byte: nobody's key, but many people's stand-in.
fn has_long_run(value: &[u8]) -> bool {
    value.windows(8).any(|w| w.iter().all(|b| *b == w[0]))
}
