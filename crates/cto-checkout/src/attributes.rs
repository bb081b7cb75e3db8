//! What git would make of a tree's bytes when it writes them: conversion attributes, and a checkout to compare with.
//!
//! Attributes are read as data, from directories of our own that hold nothing but the attribute files of a tree. No
//! filter is configured here, so none is started.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::baseline::Baseline;
use crate::beneath;
use crate::changes::Change;
use crate::git::{Call, GitError};
use crate::git_dir::{GitDir, GitDirError, ObjectKind, create};
use crate::manifest::{Entry, EntryMode, Manifest, ManifestError};
use crate::platform::memory_file;
use crate::remove::{RemoveError, remove_tree};
use crate::repository::alternates;
use crate::scan::{ScanError, read_entry};
use crate::tree_path::{TreePath, is_gitattributes_name};

/// Attributes by which git writes other bytes than it keeps, into a work tree or an archive.
const CONVERTING: [&str; 7] = [
    "text",
    "eol",
    "ident",
    "filter",
    "working-tree-encoding",
    "crlf",
    "export-subst",
];
const GITATTRIBUTES: &[u8] = b".gitattributes";
const WALL: Duration = Duration::from_secs(120);
const OUTPUT_BYTES_MAX: u64 = 1 << 30;
/// All attribute files of a tree together.
const ATTRIBUTE_BYTES_MAX: u64 = 64 << 20;

/// A path whose conversion a change alters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlteredAttribute {
    pub path: TreePath,
    pub attribute: &'static str,
    pub before: String,
    pub after: String,
}

/// How the changed paths come out of a fresh checkout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloneLook {
    pub altered: Vec<AlteredAttribute>,
    /// Changed paths that came out with other bytes or another mode than they have.
    pub differing: Vec<TreePath>,
    /// Changed paths with conversion attributes, whose bytes depend on where they are written.
    pub converted: Vec<TreePath>,
    pub compared: usize,
}

