use super::*;

type Row = Vec<Option<Vec<u8>>>;

fn format(fields: &str, enclosed: &str, escaped: &str, lines: &str, starting: &str) -> TextFormat {
    TextFormat {
        fields_terminated: fields.as_bytes().into(),
        enclosed: enclosed.bytes().next(),
        optionally: false,
        escaped: escaped.bytes().next(),
        lines_starting: starting.as_bytes().into(),
        lines_terminated: lines.as_bytes().into(),
    }
}

/// The rows of a text that comes in pieces which end at `cuts`. A row that is cut short has `!`
/// behind it.
fn split(splitter: &mut Splitter, text: &[u8], cuts: &[usize]) -> Vec<Row> {
    let (mut rows, mut fields, mut held) = (Vec::<Row>::new(), Fields::default(), Vec::new());
    let mut ends = cuts.iter().copied().chain([text.len()]);
    let (mut taken, mut whole) = (0, text.is_empty());
    loop {
        match splitter.next(&held, whole, &mut fields) {
            Step::Row => {
                rows.push(
                    fields.list.iter().map(|f| fields.get(*f, &held).map(<[u8]>::to_vec)).collect(),
                );
                fields.clear();
            }
            Step::Cut => rows.last_mut().unwrap().push(Some(b"!".to_vec())),
            Step::More => {
                assert!(!whole && fields.list.is_empty(), "SPLIT-1");
                held.drain(..splitter.at());
                splitter.dropped();
                let end = ends.next().unwrap();
                held.extend_from_slice(&text[taken..end]);
                (taken, whole) = (end, end == text.len());
            }
            Step::End => return rows,
        }
    }
}
fn rows(format: &TextFormat, fields: usize, skip: u64, text: &str) -> Vec<String> {
    let mut splitter = Splitter::new(format.clone(), Layout::Fields(fields), skip);
    shown(split(&mut splitter, text.as_bytes(), &[]))
}
fn shown(rows: Vec<Row>) -> Vec<String> {
    let field = |field: Option<Vec<u8>>| match field {
        Some(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        None => "<NULL>".into(),
    };
    rows.into_iter().map(|row| row.into_iter().map(field).collect::<Vec<_>>().join("|")).collect()
}

/// Where nothing tells the end of a line from that of a field, rows are skipped, and the text ends.
#[test]
fn lines_that_end_as_fields_do_are_skipped_as_rows() {
    let same = format(",", "", "\\", ",", "");
    assert_eq!(rows(&same, 2, 0, "1,2,3,4,5,6"), ["1|2", "3|4", "5|6"]);
    assert_eq!(rows(&same, 2, 1, "1,2,3,4,5,6"), ["3|4", "5|6"]);
    assert_eq!(rows(&same, 2, u64::MAX, "1,2,3,4,5,6"), [""; 0]);
    assert_eq!(rows(&same, 2, u64::MAX, ""), [""; 0]);
}

/// Tests SPLIT-2.
#[test]
fn plain_fields_are_not_copied() {
    let text = b"one,\"two\",3\n";
    let mut splitter = Splitter::new(format(",", "\"", "\\", "\n", ""), Layout::Fields(3), 0);
    let mut fields = Fields::default();
    assert_eq!(splitter.next(text, true, &mut fields), Step::Row);
    for (field, at) in fields.list.iter().zip([0, 5, 10]) {
        assert_eq!(fields.get(*field, text).unwrap().as_ptr(), text[at..].as_ptr());
    }
}

#[test]
fn tabs_and_lines_are_the_default() {
    let of = |text| rows(&TextFormat::default(), 2, 0, text);
    assert_eq!(of("1\ta\n2\tb\n"), ["1|a", "2|b"]);
    assert_eq!(of("1\ta\n2\tb"), ["1|a", "2|b"]);
    assert_eq!(of(""), [""; 0]);
    assert_eq!(of("\n"), [""]);
    assert_eq!(of("1\n2\t\n\t"), ["1", "2|", ""]);
    assert_eq!(of("1\ta\tb\n2\tc\r\n"), ["1|a|!", "2|c\r"]);
    assert_eq!(of("1\ta\tb"), ["1|a"], "nobody is told of the rest of a line without an end");
    assert_eq!(
        of("\\N\tN\n\\0\\b\\n\\r\\t\\Z\\\\\\x\t\\\n\n"),
        ["<NULL>|N", "\0\x08\n\r\t\x1a\\x|\n"]
    );
    assert_eq!(of("NULL\tx\\N\n"), ["NULL|xN"]);
    assert_eq!(of("a\tb\\"), ["a|b\\"]);
    assert_eq!(of("\u{feff}1\t2\n"), ["\u{feff}1|2"]);
}

#[test]
fn quotes_enclose_fields() {
    let of = |text| rows(&format(",", "\"", "\\", "\n", ""), 2, 0, text);
    assert_eq!(of("\"a,b\",\"c\nd\"\n1,2\n"), ["a,b|c\nd", "1|2"]);
    assert_eq!(of("\"a\"\"b\",\"\"\n\"\"\"\",x\n"), ["a\"b|", "\"|x"]);
    assert_eq!(of("\"a\"b\",c\"d\"\n"), ["a\"b|c\"d\""]);
    assert_eq!(of("\"a\\\"b\",\"\\N\"\n"), ["a\"b|<NULL>"]);
    assert_eq!(of("NULL,\"NULL\"\n"), ["<NULL>|NULL"]);
    assert_eq!(of("NUL\\L,x\n"), ["<NULL>|x"]);
    assert_eq!(of("\"a,b\n"), ["\"a,b\n"], "a quote that is not closed");
    assert_eq!(of("x,\"a\""), ["x|a"]);
    assert_eq!(of("x,y,\"a\nb\"\n"), ["x|y|!", "b\""], "quotes mean nothing in the rest of a line");
    let quoted = |text| rows(&format(",", "\"", "\"", "\n", ""), 2, 0, text);
    assert_eq!(quoted("\"a\"\"b\\n\",\"c\"\n\"\"\"N\",d\"\"e\n"), ["a\"b\\n|c", "\"N|d\"e"]);
    let bare = |text| rows(&format(",", "\"", "", "\n", ""), 2, 0, text);
    assert_eq!(bare("\\N,\"a\\\"\n"), ["\\N|a\\"]);
}

#[test]
fn terminators_may_be_long() {
    let of = |text| rows(&format("||", "", "\\", "ab\r\n", ""), 2, 0, text);
    assert_eq!(of("1|2||3ab\r\n|||ab\r\nab"), ["1|2|3", "||", "ab"]);
    let same = |text| rows(&format(",", "", "\\", ",", ""), 2, 0, text);
    assert_eq!(same("1,2,3,4\n,5"), ["1|2", "3|4\n", "5"], "rows are counted by their fields");
    let lines_only = |text| rows(&format("", "\"", "\\", "\n", ""), 2, 0, text);
    assert_eq!(lines_only("ab\tc\n\"x\"y\"\n"), ["ab\tc", "x\"y"]);
}

#[test]
fn lines_may_be_skipped_and_have_a_beginning() {
    let tabs = TextFormat::default();
    assert_eq!(rows(&tabs, 1, 2, "a\nb\\\nc\nd\n"), ["d"]);
    assert_eq!(rows(&tabs, 1, 9, "a\nb\n"), [""; 0]);
    let starting = format(",", "", "\\", "\n", "xx");
    assert_eq!(rows(&starting, 2, 0, "1,2\nxxx3,4\n5xx6\n7\nxx8,9,xx0\nx"), ["x3|4", "6", "8|9|!"]);
    let no_lines = format(",", "", "\\", "", "");
    assert_eq!(rows(&no_lines, 2, 1, "a,b,c,d,e\n"), ["c|d", "e\n"]);
    assert_eq!(rows(&no_lines, 2, u64::MAX, "a,b,c"), [""; 0]);
}

#[test]
fn fields_may_have_fixed_widths() {
    let of = |lines, text: &str| {
        let layout = Layout::Widths([3, 2].into());
        let mut splitter = Splitter::new(format("", "", "\\", lines, ""), layout, 0);
        shown(split(&mut splitter, text.as_bytes(), &[]))
    };
    assert_eq!(
        of("\n", "abcde\n12\n\n1234\\\n\nabcdefg\nx"),
        ["abc|de", "12", "", "123|4\n", "abc|de|!", "x"]
    );
    assert_eq!(of("", "abcdefghij1"), ["abc|de", "fgh|ij", "1"]);
    let no_width = |lines, text: &str| {
        let layout = Layout::Widths([0, 0].into());
        let mut splitter = Splitter::new(format("", "", "\\", lines, ""), layout, 0);
        shown(split(&mut splitter, text.as_bytes(), &[1, 3]))
    };
    assert_eq!(no_width("\n", "ab\n\n\\\nc"), ["!", "", ""]);
    assert_eq!(no_width("\n", "\n"), ["", ""], "a row begins before the end is seen, as in MySQL");
    assert_eq!(no_width("", "abc"), [""; 0]);
}

struct Random(u64);
impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }
    fn one<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.below(of.len())]
    }
}

