//! How each run was asked for, kept in home so that it can be asked for again.
//!
//! A pack never names a repository's path, so this can't come from one: runs of elsewhere have no request here. What the
//! task was comes from the pack alone, after it was verified.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use cto_checkout::Repository;
use cto_contract::artifact::TASK_CONTRACT;
use cto_contract::ids::{CaseId, Digest, RunId};
use cto_contract::task::TaskContract;
use cto_contract::text::{path_text, unquote_path};
use cto_contract::verify::Integrity;
use cto_contract::wire_const;
use cto_contract::words::{Lane, Stage};
use cto_evidence::canonical::sha256;
use cto_evidence::pack::PackDir;
use cto_evidence::verify::{VerifyOptions, verify};
use serde::{Deserialize, Serialize};

use crate::cases::{CaseError, Catalog};
use crate::harness::{ApprovalAsk, Harness, Parent, RunRequest};
use crate::home::Home;
use crate::sandbox::SandboxAsk;
use crate::task::{RepositoryTask, Task};

/// Longest note of a rerun: it becomes part of the instruction.
pub const NOTE_BYTES_MAX: usize = 16 << 10;
/// Largest contract or request that is read back.
const RECORD_BYTES_MAX: u64 = 64 << 20;
/// The heading above a note in the instruction.
const FEEDBACK: &str = "Feedback on the earlier attempt";

wire_const! {
    /// Schema tag of a kept request.
    pub struct RequestSchema: &'static str = "cto.run-request/v1"
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    schema: RequestSchema,
    /// The run, or the request for an approval.
    run_id: String,
    task: KeptTask,
    lane: Lane,
    stage: Option<Stage>,
    timeout_seconds: Option<u64>,
    cheat: Option<String>,
    conformance: bool,
    argv: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum KeptTask {
    Case {
        id: CaseId,
        cases: Option<String>,
    },
    Repository {
        path: String,
        contract_file: Option<String>,
        rev: Option<String>,
    },
}

/// Why a run can't be asked for again.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("how run {run_id} was asked for is not known here: it was not started in this home")]
    Unknown { run_id: String },
    #[error("could not read `{path}`")]
    Read { path: PathBuf, source: io::Error },
    #[error("`{path}` is not the request of that run")]
    Malformed {
        path: PathBuf,
        source: Option<serde_json::Error>,
    },
    #[error("the pack of run {run_id} does not verify ({code}: {message})")]
    Broken {
        run_id: RunId,
        code: String,
        message: String,
    },
    #[error("the note is empty")]
    EmptyNote,
    #[error("the note has {0} bytes, more than {NOTE_BYTES_MAX}")]
    LongNote(usize),
    #[error("the case can't be run again")]
    Case(#[from] CaseError),
}

impl RequestError {
    /// Machine-readable code of the error.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "request_unknown",
            Self::Read { .. } => "request_unreadable",
            Self::Malformed { .. } => "request_malformed",
            Self::Broken { .. } => "pack_broken",
            Self::EmptyNote | Self::LongNote(_) => "note_refused",
            Self::Case(e) => e.code(),
        }
    }
}

/// A request for a new attempt.
#[derive(Debug)]
pub struct Again {
    pub request: RunRequest,
    /// The case says something else now than the contract of the earlier attempt.
    pub case_changed: bool,
}

fn path_of(home: &Home, id: &str) -> PathBuf {
    home.requests().join(format!("{id}.json"))
}

/// Keeps how a run was asked for, private to its owner. Called before the run is given out.
pub(crate) fn keep(home: &Home, run_id: &RunId, request: &RunRequest) -> io::Result<()> {
    keep_for(home, run_id.as_str(), request)
}

/// The same for a run that waits for its approval.
pub(crate) fn keep_for(home: &Home, id: &str, request: &RunRequest) -> io::Result<()> {
    let absolute = |path: &Path| -> io::Result<String> {
        let path = std::path::absolute(path)?;
        Ok(path_text(path.as_os_str().as_bytes()))
    };
    let task = match &request.task {
        Task::Case(case) => KeptTask::Case {
            id: case.file.id.clone(),
            cases: case.found_in().map(absolute).transpose()?,
        },
        Task::Repository(task) => KeptTask::Repository {
            path: absolute(&task.path)?,
            contract_file: task.contract_file.as_deref().map(absolute).transpose()?,
            rev: task.rev.clone(),
        },
    };
    let kept = Kept {
        schema: RequestSchema,
        run_id: id.to_owned(),
        task,
        lane: request.lane,
        stage: request.stage,
        timeout_seconds: request.timeout_seconds,
        cheat: request.cheat.clone(),
        conformance: request.conformance,
        argv: request.argv.clone(),
    };
    write_private(&path_of(home, id), &serde_json::to_vec_pretty(&kept)?)
}

