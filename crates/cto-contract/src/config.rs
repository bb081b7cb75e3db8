//! `harness.yaml`: the authority's settings. It can narrow what a run may do; it can't change the default lane.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{self, DocumentError};
use crate::lanes::Gating;
use crate::task::Limits;
use crate::text::shorten;
use crate::words::{Lane, SandboxChoice, Stage, UnknownWord};

wire_const! {
    /// Schema tag of `harness.yaml`.
    pub struct HarnessSchema: &'static str = "cto.harness/v1"
}
wire_const! {
    /// The only default lane there is.
    pub struct DefaultLane: &'static str = "fake"
}

/// Settings of one lane.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EngineConfig {
    /// The environment name that opens the lane; it can't be another than the lane's own.
    #[serde(default)]
    pub gated_by_env: Option<String>,
    /// Switches a lane off altogether.
    #[serde(default)]
    pub disabled: bool,
}

/// What the config opens of a lane. Never `case`, and never a stage at which something lands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GateConfig {
    /// Opens the lane, as its environment name with the value 1 does.
    #[serde(default)]
    pub allow: bool,
    /// Permits every stage up to this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<Stage>,
}

impl GateConfig {
    fn check(self, lane: Lane) -> Result<(), String> {
        match lane.traits().gating {
            Gating::Open => return Err("has no gate".to_owned()),
            Gating::Environment => {
                return Err("is opened by the environment alone, at every stage".to_owned());
            }
            Gating::EnvironmentOrConfig => {}
        }
        match self.stage {
            Some(stage) if stage > Stage::COPIED_REPOSITORY => Err(format!(
                "stage {stage} is opened by the environment alone; the config may permit 2 or 3"
            )),
            Some(Stage::FIRST) => Err("stage 1 starts no process; permit 2 or 3".to_owned()),
            Some(_) | None => Ok(()),
        }
    }
}

/// What `cto gc` may remove, by age in days.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// Sealed packs that finished so long ago; without it no pack is ever removed.
    #[serde(default)]
    pub packs_days: Option<u32>,
    /// Baselines that no run has used for so long.
    #[serde(default)]
    pub baselines_days: Option<u32>,
    /// Homes of validators.
    #[serde(default)]
    pub validation_days: Option<u32>,
}

impl Retention {
    pub const BASELINES_DAYS_DEFAULT: u32 = 30;
    pub const VALIDATION_DAYS_DEFAULT: u32 = 7;

    /// The setting, or its default.
    pub fn baselines(&self) -> u32 {
        self.baselines_days.unwrap_or(Self::BASELINES_DAYS_DEFAULT)
    }

    /// The setting, or its default.
    pub fn validation(&self) -> u32 {
        self.validation_days
            .unwrap_or(Self::VALIDATION_DAYS_DEFAULT)
    }
}

/// Prices of one day, for a million tokens each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceList {
    /// The day, such as `2026-11-01`.
    pub as_of: String,
    #[serde(default = "usd")]
    pub currency: String,
    /// By the name of the model.
    pub models: BTreeMap<String, ModelPrice>,
}

/// What a million tokens of a model cost. What has no price of its own costs what input costs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelPrice {
    pub input: f64,
    pub output: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
}

fn usd() -> String {
    "USD".to_owned()
}

impl PriceList {
    fn check(&self) -> Result<(), &'static str> {
        let parts: Vec<&str> = self.as_of.split('-').collect();
        let are_digits = |count: usize, part: &str| {
            part.len() == count && part.bytes().all(|b| b.is_ascii_digit())
        };
        let is_day = match parts.as_slice() {
            [year, month, day] => are_digits(4, year) && are_digits(2, month) && are_digits(2, day),
            _ => false,
        };
        if !is_day {
            return Err("`prices.as_of` must be a day such as 2026-11-01");
        }
        if self.currency.len() != 3 || !self.currency.bytes().all(|b| b.is_ascii_uppercase()) {
            return Err("`prices.currency` must be three capital letters, such as USD");
        }
        let is_price = |price: f64| price.is_finite() && (0.0..=1e6).contains(&price);
        let all = self.models.values().flat_map(|model| {
            let more = model.cached_input.into_iter().chain(model.cache_write);
            [model.input, model.output].into_iter().chain(more)
        });
        match all.into_iter().all(is_price) {
            true => Ok(()),
            false => Err("a price is not between 0 and 1,000,000 for a million tokens"),
        }
    }
}

