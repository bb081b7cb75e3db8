//! `cto model scripted`.

use crate::model_script::{FaultScope, ModelFault};

outputs! {
    /// `cto model scripted`: printed once it listens.
    ScriptedModelOutput, ScriptedModelTag = "cto.scripted-model/v1" {
        /// For chat completions and responses.
        pub base_url: String,
        /// For clients that add the version themselves.
        pub messages_base_url: String,
        pub model: String,
        /// What is wrong with every answer.
        pub fault: ModelFault,
        /// Which requests it meets.
        pub scope: FaultScope,
        /// What can be chosen by the first part of the path.
        pub faults: Vec<ModelFault>,
    }
}
