//! What the crate writes, read by itself and by mariadb-binlog. (tests/e2e reads it with
//! mysql_common.)
mod damage;
mod fixtures;
mod mariadb;
mod round_trip;
mod transactions;
