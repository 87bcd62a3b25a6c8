//! Random column types and values of them, for the row and key tests.
use std::borrow::Cow;

use proptest::prelude::*;
use redolith_types::{
    Collation, Date, DateTime, Decimal, IntSize, LobSize, Sign, SqlType, Time, Value,
};

pub fn any_type() -> impl Strategy<Value = SqlType> {
    let size = prop::sample::select(vec![
        IntSize::Tiny,
        IntSize::Small,
        IntSize::Medium,
        IntSize::Int,
        IntSize::Big,
    ]);
    let lob =
        prop::sample::select(vec![LobSize::Tiny, LobSize::Normal, LobSize::Medium, LobSize::Long]);
    let text = prop::sample::select(Collation::ALL[1..].to_vec());
    let names = || (1..20usize).prop_map(|n| (0..n).map(|i| format!("n{i}")).collect::<Vec<_>>());
    let fsp = 0..=6u8;
    prop_oneof![
        (size, any::<bool>()).prop_map(|(size, unsigned)| SqlType::Int {
            size,
            sign: Sign { unsigned, zerofill: false },
            display: None
        }),
        (1..=65u8, 0..=30u8).prop_map(|(p, s)| SqlType::Decimal {
            precision: p,
            scale: s.min(p),
            sign: Sign::SIGNED
        }),
        Just(SqlType::Float { digits: None, sign: Sign::SIGNED }),
        Just(SqlType::DOUBLE),
        text.clone().prop_map(|collation| SqlType::Char { chars: 40, collation }),
        text.clone().prop_map(|collation| SqlType::VarChar { chars: 40, collation }),
        (lob.clone(), text.clone()).prop_map(|(size, collation)| SqlType::Text { size, collation }),
        Just(SqlType::Binary { len: 40 }),
        Just(SqlType::VarBinary { len: 40 }),
        lob.prop_map(|size| SqlType::Blob { size }),
        Just(SqlType::Date),
        fsp.clone().prop_map(|fsp| SqlType::Time { fsp }),
        fsp.clone().prop_map(|fsp| SqlType::DateTime { fsp }),
        fsp.prop_map(|fsp| SqlType::Timestamp { fsp }),
        Just(SqlType::Year),
        (1..=64u8).prop_map(|bits| SqlType::Bit { bits }),
        names().prop_map(|names| SqlType::Enum { names, collation: Collation::Utf8mb4GeneralCi }),
        names().prop_map(|names| SqlType::Set { names, collation: Collation::Utf8mb4GeneralCi }),
    ]
}

/// Strings with few distinct characters, so that prefixes, spaces, zeros and equal weights meet
/// often.
fn string_bytes(collation: Collation) -> BoxedStrategy<Vec<u8>> {
    let piece = match collation {
        Collation::Binary => prop::sample::select(vec![
            &b"\0"[..],
            b"\0\0\0\0\0\0\0\0",
            b"\x01",
            b" ",
            b"a",
            b"\xff",
        ]),
        Collation::Latin1SwedishCi | Collation::Latin1Bin => prop::sample::select(vec![
            &b"\0"[..],
            b" ",
            b"        ",
            b"a",
            b"A",
            b"\xe4",
            b"\xc6",
            b"z",
            b"\t",
            b"\xff",
        ]),
        Collation::AsciiGeneralCi | Collation::AsciiBin => {
            prop::sample::select(vec![&b"\0"[..], b" ", b"        ", b"a", b"A", b"z", b"\t", b"~"])
        }
        Collation::Utf8mb3GeneralCi | Collation::Utf8mb3Bin => prop::sample::select(vec![
            &b"\0"[..],
            b" ",
            b"        ",
            b"a",
            b"A",
            "é".as_bytes(),
            "ß".as_bytes(),
            "s".as_bytes(),
            b"\t",
            "東".as_bytes(),
        ]),
        Collation::Utf8mb3UnicodeCi | Collation::Utf8mb3Unicode520Ci => {
            let pieces = [
                "\0", " ", "        ", "a", "A", "é", "e", "\u{301}", "ß", "s", "\t", "東", "각",
                "\u{a0}", "\u{f900}", "\u{fdfa}", "\u{e000}",
            ];
            prop::sample::select(pieces.map(str::as_bytes).to_vec())
        }
        Collation::Utf8mb4Uca0900AiCi
        | Collation::Utf8mb4Uca0900AsCi
        | Collation::Utf8mb4Uca0900AsCs
        | Collation::Utf8mb4UnicodeCi
        | Collation::Utf8mb4Unicode520Ci => {
            let pieces = [
                "\0",
                " ",
                "        ",
                "a",
                "A",
                "é",
                "e",
                "\u{301}",
                "\u{300}",
                "ß",
                "s",
                "ﬁ",
                "\t",
                "東",
                "각",
                "ᄀ",
                "\u{a0}",
                "\u{f900}",
                "\u{fdfa}",
                "😀",
                "\u{e000}",
                "\u{20000}",
                "\u{10ffff}",
                "ж",
                "²",
                "2",
            ];
            prop::sample::select(pieces.map(str::as_bytes).to_vec())
        }
        Collation::Utf8mb4GeneralCi | Collation::Utf8mb4Bin | Collation::Utf8mb4Bin0900 => {
            let pieces = [
                "\0", " ", "        ", "a", "A", "é", "E", "ß", "s", "\t", "東", "😀", "🦀",
                "\u{fffd}", "\u{ff21}",
            ];
            prop::sample::select(pieces.map(str::as_bytes).to_vec())
        }
    };
    prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat()).boxed()
}

