//! A second matcher, by backtracking, to compare the automaton with. It is slow and plain on purpose.

/// Whether a path matches a pattern that was checked.
pub(super) fn is_match(pattern: &str, path: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let path: Vec<char> = path.chars().collect();
    match pattern.as_slice() {
        // A directory: what lies below any of its matches.
        [body @ .., '/'] if body.last() != Some(&'\\') => (0..path.len())
            .any(|i| path[i] == '/' && i + 1 < path.len() && step(body, true, &path[..i])),
        pattern => step(pattern, true, &path),
    }
}

/// `opens` is true at the beginning of a component.
fn step(pattern: &[char], opens: bool, path: &[char]) -> bool {
    match pattern {
        [] => path.is_empty(),
        ['*', '*', ..] => {
            let rest = &pattern[pattern.iter().take_while(|c| **c == '*').count()..];
            match rest {
                ['/', tail @ ..] if opens => (0..=path.len())
                    .any(|i| (i == 0 || path[i - 1] == '/') && step(tail, true, &path[i..])),
                [] if opens => !path.is_empty(),
                _ => (0..=path.len()).any(|i| step(rest, false, &path[i..])),
            }
        }
        ['*', rest @ ..] => {
            let reach = path.iter().take_while(|c| **c != '/').count();
            (0..=reach).any(|i| step(rest, false, &path[i..]))
        }
        ['?', rest @ ..] => matches!(path, [c, tail @ ..] if *c != '/' && step(rest, false, tail)),
        ['[', inside @ ..] => {
            let negated = matches!(inside, ['!' | '^', ..]);
            let (ranges, rest) = set(if negated { &inside[1..] } else { inside });
            let holds = |c: char| ranges.iter().any(|(low, high)| (*low..=*high).contains(&c));
            matches!(path, [c, tail @ ..] if *c != '/' && holds(*c) != negated && step(rest, false, tail))
        }
        ['\\', a, rest @ ..] | [a, rest @ ..] => {
            matches!(path, [c, tail @ ..] if c == a && step(rest, *a == '/', tail))
        }
    }
}

/// The ranges of a set, and what follows its `]`.
fn set(inside: &[char]) -> (Vec<(char, char)>, &[char]) {
    // Each character, and whether it was escaped.
    let mut letters = Vec::new();
    let mut rest = inside;
    loop {
        match rest {
            ['\\', c, tail @ ..] => {
                letters.push((*c, true));
                rest = tail;
            }
            [']', tail @ ..] if !letters.is_empty() => {
                rest = tail;
                break;
            }
            [c, tail @ ..] => {
                letters.push((*c, false));
                rest = tail;
            }
            [] => break,
        }
    }
    let mut ranges = Vec::new();
    let mut letters = letters.as_slice();
    while let [(low, _), tail @ ..] = letters {
        let (high, tail) = match tail {
            [('-', false), (high, _), tail @ ..] => (high, tail),
            tail => (low, tail),
        };
        ranges.push((*low, *high));
        letters = tail;
    }
    (ranges, rest)
}
