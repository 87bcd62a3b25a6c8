"""Dumps of the binary log as a client that sees the bytes."""

import struct

REGISTER, DUMP, DUMP_GTID = 0x15, 0x12, 0x1E
NON_BLOCK = 1
MAGIC = b'\xfebin'
ROTATE, FORMAT, HEARTBEAT, PREVIOUS_GTIDS = 4, 15, 27, 35
ARTIFICIAL = 0x20
IN_USE_AT = 21
SEMI_SYNC = 0xEF


class Event:
    def __init__(self, raw, asks=False):
        """`asks`: the replica is to acknowledge the event."""
        self.raw, self.asks = raw, asks
        _, self.type, self.server_id, self.len, self.end, self.flags = struct.unpack_from(
            '<IBIIIH', raw
        )

    @property
    def made(self):
        return bool(self.flags & ARTIFICIAL)


class Dump:
    """A connection that dumps the binary log."""

    def __init__(
        self,
        server,
        file='',
        position=4,
        flags=0,
        server_id=77,
        checksum='CRC32',
        heartbeat=0,
        semi_sync=None,
    ):
        """`semi_sync`: the name of the variable with which the client says that it acknowledges."""
        self.c, self.semi_sync, self.asked = server.connect(), semi_sync, False
        if checksum:
            self.c.query(f"SET @source_binlog_checksum = '{checksum}'")
        if heartbeat:
            self.c.query(f'SET @master_heartbeat_period = {heartbeat}')
        if semi_sync:
            self.c.query(f'SET @{semi_sync} = 1')
        head = struct.pack('<IHI', position, flags, server_id)
        self.c.command(DUMP, head + file.encode())

    def next(self):
        """The next event. None: the dump has ended."""
        packet = self.c._checked()
        if packet[0] == 0xFE:
            return None
        if not self.semi_sync:
            return Event(packet[1:])
        assert packet[1] == SEMI_SYNC, packet[:3]
        # The packet behind one that asks has the number 1.
        assert not self.asked or self.c.seq == 2, self.c.seq
        self.asked = packet[2] == 1
        return Event(packet[3:], self.asked)

    def rest(self):
        events = []
        while (event := self.next()) is not None:
            events.append(event)
        return events

    def next_asking(self):
        """The next event that is to be acknowledged."""
        while not (event := self.next()).asks:
            pass
        return event

    def acknowledge(self, position, file, sequence=0):
        self.send_ack(bytes([SEMI_SYNC]) + struct.pack('<Q', position) + file.encode(), sequence)

    def send_ack(self, bytes, sequence=0):
        """Sends this instead of an acknowledgement."""
        self.c.seq = sequence
        self.c._write(bytes)