fn any_date() -> impl Strategy<Value = Date> {
    prop_oneof![
        1 => Just(Date::ZERO),
        9 => (0..=9999u16, 0..=12u8, 0..=31u8).prop_map(|(y, m, d)| Date::new(y, m, d).unwrap()),
    ]
}

/// Stored values of a type, NULL excluded.
pub fn value_of(ty: &SqlType) -> BoxedStrategy<Value<'static>> {
    match ty {
        SqlType::Int { size, sign, .. } if sign.unsigned => {
            let max = size.max_unsigned();
            prop_oneof![Just(0), Just(max), 0..=max, 0..=4u64].prop_map(Value::UInt).boxed()
        }
        SqlType::Int { size, .. } => {
            let (min, max) = (size.min_signed(), size.max_signed());
            prop_oneof![Just(min), Just(max), min..=max, -3..=3i64].prop_map(Value::Int).boxed()
        }
        SqlType::Decimal { precision, scale, .. } => {
            let (precision, scale) = (*precision, *scale);
            (prop::collection::vec(0..=9u8, 1..=usize::from(precision)), any::<bool>())
                .prop_map(move |(digits, negative)| {
                    let mut text: Vec<u8> = digits.iter().map(|d| b'0' + d).collect();
                    text.extend_from_slice(format!("e-{scale}").as_bytes());
                    let number = Decimal::parse(&text).unwrap().round(scale).unwrap();
                    Value::Decimal(if negative { -number } else { number })
                })
                .boxed()
        }
        SqlType::Float { .. } => prop_oneof![any::<f32>(), Just(0.0), Just(-0.0)]
            .prop_filter("finite", |f| f.is_finite())
            .prop_map(Value::Float)
            .boxed(),
        SqlType::Double { .. } => prop_oneof![any::<f64>(), Just(0.0), Just(-0.0)]
            .prop_filter("finite", |f| f.is_finite())
            .prop_map(Value::Double)
            .boxed(),
        SqlType::Char { collation, .. } => string_bytes(*collation)
            .prop_map(|mut bytes| {
                bytes.truncate(bytes.iter().rposition(|b| *b != b' ').map_or(0, |i| i + 1));
                Value::owned(bytes)
            })
            .boxed(),
        SqlType::Binary { len } => {
            let len = *len as usize;
            string_bytes(Collation::Binary)
                .prop_map(move |mut bytes| {
                    bytes.resize(len, 0);
                    Value::owned(bytes)
                })
                .boxed()
        }
        SqlType::VarChar { .. }
        | SqlType::Text { .. }
        | SqlType::VarBinary { .. }
        | SqlType::Blob { .. } => {
            string_bytes(ty.compare_collation()).prop_map(Value::owned).boxed()
        }
        SqlType::Date => any_date().prop_map(Value::Date).boxed(),
        SqlType::Time { .. } => (-3_020_399_000_000..=3_020_399_000_000i64)
            .prop_map(|us| Value::Time(Time::from_us(us).unwrap()))
            .boxed(),
        SqlType::DateTime { .. } => (any_date(), 0..86_400_000_000i64)
            .prop_map(|(date, us)| Value::DateTime(date.at(us)))
            .boxed(),
        SqlType::Timestamp { .. } => prop_oneof![
            Just(Value::DateTime(DateTime::ZERO)),
            (1_000_000..2_147_483_647_999_999i64)
                .prop_map(|us| Value::DateTime(DateTime::from_unix_us(us, 0).unwrap())),
        ]
        .boxed(),
        SqlType::Year => prop_oneof![Just(0), 1901..=2155u64].prop_map(Value::UInt).boxed(),
        SqlType::Bit { bits } => {
            let max = u64::MAX >> (64 - u32::from(*bits));
            (0..=max).prop_map(Value::UInt).boxed()
        }
        SqlType::Enum { names, .. } => (0..=names.len() as u64).prop_map(Value::UInt).boxed(),
        SqlType::Set { names, .. } => (0..1u64 << names.len()).prop_map(Value::UInt).boxed(),
        SqlType::Json => "\\[[0-9]{1,9}\\]"
            .prop_map(|text| {
                let text = text.replace("[0", "[1");
                let json = redolith_types::json::parse(text.as_bytes()).unwrap();
                Value::Json(json.to_binary().unwrap().into())
            })
            .boxed(),
    }
}

pub fn nullable_value_of(ty: &SqlType, nullable: bool) -> BoxedStrategy<Value<'static>> {
    if !nullable {
        return value_of(ty);
    }
    prop_oneof![1 => Just(Value::Null), 4 => value_of(ty)].boxed()
}

/// A string value cut to a number of characters; everything else as it is.
#[allow(dead_code, reason = "the row tests have no prefixes")]
pub fn cut<'a>(value: &'a Value<'a>, ty: &SqlType, prefix: Option<u32>) -> Value<'a> {
    match (value, prefix) {
        (Value::Bytes(bytes), Some(chars)) => {
            let len = ty.compare_collation().charset().prefix_len(bytes, chars as usize);
            Value::Bytes(Cow::Borrowed(&bytes[..len]))
        }
        _ => value.borrow(),
    }
}
