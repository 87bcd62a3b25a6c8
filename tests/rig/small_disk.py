"""A small file system, for tests of full disks."""

import errno
import os
import subprocess
import time


class SmallDisk:
    """A small mounted file system: ext4 in a file, or a tmpfs if there are no loop devices. Raises
    OSError if neither can be mounted.
    """

    def __init__(self, dir, mib):
        self.path, self.image = os.path.join(dir, 'small'), os.path.join(dir, 'image')
        os.makedirs(self.path)
        with open(self.image, 'wb') as f:
            f.truncate(mib << 20)
        for self.kind, steps in (
            (
                'ext4',
                [
                    ['mkfs.ext4', '-q', '-F', '-m', '0', self.image],
                    ['mount', '-o', 'loop', self.image, self.path],
                ],
            ),
            ('tmpfs', [['mount', '-t', 'tmpfs', '-o', f'size={mib}m', 'tmpfs', self.path]]),
        ):
            try:
                for step in steps:
                    subprocess.run(step, check=True, capture_output=True)
                return
            except (OSError, subprocess.CalledProcessError):
                pass
        raise OSError(
            'no file system of its own can be mounted (not root, or mounts are not allowed here)'
        )

    def remount(self, how):
        """Remounts the file system. The kernel may still be closing the files of an ended process.
        """

        deadline = time.monotonic() + 120
        remount = ['mount', '-o', f'remount,{how}', self.path]
        while (said := subprocess.run(remount, capture_output=True, text=True)).returncode:
            if time.monotonic() > deadline:
                raise OSError(f'not mounted {how} after two minutes: {said.stderr}')
            time.sleep(0.05)

    def free_bytes(self):
        s = os.statvfs(self.path)
        return s.f_bavail * s.f_frsize

    def leave(self, bytes):
        """Takes all room but `bytes`. Others write meanwhile, so a step without room was too large;
        this is not an error.
        """
        with open(os.path.join(self.path, 'ballast'), 'ab') as f:
            for _ in range(100):
                if (n := self.free_bytes() - bytes) <= 0:
                    break
                try:
                    os.posix_fallocate(f.fileno(), os.fstat(f.fileno()).st_size, n)
                except OSError as e:
                    if e.errno != errno.ENOSPC:
                        raise

    def give_room(self):
        os.remove(os.path.join(self.path, 'ballast'))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(['umount', '-l', self.path], capture_output=True)
