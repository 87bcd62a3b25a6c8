"""A client that sends many statements before it reads their answers, so that neither side waits
for the other after each statement.
"""

import struct
import time
from dataclasses import dataclass

# Statements whose answers nobody has read yet stay within the socket's buffers.
AT_ONCE, BYTES_AT_ONCE = 48, 24_000
OK, NULL, END, ERROR = 0x00, 0xFB, 0xFE, 0xFF


@dataclass(slots=True)
class Answer:
    """Rows as one list of values (`width` is their number of columns), OK (0), or an error."""

    width: int = 0
    values: list | None = None
    error: tuple | None = None
    seconds: float = 0.0


def batches(records):
    """Groups of records that may be sent at once."""
    batch, size = [], 0
    for record in records:
        if batch and (len(batch) == AT_ONCE or size + len(record.sql) > BYTES_AT_ONCE):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += len(record.sql)
    if batch:
        yield batch


class Pipe:
    """Takes over a connection of rig.client after its login."""

    def __init__(self, connection):
        self.io, self.data, self.at = connection.io, bytearray(), 0

    def answers(self, statements):
        """Runs statements. Yields their answers in their order."""
        self.io.sendall(
            b''.join(struct.pack('<IB', len(sql) + 1, 3) + sql for sql in statements)
        )
        before = time.perf_counter()
        for _ in statements:
            answer = self.answer()
            now = time.perf_counter()
            answer.seconds, before = now - before, now
            yield answer

    def answer(self):
        p = self.packet()
        if p[0] == OK:
            return Answer()
        if p[0] == ERROR:
            return failure(p)
        width = p[0]
        for _ in range(width):
            self.packet()
        values = []
        while True:
            p = self.packet()
            if p[0] == END:
                return Answer(width, values)
            if p[0] == ERROR and p[3:4] == b'#':
                return failure(p)
            take_values(p, values)

    def packet(self):
        while len(self.data) < self.at + 4:
            self.fill()
        n = int.from_bytes(self.data[self.at : self.at + 3], 'little')
        start, end = self.at + 4, self.at + 4 + n
        while len(self.data) < end:
            gone = self.at
            self.fill()
            start, end = start - (gone - self.at), end - (gone - self.at)
        self.at = end
        return self.data[start:end]

    def fill(self):
        more = self.io.recv(1 << 18)
        if not more:
            raise ConnectionError('the server closed the connection')
        self.data = self.data[self.at :] + more
        self.at = 0


def take_values(p, values):
    at, end = 0, len(p)
    while at < end:
        n = p[at]
        at += 1
        if n == NULL:
            values.append(None)
            continue
        if n > NULL:
            size = {0xFC: 2, 0xFD: 3, 0xFE: 8}[n]
            n, at = int.from_bytes(p[at : at + size], 'little'), at + size
        values.append(bytes(p[at : at + n]))
        at += n


def failure(p):
    return Answer(error=(int.from_bytes(p[1:3], 'little'), p[9:].decode('utf-8', 'replace')))
