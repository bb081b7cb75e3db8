use std::fs;

use crate::place::{Place, sh};

#[test]
fn a_pack_travels_and_verifies_where_it_arrives() {
    let here = Place::new().with_key();
    let pack = here.passed();
    let there = Place::new().with_key();
    for name in ["a.tar", "a.tar.gz"] {
        let file = there.path(name);
        here.cto(&["export", "latest", "--tar", file.to_str().unwrap()])
            .expect(0);
        let again = there.path("again");
        here.cto(&["export", "latest", "--tar", again.to_str().unwrap()])
            .expect(0);
        if name == "a.tar" {
            assert_eq!(
                fs::read(&file).unwrap(),
                fs::read(again).unwrap(),
                "same pack, same bytes"
            );
        }
        let done = there.cto(&["import", name, "--json"]).expect(0).json();
        assert_eq!(done["origin"], "unknown");
        assert_eq!(done["already_here"], name != "a.tar");
    }
    let id = pack.file_name().unwrap().to_str().unwrap();
    there.cto(&["verify", id]).expect(5);
    there.cto(&["verify", id, "--integrity-only"]).expect(0);
    assert_eq!(
        there.cto(&["runs", "--json"]).json()["rows"][0]["run_id"],
        id
    );
    assert_eq!(
        there
            .cto(&["import", pack.to_str().unwrap(), "--json"])
            .json()["already_here"],
        true
    );
    assert_eq!(
        fs::read_dir(there.path("home/incoming")).unwrap().count(),
        0,
        "nothing is left aside"
    );
}

#[test]
fn the_patch_of_a_pass_applies_and_no_other_is_handed_over() {
    let place = Place::new().with_key();
    place.passed();
    sh(&place.path(""), "mkdir tree");
    place
        .cto(&["export", "latest", "--patch", "a.patch"])
        .expect(0);
    assert_eq!(
        fs::read_to_string(place.path("a.patch")).unwrap(),
        place.cto(&["diff", "latest"]).out
    );
    assert_eq!(
        place.cto(&["export", "latest", "--patch"]).out,
        place.cto(&["diff", "latest"]).out
    );
    place
        .cto(&["run", "r1-string-slugify", "--engine", "codex"])
        .expect(3);
    assert_eq!(
        place
            .cto(&["export", "latest", "--patch", "b.patch", "--json"])
            .error(),
        "1 run_not_passed"
    );
    assert!(!place.path("b.patch").exists());
    let pack = place.passed();
    sh(&pack, "printf x >> test.log");
    assert_eq!(
        place
            .cto(&["export", "latest", "--patch", "b.patch", "--json"])
            .error(),
        "5 pack_broken"
    );
    assert_eq!(
        place
            .cto(&["export", "latest", "--tar", "b.tar", "--json"])
            .error(),
        "5 pack_broken"
    );
    assert!(!place.path("b.patch").exists() && !place.path("b.tar").exists());
}

