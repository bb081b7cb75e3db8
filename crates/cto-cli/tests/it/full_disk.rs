//! A home whose disk is full: the run ends by name, its pack is sealed, and the space comes back.

use serde_json::Value;

use crate::namespace::{Told, has_mounts, script};
use crate::test_home::{TestHome, blockers};

/// Room for a run, and filled in no time, by bytes or by files.
const SIZE: &str = "size=128m,nr_inodes=700,mode=0700";

/// A script on a small disk; `$run` begins a run of the case by an agent, `filled` waits until nothing is left.
fn on_a_small_disk(options: &str, text: &str) -> Told {
    let test_home = TestHome::new();
    test_home.tiny();
    test_home.configure("disk_floor_mb: 1\n");
    let tools = format!(
        r#"
mount -t tmpfs -o {options} none "$CTO_HOME"
export CTO_HARNESS_ALLOW_COMMAND=1 CTO_HARNESS_COMMAND_STAGE=2
run="run tiny --cases cases --engine command"
filled() {{ while [ "$(stat -f -c %a "$CTO_HOME")" -gt 64 ]; do :; done; }}
latest() {{ cd "$CTO_HOME/harness-runs" && grep -l '"backend":"command"' */events.normalized.jsonl | sort | tail -1 | cut -d/ -f1; }}
"#
    );
    script(test_home, &format!("{tools}{text}"))
}

fn first_blocker(report: &Value) -> (String, String) {
    let first = &report["blockers"][0];
    let text = |key: &str| first[key].as_str().unwrap_or_default().to_owned();
    (text("code"), text("subject"))
}

#[test]
fn an_agent_that_fills_the_disk_ends_in_a_sealed_pack_that_names_it() {
    if !has_mounts() {
        return;
    }
    for agent in [
        "i=0; while : > f$i; do i=$((i + 1)); done; echo new > a.txt",
        "head -c 1G /dev/zero > fill",
        "head -c 1G /dev/zero > fill; yes | head -c 3000000; echo new > a.txt",
        "i=0; while head -c 1M /dev/zero > fill$i; do i=$((i + 1)); done; echo over >&2; exit 3",
    ] {
        let told = on_a_small_disk(
            SIZE,
            &format!(
                r#"
keep run $run -- sh -c '{agent}'
keep verify verify "$(latest)"
stat -f -c '%a %b' "$CTO_HOME" > out/free
ls "$CTO_HOME/work" "$CTO_HOME/rooms" | grep -v '^$\|:$' > out/work || true
keep next run tiny --cases cases
"#
            ),
        );
        let (code, report) = told.json("run");
        assert!([1, 3].contains(&code), "{agent}: {report}");
        let named = blockers(&report);
        assert!(
            named.contains(&"limit_exceeded".to_owned()),
            "{agent}: {named:?}"
        );
        assert!(
            !named.contains(&"artifact_write_failure".to_owned()),
            "{agent}: {named:?}"
        );
        assert_eq!(told.json("verify").0, 0, "{agent}");
        assert_eq!(told.text("work"), "", "{agent}: scratch is left");
        assert_eq!(told.json("next").0, 0, "{agent}");
    }
}

#[test]
fn a_harness_that_died_on_a_full_disk_is_recovered_and_its_space_comes_back() {
    if !has_mounts() {
        return;
    }
    let told = on_a_small_disk(
        SIZE,
        r#"
"$CTO" $run -- sh -c 'head -c 1G /dev/zero > fill; exec sleep 1000' > out/dead 2>&1 &
harness=$!
filled
kill -9 $harness
wait $harness || true
keep recover recover
keep verify verify "$(latest)"
keep gc gc
ls "$CTO_HOME/work" "$CTO_HOME/rooms" | grep -v '^$\|:$' > out/work || true
keep next run tiny --cases cases
"#,
    );
    let (code, recovered) = told.json("recover");
    assert_eq!(code, 0, "{recovered}");
    assert_eq!(recovered["runs"][0]["outcome"], "sealed", "{recovered}");
    assert_eq!(told.json("verify").0, 0);
    assert_eq!(told.json("gc").0, 0);
    assert_eq!(told.text("work"), "");
    assert_eq!(told.json("next").0, 0);
}

#[test]
fn a_disk_without_room_for_the_seal_blocks_before_the_agent() {
    if !has_mounts() {
        return;
    }
    let told = on_a_small_disk(
        "size=24m,mode=0700",
        r#"
keep run $run -- sh -c 'echo new > a.txt'
keep verify verify "$(latest)"
"#,
    );
    let (_, report) = told.json("run");
    let (code, subject) = first_blocker(&report);
    assert_eq!(
        (code.as_str(), subject.as_str()),
        ("artifact_write_failure", "reserve")
    );
    assert_eq!(report["case_process_started"], false, "{report}");
    assert!(
        report["blockers"][0]["hint"]
            .as_str()
            .unwrap()
            .contains("free space")
    );
    assert_eq!(told.json("verify").0, 0);
}

