//! What a person may write for a run: its id, a unique prefix, `latest`, or a path to a pack.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cto_contract::artifact::{ATTESTATION, EVENTS};
use cto_contract::ids::RunId;
use cto_contract::text::shorten;
use cto_store::{OwnRuns, StoreError};

use crate::home::Home;
use crate::reading::RunsHome;
use crate::requests::repository_key;
use crate::retention::is_buried;

/// Most run ids that an ambiguous beginning is answered with.
const MATCHES_MAX: u32 = 6;
/// Runs that are asked for at once on the way to the last one with a pack.
const LATEST_PAGE: u32 = 50;

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
    #[error("there is no run of this home yet")]
    NoRuns,
    #[error("there is no run of this home on this repository yet")]
    NoRunsHere,
    #[error("the pack of run {run_id} was removed")]
    Removed { run_id: RunId },
    #[error("the pack of run {run_id} is gone, and no tombstone says why")]
    Lost { run_id: RunId },
    #[error("`{prefix}` is the beginning of more than one run id")]
    Ambiguous { prefix: String, matches: Vec<RunId> },
    #[error("there is no pack at `{path}`")]
    NoPack { path: PathBuf },
    #[error("could not read `{path}`")]
    Read { path: PathBuf, source: io::Error },
    #[error("the database can't be used")]
    Store(#[from] StoreError),
}

impl ReferenceError {
    /// Machine-readable code of the error.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } | Self::NoRuns | Self::NoRunsHere | Self::NoPack { .. } => {
                "run_unknown"
            }
            Self::Removed { .. } => "run_removed",
            Self::Lost { .. } => "run_lost",
            Self::Store(e) => e.code(),
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

/// Finds the run that a person in the directory `here` means; a directory of that name comes last.
pub fn resolve(
    place: &RunsHome,
    reference: &str,
    here: Option<&Path>,
) -> Result<PackRef, ReferenceError> {
    if is_path(reference) {
        return resolve_path(Path::new(reference));
    }
    let home = place.home();
    let found = |run_id: RunId| PackRef {
        pack: home.pack(&run_id),
        run_id: Some(run_id),
    };
    if let Ok(run_id) = reference.parse::<RunId>()
        && is_pack(&home.pack(&run_id))
    {
        return Ok(found(run_id));
    }
    if reference == "latest" {
        return latest(place, here).map(found);
    }
    let unknown = || ReferenceError::Unknown {
        reference: shorten(reference, 120),
    };
    let mut matches = match reference {
        "" => Vec::new(),
        prefix => place.store().find_prefix(prefix, MATCHES_MAX)?,
    };
    match (matches.len(), matches.pop()) {
        (1, Some(run_id)) if is_pack(&home.pack(&run_id)) => Ok(found(run_id)),
        (1, Some(run_id)) => Err(gone(home, run_id)),
        (_, Some(last)) => {
            matches.push(last);
            Err(ReferenceError::Ambiguous {
                prefix: shorten(reference, 120),
                matches,
            })
        }
        (_, None) if Path::new(reference).is_dir() => resolve_path(Path::new(reference)),
        (_, None) => Err(unknown()),
    }
}

/// Finds a pack where no run was ever entered: by its whole id, or by a directory's name.
pub fn resolve_without_runs(home: &Home, reference: &str) -> Result<PackRef, ReferenceError> {
    match reference.parse::<RunId>() {
        Ok(run_id) if is_pack(&home.pack(&run_id)) => Ok(PackRef {
            pack: home.pack(&run_id),
            run_id: Some(run_id),
        }),
        _ if reference == "latest" => Err(ReferenceError::NoRuns),
        _ if Path::new(reference).is_dir() => resolve_path(Path::new(reference)),
        Ok(_) | Err(_) => Err(ReferenceError::Unknown {
            reference: shorten(reference, 120),
        }),
    }
}

fn gone(home: &Home, run_id: RunId) -> ReferenceError {
    match is_buried(home, &run_id) {
        true => ReferenceError::Removed { run_id },
        false => ReferenceError::Lost { run_id },
    }
}

/// The run that the ledger of this home created last. In a repository: the last one on that repository, else the last
/// one on none; never one on another repository. What was removed by its own rules is passed over, what is lost is not.
fn latest(place: &RunsHome, here: Option<&Path>) -> Result<RunId, ReferenceError> {
    let which = match here.and_then(repository_key) {
        Some(key) => vec![OwnRuns::OfRepository(key), OwnRuns::OfNoRepository],
        None => vec![OwnRuns::All],
    };
    let in_repository = which.len() > 1;
    for which in which {
        let mut before = None;
        loop {
            let page = place.store().own_runs(&which, before, LATEST_PAGE)?;
            let Some((last, _)) = page.last() else {
                break;
            };
            before = Some(*last);
            for (_, run_id) in page {
                if is_pack(&place.home().pack(&run_id)) {
                    return Ok(run_id);
                }
                if !is_buried(place.home(), &run_id) {
                    return Err(ReferenceError::Lost { run_id });
                }
            }
        }
    }
    Err(match in_repository {
        true => ReferenceError::NoRunsHere,
        false => ReferenceError::NoRuns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pack_is_found_by_its_id_or_its_path_where_no_run_was_entered() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(&dir.path().join("home")).unwrap();
        let id = "20260601T105222Z-a-aaaaaa";
        for name in [id, "20260701T000000Z-run-all-fake-zzzzzz"] {
            fs::create_dir(home.runs().join(name)).unwrap();
        }
        fs::File::create(home.runs().join(id).join(EVENTS)).unwrap();
        let find = |text: &str| {
            resolve_without_runs(&home, text)
                .map_or_else(|e| e.code().to_owned(), |r| r.run_id.unwrap().to_string())
        };
        assert_eq!(find(id), id);
        for unknown in [
            "20260601T105222",
            "latest",
            "20260701T000000Z-run-all-fake-zzzzzz",
            "nothing",
            "",
        ] {
            assert_eq!(find(unknown), "run_unknown", "{unknown}");
        }
        let path = resolve_path(&home.runs().join(format!("{id}/"))).unwrap();
        assert_eq!(path.run_id.unwrap().as_str(), id);
    }
}
