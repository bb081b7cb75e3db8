//! A place where commands run: a tree and scratch of its own, seen by all of them at one place.
//!
//! Where namespaces are to be had, backend, setup and every round of checks see their tree at the same path, so that
//! nothing that is built there depends on whose tree it is, and no test can tell from its path which round it is in.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use cto_agent::Places;
use cto_contract::input::{InputMode, InputPath};
use cto_sandbox::{
    Access, Bind, End, LaunchRequest, Launcher, Limits, Network, Overlay, Recorder, Root,
    StopToken, TreeLimits,
};

use crate::checks::GRACE;
use crate::home::Home;
use crate::inputs::{ResolvedInput, copy_tree};
use crate::inside::{Inside, ORACLE, SCRATCH, WORKSPACE};
use crate::overlay_note::OverlayNote;
use crate::room_names::RoomNames;

/// What trees and rooms are for, as far as more than one file speaks of them.
pub(crate) const BACKEND_TREE: &str = "backend's tree";
pub(crate) const BACKEND_ROOM: &str = "backend";
pub(crate) const CHECKED_TREE: &str = "checked tree";

/// What is the same for all rooms of a run.
pub(crate) struct Rooms {
    work: PathBuf,
    names: RoomNames,
    view: View,
    inputs: Vec<ResolvedInput>,
    recorder: Recorder,
}

/// What the commands of a run see of this machine.
pub(crate) enum View {
    /// A root of its own, with everything at the same place for everybody.
    Built(Inside),
    /// What that root would show, where it lies: nothing can be mounted.
    InPlace(Inside),
    /// Everything.
    Host,
}

/// The files that a room's commands see.
#[derive(Debug, Clone)]
pub(crate) enum Tree {
    Copy(PathBuf),
    /// Trees that nobody writes, the topmost first, and the directory that takes what is written.
    Overlay {
        lowers: Vec<PathBuf>,
        upper: PathBuf,
    },
}

/// Whether directories of an overlay must be able to get other names, which takes a recorder.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renames {
    Needed,
    /// Better without them than not at all.
    Optional,
}

pub(crate) struct Room {
    tree: Tree,
    /// Where it lies outside.
    directory: PathBuf,
    workspace: PathBuf,
    scratch: PathBuf,
    binds: Vec<Bind>,
    root: Root,
    /// Whether commands see their files elsewhere than where they lie.
    is_elsewhere: bool,
    recorder: Recorder,
    /// Besides what every process gets.
    env: BTreeMap<String, String>,
}

impl Rooms {
    pub(crate) fn new(
        (work, names): (&Path, &RoomNames),
        view: View,
        inputs: Vec<ResolvedInput>,
        recorder: Recorder,
    ) -> Self {
        Self {
            work: work.to_owned(),
            names: names.clone(),
            view,
            inputs,
            recorder,
        }
    }

    /// Where mounts of inputs go in a tree that is an overlay: a layer that holds nothing but their names.
    pub(crate) fn mount_points(&self) -> io::Result<Option<PathBuf>> {
        let layer = self.work.join("mount-points");
        let mut any = false;
        for input in &self.inputs {
            if let InputPath::Repository(path) = &input.path {
                make_point(&layer.join(path), input.is_directory)?;
                any = true;
            }
        }
        Ok(any.then_some(layer))
    }

    /// Where a tree of this run lies, by what it is for.
    pub(crate) fn place(&self, what: &str) -> PathBuf {
        self.names.place(what)
    }

    /// Makes a room, by what it is for: nobody inside sees that.
    pub(crate) fn room(&self, what: &str, tree: Tree) -> io::Result<Room> {
        let directory = self.names.place(what);
        let own_scratch = directory.join("scratch");
        for dir in ["home", "tmp"] {
            fs::create_dir_all(own_scratch.join(dir))?;
        }
        fs::create_dir_all(directory.join("logs"))?;
        if let Tree::Overlay { upper, .. } = &tree {
            fs::create_dir_all(upper)?;
        }
        let (workspace, scratch) = match (&self.view, &tree) {
            (View::Built(_), _) => (PathBuf::from(WORKSPACE), PathBuf::from(SCRATCH)),
            (View::InPlace(_) | View::Host, Tree::Copy(own)) => (own.clone(), own_scratch.clone()),
            (View::InPlace(_) | View::Host, Tree::Overlay { .. }) => {
                return Err(io::Error::other("an overlay needs mounts"));
            }
        };
        let mut binds = Vec::new();
        let mut bind = |from: &Path, at: &Path| {
            binds.push(Bind {
                from: from.to_owned(),
                at: at.to_owned(),
                access: Access::Writable,
            });
        };
        match self.view {
            View::Host => {}
            View::InPlace(_) => {
                bind(&scratch, &scratch);
                bind(&workspace, &workspace);
            }
            View::Built(_) => {
                bind(&own_scratch, &scratch);
                bind(&own_scratch.join("tmp"), Path::new("/tmp"));
                if let Tree::Copy(own) = &tree {
                    bind(own, &workspace);
                }
            }
        }
        let mut made = Room {
            tree,
            directory,
            workspace,
            scratch,
            binds,
            root: self.root_for(&own_scratch)?,
            is_elsewhere: matches!(self.view, View::Built(_)),
            recorder: self.recorder,
            env: self
                .inside()
                .into_iter()
                .filter_map(|i| {
                    Some((
                        "RUSTUP_HOME".to_owned(),
                        i.rustup.as_ref()?.to_string_lossy().into_owned(),
                    ))
                })
                .collect(),
        };
        for (number, input) in self.inputs.iter().enumerate() {
            made.add_input(number, input, &own_scratch)?;
        }
        Ok(made)
    }