#[test]
fn an_archive_is_not_trusted() {
    let here = Place::new().with_key();
    let pack = here.passed();
    let id = pack.file_name().unwrap().to_str().unwrap().to_owned();
    let there = Place::new().with_key();
    let dir = there.path("");
    let error = |script: &str| {
        sh(
            &dir,
            &format!(
                "rm -rf in x.tar && mkdir in && cp -a {} in/{id} && cd in && {script}",
                pack.display()
            ),
        );
        let ran = there.cto(&["import", "x.tar", "--json"]);
        assert_eq!(
            fs::read_dir(there.path("home/harness-runs"))
                .unwrap()
                .count(),
            0,
            "{script}: nothing is taken in"
        );
        assert!(
            fs::read_dir(there.path("home/incoming")).map_or(0, Iterator::count) == 0,
            "{script}: nothing is left"
        );
        ran.error()
    };
    assert_eq!(
        error(&format!(
            "ln -s /etc/passwd {id}/more && tar cf ../x.tar {id}"
        )),
        "2 archive_entry_refused"
    );
    assert_eq!(
        error(&format!("mkfifo {id}/more && tar cf ../x.tar {id}")),
        "2 archive_entry_refused"
    );
    assert_eq!(
        error(&format!("touch ../out && tar -P -cf ../x.tar {id} ../out")),
        "2 archive_entry_refused"
    );
    assert_eq!(
        error(&format!("tar -P -cf ../x.tar $PWD/{id}/report.json")),
        "2 archive_entry_refused"
    );
    assert_eq!(
        error(&format!("touch other && tar cf ../x.tar {id} other")),
        "2 archive_entry_refused"
    );
    assert_eq!(error("echo hello > ../x.tar"), "2 archive_malformed");
    assert_eq!(error("tar cf ../x.tar -T /dev/null"), "2 archive_unknown");
    assert_eq!(
        error(&format!(
            "printf x >> {id}/test.log && tar cf ../x.tar {id}"
        )),
        "5 pack_broken"
    );
    assert_eq!(
        error(&format!("touch {id}/more && tar cf ../x.tar {id}")),
        "5 pack_broken"
    );
    assert_eq!(
        error(&format!("tar cf - {id} | head -c 20000 > ../x.tar")),
        "2 archive_malformed"
    );
    // What GNU tar can write and we do not read.
    for (script, why) in [
        (
            "tar cf ../x.tar ID && tar rf ../x.tar ID/test.log",
            "taken by an earlier one",
        ),
        ("touch 'ID/a\\b' && tar cf ../x.tar ID", "may not hold"),
        (
            "touch \"ID/$(printf 'a\\001b')\" && tar cf ../x.tar ID",
            "may not hold",
        ),
        (
            "ln ID/test.log ID/more && tar cf ../x.tar ID",
            "no regular file",
        ),
        (
            "truncate -s 1T ID/more && tar -S -cf ../x.tar ID",
            "no regular file",
        ),
        (
            "tar cf ../x.tar ID && tar rf ../x.tar ID/test.log --transform 's,$,/below,'",
            "taken by an earlier one",
        ),
        (
            "tar cf ../x.tar ID --transform 's,test.log,../test.log,'",
            "leaves the archive",
        ),
        (
            "tar -P -cf ../x.tar ID --transform 's,^,/,'",
            "leaves the archive",
        ),
        (
            "tar --format=pax -cf ../x.tar ID --transform 's,test.log,../../test.log,'",
            "leaves the archive",
        ),
    ] {
        let ran = error(&script.replace("ID", &id));
        assert_eq!(ran, "2 archive_entry_refused", "{script}");
        let said = there.cto(&["import", "x.tar"]).err;
        assert!(said.contains(why), "{script}: {said}");
    }
    // A header alone that promises more than there may be.
    assert_eq!(
        error(
            "python3 -c \"import tarfile,io; t=tarfile.TarInfo('a/b'); t.size=1<<45; open('../x.tar','wb').write(t.tobuf(tarfile.GNU_FORMAT))\""
        ),
        "2 archive_too_large"
    );
    // Names that only some file systems tell apart: each is a file of its own, and one too many.
    for name in ["TEST.LOG", "backend/Stdout.log", "caf\u{e9}", "cafe\u{301}"] {
        let script = format!("cp {id}/test.log {id}/{name} && tar cf ../x.tar {id}");
        assert_eq!(error(&script), "5 pack_broken", "{name}");
    }
    let other = "20200101T000000Z-r1-string-slugify-aaaaaa";
    assert_eq!(
        error(&format!("mv {id} {other} && tar cf ../x.tar {other}")),
        "5 archive_misnamed"
    );
}

#[test]
fn a_run_that_is_here_is_not_replaced() {
    let here = Place::new().with_key();
    let pack = here.passed();
    here.cto(&["export", "latest", "--tar", "a.tar"]).expect(0);
    let before = fs::read(pack.join("report.json")).unwrap();
    sh(&pack, "printf x >> test.log");
    assert_eq!(
        here.cto(&["import", "a.tar", "--json"]).error(),
        "2 run_exists"
    );
    assert_eq!(fs::read(pack.join("report.json")).unwrap(), before);
}

