use proptest::prelude::*;

use super::*;

fn known(values: &[(&str, &[u8])]) -> Known {
    Known::new(
        values
            .iter()
            .map(|(n, v)| ((*n).to_owned(), v.to_vec()))
            .collect(),
    )
}

fn redact(known: &Known, chunks: &[&[u8]]) -> Vec<u8> {
    let mut redactor = Redactor::new(known);
    let mut out = Vec::new();
    for chunk in chunks {
        redactor.push(chunk, &mut out);
    }
    redactor.finish(&mut out);
    out
}

fn redacted(values: &[(&str, &[u8])], text: &str) -> String {
    String::from_utf8(redact(&known(values), &[text.as_bytes()])).unwrap()
}

fn rules(text: &str) -> Vec<String> {
    scan_text(text.as_bytes(), &Known::none())
        .into_iter()
        .map(|f| format!("{}@{}:{}+{}", f.rule, f.line, f.column, f.length))
        .collect()
}

/// Random-looking characters, made here so that no token stands in this file.
fn noise(length: usize) -> String {
    const DIGITS: &[u8] = b"a7Kq2ZmX9cR4tLw8BvN3sYp6HdJ5fGg1QeUo";
    (0..length)
        .map(|i| char::from(DIGITS[(i * 7 + i / 36) % DIGITS.len()]))
        .collect()
}

#[test]
fn every_shape_compiles_and_has_a_name_of_its_own() {
    assert!(rules("").is_empty());
    let names: std::collections::BTreeSet<&str> = SHAPES.iter().map(|s| s.name).collect();
    assert_eq!(names.len(), SHAPES.len());
    assert!(names.len() >= 20);
}

#[test]
fn every_shape_finds_its_secret() {
    let upper = |n| {
        noise(n)
            .to_ascii_uppercase()
            .replace(['0', '1', '8', '9'], "A")
    };
    let hex = |n: usize| {
        noise(n)
            .bytes()
            .map(|b| char::from(b"0123456789abcdef"[usize::from(b % 16)]))
            .collect::<String>()
    };
    let samples: Vec<(&str, String)> = vec![
        (
            "private-key",
            format!(
                "-----BEGIN RSA PRIVATE {}-----\nProc-Type: 4,ENCRYPTED\n\n{}\n",
                "KEY",
                noise(64)
            ),
        ),
        (
            "private-key",
            format!("\"-----BEGIN PRIVATE {}-----\\n{}\"", "KEY", noise(64)),
        ),
        ("age-key", format!("AGE-SECRET-KEY-1{}", upper(58))),
        ("aws-access-key", format!("id = AKIA{} ", upper(16))),
        (
            "azure-storage-key",
            format!("x;AccountKey={}==;", noise(86)),
        ),
        ("anthropic-key", format!("sk-ant-api03-{}", noise(90))),
        ("digitalocean-token", format!("dop_v1_{}", hex(64))),
        ("docker-token", format!("dckr_pat_{}", noise(27))),
        ("github-token", format!("https://ghp_{}", noise(36))),
        (
            "github-fine-grained-token",
            format!("github_pat_{}_{}", noise(22), noise(59)),
        ),
        ("gitlab-token", format!("glpat-{}", noise(20))),
        ("google-api-key", format!("AIza{}", noise(35))),
        ("google-oauth-secret", format!("GOCSPX-{}", noise(28))),
        ("google-oauth-token", format!("ya29.{}", noise(60))),
        ("hugging-face-token", format!("hf_{}", noise(34))),
        (
            "json-web-token",
            format!("eyJ{}.eyJ{}.{}", noise(20), noise(30), noise(40)),
        ),
        ("npm-token", format!("//r/:_authToken=npm_{}", noise(36))),
        ("openai-key", format!("sk-proj-{}", noise(60))),
        (
            "openai-key",
            format!("sk-{}T3BlbkFJ{}", noise(20), noise(20)),
        ),
        ("pypi-token", format!("pypi-AgE{}", noise(60))),
        ("sendgrid-key", format!("SG.{}.{}", noise(22), noise(43))),
        ("slack-token", format!("xoxb-{}", noise(30))),
        (
            "slack-webhook",
            format!("https://hooks.slack.com/services/{}", noise(44)),
        ),
        ("stripe-key", format!("sk_live_{}", noise(24))),
        ("vault-token", format!("hvs.{}", noise(24))),
        ("url-password", format!("postgres://app:{}@db/x", noise(16))),
        (
            "assigned-secret",
            format!("const API_KEY: &str = \"x\"; api_key = \"{}\"", noise(20)),
        ),
        (
            "assigned-secret",
            format!("{{\"password\": \"{}\"}}", noise(16)),
        ),
        (
            "assigned-secret",
            format!("client_secret => '{}'", noise(24)),
        ),
        (
            "assigned-secret-unquoted",
            format!("DB_PASSWORD={}\n", noise(24)),
        ),
        (
            "assigned-secret-unquoted",
            format!("token: {}\r\n", noise(32)),
        ),
    ];
    for (name, text) in &samples {
        let found = scan_text(text.as_bytes(), &Known::none());
        assert!(found.iter().any(|f| f.rule == *name), "{name}: {found:?}");
    }
    for shape in SHAPES {
        assert!(
            samples.iter().any(|(name, _)| *name == shape.name),
            "{} has no sample",
            shape.name
        );
    }
}

