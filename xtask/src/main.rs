//! The project's menu: every chore that is more than one cargo call.
//!
//! Nothing here ships. A chore is one module with a `run` function and one row in `CHORES`; the help text is that table.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a developer's tool talks on the terminal and has no printer of its own"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "starts cargo, git and python, reads the developer's environment, writes only below the target directory"
)]

mod bench;
mod campaign;
mod deny;
mod process;
mod python;
mod test;
mod tidy;
mod workspace;

use std::process::ExitCode;

struct Chore {
    name: &'static str,
    usage: &'static str,
    about: &'static str,
    run: fn(&[String]) -> anyhow::Result<ExitCode>,
}

const CHORES: &[Chore] = &[
    Chore {
        name: "test",
        usage: "test [ARGS…]",
        about: "Prepare what the tests need, build, run all tests; ARGS go to the test runner and leave out doc tests",
        run: test::run,
    },
    Chore {
        name: "tidy",
        usage: "tidy",
        about: "Check the dependency map, file sizes, fenced calls, words, layout and promises",
        run: tidy::run,
    },
    Chore {
        name: "bench",
        usage: "bench run|checkout|sandbox|egress|landing|against OLD [ROUNDS]",
        about: "Measure, as ratios: a sealed run against the same work bare; workspaces, looks and diffs against git; a landing against `git commit`; a stream through the forwarder against none; another build's release directory against this one",
        run: bench::run,
    },
    Chore {
        name: "campaign",
        usage: "campaign kills",
        about: "Try all that the ordinary tests sample: kill a run before each of its writes, and each recovery before each of its own",
        run: campaign::run,
    },
    Chore {
        name: "deny",
        usage: "deny",
        about: "Check licences, banned crates and sources of all dependencies, and advisories where reachable",
        run: deny::run,
    },
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = args.split_first() else {
        print!("{}", help());
        return ExitCode::from(2);
    };
    if matches!(name.as_str(), "help" | "-h" | "--help") {
        print!("{}", help());
        return ExitCode::SUCCESS;
    }
    let Some(chore) = CHORES.iter().find(|chore| chore.name == name) else {
        eprint!("error: there is no chore `{name}`\n\n{}", help());
        return ExitCode::from(2);
    };
    match (chore.run)(rest) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            for cause in error.chain().skip(1) {
                eprintln!("  because: {cause}");
            }
            ExitCode::FAILURE
        }
    }
}

fn help() -> String {
    let width = CHORES
        .iter()
        .map(|chore| chore.usage.chars().count())
        .max()
        .unwrap_or(0);
    let mut text = String::from("usage: cargo xtask CHORE\n\n");
    for chore in CHORES {
        text.push_str(&format!("  {:width$}  {}\n", chore.usage, chore.about));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_every_chore_once() {
        let help = help();
        for chore in CHORES {
            assert_eq!(help.matches(chore.about).count(), 1, "{}", chore.name);
        }
    }
}
