//! Cursors of prepared statements over a real socket, packet by packet, against the fake backend.
use crate::common::*;
use redolith_sql::processes::Kill;

const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;
const CLOSE: u8 = 0x19;
const RESET: u8 = 0x1a;
const FETCH: u8 = 0x1c;
const PING: u8 = 0x0e;
const RESET_CONNECTION: u8 = 0x1f;

const CURSOR_EXISTS: u16 = 0x40;
const LAST_ROW_SENT: u16 = 0x80;
const AUTOCOMMIT: u16 = 2;

/// The capabilities beyond the usual: without and with DEPRECATE_EOF.
const EITHER: [u32; 2] = [0, DEPRECATE_EOF];

fn logged_in(server: &TestServer, capabilities: u32) -> Raw {
    let mut raw = Raw::connect(server);
    assert_eq!(raw.login("", capabilities)[0], 0);
    raw
}
/// Prepares a statement without parameters. Its definitions are read.
fn prepare(raw: &mut Raw, capabilities: u32, text: &str) -> u32 {
    raw.command(PREPARE, text.as_bytes());
    let answer = raw.read();
    assert_eq!((answer[0], &answer[5..9]), (0, &[1, 0, 0, 0][..]));
    raw.read();
    if capabilities & DEPRECATE_EOF == 0 {
        end_status(&raw.read(), capabilities);
    }
    u32::from_le_bytes(*answer[1..].first_chunk().unwrap())
}
/// The status flags of the packet that ends rows or definitions.
fn end_status(packet: &[u8], capabilities: u32) -> u16 {
    assert_eq!(packet[0], 0xfe);
    let at = if capabilities & DEPRECATE_EOF == 0 {
        assert_eq!(packet.len(), 5, "an EOF packet");
        3
    } else {
        assert_eq!((packet.len(), &packet[1..3]), (7, &[0, 0][..]), "an OK packet");
        3
    };
    u16::from_le_bytes([packet[at], packet[at + 1]])
}
fn execute_args(id: u32, cursor_type: u8) -> Vec<u8> {
    [&id.to_le_bytes()[..], &[cursor_type, 1, 0, 0, 0]].concat()
}
/// Opens a cursor on a result of two columns.
fn open(raw: &mut Raw, capabilities: u32, id: u32) {
    raw.command(EXECUTE, &execute_args(id, 1));
    assert_eq!(raw.read(), [2]);
    for _ in 0..2 {
        assert!(raw.read().starts_with(b"\x03def"));
    }
    let status = end_status(&raw.read(), capabilities);
    assert_eq!(status, AUTOCOMMIT | CURSOR_EXISTS);
}
fn fetch_args(id: u32, rows: u32) -> Vec<u8> {
    [id.to_le_bytes(), rows.to_le_bytes()].concat()
}
/// Fetches rows, and returns their numbers and the status flags.
fn fetch(raw: &mut Raw, capabilities: u32, id: u32, rows: u32) -> (Vec<u64>, u16) {
    raw.command(FETCH, &fetch_args(id, rows));
    let mut got = Vec::new();
    loop {
        let packet = raw.read();
        if packet[0] != 0 {
            return (got, end_status(&packet, capabilities));
        }
        let number = u64::from_le_bytes(*packet[2..].first_chunk().unwrap());
        assert_eq!(packet[10..], [&[100][..], &[b'x'; 100]].concat());
        got.push(number);
    }
}
fn numbers(from: u64, to: u64) -> Vec<u64> {
    (from..to).collect()
}

/// Tests FETCH-1. As in MySQL, the end is told by the fetch that asks for more rows than there are.
#[test]
fn rows_come_by_fetch_only() {
    let server = start(LIMITS);
    for c in EITHER {
        let mut raw = logged_in(&server, c);
        for rows in [0, 1, 9, 10, 25] {
            let id = prepare(&mut raw, c, &format!("ROWS {rows}"));
            open(&mut raw, c, id);
            let mut at = 0;
            while at + 5 <= rows {
                let more = AUTOCOMMIT | CURSOR_EXISTS;
                assert_eq!(fetch(&mut raw, c, id, 5), (numbers(at, at + 5), more), "{rows}");
                at += 5;
            }
            let last = AUTOCOMMIT | LAST_ROW_SENT;
            assert_eq!(fetch(&mut raw, c, id, 5), (numbers(at, rows), last), "{rows}");
            assert_eq!(raw.ask_error(FETCH, &fetch_args(id, 5)), 1421, "the cursor is closed");
        }
    }
}

