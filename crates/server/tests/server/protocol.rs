//! The protocol over a real socket, packet by packet, against the fake backend.
use crate::common::*;
use redolith_server::backend::Limits;
use redolith_sql::processes::Kill;
use redolith_sql::status::Counter;
use std::io::Write;
use std::time::Duration;

const QUERY: u8 = 3;
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;

#[test]
fn only_root_without_a_password_comes_in() {
    let server = start(LIMITS);
    let mut raw = Raw::connect(&server);
    let greeting = raw.read();
    assert_eq!(greeting[0], 10);
    assert!(greeting[1..].starts_with(b"8.0.36-redolith-0.1.0\0"));
    let refused = |user: &str, auth: &[u8]| {
        let mut raw = Raw::connect(&server);
        raw.read();
        raw.write(&Raw::login_packet(user, auth, "", "mysql_native_password", 0));
        let answer = raw.read();
        assert_eq!(error_code(&answer), 1045);
        assert!(raw.try_read().is_err(), "the connection is closed");
        String::from_utf8(answer[3..].to_vec()).unwrap()
    };
    assert_eq!(
        refused("root", &[7; 20]),
        "#28000Access denied for user 'root'@'localhost' (using password: YES)"
    );
    assert_eq!(
        refused("nobody", b""),
        "#28000Access denied for user 'nobody'@'localhost' (using password: NO)"
    );
    assert_eq!(
        refused("", b""),
        "#28000Access denied for user ''@'localhost' (using password: NO)"
    );
    assert_eq!(Raw::connect(&server).login("", 0)[0], 0);
}

#[test]
fn another_plugin_is_switched_to_native_password() {
    let server = start(LIMITS);
    let mut raw = Raw::connect(&server);
    let greeting = raw.read();
    raw.write(&Raw::login_packet("root", &[9; 32], "", "caching_sha2_password", 0));
    let switch = raw.read();
    assert!(switch.starts_with(b"\xfemysql_native_password\0") && switch.len() == 23 + 21);
    // The scramble is the greeting's.
    assert!(greeting.windows(8).any(|w| w == &switch[23..31]));
    raw.write(b"");
    assert_eq!(raw.read()[0], 0);
}

/// Tests CLIENTCS-1.
#[test]
fn a_client_whose_character_set_is_lacked_is_refused() {
    let server = start(LIMITS);
    let login = |collation_id: u16| {
        let mut raw = Raw::connect(&server);
        raw.read();
        let mut packet = Raw::login_packet("root", b"", "", "mysql_native_password", 0);
        packet[8..10].copy_from_slice(&collation_id.to_le_bytes());
        raw.write(&packet);
        (raw.read(), raw)
    };
    for (id, code, rest) in [
        (28, 1115, "#42000Unknown character set: 'gbk'"),
        (88, 1115, "#42000Unknown character set: 'sjis'"),
        (51, 1115, "#42000Unknown character set: 'cp1251'"),
        (35, 1231, "#42000Variable 'character_set_client' can't be set to the value of 'ucs2'"),
    ] {
        let (answer, mut raw) = login(id);
        assert!(error_code(&answer) == code && answer[3..].starts_with(rest.as_bytes()));
        assert!(raw.try_read().is_err(), "the connection is closed");
    }
    // The low byte of 309, utf8mb4_0900_bin, is the number of macroman_bin.
    for id in [0, 8, 33, 45, 48, 63, 192, 224, 225, 255, 309, 999] {
        assert_eq!(login(id).0[0], 0, "{id}");
    }
    let change = |id| [&b"root\0\0test\0"[..], &[id, 0], b"mysql_native_password\0"].concat();
    let mut raw = login(45).1;
    assert_eq!(raw.ask(0x11, &change(31))[0], 0);
    assert_eq!(raw.ask_error(0x11, &change(87)), 1115);
    assert!(raw.try_read().is_err(), "the connection is closed");
}

#[test]
fn commands_before_login_are_refused() {
    let server = start(LIMITS);
    for body in [&b"\x03SELECT 1"[..], b"", b"\x0e", &[0xff; 200], &[0; 36]] {
        let mut raw = Raw::connect(&server);
        raw.read();
        raw.write(body);
        assert_eq!(error_code(&raw.read()), 1043);
        assert!(raw.try_read().is_err());
    }
    let mut raw = Raw::connect(&server);
    raw.read();
    raw.write(&vec![0; 20_000]);
    assert_eq!(error_code(&raw.read()), 1043);
}

