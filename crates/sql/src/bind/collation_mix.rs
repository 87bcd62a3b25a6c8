//! The collation in which several strings meet, and the errors of those that have none in common.
//!
//! Sources: MySQL manual, "Collation Coercibility in Expressions", "Character String Repertoire";
//! the order of the rules is that of `DTCollation::aggregate`.
use crate::error::{Result, SqlError};
use crate::plan::{Coercibility, ExprType, Kind};
use redolith_types::{Charset, Collation};

/// The operation of IN, which MySQL writes with spaces around it.
pub const IN: &str = " IN ";
pub const UNION: &str = "UNION";
/// The collations that the messages of errors 1267 and 1270 name; error 1271 names none.
const MOST_NAMED: usize = 3;

/// Operands that meet in an operation, for the error that they have no collation in common.
#[derive(Clone)]
pub struct Mix {
    named: Vec<(Collation, Coercibility)>,
    count: usize,
    operation: &'static str,
}

impl Mix {
    pub fn new<'t>(types: impl IntoIterator<Item = &'t ExprType>, operation: &'static str) -> Mix {
        let mut named = Vec::new();
        let mut count = 0;
        for ty in types {
            count += 1;
            if count <= MOST_NAMED {
                named.push(shown(ty));
            }
        }
        Mix { named, count, operation }
    }

    #[cold]
    pub fn error(&self) -> SqlError {
        let operation = match self.operation {
            same @ (IN | UNION) => same.to_string(),
            function => function.to_ascii_lowercase(),
        };
        let name = |n: usize| {
            let (collation, coercibility) = self.named[n];
            format!("({},{})", collation.name(), coercibility.name())
        };
        match self.count {
            2 => SqlError::illegal_mix_of_collations(name(0), name(1), operation),
            3 => SqlError::illegal_mix_of_three(name(0), name(1), name(2), operation),
            _ => SqlError::illegal_mix_of_many(operation),
        }
    }
}

/// The collation of an operand as messages show it.
fn shown(ty: &ExprType) -> (Collation, Coercibility) {
    match ty.kind {
        Kind::Null => (Collation::Binary, Coercibility::Ignorable),
        kind if kind.is_string() && ty.coercibility != Coercibility::Numeric => {
            (ty.collation, ty.coercibility)
        }
        _ => (Collation::Latin1SwedishCi, Coercibility::Numeric),
    }
}

/// The collation in which strings of these types are compared. Numbers do not count unless all
/// types are numbers.
pub fn collation_of(
    types: &[&ExprType],
    operation: &'static str,
) -> Result<(Collation, Coercibility)> {
    match result_collation(types, operation)? {
        (_, Coercibility::None) => Err(Mix::new(types.iter().copied(), operation).error()),
        common => Ok(common),
    }
}

/// The collation of a string that is made or chosen of strings of these types. If no collation is
/// the stronger one, it is the `_bin` collation of their character set with the coercibility NONE,
/// by which nothing can be compared. If all are numbers, it is that of the first.
pub fn result_collation(
    types: &[&ExprType],
    operation: &'static str,
) -> Result<(Collation, Coercibility)> {
    let mut result: Option<(Collation, Coercibility)> = None;
    let mut fails = false;
    for ty in types.iter().filter(|t| t.kind.is_string()) {
        let one = (ty.collation, ty.coercibility);
        result = Some(match result {
            None => one,
            Some(so_far) => stronger(so_far, one).unwrap_or_else(|| {
                fails = true;
                // Only an explicit collation that follows may still decide.
                (Collation::Binary, Coercibility::None)
            }),
        });
    }
    let decides = |(collation, coercibility): (Collation, Coercibility)| {
        coercibility == Coercibility::Explicit && collation.charset().is_utf8()
    };
    match result {
        Some(found) if fails && !decides(found) => {
            Err(Mix::new(types.iter().copied(), operation).error())
        }
        Some((collation, Coercibility::Numeric)) => Ok((collation, Coercibility::Literal)),
        Some(found) => Ok(found),
        None => Ok((Collation::Utf8mb4GeneralCi, Coercibility::Numeric)),
    }
}

/// The stronger of two collations; None if neither side can be converted to the other.
fn stronger(
    a: (Collation, Coercibility),
    b: (Collation, Coercibility),
) -> Option<(Collation, Coercibility)> {
    if a.0 == b.0 {
        return Some((a.0, a.1.min(b.1)));
    }
    if a.0.charset() == b.0.charset() {
        return same_charset(a, b);
    }
    // Bytes beside text of the same strength are compared as bytes.
    if a.0 == Collation::Binary {
        return Some(if a.1 <= b.1 { a } else { b });
    }
    if b.0 == Collation::Binary {
        return Some(if b.1 <= a.1 { b } else { a });
    }
    // A constant of the system, a literal or a number is converted if its value can be, which shows
    // when it is there.
    let converts =
        |strong: Coercibility, weak: Coercibility| strong < weak && weak >= Coercibility::System;
    if has_all_of(a, b) || converts(a.1, b.1) {
        Some(a)
    } else if has_all_of(b, a) || converts(b.1, a.1) {
        Some(b)
    } else {
        None
    }
}

