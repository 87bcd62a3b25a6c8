//! The header of every event.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 4 | time, seconds since 1970 UTC; 0 in an event that is not in a file |
//! | 4 | 1 | type ([`EventType`]) |
//! | 5 | 4 | server id |
//! | 9 | 4 | length of the event, with the header and the checksum |
//! | 13 | 4 | position behind the event in its file, modulo 2^32; 0 in an event made for a replica |
//! | 17 | 2 | flags ([`flags`]) |
use crate::DecodeError;
use crate::bytes::{Input, put_u16, put_u32};

/// Flags of an event's header.
pub mod flags {
    /// FORMAT_DESCRIPTION: the file is open, or was not closed cleanly.
    pub const IN_USE: u16 = 0x1;
    /// QUERY: the statement does not depend on the default database (`LOG_EVENT_SUPPRESS_USE_F`).
    /// BEGIN, CREATE DATABASE and DROP DATABASE carry it.
    pub const SUPPRESS_USE: u16 = 0x8;
    /// The event was made for a replica and is in no file.
    pub const ARTIFICIAL: u16 = 0x20;
    /// A reader that does not know the type may go on without the event.
    pub const IGNORABLE: u16 = 0x80;
}

pub(crate) const TYPE_AT: usize = 4;
pub(crate) const LEN_AT: usize = 9;
pub(crate) const END_AT: usize = 13;
pub(crate) const FLAGS_AT: usize = 17;

/// The type of an event. Any number may stand in a file, so the type is not an `enum`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventType(pub u8);

macro_rules! event_types {
    ($($code:literal $name:ident $text:literal $mysql:literal;)*) => {
        impl EventType {
            $(#[doc = $text] pub const $name: EventType = EventType($code);)*

            /// The name that SHOW BINLOG EVENTS prints. "Unknown" for a type without a constant
            /// here.
            pub fn name(self) -> &'static str {
                match self {
                    $(EventType::$name => $mysql,)*
                    _ => "Unknown",
                }
            }
        }
    };
}
event_types! {
    2 QUERY "A statement's text." "Query";
    3 STOP "The server was stopped." "Stop";
    4 ROTATE "The name of the next file." "Rotate";
    15 FORMAT_DESCRIPTION "The first event of a file." "Format_desc";
    16 XID "The commit of a transaction." "Xid";
    19 TABLE_MAP "The columns of a table whose rows follow." "Table_map";
    26 INCIDENT "The log has a gap." "Incident";
    27 HEARTBEAT "The source has nothing to send." "Heartbeat";
    29 ROWS_QUERY "The text of the statement whose rows follow." "Rows_query";
    30 WRITE_ROWS "Inserted rows." "Write_rows";
    31 UPDATE_ROWS "Updated rows." "Update_rows";
    32 DELETE_ROWS "Deleted rows." "Delete_rows";
    33 GTID "The name of the transaction that follows." "Gtid";
    34 ANONYMOUS_GTID "A transaction without a name follows." "Anonymous_Gtid";
    35 PREVIOUS_GTIDS "The transactions of all files before." "Previous_gtids";
    38 XA_PREPARE "XA PREPARE, or a commit in one phase." "XA_prepare";
    162 MARIADB_GTID "The name of the transaction that follows, in a log of MariaDB." "Gtid";
    163 MARIADB_GTID_LIST "The transactions of all files before, in a log of MariaDB." "Gtid_list";
}

impl std::fmt::Debug for EventType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

/// The header of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Seconds since 1970 UTC.
    pub timestamp: u32,
    /// The type.
    pub event_type: EventType,
    /// The server that first wrote the event.
    pub server_id: u32,
    /// The length of the event, with this header and the checksum.
    pub len: u32,
    /// The position behind the event in its file, modulo 2^32.
    pub end_pos: u32,
    /// The flags.
    pub flags: u16,
}

impl Header {
    /// Bytes of a header.
    pub const LEN: usize = 19;

    /// Appends the header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_u32(out, self.timestamp);
        out.push(self.event_type.0);
        put_u32(out, self.server_id);
        put_u32(out, self.len);
        put_u32(out, self.end_pos);
        put_u16(out, self.flags);
    }

    /// Reads the header at the start of `bytes`. Its fields may have any value.
    pub fn decode(bytes: &[u8]) -> Result<Header, DecodeError> {
        let mut input = Input::new(bytes, "an event's header");
        Ok(Header {
            timestamp: input.u32()?,
            event_type: EventType(input.u8()?),
            server_id: input.u32()?,
            len: input.u32()?,
            end_pos: input.u32()?,
            flags: input.u16()?,
        })
    }
}

/// When and by whom an event is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Seconds since 1970 UTC: when the statement began.
    pub timestamp: u32,
    /// `server_id`.
    pub server_id: u32,
}