#[test]
fn stand_ins_and_words_about_secrets_are_none() {
    for text in [
        "password = \"changeme\"",
        "api_key: \"your_api_key_goes_here_123A\"",
        "token = \"${GITHUB_TOKEN_2026_ABC}\"",
        "secret: '<insert 32 characters here>'",
        "AKIAIOSFODNN7EXAMPLE",
        "password = \"xxxxxxxxxxxxxxxx\"",
        "credential_source_class: operator_environment_1",
        "forbidden_paths: [credentials/, secrets/]",
        "allowed_network_class: local_loopback_only",
        "token = get_token_from_environment_now()",
        "token_type = \"urn:ietf:params:oauth:token-type:jwt\"",
        "def test_password_is_hashed(): ...",
        "-----BEGIN PRIVATE KEY-----\n...\n",
        "https://user@example.com/path:80/x@y",
        "git@github.com:owner/repo.git",
        "index 0123456789abcdef0123456789abcdef01234567..89abcdef0123456789abcdef0123456789abcdef",
        "sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "self.token = token",
        "passwd: root:x:0:0",
        "key: secret",
    ] {
        assert_eq!(rules(text), Vec::<String>::new(), "{text}");
        assert_eq!(refuse_in_record(text), None, "{text}");
    }
}

#[test]
fn a_finding_says_where_and_never_what() {
    let token = format!("ghp_{}", noise(36));
    let text = format!("line one\n  use {token} here\n");
    assert_eq!(rules(&text), ["github-token@2:7+40"]);
    let found = refuse_in_record(&text).unwrap();
    assert!(!format!("{found:?}").contains(&token[4..12]));
    let secret = known(&[("model key", token.as_bytes())]);
    assert!(!format!("{secret:?}").contains(&token[4..12]));
    assert_eq!(secret.names(), ["model_key"]);
}

#[test]
fn in_a_patch_shapes_count_in_added_lines_only_and_known_values_anywhere() {
    let old = format!("ghp_{}", noise(36));
    let new = format!("npm_{}", noise(36));
    let (one, two) = ("1".repeat(40), "2".repeat(40));
    let patch = format!(
        "diff --git a/x b/x\nindex {one}..{two} 100644\n--- a/x\n+++ b/x\n@@ -1,3 +1,4 @@\n mysecretvalue\n-{old}\n+a\n+t {new}\n {old}\n"
    );
    let show = |known: &Known| {
        let found = scan_added_lines(patch.as_bytes(), known);
        found
            .into_iter()
            .map(|f| format!("{}@{}:{}", f.rule, f.line, f.column))
            .collect::<Vec<_>>()
    };
    assert_eq!(show(&Known::none()), ["npm-token@9:4"]);
    assert_eq!(
        show(&known(&[("k", b"mysecretvalue")])),
        ["known:k@6:2", "npm-token@9:4"]
    );
    assert_eq!(
        show(&known(&[("k", new.as_bytes())])),
        ["known:k@9:4", "npm-token@9:4"]
    );
    let two_lines = format!("a\nt {new}");
    assert_eq!(
        show(&known(&[("k", two_lines.as_bytes())])),
        ["known:k@8:2", "npm-token@9:4"]
    );
    let broken = patch.replace("@@ -1,3", "@@ -1,9");
    let rules: Vec<String> = scan_added_lines(broken.as_bytes(), &Known::none())
        .into_iter()
        .map(|f| f.rule)
        .collect();
    assert_eq!(rules, ["github-token", "npm-token", "github-token"]);
}

