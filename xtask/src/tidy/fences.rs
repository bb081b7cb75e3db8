//! Calls and words that have one home: found by text, so that tests, macros and unbuilt targets are covered too.
//!
//! Clippy's `disallowed-methods` sees types and aliases but honours a local `expect`; this check has no such door.

use super::Finding;
use super::source::{code_only, find_words, line_of, test_ranges};
use crate::workspace::ProjectFile;

struct Fence {
    rule: &'static str,
    needles: &'static [&'static str],
    /// Whether the needles are forbidden at that place.
    forbids: fn(&Place<'_>) -> bool,
    sentence: &'static str,
}

/// Where a needle was found.
struct Place<'a> {
    /// The folder name of the crate.
    krate: &'a str,
    /// The path inside the crate's folder.
    inside: &'a str,
    /// In `tests/`, in a `tests.rs`, or in an item under `#[cfg(test)]`.
    in_test: bool,
}

impl Place<'_> {
    fn in_tests_folder(&self) -> bool {
        self.inside.starts_with("tests/")
    }

    /// The red team starts one harness as its operator would, to kill it, and the stage validators call the command line: in a
    /// sandbox it could make none of its own.
    fn starts_a_harness(&self) -> bool {
        self.krate == "cto-proving"
            && ["src/redteam/killed.rs", "src/stages.rs"].contains(&self.inside)
    }

    /// An operator signs with tools of his own, and checkpoints go where git or a command of the config takes them.
    fn calls_an_operators_tool(&self) -> bool {
        self.krate == "cto-ledger" && self.inside == "src/program.rs"
    }

    /// A double stands for an agent inside the sandbox, and starts commands as one.
    fn is_a_double(&self) -> bool {
        self.krate == "cto-proving" && self.inside.starts_with("src/doubles/")
    }

    /// Evidence is pure but for the modules that read and write a pack, and its binary.
    fn in_pure_code(&self) -> bool {
        let reads_packs = |part: &str| {
            matches!(
                part,
                "pack.rs" | "read.rs" | "writer.rs" | "trust.rs" | "bin"
            )
        };
        match self.krate {
            "cto-contract" | "cto-rules" | "cto-agent" => !self.in_test,
            "cto-evidence" => !self.in_test && !self.inside.split('/').any(reads_packs),
            _ => false,
        }
    }
}

const FENCES: &[Fence] = &[
    Fence {
        rule: "unsafe",
        needles: &["unsafe"],
        forbids: |place| place.krate != "cto-sandbox",
        sentence: "unsafe code lives in cto-sandbox only",
    },
    Fence {
        rule: "process",
        needles: &["Command::new"],
        forbids: |place| {
            !matches!(
                place.krate,
                "cto-sandbox" | "cto-checkout" | "cto-testkit" | "xtask"
            ) && !place.in_tests_folder()
                && !place.starts_a_harness()
                && !place.calls_an_operators_tool()
                && !place.is_a_double()
        },
        sentence: "processes start in cto-sandbox, git in cto-checkout, an operator's tools in cto-ledger",
    },
    Fence {
        rule: "signing-key",
        needles: &["SigningKey", "SecretPem"],
        // The red team forges packs with a key of its own.
        forbids: |place| {
            !matches!(
                place.krate,
                "cto-evidence" | "cto-ledger" | "cto-runner" | "cto-proving" | "cto-testkit"
            ) && !place.in_tests_folder()
        },
        sentence: "the runner signs, and nobody else: a face gets the public half of the key",
    },
    Fence {
        rule: "blocker",
        needles: &["Blocker::new"],
        forbids: |place| {
            !matches!(place.krate, "cto-contract" | "cto-rules")
                && !place.in_test
                && !place.in_tests_folder()
        },
        sentence: "the rules make blockers; everybody else hands them facts",
    },
    Fence {
        rule: "start",
        needles: &["start_backend"],
        forbids: |place| {
            !matches!(
                (place.krate, place.inside),
                ("cto-runner", "src/launch.rs" | "src/steps/backend.rs")
            )
        },
        sentence: "a backend is started by one step, which spends its grant",
    },
    Fence {
        rule: "pure-file",
        needles: &["std::fs", "fs::", "File::"],
        forbids: |place| place.in_pure_code(),
        sentence: "pure code gets file contents as values",
    },
    Fence {
        rule: "pure-environment",
        needles: &["env::var", "env::var_os", "env::vars", "env::vars_os"],
        forbids: |place| place.in_pure_code(),
        sentence: "pure code gets the environment as values",
    },
    Fence {
        rule: "pure-clock",
        needles: &[
            "SystemTime::now",
            "Timestamp::now",
            "Instant::now",
            "Zoned::now",
        ],
        forbids: |place| place.in_pure_code(),
        sentence: "pure code gets the time as a value",
    },
    Fence {
        rule: "ignored-test",
        needles: &["#[ignore"],
        forbids: |_| true,
        sentence: "a test that does not run proves nothing; mend it or delete it",
    },
    Fence {
        rule: "sleep-in-test",
        needles: &["thread::sleep", "time::sleep"],
        forbids: |place| place.in_test,
        sentence: "a test waits for a fact with a deadline, never for time to pass",
    },
    Fence {
        rule: "unfinished",
        needles: &["todo!", "unimplemented!"],
        forbids: |_| true,
        sentence: "unfinished code does not go in",
    },
];

