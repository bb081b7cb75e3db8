//! Work on a copy of a real repository: what is found of the change, what is refused, and that the source stays.

use std::fs;

use crate::place::{Ran, write};
use crate::source::Source;

pub(crate) const PLAIN: &str = "allowed_paths: [src/]\nverification_commands: [{run: grep -q new src/a.txt, must_fail_before: true}]\n";

pub(crate) fn plain() -> Source {
    let source = Source::new(&[
        ("src/a.txt", "old\n"),
        ("src/b.txt", "b\n"),
        ("other.txt", "untouched\n"),
        (".gitignore", "build/\n"),
    ]);
    source.contract(PLAIN);
    source
}

#[test]
fn a_change_is_sealed_and_its_patch_applies_to_the_source_which_stayed_as_it_was() {
    let source = plain();
    let (code, blockers, report) = source.work(
        "echo new > src/a.txt; git rm -q src/b.txt; git mv src/a.txt src/c.txt; git mv src/c.txt src/a.txt\n\
         git commit -qam mine; mkdir -p build; echo x > build/x; printf '\\377' > src/bytes; ln -s a.txt src/link",
    );
    assert_eq!((code, blockers.as_slice()), (0, &[][..]), "{report:#}");
    assert_eq!(
        report["changed_files"],
        serde_json::json!(["src/a.txt", "src/b.txt", "src/bytes", "src/link"])
    );
    assert_eq!(report["residue"]["paths"], serde_json::json!(["build/x"]));
    assert_eq!(report["ladder"], "not enforced");
    assert_eq!(report["source_repository_mutated"], false);
    assert_eq!(report["stage"], 3);
    source.sh("test -z \"$(git status --porcelain)\"");
    source.place.cto(&["verify", "latest"]).expect(0);
    source.export("change.patch");
    source.sh("git apply --check ../change.patch && git apply ../change.patch && grep -q new src/a.txt && test ! -e src/b.txt");
    // The source is named by its commit alone.
    let pack = source.pack(&report);
    let place = source.place.path("");
    for file in [
        "report.json",
        "report.md",
        "events.normalized.jsonl",
        "eligibility.json",
    ] {
        let text = fs::read_to_string(pack.join(file)).unwrap();
        assert!(!text.contains(place.to_str().unwrap()), "{file}");
    }
}

#[test]
fn in_a_repository_its_own_contract_and_a_program_are_all_that_need_naming() {
    let source = plain();
    let contract = source.place.path("task.yaml");
    fs::copy(contract, source.repo().join("cto-task.yaml")).unwrap();
    let args = ["run", "--json", "--", "sh", "-ec", "echo new > src/a.txt"];
    let mut command = source.place.command(&args);
    command
        .current_dir(source.repo())
        .env("CTO_HARNESS_ALLOW_COMMAND", "1")
        .env("CTO_HARNESS_COMMAND_STAGE", "3");
    let report = Ran::of(command.output().unwrap()).expect(0).json();
    assert_eq!(
        (&report["backend"], &report["stage"]),
        (&"command".into(), &3.into())
    );
    assert_eq!(report["changed_files"], serde_json::json!(["src/a.txt"]));
}

#[test]
fn an_honest_change_may_remove_a_file_beside_its_tests() {
    let test = "import unittest\nfrom src.a import a\n\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(a(), 2)\n";
    let source = Source::new(&[
        ("src/a.py", "def a():\n    return 1\n"),
        ("src/unused.py", "x = 1\n"),
        ("src/__init__.py", ""),
        ("test_a.py", test),
    ]);
    source.contract(
        "allowed_paths: [src/]\nverification_commands: [{run: python3 -m unittest, must_fail_before: true}]\n",
    );
    let (code, blockers, report) =
        source.work("rm src/unused.py; printf 'def a():\\n    return 2\\n' > src/a.py");
    assert_eq!((code, blockers.as_slice()), (0, &[][..]), "{report:#}");
    assert_eq!(
        report["verification"]["commands"][0]["canary"]["status"],
        "caught"
    );
}

