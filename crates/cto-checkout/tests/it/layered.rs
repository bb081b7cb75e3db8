//! A patch seen as a layer over its baseline is the tree that the patch makes.

use std::fs;

use cto_checkout::{
    Change, LayerError, OverlaidTree, PatchCaps, PatchedLayer, WorkingCopy, Workspace, apply_patch,
    take_patch,
};

use crate::stage::{Stage, file};
use crate::upper::{TREE, can_mount, in_overlay, run, run_well};

/// Everything a process could see in a tree.
const LOOK: &str = "find . -mindepth 1 -printf '%P %y %m %l\\n' | LC_ALL=C sort; \
     find . -type f -print0 | LC_ALL=C sort -z | xargs -0r sha256sum";

fn look(at: &std::path::Path) -> String {
    let output = run("sh", &["-c", LOOK], at);
    String::from_utf8(output.stdout).unwrap()
}

/// What is seen in an overlay with the layer over the baseline.
fn look_through(stage: &Stage, layer: &PatchedLayer) -> String {
    let dir = stage.dir.path().join("through");
    fs::create_dir(&dir).unwrap();
    for part in ["upper", "work", "merged"] {
        fs::create_dir(dir.join(part)).unwrap();
    }
    std::os::unix::fs::symlink(&layer.path, dir.join("top")).unwrap();
    std::os::unix::fs::symlink(&stage.baseline.root, dir.join("below")).unwrap();
    let mount = format!(
        "mount -t overlay overlay -o lowerdir=top:below,upperdir=upper,workdir=work,userxattr merged && cd merged && {LOOK}"
    );
    let output = run("unshare", &["-Urm", "sh", "-c", &mount], &dir);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    cto_checkout::remove_tree(&dir.join("work")).unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_layer_over_the_baseline_looks_like_a_fresh_copy_with_the_patch() {
    if !can_mount() {
        return;
    }
    for script in [
        "true",
        "echo two > a",
        "rm a",
        "rm -r d/e",
        "rm -r d",
        "rm -r d && echo file > d",
        "rm a && mkdir a && echo x > a/b",
        "mkdir -p n/m && echo new > n/m/o && rm d/e/deep",
        "mv d/f d/g",
        "mv d moved 2>/dev/null || (cp -a d moved && rm -r d)",
        "rm link && ln -s a link && chmod +x a && chmod -x run",
        "rm d/e/deep d/e/more && echo e > d/e.txt",
        "find . -mindepth 1 -delete",
        "printf '\\000\\001' > binary && printf 'caf\\303\\251' > 'sp ace \\303\\251'",
    ] {
        let stage = Stage::new(&TREE);
        let workspace = {
            let upper = in_overlay(&stage, script);
            let kept = stage.dir.path().join("kept");
            let tree = OverlaidTree::make(&stage.baseline, &kept).unwrap();
            run_well("cp", &["-a", &format!("{}/.", upper.display()), "."], &kept);
            Workspace::Overlay(tree)
        };
        let changes = workspace.changes().unwrap().changes;
        let patch = take_patch(
            &stage.git_dir,
            &stage.baseline,
            &workspace,
            &changes,
            &stage.dir.path().join("patch"),
            &PatchCaps::default(),
        )
        .unwrap();
        let layer = PatchedLayer::make(
            &stage.git_dir,
            &stage.baseline,
            &patch,
            &changes,
            &stage.dir.path().join("layer"),
        )
        .unwrap();
        assert_eq!(layer.tree_id, patch.tree_id, "{script}");
        assert_eq!(*layer.manifest, patch.manifest, "{script}");
        let fresh = WorkingCopy::make(&stage.baseline, &stage.dir.path().join("fresh")).unwrap();
        apply_patch(&stage.git_dir, &patch.path, &fresh).unwrap();
        assert_eq!(look_through(&stage, &layer), look(fresh.path()), "{script}");
    }
}

/// A patch that says more than the changes it was taken for.
#[test]
fn a_patch_that_touches_another_file_gives_no_layer() {
    let stage = Stage::new(&[file("a", "one\n"), file("b", "one\n")]);
    stage.put("a", "two\n");
    stage.put("c", "new\n");
    let patch = stage.patch();
    let all = stage.copy.changes().unwrap().changes;
    let only_a: Vec<Change> = all
        .iter()
        .filter(|c| c.path.as_bytes() == b"a")
        .cloned()
        .collect();
    let only_c: Vec<Change> = all
        .iter()
        .filter(|c| c.path.as_bytes() == b"c")
        .cloned()
        .collect();
    let make = |changes: &[Change], name: &str| {
        PatchedLayer::make(
            &stage.git_dir,
            &stage.baseline,
            &patch,
            changes,
            &stage.dir.path().join(name),
        )
    };
    assert!(matches!(
        make(&only_a, "one").unwrap_err(),
        LayerError::Mismatch(_)
    ));
    assert!(matches!(
        make(&only_c, "two").unwrap_err(),
        LayerError::Apply(_)
    ));
    assert_eq!(make(&all, "all").unwrap().tree_id, patch.tree_id);
}

#[test]
fn an_upper_directory_that_was_swapped_is_refused() {
    let stage = Stage::new(&TREE);
    let upper = stage.dir.path().join("upper");
    let tree = Workspace::Overlay(OverlaidTree::make(&stage.baseline, &upper).unwrap());
    assert!(tree.changes().unwrap().is_clean());
    fs::rename(&upper, stage.dir.path().join("away")).unwrap();
    fs::create_dir(&upper).unwrap();
    let error = tree.changes().unwrap_err().to_string();
    assert!(error.contains("was replaced"), "{error}");
}