pub(crate) fn check(files: &[ProjectFile]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = files.iter().flat_map(check_file).collect();
    findings.dedup();
    findings
}

fn check_file(file: &ProjectFile) -> Vec<Finding> {
    let Some((krate, inside)) = home_of(&file.path) else {
        return Vec::new();
    };
    let code = code_only(&file.text);
    let test_items = test_ranges(&code);
    let test_file =
        inside.starts_with("tests/") || inside.ends_with("/tests.rs") || inside.contains("/tests/");
    let mut findings = Vec::new();
    let mut found = |at: usize, rule: &'static str, sentence: String| {
        findings.push(Finding {
            file: file.path.clone(),
            line: line_of(&code, at),
            rule,
            sentence,
        });
    };
    for fence in FENCES {
        for needle in fence.needles {
            for at in find_words(&code, needle) {
                let in_test = test_file || test_items.iter().any(|range| range.contains(&at));
                if (fence.forbids)(&Place {
                    krate,
                    inside,
                    in_test,
                }) {
                    found(at, fence.rule, fence.sentence.to_owned());
                }
            }
        }
    }
    for at in untagged_formats(&code) {
        found(
            at,
            "untagged",
            "an untagged format gives messages nobody can act on; use a tag".to_owned(),
        );
    }
    findings.sort();
    findings.dedup();
    findings
}

/// Returns crate folder and the path in it; only our own Rust has fences, case trees are data.
fn home_of(path: &str) -> Option<(&str, &str)> {
    if !path.ends_with(".rs") {
        return None;
    }
    match path.strip_prefix("crates/") {
        Some(rest) => rest.split_once('/'),
        None => path.split_once('/').filter(|(krate, _)| *krate == "xtask"),
    }
}

/// Returns where `untagged` stands inside a `serde(…)` attribute, alone or among others.
fn untagged_formats(code: &str) -> Vec<usize> {
    let mut places = Vec::new();
    for start in find_words(code, "serde(") {
        let mut depth = 0_usize;
        let end = code[start..].find(|next: char| {
            match next {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => return false,
            }
            depth == 0
        });
        let attribute = &code[start..end.map_or(code.len(), |end| start + end)];
        places.extend(find_words(attribute, "untagged").map(|at| start + at));
    }
    places
}

#[cfg(test)]
mod tests {
    use super::super::samples::{file, rules, shown};
    use super::*;

