//! Macros for words that are contracts: closed string enums, constants that readers must insist on, checked strings, and
//! what operators sign.

/// Declares a closed enum whose variants are exactly one wire string each.
#[macro_export]
macro_rules! wire_enum {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$vmeta:meta])* $variant:ident = $wire:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $name { $($(#[$vmeta])* $variant),+ }

        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $wire),+ }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::words::UnknownWord;
            fn from_str(word: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|v| v.as_str() == word).ok_or_else(|| {
                    $crate::words::UnknownWord::new(word, Self::ALL.iter().map(|v| v.as_str()))
                })
            }
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let word = <String as ::serde::Deserialize>::deserialize(deserializer)?;
                word.parse().map_err(::serde::de::Error::custom)
            }
        }

        impl $crate::schemars::JsonSchema for $name {
            fn schema_name() -> ::std::borrow::Cow<'static, str> { stringify!($name).into() }
            fn json_schema(_: &mut $crate::schemars::SchemaGenerator) -> $crate::schemars::Schema {
                $crate::schemars::json_schema!({ "type": "string", "enum": [$($wire),+] })
            }
        }
    };
}

/// Declares a unit type that stands for one JSON constant: it writes that value and refuses every other.
#[macro_export]
macro_rules! wire_const {
    ($(#[$meta:meta])* $vis:vis struct $name:ident: $ty:ty = $value:expr) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        $vis struct $name;

        impl $name {
            /// The only legal value.
            pub const VALUE: $ty = $value;
        }

        impl ::serde::Serialize for $name {
            fn serialize<S: ::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                ::serde::Serialize::serialize(&Self::VALUE, serializer)
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let seen = ::serde_json::Value::deserialize(deserializer)?;
                if seen == ::serde_json::json!(Self::VALUE) {
                    Ok(Self)
                } else {
                    Err(::serde::de::Error::custom(format!("expected {:?}, found {seen}", Self::VALUE)))
                }
            }
        }

        impl $crate::schemars::JsonSchema for $name {
            fn schema_name() -> ::std::borrow::Cow<'static, str> { stringify!($name).into() }
            fn json_schema(_: &mut $crate::schemars::SchemaGenerator) -> $crate::schemars::Schema {
                $crate::schemars::json_schema!({ "const": $value })
            }
        }
    };
}

/// Declares a string newtype that can only hold text accepted by `check`.
macro_rules! checked_string {
    ($(#[$meta:meta])* $vis:vis struct $name:ident, $what:literal, $pattern:literal, $check:expr) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ::serde::Serialize)]
        #[serde(transparent)]
        $vis struct $name(String);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str { &self.0 }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result { f.pad(&self.0) }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::ids::BadId;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let check: fn(&str) -> bool = $check;
                if check(text) { Ok(Self(text.to_owned())) } else { Err($crate::ids::BadId::new($what, text, $pattern)) }
            }
        }

        impl<'de> ::serde::Deserialize<'de> for $name {
            fn deserialize<D: ::serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as ::serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(::serde::de::Error::custom)
            }
        }

        impl $crate::schemars::JsonSchema for $name {
            fn schema_name() -> ::std::borrow::Cow<'static, str> { stringify!($name).into() }
            fn json_schema(_: &mut $crate::schemars::SchemaGenerator) -> $crate::schemars::Schema {
                $crate::schemars::json_schema!({ "type": "string", "pattern": $pattern })
            }
        }
    };
}

/// Makes a struct with the fields `ledger`, `slot`, `signer` and `at` something that an operator signs, and names the
/// variant of [`crate::ledger::Record`] that holds it.
macro_rules! statement {
    ($name:ident, $variant:ident) => {
        impl $crate::operator::Statement for $name {
            fn ledger(&self) -> &$crate::ids::Digest {
                &self.ledger
            }
            fn slot(&self) -> &$crate::ids::Nonce {
                &self.slot
            }
            fn signer(&self) -> &$crate::operator::OperatorName {
                &self.signer
            }
            fn at(&self) -> $crate::time::Utc {
                self.at
            }
            fn into_record(signed: $crate::operator::Signed<Self>) -> $crate::ledger::Record {
                $crate::ledger::Record::$variant(signed)
            }
        }
    };
}
