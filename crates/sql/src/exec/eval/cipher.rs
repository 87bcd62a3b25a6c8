//! AES_ENCRYPT and AES_DECRYPT, in the modes of `block_encryption_mode` (NIST SP 800-38A).
//!
//! A key of any length is folded into the cipher's key: its bytes go round the key, each by an
//! exclusive or. ECB and CBC fill the last block up (PKCS #7); the other modes need not.
use super::Eval;
use crate::error::{Result, SqlError};
use crate::exec::pace::LONG;
use crate::plan::{Expr, VariableScope};
use aes::cipher::{Block, BlockDecrypt, BlockEncrypt, KeyInit};
use aes::{Aes128, Aes192, Aes256};
use redolith_types::Value;

const BLOCK: usize = 16;

/// How blocks are chained.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Chaining {
    Ecb,
    Cbc,
    /// Cipher feedback, of so many bits.
    Cfb(u8),
    Ofb,
}
impl Chaining {
    fn fills_up(self) -> bool {
        matches!(self, Chaining::Ecb | Chaining::Cbc)
    }
}
/// Reads `aes-128-ecb`: the bytes of the key, and the mode.
fn mode(name: &str) -> Option<(usize, Chaining)> {
    let (bits, chaining) = name.strip_prefix("aes-")?.split_once('-')?;
    let chaining = match chaining {
        "ecb" => Chaining::Ecb,
        "cbc" => Chaining::Cbc,
        "cfb1" => Chaining::Cfb(1),
        "cfb8" => Chaining::Cfb(8),
        "cfb128" => Chaining::Cfb(128),
        "ofb" => Chaining::Ofb,
        _ => return None,
    };
    Some((bits.parse::<usize>().ok()? / 8, chaining))
}

enum Cipher {
    Aes128(Aes128),
    Aes192(Aes192),
    Aes256(Box<Aes256>),
}
impl Cipher {
    fn new(key: &[u8], len: usize) -> Cipher {
        let mut folded = [0; 32];
        for (i, byte) in key.iter().enumerate() {
            folded[i % len] ^= byte;
        }
        let folded = &folded[..len];
        match len {
            16 => Cipher::Aes128(Aes128::new(folded.into())),
            24 => Cipher::Aes192(Aes192::new(folded.into())),
            _ => Cipher::Aes256(Box::new(Aes256::new(folded.into()))),
        }
    }
    fn encrypt(&self, block: &mut [u8; BLOCK]) {
        let block: &mut Block<Aes128> = block.into();
        match self {
            Cipher::Aes128(c) => c.encrypt_block(block),
            Cipher::Aes192(c) => c.encrypt_block(block),
            Cipher::Aes256(c) => c.encrypt_block(block),
        }
    }
    fn decrypt(&self, block: &mut [u8; BLOCK]) {
        let block: &mut Block<Aes128> = block.into();
        match self {
            Cipher::Aes128(c) => c.decrypt_block(block),
            Cipher::Aes192(c) => c.decrypt_block(block),
            Cipher::Aes256(c) => c.decrypt_block(block),
        }
    }
}

