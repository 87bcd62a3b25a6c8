use super::replacement::Replacement;
use super::threads::NOWHERE;
use super::*;
use regex_automata::nfa::thompson::pikevm::PikeVM;

const UTF8: Collation = Collation::Utf8mb4GeneralCi;
const AS_COLLATED: MatchType =
    MatchType { ignores_case: None, by_line: false, dot_matches_all: false };

fn text(bytes: usize) -> Vec<u8> {
    // Pseudo-random hexadecimal digits.
    let mut x = 7u32;
    let digit = |_| {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        b"0123456789abcdef"[(x >> 28) as usize]
    };
    (0..bytes).map(digit).collect()
}

/// Both ways to search give the same answer.
#[test]
fn steps_find_what_a_search_finds() {
    let mut long = text(5000);
    long.extend("Grün café\nend 7".as_bytes());
    for pattern in [
        "0",
        "z",
        "^0",
        "^[0-9a-f]{5000}G",
        "7$",
        "8$",
        "^$",
        "",
        ".*\nend",
        "GR(Ü|x)N",
        "caf. ",
        "(?-i)grün",
        r"\d{9}",
        "[[:<:]]end",
        r"end\b",
        "[g-z]{3,5}",
        "(a|b)*c(d|e){20}",
        r"\n\w+ \d$",
        "[^0-9a-f]",
        "é$",
        "x*",
        "[0-7][0-9a-f]{40}[g-z]",
        r"\pL{4}",
        "(?s)^.*$",
        r"\A\d",
        r"7\z",
        r"\bcaf\w\b",
        r"\bé",
        r"\Bé\b",
        r"ü\Bn",
        r"n\b\w",
        r"(^|\b)end\b(\s|$)",
    ] {
        let lines = MatchType { by_line: true, dot_matches_all: true, ..AS_COLLATED };
        for (collation, how) in [
            (UTF8, AS_COLLATED),
            (Collation::Utf8mb4Bin, AS_COLLATED),
            (Collation::Binary, AS_COLLATED),
            (UTF8, lines),
        ] {
            let Ok(compiled) = Compiled::new(pattern.as_bytes(), collation, how, || ()) else {
                continue;
            };
            let feeds = [&long[3000..], b"\n"].concat();
            for text in [&long[..], &long[..5000], &long[4000..], b"", b"end 7", &feeds, b"7\n"] {
                let text = &*compiled.searched(text);
                let mut steps = Steps::new(&compiled.source).unwrap();
                let found = steps.decide(text, &mut || Ok(())).unwrap();
                let word_border = [r"\b", r"\B", "[["].iter().any(|b| pattern.contains(b));
                assert!(found.is_some() || word_border, "{pattern}");
                let right = compiled.regex.is_match(text);
                assert!(
                    found.is_none_or(|found| found == right),
                    "{pattern} {collation:?} {}",
                    text.len()
                );
                let by_sets = steps.by_sets(text).unwrap();
                assert_eq!(by_sets, right, "{pattern} {collation:?} {}", text.len());
                // All ways to find the place of the first match, and of the first one after it.
                for from in [0, 7, text.len()] {
                    if from > text.len() || (from < text.len() && text[from] & 0xc0 == 0x80) {
                        continue;
                    }
                    let right = compiled.regex.find(Input::new(text).range(from..));
                    let right = right.map(|found| found.range());
                    let stop = &mut || Ok(());
                    let found = steps.find(text, from, stop).unwrap();
                    assert_eq!(found, right, "{pattern} {collation:?} {} {from}", text.len());
                    let found = steps.find_by_threads(text, from, stop).unwrap();
                    assert_eq!(found, right, "{pattern} {collation:?} {} {from}", text.len());
                }
            }
        }
    }
}