    fn tripped(path: &str, text: &str) -> Vec<&'static str> {
        rules(&check(&[file(path, text)]))
    }

    const LIB: &str = "crates/cto-runner/src/lib.rs";

    #[test]
    fn a_finding_names_file_line_rule_and_reason() {
        assert_eq!(
            shown(&check(&[file(LIB, "//! x\n\nfn f() { unsafe {} }\n")])),
            "crates/cto-runner/src/lib.rs:3: unsafe: unsafe code lives in cto-sandbox only"
        );
    }

    #[test]
    fn unsafe_stays_in_the_sandbox() {
        assert_eq!(tripped(LIB, "unsafe fn f() {}"), ["unsafe"]);
        assert_eq!(tripped(LIB, "#[unsafe(no_mangle)] fn f() {}"), ["unsafe"]);
        assert!(tripped("crates/cto-sandbox/src/clone.rs", "unsafe fn f() {}").is_empty());
        let innocent = "#![forbid(unsafe_code)] // unsafe\n/* unsafe */ const A: &str = \"unsafe\"; const B: &str = r#\"unsafe\"#;";
        assert!(tripped(LIB, innocent).is_empty());
    }

    #[test]
    fn processes_start_where_they_are_watched() {
        let text = "fn f() { std::process::Command::new(\"ls\"); }";
        assert_eq!(tripped(LIB, text), ["process"]);
        assert_eq!(
            tripped(LIB, &format!("#[cfg(test)] mod tests {{ {text} }}")),
            ["process"]
        );
        for home in [
            "crates/cto-checkout/src/git.rs",
            "crates/cto-runner/tests/it/main.rs",
            "xtask/src/main.rs",
        ] {
            assert!(tripped(home, text).is_empty(), "{home}");
        }
        assert!(tripped(LIB, "fn f() { GitCommand::new(); }").is_empty());
    }

    #[test]
    fn only_the_rules_make_blockers_and_one_step_starts_a_backend() {
        let makes = "fn f() { Blocker::new(code, subject, message); }";
        assert_eq!(tripped(LIB, makes), ["blocker"]);
        assert!(tripped("crates/cto-rules/src/paths.rs", makes).is_empty());
        let in_test = format!("#[cfg(test)] mod tests {{ {makes} }}");
        assert!(tripped(LIB, &in_test).is_empty());
        let starts = "fn f() { start_backend(grant, approval, launch); }";
        assert_eq!(tripped(LIB, starts), ["start"]);
        assert!(tripped("crates/cto-runner/src/steps/backend.rs", starts).is_empty());
    }

    #[test]
    fn a_face_has_no_signing_key() {
        let text = "fn f(key: &cto_evidence::key::SigningKey) {}";
        for face in ["crates/cto-cli/src/main.rs", "crates/cto-web/src/lib.rs"] {
            assert_eq!(tripped(face, text), ["signing-key"]);
        }
        assert!(tripped(LIB, text).is_empty());
    }

    #[test]
    fn pure_code_gets_values() {
        let rules = "crates/cto-rules/src/gates.rs";
        assert_eq!(tripped(rules, "use std::fs;"), ["pure-file"]);
        assert_eq!(tripped(rules, "fn f() { File::open(p); }"), ["pure-file"]);
        assert_eq!(
            tripped(rules, "fn f() { std::env::var(\"A\"); }"),
            ["pure-environment"]
        );
        assert_eq!(
            tripped(rules, "fn f() { SystemTime::now(); }"),
            ["pure-clock"]
        );
        assert_eq!(
            tripped(rules, "fn f() { jiff::Timestamp::now(); }"),
            ["pure-clock"]
        );
        assert!(
            tripped(
                rules,
                "fn f(x: ChangedFile) { ChangedFile::new(env!(\"A\")); }"
            )
            .is_empty()
        );
        assert!(
            tripped(
                rules,
                "#[cfg(test)]\nmod tests { fn f() { std::fs::read(p); } }"
            )
            .is_empty()
        );
        assert!(
            tripped(
                "crates/cto-rules/tests/it/main.rs",
                "fn f() { std::fs::read(p); }"
            )
            .is_empty()
        );
        assert!(tripped(LIB, "fn f() { std::fs::read(p); }").is_empty());
    }

    #[test]
    fn evidence_reads_files_in_its_pack_modules_only() {
        let text = "fn f() { std::fs::read(p); }";
        assert_eq!(
            tripped("crates/cto-evidence/src/chain.rs", text),
            ["pure-file"]
        );
        for home in [
            "src/pack.rs",
            "src/read.rs",
            "src/writer.rs",
            "src/trust.rs",
            "src/bin/cto-verify.rs",
        ] {
            assert!(
                tripped(&format!("crates/cto-evidence/{home}"), text).is_empty(),
                "{home}"
            );
        }
    }

    #[test]
    fn tests_run_and_do_not_sleep() {
        let test = "crates/cto-runner/tests/it/main.rs";
        assert_eq!(
            tripped(test, "#[test]\n#[ignore]\nfn f() {}"),
            ["ignored-test"]
        );
        assert_eq!(
            tripped(test, "#[test]\n#[ignore = \"slow\"]\nfn f() {}"),
            ["ignored-test"]
        );
        assert_eq!(
            tripped(test, "fn f() { std::thread::sleep(d); }"),
            ["sleep-in-test"]
        );
        assert_eq!(
            tripped(
                LIB,
                "#[cfg(test)]\nmod tests { fn f() { thread::sleep(d); } }"
            ),
            ["sleep-in-test"]
        );
        assert!(
            tripped(
                LIB,
                "fn f() { thread::sleep(d); }\n#[cfg(test)]\nmod tests { fn g() {} }"
            )
            .is_empty()
        );
        assert!(tripped(test, "fn f() { agent.sleep(d); // #[ignore]\n }").is_empty());
    }

    #[test]
    fn unfinished_code_does_not_pass() {
        assert_eq!(tripped(LIB, "fn f() { todo!() }"), ["unfinished"]);
        assert_eq!(
            tripped(LIB, "fn f() { unimplemented!(\"x\") }"),
            ["unfinished"]
        );
        assert!(tripped(LIB, "fn f() { my_todo!(); } // todo!()").is_empty());
    }

    #[test]
    fn formats_are_tagged() {
        assert_eq!(tripped(LIB, "#[serde(untagged)] enum A {}"), ["untagged"]);
        assert_eq!(
            tripped(LIB, "#[serde(default = \"a()\",\n untagged)] enum A {}"),
            ["untagged"]
        );
        assert!(
            tripped(
                LIB,
                "#[serde(tag = \"untagged\")] enum A {} fn untagged() {}"
            )
            .is_empty()
        );
    }

    #[test]
    fn case_trees_are_data() {
        assert!(tripped("cases/a/workspace/src/main.rs", "unsafe fn f() { todo!() }").is_empty());
    }
}