#[test]
fn short_values_are_not_looked_for_and_said_to_be_so() {
    let k = known(&[
        ("a", b"1234567"),
        ("b", b"  short  "),
        ("c", &[b'x'; KNOWN_BYTES_MAX + 1]),
        ("d", b" longenough\n"),
    ]);
    assert_eq!(k.names(), ["d"]);
    let ignored: Vec<&str> = k.ignored().iter().map(|(n, _)| n.as_str()).collect();
    assert_eq!(ignored, ["a", "b", "c"]);
    assert_eq!(
        redact(&k, &[b"1234567 longenough"]),
        b"1234567 [redacted:d]"
    );
}

#[test]
fn known_values_go_in_every_spelling() {
    let values: &[(&str, &[u8])] = &[("key", b"p@ss/word+?\"1")];
    let check = |text: &str| redacted(values, text);
    insta::assert_snapshot!(check("x p@ss/word+?\"1 y"), @"x [redacted:key] y");
    insta::assert_snapshot!(check("p%40ss%2Fword%2B%3F%221 p%40ss%2fword%2b%3f%221"), @"[redacted:key] [redacted:key]");
    insta::assert_snapshot!(check(r#"{"k":"p@ss/word+?\"1"}"#), @r#"{"k":"[redacted:key]"}"#);
    // `user:`, `us:` and nothing before the value put it at three places of a base64 group.
    insta::assert_snapshot!(check("cEBzcy93b3JkKz8iMQ=="), @"[redacted:key]Q==");
    insta::assert_snapshot!(check("dXNlcjpwQHNzL3dvcmQrPyIx"), @"dXNlcjp[redacted:key]");
    insta::assert_snapshot!(check("dXM6cEBzcy93b3JkKz8iMQ=="), @"dXM6[redacted:key]Q==");
}

#[test]
fn overlapping_values_leave_nothing_behind() {
    let values: &[(&str, &[u8])] = &[
        ("a", b"abcdefgh"),
        ("b", b"efghSECRETSECRET"),
        ("c", b"abcdefghij"),
    ];
    let check = |text: &str| redacted(values, text);
    insta::assert_snapshot!(check("-abcdefghSECRETSECRET-"), @"-[redacted:a]-");
    insta::assert_snapshot!(check("-abcdefghij-"), @"-[redacted:c]-");
    insta::assert_snapshot!(check("abcdefghabcdefgh"), @"[redacted:a][redacted:a]");
    insta::assert_snapshot!(check("abcdefg efghSECRETSECRE"), @"abcdefg efghSECRETSECRE");
}

#[test]
fn a_marker_never_spells_a_value() {
    let values: &[(&str, &[u8])] = &[
        ("redacted", b"redacted"),
        ("x", b"]abcdefg"),
        ("y", b"longvalue1"),
    ];
    let out = redacted(values, "redacted longvalue1abcdefg");
    assert_eq!(
        out, "<***> <***>abcdefg",
        "`]` may begin a value, and every marker would say `redacted`"
    );
}

#[test]
fn little_is_held_back() {
    let k = known(&[("k", b"0123456789abcdef")]);
    let longest = 16 * 3;
    let mut redactor = Redactor::new(&k);
    let (mut out, mut given) = (Vec::new(), 0);
    for chunk in ["0123456789abcde", "0123456789abcdef", "text", "0123"] {
        redactor.push(chunk.as_bytes(), &mut out);
        given += chunk.len();
        assert!(given < out.len() + longest);
    }
    redactor.finish(&mut out);
    assert_eq!(out, b"0123456789abcde[redacted:k]text0123");
    assert_eq!(redactor.count(), 1);
}

/// Small alphabets, with the brackets of markers in them, so that values overlap and nearly match all the time.
fn value() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(
        prop_oneof![Just(b'a'), Just(b'b'), Just(b'['), Just(b']')],
        8..12,
    )
}

type Values = Vec<(String, Vec<u8>)>;

fn stream() -> impl Strategy<Value = (Values, Vec<Vec<u8>>)> {
    proptest::collection::vec(value(), 1..4).prop_flat_map(|values| {
        let named: Vec<(String, Vec<u8>)> = values
            .iter()
            .enumerate()
            .map(|(i, v)| (format!("n{i}"), v.clone()))
            .collect();
        let piece = prop_oneof![
            proptest::sample::select(values.clone()),
            proptest::sample::select(values).prop_map(|v| v[..5].to_vec()),
            proptest::collection::vec(
                prop_oneof![Just(b'a'), Just(b'b'), Just(b'['), Just(b'n'), Just(b'0')],
                0..4
            ),
        ];
        (Just(named), proptest::collection::vec(piece, 0..8))
    })
}

/// Every value looked for at every place, to compare with.
fn redacted_one_by_one(values: &[Vec<u8>], text: &[u8]) -> Vec<u8> {
    let starts = (0..text.len()).flat_map(|at| (0..values.len()).map(move |owner| (at, owner)));
    let mut found: Vec<(usize, usize, usize)> = starts
        .filter(|(at, owner)| text[*at..].starts_with(&values[*owner]))
        .map(|(at, owner)| (at, at + values[owner].len(), owner))
        .collect();
    // What begins first gives the name; of several the longest, of equal ones the first.
    found.sort_by_key(|(start, end, owner)| (*start, std::cmp::Reverse(*end), *owner));
    let mut out = Vec::new();
    let mut at = 0;
    for (start, end, owner) in found {
        if start >= at {
            out.extend_from_slice(&text[at..start]);
            out.extend_from_slice(format!("<{owner}>").as_bytes());
        }
        at = at.max(end);
    }
    out.extend_from_slice(&text[at..]);
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn the_automaton_agrees_with_looking_one_by_one(
        values in proptest::collection::vec("[ab]{1,6}|[abc]{1,3}", 0..6),
        text in "[abc]{0,40}",
        size in 1_usize..8,
    ) {
        let values: Vec<Vec<u8>> = values.into_iter().map(String::into_bytes).collect();
        let named = values.iter().enumerate().map(|(n, v)| (format!("<{n}>"), v.clone()));
        let known = Known::places(named.collect());
        let chunks: Vec<&[u8]> = text.as_bytes().chunks(size).collect();
        prop_assert_eq!(redact(&known, &chunks), redacted_one_by_one(&values, text.as_bytes()));
    }
}

proptest! {
    #[test]
    fn chunks_do_not_matter_and_no_value_stays((values, pieces) in stream(), cuts in proptest::collection::vec(0_usize..60, 0..6)) {
        let known = Known::new(values.clone());
        let whole = pieces.concat();
        let at_once = redact(&known, &[&whole]);
        let bytewise: Vec<&[u8]> = whole.chunks(1).collect();
        prop_assert_eq!(&redact(&known, &bytewise), &at_once);
        let mut cuts: Vec<usize> = cuts.into_iter().filter(|c| *c <= whole.len()).collect();
        cuts.sort_unstable();
        let mut chunks = Vec::new();
        let mut from = 0;
        for cut in cuts {
            chunks.push(&whole[from..cut]);
            from = cut;
        }
        chunks.push(&whole[from..]);
        prop_assert_eq!(&redact(&known, &chunks), &at_once);
        for (_, value) in &values {
            prop_assert!(!at_once.windows(value.len()).any(|w| w == value), "{:?}", String::from_utf8_lossy(&at_once));
        }
        let untouched = !values.iter().any(|(_, v)| whole.windows(v.len()).any(|w| w == v));
        prop_assert!(!untouched || at_once == whole);
    }

    #[test]
    fn base64_of_a_value_in_any_surrounding_is_found(
        value in proptest::collection::vec(any::<u8>(), 8..40),
        before in proptest::collection::vec(any::<u8>(), 0..7),
        after in proptest::collection::vec(any::<u8>(), 0..7),
    ) {
        prop_assume!(value.trim_ascii() == value);
        let text = base64_reference(&[&before[..], &value, &after].concat());
        let found = scan_text(text.as_bytes(), &Known::new(vec![("k".to_owned(), value)]));
        prop_assert!(found.iter().any(|f| f.rule == "known:k"));
    }

    #[test]
    fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200), value in proptest::collection::vec(any::<u8>(), 0..40)) {
        let known = Known::new(vec![("k".to_owned(), value)]);
        let _found = scan_text(&bytes, &known);
        let _found = scan_added_lines(&bytes, &known);
        let _out = redact(&known, &[&bytes]);
    }
}

