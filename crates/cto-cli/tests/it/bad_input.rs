use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

use crate::place::{CTO, GOOD_REST, Place, Ran, head, sh, write};

fn run(place: &Place, id: &str) -> Ran {
    place.cto(&["run", id, "--cases", "cases", "--json", "-q"])
}

#[track_caller]
fn refused_without_a_trace(place: &Place, id: &str) -> Ran {
    let ran = run(place, id);
    let packs = fs::read_dir(place.home().join("harness-runs")).map_or(0, Iterator::count);
    assert_eq!(packs, 0, "nothing half-written: {}", ran.out);
    ran
}

#[test]
fn words_that_name_nothing() {
    let place = Place::new();
    let error = |args: &[&str]| place.cto(&[args, &["--json"]].concat()).error();
    assert_eq!(error(&["run", "r1-string-slugfy"]), "2 case_unknown");
    assert_eq!(error(&["run", "../r1"]), "2 case_id_invalid");
    assert_eq!(
        error(&["run", "r1-string-slugify", "--engine", "codx"]),
        "2 engine_unknown"
    );
    assert_eq!(
        error(&["run", "r1-string-slugify", "--stage", "5"]),
        "2 stage_needs_repository"
    );
    assert_eq!(
        error(&["run", "r1-string-slugify", "--stage", "7"]),
        "2 usage"
    );
    assert_eq!(
        error(&["run", "r1-string-slugify", "--cheat", "no-such"]),
        "2 case_no_cheat"
    );
    assert_eq!(
        error(&["run", "r1-string-slugify", "--cheat", "../fake"]),
        "2 case_no_cheat"
    );
    assert_eq!(error(&["run"]), "2 task_missing");
    assert_eq!(error(&["schema", "repot"]), "2 schema_unknown");
    assert_eq!(error(&["show", "latest"]), "2 run_unknown");
    assert_eq!(
        error(&["show", "20260101T000000Z-a-aaaaaa"]),
        "2 run_unknown"
    );
    assert_eq!(error(&["stop", "latest"]), "2 run_unknown");
    assert_eq!(error(&["runs", "--after", "nowhere"]), "2 usage");
    assert_eq!(
        error(&["verify", "latest", "--key", "no-such-file"]),
        "2 run_unknown"
    );
    assert_eq!(error(&["import", "no-such-file"]), "2 transfer_unreadable");
    assert_eq!(
        error(&["trust", "add", "no-such-file", "--name", "x"]),
        "2 key_unreadable"
    );
    assert_eq!(error(&["trust", "revoke", "00"]), "2 key_unknown");
    let suggestion = place.cto(&["run", "r1-string-slugfy"]).err;
    assert!(
        suggestion.contains("did you mean `r1-string-slugify`?"),
        "{suggestion}"
    );
}

#[test]
fn a_case_that_is_not_written_right_is_refused_with_its_place() {
    let place = Place::new();
    place.case("good", GOOD_REST);
    let cases = [
        ("bad-yaml", "allowed_paths: [a.txt\n", "case_invalid"),
        ("bad-key", "allowed_path: [a.txt]\n", "case_invalid"),
        ("escapes", "allowed_paths: [../b.txt]\n", "case_invalid"),
        ("absolute", "allowed_paths: [/etc/passwd]\n", "case_invalid"),
        ("git-dir", "allowed_paths: [.git/config]\n", "case_invalid"),
    ];
    for (id, rest, code) in cases {
        place.case(id, rest);
        let ran = refused_without_a_trace(&place, id);
        assert_eq!(ran.error(), format!("2 {code}"), "{id}");
        let cause = ran.json()["error"]["cause"].to_string();
        assert!(
            cause.contains("case.yaml:6:") || cause.contains("case.yaml:7:"),
            "{id}: {cause}"
        );
    }
    place.case("misnamed", GOOD_REST);
    write(
        &place.path("cases/misnamed/case.yaml"),
        &format!("{}{GOOD_REST}", head("other")),
    );
    assert_eq!(
        refused_without_a_trace(&place, "misnamed").error(),
        "2 case_misnamed"
    );
    let listed = place
        .cto(&["cases", "--cases", "cases", "--json"])
        .expect(0)
        .json();
    let problem = |id: &str| {
        listed["cases"]
            .as_array()
            .unwrap()
            .iter()
            .find(|c| c["id"] == id)
            .unwrap()["problem"]
            .clone()
    };
    assert!(
        problem("good").is_null() && problem("escapes").is_string(),
        "one bad case does not hide the others"
    );
}

