use std::os::unix::fs::PermissionsExt as _;

use cto_contract::eligibility::UsedRecord;
use cto_contract::words::AdmissionSeal;

use super::*;
use crate::home::Home;

const MODEL: &str = "status: admitted\nprovider: mine\nmodel: m1\ncredential_source_class: none\nallowed_network_class: local\napproval_source: me\nadmission_timestamp: 2026-06-01\nreview_trigger: before another model\n";
const FILE: &str = "CTO_HARNESS_CODEX_MODEL_ADMISSION_FILE";

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        for below in ["config", "config/admissions", "repo"] {
            home::make_private(&place.dir.path().join(below)).unwrap();
        }
        place
    }

    fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    fn put(&self, below: &str, text: &str) -> PathBuf {
        let path = self.path(below);
        write_new(&path, text.as_bytes()).unwrap();
        path
    }

    fn read(&self, pairs: &[(&str, &str)]) -> Authority {
        let pairs = pairs
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
        let env = Environment::new(pairs);
        let book = AdmissionBook::default();
        Authority::read(&self.path("config"), &env, Some(&self.path("repo")), &book)
    }

    /// What the file that the environment names comes to.
    fn named(&self, path: &str) -> String {
        let mut authority = self.read(&[(FILE, path)]);
        match authority.requests.remove(&Lane::Codex).unwrap().file {
            None => "none".to_owned(),
            Some(NamedRecord::Missing) => "missing".to_owned(),
            Some(NamedRecord::Invalid(why)) => why,
            Some(NamedRecord::Record(stored)) => stored.record.model.to_string(),
        }
    }
}

