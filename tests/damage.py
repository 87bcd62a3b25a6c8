#!/usr/bin/env python3
"""Damages one file of a data directory and starts the server on the directory.

  tests/damage.py                  some cases of every kind
  tests/damage.py --cases 1000 --seed 7
  tests/damage.py --only redo-flip --keep

Two directories are made once, of a server that was stopped cleanly and of a server that was killed,
each with an older copy of itself, and the same with a binary log in each of its forms. For each
case, one of them is copied, one file of the copy is damaged (bytes flipped, a sector or page
zeroed, pages swapped, cut, made longer, removed, replaced by its older copy, traded with another
one of its kind; files of the binary log also replaced by a folder), and the server is started.
Every row of every table is read through each index.

  DAMAGE-1  a query returns the rows that were acknowledged, or an error that names the table or
            the file
  DAMAGE-2  or the server refuses to start with a message that names the file, and leaves the
            directory unchanged
  DAMAGE-3  other tables can be read beside a damaged table
  DAMAGE-4  a refused directory can be read with innodb_force_recovery, which leaves it unchanged,
            too
  DAMAGE-5  `redolith dump` prints every file of the damaged kind and ends normally
  DAMAGE-6  `redolith check` changes nothing, and tells of damage wherever the server refuses to
            start or a table cannot be read
  DAMAGE-7  a start loses nothing of the binary log: a file goes on from what was found, or is made
            again as it was before the damage; else there is a copy that was set aside
"""

import argparse
import collections
import functools
import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rig import dumps, servers  # noqa: E402
from rig.client import MySQLError  # noqa: E402
from rig.report import Report  # noqa: E402

PAGE = 16384
HEADER = 4096
SETTINGS = dict(
    innodb_buffer_pool_size='16M', innodb_redo_log_capacity='8M', innodb_log_buffer_size='1M'
)
TABLES = {
    'a': 'id INT PRIMARY KEY, k INT NOT NULL, v VARCHAR(200), KEY k (k)',
    'b': 'id INT PRIMARY KEY, k INT NOT NULL, v TEXT, UNIQUE KEY k (k)',
    'c': 'id VARCHAR(20) PRIMARY KEY, k INT NOT NULL, v VARCHAR(50), KEY k (k)',
}
# Bytes of the last commits at the end of the log, where damage may look like the trace of a crash.
LAST_COMMITS = 16384
# A message must name a file of the directory or one of the tables.
NAMES = re.compile(r'redo/|\.rdl|server_uuid|table|doublewrite|undo|binlog\.')


class Bad(Exception):
    """An outcome that no rule allows."""


# ---- the directories


class Model:
    """The acknowledged rows."""

    def __init__(self, rng):
        self.rng, self.rows, self.next = rng, {t: {} for t in TABLES}, 0

    def copy(self):
        other = Model(random.Random(self.rng.random()))
        other.rows, other.next = {t: dict(r) for t, r in self.rows.items()}, self.next
        return other

    def step(self, connection):
        table = self.rng.choice(list(TABLES))
        rows, dice = self.rows[table], self.rng.random()
        if dice < 0.55 or not rows:
            self.next += 1
            id = f'key {self.next:06}' if table == 'c' else self.next
            value = (
                'x' * self.rng.choice([5, 40, 180])
                if table != 'b'
                else 'long ' * self.rng.choice([1, 100, 3000])
            )
            value = value[:50] if table == 'c' else value
            connection.query(
                f"INSERT INTO {table} VALUES ('{id}', {self.next * 7 % 10007}, '{value}')"
            )
            rows[str(id)] = str(self.next * 7 % 10007)
        elif dice < 0.85:
            id = self.rng.choice(list(rows))
            self.next += 1
            k = 20000 + self.next
            connection.query(f"UPDATE {table} SET k = {k} WHERE id = '{id}'")
            rows[id] = str(k)
        else:
            id = self.rng.choice(list(rows))
            connection.query(f"DELETE FROM {table} WHERE id = '{id}'")
            del rows[id]


