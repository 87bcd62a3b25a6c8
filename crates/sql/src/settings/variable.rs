//! Describes a system variable, and reads and shows its values.
use crate::error::{Result, SqlError};
use crate::sql_mode::SqlMode;
use redolith_types::temporal::parse_zone;
use redolith_types::{Charset, Collation, Value};
use std::sync::Arc;

/// The scopes in which a variable has values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    Global,
    Session,
    /// A session begins with the GLOBAL value.
    Both,
    /// A session uses the current GLOBAL value until it sets its own.
    Followed,
}

/// The ways to set a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// SET and options can set it.
    Dynamic,
    /// Only options can set it, when the server starts.
    AtStart,
    /// Only the server itself sets it.
    ReadOnly,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    Bool,
    /// A number of bytes, seconds or other units; options may use K, M, G, T. A value out of range
    /// is moved to the nearest limit, and down to a multiple of `step`.
    Int {
        min: u64,
        max: u64,
        step: u64,
    },
    /// An integer that is a choice or a place, not an amount. A value out of range is refused
    /// (1231).
    Exact {
        min: i64,
        max: i64,
    },
    /// A list of CPUs such as `0-3,6`. Empty means all CPUs.
    CpuList,
    /// A number with a fraction: seconds or a percentage.
    Real {
        min: f64,
        max: f64,
    },
    /// One of these names, given by name or by position.
    Enum(&'static [&'static str]),
    /// A storage engine. Like ENGINE=, it accepts any name, with a warning, for the only engine.
    Engine,
    SqlMode,
    /// A character set, kept as its default collation, or (if `nullable`) NULL.
    Charset {
        nullable: bool,
    },
    Collation,
    /// A time zone: `SYSTEM`, `+hh:mm` or `UTC`.
    TimeZone,
    /// MySQL's optimizer switches. None of them can be switched on.
    OptimizerSwitch,
    Text {
        nullable: bool,
    },
    /// A value that the session itself keeps (`timestamp`, `warning_count`, ...). It can be set if
    /// `Access` permits.
    OfSession,
}

/// A row of the table of variables.
#[derive(Debug)]
pub struct Variable {
    pub name: &'static str,
    pub kind: Kind,
    pub scope: Scope,
    pub access: Access,
    /// The default as an option's text. `None` is NULL for `Text { nullable }`.
    pub default: Option<&'static str>,
    /// The reason why only the default is possible in this server.
    pub only: Option<&'static str>,
    /// The reason why the variable is accepted but has no effect.
    pub inert: Option<&'static str>,
}

/// The kept form of a value: numbers, positions, flags and collation ids are bits, texts are text.
/// NULL is [`NULL_BITS`] without text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    pub bits: u64,
    pub text: Option<Arc<str>>,
}
/// The bits of NULL, for a character set (no collation has the id 0) or a text.
pub const NULL_BITS: u64 = 0;

impl Setting {
    fn bits(bits: u64) -> Setting {
        Setting { bits, text: None }
    }
    fn text(s: &str) -> Setting {
        Setting { bits: 1, text: Some(s.into()) }
    }
}

/// An accepted value. `truncated` means that it was moved into the variable's range (warning 1292).
#[derive(Debug)]
pub struct Taken {
    pub setting: Setting,
    pub truncated: bool,
}
impl From<Setting> for Taken {
    fn from(setting: Setting) -> Taken {
        Taken { setting, truncated: false }
    }
}

const SWITCHES: &[&str] = &[
    "index_merge",
    "index_merge_union",
    "index_merge_sort_union",
    "index_merge_intersection",
    "engine_condition_pushdown",
    "index_condition_pushdown",
    "mrr",
    "mrr_cost_based",
    "block_nested_loop",
    "batched_key_access",
    "materialization",
    "semijoin",
    "loosescan",
    "firstmatch",
    "duplicateweedout",
    "subquery_materialization_cost_based",
    "use_index_extensions",
    "condition_fanout_filter",
    "derived_merge",
    "use_invisible_indexes",
    "skip_scan",
    "hash_join",
    "subquery_to_derived",
    "prefer_ordering_index",
    "hypergraph_optimizer",
    "derived_condition_pushdown",
];

impl Variable {
    fn wrong_value(&self, shown: impl std::fmt::Display) -> SqlError {
        SqlError::wrong_variable_value(self.name, shown)
    }