/// Where the key of a model provider comes from, and who vouches for its endpoint. The key itself never stands here.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderConfig {
    /// The environment variable that holds the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_env: Option<String>,
    /// The program, with its arguments, that prints the key in its first line, and in a second one when it expires (RFC 3339).
    /// It is started without a shell, again when the key has expired, and once more when the endpoint refuses it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credential_command: Vec<String>,
    /// The program, with its arguments, that prints the base URL of the endpoint, where no environment variable names it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub base_url_command: Vec<String>,
    /// What its models cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<PriceList>,
    /// A PEM file with the certificate authorities of the endpoint, instead of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<String>,
}

impl ProviderConfig {
    fn check(&self) -> Result<(), &'static str> {
        let is_name = |name: &String| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
            !name.is_empty() && name.chars().all(allowed)
        };
        if self.key_env.is_some() && !self.credential_command.is_empty() {
            return Err("names both `key_env` and `credential_command`; a key has one source");
        }
        if !self.key_env.iter().all(is_name) {
            return Err("`key_env` must be the name of an environment variable, never a key");
        }
        let is_nameless = |command: &[String]| command.first().is_some_and(String::is_empty);
        if is_nameless(&self.credential_command) {
            return Err("`credential_command` begins with an empty word");
        }
        if is_nameless(&self.base_url_command) {
            return Err("`base_url_command` begins with an empty word");
        }
        if let Some(prices) = &self.prices {
            prices.check()?;
        }
        if !self.ca_file.iter().all(|path| path.starts_with('/')) {
            return Err("`ca_file` must be an absolute path");
        }
        Ok(())
    }
}

/// Where checkpoints of the ledger go besides `<config>/checkpoints/`: one of these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum CheckpointPlace {
    /// A directory, by its absolute path: on another disk, or one that another account mirrors.
    Directory(String),
    /// A ref of a repository.
    Git(CheckpointRef),
    /// A program with its arguments; it gets each checkpoint on its standard input. It is started without a shell.
    Command(Vec<String>),
}

/// A ref of a repository, to which each checkpoint is committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckpointRef {
    pub repository: String,
    #[serde(rename = "ref")]
    pub reference: String,
}

impl CheckpointPlace {
    fn check(&self) -> Result<(), &'static str> {
        let is_absolute = |path: &str| path.starts_with('/');
        match self {
            Self::Directory(path) if !is_absolute(path) => {
                Err("`directory` must be an absolute path")
            }
            Self::Git(place) if !is_absolute(&place.repository) => {
                Err("`git.repository` must be an absolute path")
            }
            Self::Git(place) if !place.reference.starts_with("refs/") => {
                Err("`git.ref` must begin with refs/")
            }
            Self::Command(argv) if argv.first().is_none_or(String::is_empty) => {
                Err("`command` names no program")
            }
            Self::Directory(_) | Self::Git(_) | Self::Command(_) => Ok(()),
        }
    }
}

/// What the proof ladder asks for besides what it always does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LadderConfig {
    /// Stages whose proof needs a real pass.
    pub require_real: RequireReal,
}

/// Stages at which a real pass is required: those that always are, and more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "BTreeSet<Stage>")]
pub struct RequireReal(pub BTreeSet<Stage>);

impl RequireReal {
    /// Stages that no config can leave out.
    pub const ALWAYS: [u8; 2] = [2, 5];
}

impl TryFrom<BTreeSet<Stage>> for RequireReal {
    type Error = String;
    fn try_from(stages: BTreeSet<Stage>) -> Result<Self, String> {
        let has = |number: u8| stages.iter().any(|stage| stage.number() == number);
        if Self::ALWAYS.into_iter().all(has) {
            return Ok(Self(stages));
        }
        Err("`require_real` may be widened, not narrowed: it must name 2 and 5".to_owned())
    }
}