#[test]
fn the_database_of_the_handshake_must_exist() {
    let server = start(LIMITS);
    assert_eq!(Raw::connect(&server).login("test", 0)[0], 0);
    assert_eq!(error_code(&Raw::connect(&server).login("nowhere", 0)), 1049);
}

#[test]
fn a_text_result_set_packet_by_packet() {
    let server = start(LIMITS);
    let mut old = Raw::connect(&server);
    old.login("", 0);
    old.command(QUERY, b"SELECT 1");
    assert_eq!(old.read(), [1]);
    assert_eq!(old.read(), b"\x03def\0\0\0\x011\0\x0c\x3f\0\x02\0\0\0\x08\x81\x80\0\0\0");
    assert_eq!(old.read(), [0xfe, 0, 0, 2, 0]);
    assert_eq!(old.read(), b"\x011");
    assert_eq!(old.read(), [0xfe, 0, 0, 2, 0]);
    let mut new = Raw::logged_in(&server);
    new.command(QUERY, b"SELECT 1");
    assert_eq!([new.read().len(), new.read().len()], [1, 23]);
    assert_eq!(new.read(), b"\x011");
    assert_eq!(new.read(), [0xfe, 0, 0, 2, 0, 0, 0]);
}

#[test]
fn ok_packets_carry_counts_and_info() {
    let server = start(LIMITS);
    let mut raw = Raw::logged_in(&server);
    assert_eq!(raw.ask(QUERY, b"DO"), b"\0\x03\xfc\x2c\x01\x02\0\0\0\x0fRows matched: 3");
}

/// Tests CONN-2.
#[test]
fn rows_stream_in_parts_and_big_values_in_chains() {
    let server = start(LIMITS);
    let mut raw = Raw::logged_in(&server);
    raw.command(QUERY, b"ROWS 20000");
    for _ in 0..3 {
        raw.read();
    }
    for i in 0..20_000 {
        let row = raw.read();
        assert!(row.ends_with(&[b'x'; 100]) && row[1..].starts_with(i.to_string().as_bytes()));
    }
    assert_eq!(raw.read()[0], 0xfe);
    for n in [0xff_ffffu32 - 4, 0xff_ffff, 40_000_000] {
        raw.command(QUERY, format!("BIG {n}").as_bytes());
        assert_eq!([raw.read().len(), raw.read()[0] as usize], [1, 3]);
        let row = raw.read();
        assert!(row.len() as u32 > n && row.iter().filter(|b| **b == b'y').count() as u32 == n);
        assert_eq!(raw.read()[0], 0xfe);
    }
}

#[test]
fn an_error_in_the_middle_of_a_row_leaves_no_half_row() {
    let server = start(LIMITS);
    let mut raw = Raw::logged_in(&server);
    raw.command(QUERY, b"HALF");
    for _ in 0..3 {
        raw.read();
    }
    assert_eq!(raw.read(), b"\x011\x012");
    assert_eq!(error_code(&raw.read()), 1317);
    assert_eq!(raw.ask(0x0e, b"")[0], 0);
}

#[test]
fn large_statements_come_in_chains_and_too_large_ones_are_refused() {
    let server = start(LIMITS);
    let mut raw = Raw::logged_in(&server);
    let mut statement = b"LENGTH ".to_vec();
    statement.resize(0xff_ffff - 1, b' ');
    for more in [0, 1, 100, 5_000_000] {
        let len = statement.len() + more;
        statement.resize(len, b' ');
        raw.command(QUERY, &statement);
        assert_eq!([raw.read().len(), raw.read()[0] as usize], [1, 3]);
        assert_eq!(&raw.read()[1..], len.to_string().as_bytes());
        raw.read();
    }
    statement.resize(33 << 20, b' ');
    assert_eq!(raw.ask_error(QUERY, &statement), 1153);
    assert!(raw.try_read().is_err(), "the connection is closed");
}

