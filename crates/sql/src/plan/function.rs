//! The built-in functions, one line each: name, number of arguments, type of the result. The
//! executor evaluates a call by the function's id.
//!
//! **FN-1** A function is *pure* unless its line says otherwise: the same arguments give the same
//! value, so the binder may fold a call. A `Statement` function is constant within a statement
//! (NOW()). A `Volatile` function may give another value at every call (RAND(), UUID(), SLEEP()).

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purity {
    Pure,
    /// Depends on the session or the statement's start: the binder does not fold the call, but the
    /// call may be a key bound.
    Statement,
    Volatile,
}

/// The rule by which the result's type follows from the arguments' types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Returns {
    /// BIGINT with this display width, in characters.
    Int(u32),
    UInt(u32),
    Double,
    /// The numeric type of the first argument (ABS, ROUND, ...).
    Number,
    /// BIGINT with the first argument's digits (CEIL, FLOOR); DOUBLE stays DOUBLE, without digits
    /// behind the point.
    Integral,
    /// A string in the collation of the first argument and at most as long.
    SameString,
    /// A string as long as all arguments together.
    Concat,
    /// A string of at most this many characters, in the collation of the arguments that are
    /// strings.
    Text(u32),
    /// A string of at most this many characters in the connection's collation, whatever the
    /// arguments are (HEX, MD5, DATE_FORMAT).
    Ascii(u32),
    /// A string of at most this many characters in utf8mb4_general_ci with system coercibility
    /// (USER(), VERSION()).
    System(u32),
    /// A string of at most this many bytes.
    Binary(u32),
    Json,
    /// The text of a JSON value: of any length, in utf8mb4_bin.
    JsonText,
    Date,
    /// The fraction digits are those of the first argument (for NOW(n), the literal precision).
    Time,
    DateTime,
    /// The common type of all arguments from the n-th on (COALESCE 0, IF 1).
    Unified(u8),
    /// The type of the argument of this number, nullable.
    Typed(u8),
    /// The first argument's type, nullable (NULLIF).
    First,
}

macro_rules! functions {
    ($($id:ident $name:literal $min:literal..=$max:literal $returns:expr, $purity:ident;)*) => {
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Function { $($id),* }
        impl Function {
            /// Finds a function by its upper-case name.
            pub fn by_name(name: &str) -> Option<Function> {
                Some(match name { $($name => Function::$id,)* _ => return alias(name) })
            }
            pub fn name(self) -> &'static str {
                match self { $(Function::$id => $name),* }
            }
            /// The least and the greatest number of arguments.
            pub fn arity(self) -> (usize, usize) {
                match self { $(Function::$id => ($min, $max)),* }
            }
            pub fn returns(self) -> Returns {
                #[allow(unused_imports)]
                use Returns::*;
                match self { $(Function::$id => $returns),* }
            }
            pub fn purity(self) -> Purity {
                match self { $(Function::$id => Purity::$purity),* }
            }
        }
    };
}

