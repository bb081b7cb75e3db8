//! Who decides: operators, their signatures, and what a home with them refuses.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cto_testkit::authenticator::{SoftKey, UP_UV};
use cto_testkit::has;
use serde_json::Value;

use crate::place::{CTO, Place, Ran, search_path, write};
use crate::schemas::fits_schema;

/// A place where people with keys in software decide.
pub(crate) struct Governed {
    pub(crate) place: Place,
    pub(crate) counter: std::cell::Cell<u32>,
}

impl Governed {
    /// Olga is the first operator; her key asks for touch and PIN.
    pub(crate) fn new() -> Self {
        let governed = Self {
            place: Place::new().with_key(),
            counter: std::cell::Cell::new(0),
        };
        let added = governed.signs(&["operator", "add", "olga", "olga.pub"], &olga());
        assert_eq!(added.expect(0).json()["presence"], "uv");
        governed
    }

    fn keys(&self) {
        for (name, key) in [("olga", olga()), ("ivan", ivan())] {
            write(&self.place.path(&format!("{name}.pub")), &key.public_line());
        }
    }

    /// Gives a command twice: it says what to sign, and gets the signature back.
    pub(crate) fn signs(&self, args: &[&str], key: &SoftKey) -> Ran {
        let asked = self.asks(args).expect(4).json();
        self.brings(args, &asked, key, UP_UV)
    }

    pub(crate) fn asks(&self, args: &[&str]) -> Ran {
        self.keys();
        self.place.cto(&[args, &["--json", "-q"]].concat())
    }

    pub(crate) fn brings(&self, args: &[&str], asked: &Value, key: &SoftKey, flags: u8) -> Ran {
        let message = fs::read(asked["file"].as_str().unwrap()).unwrap();
        self.counter.set(self.counter.get() + 1);
        let armour = key.sign("cto-approval", &message, flags, self.counter.get());
        let file = self.place.path("message.sig");
        write(&file, &armour);
        let sentence = asked["sentence"].as_str().unwrap();
        let brought = ["--signature", "message.sig", "--sentence", sentence];
        self.place
            .cto(&[args, &brought, &["--json", "-q"]].concat())
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.place.path("config/cto")
    }
}

pub(crate) fn olga() -> SoftKey {
    SoftKey::sk_ed25519(1)
}

pub(crate) fn ivan() -> SoftKey {
    SoftKey::sk_ecdsa(2)
}

const ADD_IVAN: &[&str] = &["operator", "add", "ivan", "ivan.pub"];

#[test]
fn operators_are_added_listed_and_revoked_by_signed_records() {
    let here = Governed::new();
    let asked = here.asks(ADD_IVAN).expect(4).json();
    fits_schema(&here.place, "signing", &asked);
    assert_eq!(asked["namespace"], "cto-approval");
    // The same command again finds what it asked for; another finds the slot taken.
    assert_eq!(here.asks(ADD_IVAN).expect(4).json()["file"], asked["file"]);
    let other = here.asks(&["operator", "revoke", "olga"]);
    assert_eq!(other.error(), "2 signing_slot_taken");
    let added = here
        .brings(ADD_IVAN, &asked, &olga(), UP_UV)
        .expect(0)
        .json();
    fits_schema(&here.place, "signed-decision", &added);
    assert_eq!(added["signer"], "olga");
    assert!(Path::new(added["checkpoint"].as_str().unwrap()).is_file());

    let file = here.config().join("operators.allowed_signers");
    let text = fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("ivan namespaces=\"cto-approval\" sk-ecdsa"),
        "{text}"
    );
    here.signs(&["operator", "revoke", "olga", "--as", "ivan"], &ivan())
        .expect(0);
    let listed = here
        .place
        .cto(&["operator", "list", "--json"])
        .expect(0)
        .json();
    fits_schema(&here.place, "operators", &listed);
    let rows = listed["operators"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert!(!rows[0]["revoked_at"].is_null() && rows[1]["revoked_at"].is_null());
    assert_eq!(
        (&rows[1]["presence"], &rows[1]["custody"]),
        (&"uv".into(), &"unattested".into())
    );
    let last = here.asks(&["operator", "revoke", "ivan"]).expect(4).json();
    let refused = here.brings(&["operator", "revoke", "ivan"], &last, &ivan(), UP_UV);
    assert_eq!(refused.error(), "2 operator_change_refused");

    let checked = here
        .place
        .cto(&["ledger", "verify", "--json"])
        .expect(0)
        .json();
    fits_schema(&here.place, "ledger-check", &checked);
    assert_eq!(
        (&checked["decisions"], &checked["ok"]),
        (&3.into(), &true.into())
    );
    let made = here
        .place
        .cto(&["ledger", "checkpoint", "--json"])
        .expect(0)
        .json();
    fits_schema(&here.place, "checkpoint-written", &made);
    let given_up = here
        .place
        .cto(&["ledger", "release", "--json"])
        .expect(0)
        .json();
    fits_schema(&here.place, "ledger-release", &given_up);
    assert_eq!(
        given_up["released"].as_str().unwrap().split(' ').next(),
        Some("revoke")
    );
    here.place
        .cto(&["run", "r1-string-slugify", "-q"])
        .expect(0);
}

