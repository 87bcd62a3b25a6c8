"""Starts servers for a test or a benchmark, each on a scratch directory. They never outlive the
test.

    with Redolith(dir) as s: Connection(socket=s.socket)...

A server dies with the process that started it, however that process ends (PR_SET_PDEATHSIG). Only
servers started here receive signals.
"""

import ctypes
import fcntl
import os
import random
import shutil
import signal
import socket as sockets
import subprocess
import sys
import tempfile
import time

from .client import Connection, MySQLError

REPO = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGET = os.environ.get('CARGO_TARGET_DIR') or os.path.join(REPO, 'target')
SCRATCH = os.environ.get('REDOLITH_SCRATCH') or os.path.join(TARGET, 'scratch')
BINARY = os.environ.get('REDOLITH_BINARY') or os.path.join(TARGET, 'release', 'redolith')
HZ = os.sysconf('SC_CLK_TCK')
PACKAGES = {
    'sysbench': 'sysbench',
    'mariadb-slap': 'mariadb-client',
    'mariadb': 'mariadb-client-core',
    'mariadb-binlog': 'mariadb-client',
    'mariadbd': 'mariadb-server-core',
    'mariadb-install-db': 'mariadb-server-core',
}
LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1


class NotUp(Exception):
    """A server did not start. The text is the end of its output."""


def need(*programs):
    """Ends the program with a hint what to install if one of these programs is missing."""
    missing = sorted({PACKAGES.get(p, p) for p in programs if not shutil.which(p)})
    if missing:
        sys.exit(f'missing: {", ".join(missing)}. On Debian: apt-get install {" ".join(missing)}')


def scratch(name):
    """An empty directory of this name below the scratch directory."""
    path = os.path.join(SCRATCH, f'{name}-{os.getpid()}')
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


def die_with_parent():
    """For preexec_fn. The parent is the thread that starts the process, so a process that must live
    on must be started from the main thread.
    """
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port():
    """A port that nobody has. It is below the ports that the kernel gives to clients, so it is also
    free when a server that was killed is started again.
    """
    for port in random.sample(range(10000, 32000), 100):
        with sockets.socket() as s:
            s.setsockopt(sockets.SOL_SOCKET, sockets.SO_REUSEADDR, 1)
            try:
                s.bind(('127.0.0.1', port))
                return port
            except OSError:
                pass
    raise OSError('no port is free')


