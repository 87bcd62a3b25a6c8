//! The columns of a table's record. The table in [`codec`](super) describes them.
use super::{CRITICAL, Decoded, Fields, collation_of, fields, flags_of, number, text_of, u32_of};
use redolith_types::{Column, DefaultValue, Generation, IntSize, LobSize, Sign, SqlType};

/// The field of a column's generation. A program that did not know it would write rows with other
/// values than the expression's.
const GENERATION: u16 = CRITICAL + 5;

/// Numbers of types in the records.
mod kind {
    pub(super) const TINYINT: u8 = 1;
    pub(super) const SMALLINT: u8 = 2;
    pub(super) const MEDIUMINT: u8 = 3;
    pub(super) const INT: u8 = 4;
    pub(super) const BIGINT: u8 = 5;
    pub(super) const DECIMAL: u8 = 6;
    pub(super) const FLOAT: u8 = 7;
    pub(super) const DOUBLE: u8 = 8;
    pub(super) const CHAR: u8 = 9;
    pub(super) const VARCHAR: u8 = 10;
    pub(super) const TEXT: u8 = 11;
    pub(super) const BINARY: u8 = 12;
    pub(super) const VARBINARY: u8 = 13;
    pub(super) const BLOB: u8 = 14;
    pub(super) const DATE: u8 = 15;
    pub(super) const TIME: u8 = 16;
    pub(super) const DATETIME: u8 = 17;
    pub(super) const TIMESTAMP: u8 = 18;
    pub(super) const YEAR: u8 = 19;
    pub(super) const BIT: u8 = 20;
    pub(super) const ENUM: u8 = 21;
    pub(super) const SET: u8 = 22;
    pub(super) const JSON: u8 = 23;
}
pub(super) const INTS: [(IntSize, u8); 5] = [
    (IntSize::Tiny, kind::TINYINT),
    (IntSize::Small, kind::SMALLINT),
    (IntSize::Medium, kind::MEDIUMINT),
    (IntSize::Int, kind::INT),
    (IntSize::Big, kind::BIGINT),
];
pub(super) const LOBS: [LobSize; 4] =
    [LobSize::Tiny, LobSize::Normal, LobSize::Medium, LobSize::Long];