/// `$` also matches before a line feed that ends the text, in all ways to search.
#[test]
fn a_text_ends_before_its_last_line_feed() {
    let lines = MatchType { by_line: true, ..AS_COLLATED };
    let all = MatchType { dot_matches_all: true, ..AS_COLLATED };
    for (pattern, text, how, place) in [
        ("abc$", "abc\n", AS_COLLATED, Some(0..3)),
        ("c$", "abc\n", AS_COLLATED, Some(2..3)),
        ("c$", "abc\n\n", AS_COLLATED, None),
        ("c\n$", "abc\n\n", AS_COLLATED, Some(2..4)),
        ("c\n\n$", "abc\n\n", AS_COLLATED, Some(2..5)),
        ("$", "abc\n", AS_COLLATED, Some(3..3)),
        (r"\z", "abc\n", AS_COLLATED, Some(4..4)),
        (r"c\z", "abc\n", AS_COLLATED, None),
        (r"c\Z", "abc\n", AS_COLLATED, Some(2..3)),
        (r"c(\z|$)", "abc\n", AS_COLLATED, Some(2..3)),
        (r"c$\n\z", "abc\n", AS_COLLATED, Some(2..4)),
        (r"c$\s$", "abc\n", AS_COLLATED, Some(2..4)),
        (r"c\s*$", "abc\n", AS_COLLATED, Some(2..4)),
        (r"c\s*?$", "abc\n", AS_COLLATED, Some(2..3)),
        ("c[^x]$", "abc\n", AS_COLLATED, Some(2..4)),
        ("c.$", "abc\n", AS_COLLATED, None),
        ("c.$", "abc\n", all, Some(2..4)),
        ("^.*$", "abc\n", AS_COLLATED, Some(0..3)),
        ("^.*$", "ab\nc\n", AS_COLLATED, None),
        ("^.*$", "ab\nc\n", lines, Some(0..2)),
        ("^.*$", "é\n", AS_COLLATED, Some(0..2)),
        (r"\bé$", "é\n", AS_COLLATED, Some(0..2)),
        ("x?(^|b)?$", "b\n", AS_COLLATED, Some(0..1)),
        ("[[:space:]]$", "a\n", AS_COLLATED, Some(1..2)),
        ("(?m)b$", "ab\nc\n", AS_COLLATED, Some(1..2)),
        ("(?m)^c$", "ab\nc\n", AS_COLLATED, Some(3..4)),
        ("a\nb$", "a\nb\n", AS_COLLATED, Some(0..3)),
    ] {
        for wide in ["", "(x{5000})?"] {
            let pattern = format!("{wide}{pattern}");
            let mut compiled = Compiled::new(pattern.as_bytes(), UTF8, how, || ()).unwrap();
            let searched = compiled.searched(text.as_bytes()).into_owned();
            let stop = &mut || Ok(());
            let found = compiled.find(&searched, 0, stop).unwrap();
            assert_eq!(found, place, "{pattern:?} {text:?}");
            assert_eq!(compiled.is_match(&searched, stop).unwrap(), place.is_some(), "{pattern:?}");
            if let Some(place) = &place {
                let groups = compiled.groups().unwrap();
                let places = groups.of_match(&searched, place, &[0], stop).unwrap();
                assert_eq!((places.place(0), places.place(1)), (place.start, place.end));
            }
        }
    }
}