functions! {
    // numbers
    Abs "ABS" 1..=1 Number, Pure;
    Ceiling "CEILING" 1..=1 Integral, Pure;
    Floor "FLOOR" 1..=1 Integral, Pure;
    Round "ROUND" 1..=2 Number, Pure;
    Truncate "TRUNCATE" 2..=2 Number, Pure;
    Sign "SIGN" 1..=1 Int(2), Pure;
    Sqrt "SQRT" 1..=1 Double, Pure;
    Power "POWER" 2..=2 Double, Pure;
    Exp "EXP" 1..=1 Double, Pure;
    Ln "LN" 1..=1 Double, Pure;
    Log "LOG" 1..=2 Double, Pure;
    Log2 "LOG2" 1..=1 Double, Pure;
    Log10 "LOG10" 1..=1 Double, Pure;
    Pi "PI" 0..=0 Double, Pure;
    Sin "SIN" 1..=1 Double, Pure;
    Cos "COS" 1..=1 Double, Pure;
    Tan "TAN" 1..=1 Double, Pure;
    Cot "COT" 1..=1 Double, Pure;
    Asin "ASIN" 1..=1 Double, Pure;
    Acos "ACOS" 1..=1 Double, Pure;
    Atan "ATAN" 1..=2 Double, Pure;
    Degrees "DEGREES" 1..=1 Double, Pure;
    Radians "RADIANS" 1..=1 Double, Pure;
    Rand "RAND" 0..=1 Double, Volatile;
    Crc32 "CRC32" 1..=1 UInt(10), Pure;
    BitCount "BIT_COUNT" 1..=1 Int(2), Pure;
    FormatBytes "FORMAT_BYTES" 1..=1 System(17), Pure;
    FormatPicoTime "FORMAT_PICO_TIME" 1..=1 System(17), Pure;
    // choices
    If "IF" 3..=3 Unified(1), Pure;
    IfNull "IFNULL" 2..=2 Unified(0), Pure;
    NullIf "NULLIF" 2..=2 First, Pure;
    Coalesce "COALESCE" 1..=65535 Unified(0), Pure;
    Greatest "GREATEST" 2..=65535 Unified(0), Pure;
    Least "LEAST" 2..=65535 Unified(0), Pure;
    IsNull "ISNULL" 1..=1 Int(1), Pure;
    Field "FIELD" 2..=65535 Int(3), Pure;
    Elt "ELT" 2..=65535 Unified(1), Pure;
    Interval "INTERVAL" 2..=65535 Int(3), Pure;
    // strings
    Concat "CONCAT" 1..=65535 Concat, Pure;
    ConcatWs "CONCAT_WS" 2..=65535 Concat, Pure;
    Length "LENGTH" 1..=1 Int(10), Pure;
    CharLength "CHAR_LENGTH" 1..=1 Int(10), Pure;
    BitLength "BIT_LENGTH" 1..=1 Int(11), Pure;
    Lower "LOWER" 1..=1 SameString, Pure;
    Upper "UPPER" 1..=1 SameString, Pure;
    Left "LEFT" 2..=2 SameString, Pure;
    Right "RIGHT" 2..=2 SameString, Pure;
    Substring "SUBSTRING" 2..=3 SameString, Pure;
    SubstringIndex "SUBSTRING_INDEX" 3..=3 SameString, Pure;
    Trim "TRIM" 1..=2 SameString, Pure;
    TrimLeading "LTRIM" 1..=2 SameString, Pure;
    TrimTrailing "RTRIM" 1..=2 SameString, Pure;
    Reverse "REVERSE" 1..=1 SameString, Pure;
    Repeat "REPEAT" 2..=2 Text(16_777_215), Pure;
    Replace "REPLACE" 3..=3 Text(16_777_215), Pure;
    Insert "INSERT" 4..=4 Concat, Pure;
    Lpad "LPAD" 3..=3 Text(16_777_215), Pure;
    Rpad "RPAD" 3..=3 Text(16_777_215), Pure;
    Space "SPACE" 1..=1 Ascii(16_777_215), Pure;
    Locate "LOCATE" 2..=3 Int(11), Pure;
    Instr "INSTR" 2..=2 Int(11), Pure;
    // LIKE .. ESCAPE of a value that is known when the statement runs: the pattern with a backslash
    // in the place of that escape character. Statements cannot name it, for by_name knows names in
    // upper case.
    LikePattern "like pattern" 2..=2 SameString, Pure;
    RegexpLike "REGEXP_LIKE" 2..=3 Int(1), Pure;
    RegexpInstr "REGEXP_INSTR" 2..=6 Int(21), Pure;
    RegexpSubstr "REGEXP_SUBSTR" 2..=5 Text(16_777_215), Pure;
    RegexpReplace "REGEXP_REPLACE" 3..=6 Text(16_777_215), Pure;
    FindInSet "FIND_IN_SET" 2..=2 Int(3), Pure;
    Strcmp "STRCMP" 2..=2 Int(2), Pure;
    Ascii "ASCII" 1..=1 Int(3), Pure;
    Ord "ORD" 1..=1 Int(21), Pure;
    Char "CHAR" 1..=65535 Binary(4), Pure;
    Hex "HEX" 1..=1 Ascii(16_777_215), Pure;
    Unhex "UNHEX" 1..=1 Binary(16_777_215), Pure;
    Bin "BIN" 1..=1 Ascii(64), Pure;
    Oct "OCT" 1..=1 Ascii(64), Pure;
    Conv "CONV" 3..=3 Ascii(64), Pure;
    Quote "QUOTE" 1..=1 Text(16_777_215), Pure;
    Format "FORMAT" 2..=3 Ascii(64), Pure;
    MakeSet "MAKE_SET" 2..=65535 Concat, Pure;
    ExportSet "EXPORT_SET" 3..=5 Concat, Pure;
    Soundex "SOUNDEX" 1..=1 SameString, Pure;
    GtidSubset "GTID_SUBSET" 2..=2 Int(1), Pure;
    GtidSubtract "GTID_SUBTRACT" 2..=2 Ascii(16_777_215), Pure;
    BinlogGtidPos "BINLOG_GTID_POS" 2..=2 Ascii(64), Volatile;
    Md5 "MD5" 1..=1 Ascii(32), Pure;
    Sha1 "SHA1" 1..=1 Ascii(40), Pure;
    Sha2 "SHA2" 2..=2 Ascii(128), Pure;
    ToBase64 "TO_BASE64" 1..=1 Ascii(16_777_215), Pure;
    FromBase64 "FROM_BASE64" 1..=1 Binary(16_777_215), Pure;
    AesEncrypt "AES_ENCRYPT" 2..=3 Binary(16_777_215), Statement;
    AesDecrypt "AES_DECRYPT" 2..=3 Binary(16_777_215), Statement;
    Compress "COMPRESS" 1..=1 Binary(16_777_215), Pure;
    Uncompress "UNCOMPRESS" 1..=1 Binary(16_777_215), Pure;
    UncompressedLength "UNCOMPRESSED_LENGTH" 1..=1 Int(10), Pure;
    LoadFile "LOAD_FILE" 1..=1 Binary(16_777_215), Volatile;
    Charset "CHARSET" 1..=1 System(64), Pure;
    CollationOf "COLLATION" 1..=1 System(64), Pure;
    Coercibility "COERCIBILITY" 1..=1 Int(10), Pure;
    Uuid "UUID" 0..=0 System(36), Volatile;
    UuidToBin "UUID_TO_BIN" 1..=2 Binary(16), Pure;
    BinToUuid "BIN_TO_UUID" 1..=2 Ascii(36), Pure;
    IsUuid "IS_UUID" 1..=1 Int(1), Pure;
    UuidShort "UUID_SHORT" 0..=0 UInt(21), Volatile;
    RandomBytes "RANDOM_BYTES" 1..=1 Binary(1024), Volatile;
    InetAton "INET_ATON" 1..=1 UInt(21), Pure;
    InetNtoa "INET_NTOA" 1..=1 Ascii(15), Pure;
    Inet6Aton "INET6_ATON" 1..=1 Binary(16), Pure;
    Inet6Ntoa "INET6_NTOA" 1..=1 Ascii(39), Pure;
    IsIpv4 "IS_IPV4" 1..=1 Int(1), Pure;
    IsIpv6 "IS_IPV6" 1..=1 Int(1), Pure;
    IsIpv4Compat "IS_IPV4_COMPAT" 1..=1 Int(1), Pure;
    IsIpv4Mapped "IS_IPV4_MAPPED" 1..=1 Int(1), Pure;
    // JSON
    JsonExtract "JSON_EXTRACT" 2..=65535 Json, Pure;
    JsonUnquote "JSON_UNQUOTE" 1..=1 JsonText, Pure;
    JsonQuote "JSON_QUOTE" 1..=1 JsonText, Pure;
    JsonPretty "JSON_PRETTY" 1..=1 JsonText, Pure;
    JsonValid "JSON_VALID" 1..=1 Int(1), Pure;
    JsonType "JSON_TYPE" 1..=1 JsonText, Pure;
    JsonLength "JSON_LENGTH" 1..=2 Int(21), Pure;
    JsonDepth "JSON_DEPTH" 1..=1 Int(21), Pure;
    JsonStorageSize "JSON_STORAGE_SIZE" 1..=1 Int(21), Pure;
    JsonStorageFree "JSON_STORAGE_FREE" 1..=1 Int(21), Pure;
    JsonKeys "JSON_KEYS" 1..=2 Json, Pure;
    JsonContains "JSON_CONTAINS" 2..=3 Int(1), Pure;
    JsonContainsPath "JSON_CONTAINS_PATH" 3..=65535 Int(1), Pure;
    JsonSearch "JSON_SEARCH" 3..=65535 Json, Pure;
    JsonOverlaps "JSON_OVERLAPS" 2..=2 Int(1), Pure;
    JsonMember "MEMBER OF" 2..=2 Int(1), Pure;
    JsonArray "JSON_ARRAY" 0..=65535 Json, Pure;
    JsonObject "JSON_OBJECT" 0..=65535 Json, Pure;
    JsonSet "JSON_SET" 3..=65535 Json, Pure;
    JsonInsert "JSON_INSERT" 3..=65535 Json, Pure;
    JsonReplace "JSON_REPLACE" 3..=65535 Json, Pure;
    JsonRemove "JSON_REMOVE" 2..=65535 Json, Pure;
    JsonArrayAppend "JSON_ARRAY_APPEND" 3..=65535 Json, Pure;
    JsonArrayInsert "JSON_ARRAY_INSERT" 3..=65535 Json, Pure;
    JsonMergePreserve "JSON_MERGE_PRESERVE" 2..=65535 Json, Pure;
    JsonMergePatch "JSON_MERGE_PATCH" 2..=65535 Json, Pure;
    // The third argument says what happens where there is no value and where there is an error: two
    // letters of n (NULL), e (error) and d (the default, which is the fifth or sixth argument). The
    // fourth is NULL of the type that is returned.
    JsonValue "JSON_VALUE" 6..=6 Typed(3), Pure;
    // dates and times
    Now "NOW" 0..=1 DateTime, Statement;
    SysDate "SYSDATE" 0..=1 DateTime, Volatile;
    UtcTimestamp "UTC_TIMESTAMP" 0..=1 DateTime, Statement;
    CurDate "CURDATE" 0..=0 Date, Statement;
    UtcDate "UTC_DATE" 0..=0 Date, Statement;
    CurTime "CURTIME" 0..=1 Time, Statement;
    UtcTime "UTC_TIME" 0..=1 Time, Statement;
    UnixTimestamp "UNIX_TIMESTAMP" 0..=1 UInt(11), Statement;
    FromUnixTime "FROM_UNIXTIME" 1..=2 DateTime, Statement;
    Date "DATE" 1..=1 Date, Pure;
    Time "TIME" 1..=1 Time, Pure;
    Timestamp "TIMESTAMP" 1..=2 DateTime, Pure;
    Year "YEAR" 1..=1 Int(4), Pure;
    Quarter "QUARTER" 1..=1 Int(1), Pure;
    Month "MONTH" 1..=1 Int(2), Pure;
    DayOfMonth "DAYOFMONTH" 1..=1 Int(2), Pure;
    DayOfWeek "DAYOFWEEK" 1..=1 Int(1), Pure;
    DayOfYear "DAYOFYEAR" 1..=1 Int(3), Pure;
    Weekday "WEEKDAY" 1..=1 Int(1), Pure;
    Week "WEEK" 1..=2 Int(2), Pure;
    YearWeek "YEARWEEK" 1..=2 Int(6), Pure;
    Hour "HOUR" 1..=1 Int(3), Pure;
    Minute "MINUTE" 1..=1 Int(2), Pure;
    Second "SECOND" 1..=1 Int(2), Pure;
    Microsecond "MICROSECOND" 1..=1 Int(6), Pure;
    DayName "DAYNAME" 1..=1 Ascii(9), Pure;
    MonthName "MONTHNAME" 1..=1 Ascii(9), Pure;
    LastDay "LAST_DAY" 1..=1 Date, Pure;
    DateDiff "DATEDIFF" 2..=2 Int(7), Pure;
    TimeDiff "TIMEDIFF" 2..=2 Time, Pure;
    // The first argument of these two is the unit, a literal string in upper case.
    Extract "EXTRACT" 2..=2 Int(21), Pure;
    TimestampDiff "TIMESTAMPDIFF" 3..=3 Int(21), Pure;
    AddTime "ADDTIME" 2..=2 DateTime, Pure;
    SubTime "SUBTIME" 2..=2 DateTime, Pure;
    MakeDate "MAKEDATE" 2..=2 Date, Pure;
    MakeTime "MAKETIME" 3..=3 Time, Pure;
    ToDays "TO_DAYS" 1..=1 Int(7), Pure;
    FromDays "FROM_DAYS" 1..=1 Date, Pure;
    TimeToSec "TIME_TO_SEC" 1..=1 Int(10), Pure;
    SecToTime "SEC_TO_TIME" 1..=1 Time, Pure;
    ToSeconds "TO_SECONDS" 1..=1 Int(12), Pure;
    DateFormat "DATE_FORMAT" 2..=2 Ascii(240), Pure;
    TimeFormat "TIME_FORMAT" 2..=2 Ascii(240), Pure;
    StrToDate "STR_TO_DATE" 2..=2 DateTime, Pure;
    PeriodAdd "PERIOD_ADD" 2..=2 Int(6), Pure;
    PeriodDiff "PERIOD_DIFF" 2..=2 Int(6), Pure;
    // The first argument is DATE, TIME or DATETIME, a literal string.
    GetFormat "GET_FORMAT" 2..=2 Ascii(17), Pure;
    ConvertTz "CONVERT_TZ" 3..=3 DateTime, Statement;
    // groups
    Grouping "GROUPING" 1..=64 Int(21), Pure;
    // the session and the server
    Database "DATABASE" 0..=0 System(64), Statement;
    User "USER" 0..=0 System(288), Statement;
    CurrentUser "CURRENT_USER" 0..=0 System(288), Statement;
    CurrentRole "CURRENT_ROLE" 0..=0 System(288), Statement;
    Version "VERSION" 0..=0 System(60), Statement;
    ConnectionId "CONNECTION_ID" 0..=0 UInt(10), Statement;
    LastInsertId "LAST_INSERT_ID" 0..=1 UInt(21), Volatile;
    RowCount "ROW_COUNT" 0..=0 Int(21), Statement;
    FoundRows "FOUND_ROWS" 0..=0 Int(21), Statement;
    Sleep "SLEEP" 1..=1 Int(21), Volatile;
    Benchmark "BENCHMARK" 2..=2 Int(1), Volatile;
    GetLock "GET_LOCK" 2..=2 Int(1), Volatile;
    ReleaseLock "RELEASE_LOCK" 1..=1 Int(1), Volatile;
    IsFreeLock "IS_FREE_LOCK" 1..=1 Int(1), Volatile;
    IsUsedLock "IS_USED_LOCK" 1..=1 UInt(10), Volatile;
    ReleaseAllLocks "RELEASE_ALL_LOCKS" 0..=0 UInt(21), Volatile;
}

