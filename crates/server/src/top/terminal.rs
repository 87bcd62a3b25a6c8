//! The terminal: its size, keys without Enter, and the alternate screen, which disappears at the
//! end.
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr,
};
use std::io::{self, Read, Write, stdin, stdout};
use std::time::Duration;

/// Whether standard input and output are a terminal.
pub fn is_there() -> bool {
    isatty(stdin()) && isatty(stdout())
}

/// The terminal in raw mode, with the alternate screen. Dropping it restores the terminal.
pub struct Terminal {
    before: Termios,
}

impl Terminal {
    pub fn take() -> io::Result<Terminal> {
        let before = tcgetattr(stdin())?;
        let mut modes = before.clone();
        // Ctrl-C arrives as a key instead of a signal, so that the program can restore the screen.
        modes.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        tcsetattr(stdin(), OptionalActions::Now, &modes)?;
        let terminal = Terminal { before };
        // Switch to the alternate screen, and hide the cursor.
        terminal.print("\x1b[?1049h\x1b[?25l")?;
        Ok(terminal)
    }
    fn print(&self, text: &str) -> io::Result<()> {
        let mut out = stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
    /// Shows the part of the lines that fits on the screen.
    pub fn show(&self, lines: &[String]) -> io::Result<()> {
        // A terminal that does not know its size reports 0.
        let size = tcgetwinsize(stdout()).ok().filter(|w| w.ws_row > 0 && w.ws_col > 0);
        let (rows, columns) = size.map_or((24, 80), |w| (w.ws_row as usize, w.ws_col as usize));
        let mut text = String::from("\x1b[H");
        for (n, line) in lines.iter().take(rows).enumerate() {
            text.push_str(if n > 0 { "\r\n" } else { "" });
            text.extend(line.chars().filter(|c| !c.is_control()).take(columns));
            text.push_str("\x1b[K");
        }
        text.push_str("\x1b[J");
        self.print(&text)
    }
    /// Waits for a key. Returns true if the key ends the program.
    pub fn wants_to_leave(&self, within: Duration) -> io::Result<bool> {
        let mut fds = [PollFd::from_borrowed_fd(rustix::stdio::stdin(), PollFlags::IN)];
        let within =
            Timespec { tv_sec: within.as_secs() as i64, tv_nsec: within.subsec_nanos().into() };
        match poll(&mut fds, Some(&within)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(false),
            Ok(_) => {}
            Err(e) => return Err(e.into()),
        }
        let mut keys = [0; 16];
        let n = stdin().lock().read(&mut keys)?;
        const CTRL_C: u8 = 3;
        const CTRL_D: u8 = 4;
        Ok(n == 0 || keys[..n].iter().any(|k| matches!(*k, b'q' | b'Q' | CTRL_C | CTRL_D)))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // If the terminal has gone, it cannot be restored.
        let _ = self.print("\x1b[?25h\x1b[?1049l");
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}