/// Tests CONN-4.
#[test]
fn a_packet_that_there_is_no_memory_for_is_dropped_and_the_session_goes_on() {
    let server = start(LIMITS);
    let memory = &server.server.backend.memory;
    let mut raw = Raw::logged_in(&server);
    memory.set_limit(1 << 20);
    let text = vec![b'x'; 20 << 20];
    let refused = raw.ask(QUERY, &[b"LENGTH ", &text[..]].concat());
    assert_eq!(error_code(&refused), 3170);
    assert!(String::from_utf8_lossy(&refused).contains("'redolith_server_memory'"));
    raw.command(QUERY, &[b"LENGTH ", &text[..100_000]].concat());
    assert_eq!((raw.read(), raw.read().len() > 1), (vec![1], true));
    raw.read();
    raw.read();
    // For long data the statement's next execution is refused, and no other.
    assert_eq!(raw.ask(PREPARE, b"SELECT ?")[0], 0);
    raw.read();
    for _ in 0..20 {
        raw.command(0x18, &[&[1, 0, 0, 0, 0, 0][..], &text[..100_000]].concat());
    }
    let execute = execute_args(1, &[0, 1, 252, 0]);
    assert_eq!(raw.ask_error(EXECUTE, &execute), 3170);
    assert_eq!(raw.ask(0x1a, &[1, 0, 0, 0])[0], 0);
    // Long data has no answer, also if there is no memory for its packet, and neither has a close.
    raw.command(0x18, &[&[1, 0, 0, 0, 0, 0][..], &text].concat());
    assert_eq!(raw.ask_error(EXECUTE, &execute), 3170);
    raw.command(0x19, &[&[1, 0, 0, 0][..], &text].concat());
    assert_eq!(raw.ask_error(EXECUTE, &execute), 1243);
    raw.ask(0x0e, b"");
    assert!(memory.used() < 256 << 10, "{}", memory.used());
    memory.set_limit(usize::MAX);
    raw.ask(0x0e, b"");
    drop(raw);
    while memory.used() > 0 {
        std::thread::yield_now();
    }
    assert!(memory.refusals() >= 2 && memory.peak() <= 1 << 20);
}

#[test]
fn a_wrong_sequence_number_is_refused() {
    let server = start(LIMITS);
    let mut raw = Raw::logged_in(&server);
    raw.stream.write_all(b"\x01\0\0\x05\x0e").unwrap();
    raw.sequence = 5;
    let mut answer = [0; 7];
    std::io::Read::read_exact(&mut raw.stream, &mut answer).unwrap();
    assert_eq!(error_code(&answer[4..]), 1156);
}

#[test]
fn small_commands() {
    let server = start(LIMITS);
    let mut raw = Raw::logged_in(&server);
    assert_eq!(raw.ask(0x0e, b""), b"\0\0\0\x02\0\0\0", "PING");
    assert_eq!(raw.ask(2, b"test")[0], 0, "INIT_DB");
    assert_eq!(raw.ask_error(2, b"nowhere"), 1049);
    assert!(raw.ask(9, b"").starts_with(b"Uptime: "), "STATISTICS");
    assert_eq!(raw.ask(0x1f, b"")[0], 0, "RESET_CONNECTION");
    assert_eq!(raw.ask(0x1b, &[0, 0])[0], 0xfe, "SET_OPTION");
    assert_eq!(raw.ask_error(0x1b, &[7, 0]), 1047);
    assert_eq!(raw.ask_error(0x1b, &[]), 1835);
    for unknown in
        [0u8, 5, 6, 7, 8, 0x0a, 0x0b, 0x0d, 0x0f, 0x10, 0x13, 0x14, 0x1d, 0x20, 0x99, 0xff]
    {
        assert_eq!(raw.ask_error(unknown, b"x"), 1047, "{unknown:#x}");
    }
    raw.command(4, b"t\0%");
    assert_eq!(raw.read().last(), Some(&0xfb), "FIELD_LIST");
    assert_eq!(raw.read()[0], 0xfe);
    assert_eq!(raw.ask(4, b"t\0x%")[0], 0xfe, "no column has such a name");
    // Names that are too long are not copied.
    let long = vec![b'`'; 1 << 20];
    assert_eq!(raw.ask_error(2, &long), 1049);
    assert_eq!(raw.ask_error(4, &[&long[..], b"\0%"].concat()), 1059);
    assert_eq!(raw.ask_error(4, &[b"t\0", &long[..]].concat()), 1059);
    raw.command(1, b"");
    assert!(raw.try_read().is_err(), "QUIT");
}