#[test]
fn statements_without_rows_open_no_cursor() {
    let server = start(LIMITS);
    let mut raw = logged_in(&server, DEPRECATE_EOF);
    let id = prepare(&mut raw, DEPRECATE_EOF, "DO");
    assert_eq!(raw.ask(EXECUTE, &execute_args(id, 1))[0], 0);
    assert_eq!(raw.ask_error(FETCH, &fetch_args(id, 5)), 1421);
    assert_eq!(raw.ask_error(FETCH, &id.to_le_bytes()), 1835, "no number of rows");
    // A statement that fails in the middle of its rows sends the error, and nothing before it.
    let id = prepare(&mut raw, DEPRECATE_EOF, "HALF");
    assert_eq!(raw.ask_error(EXECUTE, &execute_args(id, 1)), 1317);
    assert_eq!(raw.ask_error(FETCH, &fetch_args(id, 5)), 1421);
    // Without the bit the rows come at once.
    let id = prepare(&mut raw, DEPRECATE_EOF, "ROWS 1");
    raw.command(EXECUTE, &execute_args(id, 0));
    let packets: Vec<_> = (0..5).map(|_| raw.read()).collect();
    assert_eq!(packets[3][0], 0);
    assert_eq!(end_status(&packets[4], DEPRECATE_EOF), AUTOCOMMIT);
    assert_eq!(raw.ask_error(FETCH, &fetch_args(id, 5)), 1421);
}

/// Tests FETCH-2.
#[test]
fn many_rows_are_in_a_file() {
    const ROWS: u64 = 20_000;
    let server = start(LIMITS);
    let temporary = server.server.backend.temporary.clone();
    for c in EITHER {
        let mut raw = logged_in(&server, c);
        let idle = server.server.backend.memory.used();
        let id = prepare(&mut raw, c, &format!("ROWS {ROWS}"));
        open(&mut raw, c, id);
        assert!(temporary.used() > ROWS * 90);
        let (mut at, mut step) = (0, 1);
        while at + step <= ROWS {
            let got = fetch(&mut raw, c, id, step as u32);
            assert_eq!(got, (numbers(at, at + step), AUTOCOMMIT | CURSOR_EXISTS));
            assert!(server.server.backend.memory.used() - idle < 1 << 20);
            (at, step) = (at + step, step * 3);
        }
        let got = fetch(&mut raw, c, id, u32::MAX);
        assert_eq!(got, (numbers(at, ROWS), AUTOCOMMIT | LAST_ROW_SENT));
        assert_eq!(temporary.used(), 0);
        assert_eq!(raw.ask_error(FETCH, &fetch_args(id, 1)), 1421);
        // The next statement's end gives back the last buffers.
        assert_eq!(raw.ask(PING, b"")[0], 0);
    }
}

#[test]
fn rows_without_a_file_are_in_the_cursors_account() {
    const ROWS: u64 = 20_000;
    let server = start(LIMITS);
    let (memory, temporary) = (&server.server.backend.memory, &server.server.backend.temporary);
    temporary.set_limit(0);
    let mut raw = logged_in(&server, DEPRECATE_EOF);
    let id = prepare(&mut raw, DEPRECATE_EOF, &format!("ROWS {ROWS}"));
    open(&mut raw, DEPRECATE_EOF, id);
    assert_eq!(raw.ask(PING, b"")[0], 0);
    assert!(memory.used() as u64 > ROWS * 100);
    assert_eq!(raw.ask(RESET, &id.to_le_bytes())[0], 0);
    assert_eq!(raw.ask(PING, b"")[0], 0);
    assert!((memory.used() as u64) < ROWS * 10);
    memory.set_limit(1 << 20);
    assert_eq!(raw.ask_error(EXECUTE, &execute_args(id, 1)), 3170);
    assert_eq!(raw.ask_error(FETCH, &fetch_args(id, 1)), 1421);
    memory.set_limit(usize::MAX);
    temporary.set_limit(1 << 20);
    assert_eq!(raw.ask_error(EXECUTE, &execute_args(id, 1)), 1114, "the file would be too long");
    assert_eq!((temporary.used(), raw.ask(PING, b"")[0]), (0, 0));
}

