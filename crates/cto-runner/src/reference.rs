//! What a person may write for a run: its id, a unique prefix, `latest`, or a path to a pack.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cto_contract::artifact::{ATTESTATION, EVENTS};
use cto_contract::event::RunEvent;
use cto_contract::ids::RunId;
use cto_contract::text::shorten;
use cto_contract::time::Utc;

use crate::home::Home;

/// Longest first line of a log that is looked at for its time.
const FIRST_LINE_BYTES_MAX: u64 = 1 << 20;

/// A pack that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackRef {
    pub pack: PathBuf,
    /// The run that was asked for: its signed id must be this one. None for a path whose name is no run id.
    pub run_id: Option<RunId>,
}

/// Text that names no run, or too many.
#[derive(Debug, thiserror::Error)]
pub enum ReferenceError {
    #[error("there is no run `{reference}`")]
    Unknown { reference: String },
    #[error("there is no run yet")]
    NoRuns,
    #[error("`{prefix}` is the beginning of {} run ids", matches.len())]
    Ambiguous { prefix: String, matches: Vec<RunId> },
    #[error("there is no pack at `{path}`")]
    NoPack { path: PathBuf },
    #[error("could not read `{path}`")]
    Read { path: PathBuf, source: io::Error },
}

impl ReferenceError {
    /// Machine-readable code of the error.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } | Self::NoRuns | Self::NoPack { .. } => "run_unknown",
            Self::Ambiguous { .. } => "run_ambiguous",
            Self::Read { .. } => "runs_unreadable",
        }
    }
}

/// Whether the text is meant as a path: a run id holds no slash and begins with a digit.
pub fn is_path(text: &str) -> bool {
    text.contains('/') || text.starts_with('.')
}

/// Whether a directory is, or becomes, a pack; a matrix report beside it is none.
pub fn is_pack(dir: &Path) -> bool {
    [EVENTS, ATTESTATION]
        .iter()
        .any(|name| dir.join(name).symlink_metadata().is_ok_and(|m| m.is_file()))
}

/// Run ids of all packs in home, sealed or not, the smallest first.
pub fn packs(home: &Home) -> Result<Vec<RunId>, ReferenceError> {
    let dir = home.runs();
    let failed = |source| ReferenceError::Read {
        path: dir.clone(),
        source,
    };
    let mut ids = Vec::new();
    for entry in fs::read_dir(&dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let id = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<RunId>().ok());
        if let Some(id) = id
            && entry.file_type().map_err(failed)?.is_dir()
            && is_pack(&entry.path())
        {
            ids.push(id);
        }
    }
    ids.sort();
    Ok(ids)
}

/// Takes a path for a pack. Its name counts as what was asked for only if it looks like a run id.
pub fn resolve_path(path: &Path) -> Result<PackRef, ReferenceError> {
    // Without a trailing slash, so that a link is seen as a link.
    let pack: PathBuf = path.components().collect();
    if !pack.symlink_metadata().is_ok_and(|m| m.is_dir()) {
        return Err(ReferenceError::NoPack {
            path: path.to_owned(),
        });
    }
    let full = fs::canonicalize(&pack).map_err(|source| ReferenceError::Read {
        path: path.to_owned(),
        source,
    })?;
    let run_id = full
        .file_name()
        .and_then(|name| name.to_str())
        .and_then(|name| name.parse().ok());
    Ok(PackRef { pack, run_id })
}

/// Finds the run in home; a directory of that name in the working directory comes last.
pub fn resolve(home: &Home, reference: &str) -> Result<PackRef, ReferenceError> {
    if is_path(reference) {
        return resolve_path(Path::new(reference));
    }
    let found = |run_id: RunId| PackRef {
        pack: home.pack(&run_id),
        run_id: Some(run_id),
    };
    if let Ok(run_id) = reference.parse::<RunId>()
        && is_pack(&home.pack(&run_id))
    {
        return Ok(found(run_id));
    }
    let ids = packs(home)?;
    if reference == "latest" {
        return latest(home, ids).map(found).ok_or(ReferenceError::NoRuns);
    }
    let mut matches: Vec<RunId> = if reference.is_empty() {
        Vec::new()
    } else {
        ids.into_iter()
            .filter(|id| id.as_str().starts_with(reference))
            .collect()
    };
    match matches.len() {
        0 if Path::new(reference).is_dir() => resolve_path(Path::new(reference)),
        0 => Err(ReferenceError::Unknown {
            reference: shorten(reference, 120),
        }),
        1 => Ok(found(matches.remove(0))),
        _ => Err(ReferenceError::Ambiguous {
            prefix: shorten(reference, 120),
            matches,
        }),
    }
}

/// The run that started last. Ids tell the second; the log tells runs of the same second apart.
fn latest(home: &Home, ids: Vec<RunId>) -> Option<RunId> {
    let stamp = |id: &RunId| id.as_str().split('-').next().map(str::to_owned);
    let last = stamp(ids.last()?);
    ids.into_iter()
        .filter(|id| stamp(id) == last)
        .max_by_key(|id| (started_at(&home.pack(id)), id.clone()))
}

fn started_at(pack: &Path) -> Option<Utc> {
    use std::io::{BufRead as _, BufReader, Read as _};
    let mut line = Vec::new();
    let file = fs::File::open(pack.join(EVENTS)).ok()?;
    BufReader::new(file.take(FIRST_LINE_BYTES_MAX))
        .read_until(b'\n', &mut line)
        .ok()?;
    serde_json::from_slice::<RunEvent>(&line)
        .ok()
        .map(|event| event.ts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(names: &[&str]) -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(&dir.path().join("home")).unwrap();
        for name in names {
            fs::create_dir(home.runs().join(name)).unwrap();
            if !name.contains("run-all") {
                fs::File::create(home.runs().join(name).join(EVENTS)).unwrap();
            }
        }
        (dir, home)
    }

    #[test]
    fn ids_prefixes_and_latest_are_found_and_matrix_reports_are_not() {
        let (_dir, home) = home(&[
            "20260601T105222Z-a-aaaaaa",
            "20260601T105223Z-a-bbbbbb",
            "20260601T105223Z-a-bcbbbb",
            "20260701T000000Z-run-all-fake-zzzzzz",
            "20260601T105222Z-a-aaaaaa.addenda",
        ]);
        let find = |text: &str| {
            resolve(&home, text)
                .map_or_else(|e| e.code().to_owned(), |r| r.run_id.unwrap().to_string())
        };
        assert_eq!(
            find("20260601T105222Z-a-aaaaaa"),
            "20260601T105222Z-a-aaaaaa"
        );
        assert_eq!(find("20260601T105222"), "20260601T105222Z-a-aaaaaa");
        assert_eq!(find("latest"), "20260601T105223Z-a-bcbbbb");
        assert_eq!(find("2026"), "run_ambiguous");
        assert_eq!(find("20260701T000000Z-run-all-fake-zzzzzz"), "run_unknown");
        assert_eq!(find("nothing"), "run_unknown");
        assert_eq!(find(""), "run_unknown");
        assert_eq!(find("../../etc"), "run_unknown");
        assert_eq!(
            find(
                home.runs()
                    .join("20260601T105222Z-a-aaaaaa/")
                    .to_str()
                    .unwrap()
            ),
            "20260601T105222Z-a-aaaaaa"
        );
    }

    #[test]
    fn no_run_is_no_latest() {
        let (_dir, home) = home(&[]);
        assert!(matches!(
            resolve(&home, "latest"),
            Err(ReferenceError::NoRuns)
        ));
    }
}
