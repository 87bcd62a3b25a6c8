"""The virtual environment with the packages of tests/drivers/requirements.txt."""

import os
import subprocess
import sys

from . import servers

WANTED = os.path.join(servers.REPO, 'tests', 'drivers', 'requirements.txt')


def environment():
    """The Python of the virtual environment, made once below target."""
    folder = os.path.join(servers.TARGET, 'venv')
    python, stamp = os.path.join(folder, 'bin', 'python'), os.path.join(folder, 'requirements.txt')
    with open(WANTED) as f:
        wanted = f.read()
    if not os.path.exists(stamp) or open(stamp).read() != wanted:
        subprocess.run([sys.executable, '-m', 'venv', folder], check=True)
        subprocess.run(
            [
                python,
                '-m',
                'pip',
                'install',
                '-q',
                '--disable-pip-version-check',
                '--retries=10',
                '--timeout=60',
                '-r',
                WANTED,
            ],
            check=True,
        )
        with open(stamp, 'w') as f:
            f.write(wanted)
    return python
