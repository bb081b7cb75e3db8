//! Secrets: values this run knows, shapes that look like one, and their removal from a stream of bytes.
//!
//! A finding says where and by which rule, never what. Known values are looked for anywhere and in several spellings;
//! shapes are guesses, so in a patch only added lines count for them.

mod automaton;
mod encoded;
mod entropy;
mod log;
mod redactor;
mod shapes;
mod spellings;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use automaton::Automaton;
use shapes::Hit;

use crate::patch;

pub use log::{Cleaned, clean_event};
pub use redactor::Redactor;
pub use shapes::{Proof, SHAPES, Shape};

/// Shortest value that is looked for: anything shorter would be found in innocent text all the time.
pub const KNOWN_BYTES_MIN: usize = 8;
/// Longest value that is looked for.
pub const KNOWN_BYTES_MAX: usize = 16 << 10;
/// Most findings that one scan reports; one is enough to refuse.
pub const FINDINGS_MAX: usize = 1000;

/// Where something secret stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// From 1.
    pub line: usize,
    /// In bytes, from 1.
    pub column: usize,
    /// In bytes.
    pub length: usize,
    /// The name of the shape, or `known:<name>`.
    pub rule: String,
}

/// Secrets that this run was given, ready to be looked for.
#[derive(Clone)]
pub struct Known {
    names: Vec<String>,
    ignored: Vec<(String, String)>,
    markers: Vec<Vec<u8>>,
    automaton: Arc<Automaton>,
}

/// Shows names only.
impl std::fmt::Debug for Known {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Known")
            .field("names", &self.names)
            .field("ignored", &self.ignored)
            .finish_non_exhaustive()
    }
}

impl Known {
    /// Takes named values. White space around a value is not part of it.
    pub fn new(values: Vec<(String, Vec<u8>)>) -> Self {
        let mut names: Vec<String> = Vec::new();
        let mut ignored = Vec::new();
        let mut spellings: Vec<(Vec<u8>, usize)> = Vec::new();
        for (name, value) in values {
            let name = plain_name(&name);
            let value = value.trim_ascii();
            if value.len() < KNOWN_BYTES_MIN {
                ignored.push((name, format!("shorter than {KNOWN_BYTES_MIN} bytes")));
            } else if value.len() > KNOWN_BYTES_MAX {
                ignored.push((name, format!("longer than {KNOWN_BYTES_MAX} bytes")));
            } else {
                spellings.extend(spellings::of(value).into_iter().map(|s| (s, names.len())));
                names.push(name);
            }
        }
        let markers = markers(&names, &spellings);
        Self {
            names,
            ignored,
            markers,
            automaton: Arc::new(Automaton::new(&spellings)),
        }
    }

    /// Places instead of secrets: each value, spelled just so, is replaced by its name alone.
    ///
    /// A pack names no path of the machine it was made on.
    pub fn places(places: Vec<(String, Vec<u8>)>) -> Self {
        let (names, values): (Vec<String>, Vec<Vec<u8>>) = places.into_iter().unzip();
        let spellings: Vec<(Vec<u8>, usize)> = values
            .into_iter()
            .enumerate()
            .map(|(n, value)| (value, n))
            .collect();
        Self {
            markers: names.iter().map(|name| name.clone().into_bytes()).collect(),
            names,
            ignored: Vec::new(),
            automaton: Arc::new(Automaton::new(&spellings)),
        }
    }

    /// Nothing known.
    pub fn none() -> Self {
        Self::new(Vec::new())
    }

    /// Values that are not looked for, each with the reason.
    pub fn ignored(&self) -> &[(String, String)] {
        &self.ignored
    }

    /// Names of the values that are looked for.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    fn find(&self, bytes: &[u8]) -> Vec<Hit> {
        let mut search = self.automaton.search();
        self.automaton.feed(&mut search, bytes);
        search
            .regions
            .into_iter()
            .take(FINDINGS_MAX)
            .map(|r| Hit {
                rule: format!("known:{}", self.names[r.owner]),
                start: r.start,
                end: r.end,
            })
            .collect()
    }
}

/// Finds known values and shapes in bytes.
pub fn scan_text(bytes: &[u8], known: &Known) -> Vec<Finding> {
    let mut hits = known.find(bytes);
    hits.extend(shapes::find(bytes, Which::All));
    hits.extend(encoded::find(bytes));
    finish(place(bytes, hits))
}

