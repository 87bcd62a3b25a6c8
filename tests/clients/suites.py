"""The suites of other projects. Each is a function of a server and of the tests to run that yields
(test, 'ok' | 'failed' | 'skipped', why) for each test.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as xml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from rig import python as packages  # noqa: E402
from rig import servers  # noqa: E402
from waivers import Waivers  # noqa: E402

WORK = os.path.join(servers.TARGET, 'clients')
# More failures of the driver's tests than these have another reason than a busy machine.
MOST_AGAIN = 5
# The parts of Django's tests that use a database. `make test` runs those of DJANGO_QUICK.
DJANGO_QUICK = """
    aggregation annotations basic bulk_create db_functions expressions expressions_case
    expressions_window lookup queries select_for_update transactions
""".split()
DJANGO = sorted(
    DJANGO_QUICK
    + """
    aggregation_regress backends composite_pk constraints contenttypes_tests custom_columns
    custom_lookups custom_managers custom_methods custom_pk dates datatypes datetimes db_typecasts
    db_utils defer defer_regress delete delete_regress distinct_on_fields empty extra_regress
    field_defaults field_subclassing filtered_relation fixtures fixtures_regress
    force_insert_update foreign_object from_db_value generic_relations generic_relations_regress
    get_earliest_or_latest get_object_or_404 get_or_create indexes inspectdb introspection
    known_related_objects m2m_and_m2o m2m_intermediary m2m_multiple m2m_recursive m2m_regress
    m2m_signals m2m_through m2m_through_regress m2o_recursive managers_regress many_to_many
    many_to_one many_to_one_null max_lengths migrate_signals migration_test_data_persistence
    migrations model_enums model_fields model_forms model_formsets model_formsets_regress
    model_indexes model_inheritance model_inheritance_regress model_meta model_options
    model_package model_regress model_utils multiple_database mutually_referential
    nested_foreign_keys null_fk null_fk_ordering null_queries one_to_one or_lookups
    order_with_respect_to ordering pagination prefetch_related properties
    proxy_model_inheritance proxy_models queryset_pickle raw_query reserved_names
    reverse_lookup save_delete_hooks schema select_related select_related_onetoone
    select_related_regress serializers sessions_tests signals string_lookup swappable_models
    test_utils timezones transaction_hooks unmanaged_models update update_only_fields validation
    xor_lookups
""".split()
)


def wanted(package):
    """The line of sources.txt for a package."""
    with open(os.path.join(HERE, 'sources.txt')) as f:
        return next(line.strip() for line in f if line.startswith(package + '=='))


def source(package):
    python = packages.environment(os.path.join(HERE, 'requirements.txt'), 'venv-clients')
    os.makedirs(WORK, exist_ok=True)
    return python, packages.source(python, wanted(package), WORK)


def run(command, cwd, seconds, **env):
    """Runs a suite, and returns its output."""
    os.makedirs(WORK, exist_ok=True)
    log = os.path.join(WORK, f'output-{os.getpid()}.txt')
    with open(log, 'w') as out:
        subprocess.run(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **env},
            timeout=seconds,
        )
    with open(log, errors='replace') as f:
        output = f.read()
    os.remove(log)
    return output


def create_databases(server, *names):
    connection = server.connect()
    for name in names:
        connection.query(f'DROP DATABASE IF EXISTS {name}')
        connection.query(f'CREATE DATABASE {name} CHARACTER SET utf8mb4')
    connection.close()


def results_file(name):
    path = os.path.join(WORK, name)
    if os.path.exists(path):
        os.remove(path)
    return path


def complete(results, output):
    """The results, or an error that shows the end of the output if there are none."""
    return results or [('the suite starts', 'failed', output[-3000:])]


def django(server, tests, quick):
    """Django's tests, with its MySQL backend over PyMySQL."""
    python, folder = source('Django')
    results = results_file('django.jsonl')
    output = run(
        [
            *(python, 'runtests.py', '--settings=django_redolith.settings', '--noinput'),
            *('--parallel=1', '-v1', *(tests or (DJANGO_QUICK if quick else DJANGO))),
        ],
        os.path.join(folder, 'tests'),
        3600,
        PYTHONPATH=os.pathsep.join([folder, HERE]),
        SUITE_SOCKET=server.socket,
        SUITE_RESULTS=results,
    )
    found = outcomes(results)
    if not re.search(r'^Ran \d+ tests?', output, re.MULTILINE):
        found.append(('the suite ends', 'failed', output[-3000:]))
    return complete(found, output)


