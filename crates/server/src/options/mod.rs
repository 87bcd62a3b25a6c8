//! Reads the command line of `redolith server` and the my.cnf files that it names. Options have
//! mysqld's names; `-` and `_` are the same; the last value of an option counts.
mod my_cnf;
mod suggest;

use my_cnf::Entry;
use redolith_disk::Disk;
use redolith_sql::settings::{Settings, Var};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// The request that the command line makes.
#[derive(Debug)]
pub enum Request {
    /// Run the server with these settings. The notes are warnings for the person who started it.
    Run { settings: Arc<Settings>, notes: Vec<String> },
    /// Print the text and exit.
    Print(String),
}

/// Options that are not variables.
const FILE_OPTIONS: [&str; 3] = ["no-defaults", "defaults-file", "defaults-extra-file"];
const SHORT: [(&str, Var); 3] = [("-S", Var::Socket), ("-P", Var::Port), ("-h", Var::Datadir)];

/// Reads the arguments after `redolith server`.
pub fn read(args: &[String], disk: &dyn Disk) -> Result<Request, String> {
    let arguments = split(args)?;
    if arguments.iter().any(|e| matches!(e.name.as_str(), "help" | "?")) {
        return Ok(Request::Print(help()));
    }
    // With a value it is the variable.
    let asks = |e: &Entry| matches!(e.name.as_str(), "version" | "V") && e.value.is_none();
    if arguments.iter().any(asks) {
        return Ok(Request::Print(version_line()));
    }
    let mut entries = Vec::new();
    let no_defaults = arguments.iter().any(|e| e.name == "no-defaults");
    for e in
        arguments.iter().filter(|e| e.name == "defaults-file" || e.name == "defaults-extra-file")
    {
        let path = e
            .value
            .as_deref()
            .filter(|p| !p.is_empty())
            .ok_or_else(|| format!("--{} needs a file", e.name))?;
        if no_defaults {
            return Err(format!("--no-defaults and --{} exclude each other", e.name));
        }
        entries.extend(my_cnf::read(disk, Path::new(path))?);
    }
    entries.extend(arguments.into_iter().filter(|e| !FILE_OPTIONS.contains(&e.name.as_str())));
    let (settings, mut notes) = (Settings::default(), Vec::new());
    for e in entries {
        let note = apply(&settings, &e)
            .map_err(|why| if e.place.is_empty() { why } else { format!("{}: {why}", e.place) })?;
        notes.extend(note);
    }
    notes.extend(check_together(&settings)?);
    Ok(Request::Run { settings: Arc::new(settings), notes })
}

pub fn version_line() -> String {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    format!("redolith  Ver {} for {os} on {arch}\n", redolith_sql::settings::SERVER_VERSION)
}

/// Splits the arguments into options: `--name=value`, `--name value`, `--name`, `-S value`,
/// `-Svalue`.
fn split(args: &[String]) -> Result<Vec<Entry>, String> {
    let entry = |name: &str, value: Option<&str>| Entry {
        place: String::new(),
        name: dashed(name),
        value: value.map(Into::into),
    };
    let (mut entries, mut rest) = (Vec::new(), args.iter().map(String::as_str).peekable());
    while let Some(arg) = rest.next() {
        if let Some(long) = arg.strip_prefix("--") {
            let needs_value = |name: &str| {
                !["no-defaults", "version"].contains(&name)
                    && (FILE_OPTIONS.contains(&name)
                        || variable(name).is_some_and(|v| !v.is_switch()))
            };
            entries.push(match long.split_once('=') {
                Some((name, value)) => entry(name, Some(value)),
                None if needs_value(&dashed(long)) => {
                    entry(long, rest.next_if(|next| !next.starts_with("--")))
                }
                None => entry(long, None),
            });
        } else if let Some((short, var)) = SHORT.iter().find(|(s, _)| arg.starts_with(s)) {
            let value =
                if arg.len() > short.len() { Some(&arg[short.len()..]) } else { rest.next() };
            entries.push(entry(var.get().name, value));
        } else if matches!(arg, "-V" | "-?") {
            entries.push(entry(&arg[1..], None));
        } else {
            return Err(format!(
                "'{arg}' is no option; options begin with --, see redolith server --help"
            ));
        }
    }
    Ok(entries)
}

