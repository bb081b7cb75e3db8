use crate::place::Place;

/// Every page of help in one text: what can be typed is a contract.
#[test]
fn the_help_of_every_command_is_known() {
    let place = Place::new();
    let mut pages = place.cto(&["--help"]).expect(0).out;
    let nested = [
        vec!["contract", "check"],
        vec!["key", "show"],
        vec!["key", "new"],
        vec!["key", "rotate"],
        vec!["trust", "add"],
        vec!["trust", "list"],
        vec!["trust", "revoke"],
        vec!["trust", "repair"],
        vec!["operator", "add"],
        vec!["operator", "list"],
        vec!["operator", "revoke"],
        vec!["operator", "sign"],
        vec!["ledger", "verify"],
        vec!["ledger", "checkpoint"],
        vec!["ledger", "release"],
        vec!["ladder", "climb"],
        vec!["config", "show"],
        vec!["index", "rebuild"],
    ];
    let names = [
        "init",
        "contract",
        "route",
        "run",
        "delegate",
        "rerun",
        "matrix",
        "stop",
        "cases",
        "engines",
        "runs",
        "show",
        "explain",
        "diff",
        "logs",
        "watch",
        "replay",
        "why",
        "verify",
        "gate",
        "status",
        "ladder",
        "request",
        "outcome",
        "export",
        "import",
        "key",
        "trust",
        "operator",
        "ledger",
        "config",
        "doctor",
        "health",
        "recover",
        "gc",
        "index",
        "schema",
        "completions",
        "man",
    ];
    for words in names.iter().map(|n| vec![*n]).chain(nested) {
        let help = place.cto(&[&words[..], &["--help"]].concat()).expect(0).out;
        // The global options are the same everywhere; once is enough.
        let own = help.split("Global options:").next().unwrap();
        let after = help.rsplit_once("\nExample").map_or("", |(_, rest)| rest);
        pages.push_str(&format!("\n---- cto {}\n{own}", words.join(" ")));
        if !after.is_empty() && !own.contains("\nExample") {
            pages.push_str(&format!("Example{after}"));
        }
    }
    insta::assert_snapshot!(pages);
}

#[test]
fn looking_for_help_touches_nothing() {
    let place = Place::new();
    place.cto(&["--version"]).expect(0);
    place.cto(&["run", "--help"]).expect(0);
    place.cto(&["cases"]).expect(0);
    place.cto(&["schema"]).expect(0);
    assert!(!place.home().exists());
    assert!(!place.path("config").exists());
}

#[test]
fn a_home_that_is_not_there_is_not_needed_to_check_a_pack_by_its_path() {
    let place = Place::new();
    let ran = place.cto(&["verify", "./nothing", "--json"]);
    assert_eq!(ran.error(), "2 run_unknown");
    assert!(!place.home().exists());
}

#[test]
fn colour_comes_only_when_asked_for() {
    let place = Place::new();
    assert!(!place.cto(&["run", "nothing"]).err.contains('\u{1b}'));
    assert!(
        place
            .cto(&["run", "nothing", "--color", "always"])
            .err
            .contains('\u{1b}')
    );
}
