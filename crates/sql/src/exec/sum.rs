//! The sums that SUM and AVG keep.
use super::env::Env;
use super::eval::short_decimal::Short;
use crate::error::{Result, SqlError};
use redolith_types::convert::{to_decimal, to_f64, to_integer};
use redolith_types::{Decimal, Value};

/// A sum of numbers of one kind.
pub enum Sum {
    Int(i128),
    /// Of DECIMALs, as long as the sum and each of them is short.
    Short(Short),
    Decimal(Decimal),
    Double(f64),
}

impl Sum {
    pub fn add(&mut self, value: &Value<'_>, env: &mut Env<'_>) -> Result<()> {
        match (&mut *self, value) {
            (Sum::Int(sum), Value::Int(n)) => *sum += *n as i128,
            (Sum::Int(sum), Value::UInt(n)) => *sum += *n as i128,
            (Sum::Int(sum), value) => *sum += to_integer(value).value,
            (Sum::Double(sum), value) => {
                let x = to_f64(value);
                if x.truncated {
                    env.warn(SqlError::truncated_wrong_value("DOUBLE", value))?;
                }
                *sum += x.value;
            }
            (Sum::Short(_) | Sum::Decimal(_), value) => match Short::of(value) {
                Some(n) => self.add_short(n)?,
                None => self.add_decimal(to_decimal(value).value)?,
            },
        }
        Ok(())
    }
    /// Takes back what [`Sum::add`] has added, where that is exact.
    pub fn subtract(&mut self, value: &Value<'_>) -> Result<()> {
        match (&mut *self, value) {
            (Sum::Int(sum), Value::Int(n)) => *sum -= *n as i128,
            (Sum::Int(sum), Value::UInt(n)) => *sum -= *n as i128,
            (Sum::Int(sum), value) => *sum -= to_integer(value).value,
            (Sum::Short(_) | Sum::Decimal(_), value) => match Short::of(value) {
                Some(n) => self.add_short(n.negated())?,
                None => self.add_decimal(-to_decimal(value).value)?,
            },
            (Sum::Double(_), _) => {
                return Err(SqlError::internal("a sum of doubles takes nothing back"));
            }
        }
        Ok(())
    }
    /// Adds to a sum of DECIMALs.
    #[inline]
    pub fn add_short(&mut self, n: Short) -> Result<()> {
        if let Sum::Short(sum) = self
            && let Some(more) = sum.plus(n)
        {
            *sum = more;
            return Ok(());
        }
        self.add_decimal(n.into())
    }
    /// Adds to a sum of DECIMALs, which is a long one afterwards.
    fn add_decimal(&mut self, n: Decimal) -> Result<()> {
        let sum = match self {
            Sum::Short(sum) => (*sum).into(),
            Sum::Decimal(sum) => *sum,
            Sum::Int(_) | Sum::Double(_) => {
                return Err(SqlError::internal("a DECIMAL is added to a sum of another kind"));
            }
        };
        let sum = sum.add(&n).map_err(|_| SqlError::value_out_of_range("DECIMAL", "sum"))?;
        *self = Sum::Decimal(sum);
        Ok(())
    }
    /// The sum of exact numbers; None for doubles.
    pub fn exact(&self) -> Option<Decimal> {
        match self {
            Sum::Int(n) => Some(Decimal::from_parts(*n, 0)),
            Sum::Short(n) => Some((*n).into()),
            Sum::Decimal(n) => Some(*n),
            Sum::Double(_) => None,
        }
    }
}
