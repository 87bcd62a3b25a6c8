//! Macros for disks and files that wrap another disk or file and forward some methods to it: for
//! [`OverlayDisk`](crate::OverlayDisk), and for those of tests.

/// In an `impl Disk`, forwards the named methods to the disk in the field `$inner`.
///
/// ```text
/// impl Disk for Slow {
///     redolith_disk::forward_disk! {
///         disk: exists list create_dir_all remove rename sync_dir lock_dir now wall_us random
///     }
///     fn open(..) ..
/// }
/// ```
#[macro_export]
macro_rules! forward_disk {
    ($inner:ident: $($method:ident)*) => { $($crate::forward_disk!(@$method $inner);)* };
    (@open $i:ident) => {
        fn open(
            &self,
            path: &std::path::Path,
            how: $crate::OpenHow,
        ) -> std::io::Result<std::sync::Arc<dyn $crate::File>> {
            self.$i.open(path, how)
        }
    };
    (@exists $i:ident) => {
        fn exists(&self, path: &std::path::Path) -> bool {
            self.$i.exists(path)
        }
    };
    (@list $i:ident) => {
        fn list(&self, dir: &std::path::Path) -> std::io::Result<Vec<String>> {
            self.$i.list(dir)
        }
    };
    (@create_dir_all $i:ident) => {
        fn create_dir_all(&self, dir: &std::path::Path) -> std::io::Result<()> {
            self.$i.create_dir_all(dir)
        }
    };
    (@remove $i:ident) => {
        fn remove(&self, path: &std::path::Path) -> std::io::Result<()> {
            self.$i.remove(path)
        }
    };
    (@rename $i:ident) => {
        fn rename(&self, from: &std::path::Path, to: &std::path::Path) -> std::io::Result<()> {
            self.$i.rename(from, to)
        }
    };
    (@sync_dir $i:ident) => {
        fn sync_dir(&self, dir: &std::path::Path) -> std::io::Result<()> {
            self.$i.sync_dir(dir)
        }
    };
    (@resolve $i:ident) => {
        fn resolve(&self, path: &std::path::Path) -> std::io::Result<std::path::PathBuf> {
            self.$i.resolve(path)
        }
    };
    (@open_resolved $i:ident) => {
        fn open_resolved(
            &self,
            path: &std::path::Path,
            create: bool,
        ) -> std::io::Result<std::sync::Arc<dyn $crate::File>> {
            self.$i.open_resolved(path, create)
        }
    };
    (@lock_dir $i:ident) => {
        fn lock_dir(
            &self,
            dir: &std::path::Path,
        ) -> std::io::Result<Box<dyn std::any::Any + Send + Sync>> {
            self.$i.lock_dir(dir)
        }
    };
    (@now $i:ident) => {
        fn now(&self) -> std::time::Duration {
            self.$i.now()
        }
    };
    (@wall_us $i:ident) => {
        fn wall_us(&self) -> i64 {
            self.$i.wall_us()
        }
    };
    (@random $i:ident) => {
        fn random(&self) -> u64 {
            self.$i.random()
        }
    };
    (@thread_cpu $i:ident) => {
        fn thread_cpu(&self) -> std::time::Duration {
            self.$i.thread_cpu()
        }
    };
    (@processors $i:ident) => {
        fn processors(&self) -> Option<$crate::Processors> {
            self.$i.processors()
        }
    };
}

/// In an `impl File`, does the same: `redolith_disk::forward_file!(file: read_at write_at
/// write_durable_at sync len next_data set_len submit submit_many);`
#[macro_export]
macro_rules! forward_file {
    ($inner:ident: $($method:ident)*) => { $($crate::forward_file!(@$method $inner);)* };
    (@read_at $i:ident) => {
        fn read_at(&self, buf: &mut [u8], offset: u64) -> std::io::Result<()> {
            self.$i.read_at(buf, offset)
        }
    };
    (@write_at $i:ident) => {
        fn write_at(&self, buf: &[u8], offset: u64) -> std::io::Result<()> {
            self.$i.write_at(buf, offset)
        }
    };
    (@write_durable_at $i:ident) => {
        fn write_durable_at(&self, buf: &[u8], offset: u64) -> std::io::Result<()> {
            self.$i.write_durable_at(buf, offset)
        }
    };
    (@writes_atomically $i:ident) => {
        fn writes_atomically(&self, bytes: usize) -> bool {
            self.$i.writes_atomically(bytes)
        }
    };
    (@sync $i:ident) => {
        fn sync(&self) -> std::io::Result<()> {
            self.$i.sync()
        }
    };
    (@len $i:ident) => {
        fn len(&self) -> std::io::Result<u64> {
            self.$i.len()
        }
    };
    (@next_data $i:ident) => {
        fn next_data(&self, offset: u64) -> std::io::Result<Option<u64>> {
            self.$i.next_data(offset)
        }
    };
    (@set_len $i:ident) => {
        fn set_len(&self, len: u64) -> std::io::Result<()> {
            self.$i.set_len(len)
        }
    };
    (@submit $i:ident) => {
        fn submit(&self, io: $crate::Io) {
            self.$i.submit(io)
        }
    };
    (@submit_many $i:ident) => {
        fn submit_many(&self, ios: Vec<$crate::Io>) {
            self.$i.submit_many(ios)
        }
    };
}
