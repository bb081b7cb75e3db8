use std::collections::BTreeSet;

use super::*;

#[test]
fn every_behaviour_is_tried_in_a_scene_or_has_a_reason_not_to_be() {
    let numbers: Vec<u8> = CORPUS.iter().map(|b| b.number).collect();
    assert_eq!(numbers, (1..=66).collect::<Vec<u8>>());
    let tried: BTreeSet<u8> = scenes::every()
        .flat_map(|scene| scene.tries.iter().map(|(number, _)| *number))
        .collect();
    for behaviour in CORPUS {
        let number = behaviour.number;
        if not_covered(number).is_none() {
            assert!(tried.contains(&number), "{number} is in no scene");
            assert!(!behaviour.how.is_empty(), "{number}");
        }
    }
}

#[test]
fn scenes_have_names_of_their_own() {
    let names: Vec<&str> = scenes::every()
        .chain(scenes::CONTROLS)
        .map(|s| s.name)
        .collect();
    let distinct: BTreeSet<&&str> = names.iter().collect();
    assert_eq!(distinct.len(), names.len());
}

#[test]
fn what_must_be_recorded_names_its_trace() {
    for behaviour in CORPUS.iter().filter(|b| b.expected.contains("recorded")) {
        // These are told by other events and files: exchanges, a limit, a signal, a cap.
        let told_otherwise = [25, 35, 36, 37, 38, 39, 40].contains(&behaviour.number);
        assert_ne!(
            behaviour.denials.is_empty(),
            !told_otherwise,
            "{}",
            behaviour.number
        );
    }
}

#[test]
fn the_page_says_what_the_tables_say() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/redteam.md");
    assert!(
        std::fs::read_to_string(path).unwrap_or_default() == document(),
        "docs/redteam.md is not what the tables say: cargo run -p cto-proving --example redteam-page > docs/redteam.md"
    );
}