#[test]
fn a_sentence_with_one_changed_letter_decides_nothing() {
    let here = Governed::new();
    let asked = here.asks(ADD_IVAN).expect(4).json();
    let sentence = asked["sentence"].as_str().unwrap();
    let message = fs::read(asked["file"].as_str().unwrap()).unwrap();
    write(
        &here.place.path("message.sig"),
        &olga().sign("cto-approval", &message, UP_UV, 7),
    );
    for wrong in [
        format!("{sentence} "),
        format!("\"{sentence}\""),
        sentence.replace("I add", "I Add"),
        sentence.replace(' ', "\u{a0}"),
        String::new(),
    ] {
        let brought = ["--signature", "message.sig", "--sentence", &wrong, "--json"];
        let refused = here.place.cto(&[ADD_IVAN, &brought].concat());
        assert_eq!(refused.error(), "2 sentence_differs", "{wrong}");
    }
    let unsaid = here
        .place
        .cto(&[ADD_IVAN, &["--signature", "message.sig", "--json"]].concat());
    assert_eq!(unsaid.error(), "2 sentence_missing");
    // Saying yes in advance is no option, and the sentence alone is none either.
    here.place.cto(&[ADD_IVAN, &["--yes"]].concat()).expect(2);
    here.place
        .cto(&[ADD_IVAN, &["--sentence", sentence]].concat())
        .expect(2);
    let list = here
        .place
        .cto(&["operator", "list", "--json"])
        .expect(0)
        .json();
    assert_eq!(list["operators"].as_array().unwrap().len(), 1);
}

#[test]
fn signatures_of_strangers_for_other_bytes_and_in_other_namespaces_are_refused() {
    let here = Governed::new();
    let asked = here.asks(ADD_IVAN).expect(4).json();
    let refused = here.brings(ADD_IVAN, &asked, &ivan(), UP_UV);
    assert_eq!(refused.error(), "2 signature_key_unknown");
    let sentence = asked["sentence"].as_str().unwrap();
    let message = fs::read(asked["file"].as_str().unwrap()).unwrap();
    let code = |armour: &str| {
        write(&here.place.path("message.sig"), armour);
        let brought = [
            "--signature",
            "message.sig",
            "--sentence",
            sentence,
            "--json",
        ];
        here.place.cto(&[ADD_IVAN, &brought].concat()).error()
    };
    assert_eq!(
        code(&olga().sign("git", &message, UP_UV, 9)),
        "2 signature_invalid"
    );
    assert_eq!(
        code(&olga().sign("cto-approval", b"{}", UP_UV, 9)),
        "2 signature_invalid"
    );
    assert_eq!(code("no signature"), "2 signature_invalid");
    // Olga's key counted to 1 already.
    assert_eq!(
        code(&olga().sign("cto-approval", &message, UP_UV, 1)),
        "2 signature_counter_stuck"
    );
    let good = olga().sign("cto-approval", &message, UP_UV, 2);
    write(&here.place.path("message.sig"), &good);
    let brought = ["--signature", "message.sig", "--sentence", sentence];
    here.place.cto(&[ADD_IVAN, &brought].concat()).expect(0);
}