def make(dir, a, rng, steps, **settings):
    """Makes the directories: {name: (directory, older directory, model)}."""
    server = servers.make(a, os.path.join(dir, 'made'), **settings)
    old = os.path.join(dir, 'old')
    model = Model(rng)
    with server:
        c = server.connect()
        c.query('CREATE DATABASE d')
        c.query('USE d')
        for name, columns in TABLES.items():
            c.query(f'CREATE TABLE {name} ({columns})')
        for _ in range(steps + 300):
            model.step(c)
        server.stop()
        shutil.copytree(server.data, old)
        made = {}
        for kind in ('clean', 'killed'):
            if kind == 'killed':
                shutil.rmtree(server.data)
                shutil.copytree(old, server.data)
            m = model.copy()
            server.start()
            c = server.connect(database='d')
            other = server.connect(database='d')
            for n in range(steps):
                m.step(c)
                if n == steps // 3:
                    # This transaction is open when the server is killed. Its rows stay locked till
                    # then.
                    other.query(
                        "BEGIN; INSERT INTO a VALUES (900000, 1, 'never'); INSERT INTO b VALUES"
                        " (900000, 900001, REPEAT('never ', 500))"
                    )
                if n == steps * 2 // 3:
                    c.query(
                        'CREATE TABLE late (id INT PRIMARY KEY, k INT NOT NULL, v TEXT, KEY k (k))'
                    )
                    c.query("INSERT INTO late VALUES (1, 2, 'three')")
                if n == steps - 10 and 'log_bin' in settings:
                    # The events, and not the redo, have the long values: they go to a spill file.
                    # (At this level no row beyond the range is locked.)
                    c.query('SET TRANSACTION ISOLATION LEVEL READ COMMITTED')
                    c.query(f'UPDATE b SET k = k + 100000 WHERE id <= {m.next}')
                    m.rows['b'] = {id: str(int(k) + 100000) for id, k in m.rows['b'].items()}
            other.close()
            if kind == 'clean':
                server.stop()
            else:
                # The log has no witness yet of the commits of its last twentieth of a second
                # (docs/reliability.md).
                wait_for_witness(server, c)
                server.kill()
            m.rows['late'] = {'1': '2'}
            there = os.path.join(dir, kind)
            shutil.copytree(server.data, there)
            made[kind] = (there, old, m)
        return made


def wait_for_witness(server, connection):
    """Waits until the file `control` says that all is durable that is so at this moment."""
    query = "SHOW GLOBAL STATUS LIKE 'Innodb_lsn_flushed'"
    durable, end = int(connection.rows(query)[0][1]), time.monotonic() + 60
    while witness(server) < durable:
        if time.monotonic() > end:
            raise Bad(f'the witness of the log: {witness(server)} and not {durable}')
        time.sleep(0.01)


def witness(server):
    """The LSN that the newer witness in the file `control` names; 0 before the first one."""
    with open(os.path.join(server.data, 'redo', 'control'), 'rb') as f:
        data = f.read()
    blocks = [data[at : at + 32] for at in (32768, 36864)]
    named = [int.from_bytes(b[24:], 'little') for b in blocks if b.startswith(b'REDOSEEN')]
    return max(named, default=0)


# ---- the damage


@functools.cache
def log_end(data):
    """The end of the log of an unchanging directory: (segment's path, offset) after the last byte
    that is not zero.
    """
    segments = sorted(dumps.files_of(data)['redo'], key=lambda p: int(p.rsplit('_', 1)[1]))
    for path in reversed(segments):
        with open(os.path.join(data, path), 'rb') as f:
            body = f.read()[HEADER:]
        number, bytes = int(path.rsplit('_', 1)[1]), len(body)
        # A reused segment holds old frames after the end. The end is the last block that bears its
        # own place.
        for at in range(len(body) - HEADER, -1, -HEADER):
            block, lsn = body[at : at + HEADER], number * bytes + at
            if any(
                block[i + 8 : i + 16] == (lsn + i).to_bytes(8, 'little') for i in range(0, 4000)
            ):
                return path, HEADER + at + HEADER
    return segments[0], HEADER


def damage_of_name(data, path, candidates, way, rng):
    """Damages what a name stands for. Returns a description, or None if that cannot be done."""
    whole = os.path.join(data, path)
    if way == 'longer':
        with open(whole, 'ab') as f:
            f.write(rng.randbytes(rng.choice([1, 100, 100000])))
        return f'{path} made longer'
    if way == 'folder':
        os.remove(whole)
        os.mkdir(whole)
        return f'{path} is a folder'
    others = [other for other in candidates if other != path]
    if way == 'trade' and others:
        other = rng.choice(others)
        for a, b in ((path, 'traded'), (other, path), ('traded', other)):
            os.rename(os.path.join(data, a), os.path.join(data, b))
        return f'{path} and {other} traded'
    if way == 'digit':
        with open(whole, 'r+b') as f:
            held = f.read()
            at = rng.choice([i for i, byte in enumerate(held) if chr(byte).isdigit()])
            f.seek(at)
            f.write(bytes([held[at] ^ 1 << rng.randrange(3)]))
        return f'{path}: the digit at {at} flipped'
    return None


