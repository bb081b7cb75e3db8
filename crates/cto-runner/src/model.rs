//! A lane's model: where it is, who opens it, and which words about it must never be seen.
//!
//! All of it comes from the operator's environment and config, never from a repository. Keys go to the forwarder and are stored
//! nowhere; every one that was ever given out is taken out of everything that a run leaves.

mod credentials;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use cto_agent::{ModelAddress, ModelPair};
use cto_contract::config::{PriceList, ProviderConfig};
use cto_contract::event::{AskedModel, Cost, ModelProbe};
use cto_contract::task::Limits;
use cto_contract::text::shorten;
use cto_contract::words::{Lane, NetworkClass, Wire};
use cto_egress::{
    Api, Authorities, Budget, Keys, Prices, ProbeTerms, Route, Secret, Traffic, Upstream,
};
use cto_rules::eligibility::{AccessState, AuthBridge, EndpointState};
use cto_sandbox::StopToken;

use crate::error_chain;
use crate::harness::Harness;
use credentials::{CommandKeys, OwnProgram};
pub(crate) use credentials::{GivenKeys, KeysStop};

/// The one port that answers inside. The network there is empty, so no other number would be better.
pub(crate) const PORT: u16 = 8471;
/// Longest that a model may take for its answer to one small question: it may have to be loaded first.
const ANSWER_PATIENCE: Duration = Duration::from_secs(120);
/// The provider whose keys are short-lived and come from the operator's own login.
const BRIDGED_PROVIDER: &str = "openai-codex";

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
    pub(crate) given: GivenKeys,
    /// Ends what gives out keys.
    pub(crate) keys_stop: KeysStop,
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

/// Looks at what environment and config name, and touches nothing. `provider` is the admitted one.
pub(crate) fn endpoint(harness: &Harness, lane: Lane, provider: Option<&str>) -> EndpointState {
    match named_endpoint(harness, lane) {
        Some(Ok(_)) => EndpointState::Named,
        Some(Err(why)) => EndpointState::Invalid(why),
        None => match provider.map(|name| settings_of(harness, name)) {
            Some(settings) if !settings.base_url_command.is_empty() => EndpointState::ByCommand,
            Some(_) | None => EndpointState::Absent,
        },
    }
}

fn named_endpoint(harness: &Harness, lane: Lane) -> Option<Result<Upstream, String>> {
    let url = harness.env.get(&lane.base_url()?)?;
    Some(Upstream::parse(url).map_err(|error| error.to_string()))
}

/// Whether a program of the operator's must be started to have the key or the endpoint.
pub(crate) fn needs_a_command(harness: &Harness, lane: Lane, provider: &str) -> bool {
    let settings = settings_of(harness, provider);
    let for_key = settings.key_env.is_none() && !settings.credential_command.is_empty();
    for_key || named_endpoint(harness, lane).is_none()
}

/// How the switch stands that lets short-lived keys of a login be used; none for a provider that needs no such bridge.
pub(crate) fn auth_bridge(harness: &Harness, lane: Lane, provider: &str) -> Option<AuthBridge> {
    if provider != BRIDGED_PROVIDER {
        return None;
    }
    let name = lane.auth_bridge()?;
    let has_command = !settings_of(harness, provider).credential_command.is_empty();
    Some(AuthBridge {
        value: harness.env.get(&name).map(str::to_owned),
        name,
        has_command,
    })
}

/// Gets the key and looks the endpoint up. Only for a run that nothing else speaks against.
pub(crate) fn open(
    harness: &Harness,
    lane: Lane,
    provider: &str,
    stop: &StopToken,
) -> Result<Opened, AccessState> {
    let settings = settings_of(harness, provider);
    let upstream = match named_endpoint(harness, lane) {
        Some(named) => named.map_err(AccessState::NoEndpoint)?,
        None => told_endpoint(harness, &settings, stop).map_err(AccessState::NoEndpoint)?,
    };
    let given = GivenKeys::default();
    let keys_stop =
        KeysStop::new(stop).map_err(|error| AccessState::Unusable(error.to_string()))?;
    let keys = keys(harness, &settings, &given, &keys_stop).map_err(AccessState::KeyUnavailable)?;
    let authorities = match &settings.ca_file {
        None => Authorities::System,
        Some(path) => Authorities::File(path.into()),
    };
    let upstream = upstream.with_keys(keys).with_authorities(authorities);
    let route =
        Route::open(upstream).map_err(|error| AccessState::Unusable(error_chain(&error)))?;
    let words = route.telling_words().into_iter();
    let secrets = words.map(|word| ("model_endpoint".to_owned(), word.into_bytes()));
    Ok(Opened {
        secrets: secrets.collect(),
        route,
        given,
        keys_stop,
    })
}

