/** A real control plane on loopback: etcd, kube-apiserver and, when asked for, kube-controller-manager. */
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { findAssets } from './control-plane-assets.ts';
import { eventually, freePort, startProgram, tail, type Program } from './processes.ts';

/** Who may log in with a token. Groups beside `system:authenticated`. */
export const USERS = {
  admin: { name: 'admin', groups: ['system:masters'] },
  gatehouse: {
    name: 'system:serviceaccount:gatehouse-system:gatehouse',
    groups: ['system:serviceaccounts', 'system:serviceaccounts:gatehouse-system'],
  },
  alice: { name: 'alice', groups: [] },
} as const satisfies Record<string, { name: string; groups: readonly string[] }>;

export type User = keyof typeof USERS;

export interface ControlPlane {
  readonly server: string;
  /** PEM that verifies the API server. */
  readonly ca: string;
  readonly folder: string;
  /** `1.20`, `1.36` and so on. */
  readonly version: { readonly major: number; readonly minor: number; readonly gitVersion: string };
  readonly token: (user: User) => string;
  /** The path of a kubeconfig for this user. */
  readonly kubeconfig: (user: User) => string;
  /** Every finished request so far, oldest first. */
  readonly auditLog: () => readonly AuditEvent[];
  /** What only a real one has; undefined in the sandbox. */
  readonly processes: ControlPlaneProcesses | undefined;
  readonly stop: () => Promise<void>;
}

/** etcd and kube-apiserver, to be stopped and started again as the same members on the same ports. */
export interface ControlPlaneProcesses {
  readonly stop: () => Promise<void>;
  /** Resolves when the API server is ready. */
  readonly start: () => Promise<void>;
  /** etcd alone, while the API server is stopped. Gives its client URL. */
  readonly startEtcd: () => Promise<string>;
  /** The data of etcd: a snapshot of it may be taken and put back while it is stopped. */
  readonly dataFolder: string;
}