def damage(data, source, old, kind, way, rng):
    """Damages a file. Returns a description, or None if there is no file of this kind to damage."""
    candidates = dumps.files_of(data)[kind]
    if not candidates:
        return None
    path = rng.choice(candidates)
    size = os.path.getsize(os.path.join(data, path))
    upto = size
    if kind == 'redo':
        # Only a needed file can be missed. Damage to the last commits may look like the trace of a
        # crash.
        path, end = log_end(source)
        upto = end - LAST_COMMITS
        if way not in ('remove', 'cut') and upto <= HEADER:
            return None
    whole = os.path.join(data, path)
    if kind == 'binlog' and rng.random() < 0.6:
        # The files that a start needs.
        path = rng.choice(candidates[-3:])
        whole = os.path.join(data, path)
        size = upto = os.path.getsize(whole)
    if way in NAME_WAYS:
        return damage_of_name(data, path, candidates, way, rng)
    if way == 'remove':
        os.remove(whole)
        return f'{path} removed'
    # JUDGE-5, REGISTER-1, REGISTER-2, REGISTER-3: an older copy of a file is noticed.
    if way == 'older':
        before = os.path.join(old, path)
        if not os.path.exists(before):
            return None
        shutil.copyfile(before, whole)
        return f'{path} replaced by its older self'
    if way == 'cut':
        length = rng.choice(
            [
                0,
                size // 2,
                size - size % PAGE - 1 if size > PAGE else 1,
                rng.randrange(max(upto, 1)),
            ]
        )
        with open(whole, 'r+b') as f:
            f.truncate(max(length, 0))
        return f'{path} cut to {length} of {size} bytes'
    with open(whole, 'r+b') as f:
        held = f.read()
        if way == 'flip':
            places = [i for i in (rng.randrange(upto) for _ in range(400)) if held[i]] or [
                rng.randrange(upto)
            ]
            at = places[0]
            for i in range(at, min(at + 3, len(held))):
                f.seek(i)
                f.write(bytes([held[i] ^ rng.choice([1, 0x20, 0xFF])]))
            return f'{path}: 3 bytes flipped at {at}'
        unit = 512 if way == 'sector' else PAGE if kind != 'redo' else 4096
        count = upto // unit
        if count < 2:
            return None
        used = [n for n in range(count) if any(held[n * unit : (n + 1) * unit])]
        if len(used) < 2:
            return None
        n, m = rng.sample(used, 2)
        if way == 'swap':
            for to, of in ((n, m), (m, n)):
                f.seek(to * unit)
                f.write(held[of * unit : (of + 1) * unit])
            return f'{path}: {unit} bytes at {n * unit} and {m * unit} swapped'
        f.seek(n * unit)
        f.write(bytes(unit))
        return f'{path}: {unit} bytes at {n * unit} zeroed'


def picture(data):
    """The content of the directory, without the lock file, which holds no data."""
    held = {}
    for folder, _, names in os.walk(data):
        for name in names:
            path = os.path.join(folder, name)
            if name not in ('redolith.lock',) and not name.endswith('.pid'):
                with open(path, 'rb') as f:
                    held[os.path.relpath(path, data)] = hashlib.blake2b(f.read()).hexdigest()
    return held


def log_bytes(data):
    """{name: bytes} of what is called as a file of the binary log, without the flag of an open
    file.
    """
    held = {}
    for name in os.listdir(data):
        path = os.path.join(data, name)
        if re.match(r'binlog\.\d', name) and os.path.isfile(path):
            with open(path, 'rb') as f:
                bytes = bytearray(f.read())
            bytes[21:23] = bytes[21:23] and b'\0\0'
            held[name] = bytes
    return held


def lost(data, found, source):
    """The files of the binary log that a start has destroyed (DAMAGE-7)."""
    now = log_bytes(data)
    for name, bytes in found.items():
        again = name in now and now[name].startswith(source.get(name, b'no file'))
        again &= bytes not in [whole for other, whole in source.items() if other != name]
        if not again and not any(kept.startswith(bytes) for kept in now.values()):
            yield name


# ---- the verdict


