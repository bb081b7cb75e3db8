use cto_agent::{Ending, FollowedFile};

use super::*;

#[derive(Default)]
struct Heard {
    text: Vec<u8>,
    faults: Vec<EventFileFault>,
}

impl Dialogue for Heard {
    fn hear(&mut self, _: &[u8]) -> Vec<Act> {
        Vec::new()
    }

    fn read(&mut self, bytes: &[u8]) -> Vec<Act> {
        self.text.extend_from_slice(bytes);
        Vec::new()
    }

    fn distrust(&mut self, fault: EventFileFault) {
        self.faults.push(fault);
    }

    fn finish(self: Box<Self>) -> Ending {
        Ending::default()
    }
}

fn put(path: &std::path::Path, text: &str) {
    use std::io::Write as _;
    let mut file = File::create(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// What is heard of a directory that an agent treats so, with a look in between.
fn heard(
    before: impl FnOnce(&std::path::Path),
    after: impl FnOnce(&std::path::Path),
) -> (String, Vec<EventFileFault>) {
    let top = tempfile::tempdir().unwrap();
    let events = top.path().join("events");
    std::fs::create_dir(&events).unwrap();
    let nothing = Known::new(Vec::new());
    let mut file = GrowingFile {
        top: Some(top.path().to_owned()),
        wanted: FollowedFile {
            from: CollectFrom::Workspace,
            directory: "events".to_owned(),
            prefix: "run-".to_owned(),
            suffix: ".jsonl".to_owned(),
            bytes_max: 100,
        },
        found: None,
        secrets: Redactor::new(&nothing),
        places: Redactor::new(&nothing),
        clean: Vec::new(),
        buffer: Vec::new(),
    };
    let mut dialogue = Heard::default();
    before(&events);
    file.look(&mut dialogue);
    after(&events);
    file.finish(&mut dialogue);
    (String::from_utf8(dialogue.text).unwrap(), dialogue.faults)
}

#[test]
fn a_file_that_grows_is_read_once_and_to_its_end() {
    let (text, faults) = heard(
        |d| put(&d.join("run-1.jsonl"), "one\n"),
        |d| put(&d.join("run-1.jsonl"), "one\ntwo\n"),
    );
    assert_eq!((text.as_str(), faults), ("one\ntwo\n", vec![]));
}

#[test]
fn a_file_that_is_not_there_cut_replaced_joined_or_huge_is_not_relied_on() {
    use EventFileFault::{Missing, Rewritten, Several, Unreadable};
    let one = |d: &std::path::Path| put(&d.join("run-1.jsonl"), "one\n");
    assert_eq!(heard(|_| {}, |_| {}).1, [Missing]);
    let cut = heard(one, |d| put(&d.join("run-1.jsonl"), ""));
    assert!(cut.1.contains(&Rewritten) && cut.0 == "one\n");
    let replaced = heard(one, |d| {
        put(&d.join("new"), "one\nmore\n");
        std::fs::rename(d.join("new"), d.join("run-1.jsonl")).unwrap();
    });
    assert_eq!(replaced, ("one\n".to_owned(), vec![Rewritten]));
    let overwritten = heard(one, |d| put(&d.join("run-1.jsonl"), "two\nmore\n"));
    assert_eq!(overwritten.1, [Rewritten]);
    let deleted = heard(one, |d| {
        std::fs::remove_file(d.join("run-1.jsonl")).unwrap()
    });
    assert_eq!(deleted.1, [Rewritten]);
    assert_eq!(
        heard(one, |d| put(&d.join("run-2.jsonl"), "x\n")).1,
        [Several]
    );
    let huge = heard(|d| put(&d.join("run-1.jsonl"), &"x".repeat(200)), |_| {});
    assert_eq!((huge.0.len(), huge.1), (100, vec![Unreadable]));
}

#[test]
fn no_link_is_followed() {
    let secret = tempfile::tempdir().unwrap();
    put(&secret.path().join("run-1.jsonl"), "secret\n");
    let target = secret.path().join("run-1.jsonl");
    let file = heard(
        |d| std::os::unix::fs::symlink(&target, d.join("run-1.jsonl")).unwrap(),
        |_| {},
    );
    assert_eq!(file, (String::new(), vec![EventFileFault::Missing]));
    let directory = heard(
        |d| {
            std::fs::remove_dir(d).unwrap();
            std::os::unix::fs::symlink(secret.path(), d).unwrap();
        },
        |_| {},
    );
    assert_eq!(directory, (String::new(), vec![EventFileFault::Missing]));
}
