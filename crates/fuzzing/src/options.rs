//! my.cnf and the command line.
use redolith_disk::{Create, Disk, OpenHow, SimDisk};
use redolith_server::options;
use std::path::Path;

/// The text is a file with options that may include itself, and each of its lines is an argument.
pub fn file(data: &[u8]) {
    let disk = SimDisk::new(1);
    let at = Path::new("/my.cnf");
    let Ok(file) = disk.open(at, OpenHow { create: Create::Create, direct: false }) else { return };
    if file.set_len(data.len() as u64).and_then(|()| file.write_at(data, 0)).is_ok() {
        let _ = options::read(&["--defaults-file=/my.cnf".to_string()], &disk);
    }
    let lines: Vec<String> = String::from_utf8_lossy(data).lines().map(str::to_string).collect();
    let _ = options::read(&lines, &disk);
}

pub fn seeds() -> Vec<Vec<u8>> {
    [
        "[mysqld]\nport = 3307\nskip-networking\ninnodb_buffer_pool_size=1G # much\n!include \
            other.cnf\n!includedir /etc\n",
        "[redolith]\nsql-mode='ANSI_QUOTES,\\t'\nloose-nothing=1\n[client]\nuser=x\n",
        "--port=1\n--innodb-monitor-enable=all\n-S\n/x\n--skip-networking\n\
            --redolith-log-writer-cpus=1-3,7",
        "[mysqld]\n!include my.cnf\n!include my.cnf\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
