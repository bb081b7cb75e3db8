use super::*;
use crate::key::SigningKey;
use proptest::prelude::*;

fn line(seed: u8) -> String {
    let key = SigningKey::from_random(&[seed; 32]);
    SshPublicKey::Ed25519(key.public()).to_openssh()
}

fn fault(text: &str) -> String {
    parse_operators(text).unwrap_err().to_string()
}

#[test]
fn lines_of_the_stock_format_are_read_with_what_they_bound() {
    let text = format!(
        "# people\n\nolga namespaces=\"cto-approval\" {} presence=claimed\nivan,petra valid-after=\"20260101Z\",valid-before=20270101120000Z,namespaces=\"git,cto-approval\" {} a comment\nmail namespaces=\"git\" {}\n",
        line(1),
        line(2),
        line(3)
    );
    let keys = parse_operators(&text).unwrap();
    let [olga, ivan] = &keys[..] else {
        panic!("{keys:?}")
    };
    assert!(olga.claims_presence && !ivan.claims_presence);
    assert_eq!(ivan.names.len(), 2);
    assert_eq!(ivan.valid_after, "2026-01-01T00:00:00Z".parse().ok());
    assert_eq!(ivan.valid_before, "2027-01-01T12:00:00Z".parse().ok());
}

#[test]
fn a_line_that_is_not_understood_is_an_error_and_no_operator_less() {
    let key = line(1);
    for (text, why) in [
        (String::new(), "it names no operator"),
        (
            format!("mail namespaces=\"git\" {key}"),
            "it names no operator",
        ),
        (format!("* {key}"), "line 1: `*` is not the name"),
        (format!("!olga,ivan {key}"), "line 1: `!olga`"),
        (
            format!("olga cert-authority {key}"),
            "line 1: the option `cert-authority`",
        ),
        (
            format!("olga valid-before=20260101 {key}"),
            "line 1: `20260101` is not a time in UTC",
        ),
        (
            format!("olga valid-before=20261399Z {key}"),
            "line 1: `20261399Z` is not a time in UTC",
        ),
        (
            "olga ssh-rsa AAAA".to_owned(),
            "line 1: the key can't be used",
        ),
        ("olga".to_owned(), "line 1: it is not `NAMES"),
        (
            format!("olga {key}\nivan {key}"),
            "line 2: the key stands in another line too",
        ),
    ] {
        let told = fault(&text);
        assert!(told.starts_with(why), "{text}: {told}");
    }
}

#[test]
fn a_key_counts_for_its_names_its_ledger_and_its_time_alone() {
    let text = format!(
        "olga valid-after=20260601Z,valid-before=20260602Z {}",
        line(1)
    );
    let ledger = Digest::from_bytes(&[1; 32]);
    let pinned = PinnedOperators {
        keys: parse_operators(&text).unwrap(),
        ledger: ledger.clone(),
    };
    let (olga, ivan) = ("olga".parse().unwrap(), "ivan".parse().unwrap());
    let key = pinned.keys[0].key.clone();
    let at = |text: &str| text.parse::<Utc>().unwrap();
    let noon = at("2026-06-01T12:00:00Z");
    assert!(pinned.find(&key, &olga, &ledger, noon).is_ok());
    let other = Digest::from_bytes(&[2; 32]);
    let stranger = |key, name, ledger, at| pinned.find(key, name, ledger, at).unwrap_err();
    assert_eq!(stranger(&key, &olga, &other, noon), Stranger::OtherLedger);
    assert_eq!(
        stranger(&key, &ivan, &ledger, noon),
        Stranger::OtherName(ivan.clone())
    );
    for out in ["2026-05-31T23:59:59Z", "2026-06-02T00:00:00Z"] {
        assert_eq!(stranger(&key, &olga, &ledger, at(out)), Stranger::OutOfTime);
    }
    let nobody = SshPublicKey::from_openssh(&line(2)).unwrap();
    assert_eq!(
        stranger(&nobody, &olga, &ledger, noon),
        Stranger::UnknownKey
    );
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "(.|\n){0,300}") {
        parse_operators(&text).ok();
    }

    #[test]
    fn nothing_before_the_key_makes_it_count_for_more_than_it_says(head in "[ -~]{0,40}") {
        if let Ok(keys) = parse_operators(&format!("{head} {}", line(1))) {
            prop_assert_eq!(keys.len(), 1);
            prop_assert!(!keys[0].names.is_empty() && !keys[0].claims_presence);
        }
    }
}
