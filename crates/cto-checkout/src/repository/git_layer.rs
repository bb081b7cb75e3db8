//! The `.git` an agent works with: made here, complete in itself, with nothing of the owner's but the objects of the
//! baseline. It lies beside the baseline in the cache, as one more layer of an overlay or to be copied.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::{getegid, geteuid};

use crate::baseline::{BaselineCache, Freshness};
use crate::beneath;
use crate::git::{Call, GitError};
use crate::git_dir::ObjectKind;
use crate::manifest::{EntryMode, Manifest, Trees};
use crate::oid::{Oid, TreeId};
use crate::remove::remove_tree;
use crate::repository::blobs::questions;
use crate::repository::error::{RepositoryError, UnsupportedKind};
use crate::repository::index_file::{self, Owner};
use crate::repository::layer_record::{files_of, is_intact, write_record};
use crate::repository::source_baseline::{Chosen, SourceBaseline};
use crate::repository::{CommitInfo, OBJECT_SETTINGS, Repository, alternates, object_id};
use crate::stamp::Stamp;
use crate::tree_path::TreePath;
use crate::tree_writer;
use crate::working_copy::WorkingCopy;

const PACK_WALL: Duration = Duration::from_secs(1_800);
const HEAD: &[u8] = b"ref: refs/heads/work\n";
/// Times of files are compared by whole seconds and sizes alone: an overlay and a copy have other inodes.
const CONFIG: &[u8] = b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tcheckStat = minimal\n\ttrustctime = false\n[gc]\n\tauto = 0\n[user]\n\tname = agent\n\temail = agent@invalid\n";
/// The files are the bytes of the tree, so nothing may be converted on the way into the index either.
const ATTRIBUTES: &[u8] = b"* -text -ident -filter -working-tree-encoding\n";
/// State that the lane `case` keeps in the tree: no agent is to see it as a change of its own.
const EXCLUDE: &[u8] = b"/.case/\n";
const COMMIT_TAIL: &str = "author harness <harness@invalid> 946684800 +0000\ncommitter harness <harness@invalid> 946684800 +0000\n\nbaseline\n";
/// How much of the past an agent is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// One commit without parents that holds the baseline.
    None,
    /// The baseline's commit and its ancestors; nothing later, no other branch, no tag.
    Ancestors,
}

/// A directory that holds `.git` and nothing else.
#[derive(Clone, Debug)]
pub struct GitLayer {
    pub root: PathBuf,
    /// The commit that the branch `work` stands on.
    pub head: Oid,
    pub freshness: Freshness,
    manifest: Arc<Manifest>,
}

/// What a `.git` will be, as far as it follows from the tree and the commit alone.
pub(super) struct Design {
    pub(super) tree_id: TreeId,
    history: History,
    pub(super) head: Oid,
    /// Of the layer's directory beside the baseline.
    pub(super) name: String,
    /// The object of the one commit, if it is made here.
    pub(super) commit: Vec<u8>,
}

/// Where a layer without an index lies, and the trees that it holds.
pub(super) type Begun = (PathBuf, Trees);

impl Design {
    /// One commit without parents.
    pub(super) fn without_history(tree_id: TreeId) -> Self {
        let commit = format!("tree {tree_id}\n{COMMIT_TAIL}").into_bytes();
        Self {
            tree_id,
            history: History::None,
            head: object_id(ObjectKind::Commit, &commit),
            name: "git-none-main".to_owned(),
            commit,
        }
    }

    pub(super) fn layer(
        &self,
        place: &Path,
        manifest: &Arc<Manifest>,
        freshness: Freshness,
    ) -> GitLayer {
        GitLayer {
            root: place.join(&self.name),
            head: self.head,
            freshness,
            manifest: Arc::clone(manifest),
        }
    }
}

impl Repository {
    /// Returns the `.git` for a baseline of this repository, made once for each tree and kept beside it in the cache.
    pub fn git_layer(
        &self,
        source: &SourceBaseline,
        history: History,
        cache: &BaselineCache,
    ) -> Result<GitLayer, RepositoryError> {
        let tree_id = source.baseline.tree_id;
        let design = self.design(tree_id, &source.commit, &source.withheld, history)?;
        let place = cache.place(&tree_id);
        let manifest = &source.baseline.manifest;
        if is_intact(&place, &design.name) {
            return Ok(design.layer(&place, manifest, Freshness::Checked));
        }
        let _lock = cache.lock(&tree_id)?;
        if is_intact(&place, &design.name) {
            return Ok(design.layer(&place, manifest, Freshness::Checked));
        }
        let stamps = cache.stamps(&source.baseline);
        let stamps = stamps.ok_or_else(|| RepositoryError::Read {
            path: source.baseline.root.clone(),
            source: io::Error::other("the baseline is no longer what it was"),
        })?;
        let begun = self.begin_layer(&design, manifest, cache)?;
        finish_layer(&design, &begun, manifest, &stamps, cache)?;
        Ok(design.layer(&place, manifest, Freshness::Written))
    }

