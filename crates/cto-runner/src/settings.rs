//! Every setting, its value, and where that came from: what `cto config show` prints.

use std::path::Path;

use cto_contract::config::{HarnessConfig, Retention};
use cto_contract::outputs::{ConfigOutput, ConfigTag, ConfigValue};
use cto_contract::plan::SettingSource;
use cto_contract::task::Limits;
use cto_contract::words::Lane;
use cto_rules::sandbox_choice::{PROVIDER_VARIABLE, Wishes, choose};

use crate::config::Config;
use crate::environment::Environment;
use crate::limits::{OUTPUT_MB_DEFAULT, WALL_SECONDS_DEFAULT};

const FILE: &str = "harness.yaml";

/// A place and what said where it is.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub path: &'a Path,
    pub from: &'a str,
}

/// Lists every setting.
pub fn settings(
    home: Place<'_>,
    config_from: &str,
    config: &Config,
    env: &Environment,
) -> ConfigOutput {
    let mut values = places(home, config_from, config);
    values.push(constant("default_engine", Lane::Fake.as_str()));
    values.push(constant("runtime_default_activation", "false"));
    values.push(sandbox(&config.harness, env));
    values.extend(limits(config.harness.limits));
    values.extend(retention(config.harness.retention));
    values.push(listed(
        "protected_roots",
        config.harness.protected_roots.iter().map(String::as_str),
    ));
    values.push(listed(
        "providers",
        config.harness.providers.keys().map(String::as_str),
    ));
    values.push(value(
        "trusted_keys",
        Some(config.trusted.len().to_string()),
        "trust/harness",
    ));
    for lane in Lane::ALL {
        values.extend(of_lane(*lane, &config.harness, env));
    }
    values.push(of_environment("NO_COLOR", env));
    ConfigOutput {
        schema_version: ConfigTag,
        values,
    }
}

fn value(name: &str, value: Option<String>, source: &str) -> ConfigValue {
    ConfigValue {
        name: name.to_owned(),
        value,
        source: source.to_owned(),
    }
}

fn constant(name: &str, text: &str) -> ConfigValue {
    value(name, Some(text.to_owned()), "constant")
}

/// What the file says, else the default.
fn or_default(name: &str, set: Option<String>, default: Option<String>) -> ConfigValue {
    match set {
        Some(set) => value(name, Some(set), FILE),
        None => value(name, default, "default"),
    }
}

fn listed<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> ConfigValue {
    let names: Vec<&str> = names.collect();
    or_default(name, (!names.is_empty()).then(|| names.join(", ")), None)
}

fn of_environment(name: &str, env: &Environment) -> ConfigValue {
    match env.get(name) {
        Some(set) => value(name, Some(set.to_owned()), "environment"),
        None => value(name, None, "absent"),
    }
}

fn places(home: Place<'_>, config_from: &str, config: &Config) -> Vec<ConfigValue> {
    let shown = |path: &Path| Some(path.display().to_string());
    let file = if config.has_file {
        value(FILE, shown(&config.dir.join(FILE)), "config")
    } else {
        value(FILE, None, "absent")
    };
    vec![
        value("home", shown(home.path), home.from),
        value("config", shown(&config.dir), config_from),
        file,
    ]
}

/// The provider that a run without flags gets, or why there is none.
fn sandbox(config: &HarnessConfig, env: &Environment) -> ConfigValue {
    let environment = env.get(PROVIDER_VARIABLE);
    let from = match (environment, config.sandbox) {
        (Some(_), _) => SettingSource::Environment,
        (None, Some(_)) => SettingSource::Config,
        (None, None) => SettingSource::Default,
    };
    let chosen = choose(Wishes {
        environment,
        config: config.sandbox,
        ..Wishes::default()
    });
    match chosen {
        Ok(chosen) => {
            let provider = Some(chosen.provider.to_string());
            value("sandbox", provider, chosen.from.as_str())
        }
        Err(error) => value("sandbox", Some(format!("refused: {error}")), from.as_str()),
    }
}

fn limits(limits: Limits) -> Vec<ConfigValue> {
    // In full, so that a new limit can't be left out.
    let Limits {
        wall_seconds,
        cpu_seconds,
        memory_mb,
        processes,
        open_files,
        disk_mb,
        file_mb,
        output_mb,
        tokens,
        requests,
        cost,
    } = limits;
    let mut values: Vec<ConfigValue> = [
        ("wall_seconds", wall_seconds, Some(WALL_SECONDS_DEFAULT)),
        ("output_mb", output_mb, Some(OUTPUT_MB_DEFAULT)),
        ("cpu_seconds", cpu_seconds, None),
        ("memory_mb", memory_mb, None),
        ("processes", processes, None),
        ("open_files", open_files, None),
        ("disk_mb", disk_mb, None),
        ("file_mb", file_mb, None),
        ("tokens", tokens, None),
        ("requests", requests, None),
    ]
    .map(|(name, set, default)| {
        or_default(
            &format!("limits.{name}"),
            set.map(|n| n.to_string()),
            default.map(|n| n.to_string()),
        )
    })
    .into();
    values.push(or_default("limits.cost", cost.map(|c| c.to_string()), None));
    values
}

