"""Rows for the tables of TPC-H, with the distributions of its specification where the queries
depend on them (clause 4.2.3). Keys, dates, prices and words are ours, not those of dbgen.

A scale of 1 is 6 million rows of lineitem. The same scale always gives the same rows.
"""

import datetime
import random

REGIONS = ['AFRICA', 'AMERICA', 'ASIA', 'EUROPE', 'MIDDLE EAST']
NATIONS = [
    ('ALGERIA', 0), ('ARGENTINA', 1), ('BRAZIL', 1), ('CANADA', 1), ('EGYPT', 4), ('ETHIOPIA', 0),
    ('FRANCE', 3), ('GERMANY', 3), ('INDIA', 2), ('INDONESIA', 2), ('IRAN', 4), ('IRAQ', 4),
    ('JAPAN', 2), ('JORDAN', 4), ('KENYA', 0), ('MOROCCO', 0), ('MOZAMBIQUE', 0), ('PERU', 1),
    ('CHINA', 2), ('ROMANIA', 3), ('SAUDI ARABIA', 4), ('VIETNAM', 2), ('RUSSIA', 3),
    ('UNITED KINGDOM', 3), ('UNITED STATES', 1),
]  # fmt: skip
COLORS = """almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood
    burnished chartreuse chiffon chocolate coral cornflower cornsilk cream cyan dark deep dim dodger
    drab firebrick floral forest frosted gainsboro ghost goldenrod green grey honeydew hot indian
    ivory khaki lace lavender lawn lemon light lime linen magenta maroon medium metallic midnight
    mint misty moccasin navajo navy olive orange orchid pale papaya peach peru pink plum powder puff
    purple red rose rosy royal saddle salmon sandy seashell sienna sky slate smoke snow spring steel
    tan thistle tomato turquoise violet wheat white yellow""".split()
TYPES = [
    'STANDARD SMALL MEDIUM LARGE ECONOMY PROMO'.split(),
    'ANODIZED BURNISHED PLATED POLISHED BRUSHED'.split(),
    'TIN NICKEL BRASS STEEL COPPER'.split(),
]
CONTAINERS = ['SM LG MED JUMBO WRAP'.split(), 'CASE BOX BAG JAR PKG PACK CAN DRUM'.split()]
SEGMENTS = 'AUTOMOBILE BUILDING FURNITURE MACHINERY HOUSEHOLD'.split()
PRIORITIES = ['1-URGENT', '2-HIGH', '3-MEDIUM', '4-NOT SPECIFIED', '5-LOW']
MODES = ['REG AIR', 'AIR', 'RAIL', 'SHIP', 'TRUCK', 'MAIL', 'FOB']
INSTRUCTIONS = ['DELIVER IN PERSON', 'COLLECT COD', 'NONE', 'TAKE BACK RETURN']
WORDS = """packages requests accounts deposits foxes ideas theodolites instructions dependencies
    excuses platelets asymptotes courts dolphins sleep wake haggle nag furious careful quick slow
    special pending unusual express regular final bold even silent blithe""".split()
FIRST, LAST = datetime.date(1992, 1, 1), datetime.date(1998, 8, 2)
CURRENT = datetime.date(1995, 6, 17)

TABLES = {
    'region': 'r_regionkey INT PRIMARY KEY, r_name CHAR(25) NOT NULL, r_comment VARCHAR(152)',
    'nation': """n_nationkey INT PRIMARY KEY, n_name CHAR(25) NOT NULL, n_regionkey INT NOT NULL,
        n_comment VARCHAR(152), KEY (n_regionkey)""",
    'supplier': """s_suppkey INT PRIMARY KEY, s_name CHAR(25) NOT NULL, s_address VARCHAR(40),
        s_nationkey INT NOT NULL, s_phone CHAR(15) NOT NULL, s_acctbal DECIMAL(15,2) NOT NULL,
        s_comment VARCHAR(101) NOT NULL, KEY (s_nationkey)""",
    'part': """p_partkey INT PRIMARY KEY, p_name VARCHAR(55) NOT NULL, p_mfgr CHAR(25) NOT NULL,
        p_brand CHAR(10) NOT NULL, p_type VARCHAR(25) NOT NULL, p_size INT NOT NULL,
        p_container CHAR(10) NOT NULL, p_retailprice DECIMAL(15,2) NOT NULL,
        p_comment VARCHAR(23) NOT NULL""",
    'partsupp': """ps_partkey INT NOT NULL, ps_suppkey INT NOT NULL, ps_availqty INT NOT NULL,
        ps_supplycost DECIMAL(15,2) NOT NULL, ps_comment VARCHAR(199) NOT NULL,
        PRIMARY KEY (ps_partkey, ps_suppkey), KEY (ps_suppkey)""",
    'customer': """c_custkey INT PRIMARY KEY, c_name VARCHAR(25) NOT NULL, c_address VARCHAR(40),
        c_nationkey INT NOT NULL, c_phone CHAR(15) NOT NULL, c_acctbal DECIMAL(15,2) NOT NULL,
        c_mktsegment CHAR(10) NOT NULL, c_comment VARCHAR(117) NOT NULL, KEY (c_nationkey)""",
    'orders': """o_orderkey INT PRIMARY KEY, o_custkey INT NOT NULL, o_orderstatus CHAR(1) NOT NULL,
        o_totalprice DECIMAL(15,2) NOT NULL, o_orderdate DATE NOT NULL,
        o_orderpriority CHAR(15) NOT NULL, o_clerk CHAR(15) NOT NULL, o_shippriority INT NOT NULL,
        o_comment VARCHAR(79) NOT NULL, KEY (o_custkey)""",
    'lineitem': """l_orderkey INT NOT NULL, l_partkey INT NOT NULL, l_suppkey INT NOT NULL,
        l_linenumber INT NOT NULL, l_quantity DECIMAL(15,2) NOT NULL,
        l_extendedprice DECIMAL(15,2) NOT NULL, l_discount DECIMAL(15,2) NOT NULL,
        l_tax DECIMAL(15,2) NOT NULL, l_returnflag CHAR(1) NOT NULL, l_linestatus CHAR(1) NOT NULL,
        l_shipdate DATE NOT NULL, l_commitdate DATE NOT NULL, l_receiptdate DATE NOT NULL,
        l_shipinstruct CHAR(25) NOT NULL, l_shipmode CHAR(10) NOT NULL,
        l_comment VARCHAR(44) NOT NULL, PRIMARY KEY (l_orderkey, l_linenumber),
        KEY (l_partkey, l_suppkey), KEY (l_suppkey)""",
}