/// A text on its way through a cipher, in parts of whole blocks but for the last part.
struct Stream {
    cipher: Cipher,
    chaining: Chaining,
    encrypts: bool,
    /// The block that the next one is chained to: at first the initialization vector.
    chain: [u8; BLOCK],
}
impl Stream {
    fn pass(&mut self, part: &mut [u8]) {
        match self.chaining {
            Chaining::Ecb | Chaining::Cbc => {
                for block in part.chunks_exact_mut(BLOCK) {
                    let Ok(block) = <&mut [u8; BLOCK]>::try_from(block) else { continue };
                    self.pass_block(block);
                }
            }
            Chaining::Cfb(128) | Chaining::Ofb => {
                for bytes in part.chunks_mut(BLOCK) {
                    self.cipher.encrypt(&mut self.chain);
                    for (byte, chained) in bytes.iter_mut().zip(&mut self.chain) {
                        let before = *byte;
                        *byte ^= *chained;
                        if self.chaining != Chaining::Ofb {
                            *chained = if self.encrypts { *byte } else { before };
                        }
                    }
                }
            }
            Chaining::Cfb(8) => {
                for byte in part {
                    let before = *byte;
                    let mut block = self.chain;
                    self.cipher.encrypt(&mut block);
                    *byte ^= block[0];
                    self.chain.rotate_left(1);
                    self.chain[BLOCK - 1] = if self.encrypts { *byte } else { before };
                }
            }
            Chaining::Cfb(_) => {
                for byte in part {
                    let mut out = 0;
                    for bit in (0..8).rev() {
                        let before = *byte >> bit & 1;
                        let mut block = self.chain;
                        self.cipher.encrypt(&mut block);
                        let after = before ^ block[0] >> 7;
                        let fed = if self.encrypts { after } else { before };
                        let chain = u128::from_be_bytes(self.chain) << 1 | u128::from(fed);
                        self.chain = chain.to_be_bytes();
                        out = out << 1 | after;
                    }
                    *byte = out;
                }
            }
        }
    }
    fn pass_block(&mut self, block: &mut [u8; BLOCK]) {
        let before = *block;
        let chained = self.chaining == Chaining::Cbc;
        if self.encrypts {
            if chained {
                xor(block, &self.chain);
            }
            self.cipher.encrypt(block);
            self.chain = *block;
        } else {
            self.cipher.decrypt(block);
            if chained {
                xor(block, &self.chain);
            }
            self.chain = before;
        }
    }
}
fn xor(block: &mut [u8; BLOCK], with: &[u8; BLOCK]) {
    block.iter_mut().zip(with).for_each(|(byte, with)| *byte ^= with);
}
/// The length of a text without what fills its last block up; None if that is damaged.
fn filled_len(text: &[u8]) -> Option<usize> {
    let fill = usize::from(*text.last()?);
    let len = text.len().checked_sub(fill).filter(|_| (1..=BLOCK).contains(&fill))?;
    text[len..].iter().all(|byte| usize::from(*byte) == fill).then_some(len)
}

