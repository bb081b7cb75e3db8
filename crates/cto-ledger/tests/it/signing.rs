//! Signatures by stock tools: `ssh-keygen` signs for us, an ssh-agent signs for us, and `ssh-keygen -Y verify` accepts all
//! that we accept.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use cto_contract::words::Presence;
use cto_evidence::key::SigningKey;
use cto_evidence::sshsig::{NAMESPACE, SshPublicKey, SshSig};
use cto_ledger::{Agent, KeyFile, OPERATORS_FILE, Protection};
use cto_testkit::authenticator::{SoftKey, UP_UV};
use cto_testkit::has;

use crate::home::{TestHome, trusted};

#[expect(clippy::disallowed_methods, reason = "the tools of OpenSSH")]
fn command(program: &str) -> Command {
    Command::new(program)
}

#[expect(clippy::disallowed_methods, reason = "where the tools are")]
fn path() -> String {
    std::env::var("PATH").unwrap()
}

fn has_openssh() -> bool {
    has(
        "ssh-keygen",
        command("ssh-keygen").arg("-?").output().is_ok(),
    )
}

/// Makes a key with this passphrase.
fn make_key(dir: &Path, name: &str, passphrase: &str) -> PathBuf {
    let file = dir.join(name);
    let made = command("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", passphrase, "-C", "test", "-f"])
        .arg(&file)
        .stdin(Stdio::null())
        .status();
    assert!(made.unwrap().success());
    file
}

/// Asks the stock tool whether a signature by this operator holds.
fn stock_tool_accepts(allowed: &Path, operator: &str, message: &[u8], armour: &str) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let signature = dir.path().join("message.sig");
    fs::File::create(&signature)
        .unwrap()
        .write_all(armour.as_bytes())
        .unwrap();
    let mut child = command("ssh-keygen")
        .args(["-Y", "verify", "-n", NAMESPACE, "-I", operator, "-f"])
        .arg(allowed)
        .arg("-s")
        .arg(&signature)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(message).unwrap();
    child.wait().unwrap().success()
}

#[test]
fn the_stock_tool_accepts_every_record_by_the_file_that_the_ledger_writes() {
    if !has_openssh() {
        return;
    }
    for (n, olga) in (1..).zip(SoftKey::each(7)) {
        let home = TestHome::new(n);
        let add = cto_contract::operator::OperatorChange::Add;
        home.change(add, ("olga", &olga), ("olga", &olga), (UP_UV, 1))
            .unwrap();
        let asked = home
            .ask_trust("olga", vec![trusted(&SigningKey::from_random(&[9; 32]))], 3)
            .unwrap();
        let message = asked.message.clone();
        home.enter(asked, &olga, (UP_UV, 2), Presence::None, 4)
            .unwrap();
        let armour = home
            .store
            .ledger_of_kinds::<cto_contract::ledger::Record>(&[
                cto_contract::ledger::RecordKind::TrustChanged,
            ])
            .unwrap()[0]
            .record
            .signature()
            .unwrap()
            .armour
            .clone();
        let allowed = home.config().join(OPERATORS_FILE);
        assert!(
            stock_tool_accepts(&allowed, "olga", &message, &armour),
            "{}",
            olga.public_line()
        );
        assert!(!stock_tool_accepts(&allowed, "ivan", &message, &armour));
        assert!(!stock_tool_accepts(&allowed, "olga", b"{}", &armour));
    }
}

#[test]
fn a_key_file_is_signed_with_by_ssh_keygen_and_says_how_it_is_held() {
    if !has_openssh() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let open = make_key(dir.path(), "open", "");
    let locked = make_key(dir.path(), "locked", "correct horse");
    let held = |file: &Path| KeyFile::open(file).unwrap().protection;
    assert_eq!(held(&open), Some(Protection::None));
    assert_eq!(held(&locked), Some(Protection::Passphrase));
    assert_eq!(
        held(&locked.with_extension("pub")),
        Some(Protection::Passphrase)
    );

    let key = KeyFile::open(&open).unwrap();
    let signature = key.sign(b"message", &path(), &[]).unwrap();
    assert!(signature.verify(&key.public, b"message").is_ok());
    fs::remove_file(&locked).unwrap();
    assert_eq!(held(&locked.with_extension("pub")), None);
}

