//! Attributes of git that make a clone hold other bytes than were checked: no change alters them.

use serde_json::json;

use crate::source::Source;

/// A repository whose owner allows the attribute files by name.
fn source(attributes: &[(&str, &str)]) -> Source {
    let mut files = vec![
        ("src/a.txt", "old $Id$\n"),
        ("src/b.txt", "b\n"),
        ("other.txt", "untouched $Id$\n"),
    ];
    files.extend(attributes);
    let source = Source::new(&files);
    source.contract(
        "allowed_paths: [src/, .gitattributes, src/.gitattributes, src/.GITATTRIBUTES]\nverification_commands: [{run: grep -q new src/a.txt, must_fail_before: true}]\n",
    );
    source
}

const WORK: &str = "echo 'new $Id$' > src/a.txt\n";

#[test]
fn an_attribute_that_would_convert_any_path_is_refused() {
    for (what, script) in [
        ("ident", "echo '*.txt ident' > .gitattributes"),
        ("text", "echo '* text' > .gitattributes"),
        ("eol", "echo 'src/* eol=crlf' > .gitattributes"),
        ("crlf", "echo '* crlf' > .gitattributes"),
        (
            "encoding",
            "echo '* working-tree-encoding=UTF-16' > .gitattributes",
        ),
        ("a filter", "echo 'other.txt filter=evil' > .gitattributes"),
        ("an archive", "echo '*.txt export-subst' > .gitattributes"),
        (
            "in a subdirectory",
            "echo 'b.txt ident' > src/.gitattributes",
        ),
        (
            "a macro",
            "printf '[attr]plain -diff ident\\n*.txt plain\\n' > .gitattributes",
        ),
        ("another spelling", "echo '* ident' > src/.GITATTRIBUTES"),
        (
            "for a path that is new",
            "echo 'new.txt ident' > .gitattributes; echo '$Id$' > src/new.txt",
        ),
    ] {
        let source = source(&[]);
        let (code, blockers, report) = source.work(&format!("{WORK}{script}"));
        assert_eq!(code, 1, "{what}: {report:#}");
        assert_eq!(blockers, ["patch_not_reproducible"], "{what}");
    }
}

/// A macro that the owner defined is used from below; the file comes in by a rename.
#[test]
fn a_macro_used_in_a_subdirectory_and_a_file_that_is_renamed_in_are_refused() {
    let macros = ("src/attributes", "*.txt keyword\n");
    let defined = (".gitattributes", "[attr]keyword ident\n");
    for script in [
        "echo 'a.txt keyword' > src/.gitattributes",
        "mv src/attributes src/.gitattributes",
        "git mv src/attributes src/.gitattributes; git commit -qm moved",
        "ln src/attributes src/.gitattributes",
    ] {
        let source = source(&[defined, macros]);
        let (code, blockers, report) = source.work(&format!("{WORK}{script}"));
        assert_eq!(code, 1, "{script}: {report:#}");
        assert_eq!(blockers, ["patch_not_reproducible"], "{script}");
        let message = report["blockers"][0]["message"].as_str().unwrap();
        assert!(
            message.contains("`src/a.txt`: ident was unspecified and is set"),
            "{message}"
        );
    }
}

#[test]
fn taking_a_conversion_away_alters_it_too() {
    let source = source(&[
        (".gitattributes", "*.txt ident\n"),
        ("src/.gitattributes", "*.txt -ident\n"),
    ]);
    let alters = "patch_not_reproducible";
    for (script, expected) in [
        ("rm .gitattributes", &[alters][..]),
        ("rm src/.gitattributes", &[alters]),
        // Whether a link is followed depends on git's version.
        (
            "ln -sf a.txt src/.gitattributes",
            &[alters, "disallowed_file_change"],
        ),
    ] {
        let (code, blockers, _) = source.work(&format!("{WORK}{script}"));
        assert_eq!(code, 1, "{script}");
        assert_eq!(blockers, expected, "{script}");
    }
}

#[test]
fn attributes_that_convert_nothing_may_change_and_the_clone_is_compared() {
    let source = source(&[]);
    let (code, _, report) = source.work(&format!(
        "{WORK}echo '*.txt diff=plain -text linguist-generated' > .gitattributes; printf 'a\\r\\nb\\n' > src/mixed; chmod +x src/b.txt; ln -s a.txt src/link"
    ));
    // `-text` where nothing was said converts nothing, but it is another attribute than before.
    assert_eq!(code, 1, "{report:#}");
    let (code, _, report) = source.work(&format!(
        "{WORK}echo '*.txt diff=plain linguist-generated' > .gitattributes; printf 'a\\r\\nb\\n' > src/mixed; chmod +x src/b.txt; ln -s a.txt src/link"
    ));
    assert_eq!(code, 0, "{report:#}");
    assert_eq!(
        report["clone_check"],
        json!({"compared": 5, "not_compared": [], "not_compared_count": 0})
    );
    source.place.cto(&["verify", "latest"]).expect(0);
}

#[test]
fn what_the_owner_lets_git_convert_is_said_in_the_report() {
    let source = source(&[(".gitattributes", "*.txt text eol=crlf\n")]);
    let (code, _, report) = source.work(&format!("{WORK}echo x > src/plain"));
    assert_eq!(code, 0, "{report:#}");
    assert_eq!(
        report["clone_check"],
        json!({"compared": 1, "not_compared": ["src/a.txt"], "not_compared_count": 1})
    );
    let page = std::fs::read_to_string(source.pack(&report).join("report.md")).unwrap();
    assert!(page.contains("converts when it writes"), "{page}");
}

#[test]
fn files_of_git_are_frozen_unless_they_are_named() {
    for script in [
        "echo x > src/.gitattributes",
        "echo x > src/.gitignore",
        "mkdir src/deep; echo x > src/deep/.GitIgnore",
        "echo x > 'src/gitatt~1'",
    ] {
        let source = source(&[]);
        source
            .contract("allowed_paths: [src/]\nverification_commands: [{run: grep -q new src/a.txt, must_fail_before: true}]\n");
        let (code, blockers, report) = source.work(&format!("{WORK}{script}"));
        assert_eq!(code, 1, "{script}: {report:#}");
        assert!(
            blockers.contains(&"disallowed_file_change".to_owned()),
            "{script}: {blockers:?}"
        );
    }
}