    fn inside(&self) -> Option<&Inside> {
        match &self.view {
            View::Built(inside) | View::InPlace(inside) => Some(inside),
            View::Host => None,
        }
    }

    /// The root of a room. What is shown below a place that the room has for itself needs a point there.
    fn root_for(&self, own_scratch: &Path) -> io::Result<Root> {
        let inside = match &self.view {
            View::Host => return Ok(Root::Host),
            View::InPlace(inside) => return Ok(Root::Built(inside.root.clone())),
            View::Built(inside) => inside,
        };
        for shown in &inside.root.read_only {
            if let Ok(below) = shown.at.strip_prefix("/tmp") {
                make_point(&own_scratch.join("tmp").join(below), shown.from.is_dir())?;
            }
        }
        Ok(Root::Built(inside.root.clone()))
    }

    /// Whether an overlay over this tree can be mounted here, and serves as a tree does: tried, unless it is known of the
    /// same place.
    pub(crate) fn can_overlay(
        &self,
        home: &Home,
        launcher: &Launcher,
        lower: &Path,
        limits: Limits,
        stop: &StopToken,
        renames: Renames,
    ) -> bool {
        let View::Built(inside) = &self.view else {
            return false;
        };
        let note = OverlayNote::of(home, lower, &self.work);
        if note.as_ref().is_ok_and(OverlayNote::holds) {
            return true;
        }
        let Ok(request) = self.trial(inside, lower, limits) else {
            return false;
        };
        let launched = launcher.launch(&request, stop, &mut |_, _| {});
        let Some(outcome) = launched.ok().filter(|o| o.end == End::Exited(0)) else {
            return false;
        };
        // Who records also renames what the kernel does not.
        let recorded = outcome.recorded.is_some();
        if let (true, Ok(note)) = (recorded, note) {
            drop(note.keep());
        }
        recorded || renames == Renames::Optional
    }

    /// A launch that does nothing, in an overlay over this tree.
    fn trial(&self, inside: &Inside, lower: &Path, limits: Limits) -> io::Result<LaunchRequest> {
        let room = self.work.join("try");
        let part = |name: &str| room.join(name);
        for name in ["upper", "work"] {
            fs::create_dir_all(part(name))?;
        }
        Ok(LaunchRequest {
            argv: ["/bin/sh", "-c", "exit 0"].map(OsString::from).to_vec(),
            env: BTreeMap::new(),
            cwd: PathBuf::from(WORKSPACE),
            stdin: cto_sandbox::Stdin::Closed,
            binds: Vec::new(),
            overlay: Some(Overlay {
                lowers: vec![lower.to_owned()],
                upper: part("upper"),
                work: part("work"),
                at: PathBuf::from(WORKSPACE),
            }),
            limits,
            network: Network::None,
            grace: GRACE,
            root: Root::Built(inside.root.clone()),
            tree: TreeLimits::default(),
            run_as: None,
            recorder: self.recorder,
            endpoint: None,
        })
    }
}