impl<'v> Eval<'v, '_, '_> {
    pub(super) fn aes(&mut self, encrypts: bool, args: &'v [Expr]) -> Result<Value<'v>> {
        let name = if encrypts { "aes_encrypt" } else { "aes_decrypt" };
        let variable = "block_encryption_mode";
        let (session, scope) = (&*self.env.session, VariableScope::Session);
        let set = self.env.variables.system_variable(session, scope, variable);
        let set = set.unwrap_or(Value::text("aes-128-ecb"));
        let known = match &set {
            Value::Bytes(set) => std::str::from_utf8(set).ok().and_then(mode),
            _ => None,
        };
        let (key_len, chaining) = known.unwrap_or((16, Chaining::Ecb));
        if chaining != Chaining::Ecb && args.len() < 3 {
            return Err(SqlError::wrong_parameter_count(name));
        }
        let (Some(text), Some(key)) = (self.arg_bytes(&args[0])?, self.arg_bytes(&args[1])?) else {
            return Ok(Value::Null);
        };
        let mut chain = [0; BLOCK];
        if chaining != Chaining::Ecb {
            let Some(vector) = self.arg_bytes(&args[2])? else {
                return Err(SqlError::short_vector(name, BLOCK));
            };
            let Some(first) = vector.first_chunk() else {
                return Err(SqlError::short_vector(name, BLOCK));
            };
            chain = *first;
        } else if args.len() > 2 {
            self.env.warn(SqlError::option_ignored("IV"))?;
        }
        let mut text = text.into_owned();
        if chaining.fills_up() {
            if encrypts {
                let fill = BLOCK - text.len() % BLOCK;
                text.resize(text.len() + fill, fill as u8);
            } else if text.len() % BLOCK != 0 {
                return Ok(Value::Null);
            }
        }
        let mut stream = Stream { cipher: Cipher::new(&key, key_len), chaining, encrypts, chain };
        // One bit at a time costs as much as 128 of them at a time.
        let part = match chaining {
            Chaining::Cfb(bits) => (LONG / (128 / usize::from(bits))).next_multiple_of(BLOCK),
            _ => LONG.next_multiple_of(BLOCK),
        };
        for part in text.chunks_mut(part) {
            self.env.bytes(LONG.min(part.len() * 128))?;
            stream.pass(part);
        }
        if chaining.fills_up() && !encrypts {
            let Some(len) = filled_len(&text) else { return Ok(Value::Null) };
            text.truncate(len);
        }
        Ok(Value::owned(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(encrypts: bool, name: &str, text: &[u8], parts: usize) -> Vec<u8> {
        let (len, chaining) = mode(name).unwrap();
        let chain = *b"0123456789abcdef";
        let cipher = Cipher::new(b"a key that is longer than the longest key", len);
        let mut stream = Stream { cipher, chaining, encrypts, chain };
        let mut text = text.to_vec();
        text.chunks_mut(parts).for_each(|part| stream.pass(part));
        text
    }

    #[test]
    fn what_is_encrypted_can_be_read_again_in_parts_of_any_size() {
        let text: Vec<u8> = (0..4096u32).map(|i| ((i * i) >> 3) as u8).collect();
        for bits in [128, 192, 256] {
            for chaining in ["ecb", "cbc", "cfb1", "cfb8", "cfb128", "ofb"] {
                let name = format!("aes-{bits}-{chaining}");
                let secret = passed(true, &name, &text, 4096);
                assert_ne!(secret, text, "{name}");
                assert_eq!(passed(true, &name, &text, 32), secret, "{name}");
                assert_eq!(passed(false, &name, &secret, 48), text, "{name}");
            }
        }
    }

    /// The secrets are those of `openssl enc`, version 3.0.
    #[test]
    fn secrets_are_those_of_openssl() {
        let secrets = [
            (
                "aes-128-cbc",
                "3ef6a6ee81f0f39aa7687c0120935865c1f0928b8473c45eb409311e58d7b3e7\
                 9cd869abec88634379f019e52ade700c",
            ),
            ("aes-128-cfb1", "db517a1d52938169a00788bf3a5140ae8510dc48ffba0d5a6f84ee55d443921781"),
            ("aes-128-cfb8", "f3ceea23b1fa955078dcc020017dfe06fe210c30232779b31b27e5a5ac0a3d82cf"),
            (
                "aes-128-cfb128",
                "f37eeb6fce4de9f818af7176734a41b5841672a1c9c7004cf44cb03a72901d8ad8",
            ),
            ("aes-128-ofb", "f37eeb6fce4de9f818af7176734a41b5cd88ae901b0d3fa5ad533d82feaf92f8d3"),
            (
                "aes-192-cbc",
                "2f7638b3bea9597063c604c83a3f9f1f800d4a357ffe951ad414aab3d11c50ea\
                 76ac26a47457ee51b892901df910a32d",
            ),
            ("aes-192-cfb1", "c670cdb2624bf0a8ea251d6602090b039eaa09b4eb31b4a3eb20d59766258cd230"),
            ("aes-192-cfb8", "8779f2d29802fd088a5beab7bb98e31250d7b3e0c92303df42c40896ce97db0551"),
            (
                "aes-192-cfb128",
                "878567d46ae2cf043d78b66ff846d229eef3ca315a26067a80cfc4705f55a75abf",
            ),
            ("aes-192-ofb", "878567d46ae2cf043d78b66ff846d229d97906a4bcdad0e5c8cf33fc71ce4c3a20"),
            (
                "aes-256-cbc",
                "23141c88fad8b6cf3b3ebb7e7c03483a0e4f00775911aa82874f07fde22d31c6\
                 b1d3d3cb87a4091cd630e78cb55962f1",
            ),
            ("aes-256-cfb1", "83454690919fa1e9fbed33f3d5128c70b1771556267577c38ec5b931e9236fa2ce"),
            ("aes-256-cfb8", "a7334a16cd9e780aaa36560aa47a2abbc7946580c37aae7de1c18da3b74d660151"),
            (
                "aes-256-cfb128",
                "a7eb346d72a112c80204b05c3491d60ca38cb322ff2af9f39836fa6bfafc8da37d",
            ),
            ("aes-256-ofb", "a7eb346d72a112c80204b05c3491d60cbb73142b4288d8ce3b5bb4c1288a9e0ed0"),
            (
                "aes-128-ecb",
                "bcfa7aa81a3bcfdc96145d907d1cd82f1ef02df01f36d84e5da6a204e1ff410f\
                 50a09f816bee5b463a97101d629e9f2c",
            ),
        ];
        let key = b"a key that is longer than thirty-two bytes";
        for (name, secret) in secrets {
            let (len, chaining) = mode(name).unwrap();
            let chain = *b"0123456789abcdef";
            let mut stream =
                Stream { cipher: Cipher::new(key, len), chaining, encrypts: true, chain };
            let mut text = b"The quick brown fox jumps over it".to_vec();
            if chaining.fills_up() {
                text.resize(48, 15);
            }
            stream.pass(&mut text);
            assert_eq!(super::super::digest::hex(&text, false), secret.as_bytes(), "{name}");
        }
    }

    #[test]
    fn what_fills_a_block_up_is_checked() {
        assert_eq!(filled_len(b"abc\x01"), Some(3));
        assert_eq!(filled_len(&[16; 16]), Some(0));
        for wrong in [&b"abc\x00"[..], b"abc\x02", b"", &[17; 32], b"\x02"] {
            assert_eq!(filled_len(wrong), None);
        }
    }
}