def outcomes(path):
    """The outcomes in a file that outcomes.py has written. A test with subtests has several lines:
    it failed if one of them did.
    """
    found = {}
    if os.path.exists(path):
        with open(path) as f:
            for test, outcome, why in map(json.loads, f):
                if test not in found or outcome == 'failed':
                    found[test] = (test, outcome, why)
    return list(found.values())


def connector(server, tests, quick):
    """The tests of mysql-connector-python, without its extension in C."""
    python, folder = source('mysql-connector-python')
    results = results_file('connector.jsonl')
    output = run(
        [
            *(python, os.path.join(HERE, 'connector.py'), '--use-external-server'),
            *('--host=127.0.0.1', f'--port={server.port}', '--user=root', '--skip-install'),
            *(f'--unix-socket={server.socket}', *(f'--one-test={t}' for t in tests or [])),
        ],
        folder,
        1800,
        SUITE_RESULTS=results,
    )
    return complete(outcomes(results), output)


def by_pytest(python, arguments, cwd, **env):
    """Runs pytest and reads its report."""
    report = results_file('pytest.xml')
    output = run(
        [
            *(python, '-m', 'pytest', '-q', '--tb=short', '-p', 'no:cacheprovider'),
            *(f'--junitxml={report}', *arguments),
        ],
        cwd,
        3600,
        **env,
    )
    if not os.path.exists(report):
        return complete([], output)
    results = {}
    for case in xml.parse(report).iter('testcase'):
        # The class's name ends with the driver's name and the server's version.
        name = re.sub(r'_mysql\+pymysql(_\d+)+$', '', case.get('classname'))
        name = f'{name}.{case.get("name")}'
        bad = [child for child in case if child.tag in ('failure', 'error')]
        skipped = [child for child in case if child.tag == 'skipped']
        if bad:
            results[name] = (name, 'failed', bad[0].text or bad[0].get('message'))
        elif skipped:
            results.setdefault(name, (name, 'skipped', skipped[0].get('message')))
        else:
            results.setdefault(name, (name, 'ok', ''))
    return complete(list(results.values()), output)


def sqlalchemy(server, tests, quick):
    """SQLAlchemy's suite for dialects, and its own tests of the MySQL dialect, over PyMySQL."""
    python, folder = source('SQLAlchemy')
    create_databases(server, 'test', 'test_schema')
    files = ['test/dialect/test_suite.py', 'test/dialect/mysql']
    return by_pytest(
        python,
        [
            *(tests or files),
            f'--dburi=mysql+pymysql://root@127.0.0.1:{server.port}/test?charset=utf8mb4',
        ],
        folder,
        PYTHONPATH=os.path.join(folder, 'lib'),
        # Some names of tests are the texts of sets.
        PYTHONHASHSEED='0',
    )


def by_go(arguments, cwd, **env):
    """Runs `go test` and reads its events."""
    output = run(['go', 'test', '-count=1', '-json', *arguments], cwd, 1800, **env)
    said, results = {}, {}
    for line in output.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        test = event.get('Test')
        if not test:
            continue
        if event['Action'] == 'output':
            said.setdefault(test, []).append(event['Output'])
        elif event['Action'] in ('pass', 'fail', 'skip'):
            outcome = {'pass': 'ok', 'fail': 'failed', 'skip': 'skipped'}[event['Action']]
            results[test] = (test, outcome, ''.join(said.get(test, [])[-60:]))
    # Of a test with parts that failed, the parts are enough.
    for test in [t for t, outcome, _ in results.values() if outcome == 'failed']:
        parent = test.rpartition('/')[0]
        if parent and results.get(parent, ('', '', ''))[1] == 'failed':
            results.pop(parent)
    return complete(list(results.values()), output)


