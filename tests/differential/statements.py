"""Makes random statements over the tables of a round: `t` with keys, `n` with the same rows without
keys, and another table `u`.
"""

import re

from .expressions import KINDS, MIXED, NUMBERS, Expressions
from .tables import literal
from .tree import Node, Optional, Value

AGGREGATES = [
    ('COUNT', 'any'),
    ('SUM', 'num'),
    ('AVG', 'num'),
    ('MIN', 'any'),
    ('MAX', 'any'),
    ('COUNT(DISTINCT', 'any'),
    ('BIT_OR', 'int'),
    ('BIT_XOR', 'int'),
    ('STDDEV', 'dbl'),
    ('SUM(DISTINCT', 'int'),
]

# The kinds of literals beside a column in a condition, in place of the kinds of MIXED.
BESIDE = {
    'date': ['dtm', 'str', 'int'],
    'dtm': ['date', 'str', 'int'],
    'int': ['dec', 'dbl', 'str'],
    'str': ['str', 'int', 'date', 'enum'],
    'bin': ['str', 'bin'],
}


def columns_of(table, prefix):
    out = {'int': [prefix + 'id', prefix + 'id']}
    for name, (_, kind, _) in table.columns.items():
        out.setdefault(kind, []).append(prefix + name)
    return out


class Statements:
    def __init__(self, random, t, u, wild=False):
        self.random, self.t, self.u, self.wild = random, t, u, wild
        self.one = Expressions(random, columns_of(t, ''), wild)
        both = {}
        for part in (columns_of(t, 'a.'), columns_of(u, 'b.')):
            for kind, names in part.items():
                both[kind] = both.get(kind, []) + names
        self.two = Expressions(random, both, wild)
        self.bare = Expressions(random, {}, wild)

    def kind(self):
        return self.random.choice([*KINDS, 'year', 'enum', 'set', 'bit'])

    def drawn(self, make, unlike):
        """Calls `make` until its text does not match `unlike`; in a wild run only once."""
        node = make()
        while not self.wild and unlike and re.search(unlike, node.text()):
            node = make()
        return node

    def stored(self, e, kind, depth):
        """An expression for a column of this kind, often of another kind. For dates, times and
        bytes only the kinds of MIXED are used, because each server stores others in its own way.
        """
        other = (
            MIXED[kind]
            if not self.wild and kind in ('date', 'dtm', 'time', 'year', 'bin')
            else None
        )
        return e.expression(
            kind
            if self.random.random() < 0.6
            else self.random.choice(other)
            if other
            else self.kind(),
            depth,
        )

    def items(self, e, count, depth):
        parts = []
        for i in range(count):
            parts += [Node(', ' if i else '', e.expression(self.kind(), depth), f' AS x{i}')]
        return parts

    def condition(self, e, depth=2):
        """A condition that an index may serve, or any condition."""
        r = self.random
        if r.random() < 0.4:
            kinds = [k for k in e.columns if e.columns[k]]
            terms = []
            for _ in range(r.randint(1, 3)):
                kind = r.choice(kinds)
                column = Value(r.choice(e.columns[kind]))
                value = lambda: literal(
                    r,
                    kind
                    if r.random() < 0.8
                    else self.kind()
                    if self.wild
                    else r.choice(BESIDE.get(kind, MIXED[kind])),
                )
                shape = r.random()
                if shape < 0.5:
                    terms.append(
                        Node(
                            '(',
                            column,
                            f' {r.choice(["=", "<", ">", "<=", ">=", "<=>", "<>"])} ',
                            value(),
                            ')',
                        )
                    )
                elif shape < 0.65:
                    terms.append(Node('(', column, ' BETWEEN ', value(), ' AND ', value(), ')'))
                elif shape < 0.85:
                    terms.append(
                        Node('(', column, ' IN (', value(), ', ', value(), ', ', value(), '))')
                    )
                else:
                    terms.append(Node('(', column, r.choice([' IS NULL', ' IS NOT NULL']), ')'))
            node = terms[0]
            for term in terms[1:]:
                node = Node('(', node, r.choice([' AND ', ' AND ', ' OR ']), term, ')')
            return node
        return e.expression('bool', depth)

    def constants(self):
        """A SELECT of expressions without tables."""
        return Node('SELECT ', *self.items(self.bare, self.random.randint(1, 4), 3))

    def rows(self, table='t', depth=3):
        r = self.random
        parts = [
            'SELECT ',
            r.choice(['', '', '', 'DISTINCT ']),
            *self.items(self.one, r.randint(1, 4), depth),
            f' FROM {table}',
        ]
        if r.random() < 0.7:
            parts.append(Optional(' WHERE ', self.condition(self.one)))
        if 'DISTINCT ' not in parts and r.random() < 0.2:
            direction = r.choice(['', ' DESC'])
            parts.append(
                Optional(' ORDER BY ', Value(r.choice(list(self.t.columns))), direction, ', id')
            )
            if r.random() < 0.6:
                parts.append(Optional(f' LIMIT {r.choice(["0", "1", "3", "2, 2", "5 OFFSET 1"])}'))
        return Node(*parts)

    def groups(self, table='t'):
        r, e = self.random, self.one
        keys = [e.expression(self.kind(), 1) for _ in range(r.choice([0, 1, 1, 2]))]
        parts, number = ['SELECT '], True
        for i, key in enumerate(keys):
            parts.append(Node(key, f' AS k{i}, '))
        for i in range(r.randint(1, 3)):
            name, kind = r.choice(AGGREGATES)
            kind = self.kind() if kind == 'any' else kind
            number = number and (i > 0 or kind in NUMBERS or 'COUNT' in name)
            # MariaDB cuts sums of quotients and of numbers from texts to the digits of its
            # temporary table's columns, and shows the extremes of ZEROFILL there without zeros.
            arg = self.drawn(
                lambda: e.expression(kind, 1), None if 'COUNT' in name else r' / |AS CHAR|\biz\b'
            )
            parts.append(
                Node(', ' if i else '', name, ' ' if '(' in name else '(', arg, f') AS a{i}')
            )
        parts.append(f' FROM {table}')
        if r.random() < 0.5:
            parts.append(Optional(' WHERE ', self.condition(e)))
        if keys:
            parts.append(' GROUP BY ' + ', '.join(f'k{i}' for i in range(len(keys))))
        # Two forms are made only in wild runs: a HAVING that is never true, which MySQL sees before
        # it calculates, and extremes of texts, names and moments beside a number, which MariaDB
        # compares with the types of its temporary table.
        having = ['IS NOT NULL', '=', '<', '>', '<>'] if self.wild or number else ['IS NOT NULL']
        if r.random() < 0.3:
            how = r.choice(having)
            parts.append(
                Optional(
                    f' HAVING a0 {how}', *(() if how == 'IS NOT NULL' else (' ', literal(r, 'int')))
                )
            )
        return Node(*parts)

    def concats(self, table='t'):
        """GROUP_CONCAT with ORDER BY: of columns and positions."""
        r, columns = self.random, self.one.columns
        # DOUBLE has another text in each server, and bytes are no text.
        shown = [n for k, names in columns.items() if k not in ('dbl', 'bin', 'bit') for n in names]
        keys = [n for names in columns.values() for n in names]
        parts = ['SELECT ', r.choice(['', 'id % 3 AS k0, '])]
        for n in range(r.choice([1, 2])):
            values = [r.choice(shown), *r.choice([[], [], ["'/'", 'id']])]
            # Texts that are equal in the collation come in any order, and any of them stands for
            # the others.
            distinct = len(values) == 1 and values[0] not in columns.get('str', ())
            if distinct and r.random() < 0.3:
                call = f'DISTINCT {values[0]} ORDER BY {r.choice([values[0], "1"])}'
                call += r.choice(['', ' DESC'])
            else:
                order = [r.choice([*keys, '1']) for _ in range(r.choice([1, 1, 2]))]
                order = ', '.join(key + r.choice(['', ' DESC']) for key in order)
                call = f'{", ".join(values)} ORDER BY {order}, id'
            parts += [', ' if n else '', f"GROUP_CONCAT({call} SEPARATOR '|') AS a{n}"]
        parts.append(f' FROM {table}')
        if r.random() < 0.3:
            parts.append(Optional(' WHERE ', self.condition(self.one, 1)))
        if 'k0' in parts[1]:
            parts.append(' GROUP BY k0')
        return Node(*parts)

    def join(self, table='t'):
        r, e = self.random, self.two
        kind = r.choice(['JOIN', 'LEFT JOIN', 'JOIN'])
        if r.random() < 0.6:
            shared = r.choice(
                [k for k in columns_of(self.t, 'a.') if k in columns_of(self.u, 'b.')]
            )
            on = Node(
                '(',
                Value(r.choice(columns_of(self.t, 'a.')[shared])),
                f' {r.choice(["=", "=", "<=>", "<"])} ',
                Value(r.choice(columns_of(self.u, 'b.')[shared])),
                ')',
            )
        else:
            on = self.condition(e)
        first, second = (f'u b', f'{table} a') if r.random() < 0.5 else (f'{table} a', 'u b')
        parts = [
            'SELECT ',
            *self.items(e, r.randint(1, 3), 1),
            f' FROM {first} {kind} {second} ON ',
            on,
        ]
        if r.random() < 0.5:
            parts.append(Optional(' WHERE ', self.condition(e)))
        return Node(*parts)

    def linked_by(self, left, right):
        """A condition of a join between tables with these aliases."""
        r = self.random
        x, y = r.choice(left), r.choice(right)
        names = {'a': self.t, 'b': self.u, 'c': self.t, 'd': self.u}
        ints = lambda alias: columns_of(names[alias], alias + '.')['int']
        terms = [f'{r.choice(ints(x))} = {r.choice(ints(y))}']
        if r.random() < 0.6:
            terms = [f'{x}.id = {y}.id' + r.choice(['', '', ' + 1'])]
        if r.random() < 0.3:
            z = r.choice(left + right)
            terms.append(f'{z}.id {r.choice(["<", ">", "<>"])} {r.choice([2, 4, 7])}')
        if r.random() < 0.1:
            terms.append(f'{r.choice(ints(r.choice(right)))} IS NULL')
        return ' AND '.join(terms)

    def join_tree(self, aliases, table='t'):
        """Joins of the tables with these aliases, in any nesting."""
        r = self.random
        if len(aliases) == 1:
            alias = aliases[0]
            return f'{dict(a=table, b="u", c="n", d="u")[alias]} {alias}'
        cut = r.randint(1, len(aliases) - 1)
        left, right = aliases[:cut], aliases[cut:]
        sides = [self.join_tree(side, table) for side in (left, right)]
        kind = r.choice(['LEFT JOIN', 'RIGHT JOIN', 'LEFT JOIN', 'JOIN', 'STRAIGHT_JOIN'])
        if len(right) > 1:
            sides[1] = f'({sides[1]})'
        if len(left) > 1 and r.random() < 0.5:
            sides[0] = f'({sides[0]})'
        if r.random() < 0.15 and len(aliases) == 2:
            return f'{sides[0]} {kind.replace("STRAIGHT_", "")} {sides[1]} USING (id)'
        return f'{sides[0]} {kind} {sides[1]} ON {self.linked_by(left, right)}'

    def joins(self, table='t'):
        """Nested and outer joins of up to four tables."""
        r = self.random
        if r.random() < 0.2:
            kind = r.choice(['', 'LEFT ', 'RIGHT '])
            items = r.choice(['*', 'id, a.id, b.id', 'COUNT(*), COUNT(a.id), COUNT(b.id)'])
            on = r.choice([f'NATURAL {kind}JOIN', f'{kind}JOIN'])
            using = '' if on.startswith('NATURAL') else ' USING (id)'
            return Node(f'SELECT {items} FROM {table} a {on} u b{using}')
        aliases = r.sample(['a', 'b', 'c', 'd'], r.choice([2, 3, 3, 4]))
        items = ', '.join(f'{alias}.id AS x{alias}' for alias in sorted(aliases))
        parts = [f'SELECT {items} FROM {self.join_tree(aliases, table)}']
        if r.random() < 0.5:
            alias = r.choice(aliases)
            test = r.choice([' IS NULL', ' IS NOT NULL', ' > 3', ' <= 5'])
            parts.append(Optional(f' WHERE {alias}.id{test}'))
        return Node(*parts)

    def rollup(self, table='t'):
        """Groups with sums over them. Equal texts have several forms, so keys are numbers."""
        r, columns = self.random, columns_of(self.t, '')
        ints = columns['int']
        keys = sorted({*ints, 'id % 3', 'id DIV 4'})
        keys = r.sample(keys, min(len(keys), r.choice([1, 2, 3])))
        parts = ['SELECT ', ', '.join(f'{key} AS k{n}' for n, key in enumerate(keys))]
        for n in range(r.choice([1, 2])):
            call = r.choice(['COUNT(*)', f'SUM({r.choice(ints)})', f'MAX({r.choice(ints)})'])
            parts.append(f', {call} AS a{n}')
        parts.append(f' FROM {table}')
        if r.random() < 0.5:
            parts.append(Optional(' WHERE ', self.condition(self.one, 1)))
        parts.append(' GROUP BY ' + ', '.join(f'k{n}' for n in range(len(keys))) + ' WITH ROLLUP')
        return Node(*parts)

    def subselect(self, table='t'):
        r = self.random
        kind = r.choice(list(self.one.columns))
        inner = Expressions(r, columns_of(self.u, ''), self.wild)
        select = Node(
            '(SELECT ',
            inner.expression(kind, 1),
            ' FROM u',
            Optional(' WHERE ', self.condition(inner)),
            ')',
        )
        shape = r.random()
        if shape < 0.6:
            test = Node(
                '(', self.one.expression(kind, 1), r.choice([' IN ', ' NOT IN ']), select, ')'
            )
        elif shape < 0.8:
            test = Node(r.choice(['EXISTS ', 'NOT EXISTS ']), select)
        else:
            return Node(
                'SELECT ',
                *self.items(Expressions(r, {'int': ['x0'], 'str': ['x1']}, self.wild), 2, 2),
                ' FROM (',
                self.rows_named(),
                ') q',
            )
        return Node('SELECT id FROM ', table, ' WHERE ', test)

    def linked(self):
        """Conditions between the outer row `a` and the inner row `b`: most are equalities."""
        r = self.random
        shared = sorted(set(columns_of(self.t, 'a.')) & set(columns_of(self.u, 'b.')))
        terms = []
        for _ in range(r.choice([1, 1, 2])):
            kind = r.choice(shared)
            sides = [
                Value(r.choice(columns_of(self.t, 'a.')[kind])),
                f' {r.choice(["=", "=", "=", "<=>", "<"])} ',
                Value(r.choice(columns_of(self.u, 'b.')[kind])),
            ]
            terms += [' AND ', Node('(', *sides, ')')]
        if r.random() < 0.4:
            inner = Expressions(r, columns_of(self.u, 'b.'), self.wild)
            e = self.two if r.random() < 0.3 else inner
            terms.append(Optional(' AND ', self.condition(e, 1)))
        return Node(*terms[1:])

    def correlated_test(self):
        """A condition on a row `a` with a subquery for it."""
        r = self.random
        columns = columns_of(self.u, 'b.')
        kind = r.choice([k for k in columns if k in columns_of(self.t, 'a.')])
        value = Value(r.choice(columns_of(self.t, 'a.')[kind]))
        inner = Node(Value(r.choice(columns[kind])))
        tail = Node(' FROM u b WHERE ', self.linked())
        shape = r.random()
        if shape < 0.35:
            return Node(r.choice(['EXISTS ', 'NOT EXISTS ']), '(SELECT 1', tail, ')')
        if shape < 0.7:
            test = r.choice([' IN ', ' IN ', ' NOT IN ', ' = ANY ', ' <> ALL '])
            return Node('(', value, test, '(SELECT ', inner, tail, '))')
        if shape < 0.85 and kind in NUMBERS:
            test = f' {r.choice(["<", ">", "<=", ">=", "<>"])} {r.choice(["ANY", "ALL"])} '
            return Node('(', value, test, '(SELECT ', inner, tail, '))')
        name = r.choice(['MIN', 'MAX', 'COUNT'])
        test = f' {r.choice(["=", "<", ">", "<=>"])} '
        value = Value(r.choice(columns_of(self.t, 'a.')['int'])) if name == 'COUNT' else value
        return Node('(', value, test, f'(SELECT {name}(', inner, ')', tail, '))')

    def correlated(self, table='t'):
        """A query with subqueries that refer to its rows."""
        r = self.random
        columns = columns_of(self.u, 'b.')
        parts = ['SELECT a.id']
        for _ in range(r.choice([0, 1, 1, 2])):
            kind = r.choice(list(columns))
            name = r.choice(['MIN', 'MAX', 'COUNT', 'COUNT'])
            inner = Value(r.choice(columns[kind]))
            tail = Node(' FROM u b WHERE ', self.linked())
            parts.append(Node(f', (SELECT {name}(', inner, ')', tail, ')'))
        if r.random() < 0.3:
            parts.append(Node(', ', self.correlated_test()))
        parts.append(f' FROM {table} a')
        if len(parts) == 2 or r.random() < 0.7:
            test = self.correlated_test()
            if r.random() < 0.3:
                outer = Expressions(r, columns_of(self.t, 'a.'), self.wild)
                word = r.choice([' AND ', ' OR '])
                test = Node('(', test, word, self.condition(outer, 1), ')')
            parts.append(Node(' WHERE ', test))
        if r.random() < 0.2:
            select = Node('(SELECT COUNT(*) FROM u b WHERE ', self.linked(), ')')
            parts.append(Optional(' ORDER BY ', select, ', a.id'))
        return Node(*parts)

    def union(self, table='t'):
        """Two or three SELECTs, whose columns are often of the same kind."""
        r = self.random
        kinds = [self.kind() for _ in range(r.randint(1, 3))]
        parts = []
        for n in range(r.choice([2, 2, 3])):
            e, of = r.choice([(self.one, f' FROM {table}'), (self.bare, '')])
            items = []
            for i, kind in enumerate(kinds):
                value = e.expression(kind if r.random() < 0.7 else self.kind(), 1)
                items += [', ' if i else '', value, f' AS x{i}']
            parts += [r.choice([' UNION ', ' UNION ALL ']) if n else '', 'SELECT ', *items, of]
            if of and r.random() < 0.5:
                parts.append(Optional(' WHERE ', self.condition(e)))
        return Node(*parts)

    def set_operation(self, table='t'):
        """Two to four SELECTs of the same columns, with INTERSECT, EXCEPT and UNION between them,
        some of them in parentheses.
        """
        r, columns = self.random, columns_of(self.t, '')
        kinds = r.sample(sorted(columns), min(len(columns), r.choice([1, 1, 2])))
        own = [r.choice(columns[kind]) for kind in kinds]
        if r.random() < 0.4:
            own = ['id % 3', *own[1:]]

        def operand():
            node = Node('SELECT ', ', '.join(own), f' FROM {table}')
            if r.random() < 0.8:
                node = Node(node, Optional(' WHERE ', self.condition(self.one, 1)))
            return node

        def operations(depth):
            # MariaDB does not end some statements that have INTERSECT ALL or EXCEPT ALL among
            # others.
            parts, operands = [], r.choice([2, 2, 3, 4])
            for n in range(operands):
                word = r.choice(['INTERSECT', 'EXCEPT', 'UNION'])
                may_repeat = word == 'UNION' or operands == 2 and depth == 1
                every = 'ALL ' if may_repeat and r.random() < 0.5 else ''
                parts.append(f' {word} {every}' if n else '')
                inner = depth > 0 and operands > 2 and r.random() < 0.2
                parts += ['(', operations(depth - 1), ')'] if inner else [operand()]
            return Node(*parts)

        return operations(1)

    def recursion(self, table='t'):
        """A recursive common table expression whose iterations end."""
        r = self.random
        most, step = r.choice([3, 7, 20]), r.choice([1, 2, 5])
        union = r.choice(['UNION', 'UNION ALL'])
        seed = Node(
            'SELECT id AS n, 0 AS d FROM ',
            table,
            Optional(' WHERE ', self.condition(self.one, 1)),
        )
        member = r.choice(
            [
                f'SELECT n + {step}, d + 1 FROM x WHERE d < {r.choice([0, 2, 4])} AND n < {most}',
                f'SELECT u.id, d + 1 FROM x JOIN u ON u.id = x.n + {step} WHERE d < 5',
                f'SELECT n DIV 2, d + 1 FROM x WHERE n > {step} AND d < 6',
            ]
        )
        more = f' {union} SELECT n, d + 2 FROM x WHERE d < 2 AND n = 1' if r.random() < 0.3 else ''
        body = Node('WITH RECURSIVE x AS (', seed, f' {union} ', member, more, ') SELECT ')
        shown = r.choice(
            [
                'n, d FROM x',
                'COUNT(*), SUM(n), MAX(d) FROM x',
                'd, COUNT(DISTINCT n) FROM x GROUP BY d',
                f'x.n, d, {table}.id FROM x JOIN {table} ON {table}.id = x.n',
            ]
        )
        return Node(body, shown)

    def windows(self, table='t'):
        """Window functions, whose order is total where their value depends on it."""
        r, columns = self.random, columns_of(self.t, '')
        plain = [k for k in columns if k in ('int', 'dec', 'date', 'dtm', 'str')]
        pick = lambda: r.choice(columns[r.choice(plain)])
        parts = ['SELECT id']
        for n in range(r.choice([1, 1, 2])):
            partition = r.choice(['', '', f'PARTITION BY {pick()} ', 'PARTITION BY id % 3 '])
            down = r.choice(['', ' DESC'])
            total = f'ORDER BY {pick()}{down}, id'
            number = r.choice([1, 2, 3])
            edges = [
                'UNBOUNDED PRECEDING',
                f'{number + 1} PRECEDING',
                '1 PRECEDING',
                'CURRENT ROW',
                '1 FOLLOWING',
                f'{number + 1} FOLLOWING',
                'UNBOUNDED FOLLOWING',
            ]
            a, b = sorted(r.sample(range(len(edges)), 2))
            if (a, b) in ((0, 0), (6, 6)):
                a, b = 0, 3
            frame = f' ROWS BETWEEN {edges[a]} AND {edges[b]}'
            shape = r.random()
            if shape < 0.25:
                call = r.choice(['ROW_NUMBER()', f'NTILE({number})'])
                over = partition + total
            elif shape < 0.4:
                call = r.choice(['RANK()', 'DENSE_RANK()', 'PERCENT_RANK()', 'CUME_DIST()'])
                over = f'{partition}ORDER BY {pick()}{down}'
            elif shape < 0.55:
                call = f'{r.choice(["LAG", "LEAD"])}({pick()}, {number})'
                over = partition + total
            elif shape < 0.7:
                call = r.choice([f'FIRST_VALUE({pick()})', f'LAST_VALUE({pick()})'])
                over = partition + total + r.choice(['', frame])
            elif shape < 0.85:
                column = r.choice(columns['int'] + columns.get('dec', []))
                call = f'{r.choice(["SUM", "AVG", "COUNT", "MIN", "MAX"])}({column})'
                over = partition + r.choice(['', total, total + frame])
            else:
                # MariaDB's limits of a frame may be out of the column's range.
                column = r.choice(['id', 'id % 5', 'id DIV 2'])
                call = f'{r.choice(["SUM", "COUNT", "MIN", "MAX"])}({r.choice(columns["int"])})'
                range_ = f' RANGE BETWEEN {number} PRECEDING AND {r.choice([0, 1, 5])} FOLLOWING'
                over = f'{partition}ORDER BY {column}{down}{r.choice(["", range_, range_])}'
            value = f'{call} OVER ({over})'
            if call in ('PERCENT_RANK()', 'CUME_DIST()'):
                # MariaDB shows ten decimals of them.
                value = f'CAST({value} AS DECIMAL(8,6))'
            parts.append(f', {value} AS x{n}')
        parts.append(f' FROM {table}')
        if r.random() < 0.5:
            parts.append(Optional(' WHERE ', self.condition(self.one, 1)))
        return Node(*parts)

    def rows_named(self):
        r = self.random
        return Node(
            'SELECT ',
            self.one.expression('int', 2),
            ' AS x0, ',
            self.one.expression('str', 2),
            ' AS x1 FROM t',
            Optional(' WHERE ', self.condition(self.one)),
        )

    # ---- changes

    def values(self, depth):
        """A row for `t`: each column gets a value of its kind or of any kind."""
        r, parts = self.random, []
        for name, (_, kind, choices) in self.t.columns.items():
            if r.random() < 0.5:
                value = Value(r.choice(choices))
            elif r.random() < 0.5:
                value = literal(r, self.kind())
            else:
                value = self.stored(self.bare, kind, depth)
            parts.append((name, value))
        return r.sample(parts, min(len(parts), r.randint(1, 5)))

    def insert(self):
        r = self.random
        values = self.values(2)
        # Omitted columns without a default would hide other differences.
        given = {n for n, _ in values}
        for name, (_, _, choices) in self.t.columns.items():
            if not self.t.nullable[name] and name not in given:
                values.append((name, Value(r.choice(choices))))
        id = r.choice([1000, 1000, 1, 2])
        verb = r.choice(['INSERT INTO', 'INSERT INTO', 'INSERT IGNORE INTO', 'REPLACE INTO'])
        parts = [f'{verb} t (id', *(f', {n}' for n, _ in values), f') VALUES ({id}']
        for _, value in values:
            parts += [', ', value]
        parts.append(')')
        if verb == 'INSERT INTO' and r.random() < 0.3:
            parts.append(Optional(' ON DUPLICATE KEY UPDATE ', *self.assignments()))
        return Node(*parts)

    def assignments(self):
        r, parts = self.random, []
        for i, name in enumerate(
            r.sample(list(self.t.columns), min(len(self.t.columns), r.randint(1, 3)))
        ):
            _, kind, choices = self.t.columns[name]
            shape = r.random()
            value = Value(r.choice(choices)) if shape < 0.2 else self.stored(self.one, kind, 2)
            parts += [Node(', ' if i else '', name, ' = ', value)]
        return parts

    def correlated_update(self):
        r = self.random
        columns = columns_of(self.u, 'b.')
        of_kind = {n: columns[k] for n, (_, k, _) in self.t.columns.items() if k in columns}
        name = r.choice(list(of_kind) or ['id'])
        inner = Node(Value(r.choice(of_kind.get(name, columns['int']))))
        parts = [
            f'UPDATE t a SET a.{name} = (SELECT {r.choice(["MIN", "MAX"])}(',
            inner,
            ') FROM u b WHERE ',
            self.linked(),
            ')',
        ]
        if r.random() < 0.6:
            parts.append(Optional(' WHERE ', self.correlated_test()))
        return Node(*parts)

    def update(self):
        r = self.random
        if r.random() < 0.2:
            return self.correlated_update()
        parts = [
            r.choice(['UPDATE t SET ', 'UPDATE t SET ', 'UPDATE IGNORE t SET ']),
            *self.assignments(),
        ]
        if r.random() < 0.8:
            parts.append(Optional(' WHERE ', self.condition(self.one)))
        if r.random() < 0.2:
            parts.append(Optional(f' ORDER BY id {r.choice(["", "DESC"])} LIMIT {r.randint(0, 4)}'))
        return Node(*parts)

    def delete(self):
        r = self.random
        parts = ['DELETE FROM t', Optional(' WHERE ', self.condition(self.one))]
        if r.random() < 0.2:
            parts.append(Optional(f' ORDER BY id LIMIT {r.randint(0, 4)}'))
        return Node(*parts)

    def update_many(self):
        """An UPDATE of joined tables. Each row of `t` meets one row, because MariaDB chooses the
        order of the others.
        """
        r = self.random
        name = r.choice(list(self.t.columns))
        _, kind, choices = self.t.columns[name]
        value = Value(r.choice(choices)) if r.random() < 0.4 else self.stored(self.two, kind, 1)
        kind = r.choice(['JOIN', 'LEFT JOIN', 'JOIN'])
        tables = r.choice([f't a {kind} u b', f't a {kind} (u b JOIN n c ON b.id = c.id)'])
        parts = [
            f'UPDATE {tables} ON a.id = b.id{r.choice(["", " + 1"])} SET a.{name} = ',
            value,
        ]
        if r.random() < 0.6:
            parts.append(Optional(' WHERE ', self.condition(self.two, 1)))
        return Node(*parts)

    def delete_many(self):
        r = self.random
        tables = r.choice(['t a JOIN u b', 't a LEFT JOIN u b', 'u b RIGHT JOIN t a'])
        column = r.choice(columns_of(self.t, 'a.')['int'])
        on = r.choice(['a.id = b.id', 'a.id <> b.id', f'{column} = b.id'])
        target = r.choice(['DELETE a FROM', 'DELETE FROM a USING', 'DELETE a, b FROM'])
        return Node(
            f'{target} {tables} ON {on}',
            Optional(' WHERE ', self.condition(self.two, 1)),
        )

    def copy(self):
        """An INSERT .. SELECT from one column into another."""
        r = self.random
        to = r.choice(list(self.t.columns))
        others = [n for n in self.t.columns if not self.t.nullable[n] and n != to]
        names = ''.join(f', {n}' for n in others)
        return Node(
            r.choice(['INSERT INTO', 'INSERT IGNORE INTO']),
            f' t (id, {to}{names}) SELECT id + 1000, ',
            self.stored(self.one, self.t.columns[to][1], 1),
            f'{names} FROM n',
            Optional(' WHERE ', self.condition(self.one)),
        )
