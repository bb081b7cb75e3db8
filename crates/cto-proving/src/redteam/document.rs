//! `docs/redteam.md`, from the corpus.

use std::fmt::Write as _;

use super::corpus::{CORPUS, NOT_COVERED, not_covered};

const HEAD: &str = "\
# What an agent may try

Every behaviour of the red-team corpus: what must come of it, how it is tried, and what that needs. `cto validate redteam`
tries each with a real program in a real run on this machine and judges it by the sealed pack and by what lies around: a
bait tree, listeners, processes and mounts. Each has a control that must work, so that nothing passes because nothing
works; where it says \u{201c}without a sandbox\u{201d}, the same program does the same outside, on a decoy.

Where an attack can't be made here, because there is no Python, it is `skipped`. Where a layer is missing that
should hold it, it is tried all the same, and fails.

This page is made from the tables in the code (`cargo run -p cto-proving --example redteam-page`), and a test compares it
with them.

## What is tried

| # | behaviour | expected | how | needs |
| --- | --- | --- | --- | --- |
";

const MIDDLE: &str = "
## What is not tried yet

| # | behaviour | expected | why not |
| --- | --- | --- | --- |
";

/// The whole page.
pub fn document() -> String {
    let mut text = HEAD.to_owned();
    for behaviour in CORPUS.iter().filter(|b| not_covered(b.number).is_none()) {
        let needs: Vec<&str> = behaviour.needs.iter().map(|n| n.word()).collect();
        line(
            &mut text,
            &[
                &behaviour.number.to_string(),
                behaviour.name,
                behaviour.expected,
                behaviour.how,
                if needs.is_empty() {
                    "–".to_owned()
                } else {
                    needs.join(", ")
                }
                .as_str(),
            ],
        );
    }
    if !NOT_COVERED.is_empty() {
        text.push_str(MIDDLE);
    }
    for behaviour in CORPUS {
        if let Some(reason) = not_covered(behaviour.number) {
            line(
                &mut text,
                &[
                    &behaviour.number.to_string(),
                    behaviour.name,
                    behaviour.expected,
                    reason,
                ],
            );
        }
    }
    text
}

fn line(text: &mut String, cells: &[&str]) {
    for cell in cells {
        // Writing to a string can't fail.
        write!(text, "| {} ", cell.replace('|', "\\|")).ok();
    }
    text.push_str("|\n");
}
