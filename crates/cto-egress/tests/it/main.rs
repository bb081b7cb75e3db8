//! A real listener, a real upstream made of a script, and raw bytes in between.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod abuse;
mod budgets;
mod ending;
mod faults;
mod forwarding;
mod parsing;
mod scripted;
mod support;
mod tls;
mod wires;
