//! Capability and status flags, commands and field types of protocol 4.1, with the protocol's own
//! names.

/// The capabilities on which server and client agree in the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Capabilities(pub u32);

impl Capabilities {
    pub const LONG_PASSWORD: Capabilities = Capabilities(1);
    pub const FOUND_ROWS: Capabilities = Capabilities(1 << 1);
    pub const LONG_FLAG: Capabilities = Capabilities(1 << 2);
    pub const CONNECT_WITH_DB: Capabilities = Capabilities(1 << 3);
    pub const LOCAL_FILES: Capabilities = Capabilities(1 << 7);
    pub const IGNORE_SPACE: Capabilities = Capabilities(1 << 8);
    pub const PROTOCOL_41: Capabilities = Capabilities(1 << 9);
    pub const INTERACTIVE: Capabilities = Capabilities(1 << 10);
    pub const SSL: Capabilities = Capabilities(1 << 11);
    pub const TRANSACTIONS: Capabilities = Capabilities(1 << 13);
    pub const SECURE_CONNECTION: Capabilities = Capabilities(1 << 15);
    pub const MULTI_STATEMENTS: Capabilities = Capabilities(1 << 16);
    pub const MULTI_RESULTS: Capabilities = Capabilities(1 << 17);
    pub const PS_MULTI_RESULTS: Capabilities = Capabilities(1 << 18);
    pub const PLUGIN_AUTH: Capabilities = Capabilities(1 << 19);
    pub const CONNECT_ATTRS: Capabilities = Capabilities(1 << 20);
    pub const PLUGIN_AUTH_LENENC: Capabilities = Capabilities(1 << 21);
    pub const DEPRECATE_EOF: Capabilities = Capabilities(1 << 24);

    /// The capabilities that this server offers. It has no TLS, compression or session
    /// tracking. LOCAL_FILES is offered whatever `local_infile` is, which may change later.
    pub const SERVER: Capabilities = Capabilities(
        Self::LONG_PASSWORD.0
            | Self::FOUND_ROWS.0
            | Self::LONG_FLAG.0
            | Self::CONNECT_WITH_DB.0
            | Self::LOCAL_FILES.0
            | Self::IGNORE_SPACE.0
            | Self::PROTOCOL_41.0
            | Self::INTERACTIVE.0
            | Self::TRANSACTIONS.0
            | Self::SECURE_CONNECTION.0
            | Self::MULTI_STATEMENTS.0
            | Self::MULTI_RESULTS.0
            | Self::PS_MULTI_RESULTS.0
            | Self::PLUGIN_AUTH.0
            | Self::CONNECT_ATTRS.0
            | Self::PLUGIN_AUTH_LENENC.0
            | Self::DEPRECATE_EOF.0,
    );

    pub fn has(self, flag: Capabilities) -> bool {
        self.0 & flag.0 == flag.0
    }
    pub fn with(self, flag: Capabilities, on: bool) -> Capabilities {
        Capabilities(if on { self.0 | flag.0 } else { self.0 & !flag.0 })
    }
    pub fn and(self, other: Capabilities) -> Capabilities {
        Capabilities(self.0 & other.0)
    }
}

/// SERVER_STATUS_* of OK and EOF packets.
pub mod status {
    pub const IN_TRANSACTION: u16 = 1;
    pub const AUTOCOMMIT: u16 = 2;
    pub const MORE_RESULTS: u16 = 8;
    pub const CURSOR_EXISTS: u16 = 64;
    pub const LAST_ROW_SENT: u16 = 128;
}

/// COM_*: the first byte of a command packet.
pub mod command {
    pub const SLEEP: u8 = 0x00;
    pub const QUIT: u8 = 0x01;
    pub const INIT_DB: u8 = 0x02;
    pub const QUERY: u8 = 0x03;
    pub const FIELD_LIST: u8 = 0x04;
    pub const STATISTICS: u8 = 0x09;
    pub const PROCESS_KILL: u8 = 0x0c;
    pub const PING: u8 = 0x0e;
    pub const CONNECT: u8 = 0x0b;
    pub const CHANGE_USER: u8 = 0x11;
    pub const BINLOG_DUMP: u8 = 0x12;
    pub const REGISTER_SLAVE: u8 = 0x15;
    pub const STMT_PREPARE: u8 = 0x16;
    pub const STMT_EXECUTE: u8 = 0x17;
    pub const STMT_SEND_LONG_DATA: u8 = 0x18;
    pub const STMT_CLOSE: u8 = 0x19;
    pub const STMT_RESET: u8 = 0x1a;
    pub const SET_OPTION: u8 = 0x1b;
    pub const STMT_FETCH: u8 = 0x1c;
    pub const BINLOG_DUMP_GTID: u8 = 0x1e;
    pub const RESET_CONNECTION: u8 = 0x1f;
}

/// MYSQL_TYPE_* of column definitions and statement parameters.
pub mod field_type {
    pub const DECIMAL: u8 = 0;
    pub const TINY: u8 = 1;
    pub const SHORT: u8 = 2;
    pub const LONG: u8 = 3;
    pub const FLOAT: u8 = 4;
    pub const DOUBLE: u8 = 5;
    pub const NULL: u8 = 6;
    pub const TIMESTAMP: u8 = 7;
    pub const LONGLONG: u8 = 8;
    pub const INT24: u8 = 9;
    pub const DATE: u8 = 10;
    pub const TIME: u8 = 11;
    pub const DATETIME: u8 = 12;
    pub const YEAR: u8 = 13;
    pub const NEWDATE: u8 = 14;
    pub const VARCHAR: u8 = 15;
    pub const BIT: u8 = 16;
    pub const JSON: u8 = 245;
    pub const NEWDECIMAL: u8 = 246;
    pub const ENUM: u8 = 247;
    pub const SET: u8 = 248;
    pub const TINY_BLOB: u8 = 249;
    pub const MEDIUM_BLOB: u8 = 250;
    pub const LONG_BLOB: u8 = 251;
    pub const BLOB: u8 = 252;
    pub const VAR_STRING: u8 = 253;
    pub const STRING: u8 = 254;
    pub const GEOMETRY: u8 = 255;
}

/// Flags of a column definition.
pub mod field_flag {
    pub const NOT_NULL: u16 = 1;
    pub const PRI_KEY: u16 = 2;
    pub const UNIQUE_KEY: u16 = 4;
    pub const MULTIPLE_KEY: u16 = 8;
    pub const BLOB: u16 = 16;
    pub const UNSIGNED: u16 = 32;
    pub const ZEROFILL: u16 = 64;
    pub const BINARY: u16 = 128;
    pub const ENUM: u16 = 256;
    pub const AUTO_INCREMENT: u16 = 512;
    pub const TIMESTAMP: u16 = 1024;
    pub const SET: u16 = 2048;
    pub const NO_DEFAULT_VALUE: u16 = 4096;
    pub const NUM: u16 = 32768;
}