#[test]
fn once_there_is_an_operator_harness_keys_need_his_signature() {
    let here = Governed::new();
    let other = Place::new().with_key();
    let shown = other.cto(&["key", "show", "--json"]).expect(0).json();
    let public = shown["public_key"].as_str().unwrap();
    let trust = ["trust", "add", public, "--name", "CI machine"];
    let file = here.config().join(format!(
        "trust/harness/{}.json",
        shown["keyid"].as_str().unwrap()
    ));
    let asked = here.asks(&trust).expect(4).json();
    assert!(!file.exists(), "nothing counts before it is signed");
    here.brings(&trust, &asked, &olga(), UP_UV).expect(0);
    assert!(file.is_file());

    let counted = fs::read_to_string(&file).unwrap();
    let revoke = ["trust", "revoke", shown["keyid"].as_str().unwrap()];
    here.signs(&revoke, &olga()).expect(0);
    // The file from before, put back by whoever can write here.
    write(&file, &counted);
    let back = here.asks(&trust);
    assert_eq!(back.error(), "5 trust_rolled_back");
    let checked = here
        .place
        .cto(&["ledger", "verify", "--json"])
        .expect(5)
        .json();
    assert_eq!(checked["errors"][0]["code"], "trust_rolled_back");
    let repaired = here
        .place
        .cto(&["trust", "repair", "--json"])
        .expect(0)
        .json();
    fits_schema(&here.place, "trust-repair", &repaired);
    assert_eq!(repaired["files"].as_array().unwrap().len(), 1);
    here.place.cto(&["ledger", "verify"]).expect(0);

    let before = here.place.cto(&["key", "show", "--json"]).expect(0).json();
    let rotated = here.signs(&["key", "rotate"], &olga()).expect(0).json();
    assert_ne!(rotated["keyid"], before["keyid"]);
    let now = here.place.cto(&["key", "show", "--json"]).expect(0).json();
    assert_eq!(now["keyid"], rotated["keyid"]);
    here.place
        .cto(&["run", "r1-string-slugify", "-q"])
        .expect(0);
    here.place.cto(&["verify", "latest"]).expect(0);
    // A key that is gone is not made anew: nobody signed for another one.
    fs::remove_file(here.place.home().join("keys/harness.pem")).unwrap();
    let gone = here.place.cto(&["run", "r1-string-slugify", "--json"]);
    assert_eq!(gone.error(), "2 key_missing");
    assert_eq!(
        here.place.cto(&["key", "new", "--json"]).error(),
        "2 key_missing"
    );
}

const MODEL: &str = r#"{"status": "admitted", "provider": "scripted", "model": "scripted", "credential_source_class": "none",
    "allowed_network_class": "loopback", "approval_source": "olga", "admission_timestamp": "2026-06-01",
    "review_trigger": "another model"}"#;

