//! What the crate writes, read by itself, by the crate mysql_common, and by mariadb-binlog.
mod damage;
mod fixtures;
mod mariadb;
mod oracle;
mod round_trip;
mod transactions;
