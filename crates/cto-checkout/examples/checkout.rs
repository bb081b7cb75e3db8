//! One operation of this crate as a process, so that `cargo xtask bench checkout` can hold it against git's.
//!
//! `ready CACHE REPO PLACE overlay|copy` makes a workspace of HEAD, `fingerprint REPO PLACE` looks at the source, and
//! `diff CACHE REPO PLACE overlay|copy` changes ten files of a workspace and takes the patch. The last line is the time of
//! the operation itself, in nanoseconds.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for benchmarks talks to the one that starts it"
)]

use std::error::Error;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use cto_checkout::{
    Baseline, BaselineCache, GitDir, History, OverlaidTree, PatchCaps, Repository, WorkingCopy,
    Workspace, take_patch,
};

type Done<T> = Result<T, Box<dyn Error>>;

const CHANGED_FILES: usize = 10;

fn main() -> ExitCode {
    let args: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    match operate(&args) {
        Ok(nanos) => {
            println!("{nanos}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn operate(args: &[PathBuf]) -> Done<u128> {
    let word = |n: usize| args.get(n).and_then(|a| a.to_str()).unwrap_or_default();
    let path = |n: usize| args.get(n).map(PathBuf::as_path).ok_or("a path is missing");
    let begun = Instant::now();
    match word(0) {
        "ready" => {
            ready(path(1)?, path(2)?, path(3)?, word(4))?;
            Ok(begun.elapsed().as_nanos())
        }
        "fingerprint" => {
            let repository = Repository::open(path(1)?, &path(2)?.join("source"))?;
            let found = repository.fingerprint()?;
            let nanos = begun.elapsed().as_nanos();
            println!("{} paths, clean: {}", found.path_count(), found.clean);
            Ok(nanos)
        }
        "diff" => diff(path(1)?, path(2)?, path(3)?, word(4)),
        other => Err(format!("there is no operation `{other}`").into()),
    }
}

/// What a run does between knowing its repository and starting its backend, but for the mount itself.
fn ready(cache: &Path, repo: &Path, place: &Path, kind: &str) -> Done<(Baseline, Workspace)> {
    let cache = BaselineCache::at(cache);
    let repository = Repository::open(repo, &place.join("source"))?;
    let commit = repository.resolve(None)?;
    let (made, layer) = repository.baseline_and_git(&commit, &cache, &|_| false, History::None)?;
    let workspace = if kind == "overlay" {
        Workspace::Overlay(OverlaidTree::make(&made.baseline, &place.join("upper"))?)
    } else {
        let copy = WorkingCopy::make(&made.baseline, &place.join("copy"))?;
        layer.copy_into(&copy)?;
        Workspace::Copy(copy)
    };
    Ok((made.baseline, workspace))
}

fn diff(cache: &Path, repo: &Path, place: &Path, kind: &str) -> Done<u128> {
    let (baseline, workspace) = ready(cache, repo, place, kind)?;
    let git_dir = GitDir::create(&place.join("git"))?;
    let root = match &workspace {
        Workspace::Overlay(tree) => tree.upper().to_owned(),
        Workspace::Copy(copy) => copy.path().to_owned(),
    };
    let step = baseline.manifest.len() / CHANGED_FILES;
    for (path, _) in baseline.manifest.iter().step_by(step.max(1)) {
        let (from, to) = (
            baseline.root.join(path.as_path()),
            root.join(path.as_path()),
        );
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        let content = fs::read(from)?;
        let mut file = fs::File::create(&to)?;
        file.write_all(&content)?;
        file.write_all(b"a line more\n")?;
    }
    let begun = Instant::now();
    let found = workspace.changes()?;
    let patch = take_patch(
        &git_dir,
        &baseline,
        &workspace,
        &found.changes,
        &place.join("patch.diff"),
        &PatchCaps::default(),
    )?;
    let nanos = begun.elapsed().as_nanos();
    println!("{} changes, {} bytes", found.changes.len(), patch.bytes);
    Ok(nanos)
}