impl Room {
    fn add_input(
        &mut self,
        number: usize,
        input: &ResolvedInput,
        own_scratch: &Path,
    ) -> io::Result<()> {
        let (at, point) = match &input.path {
            InputPath::Repository(path) => (
                self.workspace.join(path),
                match &self.tree {
                    Tree::Copy(own) => Some(own.join(path)),
                    // There is a layer for them.
                    Tree::Overlay { .. } => None,
                },
            ),
            InputPath::Home(path) => (
                self.scratch.join("home").join(path),
                Some(own_scratch.join("home").join(path)),
            ),
            InputPath::Absolute(path) => (Path::new("/").join(path), None),
        };
        if let Some(point) = point {
            make_point(&point, input.is_directory)?;
        }
        let (from, access) = match input.mode {
            InputMode::ReadOnly => (input.from.clone(), Access::ReadOnly),
            InputMode::Copy => {
                let own = self.directory.join("inputs").join(number.to_string());
                copy_tree(&input.from, &own)?;
                (own, Access::Writable)
            }
        };
        self.binds.push(Bind { from, at, access });
        Ok(())
    }

    /// The directory that takes what is written, when the tree is an overlay.
    pub(crate) fn upper(&self) -> Option<&Path> {
        match &self.tree {
            Tree::Copy(_) => None,
            Tree::Overlay { upper, .. } => Some(upper),
        }
    }

    /// The directories that make up the tree, the topmost first: a file is the first one found.
    pub(crate) fn layers(&self) -> Vec<&Path> {
        match &self.tree {
            Tree::Copy(own) => vec![own],
            Tree::Overlay { lowers, upper } => std::iter::once(upper)
                .chain(lowers)
                .map(PathBuf::as_path)
                .collect(),
        }
    }

    /// The directory that commands write their files of the tree into.
    pub(crate) fn written(&self) -> Option<&Path> {
        self.layers().into_iter().next()
    }

    /// Scratch as it lies outside.
    pub(crate) fn own_scratch(&self) -> PathBuf {
        self.directory.join("scratch")
    }

    /// Whether what its commands see can be mounted over.
    pub(crate) fn can_bind(&self) -> bool {
        self.is_elsewhere
    }

    /// A file for output that nobody inside is given.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.directory.join("logs").join(format!("{name}.log"))
    }

    /// What a pack calls the directories outside that make it up.
    pub(crate) fn outside(&self) -> Vec<(PathBuf, &'static str)> {
        let tree = self.written().map(|tree| (tree.to_owned(), "$WORKSPACE"));
        let scratch = (self.own_scratch(), "$SCRATCH");
        tree.into_iter().chain([scratch]).collect()
    }

    /// What is in the environment here besides what every process gets.
    pub(crate) fn more_env(&self) -> BTreeMap<String, String> {
        self.env.clone()
    }

    /// Where an oracle is seen inside.
    pub(crate) fn oracle_at(&self, from: &Path) -> PathBuf {
        match self.is_elsewhere {
            true => PathBuf::from(ORACLE),
            false => from.to_owned(),
        }
    }

    /// Where things are seen inside.
    pub(crate) fn places(&self) -> Places {
        let text = |p: &Path| p.to_string_lossy().into_owned();
        Places {
            workspace: text(&self.workspace),
            scratch: text(&self.scratch),
            home: text(&self.scratch.join("home")),
        }
    }

    /// What to launch here. `name` is that of one launch: an overlay needs a work directory that no mount has used.
    pub(crate) fn request(
        &self,
        name: &str,
        argv: Vec<OsString>,
        env: BTreeMap<OsString, OsString>,
        (limits, tree): (Limits, TreeLimits),
    ) -> io::Result<LaunchRequest> {
        let overlay = match &self.tree {
            Tree::Copy(_) => None,
            Tree::Overlay { lowers, upper } => {
                let work = self.directory.join(format!("work-{name}"));
                fs::create_dir_all(&work)?;
                Some(Overlay {
                    lowers: lowers.clone(),
                    upper: upper.clone(),
                    work,
                    at: self.workspace.clone(),
                })
            }
        };
        // Without namespaces all processes of this user would count, and nobody could look at the tree alone.
        let (limits, tree) = match self.is_elsewhere {
            true => (limits, tree),
            false => (
                Limits {
                    processes: None,
                    ..limits
                },
                TreeLimits::default(),
            ),
        };
        Ok(LaunchRequest {
            argv,
            env,
            cwd: self.workspace.clone(),
            stdin: cto_sandbox::Stdin::Closed,
            binds: self.binds.clone(),
            overlay,
            limits,
            network: Network::None,
            grace: GRACE,
            root: self.root.clone(),
            tree,
            run_as: None,
            recorder: self.recorder,
            endpoint: None,
        })
    }
}

/// An empty directory or file for something to be mounted on.
fn make_point(at: &Path, is_directory: bool) -> io::Result<()> {
    if is_directory {
        return fs::create_dir_all(at);
    }
    if let Some(above) = at.parent() {
        fs::create_dir_all(above)?;
    }
    match fs::File::create_new(at) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made.map(drop),
    }
}
