//! Files by which tools decide what a command runs, one row for each tool.
//!
//! Whoever writes one of them decides what a check is: which program it starts, which tests it collects, what it lets
//! pass. Names are compared without regard to case, as some tools and file systems do.

/// Components of a path, at any depth; one `*` of a component stands for anything. A trailing `/` means everything below.
/// What stands in the place of a directory of a longer pattern is meant as well: a link would bring its own files along.
pub(super) const TOOLS: &[(&str, &[&str])] = &[
    // Which program a command starts.
    (
        "version managers",
        &[
            ".*-version",
            ".*-versions",
            ".nvmrc",
            ".sdkmanrc",
            ".prototools",
            ".vfox.toml",
            "mise*.toml",
            ".mise*.toml",
            ".mise/",
            "mise/config*.toml",
            ".config/mise/",
            ".rtx.toml",
            "rust-toolchain",
            "rust-toolchain.toml",
            "global.json",
            "rokit.toml",
            "aftman.toml",
            "foreman.toml",
            "devbox.json",
            "pyvenv.cfg",
            "volta.json",
        ],
    ),
    (
        "environments",
        &[".envrc", "flake.nix", "shell.nix", "default.nix"],
    ),
    // What a command runs, and how.
    (
        "make",
        &[
            "Makefile",
            "GNUmakefile",
            "BSDmakefile",
            "Makefile.*",
            "*.mk",
            "*.mak",
        ],
    ),
    (
        "just, task and others",
        &[
            "justfile",
            ".justfile",
            "*.just",
            "Taskfile*.yml",
            "Taskfile*.yaml",
            "Earthfile",
            "Snakefile",
            "Tiltfile",
            "magefile.go",
            "dagger.json",
            "moon.yml",
            ".moon/",
        ],
    ),
    (
        "native builds",
        &[
            "CMakeLists.txt",
            "*.cmake",
            "CMakePresets.json",
            "CMakeUserPresets.json",
            "meson.build",
            "meson.options",
            "meson_options.txt",
            "build.ninja",
            "SConstruct",
            "SConscript",
            "wscript",
            "configure",
            "configure.ac",
        ],
    ),
    (
        "bazel, buck, pants",
        &[
            "BUILD.bazel",
            "WORKSPACE.bazel",
            "MODULE.bazel",
            "*.bzl",
            ".bazelrc",
            ".bazelversion",
            ".buckconfig",
            "pants.toml",
        ],
    ),
    (
        "python",
        &[
            "pyproject.toml",
            "setup.py",
            "setup.cfg",
            "Pipfile",
            "uv.toml",
            "pixi.toml",
            "hatch.toml",
            "pdm.toml",
            "poetry.toml",
            "dodo.py",
            "fabfile.py",
            // Entry points: plugins that a runner loads by itself.
            "*.dist-info/",
            "*.egg-info/",
            "*.egg/",
            "*.egg-link",
            "*.pth",
            ".pdbrc",
        ],
    ),
    (
        "python's runners and linters",
        &[
            "conftest.py",
            "pytest.ini",
            ".pytest.ini",
            "pytest.toml",
            ".pytest.toml",
            "tox.ini",
            "tox.toml",
            "noxfile.py",
            ".coveragerc",
            "nose.cfg",
            ".noserc",
            "behave.ini",
            ".behaverc",
            "ruff.toml",
            ".ruff.toml",
            "mypy.ini",
            ".mypy.ini",
            "pyrightconfig.json",
            ".flake8",
            "pylintrc",
            ".pylintrc",
            "pylintrc.toml",
            ".isort.cfg",
            ".bandit",
        ],
    ),
    (
        "npm, pnpm, yarn, bun, deno",
        &[
            "package.json",
            "package.json5",
            "package.yaml",
            ".npmrc",
            ".yarnrc",
            ".yarnrc.yml",
            ".pnp.*",
            ".pnpmfile.*",
            "pnpmfile.*",
            "pnpm-workspace.yaml",
            "bunfig.toml",
            "deno.json",
            "deno.jsonc",
            "import_map.json",
            "node.config.json",
            "lerna.json",
            "nx.json",
            "project.json",
            "turbo.json",
            "rush.json",
            "gulpfile.*",
            "Gruntfile.*",
            "Jakefile*",
        ],
    ),
    (
        "javascript's runners, compilers and linters",
        &[
            "jest.config.*",
            "vitest.config.*",
            "vitest.workspace.*",
            "vite.config.*",
            "rstest.config.*",
            "playwright.config.*",
            "cypress.config.*",
            "cypress.json",
            "ava.config.*",
            "karma.conf.*",
            "wdio.conf.*",
            "web-test-runner.config.*",
            ".mocharc",
            ".mocharc.*",
            "mocha.opts",
            "jasmine.json",
            ".taprc",
            ".nycrc",
            ".nycrc.*",
            ".c8rc",
            ".c8rc.*",
            "babel.config.*",
            ".babelrc",
            ".babelrc.*",
            ".swcrc",
            "tsconfig*.json",
            "jsconfig.json",
            "eslint.config.*",
            ".eslintrc",
            ".eslintrc.*",
            ".eslintignore",
            "biome.json",
            "biome.jsonc",
            "prettier.config.*",
            ".prettierrc",
            ".prettierrc.*",
            ".prettierignore",
            "stylelint.config.*",
            ".stylelintrc",
            ".stylelintrc.*",
        ],
    ),
    (
        "cargo",
        &[
            "Cargo.toml",
            // Run by cargo because it is there.
            "build.rs",
            ".cargo/config",
            ".cargo/config.toml",
            ".config/nextest.toml",
            "clippy.toml",
            ".clippy.toml",
            "rustfmt.toml",
            ".rustfmt.toml",
        ],
    ),
    ("go", &["go.mod", "go.work", ".golangci.*"]),
    (
        "java, kotlin, scala",
        &[
            "pom.xml",
            "mvnw",
            ".mvn/",
            "build.gradle",
            "build.gradle.kts",
            "settings.gradle",
            "settings.gradle.kts",
            "gradle.properties",
            "gradlew",
            "gradle/wrapper/",
            "gradle/libs.versions.toml",
            "*.sbt",
            "build.properties",
            ".sbtopts",
            ".jvmopts",
            "build.mill",
            "build.sc",
            "build.xml",
            "testng.xml",
        ],
    ),
    (
        "dotnet",
        &[
            "*.csproj",
            "*.fsproj",
            "*.vbproj",
            "*.sln",
            "*.slnx",
            "*.runsettings",
            "Directory.Build.*",
            "Directory.Packages.props",
            "nuget.config",
        ],
    ),
    (
        "ruby",
        &[
            "Rakefile",
            "Rakefile.rb",
            "Gemfile",
            "gems.rb",
            ".rspec",
            ".rspec-local",
            ".simplecov",
            ".rubocop.yml",
        ],
    ),
    (
        "php",
        &[
            "composer.json",
            "phpunit.xml",
            "phpunit.xml.dist",
            "phpunit.dist.xml",
            "phpstan.neon*",
            "pest.php",
        ],
    ),
    (
        "other languages",
        &[
            "Package.swift",
            "mix.exs",
            ".formatter.exs",
            "rebar.config",
            "pubspec.yaml",
            "dart_test.yaml",
            "analysis_options.yaml",
            "*.cabal",
            "cabal.project*",
            "stack.yaml",
            "dune-project",
            "*.opam",
            "project.clj",
            "deps.edn",
            "tests.edn",
            "build.zig",
            "build.zig.zon",
            "shard.yml",
            "Project.toml",
            "Makefile.PL",
            "Build.PL",
            ".proverc",
            ".busted",
            ".luacheckrc",
        ],
    ),
    (
        "hooks of git",
        &[".pre-commit-config.yaml", "lefthook.yml", ".husky/"],
    ),
];