#[test]
fn a_record_that_was_signed_for_can_not_be_replaced_by_an_older_or_another_one() {
    let here = Governed::new();
    let file = here.config().join("model.json");
    let private = |text: &str| {
        write(&file, text);
        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    };
    private(MODEL);
    let sign = ["operator", "sign", file.to_str().unwrap()];
    here.signs(&sign, &olga()).expect(0);
    here.place.cto(&["ledger", "verify"]).expect(0);
    private(&MODEL.replace("another model", "never"));
    let checked = here
        .place
        .cto(&["ledger", "verify", "--json"])
        .expect(5)
        .json();
    assert_eq!(checked["errors"][0]["code"], "trust_rolled_back");
    let blocked = here
        .place
        .cto(&["run", "r1-string-slugify", "--json", "-q"])
        .expect(3)
        .json();
    assert_eq!(
        blocked["blockers"][0]["code"], "trust_rolled_back",
        "{blocked:#}"
    );
    here.place.cto(&["trust", "repair"]).expect(0);
    here.place
        .cto(&["run", "r1-string-slugify", "-q"])
        .expect(0);
    // Nobody stands for what is no record, or what holds a secret.
    let code = |text: &str| {
        let bad = here.place.path("bad.json");
        write(&bad, text);
        here.asks(&["operator", "sign", bad.to_str().unwrap()])
            .error()
    };
    assert_eq!(code("{}"), "2 record_invalid");
    assert_eq!(
        code(&MODEL.replace("admitted", "let in")),
        "2 record_invalid"
    );
    let token = format!("ghp_{}", "aB3dE5fG7h".repeat(4));
    assert_eq!(
        code(&MODEL.replace("olga", &token[..40])),
        "2 record_invalid"
    );
}

#[test]
fn a_run_is_blocked_on_top_of_a_ledger_or_files_that_were_put_back() {
    let here = Governed::new();
    let blockers = || {
        let ran = here
            .place
            .cto(&["run", "r1-string-slugify", "--json", "-q"]);
        let report = ran.expect(3).json();
        let blockers = report["blockers"].as_array().unwrap().clone();
        let codes = blockers
            .iter()
            .map(|b| b["code"].as_str().unwrap().to_owned());
        codes.collect::<Vec<String>>()
    };
    let file = here.config().join("operators.allowed_signers");
    let good = fs::read_to_string(&file).unwrap();
    write(&file, "");
    assert_eq!(blockers(), ["trust_rolled_back"]);
    write(&file, &good);
    here.place
        .cto(&["run", "r1-string-slugify", "-q"])
        .expect(0);
    let checkpoints = here.config().join("checkpoints");
    fs::rename(&checkpoints, here.place.path("aside")).unwrap();
    assert_eq!(blockers(), ["ledger_rolled_back"]);
    write(&file, "");
    assert_eq!(blockers(), ["ledger_rolled_back", "trust_rolled_back"]);
}

#[test]
fn a_ledger_that_was_put_back_decides_nothing_more() {
    let here = Governed::new();
    let (home, aside) = (here.place.home(), here.place.path("aside"));
    fs::create_dir(&aside).unwrap();
    let files = ["cto.db", "cto.db-wal", "cto.db-shm"];
    for file in files {
        fs::copy(home.join(file), aside.join(file)).ok();
    }
    here.signs(ADD_IVAN, &olga()).expect(0);
    for file in files {
        fs::remove_file(home.join(file)).ok();
        fs::copy(aside.join(file), home.join(file)).ok();
    }
    assert_eq!(here.asks(ADD_IVAN).error(), "5 ledger_rolled_back");
    let checked = here
        .place
        .cto(&["ledger", "verify", "--json"])
        .expect(5)
        .json();
    assert_eq!(checked["errors"][0]["code"], "ledger_rolled_back");
    for command in [["ledger", "checkpoint"], ["trust", "repair"]] {
        let refused = here.place.cto(&[&command[..], &["--json"]].concat());
        assert_eq!(refused.error(), "5 ledger_rolled_back", "{command:?}");
    }
}