#[test]
fn change_user_makes_a_new_session() {
    let server = start(LIMITS);
    let mut raw = Raw::logged_in(&server);
    raw.command(PREPARE, b"SELECT");
    for _ in 0..2 {
        raw.read();
    }
    assert_eq!(raw.ask(0x11, b"root\0\0test\0\x2d\0mysql_native_password\0")[0], 0);
    assert_eq!(raw.ask_error(EXECUTE, &[1, 0, 0, 0, 0, 1, 0, 0, 0]), 1243);
    let mut other = Raw::logged_in(&server);
    assert_eq!(other.ask_error(0x11, &vec![b'r'; 1 << 20]), 1835);
    assert!(other.try_read().is_err(), "the connection is closed");
    // The server asks for the password again, with a new scramble.
    raw.command(0x11, b"root\0\x14aaaaaaaaaaaaaaaaaaaa\0\x2d\0mysql_native_password\0");
    assert!(raw.read().starts_with(b"\xfemysql_native_password\0"));
    raw.write(&[1; 20]);
    assert_eq!(error_code(&raw.read()), 1045);
    assert!(raw.try_read().is_err(), "the connection is closed");
}

/// Waits a little, and returns false.
#[allow(clippy::disallowed_methods)] // a thread of the test's own
fn pause() -> bool {
    std::thread::sleep(Duration::from_millis(5));
    false
}

#[test]
fn a_change_of_user_takes_as_long_as_a_login_at_most() {
    let server = start(Limits { connect_timeout_s: 5, ..LIMITS });
    const BODY: &[u8] = b"root\0\x14aaaaaaaaaaaaaaaaaaaa\0\x2d\0mysql_native_password\0";
    let mut raw = Raw::logged_in(&server);
    assert_eq!(raw.ask(0x11, BODY)[0], 0xfe);
    raw.write(b"");
    assert_eq!(raw.read()[0], 0, "the password is asked for and none is needed");
    // A command may run for longer than that.
    raw.command(QUERY, b"WAIT");
    let silent = &mut Raw::logged_in(&server);
    assert_eq!(silent.ask(0x11, BODY)[0], 0xfe);
    assert_eq!(
        silent.try_read().unwrap_err().kind(),
        std::io::ErrorKind::UnexpectedEof,
        "the connection is closed"
    );
    // The client's seat is given back after its socket is closed.
    let processes = &server.server.processes;
    let gone = (0..20_000).any(|_| processes.len() == 1 || pause());
    let rows = processes.rows();
    assert!(gone && (rows[0].command, &*rows[0].state) == ("Query", "executing"));
    assert!(processes.kill(rows[0].id, Kill::Query));
    assert_eq!(error_code(&raw.read()), 1317);
}

fn execute_args(id: u32, rest: &[u8]) -> Vec<u8> {
    [&id.to_le_bytes()[..], &[0, 1, 0, 0, 0], rest].concat()
}

#[test]
fn prepared_statements_bind_and_remember_types() {
    let server = start(LIMITS);
    let mut raw = Raw::logged_in(&server);
    raw.command(PREPARE, b"SELECT ?, ?, ?");
    assert_eq!(raw.read(), [0, 1, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0]);
    for _ in 0..3 {
        assert!(raw.read().starts_with(b"\x03def\0\0\0\x01?"));
    }
    let types = [8, 0, 253, 0, 8, 0x80];
    let mut body = vec![0, 1];
    body.extend(types);
    body.extend((-5i64).to_le_bytes());
    body.extend(b"\x02ab");
    body.extend(9u64.to_le_bytes());
    let row_of = |raw: &mut Raw, args: Vec<u8>| {
        raw.command(EXECUTE, &args);
        assert_eq!(raw.read(), [3]);
        for _ in 0..3 {
            raw.read();
        }
        let row = raw.read();
        assert_eq!(raw.read()[0], 0xfe);
        row
    };
    let expected = [&[0, 0][..], &(-5i64).to_le_bytes(), b"\x02ab", &9u64.to_le_bytes()].concat();
    assert_eq!(row_of(&mut raw, execute_args(1, &body)), expected);
    let again = [&[0b010, 0][..], &7i64.to_le_bytes(), &8u64.to_le_bytes()].concat();
    assert_eq!(
        row_of(&mut raw, execute_args(1, &again)),
        [&[0, 0b0000_1000][..], &7i64.to_le_bytes(), &8u64.to_le_bytes()].concat()
    );
    // Long data takes the place of the value.
    raw.command(0x18, b"\x01\0\0\0\x01\0long ");
    raw.command(0x18, b"\x01\0\0\0\x01\0data");
    let with_long = [&[0, 0][..], &7i64.to_le_bytes(), &8u64.to_le_bytes()].concat();
    assert!(
        row_of(&mut raw, execute_args(1, &with_long)).windows(10).any(|w| w == b"\x09long data")
    );
    assert_eq!(raw.ask(0x1a, &1u32.to_le_bytes())[0], 0, "STMT_RESET");
    // CLOSE has no answer: the next answer is the PING's.
    raw.command(0x19, &1u32.to_le_bytes());
    assert_eq!(raw.ask(0x0e, b"")[0], 0);
    assert_eq!(raw.ask_error(EXECUTE, &execute_args(1, &body)), 1243);
    assert_eq!(raw.ask_error(0x1a, &1u32.to_le_bytes()), 1243);
    assert_eq!(raw.ask_error(0x1c, &[1, 0, 0, 0, 1, 0, 0, 0]), 1243);
}

