//! Periods: months as numbers YYYYMM or YYMM (PERIOD_ADD, PERIOD_DIFF).
use super::Eval;
use crate::error::{Result, SqlError};
use crate::plan::{Expr, Function};
use redolith_types::Value;

/// The month that a period is, counted from year 0. Years below 70 are of the 21st century, and
/// other years of two digits of the 20th.
fn months(period: i64) -> Option<i64> {
    let (year, month) = (period / 100, period % 100);
    let year = match year {
        0..70 => year + 2000,
        70..100 => year + 1900,
        _ => year,
    };
    let is_period = (1..=999_912).contains(&period) && (1..=12).contains(&month);
    is_period.then_some(year * 12 + month - 1)
}

impl<'v> Eval<'v, '_, '_> {
    pub(super) fn period_function(
        &mut self,
        function: Function,
        args: &'v [Expr],
    ) -> Result<Value<'v>> {
        let (Some(a), Some(b)) = (self.arg_int(&args[0])?, self.arg_int(&args[1])?) else {
            return Ok(Value::Null);
        };
        let wrong = || SqlError::wrong_arguments(function.name().to_ascii_lowercase());
        let from = months(a).ok_or_else(wrong)?;
        if function == Function::PeriodDiff {
            return Ok(Value::Int(from - months(b).ok_or_else(wrong)?));
        }
        let to =
            from.checked_add(b).filter(|to| (0..12 * 10_000).contains(to)).ok_or_else(wrong)?;
        Ok(Value::Int(to / 12 * 100 + to % 12 + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_of_two_digits_are_of_a_century() {
        assert_eq!(months(200_801), Some(2008 * 12));
        assert_eq!(
            (months(801), months(6912), months(7001)),
            (Some(2008 * 12), Some(2069 * 12 + 11), Some(1970 * 12))
        );
        for wrong in [0, -1, 200_800, 200_813, 1_000_001, i64::MIN, i64::MAX] {
            assert_eq!(months(wrong), None, "{wrong}");
        }
    }
}
