//! Plots as inline SVG: lines over connections, or bars where the columns are no numbers. Colours
//! are the page's.
use super::table::escape;
use crate::results::{Metric, Results, Section};
use crate::stats::{Spread, number};

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 34.0;
const COLOURS: usize = 8;

pub fn legend(s: &Section) -> String {
    let names = if s.connections.is_empty() { &s.columns } else { &s.rows };
    let class = if s.connections.is_empty() { " class=box" } else { "" };
    let item = |(i, name): (usize, &String)| {
        format!("<span><i{class} style=\"background:{}\"></i>{}</span>", colour(i), escape(name))
    };
    format!("<div class=legend>{}</div>\n", names.iter().enumerate().map(item).collect::<String>())
}

fn colour(i: usize) -> String {
    format!("var(--s{})", i % COLOURS)
}

/// A caption and the plot; nothing if nothing was measured.
pub fn figure(r: &Results, s: &Section, m: &Metric) -> String {
    let cells: Vec<Vec<Option<Spread>>> = (0..s.rows.len())
        .map(|row| (0..s.columns.len()).map(|c| r.spread(s, row, c, m)).collect())
        .collect();
    let all: Vec<Spread> = cells.iter().flatten().flatten().copied().collect();
    if all.is_empty() {
        return String::new();
    }
    // A scale of powers has no zero.
    let wide = m.wide && !s.connections.is_empty() && all.iter().all(|x| x.low > 0.0);
    let drawn = if s.connections.is_empty() {
        bars(s, m, &cells, &all)
    } else {
        lines(s, &cells, &Scale::of(&all, wide))
    };
    let note = if wide { " <span class=note>(logarithmic)</span>" } else { "" };
    format!(
        "<figure><figcaption>{}, {}{note}</figcaption>\n{drawn}</figure>\n",
        escape(m.name),
        escape(m.unit)
    )
}

/// Values to heights.
struct Scale {
    low: f64,
    high: f64,
    wide: bool,
}

impl Scale {
    fn of(all: &[Spread], wide: bool) -> Scale {
        let high = all.iter().map(|x| x.high).fold(0.0, f64::max);
        if !wide {
            let step = step(high);
            return Scale { low: 0.0, high: ((high / step).ceil() * step).max(step), wide };
        }
        let low = all.iter().map(|x| x.low).fold(f64::INFINITY, f64::min);
        let (low, high) = (round(low, f64::floor), round(high, f64::ceil));
        Scale { low, high: if high > low { high } else { low * 10.0 }, wide }
    }

    fn share(&self, value: f64) -> f64 {
        if self.wide {
            (value / self.low).log10() / (self.high / self.low).log10()
        } else {
            value / self.high
        }
    }

    fn ticks(&self) -> Vec<f64> {
        if self.wide {
            let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
            let inside = |v: &f64| (self.low * 0.999..=self.high * 1.001).contains(v);
            let fine: Vec<f64> = (first..=last)
                .flat_map(|p| MANTISSAS.map(|m| m * 10f64.powi(p)))
                .filter(inside)
                .collect();
            // Too many for the height: powers of ten alone.
            return if fine.len() <= 8 {
                fine
            } else {
                (first..=last).map(|p| 10f64.powi(p)).filter(inside).collect()
            };
        }
        let step = step(self.high);
        (0..=(self.high / step).round() as u32).map(|i| f64::from(i) * step).collect()
    }
}

const MANTISSAS: [f64; 3] = [1.0, 2.0, 5.0];

/// To 1, 2 or 5 times a power of ten, up or down.
fn round(value: f64, way: fn(f64) -> f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let up = way(0.5) > 0.0;
    let fits = [1.0, 2.0, 5.0, 10.0]
        .map(|m| m * power)
        .into_iter()
        .filter(|v| if up { *v >= value * 0.999 } else { *v <= value * 1.001 });
    fits.reduce(if up { f64::min } else { f64::max }).unwrap_or(value)
}

/// 1, 2 or 5 times a power of ten, so that there are four to ten steps.
fn step(high: f64) -> f64 {
    let power = 10f64.powf((high.max(1e-9) / 4.0).log10().floor());
    let fits = [5.0, 2.0, 1.0].into_iter().find(|k| k * power <= high / 4.0);
    fits.unwrap_or(1.0) * power
}

fn tick_text(value: f64) -> String {
    match value {
        v if v >= 10_000.0 => format!("{}k", number(v / 1000.0, 0)),
        v if v >= 1.0 && v.fract() < 1e-9 => number(v, 0),
        0.0 => "0".into(),
        v => format!("{v:.4}").trim_end_matches('0').trim_end_matches('.').to_string(),
    }
}

fn open(height: f64) -> String {
    format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=img>\n")
}

