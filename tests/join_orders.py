#!/usr/bin/env python3
"""Random joins in the order that the server chooses must give the rows of the order of the text.

  tests/join_orders.py                       a short run with a fixed seed
  tests/join_orders.py --seconds 600 --seed 7 --mariadb

Each round makes tables of very different sizes with random indexes, so that the chosen orders
differ from those of the text. Each query runs as it is, with SELECT STRAIGHT_JOIN, which holds the
order (JOIN-3), and with --mariadb on MariaDB. The run also fails if the server changes no order:
then it would test nothing.
"""

import argparse
import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rig import servers  # noqa: E402
from rig.client import MySQLError  # noqa: E402

SIZES = [0, 1, 3, 10, 40, 150, 600]
# The fewest queries, however long they take.
LEAST = 50
QUERIES_A_ROUND = 150
COLUMNS = 'abc'
KINDS = ['JOIN', 'JOIN', 'JOIN', 'LEFT JOIN', 'STRAIGHT_JOIN', ',', 'RIGHT']
MOST_PAIRS = 3e7  # a join in an unlucky order reads this many rows


class Joins:
    """Tables and queries from a random source."""

    def __init__(self, r):
        self.r, self.sizes = r, {}

    def tables(self):
        """The statements that make the tables of a round."""
        r = self.r
        for n in range(6):
            name, size = f't{n}', r.choice(SIZES)
            self.sizes[name] = size
            key = r.choice(['id INT PRIMARY KEY', 'id INT PRIMARY KEY', 'id INT'])
            parts = [key, 'a INT', 'b INT NOT NULL', 'c VARCHAR(8)']
            for i in range(r.randrange(4)):
                columns = r.sample(['a', 'b', 'c', 'id'], r.choice([1, 1, 2, 3]))
                parts.append(f'KEY k{i} ({", ".join(columns)})')
            yield f'CREATE TABLE {name} ({", ".join(parts)})'
            spread = [max(1, r.choice([2, 5, size // 4, size])) for _ in range(3)]
            rows = [
                f'({i}, {r.choice(["NULL"] + [str(r.randrange(spread[0]))] * 9)}, '
                f"{r.randrange(spread[1])}, 'x{r.randrange(spread[2])}')"
                for i in range(size)
            ]
            if rows:
                yield f'INSERT INTO {name} VALUES {", ".join(rows)}'

    def column(self, alias, text=False):
        return f'{alias}.c' if text else f'{alias}.{self.r.choice(["id", "id", "a", "b"])}'

    def link(self, one, others):
        """An equality between a table and one before it, and sometimes more."""
        r, terms = self.r, []
        for _ in range(r.choice([1, 1, 1, 2])):
            text = r.random() < 0.15
            left, right = self.column(one, text), self.column(r.choice(others), text)
            terms.append(f'{left} {"<=>" if r.random() < 0.05 else "="} {right}')
        if r.random() < 0.2:
            terms.append(self.test(r.choice([one, *others])))
        return ' AND '.join(terms)

    def test(self, alias):
        r = self.r
        column, number = self.column(alias), r.choice([0, 1, 2, 7, 30, 100])
        return r.choice([
            f'{column} = {number}', f'{column} = {number}', f'{column} < {number}',
            f'{column} BETWEEN {number // 2} AND {number}', f'{column} IN (1, {number})',
            f"{alias}.c = 'x{number % 5}'", f'{alias}.a IS NULL', f'{alias}.a IS NOT NULL',
            f"({column} = {number} OR {alias}.c LIKE 'x1%')",
        ])  # fmt: skip

    def factor(self, alias, before):
        """A table, or a derived table, with its alias."""
        r, table = self.r, r_table(self.r)
        self.pairs *= max(self.sizes[table], 1)
        kind = r.random()
        if kind < 0.1:
            return f'(SELECT * FROM {table} WHERE b < 50) AS {alias}'
        if kind < 0.15 and before:
            linked = f'i.b = {self.column(r.choice(before))}'
            return f'LATERAL (SELECT i.id, i.a, i.b, i.c FROM {table} i WHERE {linked}) AS {alias}'
        return f'{table} AS {alias}'

    def query(self):
        """A query, or None if it could take long."""
        r, self.pairs = self.r, 1
        aliases = [f'x{n}' for n in range(r.choice([2, 3, 3, 4, 5, 6, 9]))]
        text, where, lateral = '', [], False
        n = 0
        while n < len(aliases):
            alias, before = aliases[n], aliases[:n]
            if not before:
                text += self.factor(alias, [])
            elif r.random() < 0.15 and n + 1 < len(aliases):
                # An outer join of two tables together.
                other = aliases[n + 1]
                pair = f'({self.factor(alias, [])} JOIN {self.factor(other, [])}'
                pair += f' ON {self.link(other, [alias])})'
                kind = r.choice(['LEFT JOIN', 'JOIN', 'LEFT JOIN'])
                text += f' {kind} {pair} ON {self.link(r.choice([alias, other]), before)}'
                n += 1
            else:
                kind = r.choice(KINDS)
                factor = self.factor(alias, before if kind == 'JOIN' else [])
                lateral |= 'LATERAL' in factor
                if kind == ',' and n == len(aliases) - 1:
                    text += f', {factor}'
                    where.append(self.link(alias, before))
                elif kind == 'RIGHT' and 'LATERAL' not in text:
                    text += f' RIGHT JOIN {factor} ON {self.link(alias, before)}'
                else:
                    kind = 'JOIN' if kind in (',', 'RIGHT') else kind
                    text += f' {kind} {factor} ON {self.link(alias, before)}'
            n += 1
        where += [self.test(r.choice(aliases)) for _ in range(r.choice([0, 1, 1, 2]))]
        one = r.choice(aliases)
        if r.random() < 0.15:
            inner = f'SELECT 1 FROM {r_table(r)} s WHERE s.id = {self.column(one)}'
            inner += f' AND s.b <= {self.column(r.choice(aliases))}'
            where.append(f'{r.choice(["", "NOT "])}EXISTS ({inner})')
        if self.pairs > MOST_PAIRS:
            return None
        text += f' WHERE {" AND ".join(where)}' if where else ''
        items = ', '.join(f'{alias}.id, {alias}.a' for alias in aliases)
        items = ', '.join(f'{item} AS c{n}' for n, item in enumerate(items.split(', ')))
        shape = r.random()
        if shape < 0.2:
            inner = f'(SELECT MAX(s.b) FROM {r_table(r)} s WHERE s.a = {one}.a)'
            return f'SELECT {{}}{items}, {inner} AS m FROM {text}', lateral
        if shape < 0.4:
            return (
                f'SELECT {{}}{one}.b AS g, COUNT(*), SUM({self.column(aliases[-1])}),'
                f' MIN({self.column(aliases[0])}) FROM {text} GROUP BY {one}.b'
            ), lateral
        if shape < 0.5:
            return f'SELECT {{}}DISTINCT {one}.a, {aliases[0]}.b FROM {text}', lateral
        if shape < 0.65:
            keys = ', '.join(f'c{n}' for n in range(2 * len(aliases)))
            key = r.choice(['', f'{one}.id, ', f'{one}.b DESC, '])
            return f'SELECT {{}}{items} FROM {text} ORDER BY {key}{keys} LIMIT 7', lateral
        return f'SELECT {{}}{items} FROM {text}', lateral


def r_table(r):
    return f't{r.randrange(6)}'


def answer(c, sql):
    try:
        return sorted(c.query(sql)[0].rows, key=repr)
    except MySQLError as e:
        return f'error {e.code}'


def order(c, sql):
    """The tables in the order in which they are read."""
    return [row[2] for row in c.rows('EXPLAIN ' + sql)]


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument('--seconds', type=float, default=8)
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--mariadb', action='store_true')
    a = p.parse_args()
    running = [servers.Redolith(servers.scratch('join-orders'))]
    if a.mariadb:
        running.append(servers.MariaDB(servers.scratch('join-orders-mariadb')))
    began, seed, ran, moved, wrong = time.monotonic(), a.seed, 0, 0, 0
    # A machine that is busy with something else still runs some.
    goes_on = lambda: time.monotonic() - began < a.seconds or ran < LEAST
    try:
        for server in running:
            server.start()
        connections = [server.connect(timeout=600) for server in running]
        began = time.monotonic()
        while goes_on() and wrong < 5:
            joins = Joins(random.Random(seed))
            seed += 1
            for c in connections:
                c.query('DROP DATABASE IF EXISTS d')
                c.query('CREATE DATABASE d')
                c.query('USE d')
            for sql in joins.tables():
                for c in connections:
                    c.query(sql)
            c = connections[0]
            for _ in range(QUERIES_A_ROUND):
                made = joins.query()
                if made is None or not goes_on():
                    continue
                sql, lateral = made
                free, straight = sql.format(''), sql.format('STRAIGHT_JOIN ')
                rows = [answer(c, free), answer(c, straight)]
                if a.mariadb and not lateral:
                    rows.append(answer(connections[1], free))
                ran += 1
                if isinstance(rows[0], str):
                    sys.exit(f'{rows[0]}: {free}')
                is_moved = order(c, free) != order(c, straight)
                moved += is_moved
                if any(other != rows[0] for other in rows[1:]):
                    wrong += 1
                    print(f'seed {seed - 1}: {free}')
                    print(*(len(r) if isinstance(r, list) else r for r in rows))
                    print(*((r[:4] if isinstance(r, list) else r) for r in rows), sep='\n')
        print(f'{ran} queries, {moved} in another order')
    finally:
        for server in running:
            server.remove()
    failed = wrong or not moved
    print(
        f'test result: {"FAILED" if failed else "ok"}. {ran - wrong} passed; {wrong} failed; 0'
        f' ignored; finished in {time.monotonic() - began:.0f}s'
    )
    sys.exit(bool(failed))


if __name__ == '__main__':
    main()
