#!/usr/bin/env python3
"""Checks that the texts of the tree agree with each other.

  tests/tidy.py

  TIDY-1  a rule's id (LOG-1, MEM-2, ..) is defined once, in the head of a module, in a page of docs
          or in a test program's head, and means one thing
  TIDY-2  every rule that a text names is defined
  TIDY-3  a relative link in a page of Markdown leads to an existing file and to a heading in it
  TIDY-4  every path of the tree that a page names exists
  TIDY-5  no line of code, scripts, settings or prose is wider than 100 columns. Exempt are rows of
          Markdown tables, which cannot be broken (also in doc comments: the byte tables), and lines
          that are one link
  TIDY-6  each rule is named by a test (in its name, its comment, its messages) or by the message of
          an assertion, so that a reader finds what holds the rule. BY_CONSTRUCTION has exceptions
  TIDY-7  the server is built without the features that tests and simulation ask for: the engine
          neither exports its inner parts (`testing`) nor has planted bugs (`canary`), and there are
          no simulated disks
"""

import collections
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rig.report import Report  # noqa: E402

REPO = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ID = r'[A-Z][A-Z-]*[A-Z]-[0-9]+'
# The places where a rule is defined: `ID:` or `**ID**` in a doc comment or, in the head of a test
# program, the id at the beginning of a line.
DEFINED = {
    '.rs': re.compile(
        r'(?:^//! |^//! - |^//! \| |^ */// |[.;] )\**(' + ID + r')(?:\*\*|:| \([^)]*\):)'
    ),
    '.md': re.compile(r'\*\*(' + ID + r')\*\*'),
    '.py': re.compile(r'^ +(' + ID + r')  +\S'),
}
# Names of standards, which are not rules, and the numbered lines of docs/invariants.md.
NOT_RULES = re.compile(
    r'^(UTF|CRC|ISO|SHA|RFC|CVE|FNV|GB|EUC|UCS|KOI|X|CP|LATIN|I|A|B|SQL|IEEE|MD|TLS|APACHE|MIT|BSD'
    r'|MPL|CC|UNICODE|ZLIB|SSE|PHASE|DATE|TIME|WEEK|HY|MY|NET|NO|SET-GTID)-'
)

# Rules that no test can show, with the reason.
BY_CONSTRUCTION = {
    'EVAL-1': 'lifetimes: the compiler holds it',
    'EXEC-2': 'lifetimes: the compiler holds it',
    'REAL-1': 'only a power cut of a real device could show it',
    'REAL-2': 'nothing is called again after an error: read the code',
}
# Rules as they are named, several at once too: `BESIDE-1..4`.
CITED = re.compile(r'(?<![\w-])(' + ID + r')(?:\.\.([0-9]+))?(?![\w-])')
# Tests of their own, not at the end of a module.
TEST_FILE = re.compile(r'^tests/|^crates/(sim|fuzzing)/|(^|/)tests/|(^|/|_)tests\.rs$|\.test$')
TEST_MODULE = re.compile(
    r'^ *#\[cfg\([^\n]*\b(?:test|loom|shuttle)\b[^\n]*\]\n(?:#.*\n)*.*\bmod \w+ \{', re.MULTILINE
)
# From the beginning of an assertion to a place within one of its strings.
WITHIN_ASSERTION = re.compile(
    r'(?:assert\w*!|panic!|unreachable!|expect)\s*\((?:[^;"]|"(?:[^"\\]|\\.)*")*"[^"]*$'
)
# The compiler asserts what such a constant has.
CONSTANT = re.compile(r'(?://.*\n)*\s*const _:')

WIDTH = 100
# A row of a table, a reference of a link, a bare address.
UNBREAKABLE = re.compile(r'^\s*(?://[/!] ?|# ?)?(?:\||\[[^\]]*\]: |<?https?://\S+$)')
# These files keep the form of their generator or of the failing case.
AS_THEY_ARE = re.compile(r'(\.lock|\.test|\.tsv|proptest-regressions/\w+\.txt|found_seeds\.txt)$')


def is_wrapped(name, text):
    return (
        os.path.splitext(name)[1] in ('.rs', '.py', '.sh', '.md', '.toml')
        or os.path.basename(name) == 'Makefile'
        or text.startswith('#!')
    ) and not AS_THEY_ARE.search(name)


def files():
    for folder, inner, names in os.walk(REPO):
        # Built files and files of a run do not belong to the tree.
        inner[:] = [
            d
            for d in inner
            if (not d.startswith('.') or d == '.ci')
            and d not in ('target', 'redolith-data', 'corpus', 'artifacts', '__pycache__', 'out')
        ]
        for name in sorted(names):
            path = os.path.join(folder, name)
            try:
                with open(path, encoding='utf-8') as f:
                    yield os.path.relpath(path, REPO), f.read()
            except UnicodeDecodeError:
                continue


def defined_in(name, text):
    kind = os.path.splitext(name)[1]
    if kind == '.rs':
        # Outside the head of a module, only a bold id defines a rule: `/// ID: ..` at a test names
        # the rule that it is about.
        text = '\n'.join(line for line in text.split('\n') if re.match(r'//!| */// \*\*', line))
    elif kind == '.py':
        text = next(iter(re.findall(r'^"""(.*?)"""', text, re.DOTALL | re.MULTILINE)), '')
    return {m[1] for line in text.split('\n') for m in DEFINED[kind].finditer(line)}