fn lines(s: &Section, cells: &[Vec<Option<Spread>>], scale: &Scale) -> String {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    // Connections by powers of two: their distance is how often they double.
    let place = |n: u32| f64::from(n).log2();
    let (first, last) = (
        s.connections.first().map_or(0.0, |n| place(*n)),
        s.connections.last().map_or(0.0, |n| place(*n)),
    );
    let margin = 12.0;
    let x = |column: usize| match last - first {
        0.0 => (LEFT + right) / 2.0,
        width => {
            LEFT + margin
                + (place(s.connections[column]) - first) / width * (right - LEFT - 2.0 * margin)
        }
    };
    let y = |value: f64| bottom - scale.share(value) * (bottom - TOP);
    let mut out = open(HEIGHT);
    for tick in scale.ticks() {
        let at = y(tick);
        out.push_str(&format!(
            "<path class=grid d=\"M{LEFT} {at:.1}H{right}\"/><text x=\"{}\" y=\"{:.1}\" \
                text-anchor=end>{}</text>\n",
            LEFT - 7.0,
            at + 4.0,
            tick_text(tick)
        ));
    }
    for (column, name) in s.columns.iter().enumerate() {
        out.push_str(&format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=middle>{}</text>\n",
            x(column),
            bottom + 16.0,
            escape(name)
        ));
    }
    out.push_str(&format!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=middle>{}</text>\n",
        (LEFT + right) / 2.0,
        HEIGHT - 4.0,
        escape(&s.column_title)
    ));
    for (row, of_row) in cells.iter().enumerate() {
        let points: Vec<(f64, &Spread)> =
            of_row.iter().enumerate().filter_map(|(c, x_)| Some((x(c), x_.as_ref()?))).collect();
        if points.is_empty() {
            continue;
        }
        let ink = colour(row);
        let path: Vec<String> =
            points.iter().map(|(x, p)| format!("{x:.1} {:.1}", y(p.median))).collect();
        let dash = if s.baseline.contains(&row) { " stroke-dasharray=\"2 5\"" } else { "" };
        out.push_str(&format!(
            "<g style=\"stroke:{ink};fill:{ink}\"><path class=series style=\"fill:none\"{dash} \
                d=\"M{}\"/>\n",
            path.join("L")
        ));
        for (x, p) in points {
            let title = format!("{}: {}", s.rows[row], p.text(2));
            out.push_str(&format!(
                "<path class=whisker d=\"M{x:.1} {:.1}V{:.1}\"/>",
                y(p.low),
                y(p.high)
            ));
            out.push_str(&format!(
                "<circle cx=\"{x:.1}\" cy=\"{:.1}\" r=\"3.2\" \
                    stroke=none><title>{}</title></circle>\n",
                y(p.median),
                escape(&title)
            ));
        }
        out.push_str("</g>\n");
    }
    out + "</svg>\n"
}

/// One group of bars per row, lying, with the value behind each.
fn bars(s: &Section, m: &Metric, cells: &[Vec<Option<Spread>>], all: &[Spread]) -> String {
    const BAR: f64 = 13.0;
    const NAME: f64 = 16.0;
    const GAP: f64 = 8.0;
    let group = NAME + s.columns.len() as f64 * BAR + GAP;
    let right = WIDTH - 70.0;
    let high = all.iter().map(|x| x.high).fold(f64::MIN_POSITIVE, f64::max);
    let width = |value: f64| value / high * right;
    let mut out = open(group * s.rows.len() as f64);
    for (row, name) in s.rows.iter().enumerate() {
        let top = group * row as f64;
        out.push_str(&format!(
            "<text class=name x=\"0\" y=\"{:.1}\">{}</text>\n",
            top + 11.0,
            escape(name)
        ));
        for (column, spread) in cells[row].iter().enumerate() {
            let y = top + NAME + column as f64 * BAR;
            let Some(x) = spread else {
                out.push_str(&format!(
                    "<text x=\"0\" y=\"{:.1}\">not measured</text>\n",
                    y + BAR - 3.0
                ));
                continue;
            };
            let ink = colour(column);
            out.push_str(&format!(
                "<rect x=\"0\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{}\" rx=\"2\" \
                    style=\"fill:{ink}\"/>",
                width(x.median),
                BAR - 2.0
            ));
            if x.turns > 1 {
                out.push_str(&format!(
                    "<path class=grid style=\"stroke:var(--ink)\" d=\"M{:.1} {mid:.1}H{:.1}\"/>",
                    width(x.low),
                    width(x.high),
                    mid = y + BAR / 2.0 - 1.0
                ));
            }
            out.push_str(&format!(
                "<text class=name x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
                width(x.high) + 6.0,
                y + BAR - 3.0,
                number(x.median, m.digits)
            ));
        }
    }
    out + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_hold_their_values() {
        for high in [0.0003, 0.9, 1.0, 7.0, 12_345.0, 99_999.0] {
            let s = Scale::of(&[Spread { median: high, low: high, high, turns: 1 }], false);
            let ticks = s.ticks();
            assert!((3..=11).contains(&ticks.len()), "{high}: {ticks:?}");
            assert!(s.share(high) <= 1.0 + 1e-9 && s.share(high) > 0.6, "{high}: {}", s.high);
        }
        let wide = Scale::of(&[Spread { median: 3.0, low: 0.02, high: 150.0, turns: 3 }], true);
        assert_eq!((wide.low, wide.high, wide.ticks().len()), (0.02, 200.0, 4));
        assert!((wide.share(0.02), wide.share(200.0)) == (0.0, 1.0));
        let narrow = Scale::of(&[Spread { median: 7.0, low: 4.0, high: 50.0, turns: 3 }], true);
        assert_eq!(narrow.ticks(), [2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(
            [tick_text(0.0), tick_text(0.25), tick_text(1500.0), tick_text(20_000.0)],
            ["0", "0.25", "1,500", "20k"]
        );
    }
}
