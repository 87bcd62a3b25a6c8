#!/usr/bin/env python3
"""Runs the engine's loom models, each in a process of its own and as many at once as there are
CPUs: within one process, two threads that map new stacks all the time take twice as long.

  tests/loom.py          without those that take long
  tests/loom.py --all    all, as `make soak` does
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TARGET = os.environ.get('CARGO_TARGET_DIR') or os.path.join(REPO, 'target')
# Most of the time of all goes to these. Each has a shorter one beside it, with other numbers of
# threads or preemptions.
LONG = {
    'log::append::buffer::loom_tests::loom_reserve_publish_ready',
    'log::commit::lsn_waiters::loom_tests::loom_dedicated_comes_and_goes',
    'log::commit::lsn_waiters::loom_tests::loom_one_of_three_gives_up',
    'log::commit::lsn_waiters::loom_tests::loom_two_in_flight',
    'log::commit::lsn_waiters::loom_tests::loom_two_rest_beside_the_watch',
}


def built():
    """The test program. The flag recompiles everything, so it has its own target directory."""
    command = ['cargo', 'test', '--profile', 'models', '--locked', '-p', 'redolith-engine', '--lib']
    command += ['--no-run', '--message-format=json-render-diagnostics']
    command += ['--target-dir', os.path.join(TARGET, 'loom')]
    env = {**os.environ, 'RUSTFLAGS': '--cfg loom --cfg model'}
    got = subprocess.run(command, cwd=REPO, env=env, stdout=subprocess.PIPE, text=True, check=True)
    messages = [json.loads(line) for line in got.stdout.splitlines()]
    return next(m['executable'] for m in reversed(messages) if m.get('executable'))


def run(program, name):
    began = time.monotonic()
    got = subprocess.run(
        [program, '--exact', name], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    ok = got.returncode == 0 and '1 passed' in got.stdout
    seconds = time.monotonic() - began
    print(f'test {name} ... {"ok" if ok else "FAILED"} ({seconds:.1f} s)', flush=True)
    if not ok:
        print(got.stdout, flush=True)
    return ok


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument('--all', action='store_true')
    a = p.parse_args()
    began = time.monotonic()
    try:
        program = built()
    except subprocess.CalledProcessError:
        print('test result: FAILED. 0 passed; 1 failed; 0 ignored; the build failed')
        return 1
    listed = subprocess.run([program, '--list'], capture_output=True, text=True, check=True).stdout
    names = re.findall(r'^(\S*::loom_\w+): test$', listed, re.MULTILINE)
    unknown = LONG.difference(names)
    assert not unknown, f'no models: {unknown}'
    names = [name for name in names if a.all or name not in LONG]
    # The models of the log take longest.
    names.sort(key=lambda name: (not name.startswith('log::'), name))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda name: run(program, name), names))
    passed, failed = results.count(True), results.count(False)
    print(
        f'test result: {"FAILED" if failed or not passed else "ok"}. {passed} passed; {failed}'
        f' failed; 0 ignored; finished in {time.monotonic() - began:.0f}s'
    )
    return 0 if passed and not failed else 1


if __name__ == '__main__':
    sys.exit(main())
