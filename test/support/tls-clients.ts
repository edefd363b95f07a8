/** TLS clients that load their CA bundle once, when they start. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { connect, createSecureContext } from 'node:tls';
import { promisify } from 'node:util';

import { isInstalled, peerCommand } from './tls-peers.ts';

const run = promisify(execFile);
/** For a busy machine. */
const TIMEOUT_MS = 20_000;

export interface TlsClient {
  readonly name: string;
  /** Without resumption. Rejects if the client refuses the server. */
  readonly handshake: (host: string, port: number) => Promise<unknown>;
  readonly stop: () => Promise<unknown>;
}

/** One client of each installed stack. `folder`: for their files. */
export async function startTlsClients(
  bundle: string,
  serverName: string,
  folder: string,
): Promise<readonly TlsClient[]> {
  const bundleFile = join(mkdtempSync(join(folder, 'client-')), 'bundle.pem');
  writeFileSync(bundleFile, bundle);
  const running = (['python', 'java'] as const)
    .filter(isInstalled)
    .map((language) => runningClient(language, bundleFile, serverName, folder));
  const clients = [
    nodeClient(bundle, serverName),
    ...(await Promise.all(running)),
    ...(isInstalled('openssl') ? [opensslClient(bundleFile, serverName)] : []),
    ...(isInstalled('curl') ? [curlClient(bundleFile, serverName)] : []),
  ];
  return clients;
}

function nodeClient(bundle: string, servername: string): TlsClient {
  const secureContext = createSecureContext({ ca: bundle });
  return {
    name: 'node',
    handshake: (host, port) =>
      new Promise<void>((resolve, reject) => {
        const socket = connect({ host, port, servername, secureContext, timeout: TIMEOUT_MS }, () => {
          resolve();
          socket.destroy();
        });
        socket.on('timeout', () => socket.destroy(new Error('timeout')));
        socket.on('error', reject);
      }),
    stop: () => Promise.resolve(),
  };
}

/** A process that makes one handshake for each line of its input. */
async function runningClient(
  language: 'python' | 'java',
  bundleFile: string,
  serverName: string,
  folder: string,
): Promise<TlsClient> {
  const [command, ...args] = peerCommand(language, folder);
  // It ends at the end of its input, also if this process dies.
  const child = spawn(command, [...args, 'connect', bundleFile, serverName], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const waiting: ((line: string) => void)[] = [];
  const nextLine = () => new Promise<string>((resolve) => waiting.push(resolve));
  createInterface({ input: child.stdout }).on('line', (line) => waiting.shift()?.(line));
  const exited = once(child, 'exit').then(() => {
    for (const answer of waiting.splice(0)) answer(`${language} exited`);
  });
  const ready = await nextLine();
  if (ready !== 'ready') throw new Error(ready);
  return {
    name: language,
    handshake: async (host, port) => {
      const answer = nextLine();
      child.stdin.write(`${host} ${port}\n`);
      const line = await answer;
      if (line !== 'ok') throw new Error(line);
    },
    stop: () => {
      child.stdin.end();
      return exited;
    },
  };
}

/** It loads its bundle for each handshake: a client with an old bundle is one with an old file. */
function opensslClient(bundleFile: string, serverName: string): TlsClient {
  const trust = ['-CAfile', bundleFile, '-no-CApath', '-no-CAstore', '-x509_strict', '-verify_return_error'];
  const names = ['-servername', serverName, '-verify_hostname', serverName];
  return {
    name: 'openssl',
    handshake: async (host, port) => {
      const args = ['s_client', '-brief', '-connect', `${host}:${port}`, ...names, ...trust];
      const client = run('openssl', args, { timeout: TIMEOUT_MS });
      client.child.stdin?.end();
      await client;
    },
    stop: () => Promise.resolve(),
  };
}

/** As {@link opensslClient}. */
function curlClient(bundleFile: string, serverName: string): TlsClient {
  const quiet = [
    '--silent',
    '--show-error',
    '--output',
    '/dev/null',
    '--max-time',
    String(TIMEOUT_MS / 1_000),
  ];
  return {
    name: 'curl',
    handshake: async (host, port) => {
      const to = ['--resolve', `${serverName}:${port}:${host}`, `https://${serverName}:${port}/`];
      await run('curl', [...quiet, '--noproxy', '*', '--cacert', bundleFile, ...to]);
    },
    stop: () => Promise.resolve(),
  };
}
