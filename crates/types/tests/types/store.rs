//! Storing: `store.tsv` has type, literal, and what a column of that type then holds in strict mode
//! and without: the value's text (hex for strings), followed by the number of the warning ("n"
//! before a note); "!" and the number for an error. Dates are stored on 2026-11-21 in UTC.
use redolith_types::temporal::{parse_date, parse_datetime, parse_time};
use redolith_types::{
    Charset, Collation, Date, Decimal, IntSize, LobSize, Sign, SqlType, StoreMode, Value,
    convert_for_column,
};

fn column_type(text: &str) -> SqlType {
    let collation = Collation::Utf8mb4GeneralCi;
    let int = |size, unsigned| SqlType::Int {
        size,
        sign: Sign { unsigned, zerofill: false },
        display: None,
    };
    let decimal = |unsigned| SqlType::Decimal {
        precision: 5,
        scale: 2,
        sign: Sign { unsigned, zerofill: false },
    };
    let names = |names: [&str; 3]| names.map(String::from).to_vec();
    match text {
        "int" => SqlType::INT,
        "tinyint" => int(IntSize::Tiny, false),
        "tinyint unsigned" => int(IntSize::Tiny, true),
        "bigint" => SqlType::BIGINT,
        "bigint unsigned" => SqlType::BIGINT_UNSIGNED,
        "decimal(5,2)" => decimal(false),
        "decimal(5,2) unsigned" => decimal(true),
        "float" => SqlType::Float { digits: None, sign: Sign::SIGNED },
        "double" => SqlType::DOUBLE,
        "double(5,2)" => SqlType::Double { digits: Some((5, 2)), sign: Sign::SIGNED },
        "char(3)" => SqlType::Char { chars: 3, collation },
        "varchar(3)" => SqlType::VarChar { chars: 3, collation },
        "varchar(3) latin1" => SqlType::VarChar { chars: 3, collation: Collation::Latin1SwedishCi },
        "tinytext" => SqlType::Text { size: LobSize::Tiny, collation },
        "binary(3)" => SqlType::Binary { len: 3 },
        "varbinary(3)" => SqlType::VarBinary { len: 3 },
        "date" => SqlType::Date,
        "time" => SqlType::Time { fsp: 0 },
        "time(2)" => SqlType::Time { fsp: 2 },
        "datetime" => SqlType::DateTime { fsp: 0 },
        "datetime(3)" => SqlType::DateTime { fsp: 3 },
        "timestamp" => SqlType::Timestamp { fsp: 0 },
        "year" => SqlType::Year,
        "bit(4)" => SqlType::Bit { bits: 4 },
        "enum('a','b','3')" => SqlType::Enum { names: names(["a", "b", "3"]), collation },
        "set('x','y','z')" => SqlType::Set { names: names(["x", "y", "z"]), collation },
        other => panic!("{other}"),
    }
}

/// A literal as SQL reads it, and its character set.
fn literal(text: &str) -> (Value<'static>, Charset) {
    let quoted = text.split_once('\'').map(|(kind, rest)| (kind, rest.strip_suffix('\'').unwrap()));
    let value = match quoted {
        Some(("", text)) => return (Value::from(text), Charset::Utf8mb4),
        Some(("x", hex)) => {
            let byte = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
            Value::owned((0..hex.len()).step_by(2).map(byte).collect())
        }
        Some(("date", text)) => Value::Date(parse_date(text.as_bytes()).unwrap().value),
        Some(("time", text)) => Value::Time(parse_time(text.as_bytes()).unwrap().value),
        Some(("timestamp", text)) => {
            Value::DateTime(parse_datetime(text.as_bytes(), 0).unwrap().value)
        }
        Some(other) => panic!("{other:?}"),
        None if text.contains('e') => Value::Double(text.parse().unwrap()),
        None => match (text.parse::<i64>(), text.parse::<u64>()) {
            (Ok(n), _) => Value::Int(n),
            (_, Ok(n)) => Value::UInt(n),
            _ => Value::Decimal(Decimal::parse(text.as_bytes()).unwrap()),
        },
    };
    (value, Charset::Binary)
}

fn stored(ty: &SqlType, text: &str, strict: bool) -> String {
    let mode = if strict { StoreMode::STRICT } else { StoreMode::LENIENT };
    let (value, charset) = literal(text);
    let stored = match convert_for_column(
        value,
        ty,
        charset,
        StoreMode { today: Date::new(2026, 11, 21).unwrap(), ..mode },
    ) {
        Ok(stored) => stored,
        Err(error) => return format!("!{}", error.code()),
    };
    let mut out = Vec::new();
    match ty {
        SqlType::Bit { .. } => stored.value.write_text(None, &mut out),
        ty => ty.write_text(&stored.value, &mut out),
    }
    let shown = match ty.is_string() {
        true => out.iter().map(|b| format!("{b:02X}")).collect(),
        false => String::from_utf8(out).unwrap(),
    };
    match stored.warning {
        None => shown,
        Some(warning) => {
            format!("{shown} {}{}", if warning.is_note() { "n" } else { "" }, warning.code())
        }
    }
}

#[test]
fn as_the_table_says() {
    let mut wrong = Vec::new();
    let mut cases = 0;
    for line in include_str!("store.tsv").lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [ty, text, strict, lenient] = fields[..] else { panic!("{line}") };
        for (wanted, is_strict) in [(strict, true), (lenient, false)] {
            let got = stored(&column_type(ty), text, is_strict);
            cases += 1;
            if got != wanted {
                wrong.push(format!(
                    "{ty}\t{text}\t{}\twanted {wanted}\tgot {got}",
                    if is_strict { "strict" } else { "lenient" }
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {cases}:\n{}", wrong.len(), wrong.join("\n"));
}