/** The part of audit.k8s.io/v1 Event that tests look at. */
export interface AuditEvent {
  readonly verb: string;
  readonly requestURI: string;
  readonly stageTimestamp: string;
  readonly user: { readonly username: string };
  readonly userAgent?: string;
  readonly impersonatedUser?: { readonly username: string };
  readonly objectRef?: {
    readonly apiGroup?: string;
    readonly resource?: string;
    readonly subresource?: string;
    readonly namespace?: string;
    readonly name?: string;
  };
  readonly responseStatus?: { readonly code?: number };
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface ControlPlaneOptions {
  /** Names as kube-controller-manager's `--controllers` takes them. None: it is not started. The sandbox has its own, always. */
  readonly controllers?: readonly string[];
  /** Names as kube-apiserver's `--enable-admission-plugins` takes them. The sandbox has none. */
  readonly admissionPlugins?: readonly string[];
}

/** Which API server tests run against: a vitest project says so by this variable. Default: a real one. */
export const testsSandbox = () => process.env.GATEHOUSE_TEST_API === 'sandbox';

/** A control plane of its own for a test file: the sandbox, or etcd and kube-apiserver. */
export async function startControlPlane(options: ControlPlaneOptions = {}): Promise<ControlPlane> {
  if (!testsSandbox()) return await startRealControlPlane(options);
  const { startSandboxPlane } = await import('./sandbox-plane.ts');
  return await startSandboxPlane(); // with all of its controllers
}

async function startRealControlPlane({
  controllers = [],
  admissionPlugins = [],
}: ControlPlaneOptions): Promise<ControlPlane> {
  const assets = await findAssets();
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-control-plane-'));
  const programs: Program[] = [];
  mkdirSync(join(folder, 'certificates'));
  const stop = async () => {
    for (const program of programs.toReversed()) await program.stop(2_000);
    rmSync(folder, { recursive: true, force: true });
  };
  try {
    const tokens = writeTokens(folder);
    const etcd = await etcdOf(assets, folder);
    const apiServer = await apiServerOf(assets, folder, etcd.url, admissionPlugins);
    const { server } = apiServer;
    for (const one of [etcd, apiServer]) {
      programs.push(one.launch());
      await one.whenReady();
    }
    const ca = readFileSync(join(folder, 'certificates', 'apiserver.crt'), 'utf8');
    const kubeconfigs = writeKubeconfigs(folder, server, ca, tokens);
    const version = await readVersion(server, ca, tokens.admin);
    if (controllers.length > 0)
      await startControllerManager(assets, folder, kubeconfigs.admin, version.minor, controllers, programs);
    return {
      server,
      ca,
      folder,
      version,
      token: (user) => tokens[user],
      kubeconfig: (user) => kubeconfigs[user],
      auditLog: () => readAuditLog(join(folder, 'audit.log')),
      processes: {
        stop: async () => {
          await apiServer.stop();
          await etcd.stop();
        },
        start: async () => {
          for (const one of [etcd, apiServer]) {
            if (one.isRunning()) continue;
            programs.push(one.launch());
            await one.whenReady();
          }
        },
        startEtcd: async () => {
          programs.push(etcd.launch());
          await etcd.whenReady();
          return etcd.url;
        },
        dataFolder: join(folder, 'etcd'),
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

export type PerUser = Record<User, string>;

export function perUser(valueFor: (user: User) => string): PerUser {
  return { admin: valueFor('admin'), gatehouse: valueFor('gatehouse'), alice: valueFor('alice') };
}

function writeTokens(folder: string): PerUser {
  const tokens = perUser(() => randomBytes(16).toString('hex'));
  const users: readonly User[] = ['admin', 'gatehouse', 'alice'];
  const lines = users.map(
    (user) => `${tokens[user]},${USERS[user].name},${user}-uid,"${USERS[user].groups.join(',')}"`,
  );
  writeFileSync(join(folder, 'tokens.csv'), `${lines.join('\n')}\n`);
  return tokens;
}

/** A server of the control plane, whose arguments stay the same however often it is started. */
interface Launchable {
  readonly launch: () => Program;
  readonly whenReady: () => Promise<void>;
  readonly isRunning: () => boolean;
  readonly stop: () => Promise<void>;
}

function launchable(
  name: string,
  command: string,
  args: readonly string[],
  logFile: string,
  probe: () => Promise<boolean>,
): Launchable {
  let program: Program | undefined;
  return {
    launch: () => {
      program = startProgram(command, args, { logFile });
      return program;
    },
    whenReady: async () => {
      if (program !== undefined) await ready(name, program, probe);
    },
    isRunning: () => program?.isRunning() ?? false,
    stop: async () => {
      await program?.stop(5_000);
    },
  };
}

async function etcdOf(assets: string, folder: string): Promise<Launchable & { readonly url: string }> {
  const [client, peer] = await Promise.all([freePort(), freePort()]);
  const url = `http://127.0.0.1:${client}`;
  const etcd = launchable(
    'etcd',
    join(assets, 'etcd'),
    [
      `--data-dir=${join(folder, 'etcd')}`,
      `--listen-client-urls=${url}`,
      `--advertise-client-urls=${url}`,
      `--listen-peer-urls=http://127.0.0.1:${peer}`,
      `--initial-advertise-peer-urls=http://127.0.0.1:${peer}`,
      `--initial-cluster=default=http://127.0.0.1:${peer}`,
      '--unsafe-no-fsync', // a test's data need not survive a power cut
    ],
    join(folder, 'etcd.log'),
    async () => (await fetch(`${url}/health`)).ok,
  );
  return { ...etcd, url };
}

const AUDIT_POLICY = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived', 'ResponseStarted'],
  rules: [{ level: 'Metadata' }],
};

async function apiServerOf(
  assets: string,
  folder: string,
  etcd: string,
  admissionPlugins: readonly string[],
): Promise<Launchable & { readonly server: string }> {
  const port = await freePort();
  const serviceAccountKey = join(folder, 'service-account.key');
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  writeFileSync(serviceAccountKey, privateKey.export({ type: 'pkcs8', format: 'pem' }));
  writeFileSync(join(folder, 'audit-policy.yaml'), JSON.stringify(AUDIT_POLICY));
  const server = `https://127.0.0.1:${port}`;
  const apiServer = launchable(
    'kube-apiserver',
    join(assets, 'kube-apiserver'),
    [
      `--etcd-servers=${etcd}`,
      '--bind-address=127.0.0.1',
      '--advertise-address=127.0.0.1',
      `--secure-port=${port}`,
      `--cert-dir=${join(folder, 'certificates')}`,
      '--endpoint-reconciler-type=none', // a loopback address may not be an endpoint
      '--service-cluster-ip-range=10.0.0.0/24',
      `--token-auth-file=${join(folder, 'tokens.csv')}`,
      '--authorization-mode=RBAC',
      '--service-account-issuer=https://kubernetes.default.svc',
      `--service-account-key-file=${serviceAccountKey}`,
      `--service-account-signing-key-file=${serviceAccountKey}`,
      '--disable-admission-plugins=ServiceAccount', // nobody makes the default accounts that it would demand
      ...(admissionPlugins.length === 0 ? [] : [`--enable-admission-plugins=${admissionPlugins.join(',')}`]),
      `--audit-policy-file=${join(folder, 'audit-policy.yaml')}`,
      `--audit-log-path=${join(folder, 'audit.log')}`,
    ],
    join(folder, 'kube-apiserver.log'),
    async () => {
      const ca = readFileSync(join(folder, 'certificates', 'apiserver.crt'), 'utf8');
      return (await get(`${server}/readyz`, ca)).status === 200;
    },
  );
  return { ...apiServer, server };
}

async function startControllerManager(
  assets: string,
  folder: string,
  kubeconfig: string,
  minor: number,
  controllers: readonly string[],
  programs: Program[],
): Promise<void> {
  const port = await freePort();
  const program = startProgram(
    join(assets, 'kube-controller-manager'),
    [
      `--kubeconfig=${kubeconfig}`,
      `--controllers=${controllers.join(',')}`,
      '--leader-elect=false',
      '--bind-address=127.0.0.1',
      `--secure-port=${port}`,
      `--cert-dir=${join(folder, 'certificates')}`,
      ...(minor < 24 ? ['--port=0'] : []), // the insecure port, which later releases do not have
      `--authentication-kubeconfig=${kubeconfig}`,
      `--authorization-kubeconfig=${kubeconfig}`,
      `--service-account-private-key-file=${join(folder, 'service-account.key')}`,
    ],
    { logFile: join(folder, 'kube-controller-manager.log') },
  );
  programs.push(program);
  const certificate = join(folder, 'certificates', 'kube-controller-manager.crt');
  await ready('kube-controller-manager', program, async () => {
    const answer = await get(`https://127.0.0.1:${port}/healthz`, readFileSync(certificate, 'utf8'));
    return answer.status === 200;
  });
}

async function ready(name: string, program: Program, probe: () => Promise<boolean>): Promise<void> {
  try {
    await eventually(
      `${name} is ready`,
      async () => {
        if (!program.isRunning()) throw new Error(`${name} ended:\n${tail(program.logFile)}`);
        return await probe();
      },
      { timeoutMs: 60_000, everyMs: 50 },
    );
  } catch (error) {
    throw new Error(`${name} did not start; its last lines:\n${tail(program.logFile)}`, { cause: error });
  }
}

export function writeKubeconfigs(folder: string, server: string, ca: string, tokens: PerUser): PerUser {
  return perUser((user) => {
    const path = join(folder, `${user}.kubeconfig`);
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'test',
      clusters: [
        {
          name: 'test',
          cluster: { server, 'certificate-authority-data': Buffer.from(ca).toString('base64') },
        },
      ],
      users: [{ name: user, user: { token: tokens[user] } }],
      contexts: [{ name: 'test', context: { cluster: 'test', user } }],
    };
    writeFileSync(path, JSON.stringify(config, undefined, 2)); // JSON is YAML
    return path;
  });
}

async function readVersion(server: string, ca: string, token: string): Promise<ControlPlane['version']> {
  const { body } = await get(`${server}/version`, ca, token);
  const version: unknown = JSON.parse(body);
  if (
    typeof version !== 'object' ||
    version === null ||
    !('minor' in version && 'major' in version && 'gitVersion' in version)
  ) {
    throw new Error(`not a version: ${body}`);
  }
  const number = (value: unknown) => Number.parseInt(String(value), 10);
  return {
    major: number(version.major),
    minor: number(version.minor),
    gitVersion: String(version.gitVersion),
  };
}

function get(
  url: string,
  ca: string,
  token?: string,
): Promise<{ readonly status: number; readonly body: string }> {
  return new Promise((resolve, reject) => {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    // The self-made certificates name the machine, not always the address that we dial.
    const call = request(
      url,
      { ca, headers, agent: false, timeout: 5_000, checkServerIdentity: () => undefined },
      (response) => {
        let body = '';
        response.setEncoding('utf8');
        response.on('data', (chunk: string) => (body += chunk));
        response.on('end', () => {
          resolve({ status: response.statusCode ?? 0, body });
        });
      },
    );
    call.on('timeout', () => call.destroy(new Error('timed out')));
    call.on('error', reject);
    call.end();
  });
}

function readAuditLog(path: string): readonly AuditEvent[] {
  return readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .flatMap((line) => {
      try {
        return [JSON.parse(line) as AuditEvent];
      } catch {
        return []; // the last line may still be in the writing
      }
    });
}
