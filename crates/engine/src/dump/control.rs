//! Prints the control file, `redo/control`.
use super::read;
use crate::log::inspect::{
    CONTROL_BLOCKS, ControlBlock, WITNESS_BLOCKS, control_block, witness_block,
};
use redolith_disk::File;
use std::io::{self, Write};

pub(super) fn dump(file: &dyn File, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "control file, {} bytes", file.len()?)?;
    for at in CONTROL_BLOCKS {
        let bytes = read(file, at, 4096)?;
        match control_block(&bytes) {
            ControlBlock::Cut => writeln!(out, "! block at {at}: the file ends before it")?,
            ControlBlock::Zeros => writeln!(out, "  block at {at}: never written")?,
            ControlBlock::Damaged => writeln!(
                out,
                "! block at {at}: its checksum is not that of its bytes: torn or damaged"
            )?,
            ControlBlock::Unknown(why) => writeln!(out, "! block at {at}: {why}")?,
            ControlBlock::State(s) => {
                writeln!(
                    out,
                    "  block at {at}: state {} (the highest number counts), format {}",
                    s.sequence, s.format
                )?;
                writeln!(
                    out,
                    "    log id {:016x}, segments of {} bytes",
                    s.log_id, s.segment_bytes
                )?;
                writeln!(
                    out,
                    "    checkpoint LSN {}, epoch {} there; epoch in force {}, begun at LSN {}",
                    s.checkpoint, s.checkpoint_epoch, s.epoch, s.begins
                )?;
                writeln!(
                    out,
                    "    durable up to LSN {}, segments named up to LSN {}",
                    s.durable, s.segments_end
                )?;
                let end = if s.clean {
                    "stopped cleanly: the log ends at the checkpoint"
                } else {
                    "not stopped cleanly: the log goes on behind the checkpoint"
                };
                writeln!(out, "    {end}; payload of {} bytes", s.payload_bytes)?;
            }
        }
    }
    for at in WITNESS_BLOCKS {
        match witness_block(&read(file, at, 4096)?) {
            Some((log_id, epoch, durable)) => {
                writeln!(
                    out,
                    "  witness at {at}: log id {log_id:016x}, epoch {epoch}, durable up to LSN \
                        {durable}"
                )?;
            }
            None => {
                writeln!(out, "  witness at {at}: none, or torn (it is written without a sync)")?
            }
        }
    }
    Ok(())
}