/// What an agent may try so that a change is not seen. Each also makes the change that is asked for.
const HIDING: [(&str, &str, &str); 10] = [
    (
        "attributes",
        "echo '* -diff -text filter=x' > .gitattributes",
        "disallowed_file_change",
    ),
    (
        "attributes of the git directory",
        "mkdir -p .git/info; echo '* filter=x -diff' > .git/info/attributes",
        "disallowed_file_change",
    ),
    (
        "ignore rules",
        "echo 'other.txt' >> .git/info/exclude; echo more > more.txt; echo more.txt >> .git/info/exclude",
        "disallowed_file_change",
    ),
    (
        "an ignore file",
        "echo '*.txt' >> .gitignore",
        "disallowed_file_change",
    ),
    (
        "assume-unchanged",
        "git update-index --assume-unchanged other.txt",
        "disallowed_file_change",
    ),
    (
        "skip-worktree",
        "git update-index --skip-worktree other.txt",
        "disallowed_file_change",
    ),
    (
        "a commit and a reset",
        "echo x >> other.txt; git commit -qam hidden; git reset -q --soft HEAD~1; git read-tree HEAD",
        "disallowed_file_change",
    ),
    (
        "an index of its own",
        "rm .git/index; git rm -q --cached other.txt 2>/dev/null || true",
        "disallowed_file_change",
    ),
    (
        "no repository at all",
        "rm -rf .git",
        "disallowed_file_change",
    ),
    (
        "a nested repository",
        "git init -q nested; echo x > nested/x",
        "patch_not_reproducible",
    ),
];

#[test]
fn no_trick_of_git_hides_a_change() {
    let source = plain();
    for (name, trick, expected) in HIDING {
        let script = format!(
            "echo new > src/a.txt\n{trick}\necho changed >> other.txt\ngit status >/dev/null 2>&1 || true"
        );
        let (code, blockers, report) = source.work(&script);
        assert_eq!(code, 1, "{name}: {report:#}");
        assert!(
            blockers.iter().any(|b| b == expected),
            "{name}: {blockers:?}"
        );
        if expected == "disallowed_file_change" {
            let changed = report["changed_files"].to_string();
            assert!(changed.contains("\"other.txt\""), "{name}: {changed}");
        }
    }
}

#[test]
fn hooks_and_settings_that_an_agent_leaves_are_never_run() {
    let source = plain();
    let marker = source.place.path("marker");
    let touch = format!("touch {}", marker.display());
    let (code, _, _) = source.work(&format!(
        "echo new > src/a.txt\n\
         git config core.fsmonitor '{touch}'; git config core.hooksPath hooks; git config diff.external '{touch}'\n\
         git config filter.x.clean '{touch}'; git config filter.x.smudge '{touch}'; git config core.pager '{touch}'\n\
         for hook in pre-commit post-checkout post-index-change pre-applypatch; do printf '#!/bin/sh\\n{touch}\\n' > .git/hooks-$hook; done\n\
         mkdir -p .git/hooks; cp .git/hooks-pre-commit .git/hooks/post-index-change; chmod +x .git/hooks/*"
    ));
    assert_eq!(code, 0);
    assert!(!marker.exists());
}

