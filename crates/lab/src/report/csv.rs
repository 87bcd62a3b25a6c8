//! points.csv and counters.csv: a line per point, and a line per point and counter.
use crate::results::Results;

fn field(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_string()
    }
}

fn line(out: &mut String, fields: &[String]) {
    out.push_str(&fields.iter().map(|f| field(f)).collect::<Vec<_>>().join(","));
    out.push('\n');
}

/// Formats with three digits after the point, which is more than any of the values means.
fn real(x: f64) -> String {
    format!("{x:.3}")
}

pub fn points(r: &Results) -> String {
    let mut out = "section,script,row,column,connections,server,turn,per_s,queries_per_s,seconds,\
        p95_ms,server_us,client_us,flushes,written_kib,ignored_errors,error\n"
        .to_string();
    let script = |id: &str| {
        r.sections.iter().find(|s| s.id == id).map_or(String::new(), |s| s.script.clone())
    };
    for p in &r.points {
        let mut fields = vec![
            p.section.clone(),
            script(&p.section),
            p.row.clone(),
            p.column.clone(),
            p.connections.to_string(),
            p.server.clone(),
            (p.turn + 1).to_string(),
        ];
        match &p.figures {
            Some(f) => {
                let maybe = |x: Option<f64>| x.map_or(String::new(), real);
                fields.extend([
                    real(f.per_s),
                    real(f.queries_per_s),
                    maybe(f.seconds),
                    maybe(f.p95_ms),
                ]);
                fields.extend([f.server_us, f.client_us].map(real));
                fields.extend([f.flushes, f.written_kib].map(maybe));
                fields.push(f.ignored_errors.to_string());
            }
            None => fields.extend(std::iter::repeat_n(String::new(), 9)),
        }
        fields.push(p.error.clone());
        line(&mut out, &fields);
    }
    out
}

pub fn counters(r: &Results) -> String {
    let mut out = "section,row,column,turn,counter,before,after,difference\n".to_string();
    for p in &r.points {
        for c in p.figures.iter().flat_map(|f| &f.counters) {
            let place =
                [p.section.clone(), p.row.clone(), p.column.clone(), (p.turn + 1).to_string()];
            // A gauge has no difference.
            let difference = if c.grows { c.difference().to_string() } else { String::new() };
            line(
                &mut out,
                &[
                    &place[..],
                    &[c.name.clone(), c.before.to_string(), c.after.to_string(), difference],
                ]
                .concat(),
            );
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_as_many_fields_as_the_head() {
        let text = points(&super::super::tests::example());
        assert_eq!(
            text.lines().nth(1),
            Some(
                "modes,oltp_write_only,auto,1,1,redolith,1,1000.000,6000.000,,1.500,40.000,\
                 0.000,0.250,,0,"
            )
        );
        assert_eq!(
            text.lines().nth(1 + 8),
            Some(
                "modes,oltp_write_only,the baseline,128,128,baseline,1,,,,,,,,,,\"sysbench \
                    <ended>, \"\"badly\"\"\""
            )
        );
        assert!(
            counters(&super::super::tests::example())
                .contains("\nmodes,session,128,2,log_writes,10,9910,9900\n")
        );
        assert!(
            counters(&super::super::tests::example())
                .contains("\nmodes,session,128,2,log_flush_lsn_avg_rate,1,77,\n")
        );
    }
}