fn same_charset(
    a: (Collation, Coercibility),
    b: (Collation, Coercibility),
) -> Option<(Collation, Coercibility)> {
    use std::cmp::Ordering::*;
    match a.1.cmp(&b.1) {
        Less => Some(a),
        Greater => Some(b),
        Equal if a.1 == Coercibility::Explicit => None,
        // A _bin collation of a character set wins over others of the same set.
        Equal if a.0.is_bin() => Some(a),
        Equal if b.0.is_bin() => Some(b),
        Equal => Some((a.0.bin(), Coercibility::None)),
    }
}

/// Whether text of `part` may be converted to the character set of `whole`: that set is Unicode, or
/// the text is ASCII.
fn has_all_of(whole: (Collation, Coercibility), part: (Collation, Coercibility)) -> bool {
    let (set, other) = (whole.0.charset(), part.0.charset());
    let is_wider = match set {
        Charset::Utf8mb4 => true,
        Charset::Utf8mb3 => other != Charset::Utf8mb4,
        _ => other == Charset::Ascii,
    };
    let is_superset = set.is_utf8() || other == Charset::Ascii;
    is_superset && (whole.1 < part.1 || whole.1 == part.1 && is_wider)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Coercibility::{Explicit, Implicit, Literal};
    use Collation::{AsciiBin, Latin1Bin, Latin1SwedishCi, Utf8mb3Bin, Utf8mb4Bin};
    use Collation::{Utf8mb4GeneralCi, Utf8mb4UnicodeCi};

    fn of(collation: Collation, coercibility: Coercibility) -> ExprType {
        ExprType { coercibility, ..ExprType::string(1, collation) }
    }

    #[test]
    fn the_stronger_side_must_hold_the_other() {
        for (a, b, wanted) in [
            ((Latin1Bin, Explicit), (Utf8mb4GeneralCi, Implicit), None),
            ((Latin1Bin, Explicit), (Utf8mb4GeneralCi, Literal), Some(Latin1Bin)),
            ((Latin1Bin, Explicit), (Utf8mb4Bin, Explicit), Some(Utf8mb4Bin)),
            ((Latin1SwedishCi, Implicit), (Utf8mb4GeneralCi, Implicit), Some(Utf8mb4GeneralCi)),
            ((AsciiBin, Explicit), (Latin1SwedishCi, Implicit), None),
            ((Latin1Bin, Explicit), (AsciiBin, Implicit), Some(Latin1Bin)),
            ((Utf8mb3Bin, Explicit), (Utf8mb4GeneralCi, Implicit), Some(Utf8mb3Bin)),
            ((Collation::Binary, Implicit), (Latin1Bin, Explicit), Some(Latin1Bin)),
            ((Utf8mb4GeneralCi, Implicit), (Utf8mb4UnicodeCi, Implicit), None),
        ] {
            let (a, b) = (of(a.0, a.1), of(b.0, b.1));
            for types in [[&a, &b], [&b, &a]] {
                let found = collation_of(&types, "=").map(|(collation, _)| collation);
                assert_eq!(found.as_ref().ok(), wanted.as_ref(), "{types:?}");
            }
        }
    }

    #[test]
    fn the_number_of_operands_decides_the_error() {
        let (a, b) = (of(Utf8mb4Bin, Explicit), of(Utf8mb4GeneralCi, Explicit));
        let number = ExprType::bigint(1);
        let codes = [
            collation_of(&[&a, &b], "="),
            result_collation(&[&a, &number, &b], "CONCAT"),
            result_collation(&[&a, &number, &b, &number], "CONCAT"),
        ]
        .map(|found| found.map_err(|e| (e.code, e.message.to_string())));
        assert_eq!(codes[0].as_ref().unwrap_err().0, 1267);
        assert_eq!(codes[2].as_ref().unwrap_err().0, 1271);
        let three = codes[1].as_ref().unwrap_err();
        assert_eq!(
            (three.0, &three.1[..]),
            (
                1270,
                "Illegal mix of collations (utf8mb4_bin,EXPLICIT), (latin1_swedish_ci,NUMERIC), \
                 (utf8mb4_general_ci,EXPLICIT) for operation 'concat'"
            )
        );
    }
}