class Server:
    """A server process. Subclasses make the data directory and define the command."""

    name = ''

    def __init__(self, dir, options=None, wrapper=()):
        self.dir, self.options, self.wrapper = os.path.abspath(dir), options or {}, list(wrapper)
        self.data, self.out = os.path.join(self.dir, 'data'), os.path.join(self.dir, 'server.out')
        os.makedirs(self.dir, exist_ok=True)
        self.run_dir = tempfile.mkdtemp(
            prefix='redolith-'
        )  # a socket's path holds 107 bytes at most
        self.socket, self.port, self.process = (
            os.path.join(self.run_dir, 's.sock'),
            free_port(),
            None,
        )

    def initialise(self):
        """Makes the data directory if the server does not do so itself."""

    def command(self):
        raise NotImplementedError

    def flags(self, options):
        common = {
            'datadir': self.data,
            'socket': self.socket,
            'port': self.port,
            'bind_address': '127.0.0.1',
        }
        return [
            f'--{k.replace("_", "-")}' + ('' if v is None else f'={v}')
            for k, v in {**common, **options, **self.options}.items()
        ]

    def start(self, wait_s=120):
        """Starts the server and waits until it answers. Returns the seconds from the start of the
        process to the first answer.
        """
        self.initialise()
        started = time.monotonic()
        with open(self.out, 'ab') as out:
            self.process = subprocess.Popen(
                self.wrapper + self.command(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        while time.monotonic() - started < wait_s:
            if self.process.poll() is not None:
                raise NotUp(
                    f'{self.name} ended with status {self.process.returncode}:\n{self.last_words()}'
                )
            try:
                Connection(socket=self.socket, timeout=wait_s).close()
                return time.monotonic() - started
            except (OSError, MySQLError):
                time.sleep(0.002)
        raise NotUp(f'{self.name} does not answer after {wait_s} s:\n{self.last_words()}')

    def last_words(self, lines=20):
        """The end of the output, or the output from a panic on."""
        with open(self.out, errors='replace') as f:
            said = f.readlines()
        panic = next((i for i, line in enumerate(said) if ' panicked at ' in line), len(said))
        return ''.join(said[min(panic, max(len(said) - lines, 0)) :])

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def kill(self):
        """Sends SIGKILL and waits for the end."""
        if self.process:
            self.process.kill()
            self.process.wait(300)

    def stop(self, wait_s=120):
        """Shuts down cleanly. Returns the exit status, or None if the server had to be killed."""
        if not self.alive():
            return self.process.returncode if self.process else 0
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(wait_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def remove(self):
        self.stop()
        shutil.rmtree(self.run_dir, ignore_errors=True)
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.remove_process()
            raise
        return self

    def __exit__(self, kind, *_):
        """Keeps data and output after a failure."""
        if kind is None:
            self.remove()
        else:
            self.remove_process()

    def remove_process(self):
        self.kill()
        shutil.rmtree(self.run_dir, ignore_errors=True)

    def connect(self, **more):
        return Connection(socket=self.socket, **more)

    # ---- figures from the kernel

    def cpu_s(self):
        return cpu_s(self.pid)

    def forget_peak(self):
        """From here on `peak_kib` counts anew."""
        with open(f'/proc/{self.pid}/clear_refs', 'w') as f:
            f.write('5')

    def peak_kib(self):
        with open(f'/proc/{self.pid}/status') as f:
            return next(int(line.split()[1]) for line in f if line.startswith('VmHWM'))

    def rss_kib(self):
        with open(f'/proc/{self.pid}/status') as f:
            return next(int(line.split()[1]) for line in f if line.startswith('VmRSS'))


class Redolith(Server):
    name = 'redolith'

    def __init__(self, dir, options=None, wrapper=(), binary=None):
        super().__init__(dir, options, wrapper)
        self.binary = os.path.abspath(binary or BINARY)
        if not os.access(self.binary, os.X_OK):
            sys.exit(
                f'{os.path.relpath(self.binary)} is not there: make build (or REDOLITH_BINARY=path)'
            )

    def command(self):
        return [self.binary, 'server', *self.flags({})]

    def kill(self, wait_s=120):
        """Sends SIGKILL and waits until the kernel has finished the server's requests. Only then do
        its files stay unchanged, and another server may open them.
        """
        super().kill()
        try:
            f = open(os.path.join(self.data, 'redolith.lock'))
        except OSError:
            return
        end = time.monotonic() + wait_s
        with f:
            while True:
                try:
                    return fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if time.monotonic() > end:
                        raise NotUp(
                            f'{self.data} is still locked {wait_s} s after the end of its server'
                        ) from None
                    time.sleep(0.005)


class MariaDB(Server):
    name = 'mariadb'

    def initialise(self):
        if os.path.isdir(os.path.join(self.data, 'mysql')):
            return
        need('mariadb-install-db', 'mariadbd')
        os.makedirs(self.data, exist_ok=True)
        made = subprocess.run(
            [
                'mariadb-install-db',
                '--no-defaults',
                *self.as_user(),
                f'--datadir={self.data}',
                *self.own_tmpdir(),
                '--auth-root-authentication-method=normal',
                '--skip-test-db',
                '--force',
            ],
            capture_output=True,
            text=True,
        )
        if made.returncode:
            raise NotUp(f'mariadb-install-db: {made.stdout[-2000:]}{made.stderr[-2000:]}')

    def command(self):
        return [
            'mariadbd',
            '--no-defaults',
            *self.as_user(),
            *self.own_tmpdir(),
            '--skip-ssl',
            *self.flags({'skip_name_resolve': None}),
        ]

    def own_tmpdir(self):
        """A tmpdir of its own: a starting MariaDB removes all temporary tables that it finds."""
        tmpdir = os.path.join(self.dir, 'tmp')
        os.makedirs(tmpdir, exist_ok=True)
        return [f'--tmpdir={tmpdir}']

    def as_user(self):
        return ['--user=root'] if os.getuid() == 0 else []


class Baseline(Server):
    """The baseline: bench/baseline."""

    name = 'baseline'

    def __init__(self, dir, options=None, wrapper=(), binary=None):
        super().__init__(dir, options, wrapper)
        self.binary = os.path.abspath(binary)
        os.makedirs(self.data, exist_ok=True)

    def command(self):
        flags = {'datadir': self.data, 'socket': self.socket, **self.options}
        return [self.binary, *(f'--{k}={v}' for k, v in flags.items())]


def add_arguments(parser):
    """Adds --server and --binary, for tests that run against either server."""
    parser.add_argument(
        '--server',
        choices=['redolith', 'mariadb'],
        default='redolith',
        help='mariadb: does the test itself hold against a real server?',
    )
    parser.add_argument('--binary', help='the redolith to test (default: the release build)')
    parser.add_argument(
        '--option', action='append', default=[], metavar='name=value', help='one more server option'
    )


def make(arguments, dir, **options):
    """Makes the server that the arguments of add_arguments select."""
    options |= dict((o.partition('=')[::2]) for o in arguments.option)
    return (
        MariaDB(dir, options)
        if arguments.server == 'mariadb'
        else Redolith(dir, options, binary=arguments.binary)
    )


def cpu_s(pid):
    """The seconds of CPU that a process has used."""
    with open(f'/proc/{pid}/stat') as f:
        fields = f.read().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / HZ
