//! The task pair: what Case is to do, and how its roles must answer.

use serde_json::json;

use super::config::{REPOSITORY, lines};

/// `<stem>.task.json`. The id is fresh for each attempt: a reused one resumes.
pub(super) fn task_json(id: &str, created: &str) -> Vec<u8> {
    lines(&json!({
        "id": id,
        "status": "active",
        "created": created,
        "repo": REPOSITORY,
        "branch": "work",
        "agents": {},
    }))
}

/// Whether a file is the task of this attempt.
pub(super) fn is_task(bytes: &[u8], id: &str, created: &str) -> bool {
    bytes == task_json(id, created)
}

/// `<stem>.md`: the brief, with the envelope that every role ends with.
pub(super) fn task_markdown(brief: &str, allowed_paths: &[String]) -> String {
    let example = json!({
        "status": "completed",
        "summary": "what was done, in one sentence",
        "artifacts": {
            "commit": "<id of the commit>",
            "filesChanged": files_changed(allowed_paths),
            "testsPassed": true,
        },
        "error": null,
    });
    format!(
        "{}\n\n## AGENT_RESULT\n\n\
         Commit to the branch `work`. Do not push, and open no pull request.\n\n\
         Your last message must hold this envelope, each delimiter on a line of its own, with plain JSON between them. \
         `status` is `completed`, `failed` or `blocked`. `filesChanged` lists what you changed. A reviewer adds \
         `findings` with the number of `critical` ones, and `rubric`. What is only thought and not said does not count.\n\n\
         ```text\n<<<AGENT_RESULT\n{example}\nAGENT_RESULT>>>\n```\n",
        brief.trim_end(),
    )
}

/// An example that fits the contract: its plain paths; a directory stands for a file in it.
fn files_changed(allowed_paths: &[String]) -> Vec<String> {
    let example = |path: &String| match path.strip_suffix('/') {
        Some(directory) => format!("{directory}/<file>"),
        None => path.clone(),
    };
    allowed_paths.iter().take(8).map(example).collect()
}
