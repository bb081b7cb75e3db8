//! A JUnit XML file as counts.
//!
//! The code under test wrote the file. What is no well-formed document with one root, or brings a DTD, holds no test at
//! all: a file that was cut off must not pass for a short one. No entity is resolved but XML's own five.
//!
//! `quick-xml` reads the markup. `quick-junit` would read the whole file, but only what it wrote itself: it asks for a
//! root `testsuites`, and passes over a suite inside a suite without a word, with the failed tests in it.

use cto_contract::verification::TestCounts;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use super::names::{Names, Outcome};

/// Most attributes of a test case. Each is compared with all before it.
const ATTRIBUTES_MAX: usize = 64;

/// A test case whose end is not read yet.
struct Case {
    name: String,
    failed: bool,
    skipped: bool,
    /// It stands for a file that could not be collected.
    is_collection: bool,
}

/// Reads the test cases of a JUnit file; none when it holds none or is not such a file.
pub fn read_junit(text: &str) -> Option<TestCounts> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut counts = TestCounts::default();
    let mut names = Names::default();
    let mut case: Option<Case> = None;
    let mut depth = 0_usize;
    let mut has_root = false;
    loop {
        match reader.read_event().ok()? {
            Event::Start(_) if depth == 0 && has_root => return None,
            Event::Start(tag) => {
                depth += 1;
                has_root = true;
                match (tag.name().as_ref(), &mut case) {
                    ("testcase", Some(_)) => return None,
                    ("testcase", None) => case = Some(opened(&tag)?),
                    ("failure", Some(case)) => case.failed = true,
                    ("error", Some(case)) => {
                        case.failed = true;
                        case.is_collection |= is_collection_error(&tag)?;
                    }
                    ("skipped", Some(case)) => case.skipped = true,
                    _ => {}
                }
            }
            Event::End(tag) => {
                depth = depth.checked_sub(1)?;
                if tag.name().as_ref() == "testcase" {
                    count(&mut counts, &mut names, case.take()?);
                }
            }
            Event::Text(text) if depth == 0 && !text.trim().is_empty() => return None,
            Event::DocType(_) => return None,
            Event::Eof if depth == 0 && counts.ran > 0 => {
                names.tell(&mut counts);
                return Some(counts);
            }
            Event::Eof => return None,
            Event::Empty(_)
            | Event::Text(_)
            | Event::CData(_)
            | Event::Comment(_)
            | Event::Decl(_)
            | Event::PI(_)
            | Event::GeneralRef(_) => {}
        }
    }
}

/// A test case by its `classname` and `name`.
fn opened(tag: &BytesStart<'_>) -> Option<Case> {
    let (mut class, mut name) = (None, None);
    for (place, attribute) in tag.attributes().enumerate() {
        let attribute = attribute.ok().filter(|_| place < ATTRIBUTES_MAX)?;
        let value = match attribute.key.as_ref() {
            "classname" => &mut class,
            "name" => &mut name,
            _ => continue,
        };
        *value = Some(attribute.normalized_value(XmlVersion::Implicit1_0).ok()?);
    }
    let parts: Vec<_> = class.into_iter().chain(name).collect();
    Some(Case {
        name: parts.join("."),
        failed: false,
        skipped: false,
        is_collection: false,
    })
}

/// pytest reports a file that it could not collect as a test case with such an error.
fn is_collection_error(tag: &BytesStart<'_>) -> Option<bool> {
    for (place, attribute) in tag.attributes().enumerate() {
        let attribute = attribute.ok().filter(|_| place < ATTRIBUTES_MAX)?;
        if attribute.key.as_ref() == "message" {
            let value = attribute.normalized_value(XmlVersion::Implicit1_0).ok()?;
            return Some(value == "collection failure");
        }
    }
    Some(false)
}

