//! What a run brings along from the machine: inputs, setup, and checks that go wrong.

use std::fs;

use serde_json::json;

use crate::place::{Place, write};
use crate::repositories::{PLAIN, plain};
use crate::source::Source;

#[test]
fn inputs_that_would_show_too_much_are_refused_before_anything_runs() {
    let source = plain();
    let place = source.place.path("");
    for dir in [".ssh", "other/.git", "other/lib", "kept", "repo/deps"] {
        fs::create_dir_all(place.join(dir)).unwrap();
    }
    let listener = std::os::unix::net::UnixListener::bind(place.join("kept/agent.sock")).unwrap();
    std::os::unix::fs::symlink(place.join(".ssh"), place.join("repo/innocent")).unwrap();
    for from in [
        "~/.ssh",
        "~/home",
        "~/home/keys",
        "~/config/cto",
        "~/other",
        "~/other/lib",
        "~/kept",
        "innocent",
        "/etc",
        "/proc/self",
        "no-such-place",
    ] {
        source.contract(&format!(
            "{PLAIN}inputs: [{{from: '{from}', mode: read-only}}]\n"
        ));
        assert_eq!(source.run(&["true"]).error(), "2 input_refused", "{from}");
    }
    drop(listener);
    source.contract(&format!("{PLAIN}inputs: [{{from: ../x, mode: copy}}]\n"));
    assert_eq!(source.run(&["true"]).error(), "2 contract_invalid");
    assert!(
        !source
            .place
            .home()
            .join("harness-runs")
            .read_dir()
            .unwrap()
            .any(|_| true)
    );
    write(&place.join("repo/deps/lib.txt"), "here\n");
    source.sh("rm innocent; echo deps/ >> .gitignore; git commit -qam ignore");
    for (mode, written) in [
        ("read-only", "! touch deps/new 2>/dev/null"),
        ("copy", "echo gone > deps/lib.txt"),
    ] {
        source.contract(&format!(
            "allowed_paths: [src/]\nverification_commands: [{{run: 'grep -q here deps/lib.txt && grep -q new src/a.txt', must_fail_before: true}}]\ninputs: [{{from: deps/, mode: {mode}}}]\n"
        ));
        let (code, _, report) = source.work(&format!(
            "grep here deps/lib.txt; {written}; echo new > src/a.txt"
        ));
        assert_eq!(code, 0, "{mode} {report:#}");
        assert_eq!(report["inputs"][0]["files"], 1);
    }
    assert_eq!(
        fs::read_to_string(place.join("repo/deps/lib.txt")).unwrap(),
        "here\n"
    );
}

#[test]
fn of_the_search_path_no_socket_and_nothing_of_the_source_is_shown() {
    let source = plain();
    let (served, mine) = (source.place.path("served"), source.repo().join("tools"));
    for dir in [&served, &mine] {
        write(&dir.join("program"), "#!/bin/sh\necho ran\n");
        crate::place::sh(dir, "chmod +x program");
    }
    source.sh("git add tools && git commit -qm tools");
    let agent = mine.join("program");
    let run = |script: &str| {
        let mut command = source.command(&["sh", "-ec", script]);
        let path = format!(
            "{}:{}:{}",
            served.display(),
            mine.display(),
            crate::place::search_path()
        );
        command.env("PATH", path);
        crate::place::Ran::of(command.output().unwrap())
    };
    let seen = format!("test -e {}", served.join("program").display());
    let not_mine = format!("test ! -e {}; echo new > src/a.txt", mine.display());
    run(&format!("{seen}; {not_mine}")).expect(0);
    let listener = std::os::unix::net::UnixListener::bind(served.join("it.sock")).unwrap();
    run(&format!("! {seen}; {not_mine}")).expect(0);
    drop(listener);
    // A program that is named by its path is shown alone, and no pack tells where it lies.
    let ran = source.run(&[agent.to_str().unwrap()]);
    let report = ran.json();
    assert_eq!(report["blockers"][0]["code"], "no_diff", "{report:#}");
    assert_eq!(report["launched"]["argv"][0], "$SOURCE/tools/program");
    assert!(
        !ran.out.contains(source.place.path("").to_str().unwrap()),
        "{}",
        ran.out
    );
}

#[test]
fn a_command_that_names_a_file_which_nobody_is_shown_does_not_begin() {
    let source = plain();
    let hidden = source.place.path(".ssh/agent");
    write(&hidden, "#!/bin/sh\necho new > src/a.txt\n");
    crate::place::sh(hidden.parent().unwrap(), "chmod +x agent");
    let hidden = hidden.to_str().unwrap();
    for words in [&[hidden][..], &["sh", hidden]] {
        let ran = source.run(words);
        assert_eq!(ran.error(), "2 named_file_refused");
        let why = "is not shown inside: it would show `~/.ssh`, a place for credentials";
        assert!(ran.out.contains(why), "{}", ran.out);
    }
    let runs = source.place.cto(&["runs", "--json"]).expect(0).json();
    assert_eq!((&runs["rows"], &runs["live"]), (&json!([]), &json!([])));
    // Where anybody may look, it is shown and does its work.
    let shown = source.place.path("agent");
    std::fs::copy(hidden, &shown).unwrap();
    assert_eq!(
        source.run(&[shown.to_str().unwrap()]).json()["status"],
        "pass"
    );
}