def read_all(server, model):
    """Reads all tables: {table: 'right' or the error}. Raises Bad if rows are wrong."""
    verdicts = {}
    c = server.connect()
    for table, rows in model.rows.items():
        try:
            c.query('USE d')
            by_key = {r[0].decode(): r[1].decode() for r in c.rows(f'SELECT id, k, v FROM {table}')}
            by_index = {
                r[0].decode(): r[1].decode()
                for r in c.rows(f'SELECT id, k FROM {table} WHERE k >= 0 ORDER BY k DESC')
            }
        except MySQLError as e:
            if not NAMES.search(str(e)):
                raise Bad(f'{table}: an error that names nothing: {e}') from None
            verdicts[table] = str(e)
            c.close()
            c = server.connect()
            continue
        for way, got in (('primary key', by_key), ('index', by_index)):
            if got != rows:
                missing, more = (
                    set(rows.items()) - set(got.items()),
                    set(got.items()) - set(rows.items()),
                )
                raise Bad(
                    f'{table} by {way}: {len(missing)} rows missing, {len(more)} that should not be'
                    f' there: {sorted(more)[:3]} {sorted(missing)[:3]}'
                )
        verdicts[table] = 'right'
    c.close()
    return verdicts


def one_case(dir, a, made, title, rng):
    """Runs a case: (outcome, what was damaged, detail). None if this damage cannot be done."""
    which, kind, way = title
    source, old, model = made[which]
    form = which.partition('-')[2]
    settings = logged(form) if form else SETTINGS
    server = servers.make(a, os.path.join(dir, 'case'), **settings)
    shutil.rmtree(server.dir, ignore_errors=True)
    shutil.copytree(source, server.data)
    try:
        what = damage(server.data, source, old, kind, way, rng)
        if what is None:
            return None
        before, logs = picture(server.data), log_bytes(server.data)
        dumped(server.binary, server.data, kind, what)
        complained, checked = check(server.binary, server.data, before, what)
        # The engine does not read server_uuid.
        complained |= kind == 'uuid'
        try:
            server.start()
        except servers.NotUp:
            said = server.last_words()
            if ' panicked at ' in said or 'fatal:' in said:
                raise Bad(f'{what}: the start panicked: {said}') from None
            if not NAMES.search(said):
                raise Bad(f'{what}: refused without a file: {said}') from None
            changed = {p for p, h in picture(server.data).items() if before.get(p) != h} | set(
                before
            ) - set(picture(server.data))
            if changed:
                # DAMAGE-2, and where undo pages are damaged UNDOSCAN-1.
                raise Bad(f'{what}: refused, and {sorted(changed)} has changed: {said}') from None
            if not complained:
                raise Bad(f'{what}: refused: {said}; `redolith check`: {checked}') from None
            read = forced(server, before)
            if kind in LOG_KINDS and read != f'level 1 reads {len(model.rows)} tables':
                raise Bad(f'{what}: {read}') from None
            return 'refused', what, f'{said.strip().splitlines()[-1][:300]} | {read}'
        try:
            verdicts = read_all(server, model)  # DAMAGE-1
        except (Bad, OSError) as e:
            raise Bad(f'{what}: {e}\n{server.last_words()}') from None
        status = server.stop()
        if status != 0:
            raise Bad(f'{what}: the server ended with {status}: {server.last_words()}')
        destroyed = list(lost(server.data, logs, log_bytes(source)))
        if destroyed:
            raise Bad(f'{what}: {destroyed} destroyed: {server.last_words()}')
        errors = {t: v for t, v in verdicts.items() if v != 'right'}
        if errors and not complained:
            raise Bad(f'{what}: {errors}, and `redolith check` says: {checked}')
        if kind == 'table' and len(errors) > (2 if way == 'trade' else 1):
            raise Bad(f'{what}: more than that table fails: {errors}')  # DAMAGE-3
        return ('an error' if errors else 'right'), what, str(errors or '')
    finally:
        server.remove_process()


def dumped(binary, data, kind, what):
    """Checks `redolith dump` (DAMAGE-5)."""
    wrong = dumps.complaints(binary, data, [kind])
    if wrong:
        raise Bad(f'{what}: {wrong[0]}')


