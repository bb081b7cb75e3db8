//! Files that are frozen until a contract names them.

use super::scope;

#[test]
fn runner_files_are_frozen_unless_named_exactly() {
    for path in [
        "unittest.py",
        "unittest/__init__.py",
        "a/unittest_x/b.py",
        "conftest.py",
        "tests/conftest.py",
        "package.json",
        "packages/web/package.json",
        "crates/a/Cargo.toml",
        "a/b/Makefile",
        "py/pyproject.toml",
        "svc/go.mod",
        "sitecustomize.py",
        "sitecustomize/__init__.py",
        "usercustomize.so",
        "lib/x.pth",
        "pytest.ini",
        ".pytest.ini",
        "a/tox.ini",
        "setup.cfg",
        "noxfile.py",
        ".coveragerc",
        ".cargo/config",
        "sub/.cargo/config.toml",
        ".cargo",
        "jest.config.mjs",
        "web/vitest.config.ts",
        ".mocharc.json",
        "karma.conf.js",
        ".npmrc",
        "go.work",
        ".config/nextest.toml",
        "pytest.py",
        "_pytest/runner.py",
        "pluggy/__init__.py",
        "rust-toolchain",
        "rust-toolchain.toml",
        "node.config.json",
        ".gitattributes",
        "deep/er/.gitignore",
        "src/.GitAttributes",
        "gitatt~1",
        ".gitignore. ",
        ".git\u{200c}ignore",
        // Which program a command starts.
        ".tool-versions",
        "svc/.python-version",
        ".mise.local.toml",
        ".config/mise/conf.d/x.toml",
        // A link in the place of a directory, and a plugin by its entry point.
        ".config",
        "evil-1.0.dist-info/entry_points.txt",
        "evil.egg-info",
        // Another language, another spelling, another linter.
        "android/app/build.gradle.kts",
        "JUSTFILE",
        "sub/rules.mk",
        "ruff.toml",
        "web/vite.config.ts",
        "BUILD",
        "crates/a/build.rs",
        // A pattern stands for its plain name too.
        "tsconfig.json",
        "mise.toml",
        ".mise.toml",
        "Taskfile.yml",
        "cabal.project",
        "Jakefile",
        "phpstan.neon",
        // What lies nearer to a package than the real program or library.
        "packages/node_modules/.bin/vitest",
        "src/node_modules/chai/index.js",
        "node_modules",
        "lib/site-packages/x.py",
        ".yarn/releases/yarn-4.5.0.cjs",
        ".bundle/config",
        "vendor/modules.txt",
        "svc/vendor/bin/phpunit",
        "deny.toml",
        "checkstyle.xml",
    ] {
        assert!(
            scope(&["**"], &[], path).starts_with("runner_file"),
            "{path}"
        );
        assert!(
            scope(&["**", path], &[], path).starts_with("allowed"),
            "{path} named"
        );
        assert!(
            scope(&[path], &[path], path).starts_with("forbidden"),
            "{path} named and forbidden"
        );
    }
    for path in [
        "UnitTests/a.cs",
        "my_unittest.py",
        "test_conftest.py",
        "conftest.pyx",
        "config.toml",
        "go.workspace",
        "pytest_plugin.py",
        "docs/my-pytest/a.md",
        "build/out.txt",
        "build",
        "src/configure.py",
        "docs/versions",
        "src/version.rs",
        "project/readme.md",
        "src/vendor/models.py",
        "vendor/assets/logo.svg",
        "docs/node_modules.md",
    ] {
        assert!(scope(&["**"], &[], path).starts_with("allowed"), "{path}");
    }
}

#[test]
fn steering_files_are_refused_unless_named_exactly() {
    for path in [
        "AGENTS.md",
        "docs/agents.md",
        "CLAUDE.md",
        "GEMINI.md",
        ".claude/settings.json",
        ".claude",
        "sub/.codex/config.toml",
        ".pi/x",
        ".mcp.json",
        ".cursor/rules/a.md",
        ".github/copilot-instructions.md",
        ".github/instructions/a.md",
        ".vscode/mcp.json",
        // A link in the place of the directory.
        ".github",
        "sub/.vscode",
    ] {
        assert!(
            scope(&["**"], &[], path).starts_with("steering_file"),
            "{path}"
        );
        assert!(
            scope(&["**/*", path], &[], path).starts_with("allowed"),
            "{path} named"
        );
    }
    assert!(scope(&["**"], &[], "copilot-instructions.md").starts_with("allowed"));
}
