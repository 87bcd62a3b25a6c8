//! The files of LOAD DATA: splitting them in pieces, and reading back what INTO OUTFILE writes.
use crate::take;
use redolith_sql::text_file::{Column, Fields, Layout, Splitter, Step, TextFormat, Writer};

const TEXTS: [&[u8]; 8] = [b"\t", b",", b"||", b"ab", b"", b"\r\n", b"\n", b"aab"];
const BYTES: [Option<u8>; 6] = [None, Some(b'"'), Some(b'\\'), Some(b'|'), Some(b'a'), Some(b'b')];

pub fn seeds() -> Vec<Vec<u8>> {
    let texts: [&[u8]; 3] = [
        b"1\ta\n2\t\\N\n3\tb\tmore\n",
        b"\"a,b\",\"say \"\"x\"\"\"\nNULL,\"x\ny\"\n",
        b"1||2ab3||\\ab",
    ];
    let heads = [[0, 6, 4, 0, 2, 2, 0, 3], [1, 6, 4, 1, 2, 2, 0, 5], [2, 3, 4, 0, 2, 2, 0, 1]];
    heads.iter().zip(texts).map(|(head, text)| [&head[..], text].concat()).collect()
}

fn format(head: [u8; 5]) -> TextFormat {
    let text = |n: u8| TEXTS[usize::from(n) % TEXTS.len()].into();
    let byte = |n: u8| BYTES[usize::from(n) % BYTES.len()];
    TextFormat {
        fields_terminated: text(head[0]),
        lines_terminated: text(head[1]),
        lines_starting: text(head[2]),
        enclosed: byte(head[3]),
        escaped: byte(head[4]),
        optionally: false,
    }
}

/// What a splitter finds: the fields of rows, and lines that go on behind the last field.
#[derive(PartialEq, Debug)]
enum Found {
    Row(Vec<Option<Vec<u8>>>),
    Cut,
}

fn split(mut splitter: Splitter, text: &[u8], piece: usize) -> Vec<Found> {
    let (mut found, mut fields, mut held) = (Vec::new(), Fields::default(), Vec::new());
    let mut rest = text;
    loop {
        match splitter.next(&held, rest.is_empty(), &mut fields) {
            Step::Row => {
                let row = fields.list.iter().map(|f| fields.get(*f, &held).map(<[u8]>::to_vec));
                found.push(Found::Row(row.collect()));
                fields.clear();
                assert!(found.len() <= 2 * text.len(), "every row takes a byte");
            }
            Step::Cut => found.push(Found::Cut),
            Step::More => {
                assert!(!rest.is_empty() && fields.list.is_empty());
                held.drain(..splitter.at());
                splitter.dropped();
                let (here, further) = rest.split_at(piece.min(rest.len()));
                held.extend_from_slice(here);
                rest = further;
            }
            Step::End => return found,
        }
    }
}

/// `[how the file is read; 8]`, then the file. Pieces of any length give the same rows.
pub fn pieces(data: &[u8]) {
    let ([a, b, c, d, e, fields, skip, piece], text) = take::<8>(data);
    let format = format([a, b, c, d, e]);
    let count = usize::from(fields % 4) + 1;
    let layout = match format.is_fixed() {
        true => Layout::Widths((1..=count).collect()),
        false => Layout::Fields(count),
    };
    let splitter = || Splitter::new(format.clone(), layout.clone(), u64::from(skip % 3));
    let whole = split(splitter(), text, text.len().max(1));
    assert_eq!(split(splitter(), text, usize::from(piece) + 1), whole);
    written(&whole, text);
}

/// Fields that are written with the default clauses read back as they were.
fn written(found: &[Found], text: &[u8]) {
    let most = found.iter().map(|f| if let Found::Row(row) = f { row.len() } else { 0 }).max();
    let most = most.unwrap_or(0).max(1);
    let column = Column { is_text: true, width: 0 };
    let format = TextFormat { enclosed: Some(b'"'), ..TextFormat::default() };
    let mut writer = Writer::new(format.clone(), vec![column; most].into(), false);
    let (mut rows, mut out) = (Vec::new(), Vec::new());
    for row in found {
        let Found::Row(row) = row else { continue };
        let mut row = row.clone();
        row.resize(most, None);
        row.iter().for_each(|field| writer.field(field.as_deref(), &mut out));
        writer.end(&mut out);
        rows.push(Found::Row(row));
    }
    let splitter = Splitter::new(format, Layout::Fields(most), 0);
    assert_eq!(split(splitter, &out, text.len() + 1), rows);
}
