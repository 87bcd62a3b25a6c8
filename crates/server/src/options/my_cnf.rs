//! Reads the format of my.cnf: groups in brackets, `name`, `name = value`, comments, `!include
//! file`, `!includedir folder`.
use redolith_disk::{Create, Disk, OpenHow};
use std::path::{Path, PathBuf};

/// The limit of nested includes, which ends a cycle.
const MAX_DEPTH: usize = 10;
/// The limit of files that are read in all. Without it, files that each include the next one
/// several times would be read for a very long time.
const MAX_FILES: usize = 1000;
/// The largest file read.
const MAX_BYTES: u64 = 1 << 20;
/// The groups whose options the server reads.
const GROUPS: [&str; 2] = ["redolith", "mysqld"];

/// An option with the place it comes from, for messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub place: String,
    pub name: String,
    pub value: Option<String>,
}

/// Reads the server's options from a file and from the files that it includes, in order.
pub fn read(disk: &dyn Disk, path: &Path) -> Result<Vec<Entry>, String> {
    let mut entries = Vec::new();
    read_into(disk, path, 0, &mut { MAX_FILES }, &mut entries)?;
    Ok(entries)
}

fn read_into(
    disk: &dyn Disk,
    path: &Path,
    depth: usize,
    files_left: &mut usize,
    entries: &mut Vec<Entry>,
) -> Result<(), String> {
    if depth > MAX_DEPTH || *files_left == 0 {
        return Err(format!("{}: too many files include each other", path.display()));
    }
    *files_left -= 1;
    let text = load(disk, path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    let text = String::from_utf8(text).map_err(|_| format!("{}: not UTF-8", path.display()))?;
    for line in parse(&text) {
        let line = line.map_err(|(n, why)| format!("{}, line {n}: {why}", path.display()))?;
        match line {
            Line::Option { number, name, value } => {
                entries.push(Entry {
                    place: format!("{}, line {number}", path.display()),
                    name,
                    value,
                });
            }
            Line::Include(file) => {
                read_into(disk, &beside(path, &file), depth + 1, files_left, entries)?
            }
            Line::IncludeDir(dir) => {
                let dir = beside(path, &dir);
                let names =
                    disk.list(&dir).map_err(|e| format!("cannot read {}: {e}", dir.display()))?;
                for name in names.iter().filter(|n| n.ends_with(".cnf")) {
                    read_into(disk, &dir.join(name), depth + 1, files_left, entries)?;
                }
            }
        }
    }
    Ok(())
}

/// A relative path is relative to the file that names it.
fn beside(file: &Path, named: &str) -> PathBuf {
    file.parent().unwrap_or(Path::new(".")).join(named)
}

fn load(disk: &dyn Disk, path: &Path) -> std::io::Result<Vec<u8>> {
    let file = disk.open(path, OpenHow { create: Create::Existing, direct: false })?;
    let len = file.len()?;
    if len > MAX_BYTES {
        return Err(std::io::Error::other("it is larger than 1 MiB"));
    }
    let mut bytes = vec![0; len as usize];
    file.read_at(&mut bytes, 0)?;
    Ok(bytes)
}

#[derive(PartialEq, Eq, Debug)]
enum Line {
    Option { number: usize, name: String, value: Option<String> },
    Include(String),
    IncludeDir(String),
}

/// Parses the lines of the server's groups. An error has the line's number and a message.
fn parse(text: &str) -> Vec<Result<Line, (usize, String)>> {
    let mut lines = Vec::new();
    let mut group: Option<bool> = None;
    for (i, line) in text.lines().enumerate() {
        let (number, line) = (i + 1, line.trim());
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = line.strip_prefix('!') {
            let (word, path) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            lines.push(match (word, path.trim()) {
                (_, "") => Err((number, format!("'!{word}' without a path"))),
                ("include", path) => Ok(Line::Include(path.into())),
                ("includedir", path) => Ok(Line::IncludeDir(path.into())),
                _ => Err((
                    number,
                    format!("'!{word}' is not known; there are !include and !includedir"),
                )),
            });
        } else if let Some(rest) = line.strip_prefix('[') {
            match rest.find(']') {
                Some(end) => group = Some(GROUPS.contains(&rest[..end].trim())),
                None => lines.push(Err((number, "a group without ']'".into()))),
            }
        } else {
            match group {
                None => lines.push(Err((number, "an option before the first [group]".into()))),
                Some(false) => {}
                Some(true) => lines.push(option(number, line)),
            }
        }
    }
    lines
}

fn option(number: usize, line: &str) -> Result<Line, (usize, String)> {
    let (name, value) = match line.split_once('=') {
        Some((name, value)) => (name.trim(), Some(unquote(value.trim()))),
        None => (line.split('#').next().unwrap_or("").trim(), None),
    };
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err((number, format!("'{line}' is no option")));
    }
    Ok(Line::Option { number, name: name.trim_start_matches("--").into(), value })
}