/// Names that mean something in this very spelling only: in another one they are anybody's.
pub(super) const EXACT: &[&str] = &["BUILD", "WORKSPACE", "BUCK", "dune"];

/// The pattern of a tool that a path falls under.
pub(super) fn pattern_of(path: &str) -> Option<&'static str> {
    let components: Vec<&str> = path.split('/').collect();
    let name = components.last().copied().unwrap_or_default();
    if let Some(exact) = EXACT.iter().find(|known| **known == name) {
        return Some(exact);
    }
    let patterns = TOOLS.iter().flat_map(|(_, patterns)| patterns.iter());
    let mut patterns = patterns.copied();
    patterns.find(|pattern| falls_under(pattern, &components))
}

fn falls_under(pattern: &str, components: &[&str]) -> bool {
    let (pattern, is_directory) = match pattern.strip_suffix('/') {
        Some(directory) => (directory, true),
        None => (pattern, false),
    };
    let parts: Vec<&str> = pattern.split('/').collect();
    let fits = |window: &[&str], parts: &[&str]| {
        let mut both = window.iter().zip(parts);
        both.all(|(name, part)| matches(part, name))
    };
    let ends_in = |parts: &[&str]| {
        let start = components.len().checked_sub(parts.len());
        start.is_some_and(|start| fits(&components[start..], parts))
    };
    let is_below = || components.windows(parts.len()).any(|w| fits(w, &parts));
    (is_directory && is_below()) || (1..=parts.len()).any(|count| ends_in(&parts[..count]))
}

