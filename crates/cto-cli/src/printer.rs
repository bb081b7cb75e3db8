//! The only place that writes: data to stdout, talk to stderr, with or without colour.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use cto_contract::outputs::{ErrorBody, ErrorOutput};
use cto_contract::text::{escape_json, neutralise, one_line};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::args::Color;
use crate::failure::{Exit, Failure};

pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const STRONG: Style = Style::new().bold();
pub(crate) const FAINT: Style = Style::new().dimmed();
pub(crate) const ADDED: Style = AnsiColor::Green.on_default();
pub(crate) const REMOVED: Style = AnsiColor::Red.on_default();
pub(crate) const PLACE: Style = AnsiColor::Cyan.on_default();

/// Text for a person. Whatever enters is neutralised; only styles of ours are escape sequences.
pub(crate) struct Page {
    text: String,
    color: bool,
}

impl Page {
    /// Adds text, newlines and all.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.text.push_str(&neutralise(text));
        self
    }

    /// Adds text in a style.
    pub(crate) fn styled(&mut self, style: Style, text: &str) -> &mut Self {
        if self.color {
            self.text
                .push_str(&format!("{style}{}{style:#}", neutralise(text)));
            self
        } else {
            self.text(text)
        }
    }

    /// Adds a line.
    pub(crate) fn line(&mut self, text: &str) -> &mut Self {
        self.text(text);
        self.end()
    }

    /// Ends the line.
    pub(crate) fn end(&mut self) -> &mut Self {
        self.text.push('\n');
        self
    }

    /// Adds a heading with an empty line before it.
    pub(crate) fn heading(&mut self, text: &str) -> &mut Self {
        self.end().styled(STRONG, text).end()
    }

    /// Adds a name and its value, on one line.
    pub(crate) fn field(&mut self, name: &str, value: &str) -> &mut Self {
        self.text("  ")
            .styled(FAINT, &format!("{name:<9}"))
            .text(" ")
            .line(&one_line(value))
    }

    /// Adds rows in columns; each cell is one line.
    pub(crate) fn table(&mut self, header: &[&str], rows: &[Vec<String>]) -> &mut Self {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        table.set_header(
            header
                .iter()
                .map(|h| h.to_ascii_uppercase())
                .collect::<Vec<_>>(),
        );
        for row in rows {
            table.add_row(row.iter().map(|cell| one_line(cell)).collect::<Vec<_>>());
        }
        for line in table.trim_fmt().lines() {
            self.text.push_str(line.strip_prefix(' ').unwrap_or(line));
            self.text.push('\n');
        }
        self
    }
}

/// Quiet, verbose, colour and terminals, decided once.
pub(crate) struct Printer {
    pub(crate) json: bool,
    quiet: bool,
    pub(crate) verbose: bool,
    out_color: bool,
    err_color: bool,
    pub(crate) out_terminal: bool,
    err_terminal: bool,
}

