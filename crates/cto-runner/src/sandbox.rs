//! Who confines a run: the choice, the program that it needs, and what will be in force.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cto_contract::plan::{Layer, SandboxPlan, SettingSource};
use cto_contract::task::Limits;
use cto_contract::words::{SandboxChoice, SandboxClass};
use cto_rules::sandbox_choice::{
    APPARMOR_REMEDY, ChoiceError, Chosen, PROVIDER_VARIABLE, Wishes, choose,
};
use cto_sandbox::{
    Class, Confinement, Container, Engine, ExpectedConfinement, LaunchError, LaunchRequest,
    Launcher, LayerName, Means,
};

use crate::environment::Environment;
use crate::error_chain;
use crate::harness::Harness;

/// What was typed about the sandbox of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SandboxAsk {
    pub provider: Option<SandboxChoice>,
    pub weak: bool,
}

/// Names of the environment by which a container engine finds its state and its service.
const ENGINE_NAMES: [&str; 14] = [
    "HOME",
    "PATH",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "CONTAINERS_CONF",
    "CONTAINERS_STORAGE_CONF",
    "CONTAINER_HOST",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
];

/// A launcher for one run, and what its launches will be held by.
pub(crate) struct RunSandbox {
    pub(crate) launcher: Launcher,
    pub(crate) expected: ExpectedConfinement,
    pub(crate) from: SettingSource,
    /// The provider makes the one address of a model inside.
    pub(crate) has_endpoint: bool,
}

impl RunSandbox {
    /// Finds out what the chosen provider does here. An error says why it can't be had, and what to do.
    pub(crate) fn find(harness: &Harness, chosen: Chosen, work: &Path) -> Result<Self, String> {
        let means = means(&harness.env, chosen, work)?;
        let launcher = Launcher {
            means,
            ..harness.launcher.clone()
        };
        let expected = launcher
            .foresee(work)
            .map_err(|error| refusal(chosen, &error))?;
        if chosen.provider == SandboxChoice::Native && !chosen.weak && !expected.class().has_init()
        {
            return Err(without_namespaces(&expected));
        }
        Ok(Self {
            has_endpoint: chosen.has_endpoint() && expected.class().has_init(),
            launcher,
            expected,
            from: chosen.from,
        })
    }

    /// Whether this crate's own namespaces hold the run: only they have a recorder.
    pub(crate) fn is_native(&self) -> bool {
        self.launcher.means == Means::Native && self.has_mounts()
    }

    /// What will hold this launch.
    pub(crate) fn plan_of(&self, request: &LaunchRequest, limits: &Limits) -> SandboxPlan {
        sandbox_plan(&self.expected.of(request), limits, self.from)
    }

    /// Whether things can be seen elsewhere than where they lie.
    pub(crate) fn has_mounts(&self) -> bool {
        self.expected.class().has_init()
    }
}

/// What confines a process, in the words of a report.
pub(crate) fn sandbox_plan(
    seen: &Confinement,
    limits: &Limits,
    provider_from: SettingSource,
) -> SandboxPlan {
    let class = class_word(seen.class);
    let mut layers: Vec<Layer> = seen
        .layers
        .iter()
        .map(|l| Layer {
            name: l.name.as_str().to_owned(),
            in_force: l.in_force,
            detail: l.detail.clone(),
        })
        .collect();
    for (name, asked) in [
        ("memory_limit", limits.memory_mb),
        ("disk_limit", limits.disk_mb),
    ] {
        let is_watched = class >= SandboxClass::Process;
        let detail = match asked {
            None => "not asked for".to_owned(),
            Some(mb) if is_watched => format!("{mb} MiB of all processes together"),
            Some(mb) => format!("{mb} MiB asked for, watched only in a root of its own"),
        };
        layers.push(Layer {
            name: name.to_owned(),
            in_force: is_watched && asked.is_some(),
            detail,
        });
    }
    SandboxPlan {
        provider: seen.provider.as_str().to_owned(),
        provider_from,
        class,
        layers,
        writable_roots: vec!["$WORKSPACE".to_owned(), "$SCRATCH".to_owned()],
        read_paths: Vec::new(),
        hidden_paths: Vec::new(),
    }
}

/// The class in the words of a report.
pub(crate) fn class_word(class: Class) -> SandboxClass {
    match class {
        Class::None => SandboxClass::None,
        Class::Group => SandboxClass::Group,
        Class::Weak => SandboxClass::Weak,
        Class::Process => SandboxClass::Process,
        Class::Full => SandboxClass::Full,
    }
}

impl Harness {
    /// The provider of a run, and which setting said so.
    pub fn sandbox(&self, ask: SandboxAsk) -> Result<Chosen, ChoiceError> {
        choose(Wishes {
            flag: ask.provider,
            weak: ask.weak,
            environment: self.env.get(PROVIDER_VARIABLE),
            config: self.config.harness.sandbox,
        })
    }
}

/// Finds a program on the search path, as a file.
pub(crate) fn find_program(env: &Environment, name: &str) -> Option<PathBuf> {
    let path = env.get("PATH").unwrap_or("/usr/local/bin:/usr/bin:/bin");
    path.split(':')
        .filter(|dir| dir.starts_with('/'))
        .map(|dir| Path::new(dir).join(name))
        .find(|file| file.is_file())
}

fn means(env: &Environment, chosen: Chosen, work: &Path) -> Result<Means, String> {
    let program = |name: &str, package: &str| {
        find_program(env, name).ok_or_else(|| {
            format!("`{name}` is not on PATH: install it (package {package}), or choose another provider with --sandbox")
        })
    };
    let container = |engine: Engine, package: &str| {
        let env = ENGINE_NAMES
            .iter()
            .filter_map(|name| Some((OsString::from(name), OsString::from(env.get(name)?))));
        Ok(Means::Container(Container {
            engine,
            program: program(engine.as_str(), package)?,
            env: env.collect::<BTreeMap<_, _>>(),
            room: work.join("containers"),
        }))
    };
    match chosen.provider {
        SandboxChoice::Native if chosen.weak => Ok(Means::Weak),
        SandboxChoice::Native => Ok(Means::Native),
        SandboxChoice::None => Ok(Means::None),
        SandboxChoice::Bwrap => Ok(Means::Bwrap {
            program: program("bwrap", "bubblewrap")?,
        }),
        SandboxChoice::Podman => container(Engine::Podman, "podman"),
        SandboxChoice::Docker => container(Engine::Docker, "docker.io"),
    }
}

fn refusal(chosen: Chosen, error: &LaunchError) -> String {
    let provider = chosen.provider;
    let next = match provider {
        SandboxChoice::Native | SandboxChoice::None => "`cto doctor` says what is missing",
        SandboxChoice::Bwrap => "mend it, or leave out --sandbox: the native one needs no program",
        SandboxChoice::Podman | SandboxChoice::Docker => {
            "see whether it starts any container for this user (podman is meant for one that is not root), or leave out \
             --sandbox: the native one needs no program"
        }
    };
    let why = error_chain(error);
    format!("the {provider} provider does not work here: {why}; {next}")
}

/// What a kernel without user namespaces leaves to do, short enough to be read in a blocker.
fn without_namespaces(expected: &ExpectedConfinement) -> String {
    let seen = expected.before_a_request();
    let layer = seen
        .layers
        .iter()
        .find(|layer| layer.name == LayerName::UserNamespace);
    let why = layer.map_or("", |layer| layer.detail.as_str());
    let why = why.split(';').next().unwrap_or(why);
    format!(
        "no namespaces ({why}). {APPARMOR_REMEDY}; or use --sandbox podman; or --weak, which holds less"
    )
}
