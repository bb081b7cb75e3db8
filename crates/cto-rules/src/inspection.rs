//! Searches what a backend is given for places that it must not know: the source, a target, evidence, keys.

use cto_contract::stage_proof::{InspectedPlace, TargetInspection};

/// Most places that one list names.
const LISTED_MAX: usize = 200;

/// A place that must not be named, and what a pack calls it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sought {
    pub name: String,
    pub path: String,
}

/// One of a backend's inputs: its name in a pack, and its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    pub name: String,
    pub bytes: Vec<u8>,
}

impl Given {
    pub fn new(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            name: name.into(),
            bytes: bytes.into(),
        }
    }
}

/// Everything that a backend is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inputs {
    pub task_contract: Vec<Given>,
    pub command_arguments: Vec<Given>,
    pub runtime_inputs: Vec<Given>,
    pub environment: Vec<Given>,
    pub config: Vec<Given>,
}

/// Searches every input for every place.
pub fn inspect(sought: &[Sought], inputs: &Inputs) -> TargetInspection {
    let mut names: Vec<String> = sought.iter().map(|s| s.name.clone()).collect();
    names.dedup();
    let place = |given: &[Given]| search(sought, given);
    TargetInspection {
        sought: names,
        task_contract: place(&inputs.task_contract),
        command_arguments: place(&inputs.command_arguments),
        runtime_inputs: place(&inputs.runtime_inputs),
        environment: place(&inputs.environment),
        config: place(&inputs.config),
    }
}

fn search(sought: &[Sought], given: &[Given]) -> InspectedPlace {
    let mut place = InspectedPlace::default();
    for input in given {
        if place.searched.len() < LISTED_MAX {
            place.searched.push(input.name.clone());
        }
        for one in sought.iter().filter(|one| names(&input.bytes, &one.path)) {
            let found = format!("{}: {}", input.name, one.name);
            if place.found.len() < LISTED_MAX && !place.found.contains(&found) {
                place.found.push(found);
            }
        }
    }
    place
}

/// Whether the bytes name the path or something below it. `/srv/app` is not named by `/srv/app-2`.
fn names(bytes: &[u8], path: &str) -> bool {
    let path = path.trim_end_matches('/').as_bytes();
    if path.len() < 2 || bytes.len() < path.len() {
        return false;
    }
    let continues = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let mut at = bytes.windows(path.len()).enumerate();
    at.any(|(start, window)| {
        window == path && bytes.get(start + path.len()).is_none_or(|b| !continues(*b))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sought(path: &str) -> Vec<Sought> {
        vec![Sought {
            name: "source repository".to_owned(),
            path: path.to_owned(),
        }]
    }

    fn in_arguments(text: &[u8]) -> TargetInspection {
        let inputs = Inputs {
            command_arguments: vec![Given::new("argument 1", text)],
            ..Inputs::default()
        };
        inspect(&sought("/srv/app"), &inputs)
    }

    #[test]
    fn a_path_is_found_by_itself_and_by_what_lies_below_it() {
        for text in [
            "/srv/app",
            "cd /srv/app/src",
            "x=/srv/app:",
            "\"/srv/app\"",
            "/srv/app,",
        ] {
            let seen = in_arguments(text.as_bytes());
            assert!(seen.is_found(), "{text}");
            assert_eq!(
                seen.command_arguments.found,
                ["argument 1: source repository"]
            );
        }
    }

    #[test]
    fn another_path_that_begins_alike_is_not_found() {
        for text in [
            "/srv/app2",
            "/srv/app-old",
            "/srv/ap",
            "srv/app",
            "/srv/app.git",
            "",
        ] {
            assert!(!in_arguments(text.as_bytes()).is_found(), "{text}");
        }
    }

    #[test]
    fn every_place_is_searched_and_says_what_was() {
        let given = || vec![Given::new("x", "see /srv/app")];
        let inputs = Inputs {
            task_contract: given(),
            command_arguments: given(),
            runtime_inputs: given(),
            environment: given(),
            config: given(),
        };
        let seen = inspect(&sought("/srv/app/"), &inputs);
        for (name, place) in seen.named() {
            assert_eq!(place.searched, ["x"], "{name}");
            assert_eq!(place.found, ["x: source repository"], "{name}");
        }
        let clean = inspect(&sought("/srv/other"), &inputs);
        assert!(!clean.is_found());
        assert_eq!(clean.sought, ["source repository"]);
    }

    proptest! {
        #[test]
        fn wherever_it_stands_a_path_is_found(before in "[ -~]{0,20}", after in "[ /:\"']?") {
            let text = format!("{before}/srv/app{after}");
            prop_assert!(in_arguments(text.as_bytes()).is_found());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64), path in any::<String>()) {
            let inputs = Inputs { config: vec![Given::new("x", bytes)], ..Inputs::default() };
            let _seen = inspect(&sought(&path), &inputs);
        }
    }
}