    /// Reads a value from an option's text or from a string in SET.
    pub fn take_text(&self, text: &str) -> Result<Taken> {
        let wrong = || self.wrong_value(text);
        Ok(match self.kind {
            Kind::Bool => Setting::bits(parse_bool(text).ok_or_else(wrong)? as u64).into(),
            Kind::Int { .. } => self.take_int(parse_int(text).ok_or_else(wrong)?),
            Kind::Exact { .. } => {
                self.take_exact(text.trim().parse().map_err(|_| wrong())?)?.into()
            }
            Kind::CpuList => {
                parse_cpus(text).ok_or_else(wrong)?;
                Setting::text(text.trim()).into()
            }
            Kind::Real { .. } => self.take_real(text.trim().parse().map_err(|_| wrong())?),
            Kind::Enum(names) => {
                let by_name = names.iter().position(|n| n.eq_ignore_ascii_case(text));
                let by_number = || text.parse::<usize>().ok().filter(|i| *i < names.len());
                Setting::bits(by_name.or_else(by_number).ok_or_else(wrong)? as u64).into()
            }
            Kind::Engine if text.trim().is_empty() => return Err(wrong()),
            Kind::Engine => {
                Taken { setting: Setting::bits(0), truncated: !text.eq_ignore_ascii_case("InnoDB") }
            }
            Kind::SqlMode => {
                Setting::bits(SqlMode::parse(text).map_err(|name| self.wrong_value(name))?.0).into()
            }
            Kind::Charset { .. } if self.name == "character_set_client" && is_wide(text) => {
                return Err(wrong());
            }
            Kind::Charset { .. } => {
                let charset = Charset::from_name(text)
                    .ok_or_else(|| SqlError::unknown_character_set(text))?;
                Setting::bits(charset.default_collation().id() as u64).into()
            }
            Kind::Collation => {
                let collation =
                    Collation::from_name(text).ok_or_else(|| SqlError::unknown_collation(text))?;
                self.check_collation(collation)?;
                Setting::bits(collation.id() as u64).into()
            }
            Kind::TimeZone => {
                let known =
                    text.eq_ignore_ascii_case("SYSTEM") || parse_zone(text.as_bytes()).is_some();
                if !known {
                    return Err(SqlError::unknown_time_zone(text));
                }
                Setting::text(if text.eq_ignore_ascii_case("SYSTEM") { "SYSTEM" } else { text })
                    .into()
            }
            Kind::OptimizerSwitch => self.take_switches(text)?.into(),
            Kind::Text { .. } => Setting::text(text).into(),
            Kind::OfSession => return Err(wrong()),
        })
    }

    /// Reads a value from the value of an expression in SET.
    pub fn take_value(&self, value: &Value<'_>) -> Result<Taken> {
        let shown = || value.to_string();
        match (self.kind, value) {
            (Kind::Text { nullable: true } | Kind::Charset { nullable: true }, Value::Null) => {
                Ok(Setting::bits(NULL_BITS).into())
            }
            (Kind::Bool | Kind::Enum(_), Value::Null) => Err(self.wrong_value("NULL")),
            (_, Value::Null) => Err(self.wrong_value("NULL")),
            (Kind::Int { .. }, Value::Int(n)) if *n < 0 => {
                Ok(Taken { truncated: true, ..self.take_int(0) })
            }
            (Kind::Int { .. }, Value::Int(n)) => Ok(self.take_int(*n as u64)),
            (Kind::Int { .. }, Value::UInt(n)) => Ok(self.take_int(*n)),
            (Kind::Int { .. }, _) => Err(SqlError::wrong_variable_type(self.name)),
            (Kind::Exact { .. }, Value::Int(n)) => Ok(self.take_exact(*n)?.into()),
            (Kind::Exact { .. }, Value::UInt(n)) => {
                Ok(self.take_exact(i64::try_from(*n).map_err(|_| self.wrong_value(n))?)?.into())
            }
            (Kind::Exact { .. }, _) => Err(SqlError::wrong_variable_type(self.name)),
            // A list of one CPU may be a number.
            (Kind::CpuList, Value::Int(_) | Value::UInt(_)) => self.take_text(&shown()),
            (Kind::Real { .. }, Value::Bytes(_)) => Err(SqlError::wrong_variable_type(self.name)),
            (Kind::Bool, Value::Int(0 | 1) | Value::UInt(0 | 1)) => self.take_text(&shown()),
            (Kind::Bool, Value::Int(_) | Value::UInt(_)) => Err(self.wrong_value(shown())),
            (Kind::Bool, Value::Double(_) | Value::Float(_) | Value::Decimal(_)) => {
                Err(SqlError::wrong_variable_type(self.name))
            }
            (Kind::SqlMode, Value::Int(n)) if *n >= 0 => Ok(self.take_mode(*n as u64)?.into()),
            (Kind::SqlMode, Value::UInt(n)) => Ok(self.take_mode(*n)?.into()),
            (Kind::Charset { .. }, Value::Int(n)) => match collation(*n as u64) {
                Some(collation) => Ok(by_id(collation.charset().default_collation())),
                None if self.name == "character_set_client" && is_wide_id(*n) => {
                    Err(self.wrong_value(n))
                }
                None => Err(SqlError::unknown_character_set(n)),
            },
            (Kind::Collation, Value::Int(n)) => {
                let collation = self.take_collation_id(*n as u64)?;
                self.check_collation(collation)?;
                Ok(by_id(collation))
            }
            (Kind::Text { .. } | Kind::TimeZone | Kind::OptimizerSwitch | Kind::CpuList, v)
                if v.as_bytes().is_none() =>
            {
                Err(SqlError::wrong_variable_type(self.name))
            }
            (_, Value::Bytes(b)) => {
                self.take_text(std::str::from_utf8(b).map_err(|_| self.wrong_value(shown()))?)
            }
            _ => self.take_text(&shown()),
        }
    }

