use cto_contract::trust::TrustSchema;
use proptest::prelude::*;

use super::*;

const KEYID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn at(text: &str) -> Utc {
    text.parse().unwrap()
}

/// A machine on which nothing is wrong.
fn sound() -> MachineFacts {
    let keyid: Digest = KEYID.parse().unwrap();
    let trusted = TrustedKey {
        schema: TrustSchema,
        name: "this harness".to_owned(),
        keyid: keyid.clone(),
        public_key: String::new(),
        valid_from: at("2026-01-01T00:00:00Z"),
        valid_until: None,
        revoked_at: None,
    };
    MachineFacts {
        now: at("2026-06-01T00:00:00Z"),
        config: Ok(ConfigFacts {
            directory: "/config".to_owned(),
            has_file: true,
            sandbox: None,
            trusted: vec![trusted],
        }),
        home: HomeFacts::Open {
            place: "/home".to_owned(),
            disk: Ok(8 << 30),
            key: KeyFacts::There { keyid },
            database: DatabaseFacts::Holds { records: 3 },
            live: 1,
            crashed: 0,
        },
        git: Ok("git version 2.50".to_owned()),
        python3: Some("/usr/bin/python3".to_owned()),
        class: SandboxClass::Full,
        layers: vec![Layer {
            name: "landlock".to_owned(),
            in_force: true,
            detail: String::new(),
        }],
        providers: ProviderFacts {
            environment: None,
            programs: vec![
                (SandboxChoice::Bwrap, Some("/usr/bin/bwrap".to_owned())),
                (SandboxChoice::Podman, None),
            ],
        },
    }
}

fn trouble() -> Trouble {
    Trouble {
        detail: "it is not there".to_owned(),
        remedy: Some("make it".to_owned()),
    }
}

/// What is not in order once something is different, a line each.
fn with(change: impl FnOnce(&mut MachineFacts)) -> String {
    let mut facts = sound();
    change(&mut facts);
    let found = diagnose(&facts);
    let wrong: Vec<&DoctorCheck> = found
        .checks
        .iter()
        .filter(|c| c.state != Health::Ok)
        .collect();
    let fails = wrong.iter().any(|c| c.state == Health::Fail);
    assert_eq!(found.ok, !fails);
    let line = |c: &&DoctorCheck| {
        let remedy = c.remedy.as_deref().unwrap_or("-");
        format!("{} {}: {} -> {remedy}", c.state, c.name, c.detail)
    };
    wrong.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn opened(facts: &mut MachineFacts, change: impl FnOnce(&mut KeyFacts, &mut DatabaseFacts)) {
    if let HomeFacts::Open { key, database, .. } = &mut facts.home {
        change(key, database);
    }
}

#[test]
fn nothing_is_wrong_with_a_sound_machine() {
    assert_eq!(with(|_| {}), "");
    let lines: Vec<String> = diagnose(&sound())
        .checks
        .iter()
        .map(|c| format!("{}: {}", c.name, c.detail))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    config: /config
    home: /home
    disk: 8192 MiB free
    key: 0123456789ab (trusted here)
    database: ledger holds, 3 records
    runs: 1 live, none crashed
    git: git version 2.50
    python3: /usr/bin/python3
    sandbox: class full; in force: landlock; not: 
    sandbox providers: default native (from: default); bwrap: /usr/bin/bwrap, podman: not on PATH
    ");
}

#[test]
fn what_a_run_can_not_do_without_fails() {
    insta::assert_snapshot!(with(|f| f.config = Err(trouble())), @"fail config: it is not there -> make it");
    insta::assert_snapshot!(with(|f| f.home = HomeFacts::Unusable(trouble())), @"fail home: it is not there -> make it");
    insta::assert_snapshot!(with(|f| f.git = Err("no git".to_owned())), @"fail git: no git -> install git");
    insta::assert_snapshot!(with(|f| opened(f, |k, _| *k = KeyFacts::Unusable(trouble()))), @"fail key: it is not there -> make it");
    insta::assert_snapshot!(with(|f| opened(f, |_, d| *d = DatabaseFacts::Unusable(trouble()))), @"fail database: it is not there -> make it");
    insta::assert_snapshot!(with(|f| opened(f, |_, d| *d = DatabaseFacts::Broken)), @"fail database: the ledger's chain is broken -> restore a backup; the ledger can't be rebuilt");
}

#[test]
fn without_namespaces_no_run_starts() {
    for class in SandboxClass::ALL {
        let found = with(|f| f.class = *class);
        assert_eq!(
            found.is_empty(),
            *class >= SandboxClass::Process,
            "{class}: {found}"
        );
    }
}

#[test]
fn what_the_first_run_makes_is_not_missing() {
    let home = HomeFacts::NotMade {
        place: "/home".to_owned(),
        disk: Ok(8 << 30),
    };
    assert_eq!(with(|f| f.home = home), "");
    let nothing = |key: &mut KeyFacts, database: &mut DatabaseFacts| {
        *key = KeyFacts::NotMade;
        *database = DatabaseFacts::NotMade;
    };
    assert_eq!(with(|f| opened(f, nothing)), "");
}

#[test]
fn a_key_that_does_not_count_now_is_a_warning() {
    let valid = |change: fn(&mut TrustedKey)| {
        with(|f| {
            if let Ok(config) = &mut f.config {
                config.trusted.iter_mut().for_each(change);
            }
        })
    };
    for text in [
        valid(|k| k.revoked_at = Some(at("2026-02-01T00:00:00Z"))),
        valid(|k| k.valid_until = Some(at("2026-02-01T00:00:00Z"))),
        valid(|k| k.keyid = KEYID.replace('0', "1").parse().unwrap()),
    ] {
        assert!(
            text.starts_with("warn key: 0123456789ab is not trusted here"),
            "{text}"
        );
    }
}

#[test]
fn a_default_provider_must_be_there() {
    let environment = |name: &str| with(|f| f.providers.environment = Some(name.to_owned()));
    insta::assert_snapshot!(environment("podman"), @"fail sandbox providers: podman is the default (from: environment) and is not on PATH -> install it, or change the setting");
    assert!(
        environment("vercel")
            .starts_with("fail sandbox providers: DEFAULT_SANDCASTLE_PROVIDER is `vercel`")
    );
    let config = |choice| {
        with(|f| {
            if let Ok(config) = &mut f.config {
                config.sandbox = Some(choice);
            }
        })
    };
    assert_eq!(config(SandboxChoice::Bwrap), "");
}

#[test]
fn a_crashed_run_and_a_missing_python_are_warnings() {
    let crashed = with(|f| {
        if let HomeFacts::Open { crashed, .. } = &mut f.home {
            *crashed = 2;
        }
    });
    insta::assert_snapshot!(crashed, @"warn runs: 1 live, 2 crashed -> `cto recover` seals them as interrupted");
    insta::assert_snapshot!(with(|f| f.python3 = None), @"warn python3: not found -> install python3: the checks of the shipped cases need it");
}

proptest! {
    #[test]
    fn less_space_is_never_better(a in any::<u64>(), b in any::<u64>()) {
        let state = |free: u64| disk(&Ok(free)).state;
        let (less, more) = (a.min(b), a.max(b));
        prop_assert!(state(less) >= state(more));
    }
}
