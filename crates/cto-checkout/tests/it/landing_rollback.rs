//! A landed change is taken back exactly, or not at all.

use cto_checkout::{BranchName, Landed, LandingError, Oid, RollbackRequest, prepare_rollback};
use cto_contract::task::BranchUpdate;
use cto_rules::landing::{RollbackFacts, decide_rollback};

use crate::landing_stage::{Checked, EDIT, RUN, small, text};

fn rollback(checked: &Checked, landed: Oid) -> Result<Landed, LandingError> {
    let branch = BranchName::parse("main").unwrap();
    let target = checked.owner.open();
    let request = RollbackRequest {
        base: checked.base,
        landed,
        branch: &branch,
        tip: None,
        update: BranchUpdate::CheckedOut,
        left_alone: None,
        text: &text(),
    };
    let prepared = prepare_rollback(&target, &request, &checked.scratch())?;
    let grant = decide_rollback(&RollbackFacts {
        run_id: RUN.parse().unwrap(),
        is_landed: true,
        is_asked_for: true,
        is_exact: true,
        tree: prepared.tree().to_string().parse().unwrap(),
    });
    prepared.land(&target, grant.unwrap())
}

#[test]
fn a_landed_change_is_taken_back_exactly_also_below_later_work() {
    let checked = Checked::new(small(), EDIT);
    let landed = checked
        .lands("main", BranchUpdate::CheckedOut)
        .unwrap()
        .commit;
    let base = checked
        .owner
        .git(&["rev-parse", &format!("{}^{{tree}}", checked.base)]);
    rollback(&checked, landed).unwrap();
    assert_eq!(checked.owner.git(&["rev-parse", "HEAD^{tree}"]), base);
    checked.is_sound();

    let checked = Checked::new(small(), EDIT);
    let landed = checked
        .lands("main", BranchUpdate::CheckedOut)
        .unwrap()
        .commit;
    checked.owner.commit(&[("later", "work\n")]);
    rollback(&checked, landed).unwrap();
    let names = checked
        .owner
        .git(&["diff", "--name-only", &checked.base.to_string(), "HEAD"]);
    assert_eq!(names, "later");
    checked.is_sound();
}

#[test]
fn a_change_that_was_worked_on_since_is_not_taken_back() {
    for work in [
        ("a", "edited\n"),
        ("e/f/g", "made anew\n"),
        ("e", "another kind\n"),
    ] {
        let checked = Checked::new(small(), EDIT);
        let landed = checked
            .lands("main", BranchUpdate::CheckedOut)
            .unwrap()
            .commit;
        let tip = checked.owner.commit(&[work]);
        let before = checked.state();
        let refused = rollback(&checked, landed).unwrap_err();
        assert!(
            matches!(refused, LandingError::NotExact { .. }),
            "{work:?}: {refused:?}"
        );
        assert_eq!(checked.state(), before);
        assert_eq!(checked.owner.git(&["rev-parse", "HEAD"]), tip);
    }
}
