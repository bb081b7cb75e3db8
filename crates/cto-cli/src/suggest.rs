//! "Did you mean": the known word nearest to the one that was typed.

/// Returns the nearest word if it is near enough to be a slip of the hand.
pub(crate) fn nearest<'a>(
    typed: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let limit = (typed.chars().count() / 3).max(2);
    known
        .into_iter()
        .map(|word| {
            (
                if word.starts_with(typed) && !typed.is_empty() {
                    1
                } else {
                    distance(typed, word)
                },
                word,
            )
        })
        .filter(|(d, _)| *d <= limit)
        .min_by_key(|(d, _)| *d)
        .map(|(_, word)| word)
}

/// Edits (insert, remove, replace, swap neighbours) between two words; texts of any length cost at most 128 columns.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(128).collect();
    let b: Vec<char> = b.chars().take(128).collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut next = vec![i];
        for j in 1..=b.len() {
            let replace = row[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(row[j] + 1).min(next[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_nonsense_is_not() {
        let known = ["r1-string-slugify", "r1-slugify-punctuation", "c-new-file"];
        assert_eq!(
            nearest("r1-string-slugfiy", known),
            Some("r1-string-slugify")
        );
        assert_eq!(nearest("r1-string", known), Some("r1-string-slugify"));
        assert_eq!(nearest("c-newfile", known), Some("c-new-file"));
        assert_eq!(nearest("zebra", known), None);
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance("", "abc"), 3);
    }
}
