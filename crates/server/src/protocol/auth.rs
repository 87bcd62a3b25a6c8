//! `mysql_native_password`: the server sends a scramble; the client answers SHA1(password) XOR
//! SHA1(scramble + SHA1(SHA1(password))), or nothing when it has no password. The server stores
//! SHA1(SHA1(password)), from which no answer can be made.
//!
//! AUTH-1: a scramble comes from the operating system's random source and is used for one login.
//! AUTH-2: answers are compared in constant time, and an unknown user takes the same way as a wrong
//! password.
use sha1::{Digest, Sha1};
use subtle::ConstantTimeEq;

pub const NATIVE_PASSWORD: &str = "mysql_native_password";

/// 20 random bytes without NUL, because old clients read a NUL as the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scramble(pub [u8; 20]);

impl Scramble {
    pub fn new(random: impl Fn() -> u64) -> Scramble {
        let mut bytes = [0; 20];
        for chunk in bytes.chunks_mut(8) {
            // Each byte has 7 bits. 0 is excluded because it ends the scramble for some clients,
            // and '$' because it splits it.
            for (b, r) in chunk.iter_mut().zip(random().to_le_bytes()) {
                *b = match r & 0x7f {
                    0 | b'$' => (r >> 7) + 1,
                    r => r,
                };
            }
        }
        Scramble(bytes)
    }
}

/// SHA1(SHA1(password)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PasswordHash(pub [u8; 20]);

impl PasswordHash {
    pub fn new(password: &[u8]) -> PasswordHash {
        PasswordHash(Sha1::digest(Sha1::digest(password)).into())
    }

    /// Whether `answer` was made from the password and `scramble`.
    pub fn verify(&self, scramble: &Scramble, answer: &[u8]) -> bool {
        let Ok(answer) = <[u8; 20]>::try_from(answer) else { return false };
        let mask: [u8; 20] =
            Sha1::new().chain_update(scramble.0).chain_update(self.0).finalize().into();
        let mut stage1 = answer;
        stage1.iter_mut().zip(mask).for_each(|(a, m)| *a ^= m);
        let stage2: [u8; 20] = Sha1::digest(stage1).into();
        #[cfg(test)]
        COMPARISONS.set(COMPARISONS.get() + 1);
        stage2.ct_eq(&self.0).into()
    }
}

#[cfg(test)]
thread_local!(static COMPARISONS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });

/// The origin of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Peer {
    Socket,
    Tcp(std::net::IpAddr),
}

impl Peer {
    /// The host part of the account, as messages and the process list show it. Addresses are never
    /// resolved to names.
    pub fn host(&self) -> String {
        match self {
            Peer::Socket => "localhost".into(),
            Peer::Tcp(ip) => ip.to_canonical().to_string(),
        }
    }
    fn is_local(&self) -> bool {
        match self {
            Peer::Socket => true,
            Peer::Tcp(ip) => ip.to_canonical().is_loopback(),
        }
    }
}

/// The privileges that not every account has.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Privileges {
    /// CONNECTION_ADMIN, a part of SUPER: allows the account to take the seat above
    /// `max_connections` (SRV-2).
    pub connection_admin: bool,
}

/// The accounts that may log in. For now there is only `root`, without a password, from this
/// machine only.
#[derive(Debug)]
pub struct Accounts {
    accounts: Vec<Account>,
}
#[derive(Debug)]
struct Account {
    user: String,
    privileges: Privileges,
    /// `None` if the account has no password. A client that sends one is then refused.
    password: Option<PasswordHash>,
    local_only: bool,
}

impl Accounts {
    pub fn root_without_password() -> Accounts {
        Accounts {
            accounts: vec![Account {
                user: "root".into(),
                privileges: Privileges { connection_admin: true },
                password: None,
                local_only: true,
            }],
        }
    }