/// Tests CONN-2.
#[test]
fn the_definitions_of_a_result_leave_in_parts() {
    let server = start(LIMITS);
    let mut raw = Raw::logged_in(&server);
    raw.command(QUERY, b"COLUMNS 4096");
    assert_eq!(raw.read(), [0xfc, 0, 16]);
    for _ in 0..4096 {
        assert!(raw.read().len() > 1000);
    }
    assert_eq!(raw.read()[0], 0xfe);
    assert_eq!(raw.ask(0x0e, b"")[0], 0);
}

#[test]
fn many_definitions_leave_in_parts() {
    let server = start(LIMITS);
    let mut raw = Raw::logged_in(&server);
    let sent = || server.server.status.counters.get(Counter::BytesSent);
    let before = sent();
    raw.command(PREPARE, &[b'?'; 60_000]);
    while server.server.processes.rows()[0].state != "Sending to client" {
        std::thread::yield_now();
    }
    // The socket is full, and most definitions have not been made.
    assert!(sent() - before < 1 << 20);
    assert_eq!(raw.read()[7..9], 60_000u16.to_le_bytes());
    let definitions: usize = (0..60_000).map(|_| raw.read().len() + 4).sum();
    assert!(definitions > 1 << 20);
    assert_eq!(raw.ask(0x0e, b"")[0], 0);
}

#[test]
fn malformed_executions_are_errors() {
    let server = start(LIMITS);
    let mut raw = Raw::logged_in(&server);
    raw.command(PREPARE, b"SELECT ?");
    for _ in 0..2 {
        raw.read();
    }
    assert_eq!(raw.ask_error(EXECUTE, &[1, 0]), 1835);
    assert_eq!(raw.ask_error(EXECUTE, &execute_args(1, &[])), 1835);
    assert_eq!(raw.ask_error(EXECUTE, &execute_args(1, &[0, 0, 1])), 1210, "no types yet");
    assert_eq!(raw.ask_error(EXECUTE, &execute_args(1, &[0, 1, 99, 0, 1])), 1210, "unknown type");
    assert_eq!(
        raw.ask_error(EXECUTE, &execute_args(1, &[0, 1, 253, 0, 200, 1])),
        1835,
        "cut string"
    );
    assert_eq!(raw.ask_error(0x1c, &[1, 0, 0, 0, 1, 0, 0, 0]), 1421, "no cursor");
    assert_eq!(raw.ask_error(PREPARE, b"FAIL"), 1064);
    assert_eq!(raw.ask(0x0e, b"")[0], 0, "the connection goes on");
}

#[test]
fn one_connection_too_many_gets_1040() {
    let server = start(Limits { max_connections: 2, ..LIMITS });
    // There are two seats, and the administrator's.
    let (a, _b, _c) = (Raw::logged_in(&server), Raw::logged_in(&server), Raw::logged_in(&server));
    assert_eq!(error_code(&Raw::connect(&server).login("", 0)), 1040);
    drop(a);
    let again = (0..10_000).any(|_| Raw::connect(&server).login("", 0)[0] == 0 || pause());
    assert!(again, "a place that is free is given again");
}

