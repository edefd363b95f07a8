/** Starts the API server of the sandbox, and creates credentials for it. */
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createConnection, type Connection } from '../../kube/connection.ts';
import { startSandbox } from '../../sandbox/sandbox.ts';
import { createSandboxTls } from './tls.ts';

export const NAMESPACE = 'gatehouse-system';

const USERS = {
  admin: { username: 'admin', groups: ['system:masters'] },
  gatehouse: {
    username: `system:serviceaccount:${NAMESPACE}:gatehouse`,
    groups: ['system:serviceaccounts', `system:serviceaccounts:${NAMESPACE}`],
  },
};

export interface SandboxApi {
  /** The path of a kubeconfig with all permissions. */
  readonly kubeconfig: string;
  readonly connectAs: (user: keyof typeof USERS) => Connection;
  readonly stop: () => Promise<void>;
}

export interface ApiSettings {
  /** 0: any free port. */
  readonly port: number;
  /** The folder for the kubeconfig. */
  readonly folder: string;
  /** The folder for objects; undefined: in memory. */
  readonly objects: string | undefined;
}

/** @throws Error when the port is not available, or the folder is in use */
export async function startApi({ port, folder, objects }: ApiSettings): Promise<SandboxApi> {
  const tls = await createSandboxTls(new Date());
  const tokens = { admin: newToken(), gatehouse: newToken() };
  const sandbox = await startSandbox({
    port,
    tls,
    users: new Map([
      [tokens.admin, USERS.admin],
      [tokens.gatehouse, USERS.gatehouse],
    ]),
    dataFolder: objects,
    onError: (error) => {
      console.error('internal error of the sandbox:', error);
    },
  }).catch((error: unknown) => {
    throw portProblem(error, port) ?? error;
  });
  const server = `https://localhost:${sandbox.port}`;
  const kubeconfig = join(folder, 'kubeconfig');
  const login = kubeconfigOf({ server, ca: tls.ca, user: 'admin', token: tokens.admin });
  writeFileSync(kubeconfig, login, { mode: 0o600 });
  return {
    kubeconfig,
    connectAs: (user) =>
      createConnection({ server }, () =>
        Promise.resolve({ headers: { Authorization: `Bearer ${tokens[user]}` }, tls: { ca: tls.ca } }),
      ),
    stop: sandbox.stop,
  };
}

const newToken = (): string => randomBytes(24).toString('hex');

function portProblem(error: unknown, port: number): Error | undefined {
  if (!(error instanceof Error && 'code' in error)) return undefined;
  switch (error.code) {
    case 'EADDRINUSE':
      return new Error(
        `port ${port} is in use: choose another port with --port, or a free one with --port 0`,
      );
    case 'EACCES':
      return new Error(`no permission to listen on port ${port}: choose a port above 1023`);
    default:
      return undefined;
  }
}

export interface Login {
  readonly server: string;
  /** PEM. */
  readonly ca: string;
  readonly user: string;
  readonly token: string;
}

/** A kubeconfig as JSON, which is YAML; the context is called `gatehouse-sandbox`. */
export function kubeconfigOf({ server, ca, user, token }: Login): string {
  const name = 'gatehouse-sandbox';
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': name,
    clusters: [
      { name, cluster: { server, 'certificate-authority-data': Buffer.from(ca).toString('base64') } },
    ],
    users: [{ name: user, user: { token } }],
    contexts: [{ name, context: { cluster: name, user } }],
  };
  return `${JSON.stringify(config, undefined, 2)}\n`;
}
