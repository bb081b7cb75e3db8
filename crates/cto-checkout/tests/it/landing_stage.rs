//! A repository and a change to it that was checked, ready to land.

use std::fs;
use std::path::{Path, PathBuf};

use cto_checkout::{
    BranchName, CommitText, Landed, LandingError, LandingRequest, Oid, Person, Prepared, TreeId,
    prepare,
};
use cto_contract::task::BranchUpdate;
use cto_contract::words::{MutationMode, RunStatus, SandboxClass};
use cto_rules::landing::{LandingFacts, LandingGrant, decide};

use crate::repository_stage::Owner;
use crate::stage::{git, put, sh};

pub(crate) fn write(path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
    put(path.as_ref(), content.as_ref());
}

pub(crate) const RUN: &str = "20260601T105222Z-app-task-k3v9qd";

pub(crate) fn grant(tree: TreeId) -> LandingGrant {
    let tree: cto_contract::ids::TreeId = tree.to_string().parse().unwrap();
    decide(&LandingFacts {
        run_id: RUN.parse().unwrap(),
        pack_digest: Some("0".repeat(64).parse().unwrap()),
        pack_verifies: true,
        ledger_agrees: true,
        status: RunStatus::Pass,
        mode: MutationMode::OwnedNoncriticalRepo,
        sandbox: SandboxClass::Full,
        consumed_approval: Some(cto_contract::approval::GrantConsumed {
            request_id: "rq-aaaaaaaaaaaaaaaa".parse().unwrap(),
            grant_seq: 3,
            grant_digest: "0".repeat(64).parse().unwrap(),
            run_id: RUN.parse().unwrap(),
            epoch: 4,
            at: "2026-06-01T10:52:22Z".parse().unwrap(),
        }),
        checked_tree: Some(tree.clone()),
        landing_tree: tree,
    })
    .unwrap()
}

pub(crate) fn text() -> CommitText {
    CommitText {
        author: Person::new("command", "command@lane.invalid").unwrap(),
        committer: Person::new("An Operator", "operator@example.com").unwrap(),
        at: 1_780_000_000,
        message: format!("Change something\n\nCTO-Run: {RUN}\n"),
    }
}

/// A change that was checked: a patch against the head of the owner's repository, and the tree that it gives.
pub(crate) struct Checked {
    pub(crate) owner: Owner,
    pub(crate) base: Oid,
    pub(crate) patch: PathBuf,
    pub(crate) tree: TreeId,
    pub(crate) number: std::cell::Cell<u32>,
}

impl Checked {
    /// Changes a clone of the repository by a script.
    pub(crate) fn new(owner: Owner, script: &str) -> Self {
        let clone = owner.dir.path().join("clone");
        let from = owner.repo.to_str().unwrap();
        git(owner.dir.path(), &["clone", "-q", from, "clone"]);
        sh(&clone, script);
        git(&clone, &["add", "-A", "-f"]);
        let tree = git(&clone, &["write-tree"]).trim().parse().unwrap();
        let patch = owner.dir.path().join("patch.diff");
        git(
            &clone,
            &[
                "diff",
                "--cached",
                "--binary",
                "--full-index",
                "--no-renames",
                &format!("--output={}", patch.display()),
                "HEAD",
            ],
        );
        let base = owner.git(&["rev-parse", "HEAD"]).parse().unwrap();
        Self {
            owner,
            base,
            patch,
            tree,
            number: std::cell::Cell::new(0),
        }
    }

    pub(crate) fn scratch(&self) -> PathBuf {
        self.number.set(self.number.get() + 1);
        let name = format!("landing-{}.git", self.number.get());
        self.owner.dir.path().join(name)
    }

    pub(crate) fn prepare(&self, branch: &str, update: BranchUpdate) -> Prepared {
        self.try_prepare(branch, update, self.tree).unwrap()
    }

    pub(crate) fn try_prepare(
        &self,
        branch: &str,
        update: BranchUpdate,
        tree: TreeId,
    ) -> Result<Prepared, LandingError> {
        let branch = BranchName::parse(branch)?;
        let name = branch.as_str();
        let expected = self
            .owner
            .git(&["for-each-ref", "--format=%(objectname)", name]);
        let request = LandingRequest {
            patch: &self.patch,
            tree,
            base: self.base,
            branch: &branch,
            expected: (!expected.is_empty()).then(|| expected.parse().unwrap()),
            update,
            left_alone: None,
            text: &text(),
        };
        prepare(&self.owner.open(), &request, &self.scratch())
    }

    pub(crate) fn land(&self, prepared: &Prepared) -> Result<Landed, LandingError> {
        prepared.land(&self.owner.open(), grant(prepared.tree()))
    }

    /// Lands in one go.
    pub(crate) fn lands(&self, branch: &str, update: BranchUpdate) -> Result<Landed, LandingError> {
        self.land(&self.prepare(branch, update))
    }

    /// Everything that a refused landing must leave as it was.
    pub(crate) fn state(&self) -> String {
        let found = sh(
            &self.owner.repo,
            "find . -path ./.git/objects -prune -o -type f -printf '%p %m %s %T@ %C@\\n' | sort; \
             find . -type d -printf '%p %m\\n' | sort; git for-each-ref; cat .git/HEAD; find .git/objects -type f | sort",
        );
        assert!(!found.is_empty());
        found
    }

    pub(crate) fn is_sound(&self) {
        assert_eq!(self.owner.git(&["status", "--porcelain"]), "");
        self.owner.git(&["fsck", "--strict", "--no-dangling"]);
        for left in ["cto.lock", "index.lock", "cto-landing"] {
            assert!(!self.owner.repo.join(".git").join(left).exists(), "{left}");
        }
        let objects = fs::read_dir(self.owner.repo.join(".git/objects")).unwrap();
        for entry in objects {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(!name.starts_with("tmp_"), "{name}");
        }
    }
}

pub(crate) fn small() -> Owner {
    Owner::with(&[("a", "1\n"), ("d/b", "2\n"), ("e/f/g", "3\n")])
}

pub(crate) const EDIT: &str =
    "echo changed > a; rm -r e; mkdir -p n/m; echo new > n/m/x; chmod +x d/b; ln -s a l";