/// Tests CONN-3.
#[test]
fn kill_ends_statements_and_connections() {
    let server = start(LIMITS);
    let (mut a, mut b) = (Raw::logged_in(&server), Raw::logged_in(&server));
    a.command(QUERY, b"WAIT");
    let id = loop {
        let rows = server.server.processes.rows();
        if let Some(p) = rows.iter().find(|r| r.info.as_deref() == Some("WAIT")) {
            assert_eq!((&*p.user, &*p.host, p.command), ("root", "localhost", "Query"));
            break p.id;
        }
        std::thread::yield_now();
    };
    assert!(server.server.processes.kill(id, Kill::Query));
    assert_eq!(error_code(&a.read()), 1317);
    assert_eq!(a.ask(0x0e, b"")[0], 0, "the connection lives");
    assert_eq!(b.ask(0x0c, &id.to_le_bytes())[0], 0, "PROCESS_KILL");
    assert!(a.try_read().is_err(), "an idle connection is ended");
    assert_eq!(b.ask_error(0x0c, &9999u32.to_le_bytes()), 1094);
}

/// Tests PROC-4 and HANGUP-1.
#[test]
fn a_statement_that_is_attended_ends_when_its_client_is_gone() {
    let server = start(LIMITS);
    let processes = &server.server.processes;
    let runs = |text: &str| processes.rows().iter().any(|r| r.info.as_deref() == Some(text));
    let mut stays = Raw::logged_in(&server);
    stays.command(QUERY, b"ATTEND");
    let mut unattended = Raw::logged_in(&server);
    unattended.command(QUERY, b"WAIT");
    for says_more in [true, false] {
        let mut leaves = Raw::logged_in(&server);
        leaves.command(QUERY, b"ATTEND to it");
        while !runs("ATTEND to it") {
            std::thread::yield_now();
        }
        if says_more {
            leaves.command(0x0e, b"");
        }
        drop(leaves);
        while processes.len() > 2 {
            std::thread::yield_now();
        }
    }
    drop(unattended);
    // Another client has come and gone, so the list has been looked through since.
    let mut last = Raw::logged_in(&server);
    last.command(QUERY, b"ATTEND last");
    while !runs("ATTEND last") {
        std::thread::yield_now();
    }
    drop(last);
    while processes.len() > 2 {
        std::thread::yield_now();
    }
    assert!(runs("ATTEND") && runs("WAIT"));
    processes.kill_all(Kill::Query);
    assert_eq!(error_code(&stays.read()), 1317);
    assert_eq!(stays.ask(0x0e, b"")[0], 0);
}

#[test]
fn a_silent_client_is_ended_and_an_idle_one_too() {
    let server = start(Limits { connect_timeout_s: 5, ..LIMITS });
    let mut silent = Raw::connect(&server);
    silent.read();
    let mut idle = Raw::connect(&server);
    idle.login("", 0);
    assert_eq!(idle.ask(QUERY, b"SET wait_timeout 1")[0], 0);
    let mut slow = Raw::connect(&server);
    slow.login("", 0);
    slow.stream.write_all(b"\x20\0\0").unwrap();
    // As from MySQL, the idle client's next command finds the reason, with the number 0.
    idle.sequence = 0;
    let reason = idle.read();
    assert_eq!(error_code(&reason), 4031);
    assert!(reason[3..].starts_with(b"#HY000The client was disconnected by the server because of"));
    assert!(silent.try_read().is_err() && idle.try_read().is_err() && slow.try_read().is_err());
    assert_eq!(Raw::connect(&server).login("", 0)[0], 0);
}

#[test]
fn a_client_that_does_not_read_is_ended() {
    let server = start(LIMITS);
    let mut raw = Raw::logged_in(&server);
    raw.command(QUERY, b"ROWS 10000000");
    let mut other = Raw::logged_in(&server);
    while server.server.processes.len() > 1 {
        assert_eq!(other.ask(0x0e, b"")[0], 0, "others are served meanwhile");
        std::thread::yield_now();
    }
}

#[test]
fn random_bytes_after_login_never_hurt() {
    let server = start(Limits { max_connections: 1000, ..LIMITS });
    let mut x = 0x5bd1_e995_1234_5678u64;
    let mut random = move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    for _ in 0..300 {
        let mut raw = Raw::logged_in(&server);
        for _ in 0..random() % 10 {
            let len = random() as usize % 50;
            let mut body: Vec<u8> = (0..len).map(|_| random() as u8).collect();
            if let Some(first) = body.first_mut() {
                *first %= 0x21;
            }
            raw.sequence = 0;
            let mut p = (body.len() as u32).to_le_bytes().to_vec();
            p[3] = 0;
            p.extend(body);
            if raw.stream.write_all(&p).is_err() {
                break;
            }
        }
    }
    assert_eq!(Raw::logged_in(&server).ask(0x0e, b"")[0], 0);
}
