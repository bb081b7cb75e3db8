//! A repository of our own making that holds a commit of another with all its history, and stands alone: no remote, no
//! hook, no borrowed object, nothing of the other's settings.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::git::Call;
use crate::git_dir::{GitDir, create};
use crate::landing::BranchName;
use crate::oid::Oid;
use crate::repository::error::RepositoryError;
use crate::repository::git_layer::Objects;
use crate::repository::{CONFIG_BYTES_MAX, CommitInfo, Repository, alternates};

const WALL: Duration = Duration::from_secs(1_800);
const CONFIG: &[u8] = b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n\tsymlinks = true\n\tignorecase = false\n\tprecomposeunicode = false\n";

impl Repository {
    /// Makes a repository at `place`, which must not exist yet, with `branch` checked out at a commit of this one.
    pub fn make_disposable(
        &self,
        commit: &CommitInfo,
        branch: &BranchName,
        place: &Path,
    ) -> Result<(), RepositoryError> {
        let place = std::path::absolute(place).map_err(RepositoryError::write(place))?;
        std::fs::create_dir(&place).map_err(RepositoryError::write(&place))?;
        let git = place.join(".git");
        let git_dir = GitDir::create(&git)?;
        git_dir.replace("config", CONFIG)?;
        git_dir.replace("HEAD", format!("ref: {}\n", branch.as_str()).as_bytes())?;
        let cuts = self.place.common_dir.bytes("shallow", CONFIG_BYTES_MAX)?;
        if let Some(cuts) = cuts.filter(|_| self.is_shallow().unwrap_or(true)) {
            git_dir.replace("shallow", &cuts)?;
        }
        let borrowed = self.git_dir.path().join("objects");
        let lenders = alternates::encode([borrowed.as_path()]);
        git_dir.replace("objects/info/alternates", &lenders)?;
        self.pack(&git, &Objects::Ancestors(commit.id))?;
        // From here on it has to stand alone.
        let lenders = git.join("objects/info/alternates");
        std::fs::remove_file(&lenders).map_err(RepositoryError::write(lenders))?;
        write_branch(&git, branch, commit.id)?;
        for (verb, arguments) in [
            ("read-tree", vec![commit.tree.to_string()]),
            ("checkout-index", vec!["-a".to_owned(), "-q".to_owned()]),
            (
                "update-index",
                vec!["-q".to_owned(), "--refresh".to_owned()],
            ),
        ] {
            let call = Call {
                verb,
                arguments,
                git_dir: &git,
                work_tree: Some(&place),
                wall: WALL,
                output_bytes_max: 1 << 20,
            };
            let finished = call.run(Stdio::null(), &mut io::sink())?;
            call.expect_success(finished, &[])?;
        }
        Ok(())
    }
}

fn write_branch(git: &Path, branch: &BranchName, commit: Oid) -> Result<(), RepositoryError> {
    let path = git.join(branch.as_str());
    let write = || -> io::Result<()> {
        std::fs::create_dir_all(path.parent().unwrap_or(git))?;
        let mut file = create(&path)?;
        io::Write::write_all(&mut file, format!("{commit}\n").as_bytes())?;
        file.sync_all()
    };
    write().map_err(RepositoryError::write(&path))
}