/// An agent that ends with the test.
struct RealAgent {
    process: Child,
    socket: PathBuf,
}

impl RealAgent {
    fn start(dir: &Path) -> Self {
        let socket = dir.join("agent");
        let mut agent = command("ssh-agent");
        agent.args(["-D", "-a"]).arg(&socket);
        let process = agent
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut agent = Self { process, socket };
        // It prints its variables once its socket is there.
        let mut byte = [0];
        let out = agent.process.stdout.as_mut().unwrap();
        std::io::Read::read_exact(out, &mut byte).unwrap();
        agent
    }

    fn add(&self, key: &Path) {
        let added = command("ssh-add")
            .arg("-q")
            .arg(key)
            .env("SSH_AUTH_SOCK", &self.socket)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(added.unwrap().success());
    }
}

impl Drop for RealAgent {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

#[test]
fn an_agent_lists_its_keys_and_signs_with_the_one_that_is_named() {
    if !has_openssh() || !has("ssh-agent", command("ssh-agent").arg("-h").output().is_ok()) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let agent = RealAgent::start(dir.path());
    let key = make_key(dir.path(), "key", "");
    agent.add(&key);
    let mut client = Agent::connect(agent.socket.to_str()).unwrap();
    let keys = client.keys().unwrap();
    assert_eq!((keys.len(), keys[0].comment.as_str()), (1, "test"));
    let signature = client.sign(&keys[0].public, b"message").unwrap();
    assert!(signature.verify(&keys[0].public, b"message").is_ok());
    let other = SshPublicKey::from_openssh(&SoftKey::ed25519(9).public_line()).unwrap();
    assert_eq!(
        client.sign(&other, b"message").unwrap_err().code(),
        "not_signed"
    );
    assert_eq!(Agent::connect(None).err().unwrap().code(), "agent_unknown");
}

/// What a process of the same user can try against a key that is held by a passphrase and that no agent has.
#[test]
fn without_the_passphrase_nobody_signs_with_a_key_that_has_one() {
    if !has_openssh() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let locked = make_key(dir.path(), "locked", "correct horse");
    let public = KeyFile::open(&locked).unwrap().public;
    // A program that answers every question.
    let asker = dir.path().join("asker");
    fs::File::create(&asker)
        .unwrap()
        .write_all(b"#!/bin/sh\necho guess\n")
        .unwrap();
    fs::set_permissions(&asker, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let askpass = [
        ("SSH_ASKPASS".to_owned(), asker.display().to_string()),
        ("SSH_ASKPASS_REQUIRE".to_owned(), "force".to_owned()),
        ("DISPLAY".to_owned(), ":0".to_owned()),
    ];
    // Without a terminal, by our own call, with and without such a program.
    let no_terminal = |environment: &[(String, String)]| {
        let file = KeyFile::open(&locked).unwrap();
        let mut sign = command("setsid");
        sign.args(["-w", "ssh-keygen", "-Y", "sign", "-n", NAMESPACE, "-f"])
            .arg(&file.path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        for (name, value) in environment {
            sign.env(name, value);
        }
        let out = sign.output().unwrap();
        SshSig::from_armour(&String::from_utf8_lossy(&out.stdout)).is_ok()
    };
    assert!(!no_terminal(&[]));
    assert!(!no_terminal(&askpass));
    // Guessed passphrases, and taking the passphrase away.
    for guess in ["", "guess", "correct horse "] {
        let taken = command("ssh-keygen")
            .args(["-q", "-p", "-P", guess, "-N", "", "-f"])
            .arg(&locked)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        assert!(!taken.unwrap().success(), "{guess}");
    }
    // An agent that does not hold the key.
    let agent = RealAgent::start(dir.path());
    let mut client = Agent::connect(agent.socket.to_str()).unwrap();
    assert_eq!(
        client.sign(&public, b"message").unwrap_err().code(),
        "not_signed"
    );
    // A signature by another key under this key's name.
    let armour = SoftKey::ed25519(3).sign(NAMESPACE, b"message", 0, 0);
    let forged = SshSig::from_armour(&armour).unwrap();
    assert!(forged.verify(&public, b"message").is_err());
    assert_eq!(
        KeyFile::open(&locked).unwrap().protection,
        Some(Protection::Passphrase)
    );
}