/// The file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HarnessConfig {
    pub schema: HarnessSchema,
    #[serde(default)]
    pub default_engine: Option<DefaultLane>,
    #[serde(default)]
    pub engines: BTreeMap<String, EngineConfig>,
    /// Gates that the config opens, by lane; a set environment variable wins over it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gates: BTreeMap<String, GateConfig>,
    #[serde(default)]
    pub limits: Limits,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ladder: Option<LadderConfig>,
    /// Who confines runs, when neither a flag nor the environment says so.
    #[serde(default)]
    pub sandbox: Option<SandboxChoice>,
    /// Directories that confined processes may read besides the system's and those of `PATH`.
    #[serde(default)]
    pub read_paths: Vec<String>,
    /// MiB that must be free in home before a run begins.
    #[serde(default)]
    pub disk_floor_mb: Option<u64>,
    #[serde(default)]
    pub protected_roots: Vec<String>,
    #[serde(default)]
    pub retention: Retention,
    /// Seconds of nothing at all after which a backend whose work is committed counts as lingering.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle_seconds: Option<u64>,
    /// Model providers by name. A lane's environment chooses one; without a choice it is `local`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub providers: BTreeMap<String, ProviderConfig>,
    /// A second place for checkpoints of the ledger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoints: Option<CheckpointPlace>,
}

impl HarnessConfig {
    /// What the config opens of a lane.
    pub fn gate(&self, lane: Lane) -> GateConfig {
        self.gates.get(lane.as_str()).copied().unwrap_or_default()
    }