/// Tests FETCH-3.
#[test]
fn a_connection_has_few_files() {
    let server = start(LIMITS);
    let temporary = &server.server.backend.temporary;
    let mut raw = logged_in(&server, DEPRECATE_EOF);
    let ids: Vec<u32> = (0..20).map(|_| prepare(&mut raw, DEPRECATE_EOF, "ROWS 5000")).collect();
    ids.iter().for_each(|id| open(&mut raw, DEPRECATE_EOF, *id));
    assert_eq!(temporary.files(), 16);
    for id in &ids {
        let got = fetch(&mut raw, DEPRECATE_EOF, *id, 6000);
        assert_eq!(got, (numbers(0, 5000), AUTOCOMMIT | LAST_ROW_SENT));
    }
}

#[test]
fn a_long_row_comes_whole() {
    let server = start(LIMITS);
    let mut raw = logged_in(&server, DEPRECATE_EOF);
    let id = prepare(&mut raw, DEPRECATE_EOF, "BIG 17000000");
    raw.command(EXECUTE, &execute_args(id, 1));
    for _ in 0..3 {
        raw.read();
    }
    raw.command(FETCH, &fetch_args(id, 2));
    let row = raw.read();
    assert_eq!((row.len(), row.last()), (2 + 9 + 17_000_000, Some(&b'y')));
    assert_eq!(end_status(&raw.read(), DEPRECATE_EOF), AUTOCOMMIT | LAST_ROW_SENT);
}

#[test]
fn other_commands_close_the_cursor() {
    let server = start(LIMITS);
    let temporary = server.server.backend.temporary.clone();
    for c in EITHER {
        let mut raw = logged_in(&server, c);
        let id = prepare(&mut raw, c, "ROWS 5000");
        let other = prepare(&mut raw, c, "ROWS 12");
        open(&mut raw, c, other);
        let begin = |raw: &mut Raw| {
            open(raw, c, id);
            assert_eq!(fetch(raw, c, id, 3).0, numbers(0, 3));
            assert!(temporary.used() > 0);
        };
        begin(&mut raw);
        assert_eq!(raw.ask(RESET, &id.to_le_bytes())[0], 0);
        assert_eq!(temporary.used(), 0);
        assert_eq!(raw.ask_error(FETCH, &fetch_args(id, 1)), 1421);
        // The next execution begins from the first row.
        begin(&mut raw);
        begin(&mut raw);
        raw.command(CLOSE, &id.to_le_bytes());
        assert_eq!(raw.ask_error(FETCH, &fetch_args(id, 1)), 1243);
        assert_eq!(temporary.used(), 0);
        // The other statement's cursor is where it was.
        let got = fetch(&mut raw, c, other, 12);
        assert_eq!(got, (numbers(0, 12), AUTOCOMMIT | CURSOR_EXISTS));
        let id = prepare(&mut raw, c, "ROWS 5000");
        open(&mut raw, c, id);
        assert_eq!(raw.ask(RESET_CONNECTION, b"")[0], 0);
        assert_eq!(temporary.used(), 0);
        assert_eq!(raw.ask_error(FETCH, &fetch_args(id, 1)), 1243);
    }
}

#[test]
fn a_kill_ends_the_fetch_of_a_client_that_does_not_read() {
    let server = start(LIMITS);
    let (processes, temporary) = (&server.server.processes, &server.server.backend.temporary);
    let mut raw = logged_in(&server, DEPRECATE_EOF);
    let id = prepare(&mut raw, DEPRECATE_EOF, "ROWS 200000");
    open(&mut raw, DEPRECATE_EOF, id);
    raw.command(FETCH, &fetch_args(id, u32::MAX));
    while processes.rows()[0].state != "Sending to client" {
        std::thread::yield_now();
    }
    assert!(processes.kill(processes.rows()[0].id, Kill::Query));
    let mut rows = 0;
    let end = loop {
        let packet = raw.read();
        if packet[0] != 0 {
            break packet;
        }
        rows += 1;
    };
    assert!(error_code(&end) == 1317 && rows < 200_000, "{rows}");
    assert_eq!(raw.ask_error(FETCH, &fetch_args(id, 1)), 1421);
    assert_eq!(temporary.used(), 0);
}
