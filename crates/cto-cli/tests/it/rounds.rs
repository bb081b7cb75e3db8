//! The rounds of the checks look the same from within: the code under test can't read in which one it runs.

use std::collections::BTreeSet;

use crate::judging::verdict_of;
use crate::test_home::{TestHome, write};

/// Prints everything that tells where it runs, so that no redactor knows it again.
const DUMPS: &str = r#"
import base64, os, socket, sys

def seen():
    for path in ("/proc/self/mountinfo", "/proc/self/cgroup", "/proc/self/environ", "/proc/self/cmdline",
                 "/proc/1/cmdline", "/proc/self/mounts", "/proc/self/status", "/proc/sys/kernel/hostname"):
        with open(path, "rb") as file:
            yield from (path + " " + line for line in file.read().decode().replace("\0", "\n").splitlines())
    yield "cwd " + os.getcwd()
    yield "host " + socket.gethostname()
    yield "argv " + " ".join(sys.argv)
    for top in (".", os.environ["HOME"], os.environ["TMPDIR"]):
        for where, folders, files in os.walk(top):
            for name in sorted(folders + files):
                path = os.path.join(where, name)
                data = os.lstat(path)
                yield "file %s %o %d %d" % (path, data.st_mode, data.st_uid, data.st_nlink)

sys.stderr.write("SEEN " + base64.b64encode("\n".join(seen()).encode()).decode() + "\n")
sys.stderr.flush()
"#;

const TEST: &str = "import unittest\n\nimport a\n\n\nclass ATest(unittest.TestCase):\n    def test_answer(self):\n        self.assertEqual(a.answer(), 42)\n\n\nif __name__ == \"__main__\":\n    unittest.main()\n";

fn case(home: &TestHome, id: &str, module: &str, more: &str) {
    let dir = home.case(
        id,
        &format!(
            "allowed_paths: [a.py]\nverification_commands: [{{run: python3 -m unittest -q, must_fail_before: true}}]\n{more}"
        ),
    );
    std::fs::remove_file(dir.join("fake.patch")).unwrap();
    write(
        &dir.join("workspace/a.py"),
        "def answer():\n    return 41\n",
    );
    write(&dir.join("workspace/test_a.py"), TEST);
    write(&dir.join("fake/a.py"), module);
}

/// What was seen in a round, line by line, without what is random by nature.
fn seen(log: &str, round: &str) -> (String, BTreeSet<String>) {
    use std::io::Write as _;
    let section = log
        .split("=== ")
        .find(|section| section.starts_with(&format!("{round}: $ ")))
        .unwrap_or_else(|| panic!("no section `{round}` in {log}"));
    let line = section.lines().find_map(|l| l.strip_prefix("SEEN "));
    let mut decoder = std::process::Command::new("base64")
        .arg("-d")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = decoder.stdin.take().unwrap();
    input.write_all(line.unwrap().as_bytes()).unwrap();
    drop(input);
    let raw = String::from_utf8(decoder.wait_with_output().unwrap().stdout).unwrap();
    let plain = raw.lines().map(without_random).collect();
    (raw, plain)
}

/// Names of sixteen hexadecimal digits and all numbers become one sign.
fn without_random(line: &str) -> String {
    let is_name = |part: &str| part.len() == 16 && part.bytes().all(|b| b.is_ascii_hexdigit());
    let parts: Vec<String> = line
        .split('/')
        .map(|part| {
            let (word, rest) = part.split_at(part.find([' ', '\t']).unwrap_or(part.len()));
            match is_name(word) {
                true => format!("*{rest}"),
                false => part.to_owned(),
            }
        })
        .collect();
    parts
        .join("/")
        .split(|c: char| c.is_ascii_digit())
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("#")
}

#[test]
fn what_code_sees_of_its_round_is_the_same_in_all_of_them() {
    let home = TestHome::new();
    let module = format!("{DUMPS}\ndef answer():\n    return 42\n");
    case(&home, "small", &module, "");
    let many =
        "fill: [{ path: \"r/{dir}/{n}.txt\", count: 150, per_dir: 50, content: \"x{n}\\n\" }]\n";
    case(&home, "overlay", &module, many);
    let bwrap = std::path::Path::new("/usr/bin/bwrap").is_file();
    let bwrap = cto_testkit::has("bwrap", bwrap).then_some(("small", &["--sandbox", "bwrap"][..]));
    let ways = [("small", &[][..]), ("overlay", &[]), ("small", &["--weak"])];
    for (id, more) in ways.into_iter().chain(bwrap) {
        let cases = home.cases();
        let args = [&["run", id, "--cases", cases.to_str().unwrap()], more].concat();
        let (code, report) = home.json(&args);
        assert_eq!(code, 0, "{report:#}");
        let run_id = report["run_id"].as_str().unwrap();
        let log = std::fs::read_to_string(home.pack(run_id).join("test.log")).unwrap();
        let (raw_after, after) = seen(&log, "after the change");
        let planted = "after the change, with a planted test that must fail";
        let (raw_planted, planted) = seen(&log, planted);
        for raw in [&raw_after, &raw_planted] {
            // Its own home's path is the test's.
            let raw = raw.replace(home.home().to_str().unwrap(), "");
            for word in [run_id, "canary", "checked", "planted", "baseline", "after-"] {
                assert!(!raw.contains(word), "{id} {more:?}: {word} in {raw}");
            }
        }
        let only_after: Vec<&String> = after.difference(&planted).collect();
        let only_planted: Vec<&String> = planted.difference(&after).collect();
        assert!(
            only_after.is_empty(),
            "{id} {more:?}: {only_after:#?} {only_planted:#?}"
        );
        let [file] = only_planted.as_slice() else {
            panic!("{id} {more:?}: {only_planted:#?}");
        };
        assert!(
            file.starts_with("file ./test_") && file.contains(".py "),
            "{file}"
        );
    }
}

#[test]
fn code_that_looks_for_its_round_does_not_find_it() {
    let home = TestHome::new();
    // It lets every test pass, but where it believes that one has to fail.
    let module = r#"
import os, sys, unittest

def told():
    with open("/proc/self/mountinfo") as file:
        text = file.read()
    words = " ".join([text, *os.environ.values(), *os.listdir("."), *sys.argv, os.getcwd(), *sys.modules]).lower()
    return any(word in words for word in ("canary", "planted", "must_fail"))

def run(self, result=None, real=unittest.TestCase.run):
    if told() or "canary" in self.id().lower() or "cto" in self.id().lower():
        return real(self, result)
    result.startTest(self)
    result.addSuccess(self)
    result.stopTest(self)
    return result

unittest.TestCase.run = run

def answer():
    return 0
"#;
    case(&home, "liar", module, "");
    let (code, found, report) = verdict_of(&home, "liar");
    assert_eq!(code, 1, "{report:#}");
    assert_eq!(found, ["verification_tampered"], "{report:#}");
}