fn dashed(name: &str) -> String {
    name.replace('_', "-")
}

fn variable(option: &str) -> Option<Var> {
    Var::from_name(&option.replace('-', "_")).filter(|v| v.is_option())
}

fn apply(settings: &Settings, e: &Entry) -> Result<Option<String>, String> {
    let name = dashed(&e.name);
    let value = e.value.as_deref();
    if let Some(var) = variable(&name) {
        if var == Var::LogBin
            && let Some(base) = value.filter(|v| !is_switch(v))
        {
            settings.tell(Var::LogBinBasename, base);
            return settings.set_option(var, Some("ON")).map_err(|e| e.0);
        }
        return settings.set_option(var, value).map_err(|e| e.0);
    }
    for (prefix, on) in [("skip-", "OFF"), ("disable-", "OFF"), ("enable-", "ON")] {
        if let Some(var) = name.strip_prefix(prefix).and_then(variable).filter(|v| v.is_switch()) {
            return match value {
                None => settings.set_option(var, Some(on)).map_err(|e| e.0),
                Some(_) => Err(format!("--{name} takes no value")),
            };
        }
    }
    if let Some(loose) = name.strip_prefix("loose-") {
        return match apply(settings, &Entry { name: loose.into(), ..e.clone() }) {
            Ok(note) => Ok(note),
            Err(why) => Ok(Some(format!("option --{name} is ignored: {why}"))),
        };
    }
    let known: Vec<String> = option_names();
    let near = suggest::nearest(&name, known.iter().map(String::as_str)).unwrap_or("help");
    Err(format!("unknown option '--{name}'; did you mean '--{near}'?"))
}

/// Whether the value of an option is a switch, and not a name.
fn is_switch(value: &str) -> bool {
    matches!(value.to_ascii_uppercase().as_str(), "ON" | "OFF" | "1" | "0" | "TRUE" | "FALSE")
}

fn option_names() -> Vec<String> {
    let variables = Var::all().iter().filter(|v| v.is_option()).map(|v| dashed(v.get().name));
    variables
        .chain(["skip-log-bin", "help"].into_iter().chain(FILE_OPTIONS).map(String::from))
        .collect()
}

/// Checks and corrects options that depend on each other. Returns notes.
fn check_together(s: &Settings) -> Result<Vec<String>, String> {
    let mut notes = Vec::new();
    let (buffer, capacity) = (s.bits(Var::InnodbLogBufferSize), s.bits(Var::InnodbRedoLogCapacity));
    if buffer > capacity / 2 {
        // This happens with mysqld's default buffer and a small log. The buffer never needs more
        // than half of the log's capacity.
        s.set_option(Var::InnodbLogBufferSize, Some(&(capacity / 2).to_string()))
            .map_err(|e| e.0)?;
        notes.push(format!(
            "--innodb-log-buffer-size is {} and not {buffer}: half of --innodb-redo-log-capacity \
                ({capacity})",
            s.bits(Var::InnodbLogBufferSize)
        ));
    }
    let (pool, most) = (s.bits(Var::InnodbBufferPoolSize), s.bits(Var::InnodbBufferPoolSizeMax));
    if most > 0 && most < pool {
        return Err(format!(
            "--innodb-buffer-pool-size-max={most} is below --innodb-buffer-pool-size={pool}"
        ));
    }
    if s.bits(Var::InnodbIoCapacityMax) < s.bits(Var::InnodbIoCapacity) {
        notes.push("--innodb-io-capacity-max is below --innodb-io-capacity, and limits it".into());
    }
    if s.is_on(Var::SkipNetworking) && s.text(Var::Socket).is_none_or(|p| p.is_empty()) {
        return Err("--skip-networking without a --socket leaves no way to connect".into());
    }
    let version = s.text(Var::Version).unwrap_or_default();
    if !is_version(&version) {
        return Err(format!(
            "--version={version}: a version begins like 10.11.0 and has at most 60 \
            letters, digits and any of .-_+~"
        ));
    }
    Ok(notes)
}

