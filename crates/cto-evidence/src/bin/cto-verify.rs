//! Checks one evidence pack and says so; needs nothing but the pack.
//!
//! Exit codes: 0 it verifies, 5 it does not, 2 wrong use. `--json` never changes them.

use std::ffi::OsString;
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cto_contract::text;
use cto_contract::trust::Origin;
use cto_contract::verify::{Integrity, VerifyReport, withheld_text};
use cto_evidence::key::PublicKey;
use cto_evidence::operators::{PinnedKey, PinnedOperators, read_operators};
use cto_evidence::trust::read_trust;
use cto_evidence::verify::{
    RECEIPT_BYTES_MAX, VerifyOptions, name_in_path, verify, verify_receipt,
};

const USAGE: &str = "\
Check an evidence pack, or a receipt, offline

Usage: cto-verify PACK_OR_RECEIPT [--key FILE_OR_BASE64] [--trust DIR] [--integrity-only]
                       [--operators FILE --ledger ID]
                       [--expect-run ID] [--expect-contract SHA256] [--expect-nonce HEX]
                       [--addenda DIR] [--json]

  --key FILE_OR_BASE64   Take packs of this ed25519 public key (PEM, or base64 of the raw 32 bytes) as known
  --trust DIR            Take packs of the keys in this directory as known (one cto.trust/v1 file a key)
  --operators FILE       Take the keys in this file as the operators' (OpenSSH's allowed_signers format)
  --ledger ID            Take decisions of this ledger alone as the operators'; both are needed, got elsewhere
  --integrity-only       Do not ask who sealed it
  --expect-run ID        Refuse the pack of any other run (likewise --expect-contract, --expect-nonce)
  --addenda DIR          Where the addenda are [default: <run_id>.addenda beside the pack]
  --json                 Print the whole answer as JSON

Exit codes: 0 verifies, 5 does not verify, 2 wrong use
";

const NOT_VERIFIED: u8 = 5;
const WRONG_USE: u8 = 2;
/// Largest key file.
const KEY_BYTES_MAX: u64 = 64 << 10;

struct Asked {
    pack: PathBuf,
    options: VerifyOptions,
    json: bool,
}

enum Request {
    Help,
    Version,
    Verify(Box<Asked>),
}

fn main() -> ExitCode {
    match read_arguments(std::env::args_os().skip(1)) {
        Ok(Request::Help) => say(&mut io::stdout(), USAGE, 0),
        Ok(Request::Version) => say(
            &mut io::stdout(),
            concat!("cto-verify ", env!("CARGO_PKG_VERSION"), "\n"),
            0,
        ),
        Ok(Request::Verify(asked)) => {
            let report = match answer(&asked) {
                Ok(report) => report,
                Err(message) => return wrong_use(&message),
            };
            let shown = if asked.json {
                as_json(&report)
            } else {
                as_text(&report, asked.options.integrity_only)
            };
            say(
                &mut io::stdout(),
                &shown,
                if report.ok { 0 } else { NOT_VERIFIED },
            )
        }
        Err(message) => wrong_use(&message),
    }
}

fn wrong_use(message: &str) -> ExitCode {
    let shown = text::neutralise(message);
    let told = format!("error: {shown}\n hint: cto-verify --help\n");
    say(&mut io::stderr(), &told, WRONG_USE)
}

