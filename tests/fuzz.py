#!/usr/bin/env python3
"""Runs the fuzz targets under libFuzzer, which looks for inputs that reach new code. The targets
take bytes from every source outside the server.

  tests/fuzz.py                     each target 10 seconds
  tests/fuzz.py --seconds 3600 --only sql_text
  tests/fuzz.py --keep-corpus       inputs that reached new code are added to fuzz/corpus

A target may not panic, hang or take more than --memory MiB. An input for which it does is written
to fuzz/regressions/TARGET, where `cargo test -p redolith-fuzzing` runs it from then on: commit the
input together with the repair.
"""

import argparse
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
REPO = os.path.dirname(HERE)
FUZZ = os.path.join(REPO, 'fuzz')
sys.path.insert(0, HERE)
from rig.report import Report  # noqa: E402

TARGET = os.path.join(os.environ.get('CARGO_TARGET_DIR') or os.path.join(REPO, 'target'), 'fuzz')
# The flags of cargo-fuzz without the sanitizers, which need a nightly compiler and find little in
# code without `unsafe`.
COVERAGE = (
    '--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 '
    '-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table '
    '-Cllvm-args=-sanitizer-coverage-trace-compares'
)


# The least number of inputs that a target runs.
LEAST = 100


def inputs_of(said):
    """How many inputs libFuzzer says that it has run."""
    runs = re.search(r'stat::number_of_executed_units: *(\d+)', said)
    return int(runs[1]) if runs else 0


def build():
    """Builds the fuzzing program and returns its path."""
    host = re.search(
        r'host: (\S+)',
        subprocess.run(['rustc', '-vV'], stdout=subprocess.PIPE, text=True, check=True).stdout,
    )[1]
    command = [
        'cargo',
        'build',
        '--release',
        '--locked',
        '--manifest-path',
        os.path.join(FUZZ, 'Cargo.toml'),
        '--target-dir',
        TARGET,
        '--target',
        host,
    ]
    subprocess.run(command, check=True, env={**os.environ, 'RUSTFLAGS': COVERAGE})
    return os.path.join(TARGET, host, 'release', 'redolith-fuzz')


def targets():
    with open(os.path.join(REPO, 'crates', 'fuzzing', 'src', 'lib.rs')) as f:
        return re.findall(r'Target \{\s+name: "(\w+)"', f.read())


def fuzz(binary, name, a):
    """Runs a target: (libFuzzer's last message, the path of a failing input or None)."""
    with tempfile.TemporaryDirectory(prefix='redolith-fuzz-') as scratch:
        seeds, grown, failed = (os.path.join(scratch, d) for d in ('seeds', 'grown', 'failed'))
        for d in (seeds, grown, failed):
            os.mkdir(d)
        env = {**os.environ, 'FUZZ_TARGET': name}
        said = subprocess.run(
            [binary],
            env={**env, 'FUZZ_SEEDS': seeds},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        longest = re.search(r'longest input: (\d+)', said)[1]
        corpus = os.path.join(FUZZ, 'corpus', name)
        kept = [corpus] if os.path.isdir(corpus) else []
        limits = [f'-max_total_time={a.seconds}'], [f'-runs={LEAST}']
        for limit in limits:
            p = subprocess.run(
                [
                    binary,
                    grown,
                    seeds,
                    *kept,
                    *limit,
                    f'-max_len={longest}',
                    f'-seed={a.seed}',
                    f'-rss_limit_mb={a.memory}',
                    '-timeout=25',
                    '-print_final_stats=1',
                    f'-artifact_prefix={failed}/',
                ],
                env=env,
                cwd=scratch,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors='replace',
            )
            # On a busy machine, a slow target gets the time that it needs.
            if p.returncode or inputs_of(p.stdout) >= LEAST:
                break
        if a.keep_corpus and p.returncode == 0:
            os.makedirs(corpus, exist_ok=True)
            subprocess.run(
                [binary, '-merge=1', f'-max_len={longest}', corpus, grown, seeds],
                env=env,
                cwd=scratch,
                check=True,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        inputs = sorted(os.listdir(failed))
        if not inputs:
            return p.returncode, p.stdout, None
        home = os.path.join(FUZZ, 'regressions', name)
        os.makedirs(home, exist_ok=True)
        shutil.copy(os.path.join(failed, inputs[0]), home)
        return p.returncode, p.stdout, os.path.relpath(os.path.join(home, inputs[0]), REPO)


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument('--seconds', type=int, default=10, help='for each target')
    p.add_argument('--only', action='append', choices=targets(), help='a target')
    p.add_argument('--seed', type=int, default=1, help="libFuzzer's; 0: another one each time")
    p.add_argument('--memory', type=int, default=2048, help='MiB')
    p.add_argument('--keep-corpus', action='store_true')
    p.add_argument('--jobs', type=int, default=os.cpu_count())
    a = p.parse_args()
    binary, report = build(), Report()
    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        for name, (status, said, failed) in zip(
            names := a.only or targets(), pool.map(lambda n: fuzz(binary, n, a), names)
        ):
            runs = inputs_of(said)
            covered = re.findall(r'cov: (\d+)', said)
            told = f'{runs} inputs, {covered[-1] if covered else "?"} edges of code reached'
            if status or runs < LEAST:
                why = '\n'.join(said.splitlines()[-40:])
                report.fail(name, f'{told}\n{why}\nthe input: {failed or "none was written"}')
            else:
                report.ok(name, told)
    return report.end()


if __name__ == '__main__':
    sys.exit(main())