/// Whether clients can read a version: three numbers below 256 and, perhaps, a name.
fn is_version(text: &str) -> bool {
    let mut rest = text;
    let mut number = |end: &str| -> Option<()> {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest[..digits].parse::<u8>().ok()?;
        rest = rest[digits..].strip_prefix(end)?;
        Some(())
    };
    let begins = [".", ".", ""].iter().all(|end| number(end).is_some());
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+' | '~');
    begins && text.len() <= 60 && text.chars().all(fits)
}

fn help() -> String {
    let mut out = version_line();
    out.push_str(
        "\nUsage: redolith server [--option=value ...]\n\n\
         Runs a database server. An empty or missing data directory is initialised. Options have \
         mysqld's names, with '-' or '_'; sizes take K, M, G, T.\n\
         Files with options: --defaults-file=FILE, --defaults-extra-file=FILE (groups [redolith] \
         and [mysqld]); none is read unless it is named.\n\n",
    );
    for v in Var::all().iter().filter(|v| v.is_option()) {
        let default = v.get().show(&v.get().default_setting()).unwrap_or_else(|| "NULL".into());
        let default = if default.len() > 40 { format!("{}...", &default[..40]) } else { default };
        let note = match (v.get().only, v.get().inert) {
            (Some(why), _) => format!("  only this: {why}"),
            (_, Some(why)) => format!("  no effect: {why}"),
            _ => String::new(),
        };
        let _ = writeln!(out, "  --{:<36} {default}{note}", dashed(v.get().name));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use redolith_disk::RealDisk;
    use redolith_types::Collation;

    fn run(args: &[&str]) -> Result<(Arc<Settings>, Vec<String>), String> {
        let args: Vec<String> = args.iter().map(|a| a.to_string()).collect();
        match read(&args, &RealDisk::new())? {
            Request::Run { settings, notes } => Ok((settings, notes)),
            Request::Print(text) => Err(text),
        }
    }

    #[test]
    fn forms_of_options() {
        let (s, notes) = run(&[
            "--no-defaults",
            "--innodb_buffer_pool-size=1G",
            "--socket",
            "/x/y.sock",
            "-P",
            "4000",
            "--skip-networking",
            "--port=4001",
        ])
        .unwrap();
        assert_eq!((s.bits(Var::InnodbBufferPoolSize), s.bits(Var::Port)), (1 << 30, 4001));
        assert_eq!(
            (s.text(Var::Socket).as_deref(), s.is_on(Var::SkipNetworking)),
            (Some("/x/y.sock"), true)
        );
        assert!(notes.is_empty());
        let most = |size| {
            run(&["--innodb-buffer-pool-size=1G", &format!("--innodb-buffer-pool-size-max={size}")])
        };
        assert!(
            most("512M").unwrap_err().contains("is below --innodb-buffer-pool-size=1073741824")
        );
        assert!(most("1G").is_ok() && most("0").is_ok());
        assert!(run(&["--socket"]).unwrap_err().contains("requires an argument"));
        assert!(run(&["--socket", "--port=1"]).unwrap_err().contains("requires an argument"));
        assert!(run(&["nonsense"]).unwrap_err().contains("is no option"));
    }

    #[test]
    fn everything_that_the_benchmark_passes_is_known() {
        let (s, notes) = run(&[
            "--innodb-buffer-pool-size=1G",
            "--innodb-log-buffer-size=64M",
            "--innodb-flush-log-at-trx-commit=1",
            "--innodb-doublewrite=ON",
            "--max-connections=4000",
            "--max-prepared-stmt-count=1048576",
            "--innodb-redo-log-capacity=1G",
            "--server-id=1",
            "--character-set-server=latin1",
            "--skip-log-bin",
            "--datadir=/d",
            "--socket=/s",
            "--port=3601",
            "--bind-address=127.0.0.1",
        ])
        .unwrap();
        assert_eq!(s.collation(Var::CollationServer), Collation::Latin1SwedishCi);
        assert_eq!((s.bits(Var::MaxConnections), notes.len()), (4000, 0));
        run(&[
            "--performance-schema=OFF",
            "--character-set-server=latin1",
            "--collation-server=latin1_swedish_ci",
            "--back-log=4000",
            "--table-open-cache=7995",
            "--table-definition-cache=4000",
            "--open-files-limit=20000",
            "--secure-file-priv=",
            "--innodb-flush-method=O_DIRECT",
            "--innodb-adaptive-hash-index=OFF",
            "--innodb-change-buffering=none",
            "--innodb-io-capacity=2000",
            "--innodb-io-capacity-max=4000",
            "--skip-name-resolve=ON",
            "--skip_name_resolve",
        ])
        .unwrap();
    }

    #[test]
    fn unknown_options_name_the_nearest() {
        assert_eq!(
            run(&["--inodb-buffer-pool-size=1G"]).unwrap_err(),
            "unknown option '--inodb-buffer-pool-size'; did you mean '--innodb-buffer-pool-size'?"
        );
        assert!(run(&["--data-dir=/x"]).unwrap_err().ends_with("did you mean '--datadir'?"));
        let (_, notes) = run(&["--loose-nonsense=1"]).unwrap();
        assert!(notes[0].contains("is ignored"));
    }

    #[test]
    fn what_is_not_built_yet_is_refused() {
        assert!(run(&["--performance-schema"]).unwrap_err().contains("no performance schema"));
    }

    #[test]
    fn the_binary_log_has_a_name() {
        for (args, on, name) in [
            ("--log-bin", true, ""),
            ("--log-bin=ON", true, ""),
            ("--log-bin=mine", true, "mine"),
            ("--log-bin=OFF", false, ""),
            ("--skip-log-bin", false, ""),
        ] {
            let (s, _) = run(&[args]).unwrap();
            assert_eq!(s.is_on(Var::LogBin), on, "{args}");
            assert_eq!(s.text(Var::LogBinBasename).as_deref(), Some(name), "{args}");
        }
    }

    #[test]
    fn help_and_version() {
        let help = run(&["--help"]).unwrap_err();
        assert!(
            help.contains("--innodb-redo-log-capacity") && help.contains("Usage: redolith server")
        );
        let version = redolith_sql::settings::SERVER_VERSION;
        assert!(run(&["--version"]).unwrap_err().contains(version));
        assert!(run(&["--version", "-P", "3306"]).unwrap_err().contains(version));
        assert_eq!(run(&[]).unwrap().0.text(Var::Version).as_deref(), Some(version));
        let (s, _) = run(&["--version=10.11.0-mine"]).unwrap();
        assert_eq!(s.text(Var::Version).as_deref(), Some("10.11.0-mine"));
        for wrong in
            ["", "10", "10.11", "10.11-x.0", "a.b.c", "10.11.0 x", "300.1.1", &"1.1.1-x".repeat(9)]
        {
            assert!(run(&[&format!("--version={wrong}")]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_manual_names_every_option() {
        let manual = include_str!("../../../../docs/settings.md");
        for v in Var::all().iter().filter(|v| v.is_option()) {
            assert!(
                manual.contains(&format!("`--{}`", dashed(v.get().name))),
                "docs/settings.md lacks --{}",
                dashed(v.get().name)
            );
        }
    }

    #[test]
    fn settings_must_fit_together() {
        let (s, notes) =
            run(&["--innodb-redo-log-capacity=64M", "--innodb-log-buffer-size=64M"]).unwrap();
        assert_eq!((s.bits(Var::InnodbLogBufferSize), notes.len()), (32 << 20, 1), "{notes:?}");
        assert!(
            run(&["--skip-networking", "--socket="]).unwrap_err().contains("no way to connect")
        );
    }
}