/// The textbook way, to compare with.
fn base64_reference(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let n =
            group.iter().fold(0_usize, |n, b| n << 8 | usize::from(*b)) << (8 * (3 - group.len()));
        for i in 0..=group.len() {
            out.push(char::from(DIGITS[n >> (18 - 6 * i) & 63]));
        }
        out.push_str(&"=".repeat(3 - group.len()));
    }
    out
}

/// Text in base64, as `base64 -w` breaks it.
fn in_base64(text: &str, columns: usize) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in text.as_bytes().chunks(3) {
        let bits = (0..3).fold(0_usize, |n, i| {
            n << 8 | usize::from(group.get(i).copied().unwrap_or(0))
        });
        for i in 0..4 {
            let digit = char::from(DIGITS[bits >> (18 - 6 * i) & 63]);
            out.push(if i <= group.len() { digit } else { '=' });
        }
    }
    let lines: Vec<&str> = (0..out.len())
        .step_by(columns)
        .map(|at| &out[at..out.len().min(at + columns)])
        .collect();
    lines.join("\n")
}

#[test]
fn a_token_and_a_known_value_are_found_in_base64_of_base64_and_in_utf16() {
    let token = format!("ghp_{}", noise(36));
    let value = "correct-horse-battery-staple";
    let known = Known::new(vec![("k".to_owned(), value.into())]);
    let wide = |text: &str, to: fn(u16) -> [u8; 2]| -> Vec<u8> {
        text.encode_utf16().flat_map(to).collect()
    };
    type Encode = fn(&str) -> Vec<u8>;
    let ways: [(&str, Encode); 4] = [
        ("twice", |text| {
            in_base64(&in_base64(text, 10_000), 76).into_bytes()
        }),
        ("twice, broken", |text| {
            in_base64(&in_base64(text, 76), 76).into_bytes()
        }),
        ("little endian", |text| {
            text.encode_utf16().flat_map(u16::to_le_bytes).collect()
        }),
        ("big endian", |text| {
            text.encode_utf16().flat_map(u16::to_be_bytes).collect()
        }),
    ];
    for (name, encode) in ways {
        let found = scan_output(&encode(&format!("a line\nt={token}\n")), &Known::none());
        assert_eq!(found[0].rule, "github-token", "{name}");
    }
    for before in ["", "x", "xy"] {
        let text = format!("{before}{value} and more");
        let twice = in_base64(&in_base64(&text, 10_000), 10_000);
        let found = scan_output(twice.as_bytes(), &known);
        assert_eq!(found[0].rule, "known:k", "{before}");
        for to in [u16::to_le_bytes, u16::to_be_bytes] {
            let found = scan_output(&wide(&text, to), &known);
            assert_eq!(found[0].rule, "known:k", "{before}");
            assert!(
                !redact(&known, &[&wide(&text, to)])
                    .windows(10)
                    .any(|w| w == &wide(value, to)[..10])
            );
        }
    }
}