pub(super) fn column(c: &Column) -> Vec<u8> {
    let mut f = Fields::nested();
    f.put_text(1, &c.name);
    f.put(2, &sql_type(&c.ty));
    let flags = [c.nullable, c.auto_increment, c.on_update_now, c.invisible];
    f.put(3, &[flags.iter().enumerate().map(|(bit, on)| (*on as u8) << bit).sum()]);
    match &c.default {
        None => {}
        Some(DefaultValue::Null) => f.put(4, &[0]),
        Some(DefaultValue::Literal(bytes)) => f.put(4, &[&[1], &bytes[..]].concat()),
        Some(DefaultValue::CurrentTimestamp(digits)) => f.put(4, &[2, *digits]),
        Some(DefaultValue::Expr(text)) => f.put(4, &[&[3], text.as_bytes()].concat()),
    }
    f.put_text(5, &c.comment);
    if let Some(generation) = &c.generation {
        let mut own = Fields::nested();
        own.put_text(1, &generation.expression);
        own.put(2, &[generation.stored as u8]);
        f.put(GENERATION, &own.0);
    }
    f.0
}
pub(super) fn sql_type(t: &SqlType) -> Vec<u8> {
    let mut f = Fields::nested();
    let lob = |size: &LobSize| LOBS.iter().position(|s| s == size).expect("one of them") as u32;
    let (number, length, collation, sign, members) = match t {
        SqlType::Int { size, sign, .. } => (INTS[*size as usize].1, None, None, Some(sign), None),
        SqlType::Decimal { sign, .. } => (kind::DECIMAL, None, None, Some(sign), None),
        SqlType::Float { sign, .. } => (kind::FLOAT, None, None, Some(sign), None),
        SqlType::Double { sign, .. } => (kind::DOUBLE, None, None, Some(sign), None),
        SqlType::Char { chars, collation } => {
            (kind::CHAR, Some(*chars), Some(collation), None, None)
        }
        SqlType::VarChar { chars, collation } => {
            (kind::VARCHAR, Some(*chars), Some(collation), None, None)
        }
        SqlType::Text { size, collation } => {
            (kind::TEXT, Some(lob(size)), Some(collation), None, None)
        }
        SqlType::Binary { len } => (kind::BINARY, Some(*len), None, None, None),
        SqlType::VarBinary { len } => (kind::VARBINARY, Some(*len), None, None, None),
        SqlType::Blob { size } => (kind::BLOB, Some(lob(size)), None, None, None),
        SqlType::Date => (kind::DATE, None, None, None, None),
        SqlType::Time { .. } => (kind::TIME, None, None, None, None),
        SqlType::DateTime { .. } => (kind::DATETIME, None, None, None, None),
        SqlType::Timestamp { .. } => (kind::TIMESTAMP, None, None, None, None),
        SqlType::Year => (kind::YEAR, None, None, None, None),
        SqlType::Bit { bits } => (kind::BIT, Some(u32::from(*bits)), None, None, None),
        SqlType::Enum { names, collation } => {
            (kind::ENUM, None, Some(collation), None, Some(names))
        }
        SqlType::Set { names, collation } => (kind::SET, None, Some(collation), None, Some(names)),
        SqlType::Json => (kind::JSON, None, None, None, None),
    };
    f.put(1, &[number]);
    if let Some(length) = length {
        f.put(2, &length.to_le_bytes());
    }
    let (precision, scale, display) = match t {
        SqlType::Int { display, .. } => (None, None, *display),
        SqlType::Decimal { precision, scale, .. } => (Some(*precision), Some(*scale), None),
        SqlType::Float { digits, .. } | SqlType::Double { digits, .. } => {
            (digits.map(|d| d.0), digits.map(|d| d.1), None)
        }
        SqlType::Time { fsp } | SqlType::DateTime { fsp } | SqlType::Timestamp { fsp } => {
            (None, Some(*fsp), None)
        }
        _ => (None, None, None),
    };
    for (tag, byte) in [(3, precision), (4, scale), (6, display)] {
        if let Some(byte) = byte {
            f.put(tag, &[byte]);
        }
    }
    if let Some(sign) = sign {
        f.put(5, &[sign.unsigned as u8 | (sign.zerofill as u8) << 1]);
    }
    if let Some(collation) = collation {
        f.put(7, &collation.id().to_le_bytes());
    }
    members.into_iter().flatten().for_each(|name| f.put(8, name.as_bytes()));
    f.0
}

// ---- reading

