//! What known tools leave in the tree that they work on, one row each.
//!
//! Absent on purpose: generated sources, and anything that a later build reads as its configuration. A new lock file or
//! `dist/` may be what the task is about: it is residue only where the contract does not allow it.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    File,
    Directory,
}

/// What lies in such a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contents {
    /// Nothing that is ever run or loaded.
    Data,
    /// Installed or built programs, with every kind of file.
    Programs,
    /// What a task may be about, and a tool makes unasked: versions that it fixes, what it builds.
    Unasked,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Leftover {
    /// One or more components, at any depth of the tree; a `*` at either end of one stands for anything.
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) contents: Contents,
    /// Files of which the baseline must hold one in the same directory; empty where the name alone tells.
    pub(super) beside: &'static [&'static str],
}

/// Files by which mypy notes what it knows of a module, whose name they bear.
pub(super) const MODULE_RECORDS: &[&str] = &[".data.json", ".meta.json"];

const PACKAGE: &[&str] = &["package.json"];
const GRADLE: &[&str] = &[
    "build.gradle",
    "build.gradle.kts",
    "settings.gradle",
    "settings.gradle.kts",
];
const PYTHON: &[&str] = &[
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "requirements.txt",
    "Pipfile",
    "tox.ini",
    "pytest.ini",
    "manage.py",
];
const GO: &[&str] = &["go.mod"];

pub(super) const TOOLS: &[Leftover] = &[
    // Python
    data("__pycache__"),
    data(".pytest_cache"),
    data(".ruff_cache"),
    data(".mypy_cache"),
    data(".pytype"),
    data(".pyre"),
    data(".hypothesis"),
    data(".ipynb_checkpoints"),
    data("htmlcov"),
    file(".coverage"),
    file(".coverage.*"),
    programs(".tox", &[]),
    programs(".nox", &[]),
    programs(".eggs", &[]),
    data("*.egg-info"),
    programs(".venv", &[]),
    programs("venv", PYTHON),
    programs("env", PYTHON),
    programs("build/lib", PYTHON),
    programs("build/bdist.*", PYTHON),
    built("dist", PYTHON),
    file_beside("coverage.xml", PYTHON),
    file_beside("coverage.json", PYTHON),
    file_beside("coverage.lcov", PYTHON),
    lock("uv.lock", &["pyproject.toml"]),
    lock("poetry.lock", &["pyproject.toml"]),
    lock("pdm.lock", &["pyproject.toml"]),
    lock("Pipfile.lock", &["Pipfile"]),
    // Rust, Java and Kotlin
    programs("target", &["Cargo.toml", "pom.xml"]),
    lock("Cargo.lock", &["Cargo.toml"]),
    programs("build", GRADLE),
    programs("buildSrc/build", &[]),
    data(".gradle"),
    data(".kotlin"),
    // Go, whose caches lie in the home directory
    file_beside("coverage.out", GO),
    file_beside("cover.out", GO),
    file_beside("c.out", GO),
    file_beside("coverage.txt", GO),
    file_beside("*.prof", GO),
    file_beside("*.test", GO),
    // JavaScript and TypeScript
    programs("node_modules", PACKAGE),
    programs("node_modules/.cache", &[]),
    programs("node_modules/.vite", &[]),
    programs(".next", PACKAGE),
    programs(".nuxt", PACKAGE),
    programs(".svelte-kit", PACKAGE),
    programs(".vite", PACKAGE),
    built("dist", PACKAGE),
    programs(".parcel-cache", &[]),
    programs(".angular/cache", &[]),
    programs(".yarn/unplugged", PACKAGE),
    data(".turbo"),
    data(".nx/cache"),
    data(".swc"),
    data(".nyc_output"),
    data_beside("coverage/lcov-report", PACKAGE),
    file_beside("coverage/lcov.info", PACKAGE),
    file_beside("coverage/clover.xml", PACKAGE),
    file_beside("coverage/coverage-final.json", PACKAGE),
    file_beside(".yarn/install-state.gz", PACKAGE),
    file_beside(".yarn/build-state.yml", PACKAGE),
    lock("package-lock.json", PACKAGE),
    lock("pnpm-lock.yaml", PACKAGE),
    lock("yarn.lock", PACKAGE),
    lock("bun.lock", PACKAGE),
    lock("bun.lockb", PACKAGE),
    lock("deno.lock", &["deno.json", "deno.jsonc"]),
    file(".eslintcache"),
    file(".stylelintcache"),
    file("*.tsbuildinfo"),
    // Others
    data(".phpunit.cache"),
    file(".phpunit.result.cache"),
    file(".php-cs-fixer.cache"),
    programs("_build", &["mix.exs", "dune-project"]),
    programs(".build", &["Package.swift"]),
    programs(".zig-cache", &[]),
    programs("zig-out", &["build.zig"]),
    programs(".dart_tool", &["pubspec.yaml"]),
    programs("dist-newstyle", &[]),
    programs(".stack-work", &[]),
    data(".cache/clangd"),
    lock("Gemfile.lock", &["Gemfile"]),
    lock("composer.lock", &["composer.json"]),
    lock("mix.lock", &["mix.exs"]),
    lock("pubspec.lock", &["pubspec.yaml"]),
    lock("Package.resolved", &["Package.swift"]),
];

const fn row(
    name: &'static str,
    shape: Shape,
    contents: Contents,
    beside: &'static [&'static str],
) -> Leftover {
    Leftover {
        name,
        shape,
        contents,
        beside,
    }
}

const fn data(name: &'static str) -> Leftover {
    row(name, Shape::Directory, Contents::Data, &[])
}

const fn data_beside(name: &'static str, beside: &'static [&'static str]) -> Leftover {
    row(name, Shape::Directory, Contents::Data, beside)
}

const fn programs(name: &'static str, beside: &'static [&'static str]) -> Leftover {
    row(name, Shape::Directory, Contents::Programs, beside)
}

const fn file(name: &'static str) -> Leftover {
    row(name, Shape::File, Contents::Data, &[])
}

const fn lock(name: &'static str, beside: &'static [&'static str]) -> Leftover {
    row(name, Shape::File, Contents::Unasked, beside)
}

const fn built(name: &'static str, beside: &'static [&'static str]) -> Leftover {
    row(name, Shape::Directory, Contents::Unasked, beside)
}

const fn file_beside(name: &'static str, beside: &'static [&'static str]) -> Leftover {
    row(name, Shape::File, Contents::Data, beside)
}
