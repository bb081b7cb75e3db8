//! `cto schema`, `cto completions` and `cto man`.

use schemars::JsonSchema;
use serde::Serialize;

outputs! {
    /// `cto schema`.
    SchemasOutput, SchemasTag = "cto.schemas/v1" {
        pub schemas: Vec<SchemaRow>,
    }
    /// `cto schema --all`, `cto man DIR`.
    WrittenOutput, WrittenTag = "cto.written/v1" {
        pub directory: String,
        pub files: Vec<String>,
    }
    /// `cto completions` and `cto man`: text that is no JSON of its own.
    TextOutput, TextTag = "cto.text/v1" {
        pub name: String,
        pub text: String,
    }
}

/// One schema of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SchemaRow {
    pub name: String,
    pub about: String,
}
