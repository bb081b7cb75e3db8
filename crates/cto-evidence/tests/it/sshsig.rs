//! Signatures of people, against the stock `ssh-keygen` and against every flipped byte.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cto_contract::words::{Custody, Presence};
use cto_evidence::key::SigningKey;
use cto_evidence::sshsig::{NAMESPACE, SshPublicKey, SshSig, SshSigError};
use cto_testkit::authenticator::{SoftKey, UP_UV};
use proptest::prelude::*;

const MESSAGE: &[u8] = br#"{"kind":"grant","nonce":"00"}"#;

#[expect(clippy::disallowed_methods, reason = "the stock tool is the measure")]
fn ssh_keygen(args: &[&str], cwd: &Path, input: &[u8]) -> bool {
    use std::io::Write as _;
    let mut child = Command::new("ssh-keygen")
        .args(args)
        .current_dir(cwd)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).ok();
    child.wait().unwrap().success()
}

/// A directory to work in, if the machine has `ssh-keygen`.
fn place() -> Option<(tempfile::TempDir, PathBuf)> {
    #[expect(clippy::disallowed_methods, reason = "looks where the shell looks")]
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&path).any(|dir| dir.join("ssh-keygen").is_file());
    if !cto_testkit::has("ssh-keygen", there) {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_owned();
    Some((dir, path))
}

#[expect(clippy::disallowed_methods, reason = "a file of a test")]
fn stock_accepts(dir: &Path, public: &str, armour: &str, message: &[u8]) -> bool {
    let signers = format!("olga namespaces=\"{NAMESPACE}\" {public}\n");
    std::fs::write(dir.join("signers"), signers).unwrap();
    std::fs::write(dir.join("sig"), armour).unwrap();
    ssh_keygen(
        &[
            "-Y", "verify", "-f", "signers", "-I", "olga", "-n", NAMESPACE, "-s", "sig",
        ],
        dir,
        message,
    )
}

fn verify(public: &str, armour: &str, message: &[u8]) -> Result<(Presence, Custody), SshSigError> {
    let key = SshPublicKey::from_openssh(public).unwrap();
    let verified = SshSig::from_record(armour)?.verify(&key, message)?;
    Ok((verified.presence(true), verified.custody()))
}

