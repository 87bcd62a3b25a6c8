//! Shapes of the contract, until `types` and `sql` are there.
use std::borrow::Cow;
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Date { pub year: u16, pub month: u8, pub day: u8 }
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Time { pub us: i64 }
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DateTime { pub date: Date, pub us: i64 }
#[derive(Clone, Debug, PartialEq)]
pub struct Decimal(pub String);
impl std::fmt::Display for Decimal { fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str(&self.0) } }
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> { Null, Int(i64), UInt(u64), Float(f32), Double(f64), Decimal(Decimal), Bytes(Cow<'a, [u8]>), Date(Date), Time(Time), DateTime(DateTime) }
#[derive(Clone, Debug, Default)]
pub struct ColumnMeta { pub schema: String, pub table: String, pub org_table: String, pub name: String, pub org_name: String, pub collation_id: u16, pub length: u32, pub field_type: u8, pub flags: u16, pub decimals: u8 }
#[derive(Clone, Debug)]
pub struct SqlError { pub code: u16, pub sqlstate: [u8; 5], pub message: Box<str> }
#[derive(Clone, Debug, Default)]
pub struct OkInfo { pub affected: u64, pub last_insert_id: u64, pub warnings: u16, pub status: u16, pub info: String }
pub struct Prepared { pub id: u32, pub params: u16, pub columns: Vec<ColumnMeta> }
pub trait ResultSink: Send {
    fn columns(&mut self, columns: &[ColumnMeta]);
    fn row(&mut self, row: &[Value<'_>]);
    fn ok(&mut self, ok: &OkInfo);
    fn error(&mut self, error: &SqlError);
    fn wants_drain(&self) -> bool;
    fn drain(&mut self) -> impl Future<Output = std::io::Result<()>> + Send;
}