    /// Reads the file and refuses lanes and gates that do not exist.
    pub fn read(name: &str, bytes: &[u8]) -> Result<Self, DocumentError> {
        let config: Self = document::read(name, bytes)?;
        for (engine, settings) in &config.engines {
            let lane: Lane = engine
                .parse()
                .map_err(|e| DocumentError::whole(name, format!("engines: {e}")))?;
            if settings.gated_by_env.is_some() && settings.gated_by_env != lane.gate() {
                return Err(DocumentError::whole(
                    name,
                    format!(
                        "engines.{lane}.gated_by_env must be {}",
                        lane.gate()
                            .unwrap_or_else(|| "absent: fake has no gate".to_owned())
                    ),
                ));
            }
        }
        for (lane, gate) in &config.gates {
            let (line, column) = document::place_of_key(bytes, lane).unwrap_or((1, 1));
            let refused = |why: String| DocumentError {
                name: name.to_owned(),
                line,
                column,
                message: format!("gates.{}: {why}", shorten(lane, 40)),
            };
            let lane: Lane = lane
                .parse()
                .map_err(|e: UnknownWord| refused(e.to_string()))?;
            gate.check(lane).map_err(refused)?;
        }
        for (provider, settings) in &config.providers {
            settings.check().map_err(|why| {
                DocumentError::whole(name, format!("providers.{provider}: {why}"))
            })?;
        }
        if let Some(Err(why)) = config.checkpoints.as_ref().map(CheckpointPlace::check) {
            return Err(DocumentError::whole(name, format!("checkpoints: {why}")));
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_default_lane_is_refused_with_its_line() {
        let check = |t: &str| {
            HarnessConfig::read("harness.yaml", t.as_bytes())
                .map_or_else(|e| e.to_string(), |_| "ok".into())
        };
        assert_eq!(
            check("schema: cto.harness/v1\ndefault_engine: fake\n"),
            "ok"
        );
        insta::assert_snapshot!(check("schema: cto.harness/v1\ndefault_engine: codex\n"), @r#"harness.yaml:2:17: expected "fake", found "codex""#);
        insta::assert_snapshot!(check("schema: cto.harness/v1\nengines: {codex: {gated_by_env: YES}}\n"), @"harness.yaml:1:1: engines.codex.gated_by_env must be CTO_HARNESS_ALLOW_CODEX");
    }

    #[test]
    fn a_second_place_for_checkpoints_is_one_of_three_and_absolute() {
        let check = |place: &str| {
            let text = format!("schema: cto.harness/v1\ncheckpoints: {place}\n");
            HarnessConfig::read("harness.yaml", text.as_bytes())
                .map_or_else(|e| e.message, |_| "ok".into())
        };
        assert_eq!(check("{directory: /mnt/elsewhere}"), "ok");
        assert_eq!(
            check("{git: {repository: /srv/notes, ref: refs/cto/checkpoints}}"),
            "ok"
        );
        assert_eq!(check("{command: [logger, -t, cto]}"), "ok");
        for bad in [
            "{directory: elsewhere}",
            "{git: {repository: notes, ref: refs/cto/checkpoints}}",
            "{git: {repository: /srv/notes, ref: main}}",
            "{command: []}",
            "{directory: /a, command: [b]}",
            "{somewhere: /a}",
        ] {
            assert_ne!(check(bad), "ok", "{bad}");
        }
    }

    #[test]
    fn the_config_opens_no_gate_of_case_and_no_stage_where_something_lands() {
        let check = |gates: &str| {
            let text = format!("schema: cto.harness/v1\ngates: {{{gates}}}\n");
            HarnessConfig::read("harness.yaml", text.as_bytes())
                .map_or_else(|e| e.to_string(), |_| "ok".into())
        };
        for gates in [
            "",
            "codex: {allow: true, stage: 3}",
            "command: {allow: true, stage: 2}",
        ] {
            assert_eq!(check(gates), "ok", "{gates}");
        }
        insta::assert_snapshot!(check("case: {allow: true}"), @"harness.yaml:2:9: gates.case: is opened by the environment alone, at every stage");
        insta::assert_snapshot!(check("pi: {allow: true, stage: 4}"), @"harness.yaml:2:9: gates.pi: stage 4 is opened by the environment alone; the config may permit 2 or 3");
        insta::assert_snapshot!(check("pi: {allow: true, stage: 1}"), @"harness.yaml:2:9: gates.pi: stage 1 starts no process; permit 2 or 3");
        insta::assert_snapshot!(check("fake: {allow: true}"), @"harness.yaml:2:9: gates.fake: has no gate");
    }

    #[test]
    fn a_provider_names_one_source_of_its_key_and_never_the_key() {
        let check = |provider: &str| {
            let text = format!("schema: cto.harness/v1\nproviders: {{local: {provider}}}\n");
            HarnessConfig::read("harness.yaml", text.as_bytes())
                .map_or_else(|e| e.message, |_| "ok".into())
        };
        assert_eq!(check("{key_env: MY_KEY, ca_file: /etc/ca.pem}"), "ok");
        assert_eq!(check("{credential_command: [credctl, get, model]}"), "ok");
        insta::assert_snapshot!(check("{key_env: A, credential_command: [b]}"), @"providers.local: names both `key_env` and `credential_command`; a key has one source");
        insta::assert_snapshot!(check("{key_env: sk-12}"), @"providers.local: `key_env` must be the name of an environment variable, never a key");
        assert_eq!(
            check(
                "{base_url_command: [reader, url], prices: {as_of: '2026-11-01', models: {m: {input: 3, output: 15, cached_input: 0.3}}}}"
            ),
            "ok"
        );
        insta::assert_snapshot!(check("{base_url_command: ['']}"), @"providers.local: `base_url_command` begins with an empty word");
        insta::assert_snapshot!(check("{prices: {as_of: today, models: {}}}"), @"providers.local: `prices.as_of` must be a day such as 2026-11-01");
        insta::assert_snapshot!(check("{prices: {as_of: '2026-11-01', models: {m: {input: -1, output: 1}}}}"), @"providers.local: a price is not between 0 and 1,000,000 for a million tokens");
        insta::assert_snapshot!(check("{ca_file: ca.pem}"), @"providers.local: `ca_file` must be an absolute path");
    }
}
