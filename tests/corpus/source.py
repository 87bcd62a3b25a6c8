"""SQLite's sqllogictest corpus as the Maven artifact net.hydromatic:sql-logic-test ships it.

The scripts are SQLite's and in the public domain; the artifact around them has the MIT licence. The
artifact is fetched once below target, and the scripts are read from it as it is. The variable
LOGIC_CORPUS names a folder with other scripts instead, for example another mirror's `test` folder.
"""

import os
import shutil
import sys
import zipfile

from rig import java, servers

ARTIFACT = 'net.hydromatic:sql-logic-test:0.3'


class Archive:
    """The scripts in the artifact."""

    def __init__(self):
        if not shutil.which('mvn'):
            sys.exit(f'missing: mvn, which fetches {ARTIFACT}. On Debian: apt-get install maven')
        self.zip = zipfile.ZipFile(java.fetched(ARTIFACT))

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


def corpus():
    folder = os.environ.get('LOGIC_CORPUS')
    return Folder(folder) if folder else Archive()