pub(super) fn decode_column(b: &[u8]) -> Decoded<Column> {
    let mut ty = None;
    let mut c = Column::new("", SqlType::Date);
    fields("column", b, |tag, b| {
        match tag {
            1 => c.name = text_of("column's name", b)?,
            2 => ty = Some(decode_type(b)?),
            3 => {
                let flags = flags_of("column's flags", b, 15)?;
                c.nullable = flags & 1 != 0;
                c.auto_increment = flags & 2 != 0;
                c.on_update_now = flags & 4 != 0;
                c.invisible = flags & 8 != 0;
            }
            4 => c.default = Some(decode_default(b)?),
            5 => c.comment = text_of("column's comment", b)?,
            GENERATION => c.generation = Some(decode_generation(b)?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let has_value = c.default.is_some() || c.auto_increment || c.on_update_now;
    if c.generation.is_some() && has_value {
        return Err(format!("generated column {} has a default value", c.name));
    }
    c.ty = ty.ok_or_else(|| format!("column {} has no type", c.name))?;
    Ok(c)
}
fn decode_generation(b: &[u8]) -> Decoded<Generation> {
    let mut g = Generation::default();
    fields("generation of a column", b, |tag, b| {
        match tag {
            1 => g.expression = text_of("column's expression", b)?,
            2 => g.stored = flags_of("flags of a column's generation", b, 1)? != 0,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    match g.expression.is_empty() {
        true => Err("a generated column has no expression".into()),
        false => Ok(g),
    }
}
fn decode_default(b: &[u8]) -> Decoded<DefaultValue> {
    match b {
        [0] => Ok(DefaultValue::Null),
        [1, bytes @ ..] => Ok(DefaultValue::Literal(bytes.to_vec())),
        [2, digits] => Ok(DefaultValue::CurrentTimestamp(*digits)),
        [3, text @ ..] => Ok(DefaultValue::Expr(text_of("default", text)?)),
        _ => Err(format!("a default of kind {:?} is none that this program knows", b.first())),
    }
}
pub(super) fn decode_type(b: &[u8]) -> Decoded<SqlType> {
    let (mut number_of, mut length, mut precision, mut scale, mut display, mut collation) =
        (0, None, None, None, None, None);
    let (mut sign, mut names) = (Sign::default(), Vec::new());
    fields("type", b, |tag, b| {
        match tag {
            1 => [number_of] = number("type's kind", b)?,
            2 => length = Some(u32_of("type's length", b)?),
            3 => precision = Some(number::<1>("type's precision", b)?[0]),
            4 => scale = Some(number::<1>("type's scale", b)?[0]),
            5 => {
                let flags = flags_of("type's sign", b, 3)?;
                sign = Sign { unsigned: flags & 1 != 0, zerofill: flags & 2 != 0 };
            }
            6 => display = Some(number::<1>("type's width", b)?[0]),
            7 => collation = Some(collation_of(b)?),
            8 => names.push(text_of("type's member", b)?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let length = || length.ok_or("a type has no length");
    let collation = || collation.ok_or("a type has no collation");
    let scale_of = || scale.ok_or("a type has no scale");
    let lob = || LOBS.get(length()? as usize).copied().ok_or("a type has a size that is none");
    let digits = precision.zip(scale);
    Ok(match number_of {
        n if INTS.iter().any(|i| i.1 == n) => {
            let size = INTS.iter().find(|i| i.1 == n).expect("just found").0;
            SqlType::Int { size, sign, display }
        }
        kind::DECIMAL => SqlType::Decimal {
            precision: precision.ok_or("a type has no precision")?,
            scale: scale_of()?,
            sign,
        },
        kind::FLOAT => SqlType::Float { digits, sign },
        kind::DOUBLE => SqlType::Double { digits, sign },
        kind::CHAR => SqlType::Char { chars: length()?, collation: collation()? },
        kind::VARCHAR => SqlType::VarChar { chars: length()?, collation: collation()? },
        kind::TEXT => SqlType::Text { size: lob()?, collation: collation()? },
        kind::BINARY => SqlType::Binary { len: length()? },
        kind::VARBINARY => SqlType::VarBinary { len: length()? },
        kind::BLOB => SqlType::Blob { size: lob()? },
        kind::DATE => SqlType::Date,
        kind::TIME => SqlType::Time { fsp: scale_of()? },
        kind::DATETIME => SqlType::DateTime { fsp: scale_of()? },
        kind::TIMESTAMP => SqlType::Timestamp { fsp: scale_of()? },
        kind::YEAR => SqlType::Year,
        kind::BIT => {
            SqlType::Bit { bits: u8::try_from(length()?).map_err(|_| "a BIT is too long")? }
        }
        kind::ENUM => SqlType::Enum { names, collation: collation()? },
        kind::SET => SqlType::Set { names, collation: collation()? },
        kind::JSON => SqlType::Json,
        other => {
            return Err(format!("it has a type of kind {other}, which this program does not know"));
        }
    })
}

#[cfg(all(test, not(model)))]
mod tests {
    use super::*;

    /// A generated column has neither a default value nor an empty expression, and a program that
    /// does not know all of a generation refuses it.
    #[test]
    fn a_generation_that_lies_is_an_error() {
        let decoded = |c: &Column| decode_column(&column(c));
        let generation =
            |expression: &str| Some(Generation { expression: expression.into(), stored: true });
        let mut c = Column::new("g", SqlType::Date);
        c.generation = generation("(`a` + 1)");
        assert_eq!(decoded(&c).unwrap(), c);
        c.default = Some(DefaultValue::Null);
        assert!(decoded(&c).unwrap_err().contains("generated column g has a default value"));
        c.default = None;
        c.on_update_now = true;
        assert!(decoded(&c).unwrap_err().contains("generated column g has a default value"));
        c.on_update_now = false;
        c.generation = generation("");
        assert!(decoded(&c).unwrap_err().contains("no expression"));
        for (own, message) in [
            (&[2, 0, 1, 0, 0, 0, 2][..], "hold one that this program does not know"),
            (&[1, 0, 1, 0, 0, 0, 0xff], "is no text"),
            (&[1, 0, 9, 0, 0, 0, 0], "is cut off"),
            (&[1, 0x80, 0, 0, 0, 0], "which this program does not know"),
        ] {
            let error = decode_generation(own).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }
}