/// Why it could not be told.
#[derive(Debug, thiserror::Error)]
pub enum AttributesError {
    #[error("the changes do not fit the baseline")]
    NotATree(#[from] ManifestError),
    #[error("an attribute file could not be read")]
    Read(#[from] ScanError),
    #[error("the attribute files have more than {ATTRIBUTE_BYTES_MAX} bytes")]
    TooLarge,
    #[error("could not write `{path}`")]
    Write { path: PathBuf, source: io::Error },
    #[error("could not write the objects of the checkout")]
    Store(#[from] GitDirError),
    #[error("git could not be asked about attributes")]
    Git(#[from] GitError),
    #[error("`git {verb}` gave an answer that can't be understood")]
    Answer { verb: &'static str },
    #[error("could not remove the checkout")]
    Remove(#[from] RemoveError),
}

/// Looks at a change. None when no tree of it has an attribute file: then git writes every byte as it is.
///
/// `objects` is the git directory that holds the blobs of the change.
pub fn look_at_clone(
    scratch: &Path,
    objects: &GitDir,
    baseline: &Baseline,
    workspace: &impl std::os::fd::AsFd,
    changes: &[Change],
) -> Result<Option<CloneLook>, AttributesError> {
    let is_attributes = |path: &TreePath| is_gitattributes_name(path.name());
    let touched = changes.iter().any(|change| is_attributes(&change.path));
    if !touched
        && !baseline
            .manifest
            .iter()
            .any(|(path, _)| is_attributes(path))
    {
        return Ok(None);
    }
    let after = baseline.manifest.with_changes(changes)?;
    let root = beneath::open_root(&baseline.root).map_err(|source| AttributesError::Write {
        path: baseline.root.clone(),
        source,
    })?;
    let changed: BTreeSet<&TreePath> = changes.iter().map(|change| &change.path).collect();
    let before_files = attribute_files(&baseline.manifest, |_| root.as_fd())?;
    let after_files = attribute_files(&after, |path| match changed.contains(path) {
        true => workspace.as_fd(),
        false => root.as_fd(),
    })?;
    remove_tree(scratch)?;
    make_dir(scratch)?;
    let plain = GitDir::create(&scratch.join("plain.git"))?;
    plain.replace("info/attributes", b"")?;
    let sides = Sides {
        scratch,
        git_dir: &plain,
    };
    let altered = match touched {
        true => sides.altered(
            &baseline.manifest,
            &after,
            &before_files,
            &after_files,
            changes,
        )?,
        false => Vec::new(),
    };
    let look = sides.check_out(objects, &after, &after_files, changes, altered)?;
    remove_tree(scratch)?;
    Ok(Some(look))
}

type AttributeFiles = BTreeMap<TreePath, Vec<u8>>;

/// The attribute files of a tree that git would read: regular files of that very name.
fn attribute_files<'r>(
    manifest: &Manifest,
    root: impl Fn(&TreePath) -> BorrowedFd<'r>,
) -> Result<AttributeFiles, AttributesError> {
    let mut files = AttributeFiles::new();
    let mut bytes = 0;
    for (path, entry) in manifest.iter() {
        if path.name() != GITATTRIBUTES || entry.mode == EntryMode::Symlink {
            continue;
        }
        bytes += entry.size;
        if bytes > ATTRIBUTE_BYTES_MAX {
            return Err(AttributesError::TooLarge);
        }
        files.insert(path.clone(), read_entry(root(path), path, entry)?);
    }
    Ok(files)
}

/// Where both sides of a change are asked about.
struct Sides<'a> {
    scratch: &'a Path,
    git_dir: &'a GitDir,
}

impl Sides<'_> {
    /// Paths of either tree whose attributes differ.
    fn altered(
        &self,
        before: &Manifest,
        after: &Manifest,
        before_files: &AttributeFiles,
        after_files: &AttributeFiles,
        changes: &[Change],
    ) -> Result<Vec<AlteredAttribute>, AttributesError> {
        let paths: BTreeSet<&TreePath> = before.iter().chain(after.iter()).map(|e| e.0).collect();
        let paths: Vec<&TreePath> = paths.into_iter().collect();
        let was = self.attributes("before", before_files, &paths)?;
        let is = self.attributes("after", after_files, &paths)?;
        let mut altered = Vec::new();
        for ((path, before), after) in paths.iter().zip(&was).zip(&is) {
            for ((attribute, before), after) in CONVERTING.iter().zip(before).zip(after) {
                if before != after {
                    altered.push(AlteredAttribute {
                        path: (*path).clone(),
                        attribute,
                        before: before.clone(),
                        after: after.clone(),
                    });
                }
            }
        }
        // Another spelling of the name is read where the file system folds it: nobody here can say what it does.
        let misspelt = changes.iter().filter(|change| {
            let name = change.path.name();
            is_gitattributes_name(name) && name != GITATTRIBUTES
        });
        altered.extend(misspelt.map(|change| AlteredAttribute {
            path: change.path.clone(),
            attribute: "every attribute",
            before: "known".to_owned(),
            after: "unknown".to_owned(),
        }));
        Ok(altered)
    }

    /// The values of the converting attributes, for each path in its order.
    fn attributes(
        &self,
        side: &str,
        files: &AttributeFiles,
        paths: &[&TreePath],
    ) -> Result<Vec<Vec<String>>, AttributesError> {
        let work_tree = self.scratch.join(side);
        make_dir(&work_tree)?;
        for (path, content) in files {
            let file = work_tree.join(path.as_path());
            let failed = |source| AttributesError::Write {
                path: file.clone(),
                source,
            };
            if let Some(parent) = file.parent() {
                std::fs::create_dir_all(parent).map_err(failed)?;
            }
            let written = create(&file).and_then(|mut file| file.write_all(content));
            written.map_err(failed)?;
        }
        let mut arguments: Vec<String> = ["-z", "--stdin"].map(str::to_owned).into();
        arguments.extend(CONVERTING.map(str::to_owned));
        let mut input = Vec::new();
        for path in paths {
            input.extend_from_slice(path.as_bytes());
            input.push(0);
        }
        let answer = self.git("check-attr", arguments, &work_tree, &input)?;
        parse(&answer, paths).ok_or(AttributesError::Answer { verb: "check-attr" })
    }

    /// Writes the changed paths as a clone would, and compares those that nothing converts.
    fn check_out(
        &self,
        objects: &GitDir,
        after: &Manifest,
        files: &AttributeFiles,
        changes: &[Change],
        altered: Vec<AlteredAttribute>,
    ) -> Result<CloneLook, AttributesError> {
        let written: Vec<(&TreePath, Entry)> = changes
            .iter()
            .filter_map(|change| Some((&change.path, change.after?)))
            .collect();
        let paths: Vec<&TreePath> = written.iter().map(|(path, _)| *path).collect();
        let attributes = self.attributes("changed", files, &paths)?;
        let mut look = CloneLook {
            altered,
            ..CloneLook::default()
        };
        let mut index: BTreeMap<&TreePath, Entry> = written.iter().copied().collect();
        for path in files.keys() {
            if let (Some(entry), Some(content)) = (after.get(path.as_bytes()), files.get(path)) {
                objects.write_object(ObjectKind::Blob, &entry.oid, content)?;
                index.insert(path, *entry);
            }
        }
        let clone = self.scratch.join("clone");
        make_dir(&clone)?;
        let mut lines = Vec::new();
        for (path, entry) in &index {
            write!(lines, "{} {}\t", entry.mode.as_octal(), entry.oid)
                .map_err(|source| self.failed(source))?;
            lines.extend_from_slice(path.as_bytes());
            lines.push(0);
        }
        let lenders = alternates::encode([objects.path().join("objects").as_path()]);
        self.git_dir.replace("objects/info/alternates", &lenders)?;
        let arguments = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect();
        self.git(
            "update-index",
            arguments(&["-z", "--index-info"]),
            &clone,
            &lines,
        )?;
        self.git(
            "checkout-index",
            arguments(&["--all", "--force", "--quiet"]),
            &clone,
            &[],
        )?;
        let root = beneath::open_root(&clone).map_err(|source| self.failed(source))?;
        for ((path, entry), attributes) in written.iter().zip(&attributes) {
            if attributes.iter().any(|value| is_converting(value)) {
                look.converted.push((*path).clone());
                continue;
            }
            look.compared += 1;
            if read_entry(root.as_fd(), path, entry).is_err() {
                look.differing.push((*path).clone());
            }
        }
        Ok(look)
    }

    fn failed(&self, source: io::Error) -> AttributesError {
        AttributesError::Write {
            path: self.scratch.to_owned(),
            source,
        }
    }

    fn git(
        &self,
        verb: &'static str,
        arguments: Vec<String>,
        work_tree: &Path,
        input: &[u8],
    ) -> Result<Vec<u8>, AttributesError> {
        let call = Call {
            verb,
            arguments,
            git_dir: self.git_dir.path(),
            work_tree: Some(work_tree),
            wall: WALL,
            output_bytes_max: OUTPUT_BYTES_MAX,
        };
        let file = || {
            let mut file = memory_file()?;
            file.write_all(input)?;
            file.rewind()?;
            Ok(file)
        };
        let file = file().map_err(|source| call.talk(source))?;
        let mut answer = Vec::new();
        let finished = call.run(file.into(), &mut answer)?;
        call.expect_success(finished, &[])?;
        Ok(answer)
    }
}

/// `unset` forbids a conversion as well as no word about it does.
fn is_converting(value: &str) -> bool {
    !matches!(value, "unspecified" | "unset")
}

/// Triples of path, attribute and value, in the order in which they were asked for.
fn parse(answer: &[u8], paths: &[&TreePath]) -> Option<Vec<Vec<String>>> {
    let mut fields = answer.split(|&byte| byte == 0);
    let mut all = Vec::with_capacity(paths.len());
    for path in paths {
        let mut values = Vec::with_capacity(CONVERTING.len());
        for attribute in CONVERTING {
            if fields.next()? != path.as_bytes() || fields.next()? != attribute.as_bytes() {
                return None;
            }
            values.push(String::from_utf8_lossy(fields.next()?).into_owned());
        }
        all.push(values);
    }
    (fields.next() == Some(b"") && fields.next().is_none()).then_some(all)
}

fn make_dir(path: &Path) -> Result<(), AttributesError> {
    use std::os::unix::fs::DirBuilderExt as _;
    let made = std::fs::DirBuilder::new().mode(0o700).create(path);
    made.map_err(|source| AttributesError::Write {
        path: path.to_owned(),
        source,
    })
}