    fn take_int(&self, n: u64) -> Taken {
        let Kind::Int { min, max, step } = self.kind else { unreachable!("an integer variable") };
        let inside = n.clamp(min, max);
        let inside = match (inside - inside % step).max(min) {
            // 0 is no small number, it leaves the choice to the server.
            0 if n > 0 => step,
            inside => inside,
        };
        Taken { setting: Setting::bits(inside), truncated: inside != n }
    }
    fn take_exact(&self, n: i64) -> Result<Setting> {
        let Kind::Exact { min, max } = self.kind else { unreachable!("a number that is a choice") };
        if (min..=max).contains(&n) {
            Ok(Setting::bits(n as u64))
        } else {
            Err(self.wrong_value(n))
        }
    }
    fn take_real(&self, x: f64) -> Taken {
        let Kind::Real { min, max } = self.kind else { unreachable!("a real variable") };
        let inside = if x.is_nan() { min } else { x.clamp(min, max) };
        Taken { setting: Setting::bits(inside.to_bits()), truncated: inside != x }
    }
    fn take_mode(&self, bits: u64) -> Result<Setting> {
        let known: u64 = SqlMode::NAMES.iter().map(|(_, bit)| bit).sum();
        if bits & !known != 0 {
            Err(self.wrong_value(bits))
        } else {
            Ok(Setting::bits(SqlMode(bits).expanded().0))
        }
    }
    /// As in MySQL, only the two collations that servers have had as default may be the default.
    fn check_collation(&self, collation: Collation) -> Result<()> {
        use Collation::{Utf8mb4GeneralCi, Utf8mb4Uca0900AiCi};
        let is_default = matches!(collation, Utf8mb4GeneralCi | Utf8mb4Uca0900AiCi);
        if self.name == "default_collation_for_utf8mb4" && !is_default {
            return Err(SqlError::invalid_default_collation(collation.name()));
        }
        Ok(())
    }
    fn take_collation_id(&self, id: u64) -> Result<Collation> {
        u16::try_from(id)
            .ok()
            .and_then(Collation::from_id)
            .ok_or_else(|| SqlError::unknown_collation(id))
    }
    fn take_switches(&self, text: &str) -> Result<Setting> {
        for item in text
            .split(',')
            .map(str::trim)
            .filter(|i| !i.is_empty() && !i.eq_ignore_ascii_case("default"))
        {
            let (name, value) = item.split_once('=').ok_or_else(|| self.wrong_value(item))?;
            let known = SWITCHES.iter().any(|s| s.eq_ignore_ascii_case(name));
            if !known
                || !(value.eq_ignore_ascii_case("off") || value.eq_ignore_ascii_case("default"))
            {
                return Err(self.wrong_value(item));
            }
        }
        Ok(Setting::bits(0))
    }

    /// The text of a value in SHOW VARIABLES; None is NULL.
    pub fn show(&self, s: &Setting) -> Option<String> {
        Some(match self.kind {
            Kind::Bool => if s.bits != 0 { "ON" } else { "OFF" }.to_string(),
            Kind::Int { .. } => s.bits.to_string(),
            Kind::Exact { .. } => (s.bits as i64).to_string(),
            Kind::Real { .. } => format!("{:.6}", f64::from_bits(s.bits)),
            Kind::Enum(names) => names[s.bits as usize].to_string(),
            Kind::Engine => "InnoDB".to_string(),
            Kind::SqlMode => SqlMode(s.bits).to_list(),
            Kind::Charset { .. } => collation(s.bits)?.charset().name().to_string(),
            Kind::Collation => collation(s.bits)?.name().to_string(),
            Kind::OptimizerSwitch => {
                SWITCHES.iter().map(|s| format!("{s}=off")).collect::<Vec<_>>().join(",")
            }
            Kind::Text { .. } | Kind::TimeZone | Kind::CpuList => s.text.as_deref()?.to_string(),
            Kind::OfSession => return None,
        })
    }

