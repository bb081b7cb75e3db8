//! The harness's signing key: made on first use, private to its owner, never where an agent can reach it.
//!
//! The key itself does not leave this crate: whoever asks from outside gets its public half.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use cto_contract::ids::Digest;
use cto_contract::outputs::{KeyOutput, KeyTag};
use cto_contract::time::Utc;
use cto_contract::trust::{Origin, TrustSchema, TrustedKey};
use cto_evidence::key::{KeyError, PublicKey, SigningKey};

use crate::clock;
use crate::home::{self, Home, HomeError};

/// A key that can't be used or made.
#[derive(Debug, thiserror::Error)]
pub enum KeyringError {
    #[error("the key directory can't be used")]
    Directory(#[from] HomeError),
    #[error("there is no signing key at `{path}`")]
    Missing { path: PathBuf },
    #[error(
        "there is no signing key at `{path}`, and only an operator's signature could make another one count"
    )]
    Governed { path: PathBuf },
    #[error("there is a signing key at `{path}`")]
    Exists { path: PathBuf },
    #[error("could not read the signing key `{path}`")]
    Read { path: PathBuf, source: io::Error },
    #[error("could not write `{path}`")]
    Write { path: PathBuf, source: io::Error },
    #[error("the signing key `{path}` has mode {mode:04o} or a foreign owner")]
    Loose { path: PathBuf, mode: u32 },
    #[error("the signing key `{path}` is not an ed25519 key in PKCS#8 PEM")]
    Malformed { path: PathBuf, source: KeyError },
    #[error("no random bytes from the kernel")]
    Random(#[source] getrandom::Error),
    #[error("a key could not be encoded")]
    Encode(#[source] KeyError),
    #[error("the trust record could not be encoded")]
    Record(#[from] serde_json::Error),
}

impl KeyringError {
    /// Machine-readable code of the error.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Directory(_) => "key_directory_refused",
            Self::Missing { .. } | Self::Governed { .. } => "key_missing",
            Self::Exists { .. } => "key_exists",
            Self::Read { .. } => "key_unreadable",
            Self::Write { .. } => "key_not_written",
            Self::Loose { .. } => "key_loose",
            Self::Malformed { .. } => "key_malformed",
            Self::Random(_) => "no_randomness",
            Self::Encode(_) | Self::Record(_) => "key_not_encoded",
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Directory(home) => Some(home.hint()),
            Self::Missing { .. } => Some("`cto key new` makes one".to_owned()),
            Self::Governed { .. } => {
                Some(
                    "restore it from a backup; another home needs a config directory of its own (--config)"
                        .to_owned(),
                )
            }
            Self::Exists { .. } => {
                Some("`cto key rotate` puts it aside and makes a new one".to_owned())
            }
            Self::Loose { path, .. } => Some(format!("chmod 600 {}", path.display())),
            Self::Malformed { .. } => Some(
                "restore the key from a backup, or move the file away and run `cto key new`"
                    .to_owned(),
            ),
            Self::Read { .. }
            | Self::Write { .. }
            | Self::Random(_)
            | Self::Encode(_)
            | Self::Record(_) => None,
        }
    }
}

/// Path of the key that seals new packs.
pub fn key_path(home: &Home) -> PathBuf {
    home.keys().join("harness.pem")
}

/// Says what is public of the key that seals new packs.
pub fn show_key(home: &Home) -> Result<KeyOutput, KeyringError> {
    public_half(home, &load(&key_path(home))?)
}

/// Makes the key and trusts it here.
pub fn make_key(home: &Home, trust_dir: &Path) -> Result<KeyOutput, KeyringError> {
    let path = key_path(home);
    if path.symlink_metadata().is_ok() {
        return Err(KeyringError::Exists { path });
    }
    let (key, created) = load_or_create(home, trust_dir)?;
    Ok(KeyOutput {
        created,
        ..public_half(home, &key)?
    })
}

/// Puts the key aside, ends its validity in the trust file, and makes a new one.
pub fn rotate_key(home: &Home, trust_dir: &Path) -> Result<KeyOutput, KeyringError> {
    let (key, retired) = rotate(home, trust_dir)?;
    Ok(KeyOutput {
        created: true,
        retired: Some(retired.display().to_string()),
        ..public_half(home, &key)?
    })
}

fn public_half(home: &Home, key: &SigningKey) -> Result<KeyOutput, KeyringError> {
    let public = key.public();
    Ok(KeyOutput {
        schema_version: KeyTag,
        keyid: public.keyid(),
        public_key: public.to_base64(),
        public_key_pem: public.to_pem().map_err(KeyringError::Encode)?,
        path: key_path(home).display().to_string(),
        created: false,
        retired: None,
    })
}

/// A new key on its way to be the one that seals.
fn next_path(home: &Home) -> PathBuf {
    home.keys().join("next.pem")
}