class Rows:
    """The rows of all tables, as tuples of values in the form of SQL literals' Python types."""

    def __init__(self, scale):
        self.random = random.Random(19920101)
        count = {'supplier': 10_000, 'part': 200_000, 'customer': 150_000, 'orders': 1_500_000}
        self.count = {table: max(int(n * scale), 10) for table, n in count.items()}

    def text(self, most):
        words = self.random.choices(WORDS, k=self.random.randint(3, 9))
        return ' '.join(words)[:most].rstrip()

    def money(self, low, high):
        return f'{self.random.randint(int(low * 100), int(high * 100)) / 100:.2f}'

    def phone(self, nation):
        digits = self.random.randint
        return f'{nation + 10}-{digits(100, 999)}-{digits(100, 999)}-{digits(1000, 9999)}'

    def price(self, part):
        """The retail price of a part, in cents."""
        return 90000 + (part // 10) % 20001 + 100 * (part % 1000)

    def supplier_of(self, part, n):
        """The key of the part's supplier number n, 0 to 3."""
        suppliers = self.count['supplier']
        return (part + n * (suppliers // 4 + (part - 1) // suppliers)) % suppliers + 1

    def region(self):
        for key, name in enumerate(REGIONS):
            yield key, name, self.text(100)

    def nation(self):
        for key, (name, region) in enumerate(NATIONS):
            yield key, name, region, self.text(100)

    def supplier(self):
        for key in range(1, self.count['supplier'] + 1):
            nation, comment = self.random.randrange(25), self.text(60)
            if key % 97 == 13:
                comment += ' Customer even Complaints'
            yield (
                key, f'Supplier#{key:09}', self.text(40), nation, self.phone(nation),
                self.money(-999.99, 9999.99), comment,
            )  # fmt: skip

    def part(self):
        pick = self.random.choice
        for key in range(1, self.count['part'] + 1):
            maker, price = self.random.randint(1, 5), self.price(key)
            yield (
                key, ' '.join(self.random.sample(COLORS, 5)), f'Manufacturer#{maker}',
                f'Brand#{maker}{self.random.randint(1, 5)}', ' '.join(map(pick, TYPES)),
                self.random.randint(1, 50), ' '.join(map(pick, CONTAINERS)),
                f'{price // 100}.{price % 100:02}', self.text(22),
            )  # fmt: skip

    def partsupp(self):
        for part in range(1, self.count['part'] + 1):
            for supplier in sorted({self.supplier_of(part, n) for n in range(4)}):
                available = self.random.randint(1, 9999)
                yield part, supplier, available, self.money(1, 1000), self.text(150)

    def customer(self):
        for key in range(1, self.count['customer'] + 1):
            nation = self.random.randrange(25)
            yield (
                key, f'Customer#{key:09}', self.text(40), nation, self.phone(nation),
                self.money(-999.99, 9999.99), self.random.choice(SEGMENTS), self.text(110),
            )  # fmt: skip

    def orders(self):
        """The orders with their items: pairs of a row and a list of rows."""
        pick, number, day = self.random.choice, self.random.randint, datetime.timedelta
        days = (LAST - FIRST).days
        for n in range(self.count['orders']):
            key = n // 8 * 32 + n % 8 + 1
            ordered = FIRST + day(self.random.randrange(days + 1))
            items, total = [], 0
            for line in range(1, number(1, 7) + 1):
                part, quantity = number(1, self.count['part']), number(1, 50)
                price, discount, tax = self.price(part) * quantity, number(0, 10), number(0, 8)
                shipped = ordered + day(number(1, 121))
                committed, received = ordered + day(number(30, 90)), shipped + day(number(1, 30))
                total += price * (100 + tax) * (100 - discount) // 10000
                items.append((
                    key, part, self.supplier_of(part, number(0, 3)), line, quantity,
                    f'{price / 100:.2f}', f'0.{discount:02}', f'0.{tax:02}',
                    pick('RA') if received <= CURRENT else 'N', 'O' if shipped > CURRENT else 'F',
                    shipped, committed, received, pick(INSTRUCTIONS), pick(MODES), self.text(43),
                ))  # fmt: skip
            states = {item[9] for item in items}
            # A third of the customers never order.
            customer = number(1, self.count['customer'])
            while customer % 3 == 0:
                customer = number(1, self.count['customer'])
            yield (
                key, customer, states.pop() if len(states) == 1 else 'P', f'{total / 100:.2f}',
                ordered, pick(PRIORITIES), f'Clerk#{number(1, 1000):09}', 0, self.text(78),
            ), items  # fmt: skip

    def all(self):
        """Pairs of a table's name and a row."""
        for table in ('region', 'nation', 'supplier', 'part', 'partsupp', 'customer'):
            for row in getattr(self, table)():
                yield table, row
        for row, items in self.orders():
            yield 'orders', row
            for item in items:
                yield 'lineitem', item