    /// Returns the tree of a commit and its `.git`, as [`Self::baseline`] and [`Self::git_layer`] do one after the other.
    /// Where the tree is not in the cache, its objects are packed while its files are written.
    pub fn baseline_and_git(
        &self,
        commit: &CommitInfo,
        cache: &BaselineCache,
        withheld: &dyn Fn(&TreePath) -> bool,
        history: History,
    ) -> Result<(SourceBaseline, GitLayer), RepositoryError> {
        let layered = |source: SourceBaseline| {
            let layer = self.git_layer(&source, history, cache)?;
            Ok((source, layer))
        };
        let kept = match self.choose(commit, cache, withheld)? {
            Chosen::Cached(source) => return layered(source),
            Chosen::Absent(kept) => kept,
        };
        let design = self.design(kept.tree_id, commit, &kept.withheld, history)?;
        let lock = cache.lock(&kept.tree_id)?;
        if let Some(baseline) = cache.get(&kept.tree_id) {
            drop(lock);
            return layered(kept.into_source(baseline, commit));
        }
        let (written, begun) = std::thread::scope(|scope| {
            let packing = scope.spawn(|| self.begin_layer(&design, &kept.manifest, cache));
            let written = self.write_kept(&kept, cache);
            let lost = |_| {
                Err(RepositoryError::Answer {
                    verb: "pack-objects",
                })
            };
            (written, packing.join().unwrap_or_else(lost))
        });
        let (baseline, stamps) = match written {
            Ok(written) => written,
            Err(error) => {
                if let Ok((begun, _)) = begun {
                    remove_tree(&begun)?;
                }
                return Err(error);
            }
        };
        finish_layer(&design, &begun?, &baseline.manifest, &stamps, cache)?;
        let place = cache.place(&kept.tree_id);
        let layer = design.layer(&place, &baseline.manifest, Freshness::Written);
        Ok((kept.into_source(baseline, commit), layer))
    }

    fn design(
        &self,
        tree_id: TreeId,
        commit: &CommitInfo,
        withheld: &[TreePath],
        history: History,
    ) -> Result<Design, RepositoryError> {
        match history {
            History::None => Ok(Design::without_history(tree_id)),
            History::Ancestors => {
                self.may_show_history(withheld)?;
                Ok(Design {
                    tree_id,
                    history,
                    head: commit.id,
                    name: format!("git-{}-main", commit.id),
                    commit: Vec::new(),
                })
            }
        }
    }

    /// Makes all of a layer but its index. Who calls this holds the lock of its tree.
    fn begin_layer(
        &self,
        design: &Design,
        manifest: &Manifest,
        cache: &BaselineCache,
    ) -> Result<Begun, RepositoryError> {
        let trees = manifest.trees();
        let fresh = cache.fresh(format_args!("{}-{}", design.tree_id, design.name))?;
        let begin = || {
            let objects = match design.history {
                History::None => self.objects_of_tree(manifest, &trees, design)?,
                History::Ancestors => Objects::Ancestors(design.head),
            };
            self.make(&fresh, design.head, &objects)
        };
        if let Err(error) = begin() {
            remove_tree(&fresh)?;
            return Err(error);
        }
        Ok((fresh, trees))
    }

    fn may_show_history(&self, withheld: &[TreePath]) -> Result<(), RepositoryError> {
        if let Some(path) = withheld.first() {
            return Err(RepositoryError::unsupported(
                UnsupportedKind::HistoryShowsWithheld,
                format_args!("the history holds `{path}`, which is withheld"),
            ));
        }
        if self.is_shallow()? {
            return Err(RepositoryError::unsupported(
                UnsupportedKind::HistoryIsShallow,
                "the repository is a shallow clone, so its history is cut off",
            ));
        }
        Ok(())
    }