#[test]
fn withheld_files_stay_here_and_the_rest_verifies_there() {
    let here = Place::new().with_key();
    let pack = here.passed();
    let id = pack.file_name().unwrap().to_str().unwrap();
    let there = Place::new().with_key();
    let export = |file: &str, withhold: &[&str]| {
        let file = there.path(file);
        let mut args = vec!["export", id, "--tar", file.to_str().unwrap(), "--json"];
        if !withhold.is_empty() {
            args.push("--withhold");
        }
        args.extend(withhold);
        here.cto(&args)
    };
    let backend = fs::read_dir(pack.join("backend"))
        .unwrap()
        .map(|e| format!("backend/{}", e.unwrap().file_name().to_str().unwrap()))
        .min()
        .unwrap();
    let asked = ["test.log", "patch.diff", &backend, "test.log"];
    let withheld = serde_json::json!([backend, "patch.diff", "test.log"]);
    let done = export("a.tar", &asked).expect(0).json();
    assert_eq!(done["withheld"], withheld);
    export("whole.tar", &[]).expect(0);

    let done = there.cto(&["import", "a.tar", "--json"]).expect(0).json();
    assert_eq!(done["withheld"], withheld);
    let arrived = there.pack(id);
    assert!(!arrived.join("patch.diff").exists() && !arrived.join(&backend).exists());
    let answer = there
        .cto(&["verify", id, "--integrity-only", "--json"])
        .expect(0)
        .json();
    assert_eq!(answer["withheld"], withheld);
    let level = |answer: &serde_json::Value, claim: &str| {
        let claims = answer["claims"].as_array().unwrap();
        let found = claims.iter().find(|c| c["kind"] == claim).unwrap();
        found["level"].as_str().unwrap().to_owned()
    };
    let whole = here.cto(&["verify", id, "--json"]).expect(0).json();
    assert_eq!(whole["withheld"], serde_json::json!([]));
    for claim in [
        "paths_within_contract",
        "patch_gives_checked_tree",
        "checks_pass",
        "checks_fail_before",
    ] {
        assert_eq!(level(&answer, claim), "self_reported", "{claim}");
        assert_ne!(level(&whole, claim), "self_reported", "{claim}");
    }
    let shown = format!("withheld  3 files: {backend}, patch.diff, test.log\n");
    for args in [
        ["verify", id, "--integrity-only"],
        ["import", "a.tar", "-q"],
    ] {
        let said = there.cto(&args).expect(0).out;
        assert!(said.contains(&shown), "{said}");
    }
    for args in [
        &["export", id, "--patch", "--any-origin", "--json"][..],
        &["diff", id, "--json"],
    ] {
        assert_eq!(there.cto(args).error(), "2 file_withheld");
    }
    // Handed on, it is the same copy; what it lacks can't be had back by an import, nor lost by one.
    there.cto(&["export", id, "--tar", "again.tar"]).expect(0);
    assert_eq!(
        fs::read(there.path("a.tar")).unwrap(),
        fs::read(there.path("again.tar")).unwrap()
    );
    assert_eq!(
        there.cto(&["import", "whole.tar", "--json"]).error(),
        "2 run_exists"
    );
    let file = there.path("a.tar");
    let kept = here
        .cto(&["import", file.to_str().unwrap(), "--json"])
        .expect(0)
        .json();
    assert_eq!(
        (&kept["already_here"], &kept["withheld"]),
        (&true.into(), &serde_json::json!([]))
    );
    here.cto(&["verify", id]).expect(0);

    for bad in [
        "report.json",
        "backend",
        "backend/absent",
        "../x",
        "SHA256SUMS",
    ] {
        assert_eq!(
            export("b.tar", &["patch.diff", bad]).error(),
            "2 withhold_refused",
            "{bad}"
        );
    }
    let twice = there.cto(&[
        "export",
        id,
        "--tar",
        "b.tar",
        "--withhold",
        "patch.diff",
        "--json",
    ]);
    assert_eq!(twice.error(), "2 withhold_refused", "it is not there");
    here.cto(&["export", id, "--patch", "b.tar", "--withhold", "test.log"])
        .expect(2);
    assert!(!there.path("b.tar").exists() && !here.path("b.tar").exists());
    // Who takes a file away without saying so, or says so of one that is there, is found.
    sh(&arrived, "cp SHA256SUMS patch.diff");
    there.cto(&["verify", id, "--integrity-only"]).expect(5);
    sh(&arrived, "rm patch.diff WITHHELD");
    there.cto(&["verify", id, "--integrity-only"]).expect(5);
}

