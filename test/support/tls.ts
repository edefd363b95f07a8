/** Verifies certificates like clients do: with OpenSSL, and with a TLS connection of Node. */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Server } from 'node:net';
import { connect, createServer } from 'node:tls';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** The output of `openssl verify` for a served chain (leaf first) and this host name. Throws its error. */
export async function opensslVerify(chain: string, ca: string, host: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-openssl-'));
  try {
    const [caFile, chainFile] = [join(folder, 'ca.pem'), join(folder, 'chain.pem')];
    writeFileSync(caFile, ca);
    writeFileSync(chainFile, chain);
    const strict = ['verify', '-x509_strict', '-purpose', 'sslserver', '-verify_hostname', host];
    const files = ['-CAfile', caFile, '-untrusted', chainFile, chainFile];
    return (await run('openssl', [...strict, ...files])).stdout.trim();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Serves this chain and key to a client that trusts `ca` and asks for `host`. Throws the client's error. */
export async function handshake(chain: string, key: string, ca: string, host: string) {
  const server = createServer({ cert: chain, key }, (socket) => socket.end());
  const port = await listen(server);
  try {
    return await new Promise<{ readonly authorized: boolean }>((resolve, reject) => {
      const socket = connect({ host: '127.0.0.1', port, ca, servername: host }, () => {
        resolve({ authorized: socket.authorized });
        socket.end();
      });
      socket.on('error', reject);
    });
  } finally {
    await new Promise((resolve) => server.close(resolve));
  }
}

export function presentedSerial(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate().serialNumber);
      socket.destroy();
    });
    socket.on('error', reject);
  });
}

export async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('a TCP server has a port');
  return address.port;
}

/** What `openssl s_client` says after a handshake with a server of this chain and key. Throws if it refuses. */
export async function opensslClient(chain: string, key: string, ca: string, host: string): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-openssl-'));
  const server = createServer({ cert: chain, key }, (socket) => socket.end());
  server.on('tlsClientError', () => undefined); // only the client's verdict counts
  try {
    const caFile = join(folder, 'ca.pem');
    writeFileSync(caFile, ca);
    const names = ['-servername', host, '-verify_hostname', host];
    const to = ['-connect', `127.0.0.1:${await listen(server)}`, ...names];
    const trust = ['-CAfile', caFile, '-no-CApath', '-no-CAstore', '-verify_return_error'];
    const client = run('openssl', ['s_client', ...to, ...trust]);
    client.child.stdin?.end();
    return (await client).stdout;
  } finally {
    server.close();
    rmSync(folder, { recursive: true, force: true });
  }
}
