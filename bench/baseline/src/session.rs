//! The protocol of one connection: a greeting, OK for most commands, and result sets of the right
//! shape for SELECT.
//!
//! The first words of a statement decide the answer. Packets are `length (3 bytes, little-endian),
//! sequence, body`. CLIENT_DEPRECATE_EOF is off, so a result set is: column count, columns, EOF,
//! rows, EOF.

pub const HEADER: usize = 4;
/// PROTOCOL_41, SECURE_CONNECTION, PLUGIN_AUTH, CONNECT_WITH_DB, TRANSACTIONS, MULTI_STATEMENTS and
/// the flags that belong to them.
const CAPABILITIES: u32 = 0x000b_a20b;
const EOF: [u8; 5] = [0xfe, 0, 0, 2, 0];
const RANGE_ROWS: usize = 100;
/// A value as long as sysbench's in column c.
const TEXT: [u8; 119] = [b'5'; 119];

const COM_QUIT: u8 = 0x01;
const COM_QUERY: u8 = 0x03;
const COM_STMT_PREPARE: u8 = 0x16;
const COM_STMT_EXECUTE: u8 = 0x17;
const COM_STMT_SEND_LONG_DATA: u8 = 0x18;
const COM_STMT_CLOSE: u8 = 0x19;

pub enum Answer {
    /// The answer, if there is one, is in the output.
    Written,
    /// The answer is OK, once the commit is durable.
    Commit,
    Quit,
}

#[derive(Clone, Copy)]
enum Statement {
    Begin,
    Commit,
    Write,
    Select { rows: usize },
    Other,
}

#[derive(Default)]
pub struct Session {
    greeted: bool,
    in_transaction: bool,
    prepared: Vec<Statement>,
}

impl Session {
    /// Answers one packet's body into `out`.
    pub fn answer(&mut self, body: &[u8], out: &mut Vec<u8>) -> Answer {
        if !std::mem::replace(&mut self.greeted, true) {
            ok(2, out);
            return Answer::Written;
        }
        match body.split_first() {
            Some((&COM_QUIT, _)) => return Answer::Quit,
            Some((&COM_QUERY, sql)) => return self.execute(statement(sql), false, out),
            Some((&COM_STMT_PREPARE, sql)) => self.prepare(sql, out),
            Some((&COM_STMT_EXECUTE, rest)) => {
                let id = rest.first_chunk().map_or(0, |id| u32::from_le_bytes(*id)) as usize;
                let statement = id.checked_sub(1).and_then(|i| self.prepared.get(i));
                return self.execute(statement.copied().unwrap_or(Statement::Other), true, out);
            }
            Some((&COM_STMT_CLOSE | &COM_STMT_SEND_LONG_DATA, _)) => {}
            _ => ok(1, out),
        }
        Answer::Written
    }

    fn execute(&mut self, statement: Statement, binary: bool, out: &mut Vec<u8>) -> Answer {
        match statement {
            Statement::Begin => self.in_transaction = true,
            Statement::Commit => {
                self.in_transaction = false;
                return Answer::Commit;
            }
            Statement::Write if !self.in_transaction => return Answer::Commit,
            Statement::Select { rows } => {
                result_set(rows, binary, out);
                return Answer::Written;
            }
            Statement::Write | Statement::Other => {}
        }
        ok(1, out);
        Answer::Written
    }

    fn prepare(&mut self, sql: &[u8], out: &mut Vec<u8>) {
        let statement = statement(sql);
        self.prepared.push(statement);
        let columns = matches!(statement, Statement::Select { .. }) as u16;
        let params = sql.iter().filter(|c| **c == b'?').count() as u16;
        let mut body = vec![0];
        body.extend((self.prepared.len() as u32).to_le_bytes());
        body.extend(columns.to_le_bytes());
        body.extend(params.to_le_bytes());
        body.extend([0, 0, 0]);
        packet(1, &body, out);
        let mut sequence = 2;
        for count in [params, columns] {
            for _ in 0..count {
                packet(sequence, &column(), out);
                sequence = sequence.wrapping_add(1);
            }
            if count > 0 {
                packet(sequence, &EOF, out);
                sequence = sequence.wrapping_add(1);
            }
        }
    }
}

fn statement(sql: &[u8]) -> Statement {
    let word =
        sql.split(|c| c.is_ascii_whitespace()).next().unwrap_or_default().to_ascii_uppercase();
    match word.as_slice() {
        b"BEGIN" | b"START" => Statement::Begin,
        b"COMMIT" => Statement::Commit,
        b"UPDATE" | b"INSERT" | b"DELETE" => Statement::Write,
        b"SELECT" => {
            let many =
                sql.windows(7).any(|w| w == b"BETWEEN") && !sql.windows(3).any(|w| w == b"SUM");
            Statement::Select { rows: if many { RANGE_ROWS } else { 1 } }
        }
        _ => Statement::Other,
    }
}

/// The body of the packet at the start of `input`, if the packet is complete.
pub fn body(input: &[u8]) -> Option<&[u8]> {
    let [a, b, c, _] = *input.first_chunk()?;
    input.get(HEADER..HEADER + u32::from_le_bytes([a, b, c, 0]) as usize)
}

fn packet(sequence: u8, body: &[u8], out: &mut Vec<u8>) {
    out.extend(&(body.len() as u32).to_le_bytes()[..3]);
    out.push(sequence);
    out.extend(body);
}

pub fn ok(sequence: u8, out: &mut Vec<u8>) {
    packet(sequence, &[0, 1, 0, 2, 0, 0, 0], out);
}

pub fn greet(out: &mut Vec<u8>) {
    let mut body = b"\x0a8.0.36-redolith-baseline\0\x01\0\0\0saltsalt\0".to_vec();
    let [c0, c1, c2, c3] = CAPABILITIES.to_le_bytes();
    body.extend([c0, c1, 45, 2, 0, c2, c3, 21]);
    body.extend([0; 10]);
    body.extend(b"saltsaltsalt\0mysql_native_password\0");
    packet(0, &body, out);
}

/// A column of type CHAR(120). sysbench ignores its schema, table and names.
fn column() -> [u8; 23] {
    *b"\x03def\0\0\0\x01c\0\x0c\x2d\0\x78\0\0\0\xfe\0\0\0\0\0"
}

fn result_set(rows: usize, binary: bool, out: &mut Vec<u8>) {
    packet(1, &[1], out);
    packet(2, &column(), out);
    packet(3, &EOF, out);
    // Binary rows begin with a zero and the null bitmap.
    let mut row = if binary { vec![0, 0] } else { vec![] };
    row.push(TEXT.len() as u8);
    row.extend(TEXT);
    for i in 0..rows {
        packet((4 + i) as u8, &row, out);
    }
    packet((4 + rows) as u8, &EOF, out);
}
