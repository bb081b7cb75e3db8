//! The texts of records. An empty one is legal, because a skeleton admits nothing; who needs it full says so.

use std::net::IpAddr;

use crate::text;

/// Longest note.
const NOTE_CHARS_MAX: usize = 4096;

/// Text without control characters that names no model endpoint.
fn is_note(text: &str) -> bool {
    let is_plain = |c: char| !c.is_control() || c == '\n' || c == '\t';
    text.chars().count() <= NOTE_CHARS_MAX && text.chars().all(is_plain) && !names_endpoint(text)
}

/// Whether a text holds the address of a server: a URL with a port, a number for a host, or a path of a model's API.
fn names_endpoint(text: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        rest = &rest[at + 3..];
        let end = rest.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | ')'));
        let url = &rest[..end.unwrap_or(rest.len())];
        let authority = url.split(['/', '?', '#']).next().unwrap_or(url);
        let path = &url[authority.len()..];
        let host_port = authority.rsplit('@').next().unwrap_or(authority);
        let is_bare_host = !host_port.contains(':');
        let is_number = host_port.parse::<IpAddr>().is_ok();
        let is_local = host_port.eq_ignore_ascii_case("localhost");
        let is_api = path == "/v1" || path.starts_with("/v1/");
        if !is_bare_host || is_number || is_local || is_api {
            return true;
        }
    }
    false
}

/// A class of network or of credentials in words: nothing that could be an address or a path.
fn is_class_word(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '+' | ' ' | ',');
    text.len() <= 200 && text.chars().all(allowed)
}

fn is_provider(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    text.len() <= 64 && !text.starts_with(['-', '.']) && text.chars().all(allowed)
}

fn is_model(text: &str) -> bool {
    let allowed =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '/' | '@' | '+');
    text.len() <= 128
        && !text.starts_with(['-', '.', '/'])
        && !text.contains("//")
        && text.chars().all(allowed)
}

/// A day, or a moment with its offset.
fn is_date(text: &str) -> bool {
    text.is_empty() || text.parse::<jiff::Timestamp>().is_ok() || is_day(text)
}

fn is_day(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

/// One version and no range: `latest`, `^1.2` and `1.x` may be another tomorrow.
fn is_exact_version(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '+' | '_' | '!');
    let is_wild = |part: &str| matches!(part, "x" | "X" | "");
    text.is_empty()
        || (text.len() <= 100
            && text.starts_with(|c: char| c.is_ascii_digit() || c == 'v')
            && text.chars().any(|c| c.is_ascii_digit())
            && text.chars().all(allowed)
            && !text.split('.').any(is_wild))
}

/// A digest as a registry publishes it, or `tree-sha256:` and the digest of what is installed.
fn is_integrity(text: &str) -> bool {
    let is_hex = |digits: &str, length: usize| {
        digits.len() == length && digits.bytes().all(|b| b.is_ascii_hexdigit())
    };
    let is_base64 = |digits: &str, length: usize| {
        let (body, padding) = digits.split_at(digits.trim_end_matches('=').len());
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
        digits.len() == length && padding.len() <= 2 && body.bytes().all(allowed)
    };
    match text.split_once(['-', ':']) {
        None => text.is_empty() || is_hex(text, 64) || is_hex(text, 40),
        Some(("tree", rest)) => rest
            .strip_prefix("sha256:")
            .is_some_and(|digits| is_hex(digits, 64)),
        Some(("sha512", digits)) => is_base64(digits, 88) || is_hex(digits, 128),
        Some(("sha384", digits)) => is_base64(digits, 64) || is_hex(digits, 96),
        Some(("sha256", digits)) => is_base64(digits, 44) || is_hex(digits, 64),
        Some(("sha1", digits)) => is_base64(digits, 28) || is_hex(digits, 40),
        Some(_) => false,
    }
}

/// A repository's address without anybody's name or password in it.
fn is_git_url(text: &str) -> bool {
    if text.is_empty() {
        return true;
    }
    if text.len() > 500 || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return false;
    }
    let over_https = ["https://", "git://"]
        .iter()
        .find_map(|scheme| text.strip_prefix(scheme));
    if let Some(rest) = over_https {
        let authority = rest.split('/').next().unwrap_or(rest);
        return !authority.is_empty() && !authority.contains('@');
    }
    let over_ssh = text.strip_prefix("ssh://git@");
    let short = text.strip_prefix("git@");
    let local = text.strip_prefix("file:///");
    [over_ssh, short, local]
        .into_iter()
        .flatten()
        .any(|rest| !rest.is_empty() && !rest.contains('@'))
}

