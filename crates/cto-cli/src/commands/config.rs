//! `cto config show`: every setting and where it came from.

use cto_contract::config::Retention;
use cto_contract::outputs::{ConfigOutput, ConfigTag, ConfigValue};
use cto_contract::plan::SettingSource;
use cto_contract::words::Lane;
use cto_rules::sandbox_choice::{PROVIDER_VARIABLE, Wishes, choose};
use cto_runner::{Config, OUTPUT_MB_DEFAULT, WALL_SECONDS_DEFAULT};

use super::Outcome;
use crate::failure::{Exit, Failure};
use crate::session::Session;

/// Show the settings
#[derive(Debug, clap::Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Show every setting and where it came from
    ///
    /// A flag beats the environment, that beats `harness.yaml`, that beats the default. Nothing is read from the
    /// working directory or from a repository that is worked on.
    Show,
}

pub(crate) fn run(args: &Args, session: &Session) -> Outcome {
    match args.command {
        Command::Show => {}
    }
    let values = values(session)?;
    if session.printer.json {
        session.printer.document(&ConfigOutput {
            schema_version: ConfigTag,
            values,
        })?;
        return Ok(Exit::DONE);
    }
    let rows: Vec<Vec<String>> = values
        .into_iter()
        .map(|v| vec![v.name, v.value.unwrap_or_else(|| "-".to_owned()), v.source])
        .collect();
    let mut page = session.printer.page();
    page.table(&["setting", "value", "from"], &rows);
    session.printer.show(&page)?;
    Ok(Exit::DONE)
}

/// The provider that a run without flags gets, or why there is none.
fn sandbox(session: &Session, config: &Config) -> (String, SettingSource) {
    let environment = session.env.get(PROVIDER_VARIABLE);
    let from = match (environment, config.harness.sandbox) {
        (Some(_), _) => SettingSource::Environment,
        (None, Some(_)) => SettingSource::Config,
        (None, None) => SettingSource::Default,
    };
    let chosen = choose(Wishes {
        environment,
        config: config.harness.sandbox,
        ..Wishes::default()
    });
    match chosen {
        Ok(chosen) => (chosen.provider.to_string(), chosen.from),
        Err(error) => (format!("refused: {error}"), from),
    }
}

fn values(session: &Session) -> Result<Vec<ConfigValue>, Failure> {
    let mut out = Vec::new();
    let mut put = |name: &str, value: Option<String>, source: &str| {
        out.push(ConfigValue {
            name: name.to_owned(),
            value,
            source: source.to_owned(),
        });
    };
    let (home, home_from) = session.home_place()?;
    let (config_dir, config_from) = session.config_place()?;
    let config = session.config()?;
    put("home", Some(home.display().to_string()), home_from);
    put(
        "config",
        Some(config_dir.display().to_string()),
        config_from,
    );
    put(
        "harness.yaml",
        config
            .has_file
            .then(|| config_dir.join("harness.yaml").display().to_string()),
        if config.has_file { "config" } else { "absent" },
    );
    put("default_engine", Some(Lane::Fake.to_string()), "constant");
    put(
        "runtime_default_activation",
        Some("false".to_owned()),
        "constant",
    );
    let (provider, provider_from) = sandbox(session, &config);
    put("sandbox", Some(provider), provider_from.as_str());
    let limits = serde_json::to_value(config.harness.limits)
        .map_err(|e| Failure::of(Exit::FAULT, "output_not_encoded", &e))?;
    for (name, default) in [
        ("wall_seconds", Some(WALL_SECONDS_DEFAULT)),
        ("output_mb", Some(OUTPUT_MB_DEFAULT)),
        ("cpu_seconds", None),
        ("memory_mb", None),
        ("processes", None),
        ("open_files", None),
        ("disk_mb", None),
        ("file_mb", None),
        ("tokens", None),
        ("requests", None),
        ("cost", None),
    ] {
        let set = limits
            .get(name)
            .filter(|v| !v.is_null())
            .map(ToString::to_string);
        let source = if set.is_some() {
            "harness.yaml"
        } else {
            "default"
        };
        put(
            &format!("limits.{name}"),
            set.or_else(|| default.map(|d: u64| d.to_string())),
            source,
        );
    }
    let retention = config.harness.retention;
    for (name, set, default) in [
        ("packs_days", retention.packs_days, None),
        (
            "baselines_days",
            retention.baselines_days,
            Some(Retention::BASELINES_DAYS_DEFAULT),
        ),
        (
            "validation_days",
            retention.validation_days,
            Some(Retention::VALIDATION_DAYS_DEFAULT),
        ),
    ] {
        put(
            &format!("retention.{name}"),
            set.or(default).map(|days| days.to_string()),
            if set.is_some() {
                "harness.yaml"
            } else {
                "default"
            },
        );
    }
    let roots = config.harness.protected_roots.join(", ");
    put(
        "protected_roots",
        Some(roots.clone()).filter(|r| !r.is_empty()),
        if roots.is_empty() {
            "default"
        } else {
            "harness.yaml"
        },
    );
    let providers: Vec<&str> = config
        .harness
        .providers
        .keys()
        .map(String::as_str)
        .collect();
    put(
        "providers",
        Some(providers.join(", ")).filter(|names| !names.is_empty()),
        if providers.is_empty() {
            "default"
        } else {
            "harness.yaml"
        },
    );
    put(
        "trusted_keys",
        Some(config.trusted.len().to_string()),
        "trust/harness",
    );
    for lane in Lane::ALL {
        let disabled = config
            .harness
            .engines
            .get(lane.as_str())
            .is_some_and(|e| e.disabled);
        if disabled {
            put(
                &format!("engines.{lane}.disabled"),
                Some("true".to_owned()),
                "harness.yaml",
            );
        }
        let names = [
            lane.gate(),
            lane.stage_gate(),
            lane.gate().map(|_| {
                format!(
                    "CTO_HARNESS_{}_TIMEOUT_SECONDS",
                    lane.as_str().to_ascii_uppercase()
                )
            }),
        ];
        for name in names.into_iter().flatten() {
            let value = session.env.get(&name).map(str::to_owned);
            let source = if value.is_some() {
                "environment"
            } else {
                "absent"
            };
            put(&name, value, source);
        }
    }
    let plain = session.env.get("NO_COLOR").map(str::to_owned);
    put(
        "NO_COLOR",
        plain.clone(),
        if plain.is_some() {
            "environment"
        } else {
            "absent"
        },
    );
    Ok(out)
}