/// A directory is a pack; a file is a receipt.
fn answer(asked: &Asked) -> Result<VerifyReport, String> {
    if !asked.pack.is_file() {
        return Ok(verify(&asked.pack, &asked.options));
    }
    let failed = |e: io::Error| format!("`{}`: {e}", asked.pack.display());
    let mut bytes = Vec::new();
    std::fs::File::open(&asked.pack)
        .and_then(|file| file.take(RECEIPT_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    if bytes.len() as u64 > RECEIPT_BYTES_MAX {
        return Err(format!(
            "`{}` is too large for a receipt",
            asked.pack.display()
        ));
    }
    Ok(verify_receipt(&bytes, &asked.options))
}

/// Writes and gives the exit code; an answer that could not be written is no success.
fn say(to: &mut impl Write, shown: &str, code: u8) -> ExitCode {
    match to.write_all(shown.as_bytes()).and_then(|()| to.flush()) {
        Ok(()) => ExitCode::from(code),
        Err(_) => ExitCode::from(if code == 0 { NOT_VERIFIED } else { code }),
    }
}

fn read_arguments(arguments: impl Iterator<Item = OsString>) -> Result<Request, String> {
    let mut arguments = arguments;
    let mut pack: Option<PathBuf> = None;
    let mut options = VerifyOptions::default();
    let mut json = false;
    let mut only_paths = false;
    let (mut operators, mut ledger) = (None, None);
    while let Some(argument) = arguments.next() {
        let flag = argument
            .to_str()
            .filter(|a| a.starts_with('-') && !only_paths);
        let mut value = |name: &str| {
            arguments
                .next()
                .ok_or_else(|| format!("{name} needs a value"))
        };
        match flag {
            Some("--") => only_paths = true,
            Some("--help" | "-h") => return Ok(Request::Help),
            Some("--version" | "-V") => return Ok(Request::Version),
            Some("--json") => json = true,
            Some("--integrity-only") => options.integrity_only = true,
            Some("--key") => options.extra_key = Some(read_key(&value("--key")?)?),
            Some("--trust") => options
                .trusted
                .extend(read_trust_directory(Path::new(&value("--trust")?))?),
            Some("--operators") => {
                operators = Some(read_pinned(Path::new(&value("--operators")?))?);
            }
            Some("--ledger") => ledger = Some(parse(&value("--ledger")?)?),
            Some("--addenda") => options.addenda_dir = Some(value("--addenda")?.into()),
            Some("--expect-run") => options.expect_run = Some(parse(&value("--expect-run")?)?),
            Some("--expect-contract") => {
                options.expect_contract = Some(parse(&value("--expect-contract")?)?)
            }
            Some("--expect-nonce") => {
                options.expect_nonce = Some(parse(&value("--expect-nonce")?)?)
            }
            Some(unknown) => return Err(format!("unknown option `{unknown}`")),
            None if pack.is_some() => return Err("more than one pack was named".to_owned()),
            None => pack = Some(argument.into()),
        }
    }
    let pack = pack.ok_or("no pack was named")?;
    options.pinned = match (operators, ledger) {
        (Some(keys), Some(ledger)) => Some(PinnedOperators { keys, ledger }),
        (None, None) => None,
        _ => return Err("--operators and --ledger are needed together".to_owned()),
    };
    // `.` and `x/..` name nothing; the real name of the directory does.
    let named = std::fs::canonicalize(&pack).unwrap_or_else(|_| pack.clone());
    options.asked_name = name_in_path(&named);
    Ok(Request::Verify(Box::new(Asked {
        pack,
        options,
        json,
    })))
}

fn parse<T: std::str::FromStr<Err: std::fmt::Display>>(value: &OsString) -> Result<T, String> {
    value
        .to_string_lossy()
        .parse()
        .map_err(|e: T::Err| e.to_string())
}

fn read_key(value: &OsString) -> Result<PublicKey, String> {
    if let Some(key) = value.to_str().and_then(|t| PublicKey::from_base64(t).ok()) {
        return Ok(key);
    }
    let shown = Path::new(value).display();
    let mut held = String::new();
    std::fs::File::open(value)
        .and_then(|file| file.take(KEY_BYTES_MAX).read_to_string(&mut held))
        .map_err(|e| {
            format!(
                "--key `{shown}` is neither base64 of a public key nor a file that can be read: {e}"
            )
        })?;
    PublicKey::from_text(&held).map_err(|e| format!("--key `{shown}`: {e}"))
}

fn read_trust_directory(dir: &Path) -> Result<Vec<cto_contract::trust::TrustedKey>, String> {
    if !dir.is_dir() {
        return Err(format!("--trust `{}` is not a directory", dir.display()));
    }
    read_trust(dir).map_err(|e| {
        use std::error::Error as _;
        e.source()
            .map_or_else(|| e.to_string(), |source| format!("{e}: {source}"))
    })
}

fn read_pinned(file: &Path) -> Result<Vec<PinnedKey>, String> {
    use std::error::Error as _;
    read_operators(file).map_err(|e| {
        let below = e.source().map(|s| format!(": {s}")).unwrap_or_default();
        format!("--operators `{}`: {e}{below}", file.display())
    })
}

fn as_json(report: &VerifyReport) -> String {
    // A report of plain strings and numbers always serialises.
    serde_json::to_string_pretty(report)
        .map_or_else(|e| format!("{{\"error\":\"{e}\"}}\n"), |json| json + "\n")
}

fn as_text(report: &VerifyReport, integrity_only: bool) -> String {
    let mut lines = Vec::new();
    let origin_note = match report.origin {
        Origin::Unknown if integrity_only => " (not asked for)",
        Origin::Unknown | Origin::Known | Origin::Expired | Origin::Revoked => "",
    };
    lines.push(if report.ok {
        "verified".to_owned()
    } else {
        "NOT VERIFIED".to_owned()
    });
    lines.push(format!("  integrity  {}", report.integrity));
    lines.push(format!("  origin     {}{origin_note}", report.origin));
    lines.push(format!("  operator   {}", report.operator));
    for seen in &report.signatures {
        lines.push(format!(
            "  signed     {} by {} at {} (presence: {}, custody: {}, operator: {})",
            seen.signed, seen.operator, seen.at, seen.presence, seen.custody, seen.standing
        ));
    }
    if let (Some(run), Some(status)) = (&report.run_id, report.status) {
        lines.push(format!("  run        {run}"));
        lines.push(format!("  status     {status}"));
    }
    if let Some(keyid) = &report.keyid {
        lines.push(format!("  key        {keyid}"));
    }
    if let Some(digest) = &report.pack_digest {
        lines.push(format!("  pack       sha256:{digest}"));
    }
    lines.push(format!(
        "  files      {} ({} bytes)",
        report.files, report.bytes
    ));
    if let Some(withheld) = withheld_text(&report.withheld) {
        lines.push(text::one_line(&format!("  withheld   {withheld}")));
    }
    for error in &report.errors {
        let file = error
            .file
            .as_deref()
            .map(|f| format!(" {f}:"))
            .unwrap_or_default();
        lines.push(text::one_line(&format!(
            "  error      {}:{file} {}",
            error.code, error.message
        )));
    }
    if report.integrity == Integrity::Ok {
        for claim in &report.claims {
            lines.push(text::one_line(&format!(
                "  {:<13}  {} ({})",
                claim.level,
                claim.kind.text(),
                claim.basis_text()
            )));
        }
    }
    let joined = lines.join("\n") + "\n";
    text::neutralise(&joined).into_owned()
}