/// Finds known values anywhere in a patch, and shapes in its added lines.
///
/// Binary blocks are compressed, so nothing is found in them. A patch that cannot be read is scanned as plain text.
pub fn scan_added_lines(patch: &[u8], known: &Known) -> Vec<Finding> {
    let mut runs: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut last = 0;
    let outcome = patch::walk(patch, &mut |number, line| {
        match runs.last_mut() {
            Some((_, run)) if number == last + 1 => {
                run.push(b'\n');
                run.extend_from_slice(line);
            }
            Some(_) | None => runs.push((number, line.to_vec())),
        }
        last = number;
    });
    if outcome.is_err() {
        return scan_text(patch, known);
    }
    let mut found = place(patch, known.find(patch));
    for (first, run) in runs {
        // Values of several lines are whole only here, where the `+` of each line is gone.
        let mut hits = known.find(&run);
        hits.extend(shapes::find(&run, Which::All));
        hits.extend(encoded::find(&run));
        found.extend(place(&run, hits).into_iter().map(|f| Finding {
            line: f.line + first - 1,
            column: f.column + 1,
            ..f
        }));
        if found.len() > FINDINGS_MAX {
            break;
        }
    }
    finish(found)
}

/// Finds known values in output, and shapes that are certain by themselves.
///
/// Output is full of names with values beside them, from programs that were there before: there a name that speaks of a
/// secret is no finding.
pub fn scan_output(bytes: &[u8], known: &Known) -> Vec<Finding> {
    finish(place(bytes, output_hits(bytes, known)))
}

fn output_hits(bytes: &[u8], known: &Known) -> Vec<Hit> {
    let mut hits = known.find(bytes);
    hits.extend(shapes::find(bytes, Which::Certain));
    hits.extend(encoded::find(bytes));
    hits
}

/// Which shapes count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    All,
    /// Those of which the text alone, or its issuer's prefix, is proof.
    Certain,
}

/// Finds the first thing in a contract or admission that looks like a secret. Words about credentials are none.
pub fn refuse_in_record(text: &str) -> Option<Finding> {
    scan_text(text.as_bytes(), &Known::none())
        .into_iter()
        .next()
}

/// Turns offsets into lines and columns in one pass.
fn place(bytes: &[u8], mut hits: Vec<Hit>) -> Vec<Finding> {
    hits.sort_by_key(|h| h.start);
    let (mut line, mut line_start, mut at) = (1, 0, 0);
    let mut found = Vec::with_capacity(hits.len());
    for hit in hits {
        for (i, b) in bytes[at..hit.start].iter().enumerate() {
            if *b == b'\n' {
                line += 1;
                line_start = at + i + 1;
            }
        }
        at = hit.start;
        found.push(Finding {
            line,
            column: hit.start - line_start + 1,
            length: hit.end - hit.start,
            rule: hit.rule,
        });
    }
    found
}

fn finish(mut found: Vec<Finding>) -> Vec<Finding> {
    found.sort();
    found.dedup();
    found.truncate(FINDINGS_MAX);
    found
}

fn plain_name(name: &str) -> String {
    let safe = |c: char| {
        if c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.') {
            c
        } else {
            '_'
        }
    };
    name.chars().take(64).map(safe).collect()
}

/// What stands in the place of each value: `[redacted:<name>]`, unless a value could be read out of that.
///
/// Brackets that occur in no spelling keep any value from forming across the border of a marker.
fn markers(names: &[String], spellings: &[(Vec<u8>, usize)]) -> Vec<Vec<u8>> {
    const BRACKETS: [(&str, &str); 6] = [
        ("[", "]"),
        ("<", ">"),
        ("{", "}"),
        ("(", ")"),
        ("«", "»"),
        ("\u{1}", "\u{2}"),
    ];
    let is_free =
        |byte: Option<&u8>| byte.is_some_and(|b| !spellings.iter().any(|(s, _)| s.contains(b)));
    let (open, close) = BRACKETS
        .into_iter()
        .find(|(open, close)| is_free(open.as_bytes().first()) && is_free(close.as_bytes().last()))
        .unwrap_or(BRACKETS[0]);
    names
        .iter()
        .map(|name| {
            let inside = format!("redacted:{name}");
            let tells = spellings
                .iter()
                .any(|(s, _)| inside.as_bytes().windows(s.len()).any(|w| w == s));
            // Three stars are shorter than any value.
            let inside = if tells { "***".to_owned() } else { inside };
            format!("{open}{inside}{close}").into_bytes()
        })
        .collect()
}