#[test]
fn a_case_directory_holds_plain_files_only() {
    let place = Place::new();
    let new = |id: &str| place.case(id, GOOD_REST);
    symlink("/etc/hostname", new("linked-patch").join("fake.patch")).unwrap();
    fs::remove_file(new("linked-yaml").join("case.yaml")).unwrap();
    symlink(
        "../good/case.yaml",
        place.path("cases/linked-yaml/case.yaml"),
    )
    .unwrap();
    symlink("linked-patch", place.path("cases/linked-case")).unwrap();
    sh(&new("device"), "mkfifo fake.patch");
    sh(&new("with-git"), "mkdir .git");
    assert_eq!(
        refused_without_a_trace(&place, "linked-patch").error(),
        "2 case_not_plain"
    );
    assert_eq!(
        refused_without_a_trace(&place, "linked-yaml").error(),
        "2 case_not_plain"
    );
    assert_eq!(
        refused_without_a_trace(&place, "linked-case").error(),
        "2 case_not_plain"
    );
    assert_eq!(
        refused_without_a_trace(&place, "device").error(),
        "2 case_not_plain"
    );
    assert_eq!(
        refused_without_a_trace(&place, "with-git").error(),
        "2 case_unknown_entry"
    );
}

/// What lies deeper is looked at when the tree is taken in: refused before a backend starts.
#[test]
fn a_workspace_with_links_out_devices_or_a_repository_never_reaches_a_backend() {
    let place = Place::new();
    let new = |id: &str| place.case(id, GOOD_REST).join("workspace");
    symlink("/etc/passwd", new("link-out").join("b")).unwrap();
    sh(&new("fifo"), "mkfifo b");
    sh(&new("repository"), "mkdir .git && touch .git/config");
    let oracle = place.case("oracle-link", GOOD_REST).join("oracle");
    fs::create_dir(&oracle).unwrap();
    symlink("../workspace/../../secret", oracle.join("check.py")).unwrap();
    let mut ids = vec!["link-out", "fifo", "repository", "oracle-link"];
    if cto_testkit::has("root", is_root()) {
        sh(&new("device"), "mknod b c 1 3");
        ids.push("device");
    }
    for id in ids {
        let ran = refused_without_a_trace(&place, id);
        assert_eq!(ran.error(), "2 case_tree_refused", "{id}");
    }
}

#[test]
fn a_home_that_others_can_write_is_refused() {
    let place = Place::new();
    let error = || place.cto(&["run", "r1-string-slugify", "--json"]).error();
    fs::create_dir(place.home()).unwrap();
    fs::set_permissions(place.home(), Permissions::from_mode(0o777)).unwrap();
    assert_eq!(error(), "2 home_loose_mode");
    fs::set_permissions(place.home(), Permissions::from_mode(0o700)).unwrap();
    if cto_testkit::has("root", is_root()) {
        chown(place.home(), Some(65534), None).unwrap();
        assert_eq!(error(), "2 home_foreign_owner");
    }
    fs::remove_dir_all(place.home()).unwrap();
    write(&place.home(), "");
    assert_eq!(error(), "2 home_not_a_directory");
    let relative = place
        .command(&["runs", "--json"])
        .env("CTO_HOME", "here")
        .output()
        .unwrap();
    assert_eq!(Ran::of(relative).error(), "2 home_relative");
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata("/proc/self").unwrap().uid() == 0
}