/// Tests SPLIT-1.
#[test]
fn pieces_give_the_same_rows_as_the_whole() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for round in 0..4000 {
        let format = format(
            random.one(&["\t", ",", "||", "ab", "", "aab"]),
            random.one(&["", "", "\"", "|", "a"]),
            random.one(&["\\", "", "\"", "b"]),
            random.one(&["\n", "\r\n", "", "aab", "|", ","]),
            random.one(&["", "", "", ">", "aa", "ab|"]),
        );
        let layout = match (format.is_fixed(), random.below(4)) {
            (true, n) => Layout::Widths([[3, 1], [2, 0], [0, 4], [0, 0]][n].into()),
            (false, n) => Layout::Fields(n % 3 + 1),
        };
        let text: String = (0..random.below(40))
            .map(|_| {
                random.one(&[
                    "a", "b", "aab", "|", "||", "\\", "\"", "\n", "\r", ",", "\t", ">", "N", "x",
                ])
            })
            .collect();
        let text = text.as_bytes();
        let skip = [0, 0, 0, 1, 2][random.below(5)];
        let splitter = || Splitter::new(format.clone(), layout.clone(), skip);
        let whole = split(&mut splitter(), text, &[]);
        let why = || format!("{round}: {format:?} {layout:?} {:?}", String::from_utf8_lossy(text));
        let bytes: Vec<usize> = (1..text.len()).collect();
        assert_eq!(split(&mut splitter(), text, &bytes), whole, "{}", why());
        for cut in bytes {
            assert_eq!(split(&mut splitter(), text, &[cut]), whole, "at {cut} {}", why());
        }
    }
}