/// The public half of the key that comes next; it is made if there is none yet.
pub fn next_key(home: &Home) -> Result<PublicKey, KeyringError> {
    let path = next_path(home);
    match load(&path) {
        Err(KeyringError::Missing { .. }) => {}
        found => return found.map(|key| key.public()),
    }
    let seed: [u8; 32] = clock::random().map_err(KeyringError::Random)?;
    let key = SigningKey::from_random(&seed);
    let pem = key.to_pem().map_err(KeyringError::Encode)?;
    let temporary = home.keys().join(format!(".new-{}", std::process::id()));
    write_private(&temporary, pem.as_str().as_bytes())?;
    move_key(&temporary, &path)?;
    Ok(key.public())
}

fn move_key(from: &Path, to: &Path) -> Result<(), KeyringError> {
    fs::rename(from, to).map_err(|source| KeyringError::Write {
        path: to.to_owned(),
        source,
    })
}

/// Puts the key aside and takes the next one, which an operator has signed for.
pub fn take_next_key(home: &Home) -> Result<KeyOutput, KeyringError> {
    let path = key_path(home);
    let old = load(&path)?;
    let next = load(&next_path(home))?;
    let aside = aside(home, &old);
    // A link first: whoever dies in between leaves the old key in both places, never none.
    match fs::hard_link(&path, &aside) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            return Err(KeyringError::Write {
                path: aside,
                source: e,
            });
        }
        Ok(()) | Err(_) => {}
    }
    move_key(&next_path(home), &path)?;
    Ok(KeyOutput {
        created: true,
        retired: Some(aside.display().to_string()),
        ..public_half(home, &next)?
    })
}

/// Goes on where a rotation was interrupted after its record was in.
pub(crate) fn finish_rotation(home: &Home, trust_dir: &Path) -> Result<(), KeyringError> {
    let Ok(next) = load(&next_path(home)) else {
        return Ok(());
    };
    if trust_dir.join(format!("{}.json", next.keyid())).is_file() && key_path(home).is_file() {
        take_next_key(home)?;
    }
    Ok(())
}

/// Loads the key of a home where operators decide: none is made there.
pub(crate) fn load_governed(home: &Home) -> Result<SigningKey, KeyringError> {
    let path = key_path(home);
    match load(&path) {
        Err(KeyringError::Missing { .. }) => Err(KeyringError::Governed { path }),
        found => found,
    }
}

/// Loads the key, or makes one and trusts it here. Says whether it was made.
pub(crate) fn load_or_create(
    home: &Home,
    trust_dir: &Path,
) -> Result<(SigningKey, bool), KeyringError> {
    let path = key_path(home);
    match load(&path) {
        Ok(key) => return Ok((key, false)),
        Err(KeyringError::Missing { .. }) => {}
        Err(other) => return Err(other),
    }
    home::make_private(&home.keys())?;
    home::check_private(&home.keys())?;
    let seed: [u8; 32] = clock::random().map_err(KeyringError::Random)?;
    let key = SigningKey::from_random(&seed);
    // The name appears only with the whole key in it, and the first of two racing processes wins.
    let temporary = home.keys().join(format!(".new-{}", std::process::id()));
    let pem = key.to_pem().map_err(KeyringError::Encode)?;
    write_private(&temporary, pem.as_str().as_bytes())?;
    // Trusted before it is there: whoever dies in between leaves trust in a key that nobody has, not a key that nobody
    // trusts. A pack sealed within the key's first instant must not look older than the key.
    let trusted = trust(
        &key,
        "this harness",
        clock::now().plus_seconds(-1),
        trust_dir,
    )?;
    let linked = fs::hard_link(&temporary, &path);
    fs::remove_file(&temporary).map_err(|source| KeyringError::Write {
        path: temporary.clone(),
        source,
    })?;
    match linked {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(&trusted).map_err(|source| KeyringError::Write {
                path: trusted.clone(),
                source,
            })?;
            return Ok((load(&path)?, false));
        }
        Err(source) => return Err(KeyringError::Write { path, source }),
    }
    Ok((key, true))
}

/// Whether what the key seals now counts here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyStanding {
    Counts,
    /// Its time is still to come, by this machine's clock.
    NotYet {
        now: Utc,
        counts_from: Utc,
    },
    /// It is over, was revoked, or never was.
    Never(Origin),
}

/// Judges a key by the trusted ones, at a time.
pub(crate) fn standing(keyid: &Digest, trusted: &[TrustedKey], now: Utc) -> KeyStanding {
    let own = || trusted.iter().filter(|key| key.keyid == *keyid);
    let judged = |origin: Origin| own().any(|key| key.judge(now) == origin);
    if judged(Origin::Revoked) {
        return KeyStanding::Never(Origin::Revoked);
    }
    if judged(Origin::Known) {
        return KeyStanding::Counts;
    }
    let ahead = own().filter(|key| key.valid_until.is_none_or(|until| until > key.valid_from));
    let ahead = ahead.map(|key| key.valid_from).filter(|from| *from > now);
    match (ahead.min(), own().next()) {
        (Some(counts_from), _) => KeyStanding::NotYet { now, counts_from },
        (None, Some(_)) => KeyStanding::Never(Origin::Expired),
        (None, None) => KeyStanding::Never(Origin::Unknown),
    }
}

