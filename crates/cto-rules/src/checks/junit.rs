//! A JUnit XML file as counts, read by a small strict scanner: no entities are expanded, nothing outside is fetched.

use cto_contract::verification::TestCounts;

/// Reads the test cases of a JUnit file; none when it holds none or is not such a file.
pub fn read_junit(text: &str) -> Option<TestCounts> {
    let mut counts = TestCounts::default();
    let mut open: Option<(String, bool, bool)> = None;
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        rest = &rest[start..];
        if let Some(tail) = rest.strip_prefix("<!--") {
            rest = &tail[tail.find("-->")? + 3..];
            continue;
        }
        if let Some(tail) = rest.strip_prefix("<![CDATA[") {
            rest = &tail[tail.find("]]>")? + 3..];
            continue;
        }
        let end = tag_end(rest)?;
        let tag = &rest[1..end];
        rest = &rest[end + 1..];
        let name = tag
            .trim_start_matches('/')
            .split(|c: char| c.is_whitespace() || c == '/')
            .next()
            .unwrap_or("");
        match (name, tag.starts_with('/')) {
            ("testcase", false) => {
                let full = [attribute(tag, "classname"), attribute(tag, "name")]
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>()
                    .join(".");
                if tag.ends_with('/') {
                    close(&mut counts, (full, false, false));
                } else {
                    open = Some((full, false, false));
                }
            }
            ("testcase", true) => close(&mut counts, open.take()?),
            ("failure" | "error", false) => {
                if let Some(case) = &mut open {
                    case.1 = true;
                }
            }
            ("skipped", false) => {
                if let Some(case) = &mut open {
                    case.2 = true;
                }
            }
            _ => {}
        }
    }
    (counts.ran > 0).then_some(counts)
}

fn close(counts: &mut TestCounts, (name, failed, skipped): (String, bool, bool)) {
    counts.ran += 1;
    if failed {
        counts.failed += 1;
    } else if skipped {
        counts.skipped += 1;
    } else {
        counts.passed += 1;
        counts.passed_names.push(name);
    }
}

/// The `>` that ends a tag, outside of quotes.
fn tag_end(text: &str) -> Option<usize> {
    let mut quote = None;
    for (i, c) in text.char_indices() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '>') => return Some(i),
            (None, _) => {}
        }
    }
    None
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let mut rest = tag;
    loop {
        let at = rest.find(name)?;
        let before = rest[..at]
            .chars()
            .next_back()
            .is_some_and(char::is_whitespace);
        let tail = rest[at + name.len()..].trim_start();
        if let (true, Some(value)) = (before, tail.strip_prefix('=')) {
            let value = value.trim_start();
            let quote = value.chars().next().filter(|c| *c == '"' || *c == '\'')?;
            let value = &value[1..];
            return Some(value[..value.find(quote)?].to_owned());
        }
        rest = &rest[at + name.len()..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn failures_errors_and_skips_do_not_pass() {
        let xml = r#"<?xml version="1.0"?><testsuite name="s"><testcase classname="a.B" name="one"/><testcase classname="a.B" name="two"><failure message="x > y">no</failure></testcase><testcase name="three"><skipped/></testcase><!-- <testcase name="ghost"/> --></testsuite>"#;
        let counts = read_junit(xml).unwrap();
        assert_eq!(
            (counts.ran, counts.passed, counts.failed, counts.skipped),
            (3, 1, 1, 1)
        );
        assert_eq!(counts.passed_names, ["a.B.one"]);
        assert_eq!(read_junit("<testsuite/>"), None);
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in any::<String>()) {
            let _counts = read_junit(&text);
        }
    }
}
