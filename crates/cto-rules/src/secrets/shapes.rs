//! The shapes of well-known secrets.
//!
//! One small automaton looks for the words with which secrets begin; only there is a shape tried. So a scan costs
//! about one pass, whatever the text.

use std::sync::LazyLock;

use regex::bytes::Regex;

use super::entropy;
use super::{FINDINGS_MAX, Which};

/// Most bytes that a shape looks at from its beginning.
const WINDOW_BYTES: usize = 1024;

/// What even a token with a known prefix must have: below it are stand-ins such as `ghp_aaaa…`.
const PREFIX_BITS_PER_BYTE: f64 = 2.5;

/// How sure a shape is by itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Proof {
    /// The text alone is proof.
    Text,
    /// The issuer's prefix is nearly proof; only stand-ins are let through.
    Prefix,
    /// A name that speaks of a secret; the value must look random too.
    Value { bits_per_byte: f64 },
}

/// One shape.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub name: &'static str,
    /// The words it can begin with, in lower case.
    pub starts: &'static [&'static str],
    /// What stands at such a word. The group `v`, where there is one, is the value.
    pub pattern: &'static str,
    pub proof: Proof,
}

const fn text(name: &'static str, starts: &'static [&'static str], pattern: &'static str) -> Shape {
    Shape {
        name,
        starts,
        pattern,
        proof: Proof::Text,
    }
}

const fn token(
    name: &'static str,
    starts: &'static [&'static str],
    pattern: &'static str,
) -> Shape {
    Shape {
        name,
        starts,
        pattern,
        proof: Proof::Prefix,
    }
}

const fn value(
    name: &'static str,
    starts: &'static [&'static str],
    pattern: &'static str,
    bits_per_byte: f64,
) -> Shape {
    Shape {
        name,
        starts,
        pattern,
        proof: Proof::Value { bits_per_byte },
    }
}

/// Words of names that hold a secret. Not every name that contains one does: what follows decides.
const SECRET_WORDS: &[&str] = &[
    "passw",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "api",
    "access",
    "auth",
    "private",
    "signing",
    "encryption",
    "credential",
];

/// Every shape that is looked for.
pub const SHAPES: &[Shape] = &[
    // The line alone stands in many sources that handle keys; with a body it is one.
    text(
        "private-key",
        &["-----begin "],
        r"(?s)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.{0,300}?[A-Za-z0-9+/]{32}",
    ),
    token(
        "age-key",
        &["age-secret-key-1"],
        r"AGE-SECRET-KEY-1[0-9A-Z]{58}\b",
    ),
    token(
        "aws-access-key",
        &["akia", "asia", "abia", "acca"],
        r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b",
    ),
    token(
        "azure-storage-key",
        &["accountkey="],
        r"AccountKey=(?<v>[A-Za-z0-9+/]{86}==)",
    ),
    token(
        "anthropic-key",
        &["sk-ant-"],
        r"sk-ant-[a-z0-9]{2,10}-[A-Za-z0-9_-]{40,255}",
    ),
    token(
        "digitalocean-token",
        &["doo_v1_", "dop_v1_", "dor_v1_"],
        r"do[opr]_v1_[0-9a-f]{64}\b",
    ),
    token("docker-token", &["dckr_"], r"dckr_[ps]at_[A-Za-z0-9_-]{27}"),
    token(
        "github-token",
        &["gho_", "ghp_", "ghu_", "ghs_", "ghr_"],
        r"gh[opusr]_[A-Za-z0-9]{36,255}\b",
    ),
    token(
        "github-fine-grained-token",
        &["github_pat_"],
        r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}\b",
    ),
    token(
        "gitlab-token",
        &[
            "glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glsoat-", "gloas-",
            "glagent-", "glimt-",
        ],
        r"gl[a-z]{2,5}-[A-Za-z0-9_-]{20,255}",
    ),
    token("google-api-key", &["aiza"], r"AIza[A-Za-z0-9_-]{35}"),
    token(
        "google-oauth-secret",
        &["gocspx-"],
        r"GOCSPX-[A-Za-z0-9_-]{28}",
    ),
    token(
        "google-oauth-token",
        &["ya29."],
        r"ya29\.[A-Za-z0-9_-]{30,255}",
    ),
    token("hugging-face-token", &["hf_"], r"hf_[A-Za-z0-9]{34,255}\b"),
    token(
        "json-web-token",
        &["eyj"],
        r"eyJ[A-Za-z0-9_-]{10,200}\.eyJ[A-Za-z0-9_-]{10,700}",
    ),
    token("npm-token", &["npm_"], r"npm_[A-Za-z0-9]{36}\b"),
    token(
        "openai-key",
        &["sk-"],
        r"sk-(?:(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,255}|[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}\b)",
    ),
    token(
        "pypi-token",
        &["pypi-age"],
        r"pypi-AgE[A-Za-z0-9_-]{50,255}",
    ),
    token(
        "sendgrid-key",
        &["sg."],
        r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}",
    ),
    token(
        "slack-token",
        &["xox"],
        r"xox[abeoprs]-[0-9A-Za-z-]{20,255}",
    ),
    token(
        "slack-webhook",
        &["hooks.slack.com/"],
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?<v>[A-Za-z0-9/]{40,255})",
    ),
    token(
        "stripe-key",
        &["sk_", "rk_", "whsec_"],
        r"(?:(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{16,255}|whsec_[A-Za-z0-9]{32,255})\b",
    ),
    token(
        "vault-token",
        &["hvs.", "hvb."],
        r"hv[sb]\.[A-Za-z0-9_-]{24,255}",
    ),
    value(
        "url-password",
        &["://"],
        r#"://[^\s/:@'"]{0,100}:(?<v>[^\s/@'"]{8,200})@"#,
        2.8,
    ),
    value(
        "assigned-secret",
        SECRET_WORDS,
        r#"(?i)(?:passw(?:or)?d|passphrase|pwd|secret|token|(?:api|access|auth|private|secret|signing|encryption)[_-]?key|credentials?)["'\]]{0,2}[ \t]{0,4}(?::=|=>|=|:)[ \t]{0,4}["'`](?<v>[^"'`\s]{12,200})["'`]"#,
        3.4,
    ),
    value(
        "assigned-secret-unquoted",
        SECRET_WORDS,
        r#"(?im)(?:passw(?:or)?d|passphrase|pwd|secret|token|(?:api|access|auth|private|secret|signing|encryption)[_-]?key|credentials?)(?:=|:[ \t]{1,4}|[ \t]{1,4}=[ \t]{1,4})(?<v>[A-Za-z0-9+/_=-]{20,200})[ \t\r]*$"#,
        4.0,
    ),
];