#[test]
fn a_row_takes_no_more_than_is_expected() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..2000 {
        let format = format(
            random.one(&["\t", "||", "", "a long separator"]),
            random.one(&["", "", "\"", "a"]),
            random.one(&["\\", "", "b"]),
            random.one(&["\n", "", "|"]),
            random.one(&["", ">", "aa"]),
        );
        let columns: Vec<Column> = (0..1 + random.below(4))
            .map(|_| Column { is_text: random.below(2) == 0, width: random.below(9) })
            .collect();
        let values: Vec<Option<String>> = columns
            .iter()
            .map(|_| {
                (random.below(5) > 0).then(|| random.one(&["a", "\\", "x"]).repeat(random.below(9)))
            })
            .collect();
        let has_long = random.below(2) == 0;
        let mut writer = Writer::new(format.clone(), columns.clone().into(), has_long);
        let lengths = values.iter().map(|value| value.as_ref().map_or(0, String::len));
        let (most, mut out) = (writer.most_bytes(lengths), Vec::new());
        values.iter().for_each(|v| writer.field(v.as_deref().map(str::as_bytes), &mut out));
        writer.end(&mut out);
        assert!(out.len() <= most, "{format:?} {columns:?} {values:?}: {} {most}", out.len());
    }
}

/// Tests SPLIT-3.
#[test]
fn what_belongs_to_no_row_is_not_held() {
    let bytes = vec![b'x'; 1000];
    let mut fields = Fields::default();
    let mut skipping = Splitter::new(TextFormat::default(), Layout::Fields(1), 1);
    assert_eq!(skipping.next(&bytes, false, &mut fields), Step::More);
    assert_eq!(skipping.at(), 1000);
    let mut searching = Splitter::new(format(",", "", "", "\n", "yy"), Layout::Fields(1), 0);
    assert_eq!(searching.next(&bytes, false, &mut fields), Step::More);
    assert_eq!(searching.at(), 1000);
    let mut behind = Splitter::new(TextFormat::default(), Layout::Fields(1), 0);
    let line = [b"1\t", &bytes[..]].concat();
    assert_eq!(behind.next(&line, false, &mut fields), Step::Row);
    assert_eq!(behind.next(&line, false, &mut fields), Step::More);
    assert_eq!((behind.at(), fields.list.len()), (1002, 1));
}
