//! Remembers that an overlay with a recorder could be mounted here, so that not every run has to find out by trying.
//!
//! It is a guess about the next mount, never a permission: one that fails ends its launch as it would without the note.
//! So only success is noted, for one boot, user, set of namespaces and pair of file systems; and a run that did not pass
//! takes the note away, whatever its reason, so that the next one tries again.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::clock;
use crate::home::Home;

const NOTE_BYTES_MAX: u64 = 4_096;

pub(crate) struct OverlayNote {
    path: PathBuf,
    /// Everything that decides whether a mount will go as the last one did.
    key: String,
}

impl OverlayNote {
    /// Returns the note for overlays of `lower` with what is written going to `upper`.
    pub(crate) fn of(home: &Home, lower: &Path, upper: &Path) -> io::Result<Self> {
        let device = |path: &Path| fs::metadata(path).map(|meta| meta.dev());
        let namespace = |name: &str| fs::read_link(format!("/proc/self/ns/{name}"));
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
        let boot = clock::boot_id();
        if boot == clock::BOOT_UNKNOWN {
            return Err(io::Error::other("the boot has no id"));
        }
        let key = format!(
            "boot {}\nkernel {}\nuser {}\nnamespaces {} {}\nfile systems {} {}\n",
            boot,
            kernel.trim(),
            rustix::process::geteuid().as_raw(),
            namespace("user")?.display(),
            namespace("mnt")?.display(),
            device(lower)?,
            device(upper)?,
        );
        let path = place(home);
        Ok(Self { path, key })
    }

    pub(crate) fn holds(&self) -> bool {
        let mut text = String::new();
        File::open(&self.path)
            .and_then(|file| file.take(NOTE_BYTES_MAX).read_to_string(&mut text))
            .is_ok_and(|_| text == self.key)
    }

    /// Writes it down; who can't will try again next time.
    pub(crate) fn keep(&self) -> io::Result<()> {
        let random = clock::random::<8>().map_err(io::Error::other)?;
        let name = format!(".overlays-{}", cto_contract::ids::to_hex(&random));
        let part = self.path.with_file_name(name);
        File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&part)?
            .write_all(self.key.as_bytes())?;
        fs::rename(&part, &self.path)
    }

    pub(crate) fn forget(home: &Home) {
        // Mostly there is none.
        drop(fs::remove_file(place(home)));
    }
}

fn place(home: &Home) -> PathBuf {
    home.root().join("overlays")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_holds_for_the_same_place_until_it_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(&dir.path().join("home")).unwrap();
        let note = || OverlayNote::of(&home, &home.baselines(), &home.work()).unwrap();
        assert!(!note().holds());
        note().keep().unwrap();
        note().keep().unwrap();
        assert!(note().holds());
        // Another file system, another answer.
        let other = OverlayNote::of(&home, Path::new("/proc"), &home.work()).unwrap();
        assert!(!other.holds());
        OverlayNote::forget(&home);
        OverlayNote::forget(&home);
        assert!(!note().holds());
        let left: Vec<_> = fs::read_dir(home.root()).unwrap().collect();
        assert_eq!(left.len(), 3, "{left:?}");
    }

    #[test]
    fn a_note_that_says_more_or_less_does_not_hold() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(&dir.path().join("home")).unwrap();
        let note = OverlayNote::of(&home, &home.baselines(), &home.work()).unwrap();
        let longer = format!("{}more\n", note.key);
        for bad in [&note.key[1..], &note.key[..note.key.len() - 1], &longer, ""] {
            File::create(&note.path)
                .unwrap()
                .write_all(bad.as_bytes())
                .unwrap();
            assert!(!note.holds(), "{bad}");
        }
    }
}