/// Writes a file for its owner alone, whole or not at all.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or_else(|| Path::new("."));
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let part = dir.join(format!(".{name}.part"));
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&part)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(part, path)
}

/// Reads such a file back, no larger than any of them is.
pub(crate) fn read_private(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(RECORD_BYTES_MAX)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What names a source repository in the index: the digest of where its git directory is. None where there is none.
pub(crate) fn repository_key(path: &Path) -> Option<Digest> {
    let git = Repository::git_directory_at(path).ok()?;
    Some(sha256(git.as_os_str().as_bytes()))
}

/// The repository that a run of this home was started on, as far as it is known and still there.
pub(crate) fn repository_of(home: &Home, run_id: &RunId) -> Option<Digest> {
    match load(home, run_id.as_str()).ok()?.task {
        KeptTask::Repository { path, .. } => repository_key(&path_from(&path)?),
        KeptTask::Case { .. } => None,
    }
}

/// Where the repository of a run lies, and the file of its contract.
pub(crate) fn repository_paths(home: &Home, run_id: &RunId) -> Option<(PathBuf, Option<PathBuf>)> {
    match load(home, run_id.as_str()).ok()?.task {
        KeptTask::Repository {
            path,
            contract_file,
            ..
        } => {
            let file = contract_file.and_then(|file| path_from(&file));
            Some((path_from(&path)?, file))
        }
        KeptTask::Case { .. } => None,
    }
}

fn path_from(text: &str) -> Option<PathBuf> {
    if !text.starts_with('"') {
        return Some(PathBuf::from(text));
    }
    let (bytes, rest) = unquote_path(text.as_bytes())?;
    rest.is_empty()
        .then(|| PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

fn load(home: &Home, id: &str) -> Result<Kept, RequestError> {
    let path = path_of(home, id);
    let mut bytes = Vec::new();
    let read =
        File::open(&path).and_then(|file| file.take(RECORD_BYTES_MAX).read_to_end(&mut bytes));
    match read {
        Ok(_) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            return Err(RequestError::Unknown {
                run_id: id.to_owned(),
            });
        }
        Err(source) => return Err(RequestError::Read { path, source }),
    }
    let kept: Kept = match serde_json::from_slice(&bytes) {
        Ok(kept) => kept,
        Err(e) => {
            return Err(RequestError::Malformed {
                path,
                source: Some(e),
            });
        }
    };
    if kept.run_id != id {
        return Err(RequestError::Malformed { path, source: None });
    }
    Ok(kept)
}

/// Reads the contract of a pack that verifies: what it allows is about to be allowed again.
fn contract(harness: &Harness, run_id: &RunId, pack: &Path) -> Result<TaskContract, RequestError> {
    let options = VerifyOptions {
        trusted: harness.config.trusted.clone(),
        expect_run: Some(run_id.clone()),
        ..VerifyOptions::default()
    };
    let verified = verify(pack, &options);
    let broken = |code: String, message: String| RequestError::Broken {
        run_id: run_id.clone(),
        code,
        message,
    };
    if !verified.ok || verified.integrity != Integrity::Ok {
        let first = verified.errors.first();
        return Err(broken(
            first.map_or_else(|| "not_a_pack".to_owned(), |e| e.code.to_string()),
            first.map_or_else(String::new, |e| e.message.clone()),
        ));
    }
    let path = pack.join(TASK_CONTRACT);
    let mut bytes = Vec::new();
    PackDir::open(pack)
        .and_then(|dir| dir.open_path(TASK_CONTRACT))
        .and_then(|file| file.take(RECORD_BYTES_MAX).read_to_end(&mut bytes))
        .map_err(|source| RequestError::Read { path, source })?;
    serde_json::from_slice(&bytes).map_err(|e| broken("schema_invalid".to_owned(), e.to_string()))
}

/// The instruction with a note below it. Notes of earlier reruns stay: the last one is at the end.
fn with_feedback(instruction: &str, note: &str) -> String {
    format!(
        "{}\n\n## {FEEDBACK}\n\n{}\n",
        instruction.trim_end(),
        note.trim()
    )
}

/// Makes the request of a new attempt: the same task, lane, stage and program, with a note in the instruction.
pub fn again(
    harness: &Harness,
    run_id: &RunId,
    pack: &Path,
    note: &str,
) -> Result<Again, RequestError> {
    if note.trim().is_empty() {
        return Err(RequestError::EmptyNote);
    }
    if note.len() > NOTE_BYTES_MAX {
        return Err(RequestError::LongNote(note.len()));
    }
    let kept = load(&harness.home, run_id.as_str())?;
    let mut contract = contract(harness, run_id, pack)?;
    let malformed = || RequestError::Malformed {
        path: path_of(&harness.home, run_id.as_str()),
        source: None,
    };
    contract.instruction = with_feedback(&contract.instruction, note);
    let (task, case_changed) = kept.task.with(contract, malformed)?;
    Ok(Again {
        request: RunRequest {
            task,
            lane: kept.lane,
            argv: kept.argv,
            stage: kept.stage,
            timeout_seconds: kept.timeout_seconds,
            cheat: kept.cheat,
            parent: Some(Parent::Earlier(run_id.clone())),
            conformance: kept.conformance,
            // As the gates do, it comes from this call and not from the earlier one.
            sandbox: SandboxAsk::default(),
            approval: ApprovalAsk::None,
        },
        case_changed,
    })
}

impl KeptTask {
    /// The task with this contract, and whether its case says something else now.
    fn with(
        self,
        contract: TaskContract,
        malformed: impl Fn() -> RequestError,
    ) -> Result<(Task, bool), RequestError> {
        Ok(match self {
            Self::Case { id, cases } => {
                let extra = cases
                    .map(|dir| path_from(&dir).ok_or_else(&malformed))
                    .transpose()?;
                let mut case = Catalog { extra }.find(id.as_str())?;
                case.file.instruction.clone_from(&contract.instruction);
                let has_changed = case.file.contract() != contract;
                (Task::Case(case), has_changed)
            }
            Self::Repository {
                path,
                contract_file,
                rev,
            } => {
                let task = RepositoryTask {
                    path: path_from(&path).ok_or_else(&malformed)?,
                    contract,
                    contract_file: contract_file
                        .map(|file| path_from(&file).ok_or_else(&malformed))
                        .transpose()?,
                    rev,
                };
                (Task::Repository(task), false)
            }
        })
    }
}

/// The run that waits for its approval, with the contract that the request holds.
pub(crate) fn kept_run(
    home: &Home,
    id: &str,
    contract: TaskContract,
) -> Result<RunRequest, RequestError> {
    let kept = load(home, id)?;
    let malformed = || RequestError::Malformed {
        path: path_of(home, id),
        source: None,
    };
    let (task, _) = kept.task.with(contract, malformed)?;
    Ok(RunRequest {
        task,
        lane: kept.lane,
        argv: kept.argv,
        stage: kept.stage,
        timeout_seconds: kept.timeout_seconds,
        cheat: kept.cheat,
        parent: None,
        conformance: kept.conformance,
        sandbox: SandboxAsk::default(),
        approval: ApprovalAsk::None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_stands_under_its_heading_and_earlier_ones_stay() {
        let once = with_feedback("Do it.\n", "  Not like that.\n");
        assert_eq!(
            once,
            "Do it.\n\n## Feedback on the earlier attempt\n\nNot like that.\n"
        );
        let twice = with_feedback(&once, "Nor so.");
        assert!(twice.starts_with(once.trim_end()) && twice.ends_with("\n\nNor so.\n"));
    }

    #[test]
    fn a_path_that_is_no_text_survives_being_kept() {
        for bytes in [&b"/a/b"[..], b"/a \"b\"", b"/\xff\n", b"\"quoted"] {
            let text = path_text(bytes);
            assert_eq!(path_from(&text).unwrap().as_os_str().as_bytes(), bytes);
        }
        assert_eq!(path_from("\"open"), None);
    }
}
