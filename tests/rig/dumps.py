"""The files of a data directory by kind, and `redolith dump` of each."""

import collections
import os
import re
import subprocess

# What `redolith dump` calls the kinds of files.
DUMPS = {
    'redo': ['log'],
    'control': ['control'],
    'undo': ['undo', 'page'],
    'dictionary': ['page'],
    'table': ['page'],
    'doublewrite': ['doublewrite'],
}
# The kinds of the files that are not numbered.
NAMED = {
    'redo/control': 'control',
    'system.rdl': 'dictionary',
    'doublewrite.rdl': 'doublewrite',
    'files.rdl': 'register',
    'server_uuid': 'uuid',
    'binlog.index': 'index',
}


def kind_of(path):
    if re.search(r'redo/log_\d+$', path):
        return 'redo'
    if path.startswith('tables/'):
        return 'table'
    if path.startswith('undo'):
        return 'undo'
    if re.fullmatch(r'binlog\.\d+', path):
        return 'binlog'
    if path.startswith('binlog.spill.'):
        return 'spill'
    return NAMED.get(path)


def files_of(data):
    """{kind of file: [paths]}, relative."""
    kinds = collections.defaultdict(list)
    for folder, _, names in os.walk(data):
        for name in sorted(names):
            path = os.path.relpath(os.path.join(folder, name), data)
            kind = kind_of(path)
            if kind:
                kinds[kind].append(path)
    return kinds


def complaints(binary, data, kinds=tuple(DUMPS), options=()):
    """Dumps each file of these kinds; what does not end well, or prints nothing."""
    wrong, files = [], files_of(data)
    for kind in kinds:
        for name in DUMPS.get(kind, []):
            for path in files[kind]:
                ran = subprocess.run(
                    [binary, 'dump', name, os.path.join(data, path), *options],
                    capture_output=True,
                    text=True,
                    errors='replace',
                    timeout=60,
                )
                if ran.returncode != 0 or not ran.stdout or ran.stderr:
                    wrong.append(
                        f'redolith dump {name} {path} ended with {ran.returncode}:'
                        f' {ran.stderr[-500:]}'
                    )
    return wrong
