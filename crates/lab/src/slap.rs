//! Runs mysqlslap (Debian: mariadb-slap) with study 2's command, and reads its output.
use crate::child::tail;
use std::path::Path;

/// The rows that study 2 writes beforehand, and the statements that each client executes.
pub const STUDY_WRITES: u32 = 2000;

/// The study's command, after the options that reach the server.
pub fn command(program: &str, socket: &Path, connections: u32, writes: u32) -> Vec<String> {
    let mut words = vec![
        program.to_string(),
        "--no-defaults".into(),
        format!("--socket={}", socket.display()),
        "--user=root".into(),
    ];
    words.extend(study(connections, writes));
    words
}

fn study(connections: u32, writes: u32) -> Vec<String> {
    let fixed = [
        "--auto-generate-sql",
        "--auto-generate-sql-guid-primary",
        "--engine=innodb",
        "--number-int-cols=20",
        "--number-char-cols=20",
    ];
    let mut words: Vec<String> = fixed.map(str::to_string).into();
    words.push(format!("--concurrency={connections}"));
    words.push(format!("--auto-generate-sql-write-number={writes}"));
    words.push(format!("--auto-generate-sql-execute-number={writes}"));
    words.push("--auto-generate-sql-load-type=mixed".into());
    words
}

/// The command as the report shows it.
pub fn as_typed(writes: u32) -> String {
    format!(
        "mysqlslap {}",
        study(0, writes).join(" ").replace("--concurrency=0", "--concurrency=N")
    )
}

/// The seconds that the clients took for all their statements.
pub fn seconds(out: &str) -> Option<f64> {
    let rest = out
        .lines()
        .find_map(|l| l.trim().strip_prefix("Average number of seconds to run all queries:"))?;
    rest.trim().strip_suffix("seconds")?.trim().parse().ok()
}

/// mysqlslap's error message, without the statement that it quotes before.
pub fn complaint(out: &str) -> &str {
    let line = out.lines().find(|l| l.contains("ERROR")).unwrap_or(out);
    let from = line.find("ERROR").unwrap_or(0);
    tail(&line[from..], 300)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_of_a_real_run() {
        assert_eq!(seconds(include_str!("fixtures/slap-run.txt")), Some(1.899));
        let refused = include_str!("fixtures/slap-refused.txt");
        assert_eq!(seconds(refused), None);
        assert!(complaint(refused).contains("Can't connect to local server"));
        assert_eq!(
            complaint("slap: Cannot run query INSERT INTO t1 VALUES ('x') ERROR : no such table\n"),
            "ERROR : no such table"
        );
    }

    #[test]
    fn the_command_is_the_studys() {
        assert_eq!(
            as_typed(STUDY_WRITES),
            "mysqlslap --auto-generate-sql --auto-generate-sql-guid-primary --engine=innodb \
                --number-int-cols=20 --number-char-cols=20 --concurrency=N \
             --auto-generate-sql-write-number=2000 --auto-generate-sql-execute-number=2000 \
             --auto-generate-sql-load-type=mixed"
        );
        let words = command("slap", Path::new("/x/s.sock"), 150, 20);
        assert_eq!(
            words[..5],
            ["slap", "--no-defaults", "--socket=/x/s.sock", "--user=root", "--auto-generate-sql"]
        );
        assert!(
            words.contains(&"--concurrency=150".to_string())
                && words.contains(&"--auto-generate-sql-execute-number=20".to_string())
        );
    }
}
