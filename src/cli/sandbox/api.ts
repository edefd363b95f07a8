/** Starts the API server of the sandbox, and creates its certificate and the credentials for it. */
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { createConnection, type Connection } from '../../kube/connection.ts';
import { startSandbox } from '../../sandbox/sandbox.ts';
import { createAuthority, activeGeneration } from '../../pki/authority/authority.ts';
import { DEFAULT_KEY_ALGORITHM, generateKeyPair, randomSerial } from '../../pki/x509/keys.ts';
import { DEFAULT_SERVING_CERT_LIFETIME } from '../../pki/durations.ts';
import { issueServingCert } from '../../pki/serving-certs/issue.ts';

export const NAMESPACE = 'gatehouse-system';
/** May see the status page, with a binding to the ClusterRole `gatehouse-status-viewer`. */
export const STATUS_VIEWER = 'status-viewer';

export async function startApi(port: number, folder: string) {
  const tls = await createSandboxTls(new Date());
  const [admin = '', gatehouse = '', viewer = ''] = [1, 2, 3].map(() => randomBytes(24).toString('hex'));
  const accounts = ['system:serviceaccounts', `system:serviceaccounts:${NAMESPACE}`];
  const sandbox = await startSandbox({
    port,
    tls,
    users: new Map([
      [admin, { username: 'admin', groups: ['system:masters'] }],
      [viewer, { username: STATUS_VIEWER, groups: [] }],
      [gatehouse, { username: `system:serviceaccount:${NAMESPACE}:gatehouse`, groups: accounts }],
    ]),
    onError: (error) => console.error('internal error of the sandbox:', error),
  }).catch((error: unknown) => {
    throw portProblem(error, port) ?? error;
  });
  const server = `https://localhost:${sandbox.port}`;
  const kubeconfig = join(folder, 'kubeconfig');
  writeFileSync(kubeconfig, kubeconfigOf(server, tls.ca, admin), { mode: 0o600 });
  const connect = (token: string) => (): Connection =>
    createConnection({ server }, () =>
      Promise.resolve({ headers: { Authorization: `Bearer ${token}` }, tls: { ca: tls.ca } }),
    );
  return {
    kubeconfig,
    viewerToken: viewer,
    connectAsAdmin: connect(admin),
    connectAsGatehouse: connect(gatehouse),
    stop: sandbox.stop,
  };
}

function portProblem(error: unknown, port: number): Error | undefined {
  if (!(error instanceof Error && 'code' in error)) return undefined;
  switch (error.code) {
    case 'EADDRINUSE':
      return new Error(
        `port ${port} is in use: choose another port with --port, or a free one with --port 0`,
      );
    case 'EACCES':
      return new Error(`this user lacks permission to listen on port ${port}: choose a port above 1023`);
    default:
      return undefined;
  }
}

export function kubeconfigOf(server: string, ca: string, token: string): string {
  const name = 'gatehouse-sandbox';
  const authority = { 'certificate-authority-data': Buffer.from(ca).toString('base64') };
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': name,
    clusters: [{ name, cluster: { server, ...authority } }],
    users: [{ name: 'admin', user: { token } }],
    contexts: [{ name, context: { cluster: name, user: 'admin' } }],
  };
  return `${JSON.stringify(config, undefined, 2)}\n`;
}

/** Creates a CA, and a certificate for `localhost` and the names of the API server in a cluster. All are PEM. */
export async function createSandboxTls(now: Date) {
  const [caKeys, keys] = await Promise.all([
    generateKeyPair(DEFAULT_KEY_ALGORITHM),
    generateKeyPair(DEFAULT_KEY_ALGORITHM),
  ]);
  const authority = await createAuthority({ keyPair: caKeys, serial: randomSerial(), now });
  const { chain } = await issueServingCert({
    authority,
    dnsNames: ['localhost', 'kubernetes', 'kubernetes.default', 'kubernetes.default.svc'],
    keyPair: keys,
    serial: randomSerial(),
    now,
    lifetimeMs: DEFAULT_SERVING_CERT_LIFETIME,
  });
  return { ca: activeGeneration(authority).certificate, cert: chain, key: keys.privateKey };
}
