/** TLS clients that load their CA bundle once, when they start. */
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { connect, createSecureContext } from 'node:tls';
import { promisify } from 'node:util';

type PeerProgram = 'openssl' | 'nginx' | 'python' | 'java' | 'curl';

const EXECUTABLES: Readonly<Record<PeerProgram, string>> = {
  openssl: 'openssl',
  nginx: 'nginx',
  curl: 'curl',
  python: 'python3',
  java: 'javac',
};

export function isInstalled(program: PeerProgram): boolean {
  try {
    execFileSync('sh', ['-c', `command -v ${EXECUTABLES[program]}`]);
    return true;
  } catch {
    console.log(
      `${EXECUTABLES[program]} is not installed, so ${program} is left out: scripts/install-test-tools.sh`,
    );
    return false;
  }
}

const SOURCES = join(import.meta.dirname, 'tls-peers');

export function peerCommand(language: 'python' | 'java', folder: string): readonly [string, ...string[]] {
  if (language === 'python') return ['python3', join(SOURCES, 'peer.py')];
  if (!existsSync(join(folder, 'Peer.class')))
    execFileSync('javac', ['-d', folder, join(SOURCES, 'Peer.java')]);
  // With the second compiler: without it, a handshake costs a server three times as much.
  return ['java', '-XX:+UseSerialGC', '-Xmx64m', '-cp', folder, 'Peer'];
}

const run = promisify(execFile);
const TIMEOUT_MS = 20_000;

export interface TlsClient {
  readonly name: string;
  /** One handshake without resumption, then up to this many requests. @returns the number of responses */
  readonly exchange: (host: string, port: number, requests: number) => Promise<number>;
  readonly stop: () => Promise<unknown>;
}

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
  return [
    nodeClient(bundle, serverName),
    ...(await Promise.all(running)),
    ...(isInstalled('openssl') ? [opensslClient(bundleFile, serverName)] : []),
    ...(isInstalled('curl') ? [curlClient(bundleFile, serverName)] : []),
  ];
}

function nodeClient(bundle: string, servername: string): TlsClient {
  const secureContext = createSecureContext({ ca: bundle });
  return {
    name: 'node',
    exchange: (host, port, requests) =>
      new Promise<number>((resolve, reject) => {
        const options = { host, port, servername, secureContext, timeout: TIMEOUT_MS };
        let responses = 0;
        const next = () => {
          if (responses < requests) socket.write(`GET / HTTP/1.1\r\nhost: ${servername}\r\n\r\n`);
          else end();
        };
        const end = () => {
          resolve(responses);
          socket.destroy();
        };
        const socket = connect(options, next);
        socket.on('data', (part: Buffer) => {
          // A response without a body arrives as one chunk. A server of HTTP/1.0 closes the connection.
          const [, minor] = /^HTTP\/1\.([01]) 2/.exec(part.toString('latin1')) ?? [];
          if (minor === undefined)
            return void socket.destroy(new Error(`no response, but ${part.toString()}`));
          responses++;
          if (minor === '0') end();
          else next();
        });
        socket.on('timeout', () => socket.destroy(new Error('timeout')));
        socket.on('error', reject);
        socket.on('close', () => reject(new Error('the server closed the connection')));
      }),
    stop: () => Promise.resolve(),
  };
}

async function runningClient(
  language: 'python' | 'java',
  bundleFile: string,
  serverName: string,
  folder: string,
): Promise<TlsClient> {
  const [command, ...args] = peerCommand(language, folder);
  // It ends with its input, even if this process dies.
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
    exchange: async (host, port, requests) => {
      const answer = nextLine();
      child.stdin.write(`${host} ${port} ${requests}\n`);
      const line = await answer;
      const [, responses] = /^ok (\d+)$/.exec(line) ?? [];
      if (responses === undefined) throw new Error(line);
      return Number(responses);
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
    exchange: async (host, port) => {
      const args = ['s_client', '-brief', '-connect', `${host}:${port}`, ...names, ...trust];
      const client = run('openssl', args, { timeout: TIMEOUT_MS });
      client.child.stdin?.end();
      await client;
      return 0;
    },
    stop: () => Promise.resolve(),
  };
}

function curlClient(bundleFile: string, serverName: string): TlsClient {
  const limit = ['--max-time', String(TIMEOUT_MS / 1_000)];
  const quiet = ['--silent', '--show-error', '--output', '/dev/null', ...limit];
  return {
    name: 'curl',
    exchange: async (host, port) => {
      const to = ['--resolve', `${serverName}:${port}:${host}`, `https://${serverName}:${port}/`];
      await run('curl', [...quiet, '--noproxy', '*', '--cacert', bundleFile, ...to]);
      return 1;
    },
    stop: () => Promise.resolve(),
  };
}