/// This pattern meets new states all the time. Only `stop` ends the search.
#[test]
fn a_long_search_is_ended() {
    is_ended_and_goes_on(br"([0-7][0-9a-f]{4000}|[8-f][0-9a-f]{3000})[g-z]", text(1 << 20));
}
/// `stop` also ends a search for word borders beside letters that are not ASCII.
#[test]
fn a_long_search_for_borders_of_words_is_ended() {
    is_ended_and_goes_on(
        br"([0-7]\w{7}|[8-f]\w{5})[g-z]\b",
        [text(1 << 17), "é".repeat(1 << 19).into()].concat(),
    );
}
/// A short text is no short search if the pattern is large.
#[test]
fn a_search_for_a_large_pattern_is_ended() {
    let pattern = br"([0-7][0-9a-f]{4000}|[8-f][0-9a-f]{3000})[g-z]";
    let mut compiled = Compiled::new(pattern, UTF8, AS_COLLATED, || ()).unwrap();
    let found = compiled.is_match(&text(400), &mut || Err(SqlError::interrupted()));
    assert_eq!(found.unwrap_err().code, 1317);
}
#[test]
fn a_large_pattern_is_announced_or_refused() {
    let announced = |pattern: &str| {
        let mut announced = false;
        let compiled = Compiled::new(pattern.as_bytes(), UTF8, AS_COLLATED, || announced = true);
        compiled.map(|_| announced).map_err(|e| e.code)
    };
    assert_eq!(announced(r"^[a-z]+@\w+\.example$"), Ok(false));
    assert_eq!(announced("[0-9a-f]{4000}"), Ok(true));
    assert_eq!(announced(&"abc|".repeat(300)), Ok(true));
    // What is refused at once, and what the library finds too large.
    assert_eq!(announced(&"[a]".repeat(5_000_000)), Err(3700));
    assert_eq!(announced("((a{1000}){1000}){1000}"), Err(3700));
    assert_eq!(announced("(a"), Err(3685));
}
fn is_ended_and_goes_on(pattern: &[u8], text: Vec<u8>) {
    let mut compiled = Compiled::new(pattern, UTF8, AS_COLLATED, || ()).unwrap();
    let mut left = 20;
    let stop = &mut || {
        left -= 1;
        if left > 0 { Ok(()) } else { Err(SqlError::interrupted()) }
    };
    assert_eq!(compiled.is_match(&text, stop).unwrap_err().code, 1317);
    // The pattern can still be used for the next text.
    assert!(!compiled.is_match(&text[..100], &mut || Ok(())).unwrap());
    let cheap = &mut Compiled::new(b"zzz", UTF8, AS_COLLATED, || ()).unwrap();
    assert!(
        !cheap.is_match(&text[..50_000], &mut || Err(SqlError::interrupted())).unwrap(),
        "one call"
    );
}

/// The threads find the groups that the library finds.
#[test]
fn groups_of_matches() {
    let text = "Grün café 2024-05-06 aabbab end7 xyz";
    for pattern in [
        r"(\d+)-(\d+)-(\d+)",
        "(a|ab)(c|bcd)*(b*)",
        "(a*)(b*)",
        "(a*?)(b+?)(a|b)",
        "((a)|(b))+",
        r"(\w+) (\w+)",
        r"\b(é?)(?:(n)|(d)|7)\b",
        "(x)?(y)?(z)?$",
        "(^)(.)",
        "()(()|a)+",
        "(a{2}|(b){1,2}){2,}",
    ] {
        let mut compiled = Compiled::new(pattern.as_bytes(), UTF8, AS_COLLATED, || ()).unwrap();
        let (pike, stop) = (library(pattern), &mut || Ok(()));
        let (mut from, mut cache) = (Some(0), pike.create_cache());
        let mut captures = pike.create_captures();
        let count = compiled.groups().unwrap().count();
        assert_eq!(count, pike.get_nfa().group_info().all_group_len() - 1);
        let all: Vec<usize> = (1..=count).collect();
        while let Some(at) = from {
            let found = compiled.find(text.as_bytes(), at, stop).unwrap();
            pike.captures(&mut cache, Input::new(text).range(at..), &mut captures);
            assert_eq!(found, captures.get_match().map(|found| found.range()), "{pattern} {at}");
            let Some(found) = found else { break };
            let groups = compiled.groups().unwrap();
            let places = groups.of_match(text.as_bytes(), &found, &all, stop).unwrap();
            for n in 0..count {
                let right =
                    captures.get_group(n + 1).map_or((NOWHERE, NOWHERE), |s| (s.start, s.end));
                let place = (places.place(2 * n), places.place(2 * n + 1));
                assert_eq!(place, right, "{pattern} {at} group {n}");
            }
            from = compiled.after(text.as_bytes(), &found);
        }
    }
}
fn library(pattern: &str) -> PikeVM {
    PikeVM::builder()
        .syntax(AS_COLLATED.syntax(UTF8))
        .thompson(regex_automata::nfa::thompson::Config::new().utf8(false))
        .build(pattern)
        .unwrap()
}

