//! A lane's model: where it is, who opens it, and which words about it must never be seen.
//!
//! All of it comes from the operator's environment and config, never from a repository. The key is read once, goes to the
//! forwarder, and is stored nowhere.

use std::time::Duration;

use cto_agent::{ModelAddress, ModelPair};
use cto_contract::config::ProviderConfig;
use cto_contract::event::AskedModel;
use cto_contract::text::shorten;
use cto_contract::words::{Lane, NetworkClass, Wire};
use cto_egress::{Api, Authorities, Budget, Route, Secret, Upstream};
use cto_rules::eligibility::{AccessState, EndpointState};
use cto_sandbox::{
    End, LaunchRequest, Launcher, Limits, Network, Recorder, Root, SandboxMessage, StopToken,
    Stream, TreeLimits,
};

use crate::environment::Environment;
use crate::error_chain;
use crate::harness::Harness;

/// The one port that answers inside. The network there is empty, so no other number would be better.
pub(crate) const PORT: u16 = 8471;
const CREDENTIAL_WALL: Duration = Duration::from_secs(30);
const CREDENTIAL_BYTES_MAX: u64 = 16 * 1024;

/// What a process inside is told.
pub(crate) fn address(lane: Lane, pair: Option<&ModelPair>) -> ModelAddress {
    ModelAddress {
        origin: format!("http://127.0.0.1:{PORT}"),
        provider: pair.map(|pair| pair.provider.clone()),
        model: pair.map(|pair| pair.model.clone()),
        wire: lane.traits().wire.only(),
    }
}

/// The wires that a lane's agent may speak.
pub(crate) fn wires(lane: Lane) -> Vec<Wire> {
    let spoken = lane.traits().wire;
    let all = Wire::ALL.iter().copied();
    all.filter(|wire| spoken.allows(*wire)).collect()
}

/// A way to the model, and the words that give it away.
pub(crate) struct Opened {
    pub(crate) route: Route,
    pub(crate) secrets: Vec<(String, Vec<u8>)>,
}

/// Which model the environment asks for; none where the lane has no use for one, or nothing is named.
pub(crate) fn asked(harness: &Harness, lane: Lane, network: NetworkClass) -> Option<AskedModel> {
    if lane.network(network) == NetworkClass::None {
        return None;
    }
    let named = |variable: Option<String>| {
        let value = harness.env.get(&variable?)?;
        Some(shorten(value, 100))
    };
    let asked = AskedModel {
        provider: named(lane.model_provider()),
        model: named(lane.model()),
    };
    (asked.provider.is_some() || asked.model.is_some()).then_some(asked)
}

/// Looks at what the environment names, and touches nothing.
pub(crate) fn endpoint(env: &Environment, lane: Lane) -> Result<Upstream, EndpointState> {
    let name = lane.base_url();
    let url = name.and_then(|name| env.get(&name));
    let url = url.ok_or(EndpointState::Absent)?;
    Upstream::parse(url).map_err(|error| EndpointState::Invalid(error.to_string()))
}

/// Whether a program of the operator's must be started to have the key.
pub(crate) fn key_is_a_command(harness: &Harness, provider: &str) -> bool {
    let settings = settings_of(harness, provider);
    settings.key_env.is_none() && !settings.credential_command.is_empty()
}

/// A provider whose credentials Case can't use itself: the forwarder has to hold a token for it.
const BRIDGED_PROVIDER: &str = "openai-codex";
/// Only the exact value `1` lets it.
const BRIDGE_VARIABLE: &str = "CTO_HARNESS_CASE_OPENAI_CODEX_AUTH_BRIDGE";

/// Why a provider that needs the auth bridge can't be asked: it is not switched on, or nothing gives it a token.
pub(crate) fn closed_bridge(harness: &Harness, lane: Lane, provider: &str) -> Option<AccessState> {
    if lane != Lane::Case || provider != BRIDGED_PROVIDER {
        return None;
    }
    let settings = settings_of(harness, provider);
    let why = if harness.env.get(BRIDGE_VARIABLE) != Some("1") {
        format!(
            "Case can't use the credentials of {provider}, and {BRIDGE_VARIABLE} is not set to exactly 1"
        )
    } else if settings.key_env.is_none() && settings.credential_command.is_empty() {
        format!("nothing in harness.yaml gives the bridge a token of {provider}")
    } else {
        return None;
    };
    Some(AccessState::KeyUnavailable(why))
}

