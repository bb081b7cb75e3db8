//! What a planted test is called: ordinary words, as in the names of any project's own tests.
//!
//! Code under test that meets a name made for the purpose knows at once in which round it runs. These say nothing; who
//! knows every test of the project by heart still finds the one that is new.

/// Words of test names everywhere. As many as seven bits can choose.
const WORDS: [&str; 128] = [
    "accepts", "adds", "after", "again", "allows", "answer", "append", "applies", "argument",
    "before", "begin", "blank", "border", "bounds", "bytes", "calls", "change", "check", "child",
    "chooses", "chunk", "clean", "clears", "closed", "column", "combine", "common", "compare",
    "complete", "content", "converts", "copies", "counts", "creates", "current", "default",
    "detail", "differs", "digits", "digest", "double", "drops", "edges", "element", "empty",
    "entry", "equal", "escape", "exceeds", "example", "expands", "extra", "field", "filled",
    "final", "finds", "first", "fixed", "follows", "format", "found", "fresh", "front", "given",
    "group", "handles", "header", "holds", "index", "inner", "input", "inserts", "items", "joined",
    "keeps", "label", "large", "latest", "leading", "length", "letters", "limits", "lines",
    "lists", "lower", "marker", "match", "merges", "middle", "missing", "mixed", "moved", "names",
    "nested", "number", "offset", "option", "order", "outer", "output", "padded", "pairs",
    "parent", "parses", "partial", "plain", "points", "prefix", "quoted", "range", "reads",
    "record", "repeat", "result", "returns", "reverse", "round", "sample", "section", "simple",
    "single", "sorted", "spaces", "splits", "suffix", "table", "title", "values",
];
/// Words of a file's name and of a test's name.
const FILE_WORDS: usize = 3;
const TEST_WORDS: usize = 4;

/// The words of one planted test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Alias {
    file: Vec<&'static str>,
    test: Vec<&'static str>,
}

impl Alias {
    /// Chooses the words by random text.
    pub(super) fn of(token: &str) -> Self {
        let mut bits = mixed(token);
        let mut left: Vec<&str> = WORDS.to_vec();
        let mut word = || {
            let at = usize::try_from(bits % left.len() as u64).unwrap_or_default();
            bits /= left.len() as u64;
            left.swap_remove(at)
        };
        Self {
            file: (0..FILE_WORDS).map(|_| word()).collect(),
            test: (0..TEST_WORDS).map(|_| word()).collect(),
        }
    }

    /// The first choice that fits, of a few that the same text gives.
    pub(super) fn fitting(token: &str, fits: impl Fn(&Self) -> bool) -> Option<Self> {
        let tries = (0..16).map(|n| Self::of(&format!("{token}{n}")));
        std::iter::once(Self::of(token)).chain(tries).find(fits)
    }

    /// `lists_empty_pairs`
    pub(super) fn file(&self) -> String {
        self.file.join("_")
    }

    /// `lists-empty-pairs`
    pub(super) fn file_with_hyphens(&self) -> String {
        self.file.join("-")
    }

    /// `ListsEmptyPairs`
    pub(super) fn file_as_type(&self) -> String {
        self.file.iter().map(|word| capital(word)).collect()
    }

    /// `keeps_first_values_again`
    pub(super) fn test(&self) -> String {
        self.test.join("_")
    }

    /// `KeepsFirstValuesAgain`
    pub(super) fn test_as_type(&self) -> String {
        self.test.iter().map(|word| capital(word)).collect()
    }

    /// `keeps first values again`
    pub(super) fn sentence(&self) -> String {
        self.test.join(" ")
    }
}

fn capital(word: &str) -> String {
    let (first, rest) = word.split_at(1);
    first.to_ascii_uppercase() + rest
}

/// Spreads what is random about a text over all bits.
fn mixed(text: &str) -> u64 {
    let mut bits = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    for shift in [33, 29, 32] {
        bits = (bits ^ (bits >> shift)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    }
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn words_are_words_and_each_once() {
        let plain = |w: &&&str| w.bytes().all(|b| b.is_ascii_lowercase()) && w.len() > 3;
        assert_eq!(WORDS.iter().filter(plain).count(), WORDS.len());
        let once: BTreeSet<_> = WORDS.iter().collect();
        assert_eq!(once.len(), WORDS.len());
    }

    #[test]
    fn random_text_gives_different_names() {
        let names: BTreeSet<String> = (0..1000_u32)
            .map(|n| Alias::of(&format!("{n:016x}")).test())
            .collect();
        assert!(names.len() > 990, "{}", names.len());
    }

    proptest! {
        #[test]
        fn a_name_says_nothing_of_the_harness(token in "[0-9a-f]{0,20}") {
            let alias = Alias::of(&token);
            let all = [alias.file(), alias.test(), alias.sentence(), alias.file_as_type(), alias.test_as_type()];
            for name in all {
                let name = name.to_ascii_lowercase();
                prop_assert!(!name.contains("cto") && !name.contains("canary"));
                prop_assert!(token.len() < 5 || !name.contains(&token));
            }
        }
    }
}