#[test]
fn records_are_found_by_their_content_whatever_they_are_called() {
    let place = Place::new();
    place.put("config/harness.yaml", "schema: cto.harness/v1\n");
    place.put("config/any name.yml", MODEL);
    place.put(
        "config/admissions/decision.json",
        r#"{"decision_status": "not_decided", "lane": "codex"}"#,
    );
    place.put("config/admissions/notes.json", r#"{"hello": "there"}"#);
    place.put("config/admissions/.new-draft.json", MODEL);
    place.put("config/admissions/readme.txt", MODEL);
    let records = place.read(&[]).records;
    assert_eq!(records.models.len(), 1);
    assert_eq!(records.decisions.len(), 1);
    assert_eq!(records.bad, []);
    assert_eq!(records.models[0].seal, AdmissionSeal::Unsigned);
}

#[test]
fn a_record_that_can_not_be_used_says_file_line_and_reason_and_what_it_is_about() {
    let place = Place::new();
    place.put("config/admissions/a.yaml", &format!("{MODEL}mood: good\n"));
    place.put(
        "config/admissions/b.json",
        "{\"provider\": \"x\", \"allowed_network_class\": ",
    );
    let secret = format!(
        "{MODEL}evidence_expectations: [sk-ant-api03-{}]\n",
        "aB3dE5gH7j".repeat(9)
    );
    place.put("config/admissions/c.yaml", &secret);
    let loose = place.put("config/admissions/d.yaml", MODEL);
    fs::set_permissions(&loose, fs::Permissions::from_mode(0o666)).unwrap();
    let records = place.read(&[]).records;
    assert!(records.models.is_empty());
    let why: Vec<&str> = records.bad.iter().map(|bad| bad.why.as_str()).collect();
    assert!(
        why[0].starts_with("admissions/a.yaml:9:1: unknown field `mood`"),
        "{why:?}"
    );
    assert_eq!(
        records.bad[0].pair,
        Some(("mine".to_owned(), "m1".to_owned()))
    );
    assert!(why[1].starts_with("admissions/b.json:1:"), "{why:?}");
    assert!(why[2].contains("looks like a secret"), "{why:?}");
    assert!(!why[2].contains("aB3dE5gH7j"), "{why:?}");
    assert!(why[3].contains("others can write it"), "{why:?}");
}

#[test]
fn a_directory_that_others_can_write_admits_nothing_and_says_so_for_every_kind() {
    let place = Place::new();
    place.put("config/admissions/a.yaml", MODEL);
    let directory = place.path("config/admissions");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
    let records = place.read(&[]).records;
    assert!(records.models.is_empty());
    let kinds: Vec<AdmissionKind> = records.bad.iter().map(|bad| bad.kind).collect();
    assert_eq!(kinds, AdmissionKind::ALL);
    assert!(
        !records.bad[0]
            .why
            .contains(place.dir.path().to_str().unwrap())
    );
}

#[test]
fn a_file_that_the_environment_names_is_absolute_private_and_not_of_the_repository() {
    let place = Place::new();
    let good = place.put("model.yaml", MODEL);
    assert_eq!(place.named(good.to_str().unwrap()), "m1");
    let gone = place.path("gone.yaml");
    assert_eq!(place.named(gone.to_str().unwrap()), "missing");
    let refused = |path: &str, word: &str| {
        let why = place.named(path);
        assert!(
            why.starts_with(&format!("${FILE}: ")) && why.contains(word),
            "{why}"
        );
        assert!(!why.contains(place.dir.path().to_str().unwrap()), "{why}");
    };
    refused("model.yaml", "absolute");
    refused(place.dir.path().to_str().unwrap(), "no regular file");
    let inside = place.put("repo/model.yaml", MODEL);
    refused(inside.to_str().unwrap(), "repository");
    let link = place.path("link.yaml");
    std::os::unix::fs::symlink(&inside, &link).unwrap();
    refused(link.to_str().unwrap(), "repository");
    fs::set_permissions(&good, fs::Permissions::from_mode(0o620)).unwrap();
    refused(good.to_str().unwrap(), "others can write it");
}

#[test]
fn a_named_file_alone_speaks_about_its_lane() {
    let place = Place::new();
    let decision = |lane: &str, model: &str| {
        format!("decision_status: local_provider_required\nlane: {lane}\nmodel: {model}\n")
    };
    place.put("config/admissions/codex.yaml", &decision("codex", "old"));
    place.put("config/admissions/pi.yaml", &decision("pi", "kept"));
    let named = place.put("codex.yaml", &decision("codex", "new"));
    let variable = "CTO_HARNESS_CODEX_PROVIDER_DECISION_FILE";
    let models = |path: &Path| {
        let records = place.read(&[(variable, path.to_str().unwrap())]).records;
        let models = records.decisions.iter().map(|d| d.record.model.to_string());
        (models.collect::<Vec<_>>(), records.bad)
    };
    assert_eq!(
        models(&named),
        (vec!["kept".to_owned(), "new".to_owned()], vec![])
    );
    let other = place.put("other.yaml", &decision("claude", "x"));
    for path in [other, place.path("gone")] {
        let (found, bad) = models(&path);
        assert_eq!(found, ["kept"]);
        assert_eq!(bad[0].lane, Some(Lane::Codex));
        assert!(
            bad[0].why.starts_with(&format!("${variable} names a ")),
            "{bad:?}"
        );
    }
}

#[test]
fn what_a_run_used_is_kept_once_under_its_digest() {
    let place = Place::new();
    let home = Home::open(&place.path("home")).unwrap();
    place.put("config/a.yaml", MODEL);
    let records = place.read(&[]).records;
    let used = UsedRecord {
        kind: AdmissionKind::Model,
        digest: records.models[0].digest.clone(),
        seal: AdmissionSeal::Unsigned,
    };
    for _ in 0..2 {
        keep(
            &home,
            &records,
            (&ModelRequest::NOTHING, None),
            std::slice::from_ref(&used),
        )
        .unwrap();
    }
    let kept: Vec<_> = fs::read_dir(home.admissions()).unwrap().flatten().collect();
    assert_eq!(kept.len(), 1);
    let bytes = fs::read(kept[0].path()).unwrap();
    assert_eq!(cto_evidence::canonical::sha256(&bytes), used.digest);
}
