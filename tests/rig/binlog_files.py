"""Reads the files of a binary log, with nothing of the server's own code: magic, lengths, positions
and checksums of all events, and the rows that transactions have inserted into one table.
"""

import os
import struct
import zlib

MAGIC = b'\xfebin'
QUERY, FORMAT_DESCRIPTION, XID = 2, 15, 16
TABLE_MAP, WRITE_ROWS, GTID, ANONYMOUS_GTID, XA_PREPARE = 19, 30, 33, 34, 38


class Wrong(Exception):
    """A file that is not a file of the binary log."""


def names(folder, base='binlog'):
    """The files that the index names, the oldest first. The last one is left out if it is not
    there: the index names a file before the file is made.
    """
    with open(os.path.join(folder, f'{base}.index')) as f:
        named = [os.path.basename(line.strip()) for line in f]
    if named and not os.path.exists(os.path.join(folder, named[-1])):
        named.pop()
    return named


def events(path, begin=4, torn=False):
    """Type, begin, end and body of each event of a file, all of them checked. With `torn` the file
    may end inside an event, as a kill leaves it.
    """
    with open(path, 'rb') as f:
        data = f.read()
    if torn and len(data) < 4 + 19 + 99:
        return
    if data[:4] != MAGIC:
        raise Wrong(f'{path}: no magic')
    at, checksum = 4, data[4 + 19 + 98] == 1
    while at < len(data):
        if torn and (
            len(data) - at < 19 or at + struct.unpack_from('<I', data, at + 9)[0] > len(data)
        ):
            return
        if len(data) - at < 19:
            raise Wrong(f'{path}, {at}: it ends inside a header')
        kind, length, end = data[at + 4], *struct.unpack_from('<II', data, at + 9)
        if end != at + length or end > len(data):
            raise Wrong(f'{path}, {at}: {length} bytes that end at {end}')
        has_sum = checksum or kind == FORMAT_DESCRIPTION
        if has_sum:
            event = bytearray(data[at : end - 4])
            if kind == FORMAT_DESCRIPTION:
                # The flag that says that the file is open is not in the checksum.
                event[17] &= 0xFE
            if zlib.crc32(event) != struct.unpack_from('<I', data, end - 4)[0]:
                raise Wrong(f'{path}, {at}: the checksum is wrong')
        if at >= begin:
            yield kind, at, end, data[at + 19 : end - (4 if has_sum else 0)]
        at = end


def statement(body):
    """The text of a QUERY event."""
    return body[14 + body[8] + struct.unpack_from('<H', body, 11)[0] :].decode()


def inserted(path, table, prepared, begin=4, torn=False):
    """The bodies of the events with which each transaction has inserted rows into `table`
    (schema.table), from the position `begin` on; and where the file's last transaction ends. Fails
    if a transaction is not whole, or its number is not the one that follows. `prepared` has the
    XA transactions of earlier files that are prepared, and gets those of this file.
    """
    found, open_rows, maps, end, number, xid = [], None, {}, begin, 0, None
    for kind, at, event_end, body in events(path, torn=torn):
        if kind in (GTID, ANONYMOUS_GTID):
            if open_rows is not None:
                raise Wrong(f'{path}, {at}: a transaction inside a transaction')
            number += 1
            if struct.unpack_from('<Q', body, 1 + 16 + 8 + 1 + 8)[0] != number:
                raise Wrong(f'{path}, {at}: the sequence number is not {number}')
            open_rows = []
        elif kind == TABLE_MAP:
            schema = body[9 : 9 + body[8]]
            rest = body[10 + body[8] :]
            maps[body[:6]] = b'.'.join([schema, rest[1 : 1 + rest[0]]]).decode()
        elif kind == WRITE_ROWS and maps.get(body[:6]) == table:
            open_rows.append(body)
        elif kind == QUERY and statement(body).startswith('XA START'):
            xid = statement(body).split()[2]
        elif kind == QUERY and statement(body).split()[:2] in (['BEGIN'], ['XA', 'END']):
            pass
        elif kind in (XID, QUERY, XA_PREPARE):
            if open_rows is None:
                raise Wrong(f'{path}, {at}: the end of no transaction')
            words = statement(body).split() if kind == QUERY else []
            if at < begin:
                pass
            elif kind == XA_PREPARE and body[0] == 0:
                if prepared.setdefault(xid, open_rows) is not open_rows:
                    raise Wrong(f'{path}, {at}: {xid} is prepared already')
            elif words[:2] in (['XA', 'COMMIT'], ['XA', 'ROLLBACK']):
                if words[2] not in prepared:
                    raise Wrong(f'{path}, {at}: {words[2]} is not prepared')
                rows = prepared.pop(words[2])
                found += [rows] if words[1] == 'COMMIT' else []
            else:
                found.append(open_rows)
            open_rows, end = None, event_end
    if open_rows is not None and not torn:
        raise Wrong(f'{path}: the last transaction is not whole')
    return found, end

