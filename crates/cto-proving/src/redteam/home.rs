//! Whether the red team can have its runs below a home: inside, its programs must be seen where they lie.

use std::path::{Path, PathBuf};

use cto_rules::inputs::{InputFacts, InputRefusal, judge_input};

/// Why a home is none for the red team.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnfitHome {
    #[error(
        "the red team needs a home that is not below `/tmp`: inside, that is the agent's own, and a name that is missing \
         there is no attempt at anything"
    )]
    InTmp,
    #[error(
        "the programs of the red team would lie below home, where nobody inside is shown them: {0}"
    )]
    NotShown(InputRefusal),
}

impl UnfitHome {
    /// Machine-readable code of the error.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InTmp => "home_in_tmp",
            Self::NotShown(_) => "home_not_shown",
        }
    }
}

/// Refuses a home whose files nobody inside would see. `user_home` is the operator's.
pub fn check_home(root: &Path, user_home: Option<PathBuf>) -> Result<(), UnfitHome> {
    let real = root.canonicalize();
    let path = real.as_deref().unwrap_or(root);
    if path.starts_with("/tmp") {
        return Err(UnfitHome::InTmp);
    }
    let refused = judge_input(&InputFacts {
        path,
        repository: None,
        user_homes: user_home.into_iter().collect(),
        harness: Vec::new(),
        other_repository: None,
    });
    refused.map_or(Ok(()), |why| Err(UnfitHome::NotShown(why)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_must_be_seen_inside() {
        let code = |root: &str| {
            let user = Some(PathBuf::from("/home/you"));
            check_home(Path::new(root), user).map_or_else(|e| e.code(), |()| "fit")
        };
        assert_eq!(code("/tmp/home"), "home_in_tmp");
        assert_eq!(code("/home/you/.ssh/home"), "home_not_shown");
        assert_eq!(code("/srv/cto-home"), "fit");
    }
}
