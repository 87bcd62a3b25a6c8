use redolith_server::backend::*;
use redolith_server::standin::*;
use redolith_server::{listener, server::Server};
use std::sync::Arc;
struct Fake;
struct S;
impl Backend for Fake {
    type Session = S;
    fn session(&self, _: Client) -> S { S }
    fn limits(&self) -> Limits { Limits { max_connections: 4000, max_prepared_statements: 100000, connect_timeout_s: 10 } }
}
fn col(name: &str) -> ColumnMeta {
    let e: Arc<str> = "".into();
    ColumnMeta { schema: e.clone(), table: e.clone(), org_table: e.clone(), name: name.into(), org_name: e.clone(), ty: ExprType { field_type: 8, collation_id: 63, length: 2, decimals: 0 }, flags: ColumnFlags(0) }
}
fn ok() -> OkInfo { OkInfo { status: StatusFlags(2), ..Default::default() } }
impl Session for S {
    async fn query(&mut self, text: &[u8], out: &mut impl ResultSink) {
        if text.to_ascii_lowercase().starts_with(b"select") {
            out.columns(&[col("1")]);
            out.row(&[Value::Int(1)]);
            out.finish_rows(&ok());
        } else { out.ok(&ok()) }
    }
    async fn prepare(&mut self, text: &[u8]) -> Result<Prepared, SqlError> {
        let p = col("?").ty;
        Ok(Prepared { id: 1, params: vec![p; text.iter().filter(|c| **c == b'?').count()], columns: vec![], warnings: 0 })
    }
    async fn execute(&mut self, _: u32, _: &[Value<'_>], out: &mut impl ResultSink) { out.ok(&ok()) }
    fn close_statement(&mut self, _: u32) {}
    fn statement_text(&self, _: u32) -> &[u8] { b"" }
    async fn init_db(&mut self, _: &[u8]) -> Result<(), SqlError> { Ok(()) }
    async fn reset(&mut self) {}
    async fn end(&mut self) {}
    fn set_multi_statements(&mut self, _: bool) {}
    fn status(&self) -> u16 { 2 }
    fn wait_timeout_s(&self) -> u32 { 28800 }
    fn net_read_timeout_s(&self) -> u32 { 30 }
    fn net_write_timeout_s(&self) -> u32 { 60 }
    fn max_allowed_packet(&self) -> usize { 64 << 20 }
}
#[tokio::main]
async fn main() {
    let disk = Arc::new(redolith_disk::RealDisk::new());
    let path = std::env::args().nth(1).unwrap();
    let l = listener::bind_unix(&*disk, path.as_ref(), 4000).unwrap();
    let s = Server::new(Fake, disk, redolith_sql::processes::Processes::new(), Arc::new(redolith_sql::status::Status::new()));
    tokio::spawn(s.clone().watch_clock());
    listener::accept(s, l).await;
}