#[test]
fn a_key_file_without_a_passphrase_is_enrolled_only_by_saying_so() {
    let is_there = Command::new("ssh-keygen").arg("-?").output().is_ok();
    if !has("ssh-keygen", is_there) {
        return;
    }
    let place = Place::new().with_key();
    let key = make_key(&place, "plain", "");
    let add = ["operator", "add", "olga", key.to_str().unwrap()];
    let refused = place.cto(&[&add[..], &["--json"]].concat());
    assert_eq!(refused.error(), "2 key_without_passphrase");
    // Nor does a key sign where nobody sits at a terminal.
    let plain = [&add[..], &["--no-presence", "--key", key.to_str().unwrap()]].concat();
    let refused = place.cto(&[&plain[..], &["--json"]].concat());
    assert_eq!(refused.error(), "2 no_terminal");
    let (code, told) = at_terminal(&place, &plain, None);
    assert_eq!(code, 0, "{told}");
    let row = &place.cto(&["operator", "list", "--json"]).expect(0).json()["operators"][0];
    assert_eq!(
        (&row["presence"], &row["custody"]),
        (&"none".into(), &"file".into())
    );
}

#[test]
fn a_person_at_a_terminal_types_the_sentence_and_the_passphrase() {
    let is_there = Command::new("ssh-keygen").arg("-?").output().is_ok();
    if !has("ssh-keygen", is_there) {
        return;
    }
    let place = Place::new().with_key();
    let key = make_key(&place, "locked", "correct horse");
    let add = ["operator", "add", "olga", key.to_str().unwrap()];
    let add = [&add[..], &["--key", key.to_str().unwrap()]].concat();
    let (code, told) = at_terminal(&place, &add, Some("wrong horse"));
    assert_ne!(code, 0, "{told}");
    let (code, told) = at_terminal(&place, &add, Some("correct horse"));
    assert_eq!(code, 0, "{told}");
    let row = &place.cto(&["operator", "list", "--json"]).expect(0).json()["operators"][0];
    assert_eq!(
        (&row["presence"], &row["custody"]),
        (&"claimed".into(), &"file".into())
    );
}

pub(crate) fn make_key(place: &Place, name: &str, passphrase: &str) -> PathBuf {
    let file = place.path(name);
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", passphrase, "-f"])
        .arg(&file)
        .stdin(Stdio::null())
        .status();
    assert!(made.unwrap().success());
    file
}

/// Plays a person: types the sentence that is asked for, then the passphrase.
pub(crate) fn at_terminal(place: &Place, args: &[&str], passphrase: Option<&str>) -> (i32, String) {
    const PERSON: &str = r#"
import os, pty, re, sys
passphrase, argv = sys.argv[1], sys.argv[2:]
child, terminal = pty.fork()
if child == 0:
    os.execv(argv[0], argv)
told, typed, answered = b"", False, False
while True:
    try:
        piece = os.read(terminal, 4096)
    except OSError:
        break
    if not piece:
        break
    told += piece
    asked = re.search(rb"type this sentence:\r\n  (.+?)\r\n", told)
    if asked and not typed:
        typed = True
        os.write(terminal, asked.group(1) + b"\n")
    if passphrase and not answered and b"passphrase" in told.split(b"sentence")[-1]:
        answered = True
        os.write(terminal, passphrase.encode() + b"\n")
_, status = os.waitpid(child, 0)
sys.stdout.buffer.write(told)
sys.exit(os.waitstatus_to_exitcode(status))
"#;
    let arguments = [&[PERSON, passphrase.unwrap_or_default(), CTO][..], args];
    person(place, &arguments.concat())
}

/// Lets a script play a person at a terminal of his own.
pub(crate) fn person(place: &Place, arguments: &[&str]) -> (i32, String) {
    let mut person = Command::new("python3");
    person
        .arg("-c")
        .args(arguments)
        .env_clear()
        .current_dir(place.path(""));
    for (name, value) in place.command(&[]).get_envs() {
        person.env(name, value.unwrap());
    }
    person.env("PATH", search_path()).env("TERM", "dumb");
    let out = person.output().unwrap();
    let told = String::from_utf8_lossy(&out.stdout).into_owned();
    (out.status.code().unwrap_or(-1), told)
}
