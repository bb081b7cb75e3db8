//! `go test`: recognising a call and planting a test that must fail. What it prints is read in [`output`].

mod output;
mod package;

pub use output::count_go;

use super::alias::Alias;
use super::call::Call;
use super::canary::{CanaryPlan, FailureLine, NoPlan, Planted, TreeFacts, join};

/// Flags whose value may be the next word.
const VALUED: &[&str] = &[
    "asmflags",
    "bench",
    "benchtime",
    "blockprofile",
    "blockprofilerate",
    "buildmode",
    "buildvcs",
    "compiler",
    "count",
    "covermode",
    "coverpkg",
    "coverprofile",
    "cpu",
    "cpuprofile",
    "exec",
    "fuzz",
    "fuzzminimizetime",
    "fuzztime",
    "gccgoflags",
    "gcflags",
    "installsuffix",
    "ldflags",
    "list",
    "memprofile",
    "memprofilerate",
    "mod",
    "modfile",
    "mutexprofile",
    "mutexprofilefraction",
    "o",
    "outputdir",
    "overlay",
    "p",
    "parallel",
    "pgo",
    "pkgdir",
    "run",
    "shuffle",
    "skip",
    "tags",
    "timeout",
    "toolexec",
    "trace",
    "vet",
];

/// Flags that stand alone.
const ALONE: &[&str] = &[
    "a",
    "asan",
    "benchmem",
    "cover",
    "failfast",
    "fullpath",
    "json",
    "linkshared",
    "modcacherw",
    "msan",
    "n",
    "race",
    "short",
    "trimpath",
    "v",
    "work",
    "x",
];

/// A plain call of `go test`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoTest {
    call: Call,
    /// Flags and packages without what decides how results are told.
    args: Vec<String>,
    /// From `-args` on, for the test programs.
    program: Vec<String>,
    packages: Vec<String>,
    run: Option<String>,
    doubt: Option<String>,
}

/// Recognises `go test [flags] [packages] [flags]`.
pub(super) fn recognise(call: &Call) -> Option<GoTest> {
    let (first, rest) = call.args.split_first()?;
    if call.program() != "go" || first != "test" {
        return None;
    }
    let mut out = GoTest {
        call: call.clone(),
        args: Vec::new(),
        program: Vec::new(),
        packages: Vec::new(),
        run: None,
        doubt: None,
    };
    let mut args = rest.iter();
    while let Some(arg) = args.next() {
        let Some(flag) = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-')) else {
            out.args.push(arg.clone());
            out.packages.push(arg.clone());
            continue;
        };
        if flag == "args" {
            out.program = std::iter::once(arg).chain(args.by_ref()).cloned().collect();
            break;
        }
        let (name, glued) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (flag, None),
        };
        let name = name.strip_prefix("test.").unwrap_or(name);
        // They are said again in our own way.
        if ["v", "json"].contains(&name) {
            continue;
        }
        // One failure must not hide the tests behind it.
        if name == "failfast" {
            continue;
        }
        out.args.push(arg.clone());
        let value = if glued.is_some() {
            glued
        } else if VALUED.contains(&name) {
            let value = args.next()?.clone();
            out.args.push(value.clone());
            Some(value)
        } else {
            None
        };
        match name {
            "run" => out.run = value,
            "c" | "list" | "n" | "fuzz" | "o" => {
                out.doubt = Some(format!("with `-{name}` not every test runs"));
            }
            "C" => out.doubt = Some("`-C` leads to another directory".to_owned()),
            name if VALUED.contains(&name) || ALONE.contains(&name) => {}
            name => out.doubt = Some(format!("the flag `-{name}` is not known")),
        }
    }
    Some(out)
}

impl GoTest {
    pub(super) fn verbose(&self) -> String {
        self.line(&[])
    }

    fn line(&self, more: &[String]) -> String {
        let test = ["test".to_owned(), "-v".to_owned()];
        let all: Vec<&String> = test
            .iter()
            .chain(&self.args)
            .chain(more)
            .chain(&self.program)
            .collect();
        self.call.line(&all)
    }

    pub(super) fn canary(&self, token: &str, facts: &TreeFacts) -> Result<CanaryPlan, NoPlan> {
        if let Some(why) = &self.doubt {
            return NoPlan::because(why.clone());
        }
        let alias = Alias::of(token);
        let name = format!("Test{}", alias.test_as_type());
        let (file, message) = (format!("{}_test.go", alias.file()), alias.sentence());
        let planted = package::find(&self.packages, facts)?.into_iter().map(|package| Planted {
            path: join(&package.dir, &file),
            content: format!(
                "package {}\n\nimport \"testing\"\n\nfunc {name}(t *testing.T) {{\n\tt.Fatal(\"{message}\")\n}}\n",
                package.name
            ),
        });
        let files = planted.collect();
        let more = match self.run.as_deref() {
            Some(pattern) if !pattern.is_empty() => {
                vec![format!("-run={pattern}|^{name}$")]
            }
            _ => Vec::new(),
        };
        Ok(CanaryPlan {
            files,
            command: self.line(&more),
            failure: FailureLine {
                mark: "--- FAIL: ".to_owned(),
                name: format!("{name} ("),
            },
            test_name: name,
        })
    }
}
