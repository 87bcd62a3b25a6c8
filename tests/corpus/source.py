"""SQLite's sqllogictest corpus as the Maven artifact net.hydromatic:sql-logic-test ships it.

The scripts are SQLite's and in the public domain; the artifact around them has the MIT licence. The
artifact is fetched once below target, and the scripts are read from it as it is. The variable
LOGIC_CORPUS names a folder with other scripts instead, for example another mirror's `test` folder.
"""

import hashlib
import os
import sys
import urllib.request
import zipfile

from rig import servers

URL = (
    'https://repo1.maven.org/maven2/net/hydromatic/sql-logic-test/0.3/sql-logic-test-0.3.jar'
)
SHA256 = '801efc1904e802795a20ce30559025c0b5a7a21840114722717c0466089c13f0'
FETCH_S = 60  # the time limit of a single answer


class OutOfReach(Exception):
    """The corpus cannot be fetched."""


class Archive:
    """The scripts of the artifact."""

    def __init__(self):
        name = os.path.basename(URL)
        path = os.path.join(servers.TARGET, 'corpus', name)
        if not os.path.exists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            fetch(path)
        self.zip = zipfile.ZipFile(path)

    def names(self):
        """Every script's path without `test/`, in order."""
        return sorted(
            name.removeprefix('test/') for name in self.zip.namelist() if name.endswith('.test')
        )

    def read(self, name):
        return self.zip.read('test/' + name)


class Folder:
    """Scripts in a folder."""

    def __init__(self, path):
        self.path = path

    def names(self):
        found = []
        for folder, _, names in os.walk(self.path):
            found += [
                os.path.relpath(os.path.join(folder, name), self.path)
                for name in names
                if name.endswith('.test')
            ]
        if not found:
            sys.exit(f'LOGIC_CORPUS: no .test file in {self.path}')
        return sorted(found)

    def read(self, name):
        with open(os.path.join(self.path, name), 'rb') as f:
            return f.read()


def fetch(path):
    """Fetches the artifact. The file has its name only when it is whole."""
    part, digest = f'{path}.{os.getpid()}', hashlib.sha256()
    try:
        with urllib.request.urlopen(URL, timeout=FETCH_S) as answer, open(part, 'wb') as f:
            while piece := answer.read(1 << 20):
                digest.update(piece)
                f.write(piece)
    except OSError as e:
        raise OutOfReach(f'{URL}: {e}') from e
    if digest.hexdigest() != SHA256:
        raise SystemExit(f'{URL} has another SHA-256 than {SHA256}')
    os.rename(part, path)


def corpus():
    folder = os.environ.get('LOGIC_CORPUS')
    return Folder(folder) if folder else Archive()
