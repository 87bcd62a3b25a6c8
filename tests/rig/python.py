"""Virtual environments with packages of PyPI, and source packages of PyPI unpacked."""

import os
import subprocess
import sys
import tarfile

from . import servers

DRIVERS = os.path.join(servers.REPO, 'tests', 'drivers', 'requirements.txt')


def environment(wanted=DRIVERS, name='venv'):
    """The Python of a virtual environment with the packages of the file `wanted`. It is made once,
    below target.
    """
    folder = os.path.join(servers.TARGET, name)
    python, stamp = os.path.join(folder, 'bin', 'python'), os.path.join(folder, 'requirements.txt')
    with open(wanted) as f:
        listed = f.read()
    if not os.path.exists(stamp) or open(stamp).read() != listed:
        subprocess.run([sys.executable, '-m', 'venv', folder], check=True)
        pip(python, 'install', '-r', wanted)
        with open(stamp, 'w') as f:
            f.write(listed)
    return python


def source(python, package, folder):
    """The unpacked source package, such as `Django==5.2.19`, below `folder`. pip needs what builds
    the package in the environment of `python`.
    """
    unpacked = os.path.join(folder, package.replace('==', '-').lower())
    if not os.path.isdir(unpacked):
        fetched = unpacked + '.fetched'
        pip(
            *(python, 'download', '--no-deps', '--no-binary=:all:', '--no-build-isolation'),
            *('-d', fetched, package),
        )
        (archive,) = os.listdir(fetched)
        with tarfile.open(os.path.join(fetched, archive)) as tar:
            tar.extractall(fetched)
        os.remove(os.path.join(fetched, archive))
        (top,) = os.listdir(fetched)
        os.rename(os.path.join(fetched, top), unpacked)
        os.rmdir(fetched)
    return unpacked


def pip(python, command, *arguments):
    subprocess.run(
        [
            *(python, '-m', 'pip', command, '-q', '--disable-pip-version-check'),
            *('--retries=10', '--timeout=60', *arguments),
        ],
        check=True,
    )