/// Removes quotes and a comment after the value, and resolves the escapes of my.cnf.
fn unquote(value: &str) -> String {
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
    let inner = match quote.and_then(|q| value[1..].rfind(q).map(|end| &value[1..1 + end])) {
        Some(inner) => inner,
        None => value.split(" #").next().unwrap_or("").trim_end(),
    };
    let mut out = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, false) => out.push(c),
            _ => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some('b') => out.push('\x08'),
                Some('s') => out.push(' '),
                Some('\\') => out.push('\\'),
                Some(other) => out.extend(['\\', other]),
                None => out.push('\\'),
            },
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use redolith_disk::RealDisk;

    fn named(name: &str, value: Option<&str>) -> (String, Option<String>) {
        (name.into(), value.map(Into::into))
    }
    fn options(text: &str) -> Vec<(String, Option<String>)> {
        let option = |l: Result<Line, _>| match l.unwrap() {
            Line::Option { name, value, .. } => (name, value),
            other => panic!("{other:?}"),
        };
        parse(text).into_iter().map(option).collect()
    }

    #[test]
    fn only_our_groups_count() {
        let text = "# comment\n[client]\nport=1\n[mysqld]\nport = 2\nskip-networking\n; \
            comment\n[mysqld_safe]\nnice=3\n[ redolith ]\nsocket=/s # why\n";
        assert_eq!(
            options(text),
            [named("port", Some("2")), named("skip-networking", None), named("socket", Some("/s"))]
        );
    }

    #[test]
    fn values_are_unquoted() {
        let text = "[mysqld]\na=\"x # y\" # z\nb='it''s'\nc=a\\sb\\\\c\\n\nd=\ne = C:\\dir\n";
        let values: Vec<_> = options(text).into_iter().map(|(_, v)| v.unwrap()).collect();
        assert_eq!(values, ["x # y", "it''s", "a b\\c\n", "", "C:\\dir"]);
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, number) in [
            ("port=1", 1),
            ("[mysqld]\n\nwhat is this", 3),
            ("[mysqld", 1),
            ("!includ x", 1),
            ("!include", 1),
        ] {
            let error = parse(text).into_iter().find_map(Result::err).unwrap();
            assert_eq!(error.0, number, "{text}");
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods)]
    fn files_include_files() {
        let disk = RealDisk::new();
        let dir = std::env::temp_dir().join(format!("redolith-cnf-{}", std::process::id()));
        disk.create_dir_all(&dir.join("d")).unwrap();
        let write = |name: &str, text: &str| {
            let f = disk
                .open(&dir.join(name), OpenHow { create: Create::Create, direct: false })
                .unwrap();
            f.set_len(text.len() as u64).unwrap();
            f.write_at(text.as_bytes(), 0).unwrap();
        };
        write("a.cnf", "[mysqld]\nport=1\n!include b.cnf\n!includedir d\n[mysqld]\nport=4\n");
        write("b.cnf", "[mysqld]\nport=2\n");
        write("d/c.cnf", "[redolith]\nport=3\n");
        write("d/ignored.txt", "nonsense");
        let values: Vec<_> = read(&disk, &dir.join("a.cnf"))
            .unwrap()
            .into_iter()
            .map(|e| e.value.unwrap())
            .collect();
        assert_eq!(values, ["1", "2", "3", "4"]);
        write("loop.cnf", "!include loop.cnf\n");
        assert!(read(&disk, &dir.join("loop.cnf")).unwrap_err().contains("include each other"));
        assert!(read(&disk, &dir.join("none.cnf")).unwrap_err().contains("cannot read"));
        // No file includes itself, but together they would be read 3^9 times.
        (0..9).for_each(|n| {
            write(&format!("wide{n}.cnf"), &format!("!include wide{}.cnf\n", n + 1).repeat(3))
        });
        write("wide9.cnf", "");
        assert!(read(&disk, &dir.join("wide0.cnf")).unwrap_err().contains("too many files"));
        std::fs::remove_dir_all(dir).unwrap();
    }
}
