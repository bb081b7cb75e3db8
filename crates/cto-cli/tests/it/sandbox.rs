//! Who confines a run: chosen by flag, environment or config, the same in plan and report, and seen wherever it is less.

use serde_json::{Value, json};

use crate::place::{GOOD_REST, Place, Ran, write};

fn place() -> Place {
    let place = Place::new();
    place.case("small", GOOD_REST);
    place.with_key()
}

fn args<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let run = ["run", "small", "--cases", "cases", "--json"];
    run.into_iter().chain(more.iter().copied()).collect()
}

fn run_with(place: &Place, more: &[&str], env: &[(&str, &str)]) -> Ran {
    let mut command = place.command(&args(more));
    Ran::of(command.envs(env.iter().copied()).output().unwrap())
}

/// The data of the one event of this type.
fn event(place: &Place, run_id: &str, kind: &str) -> Value {
    let log = std::fs::read_to_string(place.pack(run_id).join("events.normalized.jsonl")).unwrap();
    let events = log
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).unwrap());
    let mut found = events.filter(|e| e["type"] == kind);
    let event = found.next().unwrap();
    assert_eq!(found.next(), None);
    event["data"].clone()
}

#[test]
fn what_the_plan_says_is_what_was_in_force() {
    let place = place();
    let is_there = std::path::Path::new("/usr/bin/bwrap").is_file();
    let has_bwrap = cto_testkit::has("bwrap", is_there);
    let bwrap = has_bwrap.then_some((&["--sandbox", "bwrap"][..], "bwrap", "full", "flag"));
    let all = [
        (&[][..], "native", "full", "default"),
        (&["--weak"], "native", "weak", "flag"),
        (&["--sandbox", "none"], "none", "none", "flag"),
    ];
    for (more, provider, class, from) in all.into_iter().chain(bwrap) {
        let report = run_with(&place, more, &[]).expect(0).json();
        let run_id = report["run_id"].as_str().unwrap();
        let planned = event(&place, run_id, "plan.updated")["plan"]["sandbox"].clone();
        let held = event(&place, run_id, "backend.finished")["sandbox"].clone();
        assert_eq!(planned, held, "{more:?}");
        for key in ["provider", "provider_from", "class", "layers"] {
            assert_eq!(report["sandbox"][key], held[key], "{more:?} {key}");
        }
        assert_eq!(
            (&held["provider"], &held["class"], &held["provider_from"]),
            (&json!(provider), &json!(class), &json!(from)),
        );
        let ahead = run_with(&place, &[more, &["--plan"]].concat(), &[]);
        assert_eq!(ahead.expect(0).json()["plan"]["sandbox"], held);
    }
}

#[test]
fn less_than_a_sandbox_is_seen_on_every_screen() {
    let place = place();
    for (more, word, sentence) in [
        (
            &["--weak"][..],
            "weak",
            "warning: the sandbox is weak (from: flag)",
        ),
        (
            &["--sandbox", "none"],
            "none",
            "warning: no sandbox (from: flag)",
        ),
    ] {
        let ran = run_with(&place, more, &[]).expect(0);
        assert!(ran.err.contains(sentence), "{}", ran.err);
        let run_id = ran.json()["run_id"].as_str().unwrap().to_owned();
        let text = std::fs::read_to_string(place.pack(&run_id).join("report.md")).unwrap();
        assert!(
            text.contains(&format!("(from: flag), class `{word}`")),
            "{text}"
        );
        assert!(text.contains("**No sandbox**") || text.contains("**Less than a sandbox**"));
        let shown = place.cto(&["show", &run_id]).expect(0).out;
        assert!(shown.contains(sentence), "{shown}");
        let mut plan = vec!["run", "small", "--cases", "cases", "--plan"];
        plan.extend(more);
        let plan = place.cto(&plan).expect(0).out;
        assert!(plan.contains(sentence), "{plan}");
    }
    let ran = run_with(&place, &[], &[]).expect(0);
    assert!(!ran.err.contains("warning"), "{}", ran.err);
}

#[test]
fn a_program_in_the_weak_mode_does_not_find_the_key_that_one_without_a_sandbox_finds() {
    let place = place();
    let script = "echo after >a.txt; cat \"$0/harness.pem\" 2>&1 >/dev/null && echo found; echo x >\"$0/more\" 2>/dev/null && echo written; true";
    let keys = place.home().join("keys");
    let gates = [
        ("CTO_HARNESS_ALLOW_COMMAND", "1"),
        ("CTO_HARNESS_COMMAND_STAGE", "2"),
    ];
    let said = |more: &[&str]| {
        let lane = ["--engine", "command", "--stage", "2", "--"];
        let program = ["/bin/sh", "-c", script, keys.to_str().unwrap()];
        let all = [more, &lane, &program].concat();
        let report = run_with(&place, &all, &gates).expect(0).json();
        let pack = place.pack(report["run_id"].as_str().unwrap());
        std::fs::read_to_string(pack.join("backend/stdout.log")).unwrap()
    };
    let weak = said(&["--weak"]);
    assert!(weak.contains("Permission denied"), "{weak}");
    assert!(
        !weak.contains("found") && !weak.contains("written"),
        "{weak}"
    );
    // The control: without a sandbox the same program reaches both.
    let none = said(&["--sandbox", "none"]);
    assert!(none.contains("found") && none.contains("written"), "{none}");
    assert!(!said(&[]).contains("written"));
}