    /// Stores what the repository lacks of the tree, and lists all of it.
    fn objects_of_tree(
        &self,
        manifest: &Manifest,
        trees: &Trees,
        design: &Design,
    ) -> Result<Objects, RepositoryError> {
        self.git_dir
            .write_object(ObjectKind::Commit, &design.head, &design.commit)?;
        let known = self.known_trees(trees.values().map(|tree| &tree.oid))?;
        for tree in trees.values().filter(|tree| !known.contains(&tree.oid)) {
            self.git_dir
                .write_object(ObjectKind::Tree, &tree.oid, &tree.content)?;
        }
        let mut listed = vec![design.head];
        listed.extend(trees.values().map(|tree| tree.oid));
        listed.extend(manifest.iter().map(|(_, entry)| entry.oid));
        let mut seen = HashSet::with_capacity(listed.len());
        listed.retain(|oid| seen.insert(*oid));
        Ok(Objects::Listed(listed))
    }

    /// Returns which of these are there; with paths left out, the trees above them are not.
    fn known_trees<'a>(
        &self,
        ids: impl Iterator<Item = &'a Oid>,
    ) -> Result<BTreeSet<Oid>, RepositoryError> {
        let call = Call {
            verb: "cat-file",
            arguments: vec!["--batch-check=%(objectname)".into(), "--buffer".into()],
            git_dir: self.git_dir.path(),
            work_tree: None,
            wall: PACK_WALL,
            output_bytes_max: 1 << 30,
        };
        let input = questions(ids).map_err(|source| call.talk(source))?;
        let mut answer = Vec::new();
        let finished = call.run(input.into(), &mut answer)?;
        call.expect_success(finished, &[])?;
        // One that is missing has that word behind its id, and so is no id.
        let lines = answer.split(|&byte| byte == b'\n');
        Ok(lines
            .filter_map(|line| std::str::from_utf8(line).ok()?.parse().ok())
            .collect())
    }

    fn make(&self, layer: &Path, head: Oid, objects: &Objects) -> Result<(), RepositoryError> {
        rustix::fs::chmod(layer, rustix::fs::Mode::from_raw_mode(0o755))
            .map_err(|errno| RepositoryError::write(layer)(errno.into()))?;
        // Git is started elsewhere, so the path must not depend on where we are.
        let git = std::path::absolute(layer.join(".git")).map_err(RepositoryError::write(layer))?;
        make_git(&git)?;
        let borrowed = self.git_dir.path().join("objects");
        let lenders = alternates::encode([borrowed.as_path()]);
        write_heads(&git, head)?;
        write(&git, &[("objects/info/alternates", &lenders)])?;
        self.pack(&git, objects)?;
        // From here on it has to stand alone: the source is nowhere inside.
        let lenders = git.join("objects/info/alternates");
        std::fs::remove_file(&lenders).map_err(RepositoryError::write(lenders))
    }

    /// Puts the objects in one pack. What is a delta already is taken over as it is, and nothing new is searched for.
    pub(super) fn pack(&self, git: &Path, objects: &Objects) -> Result<(), RepositoryError> {
        let mut arguments: Vec<String> =
            ["-q", "--window=0", "--compression=1", "--delta-base-offset"]
                .map(str::to_owned)
                .into();
        let input = match objects {
            Objects::Listed(ids) => questions(ids.iter()),
            Objects::Ancestors(head) => {
                arguments.push("--revs".to_owned());
                questions(std::iter::once(head))
            }
        };
        arguments.push("objects/pack/pack".to_owned());
        let call = Call {
            verb: "pack-objects",
            arguments,
            git_dir: git,
            // Only for its working directory, so that the name of the pack needs no path that might not be text.
            work_tree: Some(git),
            wall: PACK_WALL,
            output_bytes_max: 1 << 20,
        };
        let input = input.map_err(|source| call.talk(source))?;
        let settings = [OBJECT_SETTINGS, PACK_SETTINGS].concat();
        let finished = call.run_with(&settings, input.into(), &mut io::sink())?;
        call.expect_success(finished, &[])
            .map_err(|error| match error {
                GitError::Failed { stderr, .. } if self.is_partial() => {
                    RepositoryError::unsupported(UnsupportedKind::MissingObjects, stderr)
                }
                error @ (GitError::Failed { .. }
                | GitError::Start { .. }
                | GitError::Talk { .. }
                | GitError::TimedOut { .. }
                | GitError::Waits { .. }
                | GitError::TooMuchOutput { .. }) => error.into(),
            })
    }
}

/// Durability is not needed of a cache that is checked when it is used.
const PACK_SETTINGS: &[&str] = &["core.fsync=none", "pack.writeReverseIndex=false"];

pub(super) enum Objects {
    Listed(Vec<Oid>),
    Ancestors(Oid),
}