#[test]
fn a_token_is_found_in_base64_and_percent_encoded() {
    let token = format!("ghp_{}", noise(36));
    let text = format!("a line before\nAuthorization: {token}\na line after, which is long\n");
    for columns in [10_000, 76, 64] {
        let found = scan_output(in_base64(&text, columns).as_bytes(), &Known::none());
        assert_eq!(found[0].rule, "github-token", "{columns} columns");
    }
    let encoded = token.replace('_', "%5F");
    let found = scan_output(format!("?t={encoded}&x=%20").as_bytes(), &Known::none());
    let place = (found[0].column, found[0].length, found.len());
    assert_eq!(place, (4, encoded.len(), 1));
}

#[test]
fn a_known_value_is_found_in_hex() {
    let known = known(&[("KEY", b"s3cret-of-mine")]);
    for text in [
        "7333637265742d6f662d6d696e65",
        "7333637265742D6F662D6D696E65",
    ] {
        assert_eq!(scan_output(text.as_bytes(), &known)[0].rule, "known:KEY");
    }
}

#[test]
fn a_name_with_a_value_is_no_finding_in_output() {
    let line = format!("password = \"{}\"", noise(30));
    assert_eq!(scan_text(line.as_bytes(), &Known::none()).len(), 1);
    assert!(scan_output(line.as_bytes(), &Known::none()).is_empty());
}

#[test]
fn an_event_loses_its_secret_and_keeps_the_rest() {
    use cto_contract::event::{BackendText, EventKind};
    let token = format!("ghp_{}", noise(36));
    let said = |text: String| EventKind::BackendPlan(BackendText { text });
    let cleaned = clean_event(&said(format!("use {token} now")), &Known::none());
    let cleaned = cleaned.unwrap().unwrap();
    assert_eq!(cleaned.rule, "github-token");
    assert_eq!(
        cleaned.kind,
        said("use [quarantined:github-token] now".to_owned())
    );
    let twice = clean_event(&cleaned.kind, &Known::none()).unwrap();
    assert_eq!(twice, None);
}