#[test]
fn an_import_that_was_killed_is_finished_or_undone_by_the_next_command() {
    let here = Place::new().with_key();
    let id = here
        .passed()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    // Killed when this many of its files are there: from none at all to all of them and the rename.
    for files in 0..24 {
        let there = Place::new().with_key();
        let file = there.path("a.tar");
        here.cto(&["export", "latest", "--tar", file.to_str().unwrap()])
            .expect(0);
        let mut import = there.command(&["import", "a.tar"]).spawn().unwrap();
        let seen = || {
            let all = fs::read_dir(there.path("home/incoming"))
                .into_iter()
                .flatten();
            let packs = all.flatten().map(|e| e.path().join("pack"));
            let files: usize = packs
                .map(|p| fs::read_dir(p).map_or(0, Iterator::count))
                .sum();
            files + 100 * usize::from(there.pack(&id).exists())
        };
        while seen() < files && import.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        import.kill().unwrap();
        import.wait().unwrap();
        check_settled(&there, &id);
    }
}

/// The next command leaves nothing aside, and the pack is either wholly there or not at all.
fn check_settled(there: &Place, id: &str) {
    let rows = there.cto(&["runs", "--json"]).expect(0).json();
    let listed = rows["rows"].as_array().unwrap().len();
    assert_eq!(listed, usize::from(there.pack(id).exists()));
    let left = fs::read_dir(there.path("home/incoming")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "nothing is left aside");
    let done = there.cto(&["import", "a.tar", "--json"]).expect(0).json();
    assert_eq!(done["already_here"], listed == 1);
    there.cto(&["verify", id, "--integrity-only"]).expect(0);
}

#[test]
fn every_step_of_an_import_can_be_its_last() {
    let here = Place::new().with_key();
    let pack = here.passed();
    let id = pack.file_name().unwrap().to_str().unwrap();
    let holder = r#"{"boot_id":"x","pid":1,"start_time":1,"started_boot_ns":1}"#;
    let aside = format!("mkdir -p home/incoming/9-0 && echo '{holder}' > home/incoming/9-0/lock");
    let copy = format!("cp -a {} home/incoming/9-0/pack", pack.display());
    for steps in [
        "mkdir -p home/incoming/.new-999999999-0".to_owned(),
        "mkdir -p home/incoming/9-0".to_owned(),
        aside.clone(),
        format!("{aside} && {copy} && rm home/incoming/9-0/pack/report.json"),
        format!("{aside} && {copy}"),
        format!(
            "{aside} && {copy} && printf {} > home/incoming/9-0/run_id",
            &id[..9]
        ),
        format!("{aside} && {copy} && printf {id} > home/incoming/9-0/run_id"),
        format!(
            "{aside} && {copy} && printf {id} > home/incoming/9-0/run_id && mv home/incoming/9-0/pack home/harness-runs/{id}"
        ),
    ] {
        let there = Place::new().with_key();
        let file = there.path("a.tar");
        here.cto(&["export", id, "--tar", file.to_str().unwrap()])
            .expect(0);
        there.cto(&["runs"]).expect(0);
        sh(&there.path(""), &steps);
        check_settled(&there, id);
    }
}