    /// The value of `SELECT @@name`: a number for numbers and booleans, otherwise a text.
    pub fn value(&self, s: &Setting) -> Value<'static> {
        match self.kind {
            Kind::Bool => Value::Int((s.bits != 0) as i64),
            Kind::Int { .. } => Value::UInt(s.bits),
            Kind::Exact { .. } => Value::Int(s.bits as i64),
            Kind::Real { .. } => Value::Double(f64::from_bits(s.bits)),
            _ => self.show(s).map_or(Value::Null, |text| Value::owned(text.into_bytes())),
        }
    }

    /// The default, which is always valid (a test checks all defaults).
    pub fn default_setting(&self) -> Setting {
        let null = Setting::bits(NULL_BITS);
        self.default.map_or(null.clone(), |text| self.take_text(text).map_or(null, |t| t.setting))
    }
}

fn by_id(c: Collation) -> Taken {
    Setting::bits(c.id() as u64).into()
}
/// True for MySQL's character sets whose characters have two bytes or more: no client can write
/// statements in them.
pub fn is_wide(charset: &str) -> bool {
    ["ucs2", "utf16", "utf16le", "utf32"].iter().any(|name| name.eq_ignore_ascii_case(charset))
}
/// True for the ids of the collations of these character sets.
fn is_wide_id(id: i64) -> bool {
    let (ucs2, utf16) = ([35, 90, 159], [54, 55]);
    let (utf16le, utf32) = ([56, 62], [60, 61]);
    let lone = [&ucs2[..], &utf16, &utf16le, &utf32];
    // The collations by Unicode's tables: ucs2, utf16, utf32.
    let tables = [128..=151, 101..=124, 160..=183];
    lone.iter().any(|ids| ids.contains(&id)) || tables.iter().any(|ids| ids.contains(&id))
}
pub fn collation(bits: u64) -> Option<Collation> {
    u16::try_from(bits).ok().and_then(Collation::from_id)
}

fn parse_bool(text: &str) -> Option<bool> {
    let is = |names: [&str; 3]| names.iter().any(|n| n.eq_ignore_ascii_case(text));
    if is(["ON", "1", "TRUE"]) {
        Some(true)
    } else if is(["OFF", "0", "FALSE"]) {
        Some(false)
    } else {
        None
    }
}

/// The CPU numbers of a list such as `0-3,6`, in ascending order, each below 1,024. None if the
/// text is not such a list.
pub fn parse_cpus(text: &str) -> Option<Vec<usize>> {
    let mut named = [false; 1024];
    for part in text.split(',').map(str::trim).filter(|_| !text.trim().is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) =
            (first.trim().parse::<usize>().ok()?, last.trim().parse::<usize>().ok()?);
        if first > last {
            return None;
        }
        named.get_mut(first..=last)?.fill(true);
    }
    Some(named.iter().enumerate().filter(|(_, named)| **named).map(|(cpu, _)| cpu).collect())
}

/// Reads digits with at most one of K, M, G, T, P, E, which stand for powers of 1,024.
fn parse_int(text: &str) -> Option<u64> {
    let text = text.trim();
    let shift = match text.chars().last()?.to_ascii_uppercase() {
        'K' => 10,
        'M' => 20,
        'G' => 30,
        'T' => 40,
        'P' => 50,
        'E' => 60,
        _ => 0,
    };
    let digits = if shift > 0 { &text[..text.len() - 1] } else { text };
    // As in mysqld, "-1" stands for the least value.
    if digits.len() > 1
        && digits.starts_with('-')
        && digits[1..].bytes().all(|b| b.is_ascii_digit())
    {
        return Some(0);
    }
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_suffixes() {
        assert_eq!(parse_int("64M"), Some(64 << 20));
        assert_eq!(parse_int(" 1g "), Some(1 << 30));
        assert_eq!(parse_int("2T"), Some(2 << 40));
        assert_eq!(parse_int("-5"), Some(0));
        for wrong in ["", "M", "1.5M", "x", "99999999999999999999", "16E", "1MM", "--1", "-"] {
            assert_eq!(parse_int(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn lists_of_cpus() {
        assert_eq!(parse_cpus("0-2, 5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(parse_cpus(" "), Some(vec![]));
        for wrong in ["a", "1-", "3-1", "1,,2", "-1", "0-1024"] {
            assert_eq!(parse_cpus(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn booleans() {
        assert_eq!(
            [parse_bool("on"), parse_bool("1"), parse_bool("OFF"), parse_bool("false")],
            [Some(true), Some(true), Some(false), Some(false)]
        );
        assert_eq!(parse_bool("2"), None);
    }
}
