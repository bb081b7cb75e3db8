//! Prints `docs/evidence-fields.md`.

mod page;

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(page::page().as_bytes())
}
