//! Puts many runs into a home: `many-runs HOME COUNT`. Each has its entries and a directory with an empty log. For
//! `cargo xtask bench home`.

use std::fs::{self, File};
use std::path::Path;

use cto_contract::ids::Digest;
use cto_contract::time::Utc;
use cto_contract::trust::Origin;
use cto_contract::words::{Lane, RunStatus, Stage};
use cto_store::{LedgerInit, RunCreated, RunSealed, Store};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut words = std::env::args().skip(1);
    let (Some(home), Some(count)) = (words.next(), words.next()) else {
        return Err("usage: many-runs HOME COUNT".into());
    };
    let began: Utc = "2026-01-01T00:00:00Z".parse()?;
    let init = LedgerInit {
        random: [0; 32],
        at: began,
    };
    let home = Path::new(&home);
    let store = Store::open(&home.join("cto.db"), init)?;
    let digest: Digest = "0".repeat(64).parse()?;
    for number in 0..count.parse::<i64>()? {
        let started_at = began.plus_seconds(number);
        let created = RunCreated {
            run_id: format!("{}-many-{number:06}", started_at.basic()).parse()?,
            case_id: "many".parse()?,
            backend: Lane::Fake,
            stage: Stage::FIXTURE,
            started_at,
            title: format!("Run {number}"),
            conformance: false,
            fake_baseline: false,
        };
        let pack = home.join("harness-runs").join(created.run_id.as_str());
        fs::create_dir(&pack)?;
        File::create_new(pack.join("events.normalized.jsonl"))?;
        store.run_created(&created)?;
        store.run_sealed(&RunSealed {
            run_id: created.run_id,
            case_id: created.case_id,
            backend: created.backend,
            stage: created.stage,
            status: RunStatus::Pass,
            started_at,
            finished_at: started_at.plus_seconds(1),
            blocker: None,
            failure_reason: None,
            changed_files: 1,
            wall_seconds: Some(1.0),
            pack_digest: digest.clone(),
            keyid: digest.clone(),
            origin: Origin::Known,
            title: created.title,
            conformance: false,
            fake_baseline: false,
            repository: None,
        })?;
    }
    Ok(())
}