#[test]
fn the_default_of_the_environment_is_mapped_and_what_holds_less_is_not_a_default() {
    let place = place();
    let name = "DEFAULT_SANDCASTLE_PROVIDER";
    for (value, words) in [
        ("vercel", "is not supported here"),
        ("noSandbox", "must be asked for each time"),
        (
            "Docker",
            "it can be one of docker, podman, vercel, noSandbox",
        ),
    ] {
        let ran = run_with(&place, &[], &[(name, value)]);
        assert_eq!(ran.error(), "2 sandbox_refused");
        assert!(ran.out.contains(words), "{}", ran.out);
    }
    let asked = run_with(&place, &["--sandbox", "none"], &[(name, "noSandbox")]);
    assert_eq!(asked.expect(0).json()["sandbox"]["class"], "none");
    let beaten = run_with(&place, &["--sandbox", "native"], &[(name, "vercel")]);
    assert_eq!(beaten.expect(0).json()["sandbox"]["provider"], "native");
    assert_eq!(
        std::fs::read_dir(place.home().join("requests"))
            .unwrap()
            .count(),
        2
    );
    let refused = run_with(&place, &["--weak", "--sandbox", "podman"], &[]);
    assert_eq!(refused.error(), "2 sandbox_refused");
    let unknown = run_with(&place, &["--sandbox", "podmann"], &[]);
    assert_eq!(unknown.error(), "2 sandbox_unknown");
    assert!(
        unknown.out.contains("did you mean `podman`?"),
        "{}",
        unknown.out
    );
    let matrix = ["matrix", "--cases", "cases", "--json"];
    let mut matrix = place.command(&matrix);
    let matrix = Ran::of(matrix.env(name, "vercel").output().unwrap());
    assert_eq!(matrix.error(), "2 sandbox_refused");
}

#[test]
fn the_settings_show_who_confines_and_which_of_them_says_so() {
    let place = place();
    let shown = |place: &Place| {
        let shown = place.cto(&["config", "show", "--json"]).expect(0).json();
        let values = shown["values"].as_array().unwrap().clone();
        let row = values.into_iter().find(|v| v["name"] == "sandbox").unwrap();
        format!(
            "{} from {}",
            row["value"].as_str().unwrap(),
            row["source"].as_str().unwrap()
        )
    };
    assert_eq!(shown(&place), "native from default");
    let config = place.path("config/cto");
    let yaml = "schema: cto.harness/v1\nsandbox: bwrap\n";
    write(&config.join("harness.yaml"), yaml);
    assert_eq!(shown(&place), "bwrap from config");
    write(&config.join(".env"), "DEFAULT_SANDCASTLE_PROVIDER=podman\n");
    assert_eq!(shown(&place), "podman from environment");
    write(&config.join(".env"), "DEFAULT_SANDCASTLE_PROVIDER=vercel\n");
    assert!(shown(&place).starts_with("refused: DEFAULT_SANDCASTLE_PROVIDER is `vercel`"));
    let doctor = place.cto(&["doctor", "--json"]).expect(1).json();
    let checks = doctor["checks"].as_array().unwrap().clone();
    let row = |name: &str| checks.iter().find(|c| c["name"] == name).unwrap().clone();
    assert_eq!(row("sandbox providers")["state"], "fail");
    assert!(
        row("sandbox")["detail"]
            .as_str()
            .unwrap()
            .starts_with("class full")
    );
    write(
        &config.join("harness.yaml"),
        "schema: cto.harness/v1\nsandbox: jail\n",
    );
    assert_eq!(
        place.cto(&["config", "show", "--json"]).error(),
        "2 config_invalid"
    );
}

#[test]
fn a_provider_that_is_not_there_blocks_with_its_package() {
    let place = place();
    for (name, package) in [
        ("bwrap", "bubblewrap"),
        ("podman", "podman"),
        ("docker", "docker.io"),
    ] {
        let ran = run_with(&place, &["--sandbox", name], &[("PATH", "/nowhere")]);
        let report = ran.expect(3).json();
        assert_eq!(report["blockers"][0]["code"], "sandbox_unavailable");
        let message = report["blockers"][0]["message"]
            .as_str()
            .unwrap()
            .to_owned();
        let words = format!("`{name}` is not on PATH: install it (package {package})");
        assert!(message.contains(&words), "{message}");
    }
}

#[test]
fn a_kernel_that_refuses_namespaces_blocks_with_the_ways_out_and_the_weak_mode_goes_on() {
    let place = place();
    // A user namespace in which no other can be made; everything else is as it was.
    let refusing = "echo 0 >/proc/sys/user/max_user_namespaces && exec \"$@\"";
    let run = |more: &[&str]| {
        let plain = place.command(&args(more));
        let mut command = std::process::Command::new("unshare");
        command.args(["-U", "-r", "sh", "-c", refusing, "sh"]);
        command.arg(plain.get_program()).args(plain.get_args());
        let env = plain
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?)));
        command.env_clear().envs(env).current_dir(place.path(""));
        Ran::of(command.output().unwrap())
    };
    let report = run(&[]).expect(3).json();
    let message = report["blockers"][0]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    for words in [
        "the kernel refused to create the namespaces",
        "flags=(unconfined) { userns, }",
        "--sandbox podman; or --weak",
    ] {
        assert!(message.contains(words), "{message}");
    }
    let report = run(&["--weak"]).expect(0).json();
    assert_eq!(report["sandbox"]["class"], "weak");
}