/// Gets the key and looks the endpoint up. Only for a run that nothing else speaks against.
pub(crate) fn open(
    harness: &Harness,
    provider: &str,
    upstream: Upstream,
    stop: &StopToken,
) -> Result<Opened, AccessState> {
    let settings = settings_of(harness, provider);
    let key = key(harness, &settings, stop).map_err(AccessState::KeyUnavailable)?;
    let mut secrets = Vec::new();
    let key = match key {
        None => None,
        Some(text) => {
            let key = Secret::new(&text)
                .map_err(|error| AccessState::KeyUnavailable(format!("no key: {error}")))?;
            secrets.push(("model_key".to_owned(), text.trim().as_bytes().to_vec()));
            Some(key)
        }
    };
    let authorities = match &settings.ca_file {
        None => Authorities::System,
        Some(path) => Authorities::File(path.into()),
    };
    let upstream = upstream.with_key(key).with_authorities(authorities);
    let route =
        Route::open(upstream).map_err(|error| AccessState::Unusable(error_chain(&error)))?;
    let words = route.telling_words().into_iter();
    secrets.extend(words.map(|word| ("model_endpoint".to_owned(), word.into_bytes())));
    Ok(Opened { route, secrets })
}

/// Caps that nobody could hold while a model is asked: there is no price list.
pub(crate) fn unmeterable(limits: &cto_contract::task::Limits) -> Vec<String> {
    let blind = cto_egress::unmeterable(&budget(limits), Api::ALL, false);
    let blind = blind.into_iter().map(|name| name.as_str().to_owned());
    let cost = limits.cost.map(|_| "cost".to_owned());
    blind.chain(cost).collect()
}

pub(crate) fn budget(limits: &cto_contract::task::Limits) -> Budget {
    Budget {
        requests: limits.requests,
        bytes: None,
        tokens: limits.tokens,
        cost: None,
    }
}

/// What the config says about an admitted provider. One that it does not name needs no key.
fn settings_of(harness: &Harness, provider: &str) -> ProviderConfig {
    let providers = &harness.config.harness.providers;
    providers.get(provider).cloned().unwrap_or_default()
}

fn key(
    harness: &Harness,
    settings: &ProviderConfig,
    stop: &StopToken,
) -> Result<Option<String>, String> {
    if let Some(name) = &settings.key_env {
        let held = harness.env.get(name).map(str::to_owned);
        return held
            .map(Some)
            .ok_or_else(|| format!("{name}, which holds the provider's key, is not set"));
    }
    match settings.credential_command.as_slice() {
        [] => Ok(None),
        command => ask(&harness.launcher, &harness.env, command, stop).map(Some),
    }
}

/// Runs the operator's own program in the operator's own environment. Nothing that it says but the key is kept.
fn ask(
    launcher: &Launcher,
    env: &Environment,
    command: &[String],
    stop: &StopToken,
) -> Result<String, String> {
    let request = LaunchRequest {
        argv: command.iter().map(Into::into).collect(),
        env: env
            .pairs()
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        cwd: "/".into(),
        stdin: cto_sandbox::Stdin::Closed,
        binds: Vec::new(),
        overlay: None,
        limits: Limits {
            wall: CREDENTIAL_WALL,
            output_bytes: CREDENTIAL_BYTES_MAX,
            cpu_seconds: None,
            file_bytes: None,
            open_files: None,
            processes: None,
        },
        // It may have to ask a service for the key.
        network: Network::Host,
        grace: Duration::from_secs(1),
        root: Root::Host,
        tree: TreeLimits::default(),
        run_as: None,
        recorder: Recorder::Off,
        endpoint: None,
    };
    let mut said = Vec::new();
    let launched = launcher.launch(&request, stop, &mut |message, _| {
        if let SandboxMessage::Output(Stream::Stdout, bytes) = message {
            said.extend_from_slice(bytes);
        }
    });
    let outcome = launched.map_err(|error| {
        format!(
            "the credential command could not be started: {}",
            error_chain(&error)
        )
    })?;
    match outcome.end {
        End::Exited(0) if !outcome.output.capped => String::from_utf8(said)
            .map_err(|_| "the credential command printed something that is no text".to_owned()),
        End::Exited(0) => Err("the credential command printed too much to be a key".to_owned()),
        End::Exited(code) => Err(format!("the credential command ended with code {code}")),
        End::Signaled(_) | End::NotStarted => {
            Err("the credential command did not end by itself".to_owned())
        }
    }
}
