//! Medians and ranges of a few turns.

pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (n, mid) = (sorted.len(), sorted.len() / 2);
    match n {
        0 => None,
        _ if n % 2 == 1 => Some(sorted[mid]),
        _ => Some((sorted[mid - 1] + sorted[mid]) / 2.0),
    }
}

/// Of what several turns gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub low: f64,
    pub high: f64,
    pub turns: usize,
}

impl Spread {
    pub fn of(values: &[f64]) -> Option<Spread> {
        let low = values.iter().copied().reduce(f64::min)?;
        let high = values.iter().copied().reduce(f64::max)?;
        Some(Spread { median: median(values)?, low, high, turns: values.len() })
    }

    /// "12,345 (12,001-12,700)".
    pub fn text(&self, digits: usize) -> String {
        let middle = number(self.median, digits);
        match self.turns {
            1 => middle,
            _ => format!("{middle} ({}-{})", number(self.low, digits), number(self.high, digits)),
        }
    }
}

/// With a comma between thousands.
pub fn number(value: f64, digits: usize) -> String {
    let text = format!("{:.digits$}", value.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut grouped = String::new();
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(c);
    }
    format!("{}{grouped}{rest}", if value < 0.0 { "-" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_ranges() {
        assert_eq!((median(&[]), median(&[3.0]), median(&[5.0, 1.0]), median(&[9.0, 1.0, 2.0])), (None, Some(3.0), Some(3.0), Some(2.0)));
        assert_eq!(Spread::of(&[12_345.4, 12_001.0, 12_700.0]).unwrap().text(0), "12,345 (12,001-12,700)");
        assert_eq!(Spread::of(&[0.25]).unwrap().text(2), "0.25");
        assert!(Spread::of(&[]).is_none());
        assert_eq!(
            (number(1_234_567.0, 0), number(999.5, 1), number(-1000.0, 0), number(0.0, 3)),
            ("1,234,567".into(), "999.5".into(), "-1,000".into(), "0.000".into())
        );
    }
}
