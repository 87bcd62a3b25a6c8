//! A table, as HTML and as Markdown.

#[derive(Default, Clone)]
pub struct Cell {
    pub text: String,
    /// The best of its column.
    pub best: bool,
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell { text, best: false }
    }
}

pub struct Table {
    pub title: String,
    pub note: String,
    /// The first cell stands over the rows' names.
    pub head: Vec<String>,
    pub rows: Vec<(String, Vec<Cell>)>,
}

pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl Table {
    pub fn markdown(&self) -> String {
        let bar = |text: &str| text.replace('|', "\\|");
        let head: Vec<String> = self.head.iter().map(|h| bar(h)).collect();
        let mut out = format!(
            "**{}**{}\n\n| {} |\n|---|{}\n",
            self.title,
            if self.note.is_empty() { String::new() } else { format!(" {}", self.note) },
            head.join(" | "),
            "---:|".repeat(self.head.len() - 1)
        );
        for (name, cells) in &self.rows {
            let cells: Vec<String> = cells
                .iter()
                .map(|c| if c.best { format!("**{}**", c.text) } else { bar(&c.text) })
                .collect();
            out.push_str(&format!("| {} | {} |\n", bar(name), cells.join(" | ")));
        }
        out
    }

    pub fn html(&self) -> String {
        let head: String = self.head.iter().map(|h| format!("<th>{}</th>", escape(h))).collect();
        let row = |(name, cells): &(String, Vec<Cell>)| {
            let cells: String = cells
                .iter()
                .map(|c| {
                    format!(
                        "<td{}>{}</td>",
                        if c.best { " class=best" } else { "" },
                        range(&c.text)
                    )
                })
                .collect();
            format!("<tr><th>{}</th>{cells}</tr>\n", escape(name))
        };
        let rows: String = self.rows.iter().map(row).collect();
        let note = if self.note.is_empty() {
            String::new()
        } else {
            format!(" <span class=note>{}</span>", escape(&self.note))
        };
        format!(
            "<figure class=table><figcaption>{}{note}</figcaption>\
                <table><thead><tr>{head}</tr></thead>\
                <tbody>\n{rows}</tbody></table></figure>\n",
            escape(&self.title)
        )
    }
}

/// "12 (11-13)": the range is smaller.
fn range(text: &str) -> String {
    match text.split_once(" (") {
        Some((value, rest)) => format!("{} <small>({}</small>", escape(value), escape(rest)),
        None => escape(text),
    }
}
