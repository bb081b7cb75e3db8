//! Inputs that bring more into the workspace than tests need, as far as their names tell.

use std::path::Path;

use cto_contract::input::InputPath;

use crate::inputs::{InputFacts, judge_input};

/// Says what is wrong with the place that an input comes from. A run judges it again by where it really lies.
pub(super) fn danger(from: &InputPath) -> Option<String> {
    // Stand-ins for places that are known only on a machine.
    let (repository, home) = (Path::new("/repository"), Path::new("/~"));
    let path = match from {
        InputPath::Repository(path) => repository.join(path),
        InputPath::Home(path) => home.join(path),
        InputPath::Absolute(path) => Path::new("/").join(path),
    };
    let facts = InputFacts {
        path: &path,
        repository: Some(repository.to_owned()),
        user_homes: vec![home.to_owned()],
        harness: vec![home.join(".local/state/cto"), home.join(".config/cto")],
        other_repository: None,
    };
    if let Some(why) = judge_input(&facts) {
        return Some(format!("is refused: {why}"));
    }
    if path.extension().is_some_and(|e| e == "sock") {
        return Some("is a socket, which answers even when it can't be written".to_owned());
    }
    let is_secret = |part: &str| {
        part == ".env" || part.starts_with(".env.") || part == "secrets" || part == "credentials"
    };
    if from.to_string().split('/').any(is_secret) {
        return Some("looks like a place for secrets".to_owned());
    }
    let in_somebodys_home = matches!(from, InputPath::Absolute(path)
        if ["home/", "root/", "Users/"].iter().any(|top| path.starts_with(top)));
    in_somebodys_home.then(|| "is a place of this machine; write it with `~/`".to_owned())
}