def go_mysql(server, tests, quick):
    """The tests of go-sql-driver/mysql."""
    if not shutil.which('go'):
        return [('go-sql-driver/mysql', 'skipped', 'there is no Go on this machine')]
    create_databases(server, 'gotest')

    def results_of(pattern):
        # The test that is left out connects to an address on the internet.
        return by_go(
            [
                *('-skip', 'TestConnectorReturnsTimeout', *(['-run', pattern] if pattern else [])),
                'github.com/go-sql-driver/mysql',
            ],
            os.path.join(HERE, 'go'),
            MYSQL_TEST_USER='root',
            MYSQL_TEST_PASS='',
            MYSQL_TEST_PROT='tcp',
            MYSQL_TEST_ADDR=f'127.0.0.1:{server.port}',
            MYSQL_TEST_DBNAME='gotest',
            MYSQL_TEST_CONCURRENT='1',
        )

    return failed_again(results_of('|'.join(tests or [])), results_of, Waivers('go-mysql'))


def failed_again(results, results_of, waivers):
    """The results, with those of a second run in the place of those of a test that failed. Some of
    the driver's tests want a statement that is cancelled after 250 ms to have ended after 500 ms,
    which a busy machine may not do. What fails for another reason fails twice.
    """
    failed = [r for r in results if r[1] == 'failed' and r[0] not in waivers.reasons]
    # Behind a panic no test has run, so that second runs would hide those that are missing.
    panics = re.compile(r'^panic: |^goroutine \d+ \[|\.go:\d+ \+0x', re.MULTILINE)
    if len(failed) > MOST_AGAIN or any(panics.search(why) for _, _, why in failed):
        return results
    for test in sorted({name.partition('/')[0] for name, _, _ in failed}):
        print(f'        go-mysql: {test} failed and runs once more, alone', flush=True)
        others = [r for r in results if r[0].partition('/')[0] != test]
        results = others + results_of(f'^{test}$')
    return results


def gorm(server, tests, quick):
    """GORM's tests, without foreign keys. No registry has them: GORM_SOURCE names a checkout."""
    checkout = os.environ.get('GORM_SOURCE')
    if not checkout:
        return [('GORM', 'skipped', 'GORM_SOURCE=a checkout of GORM has its tests')]
    folder = os.path.join(WORK, 'gorm')
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(checkout, folder)
    opening = os.path.join(folder, 'tests', 'tests_test.go')
    with open(opening) as f:
        text = f.read()
    head = '(cfg *gorm.Config) (db *gorm.DB, err error) {\n'
    assert head in text, 'GORM opens its connections elsewhere'
    with open(opening, 'w') as f:
        no_keys = '\tcfg.DisableForeignKeyConstraintWhenMigrating = true\n'
        f.write(text.replace(head, head + no_keys))
    create_databases(server, 'gorm')
    folder = os.path.join(folder, 'tests')
    run(['go', 'mod', 'tidy'], folder, 300)
    return by_go(
        [*(['-run', '|'.join(tests)] if tests else []), './...'],
        folder,
        GORM_DIALECT='mysql',
        GORM_DSN=(
            f'root:@tcp(127.0.0.1:{server.port})/gorm?charset=utf8mb4&parseTime=True&loc=Local'
        ),
    )


QUICK = ['django', 'go-mysql']
ALL = {
    'django': django,
    'sqlalchemy': sqlalchemy,
    'connector': connector,
    'go-mysql': go_mysql,
    'gorm': gorm,
}