fn count(counts: &mut TestCounts, names: &mut Names, case: Case) {
    counts.ran += 1;
    let (number, outcome) = match (case.failed, case.skipped) {
        (true, _) => (&mut counts.failed, Outcome::Failed),
        (false, true) => (&mut counts.skipped, Outcome::Skipped),
        (false, false) => (&mut counts.passed, Outcome::Passed),
    };
    *number += 1;
    if case.is_collection {
        counts.unnamed_failures += 1;
    } else {
        names.add(case.name, outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use quick_xml::escape::escape;

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

    #[test]
    fn tests_count_in_suites_of_any_depth() {
        let xml = "\u{feff}<testsuites>\n<testsuite><testsuite><testcase name='a'><system-out><![CDATA[<failure/>]]></system-out></testcase></testsuite></testsuite>\n<testcase name='b'><properties><error/></properties></testcase></testsuites>\n";
        let counts = read_junit(xml).unwrap();
        assert_eq!((counts.ran, counts.failed), (2, 1));
        assert_eq!(counts.passed_names, ["a"]);
    }

    #[test]
    fn what_is_no_plain_document_holds_no_test() {
        let attributes: String = (0..=ATTRIBUTES_MAX).map(|n| format!(" a{n}=''")).collect();
        for xml in [
            "<testsuite><testcase name='a'/>",
            "<testsuite><testcase name='a'></testsuite>",
            "<testsuite><testcase name='a'><testcase name='b'/></testcase></testsuite>",
            "<testsuite><testcase name='a'/></testsuite><testsuite/>",
            "warning: <testsuite><testcase name='a'/></testsuite>",
            "<!DOCTYPE s [<!ENTITY x 'y'>]><testsuite><testcase name='a'/></testsuite>",
            "<testsuite><testcase name='&x;'/></testsuite>",
            "<testsuite><testcase name='a' name='b'/></testsuite>",
            "<testsuite><testcase name=a/></testsuite>",
            &format!("<testsuite><testcase{attributes}/></testsuite>"),
        ] {
            assert_eq!(read_junit(xml), None, "{xml}");
        }
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in "(<|>|/|!|\\?|&|;|'|\"|=| |-|\\[|\\]|testcase|testsuite|name|failure|CDATA|DOCTYPE|é)*|.*") {
            let _counts = read_junit(&text);
        }

        #[test]
        fn every_case_counts_once_and_by_its_name(
            cases in proptest::collection::vec(("[a-c<>&\"' é]{1,6}", 0..4_usize), 1..12),
            cut in 0.0..1.0_f64,
        ) {
            const ENDS: [&str; 4] = ["/>", "></testcase>", "><failure/></testcase>", "><skipped/></testcase>"];
            let body: String = cases
                .iter()
                .map(|(name, end)| format!("<testcase name=\"{}\"{}", escape(name.as_str()), ENDS[*end]))
                .collect();
            let xml = format!("<testsuite>{body}</testsuite>");
            let counts = read_junit(&xml).unwrap();
            let of = |which: &[usize]| cases.iter().filter(|(_, end)| which.contains(end)).count() as u64;
            prop_assert_eq!((counts.ran, counts.passed), (cases.len() as u64, of(&[0, 1])));
            prop_assert_eq!((counts.failed, counts.skipped), (of(&[2]), of(&[3])));
            let all = [&counts.passed_names, &counts.failed_names, &counts.skipped_names];
            for (told, which) in all.into_iter().zip([&[0, 1][..], &[2], &[3]]) {
                prop_assert_eq!(told.len() as u64, of(which));
                let plain = |name: &String| name.split(" #").next().map(str::to_owned);
                let mut told: Vec<_> = told.iter().filter_map(plain).collect();
                let own = cases.iter().filter(|(_, end)| which.contains(end));
                let mut own: Vec<String> = own.map(|(name, _)| name.clone()).collect();
                told.sort();
                own.sort();
                prop_assert_eq!(told, own);
            }
            // A file that was cut off holds no test.
            let cut = xml.floor_char_boundary((xml.len() as f64 * cut) as usize);
            prop_assert_eq!(read_junit(&xml[..cut]), None);
        }
    }
}
