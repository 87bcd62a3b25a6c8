//! The output to the terminal: a line per point, and a last line with the present activity if the
//! output is a terminal.
use std::io::{IsTerminal, Write, stdout};

#[derive(Default)]
pub struct Screen {
    /// The width of the line that the next line overwrites.
    over: usize,
}

impl Screen {
    /// Shows a text until the next line is printed. Only on a terminal.
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

    /// Writes a text. A closed pipe does not end the run, because the report is still written.
    fn put(&self, text: &str) {
        let mut out = stdout();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}