#[test]
fn what_we_sign_and_what_any_key_signs_the_stock_tool_accepts_as_we_do() {
    let Some((_dir, dir)) = place() else { return };
    let ours = SigningKey::from_random(&[9; 32]);
    let public = SshPublicKey::Ed25519(ours.public()).to_openssh();
    let armour = SshSig::sign(&ours, MESSAGE).to_armour();
    assert!(stock_accepts(&dir, &public, &armour, MESSAGE));
    assert!(verify(&public, &armour, MESSAGE).is_ok());

    for key in SoftKey::each(7) {
        let public = key.public_line();
        let armour = key.sign(NAMESPACE, MESSAGE, UP_UV, 3);
        assert!(stock_accepts(&dir, &public, &armour, MESSAGE), "{public}");
        assert!(verify(&public, &armour, MESSAGE).is_ok(), "{public}");
        assert!(!stock_accepts(&dir, &public, &armour, b"other"));
        assert_eq!(
            verify(&public, &armour, b"other"),
            Err(SshSigError::Invalid)
        );
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a file of a test")]
fn what_the_stock_tool_signs_we_accept_to_the_byte() {
    let Some((_dir, dir)) = place() else { return };
    let made = [
        "-q",
        "-t",
        "ed25519",
        "-N",
        "",
        "-C",
        "a comment",
        "-f",
        "key",
    ];
    assert!(ssh_keygen(&made, &dir, b""));
    std::fs::write(dir.join("message"), MESSAGE).unwrap();
    let public = std::fs::read_to_string(dir.join("key.pub")).unwrap();
    for hash in ["sha512", "sha256"] {
        let option = format!("hashalg={hash}");
        let sign = [
            "-Y", "sign", "-n", NAMESPACE, "-O", &option, "-f", "key", "message",
        ];
        assert!(ssh_keygen(&sign, &dir, b""));
        let armour = std::fs::read_to_string(dir.join("message.sig")).unwrap();
        std::fs::remove_file(dir.join("message.sig")).unwrap();
        assert_eq!(
            verify(&public, &armour, MESSAGE),
            Ok((Presence::Claimed, Custody::File))
        );
    }
    let fingerprint = SshPublicKey::from_openssh(&public).unwrap().fingerprint();
    #[expect(clippy::disallowed_methods, reason = "the stock tool is the measure")]
    let shown = Command::new("ssh-keygen")
        .args(["-l", "-f", "key.pub"])
        .current_dir(&dir)
        .output()
        .unwrap();
    assert!(
        String::from_utf8(shown.stdout)
            .unwrap()
            .contains(&fingerprint)
    );
}

#[test]
fn presence_and_custody_are_read_from_the_signed_flags_which_the_stock_tool_ignores() {
    let stock = place();
    for key in [SoftKey::sk_ed25519(7), SoftKey::sk_ecdsa(7)] {
        let public = key.public_line();
        for flags in 0..=u8::MAX {
            let presence = match (flags & 4 != 0, flags & 1 != 0) {
                (true, _) => Presence::Uv,
                (false, true) => Presence::Up,
                (false, false) => Presence::None,
            };
            let custody = if flags & 8 != 0 {
                Custody::Synced
            } else {
                Custody::Unattested
            };
            let armour = key.sign(NAMESPACE, MESSAGE, flags, u32::from(flags));
            assert_eq!(verify(&public, &armour, MESSAGE), Ok((presence, custody)));
        }
        if let Some((_, dir)) = &stock {
            let nobody = key.sign(NAMESPACE, MESSAGE, 0, 0);
            assert!(stock_accepts(dir, &public, &nobody, MESSAGE));
        }
    }
}

#[test]
fn another_key_namespace_or_kind_of_signature_is_refused_by_name() {
    let key = SoftKey::sk_ecdsa(7);
    let public = key.public_line();
    let other = SoftKey::sk_ecdsa(8).sign(NAMESPACE, MESSAGE, UP_UV, 1);
    assert_eq!(verify(&public, &other, MESSAGE), Err(SshSigError::OtherKey));
    let file = key.sign("file", MESSAGE, UP_UV, 1);
    assert_eq!(verify(&public, &file, MESSAGE), Err(SshSigError::Namespace));
    let armour = key.sign(NAMESPACE, MESSAGE, UP_UV, 1);
    for loose in [
        armour.trim_end().to_owned(),
        armour.replace('\n', "\r\n"),
        format!(" {armour}"),
    ] {
        assert_eq!(verify(&public, &loose, MESSAGE), Err(SshSigError::Spelling));
        let read = SshSig::from_armour(&loose).unwrap();
        assert_eq!(read.to_armour(), armour);
    }
    assert_eq!(verify(&public, "", MESSAGE), Err(SshSigError::Armour));
}

#[test]
fn keys_that_nobody_should_enrol_are_refused() {
    let good = SoftKey::ed25519(7).public_line();
    let (name, base64) = good.split_once(' ').unwrap();
    for bad in [
        String::new(),
        name.to_owned(),
        base64.to_owned(),
        format!("{name} {base64} a\nb"),
        format!("ssh-rsa {base64}"),
        format!("sk-ssh-ed25519@openssh.com {base64}"),
        format!("{name} {}", &base64[..base64.len() - 4]),
        format!("{name} {base64}AAAA"),
        format!("{name}  {base64}"),
    ] {
        assert!(SshPublicKey::from_openssh(&bad).is_err(), "{bad}");
    }
    // A point of small order signs anything.
    let mut weak = STANDARD.decode(base64).unwrap();
    let at = weak.len() - 32;
    weak[at..].fill(0);
    weak[at] = 1;
    assert!(SshPublicKey::from_openssh(&format!("{name} {}", STANDARD.encode(weak))).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_flipped_byte_of_a_signature_fails(
        which in 0_usize..3, at in any::<prop::sample::Index>(), bit in 0_u8..8,
    ) {
        let key = &SoftKey::each(7)[which];
        let armour = key.sign(NAMESPACE, MESSAGE, UP_UV, 3);
        let public = SshPublicKey::from_openssh(&key.public_line()).unwrap();

        let mut text = armour.clone().into_bytes();
        text[at.index(armour.len())] ^= 1 << bit;
        let held = String::from_utf8(text)
            .is_ok_and(|text| SshSig::from_record(&text).is_ok_and(|s| s.verify(&public, MESSAGE).is_ok()));
        prop_assert!(!held);

        let mut blob = SshSig::from_record(&armour).unwrap().to_blob();
        let place = at.index(blob.len());
        blob[place] ^= 1 << bit;
        let held = SshSig::from_blob(&blob).is_ok_and(|s| s.verify(&public, MESSAGE).is_ok());
        prop_assert!(!held);
    }

    #[test]
    fn any_signature_and_key_reads_back_as_it_was_written(
        seed in 1_u8..=250, flags in any::<u8>(), counter in any::<u32>(), message in any::<Vec<u8>>(),
    ) {
        for key in SoftKey::each(seed) {
            let armour = key.sign(NAMESPACE, &message, flags, counter);
            prop_assert_eq!(SshSig::from_record(&armour).unwrap().to_armour(), armour);
            let line = key.public_line();
            prop_assert_eq!(SshPublicKey::from_openssh(&line).unwrap().to_openssh(), line);
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(blob in any::<Vec<u8>>(), text in any::<String>()) {
        drop(SshSig::from_blob(&blob));
        drop(SshSig::from_blob(&[&b"SSHSIG\0\0\0\x01"[..], &blob].concat()));
        drop(SshPublicKey::from_blob(&blob));
        drop(SshSig::from_armour(&text));
        drop(SshPublicKey::from_openssh(&text));
    }
}
