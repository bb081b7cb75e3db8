//! What of a repository stays out of the workspace.

use cto_contract::path::PathPattern;
use cto_contract::task::TaskContract;

use super::glob::{Broken, Glob};

/// The forbidden paths that nothing makes readable. Frozen ones are there to be read.
#[derive(Debug, Clone)]
pub struct Withheld {
    forbidden: Vec<Glob>,
    readable: Vec<Glob>,
}

impl Withheld {
    pub fn new(contract: &TaskContract) -> Self {
        let compile = |patterns: &[PathPattern], broken| {
            patterns
                .iter()
                .map(move |p| Glob::new(p, broken))
                .collect::<Vec<_>>()
        };
        let mut readable = compile(&contract.readable_paths, Broken::MatchesNothing);
        readable.extend(compile(&contract.frozen_paths, Broken::MatchesNothing));
        Self {
            forbidden: compile(&contract.forbidden_paths, Broken::MatchesEverything),
            readable,
        }
    }

    /// Whether a path is kept from backend and checks.
    pub fn holds(&self, path: &[u8]) -> bool {
        self.forbidden.iter().any(|g| g.matches(path))
            && !self.readable.iter().any(|g| g.matches(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_paths_are_absent_unless_they_are_named_readable_or_frozen() {
        let contract = TaskContract::read(
            "c",
            b"schema: cto.contract/v1\ntask_id: t\ntitle: t\ninstruction: t\nallowed_paths: [src/]\nforbidden_paths: [.env, '**/*.lock', secrets/, tests/]\nreadable_paths: ['**/*.lock', secrets/README]\nfrozen_paths: [tests/]\n",
        )
        .unwrap();
        let withheld = Withheld::new(&contract);
        let held: Vec<&str> = [
            ".env",
            "src/main.rs",
            "Cargo.lock",
            "a/yarn.lock",
            "secrets/key",
            "secrets/README",
            "tests/a.py",
        ]
        .into_iter()
        .filter(|path| withheld.holds(path.as_bytes()))
        .collect();
        assert_eq!(held, [".env", "secrets/key"]);
    }
}