#[test]
fn replacements_are_read() {
    let mut compiled = Compiled::new(b"(a)(?P<name>b)?(c)", UTF8, AS_COLLATED, || ()).unwrap();
    let text = b"xacy";
    let found = 1..3;
    let mut replace = |with: &str| {
        let read = Replacement::parse(with.as_bytes(), || compiled.groups()).map_err(|e| e.code)?;
        let mut out = Vec::new();
        let stop = &mut || Ok(());
        let groups = compiled.groups().unwrap();
        let threads = groups.of_match(text, &found, &read.groups, stop).unwrap();
        read.write(text, &found, Some(threads), &mut out);
        assert_eq!(read.len(&found, Some(threads)), out.len());
        Ok(String::from_utf8(out).unwrap())
    };
    for (with, right) in [
        ("", ""),
        ("-", "-"),
        ("<$0>", "<ac>"),
        ("$3$1", "ca"),
        ("$2|${name}|", "||"),
        ("$10$31", "a0c1"),
        (r"\$1\\\é\", r"$1\é"),
        (r"\u0041\U0001F600\u00", "A😀u00"),
        (r"\uD800", "uD800"),
    ] {
        assert_eq!(replace(with), Ok(right.to_string()), "{with}");
    }
    for (with, code) in [
        ("$4", 3686),
        ("$", 3887),
        ("$x", 3887),
        ("${", 3887),
        ("${name", 3887),
        ("${nome}", 3887),
        ("${}", 3887),
        ("${na-me}", 3887),
    ] {
        assert_eq!(replace(with), Err(code), "{with}");
    }
}

/// A pattern may have thousands of groups. Only those that a replacement mentions take memory, and
/// never more than some megabytes.
#[test]
fn many_groups_take_little_memory() {
    let pattern = "()".repeat(3000) + "a";
    let mut compiled = Compiled::new(pattern.as_bytes(), UTF8, AS_COLLATED, || ()).unwrap();
    let (text, found, stop) = (b"ba", 1..2, &mut || Ok(()));
    let groups = compiled.groups().unwrap();
    let places = groups.of_match(text, &found, &[1, 3000], stop).unwrap();
    assert_eq!((places.place(0), places.place(3)), (1, 1));
    let all: Vec<usize> = (1..=3000).collect();
    assert_eq!(groups.of_match(text, &found, &all, stop).err().map(|e| e.code), Some(3700));
}

/// A pattern for text finds no part of a character, and no place within one.
#[test]
fn characters_stay_whole() {
    let illegal = Compiled::new(br"(?-u:\xA9)", UTF8, AS_COLLATED, || ());
    assert_eq!(illegal.err().map(|e| e.code), Some(3685));
    let text = "éé".as_bytes();
    for pattern in ["x*", r"\B", "(?-u:\\B)", ""] {
        let Ok(mut compiled) = Compiled::new(pattern.as_bytes(), UTF8, AS_COLLATED, || ()) else {
            continue;
        };
        let mut from = Some(0);
        while let Some(at) = from
            && let Some(found) = compiled.find(text, at, &mut || Ok(())).unwrap()
        {
            assert!(found.is_empty() && found.start % 2 == 0, "{pattern} {found:?}");
            from = compiled.after(text, &found);
        }
    }
}

/// The search for a place, and that for groups, are ended as the search for a match is.
#[test]
fn a_long_search_for_a_place_is_ended() {
    for (pattern, text) in [
        ("([0-7][0-9a-f]{4000}|[8-f][0-9a-f]{3000})[g-z]", text(1 << 20)),
        (r"([0-7]\w{7}|[8-f]\w{5})[g-z]\b", [text(1 << 17), "é".repeat(1 << 19).into()].concat()),
    ] {
        let mut compiled = Compiled::new(pattern.as_bytes(), UTF8, AS_COLLATED, || ()).unwrap();
        let mut left = 20;
        let stop = &mut || {
            left -= 1;
            if left > 0 { Ok(()) } else { Err(SqlError::interrupted()) }
        };
        assert_eq!(compiled.find(&text, 0, stop).unwrap_err().code, 1317);
        assert_eq!(compiled.find(&text[..100], 0, &mut || Ok(())).unwrap(), None);
    }
    let text = text(1 << 20);
    let mut compiled = Compiled::new(b"((.)*)(.*)", UTF8, AS_COLLATED, || ()).unwrap();
    let stop = &mut || Err(SqlError::interrupted());
    let found = 0..text.len();
    let groups = compiled.groups().unwrap();
    assert_eq!(groups.of_match(&text, &found, &[1, 2], stop).err().map(|e| e.code), Some(1317));
}