impl GitLayer {
    /// Copies the `.git` into a working copy of the same baseline, with an index that fits the files that the copy knows.
    pub fn copy_into(&self, copy: &WorkingCopy) -> Result<(), RepositoryError> {
        let source = self.root.join(".git");
        let dest = copy.path().join(".git");
        let from = beneath::open_root(&source).map_err(RepositoryError::read(&source))?;
        make_git(&dest)?;
        let to = beneath::open_root(&dest).map_err(RepositoryError::write(&dest))?;
        for path in files_of(from.as_fd(), &source)? {
            if path.as_bytes() == b"index" {
                continue;
            }
            let copy_file = || -> io::Result<()> {
                let mut content = beneath::open_file(from.as_fd(), &path)?;
                make_above(to.as_fd(), &path)?;
                let mut file = beneath::create_file(to.as_fd(), &path, 0o644)?;
                if !crate::platform::clone_blocks(&content, &file) {
                    io::copy(&mut content, &mut file)?;
                }
                tree_writer::finish(&file, EntryMode::Regular).map(drop)
            };
            copy_file().map_err(RepositoryError::write(dest.join(path.as_path())))?;
        }
        // A file that a patch changed or removed is left without a stamp, so that git looks at it.
        let entries = self.manifest.iter();
        let stamps = entries.map(|(path, entry)| copy.stamp(path, entry).unwrap_or_default());
        let stamps: Vec<Stamp> = stamps.collect();
        let index = index_file::encode(&self.manifest, &stamps, owner(), &self.manifest.trees());
        write(&dest, &[("index", &index)])
    }
}

/// Makes the directory of a loose object, if it is not there.
pub(super) fn make_above(git: BorrowedFd<'_>, path: &TreePath) -> io::Result<()> {
    let above: TreePath = path.parent().into();
    if above.is_root() {
        return Ok(());
    }
    match beneath::make_directory(git, &above) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn owner() -> Owner {
    Owner {
        uid: geteuid().as_raw(),
        gid: getegid().as_raw(),
    }
}

/// Writes all but the objects: the branch `work` to work on, and `main` at the baseline to compare with.
pub(super) fn write_heads(git: &Path, head: Oid) -> Result<(), RepositoryError> {
    let head = format!("{head}\n");
    write(
        git,
        &[
            ("HEAD", HEAD),
            ("config", CONFIG),
            ("info/attributes", ATTRIBUTES),
            ("info/exclude", EXCLUDE),
            ("refs/heads/main", head.as_bytes()),
            ("refs/heads/work", head.as_bytes()),
        ],
    )
}

/// Adds the index of the files and puts the layer in its place beside the baseline.
pub(super) fn finish_layer(
    design: &Design,
    (begun, trees): &Begun,
    manifest: &Manifest,
    stamps: &[Stamp],
    cache: &BaselineCache,
) -> Result<(), RepositoryError> {
    let place = cache.place(&design.tree_id);
    let layer = place.join(&design.name);
    let finish = || {
        remove_tree(&layer)?;
        let index = index_file::encode(manifest, stamps, owner(), trees);
        write(&begun.join(".git"), &[("index", &index)])?;
        write_record(begun, &place.join(format!("{}.files", design.name)))?;
        renameat_with(CWD, begun.as_path(), CWD, &layer, RenameFlags::NOREPLACE)
            .map_err(|errno| RepositoryError::write(&layer)(errno.into()))
    };
    if let Err(error) = finish() {
        remove_tree(begun)?;
        return Err(error);
    }
    Ok(())
}

/// Makes the empty directories of a `.git`.
pub(super) fn make_git(git: &Path) -> Result<(), RepositoryError> {
    let root = tree_writer::make_root(git).map_err(RepositoryError::write(git))?;
    for name in [
        "info",
        "objects",
        "objects/info",
        "objects/pack",
        "refs",
        "refs/heads",
        "refs/tags",
    ] {
        beneath::make_directory(root.as_fd(), &name.into())
            .map_err(RepositoryError::write(git.join(name)))?;
    }
    Ok(())
}

pub(super) fn write(git: &Path, files: &[(&str, &[u8])]) -> Result<(), RepositoryError> {
    let root = beneath::open_root(git).map_err(RepositoryError::write(git))?;
    for (name, content) in files {
        tree_writer::write(root.as_fd(), &(*name).into(), EntryMode::Regular, content)
            .map_err(RepositoryError::write(git.join(name)))?;
    }
    Ok(())
}
