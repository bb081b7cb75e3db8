//! Embeds the shipped cases: every file with its mode, every link with its target.

#![expect(
    clippy::disallowed_methods,
    reason = "a build script has no edge to pass values from, and cargo discards its output when it fails"
)]

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let cases = Path::new(&std::env!("CARGO_MANIFEST_DIR"))
        .join("../../cases")
        .canonicalize()?;
    println_rerun(&cases);
    let mut code = String::from("pub(crate) static CASES: &[EmbeddedCase] = &[\n");
    for id in sorted(&cases)? {
        let dir = cases.join(&id);
        if !dir.is_dir() {
            continue;
        }
        writeln!(code, "    EmbeddedCase {{ id: {id:?}, files: &[")?;
        let mut files = Vec::new();
        walk(&dir, &dir, &mut files)?;
        for (path, mode, full) in files {
            let content = match mode {
                "Symlink" => format!(
                    "{:?}.as_bytes()",
                    fs::read_link(&full)?
                        .to_str()
                        .ok_or("a link target is not UTF-8")?
                ),
                _ => format!(
                    "include_bytes!({:?})",
                    full.to_str().ok_or("a path is not UTF-8")?
                ),
            };
            writeln!(
                code,
                "        EmbeddedFile {{ path: {path:?}, mode: EntryMode::{mode}, content: {content} }},"
            )?;
        }
        code.push_str("    ] },\n");
    }
    code.push_str("];\n");
    let out = std::env::var("OUT_DIR")?;
    fs::write(PathBuf::from(out).join("cases.rs"), code)?;
    Ok(())
}

fn println_rerun(cases: &Path) {
    println!("cargo:rerun-if-changed={}", cases.display());
}

fn sorted(dir: &Path) -> Result<Vec<String>, Failure> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        names.push(
            entry?
                .file_name()
                .into_string()
                .map_err(|n| format!("{} is not UTF-8", n.display()))?,
        );
    }
    names.sort();
    Ok(names)
}

fn walk(
    root: &Path,
    dir: &Path,
    out: &mut Vec<(String, &'static str, PathBuf)>,
) -> Result<(), Failure> {
    for name in sorted(dir)? {
        let full = dir.join(&name);
        let meta = fs::symlink_metadata(&full)?;
        let path = full
            .strip_prefix(root)?
            .to_str()
            .ok_or("a path is not UTF-8")?
            .to_owned();
        if meta.is_symlink() {
            out.push((path, "Symlink", full));
        } else if meta.is_dir() {
            walk(root, &full, out)?;
        } else if meta.permissions().mode() & 0o100 != 0 {
            out.push((path, "Executable", full));
        } else {
            out.push((path, "Regular", full));
        }
    }
    Ok(())
}