fn retention(retention: Retention) -> [ConfigValue; 3] {
    let Retention {
        packs_days,
        baselines_days,
        validation_days,
    } = retention;
    [
        ("packs_days", packs_days, None),
        (
            "baselines_days",
            baselines_days,
            Some(Retention::BASELINES_DAYS_DEFAULT),
        ),
        (
            "validation_days",
            validation_days,
            Some(Retention::VALIDATION_DAYS_DEFAULT),
        ),
    ]
    .map(|(name, set, default)| {
        or_default(
            &format!("retention.{name}"),
            set.map(|days| days.to_string()),
            default.map(|days| days.to_string()),
        )
    })
}

fn of_lane(lane: Lane, config: &HarnessConfig, env: &Environment) -> Vec<ConfigValue> {
    let mut values = Vec::new();
    if is_disabled(lane, config) {
        let name = format!("engines.{lane}.disabled");
        values.push(value(&name, Some("true".to_owned()), FILE));
    }
    if let Some(gate) = config.gates.get(lane.as_str()) {
        let stage = gate.stage.map(|stage| format!(", up to stage {stage}"));
        let word = if gate.allow { "open" } else { "closed" };
        let shown = format!("{word}{}", stage.unwrap_or_default());
        values.push(value(&format!("gates.{lane}"), Some(shown), FILE));
    }
    let timeout = lane.gate().map(|_| {
        let lane = lane.as_str().to_ascii_uppercase();
        format!("CTO_HARNESS_{lane}_TIMEOUT_SECONDS")
    });
    let names = [lane.gate(), lane.stage_gate(), timeout];
    let names = names.iter().flatten();
    values.extend(names.map(|name| of_environment(name, env)));
    values
}

/// Whether harness.yaml switches a lane off.
pub(crate) fn is_disabled(lane: Lane, config: &HarnessConfig) -> bool {
    let engine = config.engines.get(lane.as_str());
    engine.is_some_and(|engine| engine.disabled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(yaml: &str, env: &[(&str, &str)]) -> String {
        let config = Config {
            dir: "/config".into(),
            harness: HarnessConfig::read(
                FILE,
                format!("schema: cto.harness/v1\n{yaml}").as_bytes(),
            )
            .unwrap(),
            has_file: !yaml.is_empty(),
            trusted: Vec::new(),
        };
        let env = Environment::new(env.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())));
        let home = Place {
            path: Path::new("/home"),
            from: "CTO_HOME",
        };
        let lines = settings(home, "--config", &config, &env).values;
        let of_note = |v: &&ConfigValue| !matches!(v.source.as_str(), "absent" | "default");
        let line = |v: &ConfigValue| {
            let value = v.value.as_deref().unwrap_or("-");
            format!("{} = {value} ({})", v.name, v.source)
        };
        let lines: Vec<String> = lines.iter().filter(of_note).map(line).collect();
        lines.join("\n")
    }

    const ALWAYS: &str = "home = /home (CTO_HOME)\nconfig = /config (--config)";

    #[test]
    fn without_a_file_only_places_and_constants_are_set() {
        assert_eq!(
            shown("", &[]),
            format!(
                "{ALWAYS}\ndefault_engine = fake (constant)\nruntime_default_activation = false (constant)\n\
                 trusted_keys = 0 (trust/harness)"
            )
        );
    }

    #[test]
    fn a_value_names_what_set_it() {
        let yaml = "limits: {wall_seconds: 7, cost: 1.5}\nretention: {packs_days: 9}\nprotected_roots: [/a, /b]\n\
                    engines: {codex: {disabled: true}}\nsandbox: bwrap\n";
        let text = shown(
            yaml,
            &[("CTO_HARNESS_ALLOW_CODEX", "1"), ("NO_COLOR", "yes")],
        );
        for line in [
            "harness.yaml = /config/harness.yaml (config)",
            "sandbox = bwrap (config)",
            "limits.wall_seconds = 7 (harness.yaml)",
            "limits.cost = 1.5 (harness.yaml)",
            "retention.packs_days = 9 (harness.yaml)",
            "protected_roots = /a, /b (harness.yaml)",
            "engines.codex.disabled = true (harness.yaml)",
            "CTO_HARNESS_ALLOW_CODEX = 1 (environment)",
            "NO_COLOR = yes (environment)",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        let environment = shown(yaml, &[(PROVIDER_VARIABLE, "podman")]);
        assert!(environment.contains("sandbox = podman (environment)"));
        let refused = shown(yaml, &[(PROVIDER_VARIABLE, "vercel")]);
        assert!(refused.contains("sandbox = refused: "), "{refused}");
    }
}