impl Printer {
    pub(crate) fn new(
        json: bool,
        quiet: bool,
        verbose: bool,
        color: Color,
        env: &cto_runner::Environment,
    ) -> Self {
        let (out_terminal, err_terminal) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        let plain = env.get("NO_COLOR").is_some() || env.get("TERM") == Some("dumb");
        let decide = |terminal: bool| match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && !plain,
        };
        Self {
            json,
            quiet,
            verbose,
            out_color: decide(out_terminal),
            err_color: decide(err_terminal),
            out_terminal,
            err_terminal,
        }
    }

    /// An empty page for stdout.
    pub(crate) fn page(&self) -> Page {
        Page {
            text: String::new(),
            color: self.out_color,
        }
    }

    /// Writes a page to stdout.
    pub(crate) fn show(&self, page: &Page) -> Result<(), Failure> {
        self.data(page.text.as_bytes())
    }

    /// Writes bytes to stdout as they are.
    pub(crate) fn data(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        match out.write_all(bytes).and_then(|()| out.flush()) {
            Ok(()) => Ok(()),
            // Whoever reads has seen enough.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(e) => Err(Failure::io(
                "output_not_written",
                "stdout could not be written",
                &e,
            )),
        }
    }

    /// Writes text of unknown origin: neutralised on a terminal, byte for byte elsewhere.
    pub(crate) fn foreign(&self, bytes: &[u8]) -> Result<(), Failure> {
        if self.out_terminal {
            self.data(neutralise(&String::from_utf8_lossy(bytes)).as_bytes())
        } else {
            self.data(bytes)
        }
    }

    /// Writes JSON of a pack: byte for byte, but on a terminal.
    pub(crate) fn sealed_json(&self, bytes: &[u8]) -> Result<(), Failure> {
        match std::str::from_utf8(bytes) {
            Ok(text) if self.out_terminal => self.data(escape_json(text).as_bytes()),
            Ok(_) | Err(_) => self.data(bytes),
        }
    }

    /// Writes one JSON document to stdout.
    pub(crate) fn document<T: Serialize>(&self, value: &T) -> Result<(), Failure> {
        self.json_text(serde_json::to_string_pretty(value))
    }

    /// Writes one line of NDJSON to stdout.
    pub(crate) fn json_line<T: Serialize>(&self, value: &T) -> Result<(), Failure> {
        self.json_text(serde_json::to_string(value))
    }

    /// JSON escapes the oldest control characters alone: whoever reads it on a terminal is kept from the others too.
    fn json_text(&self, encoded: serde_json::Result<String>) -> Result<(), Failure> {
        let mut text = encoded.map_err(|e| Failure::of(Exit::FAULT, "output_not_encoded", &e))?;
        text.push('\n');
        self.data(escape_json(&text).as_bytes())
    }

    /// Tells a person something, unless quiet.
    pub(crate) fn talk(&self, text: &str) {
        if !self.quiet {
            self.talk_always(&format!("{}\n", neutralise(text)));
        }
    }

    /// Shows a person what he is asked, also when quiet: nobody decides on what he did not see.
    pub(crate) fn ask(&self, text: &str) {
        self.talk_always(&format!("{}\n", neutralise(text)));
    }

    /// Nobody is left to be told when stderr is gone.
    fn talk_always(&self, text: &str) {
        io::stderr().lock().write_all(text.as_bytes()).ok();
    }

    /// Shows progress: a spinner on a terminal, plain lines elsewhere, nothing when quiet.
    pub(crate) fn progress(&self) -> Progress<'_> {
        let bar = (self.err_terminal && !self.quiet).then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} ({elapsed})") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Progress { printer: self, bar }
    }

    /// Prints a failure and gives its exit code.
    pub(crate) fn failure(&self, failure: &Failure) -> Exit {
        if self.json {
            let join = |list: &[String], by: &str| (!list.is_empty()).then(|| list.join(by));
            let body = ErrorBody {
                code: failure.code.to_owned(),
                message: failure.message.clone(),
                cause: join(&failure.causes, ": "),
                hint: join(&failure.hints, "; "),
            };
            // A stdout that can't be written has no reader to be told.
            drop(self.document(&ErrorOutput { error: body }));
        }
        let mut page = Page {
            text: String::new(),
            color: self.err_color,
        };
        page.styled(BAD, "error:").text(" ").line(&failure.message);
        for cause in &failure.causes {
            page.styled(STRONG, "  because:")
                .text(" ")
                .line(&indented(cause));
        }
        for hint in &failure.hints {
            page.styled(PLACE, "   hint:")
                .text(" ")
                .line(&indented(hint));
        }
        self.talk_always(&page.text);
        failure.exit
    }

    /// Prints what the argument parser has to say.
    pub(crate) fn usage(&self, error: &clap::Error) -> Exit {
        let rendered = error.render();
        let text = |color: bool| {
            if color {
                rendered.ansi().to_string()
            } else {
                rendered.to_string()
            }
        };
        if !error.use_stderr() {
            return self
                .data(text(self.out_color).as_bytes())
                .map_or(Exit::FAULT, |()| Exit::DONE);
        }
        if self.json {
            let plain = rendered.to_string();
            let first = plain.lines().next().unwrap_or_default();
            let body = ErrorBody {
                code: "usage".to_owned(),
                message: first.strip_prefix("error: ").unwrap_or(first).to_owned(),
                cause: None,
                hint: Some(
                    "`cto help` shows the commands, `cto <command> --help` its options".to_owned(),
                ),
            };
            drop(self.document(&ErrorOutput { error: body }));
        }
        self.talk_always(&text(self.err_color));
        Exit::USAGE
    }
}

fn indented(text: &str) -> Cow<'_, str> {
    if text.contains('\n') {
        Cow::Owned(text.replace('\n', "\n           "))
    } else {
        Cow::Borrowed(text)
    }
}

/// What a person sees while something goes on.
pub(crate) struct Progress<'a> {
    printer: &'a Printer,
    bar: Option<ProgressBar>,
}

impl Progress<'_> {
    /// One finished line.
    pub(crate) fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => {
                let text = neutralise(text).into_owned();
                bar.println(&text);
                // A part of what goes on stands below it, and does not take its place.
                if !text.starts_with(' ') {
                    bar.set_message(text);
                }
            }
            None => self.printer.talk(text),
        }
    }
}

impl Drop for Progress<'_> {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
