"""Clients for LOAD DATA LOCAL: one that keeps to the protocol, and parts of one that does not."""

import struct

from rig.client import CAPABILITIES, LOCAL_FILES

WITH_FILES = CAPABILITIES | LOCAL_FILES


def client(server, pieces=(), **more):
    """A connection whose LOCAL files have these pieces."""
    c = server.connect(database='d', capabilities=WITH_FILES, **more)
    c.file = lambda name: pieces() if callable(pieces) else pieces
    return c


def asked(server, sql="LOAD DATA LOCAL INFILE 'x' INTO TABLE t", **more):
    """A connection that the server has just asked for a file."""
    c = client(server, **more)
    c.send(sql)
    packet = c._read()
    assert packet == b'\xfbx', packet
    return c


def packet(number, body):
    return struct.pack('<I', len(body) | (number % 256) << 24) + body
