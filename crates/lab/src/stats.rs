//! Medians and ranges of several turns, and ratios of values measured in turn.

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

/// The median and the range of several turns.
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

/// The ratio of two rows, from pairs measured beside each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The geometric mean of the pairs' ratios.
    pub mean: f64,
    /// The standard error of the mean. `None` for a single pair.
    pub error: Option<f64>,
}

impl Ratio {
    /// `None` without pairs, or if a pair has no finite positive ratio.
    pub fn of(pairs: &[f64]) -> Option<Ratio> {
        if pairs.is_empty() || !pairs.iter().all(|x| x.is_finite() && *x > 0.0) {
            return None;
        }
        let n = pairs.len() as f64;
        let mean = pairs.iter().map(|x| x.ln()).sum::<f64>() / n;
        let squares: f64 = pairs.iter().map(|x| (x.ln() - mean).powi(2)).sum();
        let error = (pairs.len() > 1).then(|| mean.exp() * (squares / (n - 1.0) / n).sqrt());
        Some(Ratio { mean: mean.exp(), error })
    }
    pub fn inverse(self) -> Ratio {
        Ratio { mean: 1.0 / self.mean, error: self.error.map(|e| e / self.mean.powi(2)) }
    }
    /// "0.97 ±0.02".
    pub fn text(&self) -> String {
        self.error.map_or_else(
            || number(self.mean, 2),
            |e| format!("{} ±{}", number(self.mean, 2), number(e, 2)),
        )
    }
}

/// Formats a number with a comma between thousands.
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
        assert_eq!(
            (median(&[]), median(&[3.0]), median(&[5.0, 1.0]), median(&[9.0, 1.0, 2.0])),
            (None, Some(3.0), Some(3.0), Some(2.0))
        );
        assert_eq!(
            Spread::of(&[12_345.4, 12_001.0, 12_700.0]).unwrap().text(0),
            "12,345 (12,001-12,700)"
        );
        assert_eq!(Spread::of(&[0.25]).unwrap().text(2), "0.25");
        assert!(Spread::of(&[]).is_none());
        assert_eq!(
            (Ratio::of(&[]), Ratio::of(&[1.0, 0.0]), Ratio::of(&[0.5]).unwrap().text()),
            (None, None, "0.50".into())
        );
        let ratio = Ratio::of(&[0.5, 2.0, 1.0]).unwrap();
        assert_eq!(
            (ratio.text(), ratio.inverse().text()),
            ("1.00 ±0.40".into(), "1.00 ±0.40".into())
        );
        assert_eq!(Ratio::of(&[0.49, 0.51]).unwrap().inverse().text(), "2.00 ±0.04");
        assert_eq!(
            (number(1_234_567.0, 0), number(999.5, 1), number(-1000.0, 0), number(0.0, 3)),
            ("1,234,567".into(), "999.5".into(), "-1,000".into(), "0.000".into())
        );
    }
}