#[test]
fn a_disk_that_others_fill_is_not_the_agents_fault() {
    if !has_mounts() {
        return;
    }
    let told = on_a_small_disk(
        SIZE,
        r#"

keep run $run -- sh -c 'echo new > a.txt; while [ "$(stat -f -c %a .)" -gt 64 ]; do :; done' &
while ! grep -q '"backend":"command".*backend.started' "$CTO_HOME"/harness-runs/*/events.normalized.jsonl 2>/dev/null; do :; done
head -c 1G /dev/zero > "$CTO_HOME/others" || true
wait
rm "$CTO_HOME/others"
keep verify verify "$(latest)"
"#,
    );
    let (code, report) = told.json("run");
    let named = first_blocker(&report);
    assert_eq!(
        (named.0.as_str(), named.1.as_str()),
        ("artifact_write_failure", "disk"),
        "{report}"
    );
    assert_eq!(code, 1);
    assert_eq!(report["fault_class"], "environment");
    assert_eq!(told.json("verify").0, 0);
}

/// Leaves so many KiB of the disk of the home.
const FILL: &str = r#"
leave() {
    free=$(( $(stat -f -c %a "$CTO_HOME") * $(stat -f -c %S "$CTO_HOME") / 1024 ))
    if [ "$free" -gt "$1" ]; then head -c $(( (free - $1) * 1024 )) /dev/zero > "$CTO_HOME/filler"; fi
}
"#;

#[test]
fn an_import_that_runs_out_of_space_is_finished_or_undone_and_is_nobodys_mistake() {
    if !has_mounts() {
        return;
    }
    let sizes = [
        "0", "4", "12", "32", "64", "96", "128", "144", "152", "160", "168", "512",
    ];
    let told = on_a_small_disk(
        SIZE,
        &format!(
            r#"
{FILL}
keep made run tiny --cases cases
"$CTO" export latest --tar pack.tar
id=$(latest); echo $id > out/id
umount "$CTO_HOME"
mount -t tmpfs -o {SIZE} none "$CTO_HOME"
"$CTO" key new; "$CTO" runs; cp -a "$CTO_HOME" empty
for size in {sizes}; do
    umount "$CTO_HOME"
    mount -t tmpfs -o size=2m,mode=0700 none "$CTO_HOME"
    cp -a empty/. "$CTO_HOME"
    leave $size
    keep import-$size import pack.tar
    keep full-$size runs
    rm -f "$CTO_HOME/filler"
    keep listed-$size runs
    ls "$CTO_HOME/harness-runs" > out/packs-$size
    ls -A "$CTO_HOME/incoming" > out/left-$size || true
    keep again-$size import pack.tar
    keep verify-$size verify --integrity-only $id
done
"#,
            sizes = sizes.join(" ")
        ),
    );
    let id = told.text("id").trim().to_owned();
    let mut codes = Vec::new();
    for size in sizes {
        let (code, answer) = told.json(&format!("import-{size}"));
        let error = answer["error"]["code"].as_str().unwrap_or("none");
        assert!(
            code == 0 || (code == 70 && ["store_full", "transfer_not_written"].contains(&error)),
            "{size}: {code} {answer}"
        );
        codes.push(code);
        let (code, answer) = told.json(&format!("full-{size}"));
        assert!(
            code == 0 || answer["error"]["code"] == "store_full",
            "{size}: {code} {answer}"
        );
        let (code, listed) = told.json(&format!("listed-{size}"));
        assert_eq!(code, 0, "{size}: {listed}");
        let is_here = told.text(&format!("packs-{size}")).contains(&id);
        assert_eq!(listed.to_string().contains(&id), is_here, "{size}");
        assert_eq!(told.text(&format!("left-{size}")), "", "{size}");
        let (code, again) = told.json(&format!("again-{size}"));
        assert_eq!((code, &again["already_here"]), (0, &is_here.into()));
        assert_eq!(told.json(&format!("verify-{size}")).0, 0, "{size}");
    }
    assert_eq!((codes[0], codes[sizes.len() - 1]), (70, 0), "{codes:?}");
}

#[test]
fn an_export_or_a_new_index_without_space_leaves_what_was_there() {
    if !has_mounts() {
        return;
    }
    let told = on_a_small_disk(
        SIZE,
        &format!(
            r#"
{FILL}
keep made run tiny --cases cases
mkdir small; mount -t tmpfs -o size=16k none small
echo before > small/pack.tar
keep export export latest --tar small/pack.tar
cat small/pack.tar > out/kept; ls -A small > out/small
leave 0
keep rebuild index rebuild
rm -f "$CTO_HOME/filler"
keep runs runs
keep again index rebuild
"#
        ),
    );
    let (code, answer) = told.json("export");
    assert_eq!(
        (code, &answer["error"]["code"]),
        (70, &Value::from("transfer_not_written")),
        "{answer}"
    );
    assert!(answer.to_string().contains("free some space"), "{answer}");
    assert_eq!(told.text("kept"), "before\n");
    assert_eq!(told.text("small").trim(), "pack.tar");
    let (code, answer) = told.json("rebuild");
    assert_eq!(
        (code, &answer["error"]["code"]),
        (70, &Value::from("store_full")),
        "{answer}"
    );
    let run_id = told.json("made").1["run_id"].as_str().unwrap().to_owned();
    assert!(told.json("runs").1.to_string().contains(&run_id));
    assert_eq!(told.json("again").0, 0);
}
