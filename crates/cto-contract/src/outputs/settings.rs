//! `cto config show`.

use schemars::JsonSchema;
use serde::Serialize;

outputs! {
    /// `cto config show`.
    ConfigOutput, ConfigTag = "cto.config/v1" {
        pub values: Vec<ConfigValue>,
    }
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ConfigValue {
    pub name: String,
    pub value: Option<String>,
    /// A flag, an environment name, a file, `default` or `constant`.
    pub source: String,
}
