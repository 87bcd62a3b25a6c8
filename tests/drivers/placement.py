"""Checks where the server's threads run: each worker thread on its own CPU, the others on all."""

import os

from protocol import code, eventually, same, schema, status


def threads(server, name='redolith'):
    """The CPUs of each thread whose name begins with `name`. (The kernel's threads for io_uring
    come and go.)
    """
    found = []
    for tid in map(int, os.listdir(f'/proc/{server.pid}/task')):
        try:
            with open(f'/proc/{server.pid}/task/{tid}/comm') as f:
                comm = f.read().strip()
            if comm.startswith(name):
                found.append(os.sched_getaffinity(tid))
        except (FileNotFoundError, ProcessLookupError):
            pass  # the thread has ended meanwhile
    return found


def workers_on_cpus(server):
    """Checks `redolith_worker_affinity`, and threads that it must not affect."""
    c, all_cpus = server.connect(), os.sched_getaffinity(0)
    workers, bound = status(c, 'Redolith_workers'), lambda: status(c, 'Redolith_workers_bound')
    own = lambda: sorted(cpus.copy().pop() for cpus in threads(server) if len(cpus) == 1)
    try:
        bound_and_free(c, server, workers, bound, own, all_cpus)
    finally:
        c.query(
            "SET GLOBAL redolith_worker_affinity = DEFAULT; SET GLOBAL redolith_log_writer_cpus ="
            " ''; SET GLOBAL redolith_log_writer = DEFAULT"
        )
    same(
        code(lambda: c.query("SET GLOBAL redolith_worker_affinity = 'some'")), 1231, 'a wrong value'
    )
    same(code(lambda: c.query('SET redolith_worker_affinity = OFF')), 1229, 'of a session')
    same(c.value('SELECT @@redolith_worker_affinity'), 'auto', 'the default')


def bound_and_free(c, server, workers, bound, own, all_cpus):
    c.query('SET GLOBAL redolith_worker_affinity = OFF')
    same(bound(), 0, 'bound, while it is off')
    if workers > 1 and workers == len(all_cpus):
        c.query('SET GLOBAL redolith_worker_affinity = ON')
        eventually('bound to all CPUs', lambda: (bound(), own()) == (workers, sorted(all_cpus)))
        # A thread inherits the CPUs of the thread that starts it.
        schema(c, 'p_placement')
        c.query(
            "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT); SET GLOBAL redolith_log_writer ="
            " 'dedicated'"
        )

        def writes():
            c.query('INSERT INTO t VALUES ()')
            return threads(server, 'redolith-log-wr')

        eventually('there is a log writer', writes)
        eventually(
            'it may run anywhere', lambda: [cpus for cpus in writes() if cpus != all_cpus] == []
        )
        same(
            [cpus for cpus in threads(server, 'disk-') if cpus != all_cpus],
            [],
            'threads of the disk',
        )
        eventually('nobody else is bound', lambda: own() == sorted(all_cpus))
        # The log threads may have CPUs of their own.
        c.query(f"SET GLOBAL redolith_log_writer_cpus = '{min(all_cpus)}'")
        eventually('workers make room', lambda: bound() == 0)
        c.query("SET GLOBAL redolith_log_writer_cpus = ''")
        eventually('and come back', lambda: bound() == workers)
        c.query('SET GLOBAL redolith_worker_affinity = OFF')
        eventually('free again', lambda: (bound(), own()) == (0, []))
        c.query('DROP DATABASE p_placement')


ALL = [workers_on_cpus]