#[test]
fn read_paths_of_the_configuration_are_shown_or_refused_before_a_run_begins() {
    let place = Place::new();
    let tools = place.path("tools");
    write(&tools.join("lib/it.txt"), "shown\n");
    fs::create_dir(place.path("served")).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(place.path("served/it.sock")).unwrap();
    drop(listener);
    let run = |path: &str| {
        let text = format!("schema: cto.harness/v1\nread_paths: [{path:?}]\n");
        write(&place.path("config/cto/harness.yaml"), &text);
        let ran = place.cto(&["run", "r1-string-slugify", "--json"]);
        match ran.code {
            Some(0) => "0".to_owned(),
            _ => format!("{} {}", ran.error(), ran.json()["error"]["cause"]),
        }
    };
    assert_eq!(run(tools.to_str().unwrap()), "0");
    let report = place.cto(&["show", "latest", "--json"]).expect(0).json();
    let proof = place.pack(report["run_id"].as_str().unwrap());
    let proof = std::fs::read_to_string(proof.join("backend/sandbox.json")).unwrap();
    assert!(proof.contains("/tools\""), "{proof}");
    for (path, why) in [
        ("tools".to_owned(), "not an absolute path"),
        (format!("{}/gone", tools.display()), "can't be looked at"),
        (place.home().display().to_string(), "harness's home"),
        // Nobody serves it here any more, and yet somebody may elsewhere.
        (
            place.path("served").display().to_string(),
            "holds the socket",
        ),
    ] {
        let said = run(&path);
        assert!(
            said.starts_with("2 read_path_refused") && said.contains(why),
            "{said}"
        );
    }
}

#[test]
fn setup_runs_once_below_all_trees_and_may_not_change_what_is_tracked() {
    let source = plain();
    source.contract("allowed_paths: [src/]\nsetup_commands: ['mkdir -p build; echo made > build/tool; touch /usr/x || true', 'cat build/tool']\nverification_commands: [{run: 'grep -q made build/tool && grep -q new src/a.txt', must_fail_before: true}]\n");
    let (code, _, report) = source.work("grep made build/tool; echo new > src/a.txt");
    assert_eq!(code, 0, "{report:#}");
    assert_eq!(report["setup"].as_array().unwrap().len(), 2);
    let denial = &report["sandbox"]["denials"][0];
    assert_eq!(
        (&denial["step"], &denial["target"]),
        (&"setup".into(), &"/usr/x".into())
    );
    assert_eq!(report["changed_files"], serde_json::json!(["src/a.txt"]));
    assert!(source.pack(&report).join("backend/setup.log").exists());
    source.contract("allowed_paths: [src/]\nsetup_commands: ['echo x >> other.txt']\nverification_commands: ['true']\n");
    let (code, blockers, _) = source.work("true");
    assert_eq!(
        (code, blockers.as_slice()),
        (3, &["dirty_starting_tree".to_owned()][..])
    );
    source.contract(
        "allowed_paths: [src/]\nsetup_commands: ['exit 7']\nverification_commands: ['true']\n",
    );
    let (code, blockers, report) = source.work("true");
    assert_eq!(
        (code, blockers.as_slice()),
        (3, &["provider_unavailable".to_owned()][..])
    );
    assert_eq!(report["backend_process_started"], false);
}

#[test]
fn checks_that_misbehave_are_contained() {
    let source = plain();
    let judged = |verification: &str, limits: &str| {
        source.contract(&format!(
            "allowed_paths: [src/]\nverification_commands: ['{verification}']\nlimits: {{{limits}}}\n"
        ));
        let (code, blockers, _) = source.work("echo new > src/a.txt");
        format!("{code} {}", blockers.join(" "))
    };
    // A daemon dies with the namespace it was made in.
    let token = format!("{:x}", std::process::id());
    assert_eq!(
        judged(
            &format!("setsid sleep 5{token} >/dev/null 2>&1 & exit 0"),
            "wall_seconds: 60"
        ),
        "0 "
    );
    assert!(!alive(&format!("5{token}")));
    assert_eq!(
        judged("head -c 10G /dev/zero", "output_mb: 1, wall_seconds: 300"),
        "0 "
    );
    assert_eq!(
        judged("rm -rf ./* .git .gitignore", "wall_seconds: 60"),
        "1 dirty_ending_tree"
    );
    assert_eq!(
        judged("while grep -q new src/a.txt; do :; done", "wall_seconds: 1"),
        "3 timeout"
    );
}

