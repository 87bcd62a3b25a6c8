//! FIELDS and LINES: what separates fields and lines, and what quotes and escapes them.

/// The format of a text file. An empty string means that there is no such text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextFormat {
    pub fields_terminated: Box<[u8]>,
    pub enclosed: Option<u8>,
    /// OPTIONALLY: only strings are enclosed. It matters to a writer only.
    pub optionally: bool,
    pub escaped: Option<u8>,
    pub lines_starting: Box<[u8]>,
    pub lines_terminated: Box<[u8]>,
}

impl Default for TextFormat {
    fn default() -> TextFormat {
        TextFormat {
            fields_terminated: b"\t"[..].into(),
            enclosed: None,
            optionally: false,
            escaped: Some(b'\\'),
            lines_starting: b""[..].into(),
            lines_terminated: b"\n"[..].into(),
        }
    }
}

impl TextFormat {
    /// Whether fields have fixed widths, because nothing separates them.
    pub fn is_fixed(&self) -> bool {
        self.fields_terminated.is_empty() && self.enclosed.is_none()
    }
    /// The length of the longest text that separates fields or lines. To look for it may take so
    /// many steps for each byte of a file.
    pub fn longest_separator(&self) -> usize {
        let texts = [&self.fields_terminated, &self.lines_starting, &self.lines_terminated];
        texts.map(|text| text.len()).into_iter().max().unwrap_or(0)
    }
    /// Whether fields or lines are separated by bytes that are not ASCII. Such a byte may be a part
    /// of a character, which is not looked for.
    pub fn has_other_than_ascii(&self) -> bool {
        let texts = [&self.fields_terminated, &self.lines_starting, &self.lines_terminated];
        let bytes = [self.enclosed, self.escaped];
        !texts.iter().all(|text| text.is_ascii())
            || bytes.iter().flatten().any(|byte| !byte.is_ascii())
    }
}
