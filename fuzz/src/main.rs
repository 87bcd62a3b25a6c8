//! One program for all fuzz targets, under libFuzzer: `FUZZ_TARGET=sql_text` names the one that
//! runs. tests/fuzz.py builds it with the coverage that guides libFuzzer, runs it, and keeps what
//! fails.
//!
//! `FUZZ_SEEDS=folder` writes the target's inputs to begin with there and ends.
#![no_main]
#![allow(clippy::disallowed_methods)] // inputs are files of libFuzzer's
use libfuzzer_sys::fuzz_target;
use redolith_fuzzing::Target;
use std::sync::OnceLock;

fn target() -> &'static Target {
    static TARGET: OnceLock<&'static Target> = OnceLock::new();
    TARGET.get_or_init(|| {
        let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
        let names: Vec<_> = redolith_fuzzing::TARGETS.iter().map(|t| t.name).collect();
        redolith_fuzzing::target(&name)
            .unwrap_or_else(|| panic!("FUZZ_TARGET={name:?}: it is one of {names:?}"))
    })
}

fuzz_target!(
    init: {
        if let Some(folder) = std::env::var_os("FUZZ_SEEDS") {
            for (n, seed) in (target().seeds)().into_iter().enumerate() {
                let path = std::path::Path::new(&folder).join(format!("seed-{n}"));
                std::fs::write(&path, seed)
                    .unwrap_or_else(|e| panic!("writing {}: {e}", path.display()));
            }
            println!("longest input: {}", target().max_len);
            std::process::exit(0);
        }
        // libFuzzer's hook ends the process at every panic. An engine that gives up in a simulation
        // is no find.
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let why = info.payload().downcast_ref::<String>();
            if !why.is_some_and(|why| why.starts_with("poisoned: ")) {
                hook(info);
            }
        }));
    },
    |data: &[u8]| (target().run)(data)
);
