//! Running other programs: quietly, or with their output passed on line by line while it is looked at.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context as _, bail};

/// The cargo that started us, so that a pinned toolchain stays pinned.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Whether nobody reads along, and a skipped part would pass unseen.
pub(crate) fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true" || value == "1")
}

/// Runs to the end and returns standard output; a failure carries the last lines of standard error.
pub(crate) fn output_of(command: &mut Command) -> anyhow::Result<String> {
    let name = name_of(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("could not start `{name}`"))?;
    if !output.status.success() {
        let talk = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = talk
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        let last = lines[lines.len().saturating_sub(3)..].join("; ");
        bail!("`{name}` failed ({}): {last}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs to the end or to the deadline, then with all its children to death; nothing is passed on.
pub(crate) fn output_before(
    command: &mut Command,
    deadline: Duration,
) -> anyhow::Result<Option<Output>> {
    use std::os::unix::process::CommandExt as _;
    let name = name_of(command);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .with_context(|| format!("could not start `{name}`"))?;
    let group = format!("-{}", child.id());
    let (sender, ended) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    match ended.recv_timeout(deadline) {
        Ok(output) => Ok(Some(
            output.with_context(|| format!("could not wait for `{name}`"))?,
        )),
        Err(_) => {
            // It may have ended by itself just now.
            output_of(Command::new("kill").args(["-KILL", "--", &group])).ok();
            Ok(None)
        }
    }
}

/// Runs to the end with the terminal as it is.
pub(crate) fn status_of(command: &mut Command) -> anyhow::Result<ExitStatus> {
    let name = name_of(command);
    command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("could not start `{name}`"))
}

/// Runs to the end, passes both streams on as they come, and returns what `pick` kept of their lines.
pub(crate) fn stream<T: Send + 'static>(
    command: &mut Command,
    pick: fn(&str) -> Option<T>,
) -> anyhow::Result<(ExitStatus, Vec<T>)> {
    let name = name_of(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("could not start `{name}`"))?;
    let (sender, kept) = mpsc::channel();
    let mut readers = Vec::new();
    if let Some(pipe) = child.stdout.take() {
        let sender = sender.clone();
        readers.push(std::thread::spawn(move || {
            pass_on(pipe, std::io::stdout(), pick, &sender)
        }));
    }
    if let Some(pipe) = child.stderr.take() {
        readers.push(std::thread::spawn(move || {
            pass_on(pipe, std::io::stderr(), pick, &sender)
        }));
    }
    let status = child
        .wait()
        .with_context(|| format!("could not wait for `{name}`"))?;
    for reader in readers {
        match reader.join() {
            Ok(passed) => {
                passed.with_context(|| format!("could not pass on the output of `{name}`"))?
            }
            Err(_) => bail!("the reader of `{name}`'s output panicked"),
        }
    }
    Ok((status, kept.into_iter().collect()))
}

fn pass_on<T>(
    pipe: impl Read,
    mut out: impl Write,
    pick: fn(&str) -> Option<T>,
    kept: &mpsc::Sender<T>,
) -> std::io::Result<()> {
    let mut pipe = BufReader::new(pipe);
    let mut line = Vec::new();
    while pipe.read_until(b'\n', &mut line)? > 0 {
        out.write_all(&line)?;
        out.flush()?;
        if let Some(thing) = pick(&without_colour(&String::from_utf8_lossy(&line))) {
            // The receiver lives until the readers are joined.
            kept.send(thing).ok();
        }
        line.clear();
    }
    Ok(())
}

/// Removes terminal escape sequences of the `ESC [ … letter` kind.
fn without_colour(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line.chars();
    while let Some(next) = rest.next() {
        if next == '\u{1b}' {
            rest.by_ref().skip(1).find(char::is_ascii_alphabetic);
        } else {
            plain.push(next);
        }
    }
    plain
}

fn name_of(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args().take(2));
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_is_removed_and_text_stays() {
        assert_eq!(
            without_colour("\u{1b}[32;1m  Summary\u{1b}[0m [ 1s]"),
            "  Summary [ 1s]"
        );
    }

    #[test]
    fn a_stream_keeps_picked_lines_of_both_pipes_and_the_status() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo keep one; echo other; echo keep two >&2; exit 3"]);
        let pick = |line: &str| {
            line.strip_prefix("keep ")
                .map(|rest| rest.trim().to_owned())
        };
        let (status, mut kept) = stream(&mut shell, pick).unwrap();
        kept.sort();
        assert_eq!(
            (status.code(), kept),
            (Some(3), vec!["one".to_owned(), "two".to_owned()])
        );
    }

    #[test]
    fn a_deadline_ends_a_command_and_its_children() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "cat /dev/zero > /dev/null & wait"]);
        assert!(
            output_before(&mut shell, Duration::from_millis(50))
                .unwrap()
                .is_none()
        );
        let mut shell = Command::new("sh");
        let output =
            output_before(shell.args(["-c", "echo here"]), Duration::from_secs(60)).unwrap();
        assert_eq!(output.map(|output| output.stdout), Some(b"here\n".to_vec()));
    }

    #[test]
    fn a_failed_command_is_reported_by_name_with_its_last_words() {
        let error = output_of(Command::new("sh").args(["-c", "echo why >&2; exit 1"])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`sh -c echo why >&2; exit 1` failed (exit status: 1): why"
        );
    }
}
