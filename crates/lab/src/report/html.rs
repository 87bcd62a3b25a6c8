//! report.html: one file that needs nothing else.
use super::failures;
use super::plot;
use super::table::{Cell, Table, escape};
use super::tables;
use crate::results::{PLOTTED, Results, Section};

const STYLE: &str = include_str!("style.css");

fn definitions(list: &[(String, String)]) -> String {
    let items: String = list
        .iter()
        .map(|(what, is)| format!("<dt>{}</dt><dd>{}</dd>", escape(what), escape(is)))
        .collect();
    format!("<dl>{items}</dl>\n")
}

pub fn page(r: &Results) -> String {
    let mut body =
        format!("<h1>{}</h1>\n<pre class=command>{}</pre>\n", escape(&r.title), escape(&r.command));
    let failed = failures(r);
    if !r.finished || !r.notes.is_empty() || !failed.is_empty() {
        let unfinished = (!r.finished).then(|| {
            "<li><b>This run is not finished:</b> it is under way, or was stopped. What was \
                measured so far follows.</li>"
                .to_string()
        });
        let notes = r.notes.iter().chain(&failed).map(|n| format!("<li>{}</li>", escape(n)));
        body.push_str(&format!(
            "<ul class=notes>{}</ul>\n",
            unfinished.into_iter().chain(notes).collect::<String>()
        ));
    }
    for s in &r.sections {
        body.push_str(&section(r, s));
    }
    body.push_str("<h2>Machine, load, servers</h2>\n");
    body.push_str(&definitions(&[&r.machine[..], &r.load[..]].concat()));
    let row = |s: &crate::results::ServerInfo| {
        let cores = if s.cores.is_empty() { "all" } else { &s.cores };
        (
            s.name.clone(),
            vec![
                s.version.clone().into(),
                cores.to_string().into(),
                Cell::from(s.options.join(" ")),
            ],
        )
    };
    let servers = Table {
        title: "Servers and their options".into(),
        note: String::new(),
        head: ["server", "version", "cores", "options"].map(String::from).to_vec(),
        rows: r.servers.iter().map(row).collect(),
    };
    body.push_str(&servers.html().replacen("class=table", "class=\"table text\"", 1));
    format!(
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport \
            content=\"width=device-width\"><title>{}</title>\n<style>\n\
            {STYLE}</style></head>\n<body>\n{body}</body></html>\n",
        escape(&r.title)
    )
}

fn section(r: &Results, s: &Section) -> String {
    let plots: String = s
        .metrics()
        .iter()
        .filter(|m| PLOTTED.contains(&m.name))
        .map(|m| plot::figure(r, s, m))
        .collect();
    let (counters, others): (Vec<Table>, Vec<Table>) =
        tables::all(r, s).into_iter().partition(|t| t.title.starts_with("Counters"));
    let others: String = others.iter().map(Table::html).collect();
    let counters: String = counters.iter().map(Table::html).collect();
    format!(
        "<h2>{}</h2>\n<p>{}</p>\n{}<div class=plots>\n{plots}</div>\n<div \
            class=tables>\n{others}</div>\n{counters}",
        escape(&s.title),
        escape(&s.text),
        plot::legend(s)
    )
}
