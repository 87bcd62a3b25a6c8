//! The bytes that a client sends: packets, the login, parameters of prepared statements.
use crate::take;
use redolith_server::protocol::capabilities::Capabilities;
use redolith_server::protocol::handshake::Login;
use redolith_server::protocol::lenenc::{Reader, put_int};
use redolith_server::protocol::packet::{PacketBuffer, PacketError};
use redolith_server::protocol::parameters::{ParameterType, Parameters};
use redolith_types::Value;

/// Feeds a stream in parts. The bodies must be the same however the stream is cut, and no header
/// may make the buffer larger than the bytes that have arrived.
pub fn packets(data: &[u8]) {
    let ([step, limit, trims], stream) = take::<3>(data);
    let max_body = 16 << (limit % 12);
    let whole = bodies(stream, stream.len().max(1), max_body, false);
    let parts = bodies(stream, 1 + step as usize % 64, max_body, trims % 2 == 1);
    assert_eq!(whole, parts, "PKT-1: a cut makes no difference");
}

/// The bodies up to the first refused packet, and the error of that packet.
fn bodies(
    stream: &[u8],
    step: usize,
    max_body: usize,
    trims: bool,
) -> (Vec<Vec<u8>>, Option<PacketError>) {
    let (mut buffer, mut got, mut sequence) = (PacketBuffer::default(), Vec::new(), 0);
    let mut arrived = 0;
    for part in stream.chunks(step) {
        buffer.room().extend_from_slice(part);
        arrived += part.len();
        assert!(buffer.capacity() <= 4 * arrived + 4096, "PKT-2");
        loop {
            match buffer.next(&mut sequence, max_body) {
                Ok(Some(body)) => got.push(buffer.body(body).to_vec()),
                Ok(None) => break,
                Err(e) => {
                    if e == PacketError::TooLarge {
                        buffer.discard(&mut sequence);
                    }
                    return (got, Some(e));
                }
            }
            sequence = 0;
        }
        if trims {
            buffer.trim();
        }
    }
    (got, None)
}

pub fn packet_seeds() -> Vec<Vec<u8>> {
    vec![
        b"\x01\x05\0\x05\0\0\0\x03SEL1\x01\0\0\0\x01".to_vec(),
        b"\x05\x01\x01\0\0\0\0\x03\0\0\0abc".to_vec(),
        b"\x02\0\0\xff\xff\xff\0x".to_vec(),
    ]
}

/// Reads the input as the answer to the greeting and as COM_CHANGE_USER.
pub fn handshake(data: &[u8]) {
    let _ = Login::read(data);
    let ([a, b, c, d], body) = take::<4>(data);
    let capabilities = Capabilities(u32::from_le_bytes([a, b, c, d]));
    let _ = Login::read_change_user(body, capabilities, 45);
    let mut integers = Reader::new(body);
    while let Ok(n) = integers.int() {
        let mut again = Vec::new();
        put_int(&mut again, n);
        assert_eq!(Reader::new(&again).int(), Ok(n));
    }
    let mut strings = Reader::new(body);
    while strings.string().is_ok() {}
    let mut strings = Reader::new(body);
    while strings.nul_string().is_ok() {}
}

pub fn handshake_seeds() -> Vec<Vec<u8>> {
    let login = |capabilities: u32, rest: &[u8]| {
        let mut b = capabilities.to_le_bytes().to_vec();
        b.extend_from_slice(&[0, 0, 0, 1, 45]);
        b.extend_from_slice(&[0; 23]);
        b.extend_from_slice(rest);
        b
    };
    vec![
        login(
            0x01ff_a28d,
            b"root\0\x14aaaaaaaaaaaaaaaaaaaadb\0mysql_native_password\0\x08\x03_os\x03abc",
        ),
        login(0x000f_a28d, b"root\0\0mysql_native_password\0"),
        login(0x0020_0200, b"root\0\xfc\x02\0xy"),
    ]
}

/// COM_STMT_EXECUTE: the input is the number of the statement's parameters, then the body after its
/// head.
pub fn execute(data: &[u8]) {
    let ([count, long], body) = take::<2>(data);
    let n = 1 + count as usize % 70;
    let Ok(parameters) = Parameters::read(body, n) else { return };
    let known: Vec<ParameterType> = match parameters.types() {
        Some(types) => types.collect(),
        // The types stand for those of an earlier execution.
        None => (0..n)
            .map(|i| ParameterType { field_type: body[i % body.len()], unsigned: i % 2 == 0 })
            .collect(),
    };
    assert_eq!(known.len(), n);
    let mut values: Vec<Value<'_>> = Vec::new();
    let sent = parameters.values(
        &known,
        |i| (long as usize == i + 1).then_some(&b"long"[..]),
        &mut values,
    );
    assert!(values.len() <= n && (sent.is_err() || values.len() == n));
    for v in &values {
        // Every value can be formatted and converted to each column type.
        let _ = v.to_string();
    }
}

pub fn execute_seeds() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> =
        (0..=255u8).map(|kind| [&[0, 0, 0, 1, kind, 0, 12][..], &[7; 16]].concat()).collect();
    all.push(b"\x01\0\0\x01\x03\0\xfd\0\x07\0\0\0\x03abc".to_vec());
    all.push(b"\x01\x02\x01\0abc".to_vec());
    all
}