/// One `*` stands for anything but nothing.
fn matches(pattern: &str, name: &str) -> bool {
    let (name, pattern) = (name.as_bytes(), pattern.as_bytes());
    let Some(star) = pattern.iter().position(|&byte| byte == b'*') else {
        return name.eq_ignore_ascii_case(pattern);
    };
    let (start, end) = (&pattern[..star], &pattern[star + 1..]);
    name.len() >= pattern.len()
        && name[..start.len()].eq_ignore_ascii_case(start)
        && name[name.len() - end.len()..].eq_ignore_ascii_case(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_stand_once_and_are_of_one_kind() {
        let all: Vec<&str> = TOOLS.iter().flat_map(|(_, p)| p.iter()).copied().collect();
        let once: std::collections::BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(once.len(), all.len());
        for pattern in all {
            assert!(pattern.matches('*').count() <= 1, "{pattern}");
            assert!(!pattern.starts_with('/') && pattern != "*", "{pattern}");
            // Each is met by a name that is made from it, at any depth.
            let name = pattern.replace('*', "x");
            let name = match name.ends_with('/') {
                true => format!("{name}x"),
                false => name,
            };
            assert!(pattern_of(&name).is_some(), "{name}");
            assert!(pattern_of(&format!("a/b/{name}")).is_some(), "{name}");
        }
    }

    #[test]
    fn a_link_in_the_place_of_a_directory_is_meant_too() {
        for (path, expected) in [
            (".config/nextest.toml", Some(".config/nextest.toml")),
            (".config", Some(".config/mise/")),
            ("a/.mvn", Some(".mvn/")),
            (".config/other.toml", None),
            ("gradle/wrapper/gradle-wrapper.jar", Some("gradle/wrapper/")),
            ("wrapper/gradle-wrapper.jar", None),
        ] {
            assert_eq!(pattern_of(path), expected, "{path}");
        }
    }

    proptest! {
        #[test]
        fn any_path_is_read_without_panic(path in "[a-z./*é]{0,30}") {
            let _pattern = pattern_of(&path);
        }

        #[test]
        fn case_and_depth_change_nothing(at in 0_usize..1_000, upper in any::<bool>()) {
            let all: Vec<&str> = TOOLS.iter().flat_map(|(_, p)| p.iter()).copied().collect();
            let name = all[at % all.len()].replace('*', "x1").trim_end_matches('/').to_owned();
            let name = if upper { name.to_ascii_uppercase() } else { name.to_ascii_lowercase() };
            let deep = format!("deep/er/{name}");
            prop_assert!(pattern_of(&deep).is_some());
        }
    }
}