#[test]
fn a_home_that_can_not_be_written_is_refused() {
    let place = Place::new();
    fs::set_permissions(place.path(""), Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(place.home()).unwrap();
    fs::set_permissions(place.home(), Permissions::from_mode(0o500)).unwrap();
    let output = if is_root() {
        // Root writes everywhere: somebody else has to try.
        let copy = place.path("cto");
        fs::copy(CTO, &copy).unwrap();
        chown(place.home(), Some(65534), Some(65534)).unwrap();
        let mut command = std::process::Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(copy)
            .args(["run", "r1-string-slugify", "--json"]);
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("CTO_HOME", place.home())
            .env("XDG_CONFIG_HOME", place.path("config"));
        command.output().unwrap()
    } else {
        place
            .command(&["run", "r1-string-slugify", "--json"])
            .output()
            .unwrap()
    };
    let error = Ran::of(output).error();
    fs::set_permissions(place.home(), Permissions::from_mode(0o700)).unwrap();
    assert!(
        ["2 home_not_created", "2 home_read_only"].contains(&error.as_str()),
        "{error}"
    );
}

#[test]
fn a_config_that_is_wrong_is_refused_with_its_line() {
    let place = Place::new();
    let file = place.path("config/cto/harness.yaml");
    write(&file, "schema: cto.harness/v1\ndefault_engine: codex\n");
    fs::set_permissions(place.path("config/cto"), Permissions::from_mode(0o700)).unwrap();
    let ran = place.cto(&["run", "r1-string-slugify", "--json"]);
    assert_eq!(ran.error(), "2 config_invalid");
    assert!(
        ran.json()["error"]["cause"]
            .to_string()
            .contains("harness.yaml:2:17"),
        "{}",
        ran.out
    );
    fs::set_permissions(place.path("config/cto"), Permissions::from_mode(0o777)).unwrap();
    assert_eq!(
        place.cto(&["engines", "--json"]).error(),
        "2 config_loose_mode"
    );
}

#[test]
fn a_contract_without_allowed_paths_is_blocked_by_name() {
    let place = Place::new();
    place.case("nothing-allowed", "verification_commands: [\"true\"]\n");
    let ran = run(&place, "nothing-allowed").expect(3);
    let codes = ran.json()["blockers"].to_string();
    assert!(codes.contains("allowed_paths_missing"), "{codes}");
}

#[test]
fn a_dotenv_sets_places_and_nothing_else() {
    let place = Place::new();
    let config = place.path("config/cto");
    fs::create_dir_all(&config).unwrap();
    let elsewhere = place.path("elsewhere");
    fs::write(
        config.join(".env"),
        format!("# places\nCTO_HOME=\"{}\"\n", elsewhere.display()),
    )
    .unwrap();
    let mut command = place.command(&["config", "show", "--json"]);
    let shown = Ran::of(command.env_remove("CTO_HOME").output().unwrap())
        .expect(0)
        .json();
    assert!(shown.to_string().contains("elsewhere"), "{shown}");
    fs::write(config.join(".env"), "GITHUB_ORG=me\nOPENAI_API_KEY=x\n").unwrap();
    let refused = place.cto(&["config", "show", "--json"]);
    assert_eq!(refused.error(), "2 config_invalid");
    assert!(refused.out.contains(".env:2:1"), "{}", refused.out);
}

#[test]
fn a_directory_of_cases_that_is_not_there_is_the_mistake_that_is_named() {
    let place = Place::new();
    let ran = place.cto(&["run", "r1-string-slugify", "--cases", "nowhere", "--json"]);
    assert_eq!(ran.error(), "2 case_unreadable");
    assert!(ran.out.contains("nowhere"), "{}", ran.out);
}