#[test]
fn the_gates_come_before_the_repository_is_looked_at() {
    let source = plain();
    let run = |allow: Option<&str>, stage: Option<&str>| {
        let mut command = source.command(&["true"]);
        command.env_remove("CTO_HARNESS_ALLOW_COMMAND");
        command.env_remove("CTO_HARNESS_COMMAND_STAGE");
        command.envs(allow.map(|v| ("CTO_HARNESS_ALLOW_COMMAND", v)));
        command.envs(stage.map(|v| ("CTO_HARNESS_COMMAND_STAGE", v)));
        let ran = Ran::of(command.output().unwrap());
        let report = ran.json();
        let codes: Vec<String> = report["blockers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|b| b["code"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(report["backend_process_started"], false);
        assert!(report["source"].is_null());
        format!("{} {}", ran.code.unwrap(), codes.join(" "))
    };
    assert_eq!(run(None, None), "3 gate_missing stage_gate_missing");
    assert_eq!(run(Some("true"), Some("3")), "3 gate_missing");
    assert_eq!(run(Some("1"), Some("2")), "3 stage_gate_missing");
}

#[test]
fn forbidden_paths_are_absent_and_readable_ones_are_not() {
    let source = Source::new(&[
        ("src/a.txt", "old\n"),
        (".env", "PASSWORD=x\n"),
        ("app.lock", "locked\n"),
    ]);
    source.contract(
        "allowed_paths: [src/]\nforbidden_paths: [.env, '*.lock']\nreadable_paths: ['*.lock']\nverification_commands: [{run: 'test ! -e .env && grep -q new src/a.txt', must_fail_before: true}]\n",
    );
    let (code, _, report) = source.work("test ! -e .env; test -z \"$(git log --all -p | grep PASSWORD)\"; cat app.lock; echo new > src/a.txt");
    assert_eq!(code, 0, "{report:#}");
    assert_eq!(report["source"]["withheld"], serde_json::json!([".env"]));
    let (code, blockers, _) = source.work("echo new > src/a.txt; echo x > .env; echo y > app.lock");
    assert_eq!(
        (code, blockers.as_slice()),
        (1, &["disallowed_file_change".to_owned()][..])
    );
    source.contract("allowed_paths: [src/]\nforbidden_paths: [.env]\nhistory: ancestors\nverification_commands: ['true']\n");
    let (code, blockers, _) = source.work("true");
    assert_eq!(
        (code, blockers.as_slice()),
        (3, &["repository_unsupported".to_owned()][..])
    );
}

#[test]
fn the_history_is_shown_only_when_the_contract_says_so() {
    let source = plain();
    source.sh("echo 2 > other.txt; git commit -qam second; git branch later; echo 3 > other.txt; git commit -qam third; git tag t");
    let count = "test \"$(git log --all --oneline | wc -l)\" = ";
    let (code, _, report) = source.work(&format!("{count}1; echo new > src/a.txt"));
    assert_eq!(code, 0, "{report:#}");
    source.contract(&format!("{PLAIN}history: ancestors\n"));
    let (code, _, report) = source.work(&format!("{count}3; git log -1 --format=%s | grep third; test -z \"$(git tag)$(git remote)\"; echo new > src/a.txt"));
    assert_eq!(code, 0, "{report:#}");
}

#[test]
fn a_backend_can_not_reach_the_source_and_a_change_by_others_is_found() {
    let source = plain();
    let repo = source.repo();
    let (code, _, report) = source.work(&format!(
        "echo new > src/a.txt; test ! -e {0};",
        repo.display()
    ));
    assert_eq!(code, 0, "{report:#}");
    assert_eq!(report["sandbox"]["class"], "full");
    let (code, blockers) = source.work_while("echo new > src/a.txt", || {
        write(&repo.join("other.txt"), "changed by its owner\n");
    });
    assert_eq!(
        (code, blockers.as_slice()),
        (3, &["source_changed_during_run".to_owned()][..])
    );
}

#[test]
fn a_change_of_a_protected_root_fails_the_run() {
    let source = plain();
    let root = source.place.path("kept");
    write(&root.join("deep/file"), "kept\n");
    write(
        &source.place.path("config/cto/harness.yaml"),
        &format!(
            "schema: cto.harness/v1\nprotected_roots: ['{}']\n",
            root.display()
        ),
    );
    let (code, _, report) = source.work("echo new > src/a.txt");
    assert_eq!(code, 0, "{report:#}");
    for change in [
        "echo x >> deep/file",
        "chmod 600 deep/file",
        "rm deep/file",
        "ln -s x deep/link",
    ] {
        let (code, _, _) = source.work(&format!("cd {} && {change}", root.display()));
        assert_eq!(code, 1, "it is not even there");
        let (code, blockers) =
            source.work_while("echo new > src/a.txt", || crate::place::sh(&root, change));
        assert_eq!(
            (code, blockers.as_slice()),
            (1, &["protected_root_mutated".to_owned()][..]),
            "{change}"
        );
    }
}

#[test]
fn what_is_not_there_or_not_ones_own_is_refused_by_name() {
    let source = plain();
    let usage = |args: &[&str]| {
        let mut command = source.place.command(args);
        command
            .env("CTO_HARNESS_ALLOW_COMMAND", "1")
            .env("CTO_HARNESS_COMMAND_STAGE", "3");
        Ran::of(command.output().unwrap()).error()
    };
    let repo = ["run", "--json", "--repo", "repo", "--contract", "task.yaml"];
    let with = |rest: &[&str]| usage(&[&repo, rest].concat());
    let command = ["--engine", "command", "--stage", "3"];
    assert_eq!(
        with(&[&command[..], &["--base", "no-such", "--", "true"]].concat()),
        "2 repository_unusable"
    );
    assert_eq!(
        with(&["--engine", "command", "--stage", "2", "--", "true"]),
        "2 repository_needs_stage"
    );
    assert_eq!(with(&["--engine", "fake", "--", "true"]), "2 argv_unused");
    assert_eq!(
        with(&["--engine", "acp", "--", "true"]),
        "2 lane_not_built_in"
    );
    assert_eq!(with(&[]), "2 fake_needs_case");
    assert_eq!(with(&command), "2 command_missing");
    fs::create_dir(source.place.path("empty")).unwrap();
    assert_eq!(
        usage(
            &[
                &[
                    "run",
                    "--json",
                    "--repo",
                    "empty",
                    "--contract",
                    "task.yaml"
                ],
                &command[..],
                &["--", "true"]
            ]
            .concat()
        ),
        "2 repository_unusable"
    );
    assert!(
        !source
            .place
            .home()
            .join("harness-runs")
            .read_dir()
            .unwrap()
            .any(|_| true)
    );
    let (code, blockers, _) = {
        let ran = source.run(&["no-such-program-anywhere"]);
        (
            ran.code.unwrap(),
            ran.json()["blockers"][0]["code"]
                .as_str()
                .unwrap()
                .to_owned(),
            (),
        )
    };
    assert_eq!((code, blockers.as_str()), (3, "provider_unavailable"));
    source.sh("git init -q sub; cd sub; git commit -q --allow-empty -m x; cd ..; git -c advice.addEmbeddedRepo=false add sub; git commit -qm gitlink");
    let (code, blockers, report) = source.work("true");
    assert_eq!(
        (code, blockers.as_slice()),
        (3, &["repository_unsupported".to_owned()][..])
    );
    assert!(
        report["blockers"][0]["message"]
            .as_str()
            .unwrap()
            .contains("submodules")
    );
}

#[test]
fn a_repository_of_another_user_is_refused() {
    if !cto_testkit::has("root", rustix::process::geteuid().is_root()) {
        return;
    }
    let source = plain();
    source.sh("chown -R 4242 .");
    let (code, blockers, report) = source.work("true");
    assert_eq!(
        (code, blockers.as_slice()),
        (3, &["source_not_owned".to_owned()][..])
    );
    assert_eq!(report["backend_process_started"], false);
}

#[test]
fn a_rejection_of_the_agents_own_reviewer_counts_and_its_praise_does_not() {
    let source = plain();
    let say = |verdict: &str| {
        format!(
            "echo new > src/a.txt; echo '{{\"schema\":\"cto.agent/v1\",\"type\":\"review\",\"verdict\":\"{verdict}\",\"note\":\"because\"}}'"
        )
    };
    let (code, blockers, _) = source.work(&say("reject"));
    assert_eq!(
        (code, blockers.as_slice()),
        (3, &["reviewer_rejected".to_owned()][..])
    );
    let (code, _, _) = source.work(&say("accept"));
    assert_eq!(code, 0);
    let (code, blockers, _) = source.work(&format!(
        "{}; echo old > src/a.txt; echo tests pass",
        say("accept")
    ));
    assert_eq!(
        (code, blockers.as_slice()),
        (1, &["no_diff".to_owned()][..])
    );
}

#[test]
fn a_case_is_done_by_a_program_too() {
    let source = plain();
    let run = |script: &str| {
        let mut command = source.place.command(&[
            "run",
            "r1-string-slugify",
            "--engine",
            "command",
            "--json",
            "--",
            "sh",
            "-ec",
            script,
        ]);
        command
            .env("CTO_HARNESS_ALLOW_COMMAND", "1")
            .env("CTO_HARNESS_COMMAND_STAGE", "2");
        Ran::of(command.output().unwrap())
    };
    let report = run("cat \"$CTO_TASK\" >&2; test -s \"$CTO_CONTRACT\"; ls")
        .expect(1)
        .json();
    assert_eq!(report["blockers"][0]["code"], "no_diff");
    assert_eq!(report["case_process_started"], true);
}

#[test]
fn a_repository_of_fifty_thousand_files_is_worked_on_and_stays_as_it_was() {
    let source = plain();
    source.sh(
        "python3 -c 'print(\"commit refs/heads/main\\ncommitter a <a@example.com> 0 +0000\\ndata 0\\nfrom HEAD^0\")\n\
         for n in range(50000): text = f\"content {n}\\n\"; print(f\"M 644 inline many/d{n % 251}/f{n}\\ndata {len(text)}\\n{text}\")' \
         | git fast-import --quiet --force && git checkout -q -f -B main main",
    );
    let (code, blockers, report) =
        source.work("echo new > src/a.txt; git status --porcelain | grep -qx ' M src/a.txt'");
    assert_eq!((code, blockers.as_slice()), (0, &[][..]), "{report:#}");
    assert_eq!(report["changed_files"], serde_json::json!(["src/a.txt"]));
    assert_eq!(report["source_repository_mutated"], false);
    source.sh("test -z \"$(git status --porcelain)\"");
}
