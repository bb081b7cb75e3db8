//! Clears a pack of what a writer left that died or failed half-way.

use std::path::Path;

use cto_evidence::canonical::hash_reader;
use cto_evidence::writer::{PackWriter, WriteError};
use cto_rules::leftovers::{Leftover, leftover};
use cto_rules::lifecycle::RunState;

use crate::artifact_times::ArtifactTimes;

/// Why a pack can't be cleared.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LeftoverError {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("could not read `{path}`")]
    Read {
        path: String,
        source: std::io::Error,
    },
    #[error(
        "`{path}` is not the file that the log names, so nothing can be sealed; the directory is left as it is: move it away to go on without the run"
    )]
    Changed { path: String },
}

/// Removes every file that is to be made anew, and checks those that the log names. Doing it again changes nothing.
pub(crate) fn clear_leftovers(
    pack: &Path,
    state: &RunState,
    times: &mut ArtifactTimes,
) -> Result<(), LeftoverError> {
    let writer = PackWriter::open(pack)?;
    for file in writer.dir().walk().files {
        let path = file.path;
        match leftover(state, &path) {
            Leftover::Keep => {}
            Leftover::Known(digest) => {
                let found = writer.dir().open_path(&path).and_then(hash_reader);
                let (found, _) = found.map_err(|source| LeftoverError::Read {
                    path: path.clone(),
                    source,
                })?;
                if found != digest {
                    return Err(LeftoverError::Changed { path });
                }
            }
            Leftover::MakeAnew => {
                writer.remove(&path)?;
                times.forget(&path);
            }
        }
    }
    Ok(())
}