/// The ids of every key that this home has ever sealed with, as far as they are still here.
pub(crate) fn own_keyids(home: &Home) -> Vec<Digest> {
    let mut ids: Vec<Digest> = load(&key_path(home))
        .map(|key| key.keyid())
        .into_iter()
        .collect();
    for entry in fs::read_dir(home.keys()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let retired = name.to_str().is_some_and(|n| n.starts_with("retired-"));
        if retired && let Ok(key) = load(&entry.path()) {
            ids.push(key.keyid());
        }
    }
    ids
}

/// Loads the key from a file, refusing loose modes and foreign owners.
fn load(path: &Path) -> Result<SigningKey, KeyringError> {
    let read = |source: io::Error| {
        let path = path.to_owned();
        if source.kind() == io::ErrorKind::NotFound {
            KeyringError::Missing { path }
        } else {
            KeyringError::Read { path, source }
        }
    };
    let meta = fs::symlink_metadata(path).map_err(read)?;
    if !meta.is_file()
        || meta.mode() & 0o077 != 0
        || meta.uid() != rustix::process::geteuid().as_raw()
    {
        return Err(KeyringError::Loose {
            path: path.to_owned(),
            mode: meta.mode() & 0o7777,
        });
    }
    let pem = fs::read_to_string(path).map_err(read)?;
    SigningKey::from_pem(&pem).map_err(|source| KeyringError::Malformed {
        path: path.to_owned(),
        source,
    })
}

/// Where a key goes that seals no more.
fn aside(home: &Home, key: &SigningKey) -> PathBuf {
    let (now, keyid) = (clock::now().basic(), key.keyid());
    home.keys()
        .join(format!("retired-{now}-{}.pem", keyid.short()))
}

fn rotate(home: &Home, trust_dir: &Path) -> Result<(SigningKey, PathBuf), KeyringError> {
    let path = key_path(home);
    let old = load(&path)?;
    let now = clock::now();
    let aside = aside(home, &old);
    move_key(&path, &aside)?;
    let trust_file = trust_dir.join(format!("{}.json", old.keyid()));
    if let Ok(mut record) = crate::config::read_trusted_key(&trust_file) {
        record.valid_until = Some(now);
        replace(&trust_file, &record)?;
    }
    Ok((load_or_create(home, trust_dir)?.0, aside))
}

/// Writes the trust file of a key.
fn trust(
    key: &SigningKey,
    name: &str,
    valid_from: Utc,
    trust_dir: &Path,
) -> Result<PathBuf, KeyringError> {
    let record = TrustedKey {
        schema: TrustSchema,
        name: name.to_owned(),
        keyid: key.keyid(),
        public_key: key.public_base64(),
        valid_from,
        valid_until: None,
        revoked_at: None,
    };
    add_trusted(&record, trust_dir)
}

/// Adds or replaces a trust file.
pub(crate) fn add_trusted(record: &TrustedKey, trust_dir: &Path) -> Result<PathBuf, KeyringError> {
    home::make_private(trust_dir)?;
    home::check_private(trust_dir)?;
    let path = trust_dir.join(format!("{}.json", record.keyid));
    replace(&path, record)?;
    Ok(path)
}

fn replace(path: &Path, record: &TrustedKey) -> Result<(), KeyringError> {
    let mut bytes = serde_json::to_vec_pretty(record)?;
    bytes.push(b'\n');
    let temporary = path.with_extension(format!("tmp-{}", std::process::id()));
    write_private(&temporary, &bytes)?;
    fs::rename(&temporary, path).map_err(|source| KeyringError::Write {
        path: path.to_owned(),
        source,
    })
}

fn write_private(path: &Path, bytes: &[u8]) -> Result<(), KeyringError> {
    let failed = |source| KeyringError::Write {
        path: path.to_owned(),
        source,
    };
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    file.sync_all().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, Home, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(&dir.path().join("home")).unwrap();
        let trust = dir.path().join("trust");
        (dir, home, trust)
    }

    #[test]
    fn a_key_is_made_once_and_shown_as_it_was_made() {
        let (_dir, home, trust) = place();
        assert_eq!(show_key(&home).unwrap_err().code(), "key_missing");
        assert_eq!(rotate_key(&home, &trust).unwrap_err().code(), "key_missing");
        let made = make_key(&home, &trust).unwrap();
        assert!(made.created);
        let shown = show_key(&home).unwrap();
        assert_eq!(shown.keyid, made.keyid);
        assert!(!shown.created);
        assert_eq!(make_key(&home, &trust).unwrap_err().code(), "key_exists");
    }

    #[test]
    fn a_rotated_key_is_put_aside_and_vouches_for_nothing_new() {
        let (_dir, home, trust) = place();
        let old = make_key(&home, &trust).unwrap();
        let new = rotate_key(&home, &trust).unwrap();
        assert_ne!(old.keyid, new.keyid);
        assert!(Path::new(&new.retired.unwrap()).is_file());
        let valid_until = |keyid| {
            let file = trust.join(format!("{keyid}.json"));
            crate::config::read_trusted_key(&file).unwrap().valid_until
        };
        assert!(valid_until(old.keyid).is_some());
        assert!(valid_until(new.keyid).is_none());
    }
}