    /// Returns the account's privileges if the client is authenticated. The check takes the same
    /// time for an unknown user as for a wrong password (AUTH-2).
    pub fn verify(
        &self,
        user: &[u8],
        peer: &Peer,
        scramble: &Scramble,
        answer: &[u8],
    ) -> Option<Privileges> {
        let account = self
            .accounts
            .iter()
            .find(|a| a.user.as_bytes() == user && (!a.local_only || peer.is_local()));
        let nobody = PasswordHash([0; 20]);
        let right = match account {
            Some(Account { password: None, .. }) => answer.is_empty(),
            Some(Account { password: Some(hash), .. }) => hash.verify(scramble, answer),
            None => nobody.verify(scramble, answer),
        };
        account.filter(|_| right).map(|a| a.privileges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client_answer(password: &[u8], scramble: &Scramble) -> Vec<u8> {
        let stage1 = Sha1::digest(password);
        let mask =
            Sha1::new().chain_update(scramble.0).chain_update(Sha1::digest(stage1)).finalize();
        stage1.iter().zip(mask).map(|(a, b)| a ^ b).collect()
    }
    fn with_password(password: &[u8]) -> Accounts {
        let mut a = Accounts::root_without_password();
        a.accounts.push(Account {
            user: "app".into(),
            privileges: Privileges::default(),
            password: Some(PasswordHash::new(password)),
            local_only: false,
        });
        a
    }

    #[test]
    fn the_hash_is_mysqls() {
        // SELECT PASSWORD('password') in MySQL 5.7: *2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19
        let hex: String =
            PasswordHash::new(b"password").0.iter().map(|b| format!("{b:02X}")).collect();
        assert_eq!(hex, "2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19");
    }

    /// Tests AUTH-2. (`subtle` promises the constant time of one comparison.)
    #[test]
    fn an_unknown_user_costs_the_same_comparison_as_a_wrong_password() {
        let (a, s) = (with_password(b"secret"), Scramble([5; 20]));
        let far = Peer::Tcp("192.0.2.1".parse().unwrap());
        let enters = |user: &[u8], answer: &[u8]| {
            COMPARISONS.set(0);
            (a.verify(user, &far, &s, answer).is_some(), COMPARISONS.get())
        };
        let (right, wrong) = (client_answer(b"secret", &s), client_answer(b"Secret", &s));
        assert_eq!((enters(b"app", &right), enters(b"app", &wrong)), ((true, 1), (false, 1)));
        assert_eq!((enters(b"nobody", &right), enters(b"root", &right)), ((false, 1), (false, 1)));
        assert_eq!(enters(b"app", b""), enters(b"nobody", b""));
    }

    #[test]
    fn only_the_right_password_enters() {
        let (s, other) = (Scramble([5; 20]), Scramble([6; 20]));
        let a = with_password(b"secret");
        let far = Peer::Tcp("192.0.2.1".parse().unwrap());
        assert_eq!(
            a.verify(b"app", &far, &s, &client_answer(b"secret", &s)),
            Some(Privileges { connection_admin: false })
        );
        let right = client_answer(b"secret", &s);
        for wrong in [
            &client_answer(b"Secret", &s)[..],
            &client_answer(b"secret", &other),
            &right[..19],
            b"",
            &[&right[..], &[0]].concat(),
        ] {
            assert_eq!(a.verify(b"app", &far, &s, wrong), None);
        }
        assert_eq!(a.verify(b"nobody", &far, &s, &right), None);
        assert_eq!(a.verify(b"nobody", &far, &s, b""), None);
    }

    #[test]
    fn root_comes_from_this_machine_only_and_without_a_password() {
        let (a, s) = (with_password(b"x"), Scramble([5; 20]));
        for peer in [
            Peer::Socket,
            Peer::Tcp("127.0.0.1".parse().unwrap()),
            Peer::Tcp("::1".parse().unwrap()),
            Peer::Tcp("::ffff:127.0.0.1".parse().unwrap()),
        ] {
            assert_eq!(
                a.verify(b"root", &peer, &s, b""),
                Some(Privileges { connection_admin: true }),
                "{peer:?}"
            );
            assert_eq!(a.verify(b"root", &peer, &s, &client_answer(b"x", &s)), None, "{peer:?}");
        }
        assert_eq!(a.verify(b"root", &Peer::Tcp("192.0.2.1".parse().unwrap()), &s, b""), None);
        assert_eq!(a.verify(b"ROOT", &Peer::Socket, &s, b""), None);
    }

    /// Tests AUTH-1.
    #[test]
    fn scrambles_have_no_forbidden_byte() {
        for n in 0..1000u64 {
            let s = Scramble::new(|| n.wrapping_mul(0x2492_4804_2490_8001));
            assert!(s.0.iter().all(|&b| b != 0 && b != b'$' && b < 0x80));
        }
        assert!(Scramble::new(|| 0).0.iter().all(|&b| b == 1));
    }
}