/// Where a shape was found, as offsets.
#[derive(Debug, Clone)]
pub(super) struct Hit {
    pub(super) rule: String,
    pub(super) start: usize,
    pub(super) end: usize,
}

struct Compiled {
    /// Finds every word with which a shape can begin.
    starts: Regex,
    /// The shapes, held to where they are tried.
    each: Vec<Regex>,
}

#[expect(
    clippy::expect_used,
    reason = "the patterns are constants; a test compiles all of them"
)]
static COMPILED: LazyLock<Compiled> = LazyLock::new(|| {
    let words: Vec<String> = SHAPES
        .iter()
        .flat_map(|s| s.starts)
        .map(|w| regex::escape(w))
        .collect();
    let anchored = |s: &Shape| Regex::new(&format!(r"\A(?-u:{})", s.pattern));
    Compiled {
        starts: Regex::new(&format!("(?i-u:{})", words.join("|"))).expect("the words are valid"),
        each: SHAPES
            .iter()
            .map(|s| anchored(s).expect("the shape is valid"))
            .collect(),
    }
});

pub(super) fn find(bytes: &[u8], which: Which) -> Vec<Hit> {
    let mut hits = Vec::new();
    let mut at = 0;
    while let Some(word) = COMPILED.starts.find_at(bytes, at) {
        // Words overlap, so the next one may begin right behind the first byte of this.
        at = word.start() + 1;
        try_shapes(bytes, word.start(), which, &mut hits);
        if hits.len() >= FINDINGS_MAX {
            break;
        }
    }
    hits
}

fn try_shapes(bytes: &[u8], start: usize, which: Which, hits: &mut Vec<Hit>) {
    let end = bytes.len().min(start + WINDOW_BYTES);
    let window = &bytes[start..end];
    let begins = |word: &str| {
        window
            .get(..word.len())
            .is_some_and(|w| w.eq_ignore_ascii_case(word.as_bytes()))
    };
    let follows_a_letter =
        start > 0 && (bytes[start - 1].is_ascii_alphanumeric() || bytes[start - 1] == b'_');
    for (shape, regex) in SHAPES.iter().zip(&COMPILED.each) {
        // A token stands alone; names of secrets have all kinds of words before them.
        let is_guess = matches!(shape.proof, Proof::Value { .. });
        if (which == Which::Certain && is_guess)
            || (shape.proof == Proof::Prefix && follows_a_letter)
            || !shape.starts.iter().any(|w| begins(w))
        {
            continue;
        }
        // Finding is much faster than capturing, and most words begin nothing.
        let Some(whole) = regex.find(window) else {
            continue;
        };
        let group = regex.captures_len() > 1;
        let captures = group.then(|| regex.captures(window)).flatten();
        let found = captures.and_then(|c| c.name("v")).unwrap_or(whole);
        if is_secret(shape.proof, found.as_bytes()) {
            hits.push(Hit {
                rule: shape.name.to_owned(),
                start: start + found.start(),
                end: start + found.end(),
            });
        }
    }
}

fn is_secret(proof: Proof, value: &[u8]) -> bool {
    let floor = match proof {
        Proof::Text => return true,
        Proof::Prefix => PREFIX_BITS_PER_BYTE,
        Proof::Value { bits_per_byte } => bits_per_byte,
    };
    entropy::bits_per_byte(value) >= floor
        && (proof == Proof::Prefix || entropy::is_mixed(value))
        && !entropy::is_placeholder(value)
}