/// Asks the operator's program for the endpoint.
fn told_endpoint(
    harness: &Harness,
    settings: &ProviderConfig,
    stop: &StopToken,
) -> Result<Upstream, String> {
    let program = own_program(harness, "base URL command", &settings.base_url_command);
    let printed = program.ask(stop)?;
    let mut lines = printed.lines().map(str::trim).filter(|l| !l.is_empty());
    match (lines.next(), lines.next()) {
        (Some(url), None) => {
            Upstream::parse(url).map_err(|error| format!("the base URL command: {error}"))
        }
        (None, _) => Err("the base URL command printed nothing".to_owned()),
        (Some(_), Some(_)) => Err("the base URL command printed more than one line".to_owned()),
    }
}

fn own_program(harness: &Harness, what: &'static str, command: &[String]) -> OwnProgram {
    OwnProgram {
        what,
        command: command.to_vec(),
        launcher: harness.launcher.clone(),
        env: harness.env.clone(),
    }
}

/// The keys of a provider; the first one is there when this returns.
fn keys(
    harness: &Harness,
    settings: &ProviderConfig,
    given: &GivenKeys,
    stop: &KeysStop,
) -> Result<Keys, String> {
    if let Some(name) = &settings.key_env {
        let held = harness.env.get(name);
        let text =
            held.ok_or_else(|| format!("{name}, which holds the provider's key, is not set"))?;
        given.add(text.trim());
        let key = Secret::new(text).map_err(|error| format!("no key: {error}"))?;
        return Ok(Keys::fixed(Some(key)));
    }
    if settings.credential_command.is_empty() {
        return Ok(Keys::fixed(None));
    }
    let source = CommandKeys {
        program: own_program(harness, "credential command", &settings.credential_command),
        given: given.clone(),
        stop: stop.clone(),
    };
    let keys = Keys::from_source(Arc::new(source));
    keys.prepare()?;
    Ok(keys)
}

/// Asks the model one small question.
pub(crate) fn probe(
    opened: &Opened,
    lane: Lane,
    model: &str,
    limits: &Limits,
    stop: &StopToken,
) -> io::Result<ModelProbe> {
    let wall = limits.wall_seconds.map(Duration::from_secs);
    opened.route.probe(&ProbeTerms {
        wires: &wires(lane),
        model,
        patience: wall.map_or(ANSWER_PATIENCE, |wall| wall.min(ANSWER_PATIENCE)),
        is_stopped: &|| stop.is_asked(),
    })
}

/// Caps that nobody could hold while this pair is asked.
pub(crate) fn unmeterable(
    harness: &Harness,
    limits: &Limits,
    pair: Option<(&str, &str)>,
) -> Vec<String> {
    let has_prices =
        pair.is_some_and(|(provider, model)| priced(harness, provider, model).is_some());
    let blind = cto_egress::unmeterable(&budget(limits), Api::ALL, has_prices);
    let blind = blind.into_iter().map(|name| name.as_str().to_owned());
    blind.collect()
}

pub(crate) fn budget(limits: &Limits) -> Budget {
    Budget {
        requests: limits.requests,
        bytes: None,
        tokens: limits.tokens,
        cost: limits.cost.map(cto_egress::parts),
    }
}

/// What a model costs, and by which list.
pub(crate) struct Priced {
    pub(crate) prices: Prices,
    list: PriceList,
}

pub(crate) fn priced(harness: &Harness, provider: &str, model: &str) -> Option<Priced> {
    let list = settings_of(harness, provider).prices?;
    let price = list.models.get(model)?;
    let prices = Prices::per_million(
        price.input,
        price.output,
        price.cached_input,
        price.cache_write,
    );
    Some(Priced { prices, list })
}

impl Priced {
    /// What passed, as money.
    pub(crate) fn cost(&self, traffic: &Traffic) -> Cost {
        Cost {
            amount: traffic.cost.map(cto_egress::amount),
            amount_at_most: cto_egress::amount(traffic.cost_at_most),
            currency: self.list.currency.clone(),
            prices_as_of: self.list.as_of.clone(),
        }
    }
}

/// What the config says about an admitted provider. One that it does not name needs no key.
fn settings_of(harness: &Harness, provider: &str) -> ProviderConfig {
    let providers = &harness.config.harness.providers;
    providers.get(provider).cloned().unwrap_or_default()
}
