//! Which provider confines a run: the flag, else the environment, else `harness.yaml`, else the native one.
//!
//! What holds less than a sandbox is never a default: `none` and the weak mode are typed for each run.

use cto_contract::plan::SettingSource;
use cto_contract::text;
use cto_contract::words::SandboxChoice;

/// The environment's name for the default provider, with its own words.
pub const PROVIDER_VARIABLE: &str = "DEFAULT_SANDCASTLE_PROVIDER";
const PROVIDER_WORDS: &str = "docker, podman, vercel, noSandbox";

/// What a system that restricts user namespaces by program needs.
pub const APPARMOR_REMEDY: &str = "Allow them, with AppArmor in /etc/apparmor.d/cto: `profile cto /**/cto flags=(unconfined) { userns, }`";

/// Everything that has a say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wishes<'a> {
    pub flag: Option<SandboxChoice>,
    pub weak: bool,
    /// The value of [`PROVIDER_VARIABLE`].
    pub environment: Option<&'a str>,
    pub config: Option<SandboxChoice>,
}

/// What it came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chosen {
    pub provider: SandboxChoice,
    pub from: SettingSource,
    /// The native one, without namespaces.
    pub weak: bool,
}

impl Chosen {
    /// Whether an agent in it can have the one address of its model. It takes a network of its own and a way for the
    /// listener to the harness; docker's is podman's, but was never seen with a real daemon.
    pub const fn has_endpoint(self) -> bool {
        match self.provider {
            SandboxChoice::Native => !self.weak,
            SandboxChoice::Bwrap | SandboxChoice::Podman => true,
            SandboxChoice::Docker | SandboxChoice::None => false,
        }
    }

    /// Whether only a launch shows what it does here. The kernel itself can be asked.
    pub const fn is_known_by_trial(self) -> bool {
        match self.provider {
            SandboxChoice::Native | SandboxChoice::None => false,
            SandboxChoice::Bwrap | SandboxChoice::Podman | SandboxChoice::Docker => true,
        }
    }
}

/// A choice that can't be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    #[error(
        "{PROVIDER_VARIABLE} is `vercel`, which is not supported here: runs stay on this machine"
    )]
    Vercel,
    #[error("{PROVIDER_VARIABLE} is `{shown}`; it can be one of {PROVIDER_WORDS}")]
    Unknown { shown: String },
    #[error("the default provider is `none` (from: {from}), which must be asked for each time")]
    NoneNeedsFlag { from: SettingSource },
    #[error("--weak is a mode of the native provider; {provider} was asked for")]
    WeakIsNative { provider: SandboxChoice },
}

/// Chooses. A setting that is not used is not judged.
pub fn choose(wishes: Wishes<'_>) -> Result<Chosen, ChoiceError> {
    if wishes.weak {
        return match wishes.flag {
            None | Some(SandboxChoice::Native) => Ok(Chosen {
                provider: SandboxChoice::Native,
                from: SettingSource::Flag,
                weak: true,
            }),
            Some(
                provider @ (SandboxChoice::Bwrap
                | SandboxChoice::Podman
                | SandboxChoice::Docker
                | SandboxChoice::None),
            ) => Err(ChoiceError::WeakIsNative { provider }),
        };
    }
    let (provider, from) = match (wishes.flag, wishes.environment, wishes.config) {
        (Some(flag), _, _) => (flag, SettingSource::Flag),
        (None, Some(word), _) => (provider_of(word)?, SettingSource::Environment),
        (None, None, Some(config)) => (config, SettingSource::Config),
        (None, None, None) => (SandboxChoice::Native, SettingSource::Default),
    };
    if provider == SandboxChoice::None && from != SettingSource::Flag {
        return Err(ChoiceError::NoneNeedsFlag { from });
    }
    Ok(Chosen {
        provider,
        from,
        weak: false,
    })
}

/// Returns the provider that a word of the environment means.
pub fn provider_of(word: &str) -> Result<SandboxChoice, ChoiceError> {
    match word {
        "docker" => Ok(SandboxChoice::Docker),
        "podman" => Ok(SandboxChoice::Podman),
        "noSandbox" => Ok(SandboxChoice::None),
        "vercel" => Err(ChoiceError::Vercel),
        other => Err(ChoiceError::Unknown {
            shown: text::shorten(other, 40),
        }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn choice(flag: &str, weak: bool, environment: &str, config: &str) -> String {
        let word = |text: &str| text.parse::<SandboxChoice>().ok();
        let wishes = Wishes {
            flag: word(flag),
            weak,
            environment: Some(environment).filter(|e| !e.is_empty()),
            config: word(config),
        };
        match choose(wishes) {
            Ok(chosen) => {
                let weak = if chosen.weak { " weak" } else { "" };
                format!("{} from {}{weak}", chosen.provider, chosen.from)
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_flag_beats_the_environment_and_that_the_config() {
        assert_eq!(choice("", false, "", ""), "native from default");
        assert_eq!(choice("", false, "", "bwrap"), "bwrap from config");
        assert_eq!(
            choice("", false, "podman", "bwrap"),
            "podman from environment"
        );
        assert_eq!(choice("", false, "docker", ""), "docker from environment");
        assert_eq!(
            choice("native", false, "podman", "bwrap"),
            "native from flag"
        );
    }

    #[test]
    fn what_holds_less_must_be_typed() {
        assert_eq!(choice("none", false, "", ""), "none from flag");
        assert_eq!(choice("", true, "podman", ""), "native from flag weak");
        assert_eq!(choice("native", true, "", ""), "native from flag weak");
        insta::assert_snapshot!(choice("", false, "noSandbox", ""), @"the default provider is `none` (from: environment), which must be asked for each time");
        insta::assert_snapshot!(choice("", false, "", "none"), @"the default provider is `none` (from: config), which must be asked for each time");
        insta::assert_snapshot!(choice("podman", true, "", ""), @"--weak is a mode of the native provider; podman was asked for");
    }

    #[test]
    fn an_endpoint_is_had_where_it_was_seen_to_hold() {
        let has = |provider: &SandboxChoice, weak| {
            let (provider, from) = (*provider, SettingSource::Flag);
            let chosen = Chosen {
                provider,
                from,
                weak,
            };
            chosen.has_endpoint()
        };
        let all = SandboxChoice::ALL.iter();
        let with: Vec<_> = all.filter(|p| has(p, false)).map(|p| p.as_str()).collect();
        assert_eq!(with.join(" "), "native bwrap podman");
        assert!(!has(&SandboxChoice::Native, true));
    }

    #[test]
    fn words_that_are_no_provider_here_are_refused_unless_a_flag_beats_them() {
        insta::assert_snapshot!(choice("", false, "vercel", ""), @"DEFAULT_SANDCASTLE_PROVIDER is `vercel`, which is not supported here: runs stay on this machine");
        insta::assert_snapshot!(choice("", false, "Docker", ""), @"DEFAULT_SANDCASTLE_PROVIDER is `Docker`; it can be one of docker, podman, vercel, noSandbox");
        assert_eq!(choice("native", false, "vercel", ""), "native from flag");
    }

    proptest! {
        #[test]
        fn nothing_but_a_flag_lowers_the_guard(word in "[a-zA-Z]{0,12}", config in 0_usize..6) {
            let config = SandboxChoice::ALL.get(config).copied();
            let wishes = Wishes { environment: Some(&word), config, ..Wishes::default() };
            if let Ok(chosen) = choose(wishes) {
                prop_assert!(!chosen.weak && chosen.provider != SandboxChoice::None);
            }
        }
    }
}