/// Closes itself to every look, and takes memory that belongs to no process.
const HIDES_MEMORY: &str = "import ctypes, os\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\nfile = os.memfd_create('hidden')\nfor _ in range(512): os.write(file, b'x' * (1 << 20))\n";
/// The same in the buffers of sockets.
const HIDES_IT_IN_SOCKETS: &str = "import ctypes, socket\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\nkept, taken = [], 0\nwhile taken < 512 << 20:\n    pair = socket.socketpair()\n    kept.append(pair)\n    pair[0].setblocking(False)\n    try:\n        while True: taken += pair[0].send(b'x' * 65536)\n    except BlockingIOError: pass\n";

#[test]
fn memory_that_code_under_test_hides_in_a_check_is_held_where_an_agents_is() {
    let source = plain();
    for hides in [HIDES_MEMORY, HIDES_IT_IN_SOCKETS] {
        source.contract("allowed_paths: [src/]\nverification_commands: [python3 src/check.py]\nlimits: {memory_mb: 64, open_files: 16000, wall_seconds: 120}\ndiff_required: true\n");
        source.sh("printf 'pass\\n' > src/check.py && git add -A && git commit -qm check");
        let (code, blockers, report) =
            source.work(&format!("cat > src/check.py <<'E'\n{hides}E\n"));
        let layers = report["backend"]["confinement"].to_string();
        if !layers.contains("held by a control group") {
            cto_testkit::skipped("no control group can be made here");
            return;
        }
        assert_eq!(code, 1, "{report:#}");
        assert_eq!(blockers[0], "limit_exceeded", "{blockers:?}");
    }
}

#[test]
fn a_file_of_holes_counts_by_the_length_that_it_seems_to_have() {
    let source = plain();
    source.contract(&format!(
        "{PLAIN}limits: {{disk_mb: 64, wall_seconds: 60}}\n"
    ));
    // Below what is read at most, and far above what the disk may take; where it is ignored, it would be read as well.
    for big in ["src/big", "build/big"] {
        let script = format!("echo new > src/a.txt; mkdir -p build; truncate -s 1G {big}");
        let (code, blockers, report) = source.work(&script);
        assert_eq!(
            (code, blockers.as_slice()),
            (3, &["limit_exceeded".to_owned()][..]),
            "{report:#}"
        );
    }
    // What fits is no matter.
    let (code, ..) = source.work("echo new > src/a.txt; mkdir -p build; truncate -s 32M build/big");
    assert_eq!(code, 0);
}

/// Whether a process runs that has this word in its command line.
fn alive(word: &str) -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        fs::read(entry.path().join("cmdline"))
            .is_ok_and(|line| line.split(|b| *b == 0).any(|arg| arg == word.as_bytes()))
    })
}

#[test]
fn a_result_that_the_change_brings_along_is_refused() {
    let source = plain();
    source.contract(
        "allowed_paths: [src/, out/]\nverification_commands: [{run: 'true', expect: {junit: out/report.xml}, must_fail_before: true}]\n",
    );
    let report = "<testsuite><testcase name=\"a\"/></testsuite>";
    let (code, found, _) = source.work(&format!(
        "echo new > src/a.txt; mkdir out; echo '{report}' > out/report.xml"
    ));
    assert_eq!(
        (code, found.join(" ")),
        (1, "disallowed_file_change".to_owned())
    );
}

#[test]
fn a_result_that_an_earlier_command_or_the_tree_holds_is_not_the_commands_own() {
    let source = Source::new(&[
        ("src/a.txt", "old\n"),
        (".gitignore", "build/\n"),
        (
            "result.txt",
            "<testsuite><testcase name=\"a\"/></testsuite>\n",
        ),
    ]);
    let writes = "mkdir -p build; cp result.txt build/report.xml";
    // The first leaves it, the second writes none; and the second time nothing is written either.
    let expect = "expect: {junit: build/report.xml}";
    for (id, commands) in [
        (
            "earlier",
            format!("[{{run: {writes:?}}}, {{run: 'true', {expect}}}]"),
        ),
        (
            "again",
            format!(
                "[{{run: 'test -e build/report.xml || {{ {writes}; }}', repeat: 2, {expect}}}]"
            ),
        ),
    ] {
        source.contract(&format!(
            "allowed_paths: [src/]\nverification_commands: {commands}\n"
        ));
        let (code, found, report) = source.work("echo new > src/a.txt");
        assert_ne!(code, 0, "{id}: {report}");
        let told = found.join(" ");
        assert!(
            ["baseline_broken", "verification_failed"].contains(&told.as_str()),
            "{id}: {told}"
        );
    }
    // What each writes itself counts, each time.
    source.contract(&format!(
        "allowed_paths: [src/]\nverification_commands: [{{run: {writes:?}, repeat: 2, {expect}}}]\n"
    ));
    let (code, found, _) = source.work("echo new > src/a.txt");
    assert_eq!((code, found.len()), (0, 0), "{found:?}");
}

#[test]
fn a_program_is_found_through_the_directory_above() {
    let source = plain();
    source.contract(PLAIN);
    let tool = source.place.path("tools/agent");
    write(&tool, "#!/bin/sh\necho new > src/a.txt\n");
    fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let ran = source.run(&["repo/../tools/agent"]);
    assert_eq!(ran.code, Some(0), "{}{}", ran.out, ran.err);
}