def cited_in(name, text):
    """The rules that a test or an assertion of the file names."""
    if name.endswith('.md'):
        return set()
    if name.endswith('.py'):
        # Behind the head, which defines.
        head = re.match(r'(?:#.*\n)*""".*?"""', text, re.DOTALL)
        tests_at = (head.end() if head else 0) if TEST_FILE.search(name) else len(text)
    elif TEST_FILE.search(name):
        tests_at = 0
    else:
        module = TEST_MODULE.search(text)
        tests_at = module.start() if module else len(text)
    found = set()
    for m in CITED.finditer(text):
        line = text[text.rfind('\n', 0, m.start()) + 1 : m.start()].lstrip()
        if not line.startswith('//!') and (
            m.start() >= tests_at
            or WITHIN_ASSERTION.search(text[max(0, m.start() - 700) : m.start()])
            or line.startswith('//')
            and CONSTANT.match(text, text.find('\n', m.start()) + 1)
        ):
            word, first = m[1].rsplit('-', 1)
            found |= {f'{word}-{n}' for n in range(int(first), int(m[2] or first) + 1)}
    # `fn frame_2_zeros_are_no_frame` and `fn writer_3_and_4_in_any_order`.
    for m in re.finditer(r'\bfn ([a-z]+)_([0-9]+)((?:_and_[0-9]+)*)_', text[tests_at:]):
        found |= {f'{m[1].upper()}-{n}' for n in [m[2], *re.findall('[0-9]+', m[3])]}
    return found


def headings(text):
    """The anchors of a page that GitHub makes from headings, and explicit anchors."""
    made = {
        re.sub(r'[^\w\- ]', '', h.lower()).strip().replace(' ', '-')
        for h in re.findall(r'^#+ (.*)$', text, re.MULTILINE)
    }
    return made | set(re.findall(r'<a id="([^"]+)"', text))


def links(name, text):
    for target in re.findall(r'\]\(([^)\s]+)\)', text):
        if re.match(r'[a-z]+:', target):
            continue
        path, _, anchor = target.partition('#')
        path = (
            os.path.normpath(os.path.join(REPO, os.path.dirname(name), path))
            if path
            else os.path.join(REPO, name)
        )
        if not os.path.exists(path):
            yield f'{name}: the link to {target} leads nowhere'
        elif anchor and path.endswith('.md'):
            with open(path, encoding='utf-8') as f:
                if anchor not in headings(f.read()):
                    yield f'{name}: {target}: the page has no such heading'


def paths(name, text):
    for path in re.findall(r'`((?:crates|tests|bench|tools|fuzz|docs)/[\w./-]+)`', text):
        if not os.path.exists(os.path.join(REPO, path.rstrip('/.'))):
            yield f'{name}: {path} is not there'


def wide(name, text):
    for n, line in enumerate(text.split('\n'), 1):
        if len(line) > WIDTH and not UNBREAKABLE.match(line):
            yield f'{name}:{n}: {len(line)} columns'


def features_of(package):
    """The features of the engine and of the disks that a build of the package alone turns on."""
    command = ['cargo', 'tree', '--locked', '--prefix', 'none', '-p', package]
    command += ['--edges', 'normal,build,features']
    got = subprocess.run(command, cwd=REPO, capture_output=True, text=True)
    if got.returncode:
        sys.exit(f'{" ".join(command)}: {got.stderr}')
    return set(re.findall(r'^(redolith-(?:engine|disk) feature "[^"]+")', got.stdout, re.MULTILINE))


def test_features():
    known = {
        'redolith-engine feature "testing"',
        'redolith-engine feature "canary"',
        'redolith-disk feature "testing"',
    }
    # The simulation has all these features: otherwise this rule looks for names that are gone.
    for feature in sorted(known - features_of('redolith-sim')):
        yield f'redolith-sim: no {feature}'
    for package in ('redolith-server', 'redolith'):
        for feature in sorted(known & features_of(package)):
            yield f'{package} is built with {feature}; see cargo tree -e features'


def lines(found):
    return '\n'.join(found)


def main():
    report = Report()
    places, named = collections.defaultdict(set), collections.defaultdict(set)
    cited = set(BY_CONSTRUCTION)
    wrong_links, wrong_paths, too_wide = [], [], []
    for name, text in files():
        if is_wrapped(name, text):
            too_wide += wide(name, text)
        if os.path.splitext(name)[1] in ('.rs', '.py', '.test'):
            cited |= cited_in(name, text)
        if os.path.splitext(name)[1] not in DEFINED:
            continue
        for rule in defined_in(name, text):
            places[rule].add(name)
        for rule in re.findall(r'(?<![\w-])(' + ID + r')(?![\w-])', text):
            if not NOT_RULES.match(rule):
                named[rule].add(name)
        if name.endswith('.md'):
            wrong_links += links(name, text)
            wrong_paths += paths(name, text)
    report.outcome(
        f'TIDY-1: {len(places)} rules are defined once',
        lines(
            [
                f'{rule}: {", ".join(sorted(at))}'
                for rule, at in sorted(places.items())
                if len(at) > 1
            ]
        ),
    )
    report.outcome(
        'TIDY-2: rules that are named are defined',
        lines(
            [
                f'{rule}: {", ".join(sorted(at))}'
                for rule, at in sorted(named.items())
                if rule not in places
            ]
        ),
    )
    report.outcome('TIDY-3: links', lines(wrong_links))
    report.outcome('TIDY-4: paths', lines(wrong_paths))
    report.outcome(f'TIDY-5: {WIDTH} columns', lines(too_wide))
    unnamed = sorted(set(places) - cited)
    report.outcome(
        'TIDY-6: a test or an assertion names each rule',
        lines([f'{rule}: {", ".join(sorted(places[rule]))}' for rule in unnamed]),
    )
    report.outcome('TIDY-7: the server has no feature of tests', lines(test_features()))
    return report.end()


if __name__ == '__main__':
    sys.exit(main())