fn alias(name: &str) -> Option<Function> {
    Some(match name {
        "CEIL" => Function::Ceiling,
        "POW" => Function::Power,
        "MOD" => return None, // the operator
        "ATAN2" => Function::Atan,
        "OCTET_LENGTH" => Function::Length,
        "CHARACTER_LENGTH" => Function::CharLength,
        "LCASE" => Function::Lower,
        "UCASE" => Function::Upper,
        "SUBSTR" | "MID" => Function::Substring,
        "POSITION" => Function::Locate,
        "SHA" => Function::Sha1,
        "CURRENT_TIMESTAMP" | "LOCALTIME" | "LOCALTIMESTAMP" => Function::Now,
        "CURRENT_DATE" => Function::CurDate,
        "CURRENT_TIME" => Function::CurTime,
        "DAY" => Function::DayOfMonth,
        "WEEKOFYEAR" => Function::Week,
        "SCHEMA" => Function::Database,
        "JSON_MERGE" => Function::JsonMergePreserve,
        "SESSION_USER" | "SYSTEM_USER" => Function::User,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found() {
        assert_eq!(Function::by_name("SUBSTR"), Some(Function::Substring));
        assert_eq!(Function::by_name("NOW").map(Function::purity), Some(Purity::Statement));
        assert_eq!(Function::by_name("NOSUCH"), None);
    }
}
