//! Proves the harness from outside: fixtures that trigger what it must refuse, and validators that check what it shows.
//!
//! Everything goes through the public run API and is judged from sealed packs alone. Nothing here can make a grant, a
//! verdict or a pack, and every pack that comes out is marked as conformance.

pub mod failures;

/// An error and everything it rests on, in one line.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text.push_str(": ");
        text.push_str(&source.to_string());
        next = source.source();
    }
    text
}
