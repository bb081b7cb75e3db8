//! The machine-readable code of an error, and what to do next: what every face shows beside the message.

use cto_contract::trust::Origin;

use crate::config::ConfigError;
use crate::harness::{HarnessError, RunError};
use crate::home::HomeError;
use crate::lock::LockError;
use crate::reserve::is_full;

/// A directory of authority is refused for the same reasons as a home, under its own name.
const fn directory_code(error: &HomeError) -> &'static str {
    match error {
        HomeError::Unknown => "config_unknown",
        HomeError::NotText(_) => "config_not_text",
        HomeError::Relative(_) => "config_relative",
        HomeError::Create { .. } => "config_not_created",
        HomeError::Read { .. } => "config_unreadable",
        HomeError::NotADirectory(_) => "config_not_a_directory",
        HomeError::ForeignOwner { .. } => "config_foreign_owner",
        HomeError::LooseMode { .. } => "config_loose_mode",
        HomeError::ReadOnly { .. } => "config_read_only",
    }
}

impl ConfigError {
    /// Machine-readable code of the error.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Directory(home) => directory_code(home),
            Self::Read { .. } => "config_unreadable",
            Self::Invalid(_) => "config_invalid",
            Self::KeyId { .. } => "trust_keyid_mismatch",
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Directory(home) => Some(home.hint()),
            Self::Read { .. } => None,
            Self::Invalid(_) => Some(
                "`cto schema harness-config` and `cto schema trust` print the formats".to_owned(),
            ),
            Self::KeyId { .. } => {
                Some("remove the file and add the key again with `cto trust add`".to_owned())
            }
        }
    }
}

impl HarnessError {
    /// Machine-readable code of the error.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Home(error) => error.code(),
            Self::Config(error) => error.code(),
            Self::Keyring(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Random(_) => "no_randomness",
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Home(error) => Some(error.hint()),
            Self::Config(error) => error.hint(),
            Self::Keyring(error) => error.hint(),
            Self::Store(_) | Self::Random(_) => None,
        }
    }
}

impl RunError {
    /// Machine-readable code of the error.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Case(error) => error.code(),
            Self::StageNeedsRepository(_) => "stage_needs_repository",
            Self::FakeNeedsCase => "fake_needs_case",
            Self::RepositoryNeedsStage => "repository_needs_stage",
            Self::NoCommand => "command_missing",
            Self::Repository(_) => "repository_unusable",
            Self::Input(_) => "input_refused",
            Self::NamedFile(_) => "named_file_refused",
            Self::ReadPath(_) => "read_path_refused",
            Self::SecretInContract { .. } => "contract_secret",
            Self::Sandbox(_) => "sandbox_refused",
            Self::KeyDoesNotCount { .. } => "key_does_not_count",
            Self::Create(_) => "run_not_created",
            Self::Lock(_) => "run_locked",
            Self::Journal { .. } => "log_not_written",
            Self::Seal { .. } => "seal_failed",
            Self::NotVerified { .. } => "sealed_pack_broken",
            Self::Store(error) => error.code(),
            Self::Random(_) => "no_randomness",
        }
    }

    /// What to do next.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::StageNeedsRepository(_) => {
                "ask for stage 1 or 2, by --stage or by the lane's environment name"
            }
            Self::FakeNeedsCase => {
                "add `--engine command`, and after `--` the program that does the work"
            }
            Self::RepositoryNeedsStage => {
                "ask for stage 3, by --stage and by the lane's environment name"
            }
            Self::NoCommand => "name the program and its arguments after `--`",
            Self::Repository(_) => {
                "name a directory of a git repository with --repo, and a commit of it with --base"
            }
            Self::Input(_) => {
                "name only what the tests need, such as `node_modules/`, under `inputs`"
            }
            Self::NamedFile(_) => {
                "copy it to a place of its own, such as `/opt/agent`, and name it there"
            }
            Self::ReadPath(_) => {
                "name a directory of programs and nothing of yours under `read_paths`"
            }
            Self::SecretInContract { .. } => {
                "take the secret out of the contract, and change it where it is used"
            }
            Self::Sandbox(_) => {
                "name a provider with --sandbox: native, bwrap, podman, docker or none"
            }
            Self::KeyDoesNotCount {
                origin: Origin::Unknown,
                ..
            } => {
                "trust it in this configuration (`cto key show`, `cto trust add`), or name the configuration of this home with --config"
            }
            Self::KeyDoesNotCount { .. } => "`cto key rotate` puts it aside and makes a new one",
            Self::Create(_) => "`cto doctor` looks at home and disk",
            Self::Journal { .. } | Self::Seal { .. } => {
                "`cto recover` seals the run as interrupted"
            }
            Self::NotVerified { run_id, .. } => {
                return Some(format!("`cto verify {run_id}` shows everything"));
            }
            Self::Store(_) => "`cto recover` finishes a run that was left open",
            Self::Lock(LockError::Io { source, .. }) if is_full(source) => {
                "free some space on the disk of the home directory; `cto gc` says what it can remove"
            }
            Self::Case(_) | Self::Lock(_) | Self::Random(_) => return None,
        };
        Some(hint.to_owned())
    }
}
