//! What npm tells of a package that it installed: the package's own words, and the registry's hash as npm wrote it down.

use serde_json::Value;

use crate::programs::NodePackage;

/// Longest word that is taken from a package.
const WORD_CHARS_MAX: usize = 200;

/// What a package says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageManifest {
    pub name: String,
    pub version: String,
    pub licence: Option<String>,
}

/// Reads `package.json`; none where it does not say which package it is, in which version.
pub fn manifest(bytes: &[u8]) -> Option<PackageManifest> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    let word = |value: &Value| {
        let text = value.as_str()?;
        let is_plain = !text.is_empty() && text.chars().all(|c| !c.is_control());
        (is_plain && text.chars().count() <= WORD_CHARS_MAX).then(|| text.to_owned())
    };
    let licence = value.get("license");
    // The older form: `{"type": "MIT"}`.
    let licence = licence.and_then(|l| word(l).or_else(|| word(l.get("type")?)));
    Some(PackageManifest {
        name: word(value.get("name")?)?,
        version: word(value.get("version")?)?,
        licence,
    })
}

/// The hash that the registry published of a package, from the lock file that npm keeps in `node_modules`; none where npm keeps
/// none (as for what is installed for all), or where it is about another version.
pub fn locked_integrity(lock: &[u8], package: &NodePackage, version: &str) -> Option<String> {
    let value: Value = serde_json::from_slice(lock).ok()?;
    let below = package.root.strip_prefix(&package.top).ok()?;
    let key = format!("node_modules/{}", below.to_str()?);
    let entry = value.get("packages")?.get(&key)?;
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    if text("version") != Some(version) {
        return None;
    }
    text("integrity").map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;
    use crate::programs::package_of;

    #[test]
    fn a_package_says_its_name_its_version_and_maybe_its_licence() {
        let read = |text: &str| manifest(text.as_bytes());
        let found = read(r#"{"name": "@a/b", "version": "1.2.3", "license": "MIT"}"#).unwrap();
        assert_eq!(
            (
                found.name.as_str(),
                found.version.as_str(),
                found.licence.as_deref()
            ),
            ("@a/b", "1.2.3", Some("MIT"))
        );
        let older = read(r#"{"name": "a", "version": "1", "license": {"type": "ISC"}}"#).unwrap();
        assert_eq!(older.licence.as_deref(), Some("ISC"));
        for bad in [
            "",
            "[]",
            "{}",
            r#"{"name": "a"}"#,
            r#"{"name": "a\u001b[31m", "version": "1"}"#,
            r#"{"name": 1, "version": "1"}"#,
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_hash_is_that_of_this_very_package_and_version() {
        let package = package_of(Path::new("/h/node_modules/@a/b/bin/b.js")).unwrap();
        let lock = r#"{"packages": {"node_modules/@a/b": {"version": "1.2.3", "integrity": "sha512-x"}, "node_modules/b": {"version": "1.2.3", "integrity": "sha512-y"}}}"#;
        let hash = |version: &str| locked_integrity(lock.as_bytes(), &package, version);
        assert_eq!(hash("1.2.3").as_deref(), Some("sha512-x"));
        assert_eq!(hash("1.2.4"), None);
        let nested = package_of(Path::new("/h/node_modules/x/node_modules/b/b.js")).unwrap();
        assert_eq!(locked_integrity(lock.as_bytes(), &nested, "1.2.3"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_can_be_offered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            drop(manifest(&bytes));
            let package = package_of(Path::new("/h/node_modules/a/b.js")).unwrap();
            drop(locked_integrity(&bytes, &package, "1"));
        }
    }
}
