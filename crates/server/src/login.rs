//! Logging in: the greeting, the client's answer, a switch of the authentication plug-in if needed,
//! and the verdict.
use crate::backend::Backend;
use crate::connection::{Channel, Over};
use crate::error;
use crate::protocol::auth::{NATIVE_PASSWORD, Peer, Privileges, Scramble};
use crate::protocol::capabilities::Capabilities;
use crate::protocol::client_collation;
use crate::protocol::handshake::{self, Login};
use crate::server::Server;
use redolith_sql::SqlError;
use redolith_sql::parse::charsets::TextCharsets;
use redolith_sql::processes::State;
use redolith_types::{Charset, Collation};

/// The largest packet accepted from a client that has not logged in.
pub(crate) const MAX_LOGIN_BODY: usize = 16 << 10;

/// An authenticated client.
#[derive(Clone, Debug)]
pub struct LoggedIn {
    pub capabilities: Capabilities,
    pub collation_id: u16,
    pub user: String,
    pub privileges: Privileges,
    /// The database name as the client sent it, in the character set of the collation.
    pub database: Option<Vec<u8>>,
}

/// Authenticates the client. The caller sends the OK packet, because it may still refuse the client
/// (no seat, no such database).
pub async fn log_in<B: Backend>(
    server: &Server<B>,
    channel: &mut Channel,
    peer: &Peer,
) -> Result<LoggedIn, Over> {
    let scramble = server.new_scramble();
    let id = channel.process.id;
    let version = server.backend.version();
    channel.output.packet(|b| handshake::write_greeting(b, &version, id, &scramble));
    channel.flush().await?;
    let body = receive(channel).await?;
    let login =
        Login::read(channel.input.body(body)).map_err(|_| Over::Refused(error::bad_handshake()))?;
    let (logged_in, answer, plugin) = owned(&login).map_err(Over::Refused)?;
    verify(server, channel, peer, logged_in, answer, plugin, &scramble).await
}

/// COM_CHANGE_USER: authenticates another user. A password is asked for with a new scramble.
pub async fn change_user<B: Backend>(
    server: &Server<B>,
    channel: &mut Channel,
    peer: &Peer,
    login: &Login<'_>,
) -> Result<LoggedIn, Over> {
    let (logged_in, answer, _) = owned(login).map_err(Over::Refused)?;
    // The scramble of the connection's login has been used (AUTH-1). So an answer made from it is
    // treated as the answer of another plug-in, and the client has to answer a new scramble.
    let plugin = if answer.is_empty() { Plugin::Native } else { Plugin::Other };
    // The client keeps its seat meanwhile, so it has as long as for a login.
    channel.process.wait_in_command(State::Login, server.backend.limits().connect_timeout_s);
    channel.is_logging_in = true;
    let verified =
        verify(server, channel, peer, logged_in, answer, plugin, &server.new_scramble()).await;
    channel.is_logging_in = false;
    channel.process.wait_in_command(State::Executing, 0);
    verified
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Plugin {
    Native,
    Other,
}

fn owned(login: &Login<'_>) -> Result<(LoggedIn, Vec<u8>, Plugin), SqlError> {
    let collation_id = client_collation::of_client(login.collation_id)?;
    let client = Collation::from_id(collation_id).map_or(Charset::Utf8mb4, Collation::charset);
    let text = |b: &[u8]| TextCharsets { client, connection: client }.shown(b).into_owned();
    let logged_in = LoggedIn {
        capabilities: login.capabilities,
        collation_id,
        user: text(login.user),
        privileges: Privileges::default(),
        database: login.database.map(<[u8]>::to_vec),
    };
    let is_native = login.plugin.is_none_or(|p| p == NATIVE_PASSWORD.as_bytes());
    let plugin = if is_native { Plugin::Native } else { Plugin::Other };
    Ok((logged_in, login.auth_answer.to_vec(), plugin))
}

async fn verify<B: Backend>(
    server: &Server<B>,
    channel: &mut Channel,
    peer: &Peer,
    mut login: LoggedIn,
    mut answer: Vec<u8>,
    plugin: Plugin,
    scramble: &Scramble,
) -> Result<LoggedIn, Over> {
    if plugin == Plugin::Other && login.capabilities.has(Capabilities::PLUGIN_AUTH) {
        channel.output.packet(|b| {
            b.push(0xfe);
            b.extend_from_slice(NATIVE_PASSWORD.as_bytes());
            b.push(0);
            b.extend_from_slice(&scramble.0);
            b.push(0);
        });
        channel.flush().await?;
        let body = receive(channel).await?;
        answer = channel.input.body(body).to_vec();
    }
    let Some(privileges) = server.accounts.verify(login.user.as_bytes(), peer, scramble, &answer)
    else {
        return Err(Over::Refused(error::access_denied(
            &login.user,
            &peer.host(),
            !answer.is_empty(),
        )));
    };
    login.privileges = privileges;
    channel.process.set_who(&login.user, &peer.host());
    Ok(login)
}

/// Receives the client's next packet. Any error in it is a bad handshake.
async fn receive(channel: &mut Channel) -> Result<std::ops::Range<usize>, Over> {
    channel.receive(MAX_LOGIN_BODY).await.map_err(|over| match over {
        Over::Refused(_) => Over::Refused(error::bad_handshake()),
        over => over,
    })
}
