/** Servers of a Service on loopback addresses, and the EndpointSlices that name them. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { createServer, type TLSSocket } from 'node:tls';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { startProgram, eventually } from './processes.ts';
import { isInstalled, peerCommand } from './tls-clients.ts';

export interface KeyPair {
  readonly chain: string;
  readonly key: string;
}

export interface TlsEndpoint {
  readonly pod: string;
  /** The address in the EndpointSlice. The server listens on the loopback address to which replicas are diverted. */
  readonly address: string;
  readonly stop: () => Promise<unknown>;
}

export const DIVERT = ['--import', join(import.meta.dirname, 'divert-to-loopback.ts')];

export const loopbackOf = (address: string): string => address.replace(/^198\.18\./, '127.18.');

export interface Connections {
  open: number;
  most: number;
  lastAt: number;
}

/** A Node server in this process. `load` replaces its certificate; a server that loads once never calls it. */
export async function nodeServer(
  pod: string,
  address: string,
  port: number,
  { chain, key }: KeyPair,
  connections: Connections = { open: 0, most: 0, lastAt: 0 },
): Promise<TlsEndpoint & { readonly load: (next: KeyPair) => void }> {
  const server = createServer({ cert: chain, key }, (socket: TLSSocket) =>
    socket
      .on('error', () => undefined)
      .on('data', (part: Buffer) => {
        if (part.includes('\r\n\r\n')) socket.write('HTTP/1.1 204 No Content\r\n\r\n'); // the head of a small request
      }),
  );
  server.on('connection', (socket: Socket) => {
    connections.lastAt = Date.now();
    connections.most = Math.max(connections.most, (connections.open += 1));
    socket.on('close', () => (connections.open -= 1));
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, loopbackOf(address), resolve);
  });
  return {
    pod,
    address,
    load: (next) => server.setSecureContext({ cert: next.chain, key: next.key }),
    stop: () => new Promise((resolve) => server.close(resolve)),
  };
}

/** Servers that load their files once. Undefined if the program is not installed. */
export async function programServer(
  program: keyof typeof COMMANDS,
  address: string,
  port: number,
  { chain, key }: KeyPair,
  folder: string,
): Promise<TlsEndpoint | undefined> {
  if (!isInstalled(program)) return undefined;
  const own = mkdtempSync(join(folder, `${program}-`));
  const [leaf = '', ...rest] = chain.split(/(?<=END CERTIFICATE-----\n)/);
  const contents = { 'tls.crt': chain, 'tls.key': key, 'leaf.pem': leaf, 'rest.pem': rest.join('') };
  for (const [name, content] of Object.entries(contents)) writeFileSync(join(own, name), content);
  const host = loopbackOf(address);
  const [command, ...args] = COMMANDS[program]({ own, folder, host, port, isChain: rest.length > 0 });
  const started = startProgram(command, args, { logFile: join(own, 'log') });
  await eventually(`${program} listens`, () => answers(host, port));
  for (const name of Object.keys(contents)) rmSync(join(own, name)); // it cannot load them again
  return { pod: program, address, stop: () => started.stop() };
}

interface Place {
  readonly own: string;
  readonly folder: string;
  readonly host: string;
  readonly port: number;
  readonly isChain: boolean;
}

const peer = (language: 'python' | 'java', { own, folder, host, port }: Place) => {
  const files = [join(own, 'tls.crt'), join(own, 'tls.key')];
  return [...peerCommand(language, folder), 'serve', ...files, host, String(port)] as const;
};

const COMMANDS = {
  openssl: ({ own, host, port, isChain }: Place) => {
    const rest = isChain ? ['-cert_chain', join(own, 'rest.pem')] : [];
    const pair = ['-cert', join(own, 'leaf.pem'), '-key', join(own, 'tls.key')];
    return ['openssl', 's_server', '-accept', `${host}:${port}`, ...pair, ...rest, '-www'] as const;
  },
  nginx: ({ own, host, port }: Place) =>
    ['nginx', '-p', own, '-c', nginxConfig(own, `${host}:${port}`)] as const,
  python: (place: Place) => peer('python', place),
  java: (place: Place) => peer('java', place),
};

function nginxConfig(own: string, listen: string): string {
  const path = join(own, 'nginx.conf');
  writeFileSync(
    path,
    `daemon off; master_process off; pid ${own}/pid; error_log ${own}/error.log;
events {}
http {
  access_log off;
  client_body_temp_path ${own}; proxy_temp_path ${own}; fastcgi_temp_path ${own};
  uwsgi_temp_path ${own}; scgi_temp_path ${own};
  server { listen ${listen} ssl; ssl_certificate ${own}/tls.crt; ssl_certificate_key ${own}/tls.key; return 200; }
}
`,
  );
  return path;
}

const answers = (host: string, port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect({ host, port }, () => {
      socket.destroy();
      resolve(true);
    });
    socket.on('error', () => resolve(false));
  });

/** What the EndpointSlice controller writes. */
export function sliceOf(
  namespace: string,
  service: string,
  port: number,
  endpoints: readonly Pick<TlsEndpoint, 'pod' | 'address'>[],
): KubeObject {
  const slice = {
    metadata: { namespace, name: `${service}-1`, labels: { 'kubernetes.io/service-name': service } },
    addressType: 'IPv4',
    ports: [{ name: 'https', port, protocol: 'TCP' }],
    endpoints: endpoints.map(({ pod, address }) => ({
      addresses: [address],
      conditions: { ready: true },
      targetRef: { kind: 'Pod', namespace, name: pod },
    })),
  };
  return slice;
}

export function servedStates(metrics: string): Readonly<Record<string, number>> {
  const lines = metrics.matchAll(/^gatehouse_serving_endpoints\{state="(\w+)"\} (\d+)$/gm);
  return Object.fromEntries([...lines].map(([, state = '', count]) => [state, Number(count)]));
}