fn is_absolute(text: &str) -> bool {
    let is_odd = |component: &str| component == "." || component == "..";
    text.is_empty()
        || (text.starts_with('/')
            && text.len() <= 4096
            && !text.chars().any(char::is_control)
            && !text.split('/').any(is_odd))
}

macro_rules! record_text {
    ($($(#[$meta:meta])* $name:ident, $what:literal, $pattern:literal, $check:expr;)+) => { $(
        checked_string!($(#[$meta])* pub struct $name, $what, $pattern, $check);

        impl Default for $name {
            fn default() -> Self {
                Self(String::new())
            }
        }

        impl $name {
            pub fn is_empty(&self) -> bool {
                self.0.trim().is_empty()
            }
        }
    )+ };
}

record_text! {
    /// Words for people. No control characters, and no address of a model.
    Note, "note: text without control characters and without an endpoint's address", "^[\\s\\S]{0,4096}$", is_note;
    /// A class of network or credentials, in words.
    ClassWord, "class: words, and no address, path or value", "^[A-Za-z0-9_+ ,-]{0,200}$", is_class_word;
    /// The name of who serves a model.
    ProviderName, "provider's name", "^([A-Za-z0-9_][A-Za-z0-9._-]{0,63})?$", is_provider;
    /// The name of a model.
    ModelName, "model's name", "^([A-Za-z0-9_:@+][A-Za-z0-9._:/@+-]{0,127})?$", is_model;
    /// A day such as 2026-06-01, or a moment with its offset.
    RecordDate, "date (such as 2026-06-01) or time with its offset", "^([0-9]{4}-[0-9]{2}-[0-9]{2}.*)?$", is_date;
    /// One version, and no range of them.
    ExactVersion, "exact version", "^([0-9v][0-9A-Za-z.+!_-]{0,99})?$", is_exact_version;
    /// A digest as the registry publishes it; `tree-sha256:` stands before that of what is installed.
    Integrity, "integrity hash: sha512-…, sha256:…, hex digits, or tree-sha256:…", "^[0-9A-Za-z+/=:-]{0,140}$", is_integrity;
    /// Where a repository is fetched from.
    GitUrl, "git address without a name or password in it", "^([a-z]+://|git@)?[^\\s]{0,500}$", is_git_url;
    /// A path from the root, without `..`.
    AbsolutePath, "absolute path", "^(/.*)?$", is_absolute;
}

impl RecordDate {
    /// Today, or another day that the caller knows.
    pub fn of(at: crate::time::Utc) -> Self {
        Self(at.to_string())
    }
}

const LAST_MOMENT: &str = "9999-12-30T00:00:00Z";

impl RecordDate {
    /// The first moment that it can mean; none where it is empty. A day begins earliest in the east.
    pub fn begins(&self) -> Option<crate::time::Utc> {
        if is_day(&self.0) {
            let midnight = format!("{}T00:00:00Z", self.0).parse::<crate::time::Utc>();
            // The very last day is beyond what a clock can say; it must not count as no day.
            let midnight = midnight.or_else(|_| LAST_MOMENT.parse()).ok()?;
            return Some(midnight.plus_seconds(-14 * 3600));
        }
        let moment: jiff::Timestamp = self.0.parse().ok()?;
        moment.to_string().parse().ok()
    }
}

impl Integrity {
    /// What stands in where no registry publishes a hash.
    pub fn of_tree(digest: &crate::ids::Digest) -> Self {
        Self(format!("tree-sha256:{digest}"))
    }

    /// Whether it is only the digest of what is installed.
    pub fn is_of_tree(&self) -> bool {
        self.0.starts_with("tree-")
    }
}

impl Note {
    /// Takes words of our own, cut to what a note holds; none that name an endpoint.
    pub fn new(words: &str) -> Self {
        let words = text::shorten(words, NOTE_CHARS_MAX - 1);
        if is_note(&words) {
            Self(words)
        } else {
            Self::default()
        }
    }
}
