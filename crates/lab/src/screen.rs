//! What the one at the terminal sees: a line per point, and on a terminal a last line that says
//! what goes on.
use std::io::{IsTerminal, Write, stdout};

#[derive(Default)]
pub struct Screen {
    /// Columns of the line that the next one overwrites.
    over: usize,
}

impl Screen {
    /// Until the next line, on a terminal only.
    pub fn now(&mut self, text: &str) {
        if stdout().is_terminal() {
            self.put(&format!("\r{text:width$}", width = self.over));
            self.over = text.chars().count();
        }
    }

    pub fn line(&mut self, text: &str) {
        let back = if self.over > 0 { "\r" } else { "" };
        self.put(&format!("{back}{text:width$}\n", width = self.over));
        self.over = 0;
    }

    /// A closed pipe does not end the run: the report is what counts.
    fn put(&self, text: &str) {
        let mut out = stdout();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}