def check(binary, data, before, what):
    """Runs `redolith check` (DAMAGE-6, CHECK-1): whether it tells of damage, and its output."""
    p = subprocess.run([binary, 'check', data], capture_output=True, text=True, timeout=60)
    said = p.stdout + p.stderr
    if p.returncode not in (0, 1) or ' panicked at ' in said:
        raise Bad(f'{what}: `redolith check` ended with {p.returncode}: {said}')
    if picture(data) != before:
        raise Bad(f'{what}: `redolith check` has changed the directory: {said}')
    return p.returncode == 1, said


def forced(server, before):
    """The level of innodb_force_recovery that reads something (DAMAGE-4)."""
    for level in (1, 4, 5, 6):
        server.options['innodb_force_recovery'] = level
        try:
            server.start()
        except servers.NotUp:
            said = server.last_words()
            if ' panicked at ' in said:
                raise Bad(f'innodb_force_recovery={level} panicked: {said}') from None
            continue
        c = server.connect()
        tables = 0
        for table in [*TABLES, 'late']:
            try:
                c.rows(f'SELECT COUNT(*) FROM d.{table}')
                tables += 1
            except MySQLError:
                pass
        try:
            c.query("INSERT INTO d.a VALUES (1000000, 1, 'no')")
            raise Bad(f'innodb_force_recovery={level} lets rows be written')
        except MySQLError as e:
            if e.code not in (1881, 1146, 1049, 1034, 1030):
                raise Bad(f'innodb_force_recovery={level}: a write fails with {e}') from None
        server.stop()
        if picture(server.data) != before:
            raise Bad(f'innodb_force_recovery={level} has changed the directory')
        return f'level {level} reads {tables} tables'
    return 'no level reads it'


WAYS = [
    'flip',
    'flip',
    'sector',
    'page',
    'swap',
    'cut',
    'longer',
    'remove',
    'older',
    'trade',
]
KINDS = [
    'redo',
    'redo',
    'control',
    'undo',
    'dictionary',
    'table',
    'table',
    'doublewrite',
    'register',
    'uuid',
]


# Damage of the binary log.
NAME_WAYS = ['trade', 'longer', 'folder', 'digit']
LOG_WAYS = {
    'binlog': [*dict.fromkeys(WAYS), 'folder'],
    'index': ['flip', 'cut', 'remove', 'older', 'longer', 'folder', 'digit', 'digit'],
    'spill': ['flip', 'sector', 'cut', 'remove', 'longer', 'folder'],
}
LOG_KINDS = list(LOG_WAYS)
FORMS = ['unified', 'classic']


def logged(form):
    """The settings of a server with a binary log."""
    return dict(SETTINGS, log_bin='ON', max_binlog_size=98304, redolith_binlog_commit=form)


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument('--cases', type=int, default=120)
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--only', help='KIND or KIND-WAY, for instance redo-flip')
    p.add_argument('--keep', action='store_true', help='leave the directories behind')
    p.add_argument('--tell', action='store_true', help='each case, not only those that fail')
    servers.add_arguments(p)
    a = p.parse_args()
    rng, report = random.Random(a.seed), Report()
    dir = servers.scratch('damage')
    made = make(os.path.join(dir, 'plain'), a, rng, 1200, **SETTINGS)
    for form in FORMS:
        of_form = make(os.path.join(dir, form), a, rng, 400, **logged(form))
        made |= {f'{which}-{form}': directory for which, directory in of_form.items()}
    outcomes, done = collections.Counter(), 0
    ways = [(k, y) for k in KINDS for y in WAYS]
    log_ways = [(k, y) for k, of_kind in LOG_WAYS.items() for y in of_kind]
    titles = [
        (w, k, y)
        for w in made
        for k, y in (log_ways if '-' in w else ways)
        if not a.only or a.only in (k, f'{k}-{y}')
    ]
    while done < a.cases:
        title = titles[done % len(titles)] if a.only else rng.choice(titles)
        seed = rng.randrange(1 << 32)
        done += 1
        try:
            case = one_case(dir, a, made, title, random.Random(seed))
        except Bad as e:
            report.fail(f'{" ".join(title)} (seed {seed})', e)
            continue
        if case is None:
            continue
        outcome, what, detail = case
        outcomes[title[1], outcome] += 1
        report.passed += 1
        if a.tell:
            print(f'{" ".join(title):28} {outcome:9} {what} {detail}', flush=True)
    for (kind, outcome), n in sorted(outcomes.items()):
        print(f'        {kind:12} {outcome:9} {n}')
    if not a.keep and not report.failed:
        shutil.rmtree(dir, ignore_errors=True)
    return report.end()


if __name__ == '__main__':
    sys.exit(main())
