/** The site of a control plane: its folder, its ports, and its servers. */
import { generateKeyPairSync } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { request } from 'node:https';
import { text } from 'node:stream/consumers';

import { writeKubeconfig, writeTokens, type PerUser } from './control-plane-users.ts';
import { eventually, freePort, startProgram, tail, type Program } from './processes.ts';

/** JSON: one process starts the servers, and another one uses them. */
export interface Site {
  readonly folder: string;
  readonly tokens: PerUser;
  readonly ports: Readonly<Record<'etcd' | 'etcdPeer' | 'apiServer' | 'controllerManager', number>>;
}

async function createSite(): Promise<Site> {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-control-plane-'));
  const ports = {
    etcd: await freePort(),
    etcdPeer: await freePort(),
    apiServer: await freePort(),
    controllerManager: await freePort(),
  };
  return { folder, tokens: writeSite(folder), ports };
}

/** The files that the servers of any control plane read. Returns the tokens of the users. */
export function writeSite(folder: string): PerUser {
  mkdirSync(join(folder, 'certificates'));
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  writeFileSync(serviceAccountKeyOf(folder), privateKey.export({ type: 'pkcs8', format: 'pem' }));
  writeFileSync(join(folder, 'audit-policy.yaml'), JSON.stringify(AUDIT_POLICY));
  return writeTokens(folder);
}

/** The flags of any kube-apiserver on the files of a site. */
export const siteFlags = (folder: string): readonly string[] => [
  `--cert-dir=${join(folder, 'certificates')}`,
  `--token-auth-file=${join(folder, 'tokens.csv')}`,
  '--allow-privileged', // as every installer sets it
  `--service-account-key-file=${serviceAccountKeyOf(folder)}`,
  `--service-account-signing-key-file=${serviceAccountKeyOf(folder)}`,
  `--audit-policy-file=${join(folder, 'audit-policy.yaml')}`,
  `--audit-log-path=${join(folder, 'audit.log')}`,
  '--audit-log-maxsize=100000', // MiB; a test file reads from where it began, so nothing may rotate
];

export const serviceAccountKeyOf = (folder: string): string => join(folder, 'service-account.key');

export const caOf = ({ folder }: Pick<Site, 'folder'>): string =>
  readFileSync(join(folder, 'certificates', 'apiserver.crt'), 'utf8');

const AUDIT_POLICY = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived', 'ResponseStarted'],
  rules: [{ level: 'Metadata' }],
};

export type Plane = Awaited<ReturnType<typeof launchPlane>>;

export interface PlaneFlags {
  readonly admissionPlugins?: readonly string[];
  readonly apiServerFlags?: readonly string[];
  /** Controllers that the test replaces: see kube-controller-manager's `--controllers`. */
  readonly withoutControllers?: readonly string[];
  readonly onlyControllers?: readonly string[];
}

export async function launchPlane(assets: string, flags: PlaneFlags = {}) {
  const site = await createSite();
  const servers = serversOf(site, assets, flags);
  try {
    for (const one of [servers.etcd, servers.apiServer, servers.controllerManager]) {
      one.launch();
      await one.whenReady();
    }
    return { site, servers };
  } catch (error) {
    await stopPlane({ site, servers });
    throw error;
  }
}

export async function stopPlane({ site, servers }: Plane): Promise<void> {
  await servers.controllerManager.stop();
  await servers.apiServer.stop();
  await servers.etcd.stop();
  rmSync(site.folder, { recursive: true, force: true });
}

/** With the default of 100, garbage collection takes a sixth of the CPU time of a suite. */
const GOGC = '400';

/** A server of the control plane, with the same arguments after each restart. */
type Launchable = ReturnType<typeof launchable>;

function launchable(
  name: string,
  command: string,
  args: readonly string[],
  logFile: string,
  probe: () => Promise<boolean>,
) {
  let program: Program | undefined;
  return {
    launch: () => void (program = startProgram(command, args, { logFile, env: { ...process.env, GOGC } })),
    whenReady: async () => {
      if (program !== undefined) await ready(name, program, probe);
    },
    isRunning: () => program?.isRunning() ?? false,
    stop: async () => {
      await program?.stop(5_000);
    },
  };
}

/** The nightly run starts the suites again as on OpenShift, where a plugin checks who changes owner references. */
const PLUGINS_OF_RUN = (process.env.GATEHOUSE_ADMISSION_PLUGINS ?? '')
  .split(',')
  .filter((name) => name !== '');
export const checksOwners = PLUGINS_OF_RUN.includes('OwnerReferencesPermissionEnforcement');

export type Servers = ReturnType<typeof serversOf>;

function serversOf(site: Site, assets: string, flags: PlaneFlags) {
  const { apiServerFlags = [] } = flags;
  const admissionPlugins = [...new Set([...(flags.admissionPlugins ?? []), ...PLUGINS_OF_RUN])];
  const { withoutControllers = [], onlyControllers = ['*'] } = flags;
  const etcd = etcdOf(site, assets);
  const plugins =
    admissionPlugins.length === 0 ? [] : [`--enable-admission-plugins=${admissionPlugins.join(',')}`];
  const apiServer = apiServerOf(site, assets, etcd.url, [...plugins, ...apiServerFlags]);
  const controllers = [...onlyControllers, ...withoutControllers.map((name) => `-${name}`)];
  const controllerManager = controllerManagerOf(site, assets, apiServer.server, controllers);
  const launchAnother = async (others: readonly string[]) => {
    const port = await freePort();
    const another = apiServerOf(site, assets, etcd.url, [...plugins, ...others], port);
    another.launch();
    await another.whenReady();
    return { ...another, port };
  };
  return { etcd, apiServer, controllerManager, launchAnother };
}

function etcdOf({ folder, ports }: Site, assets: string) {
  const url = `http://127.0.0.1:${ports.etcd}`;
  const etcd = launchable(
    'etcd',
    join(assets, 'etcd'),
    [
      `--data-dir=${join(folder, 'etcd')}`,
      `--listen-client-urls=${url}`,
      `--advertise-client-urls=${url}`,
      `--listen-peer-urls=http://127.0.0.1:${ports.etcdPeer}`,
      `--initial-advertise-peer-urls=http://127.0.0.1:${ports.etcdPeer}`,
      `--initial-cluster=default=http://127.0.0.1:${ports.etcdPeer}`,
      '--unsafe-no-fsync', // test data need not survive a power failure
    ],
    join(folder, 'etcd.log'),
    async () => (await fetch(`${url}/health`)).ok,
  );
  return { ...etcd, url };
}

function apiServerOf(
  { folder, ports }: Site,
  assets: string,
  etcd: string,
  flags: readonly string[],
  port = ports.apiServer,
) {
  const server = `https://127.0.0.1:${port}`;
  const apiServer = launchable(
    'kube-apiserver',
    join(assets, 'kube-apiserver'),
    [
      `--etcd-servers=${etcd}`,
      '--bind-address=127.0.0.1',
      '--advertise-address=127.0.0.1',
      `--secure-port=${port}`,
      '--endpoint-reconciler-type=none', // an endpoint cannot have a loopback address
      '--service-cluster-ip-range=10.0.0.0/24',
      '--authorization-mode=RBAC',
      '--service-account-issuer=https://kubernetes.default.svc',
      ...siteFlags(folder),
      ...flags,
    ],
    join(folder, 'kube-apiserver.log'),
    async () => (await get(`${server}/readyz`, caOf({ folder }))).status === 200,
  );
  return { ...apiServer, server };
}

function controllerManagerOf(
  { folder, tokens, ports }: Site,
  assets: string,
  server: string,
  controllers: readonly string[],
): Launchable {
  const certificates = join(folder, 'controller-manager');
  const kubeconfig = join(folder, 'controller-manager.kubeconfig');
  const serviceAccountKey = serviceAccountKeyOf(folder);
  const manager = launchable(
    'kube-controller-manager',
    join(assets, 'kube-controller-manager'),
    [
      `--kubeconfig=${kubeconfig}`,
      `--controllers=${controllers.join(',')}`,
      '--leader-elect=false',
      '--bind-address=127.0.0.1',
      `--secure-port=${ports.controllerManager}`,
      `--cert-dir=${certificates}`,
      `--authentication-kubeconfig=${kubeconfig}`,
      `--authorization-kubeconfig=${kubeconfig}`,
      '--use-service-account-credentials',
      `--service-account-private-key-file=${serviceAccountKey}`,
      `--root-ca-file=${join(folder, 'certificates', 'apiserver.crt')}`,
    ],
    join(folder, 'kube-controller-manager.log'),
    async () => {
      const ca = readFileSync(join(certificates, 'kube-controller-manager.crt'), 'utf8');
      return (await get(`https://127.0.0.1:${ports.controllerManager}/healthz`, ca)).status === 200;
    },
  );
  return {
    ...manager,
    launch: () => {
      writeKubeconfig(kubeconfig, server, caOf({ folder }), tokens.controllerManager);
      manager.launch();
    },
  };
}

/** @throws Error with the last log lines if the program ends, or is not ready in time. Default: a minute */
export async function ready(
  name: string,
  program: Pick<Program, 'logFile' | 'isRunning'>,
  probe: () => Promise<boolean> | boolean,
  patience?: Parameters<typeof eventually>[2],
): Promise<void> {
  const isReady = async () => {
    if (!program.isRunning()) throw new Error(`${name} ended:\n${tail(program.logFile)}`);
    return await probe();
  };
  await eventually(`${name} is ready`, isReady, patience).catch((error: unknown) => {
    throw new Error(`${name} did not start; its last lines:\n${tail(program.logFile)}`, { cause: error });
  });
}

export type KubeVersion = Awaited<ReturnType<typeof readVersion>>;

export async function readVersion(server: string, ca: string, token: string) {
  const { body } = await get(`${server}/version`, ca, token);
  const { major, minor, gitVersion } = JSON.parse(body) as Readonly<
    Record<'major' | 'minor' | 'gitVersion', string>
  >;
  return { major: Number.parseInt(major, 10), minor: Number.parseInt(minor, 10), gitVersion };
}

export function get(
  url: string,
  ca: string,
  token?: string,
): Promise<{ readonly status: number; readonly body: string }> {
  return new Promise((resolve, reject) => {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    // The self-signed certificates name the machine, not always the address that we dial.
    const options = { ca, headers, agent: false, timeout: 5_000, checkServerIdentity: () => undefined };
    const call = request(url, options, (response) => {
      text(response).then((body) => resolve({ status: response.statusCode ?? 0, body }), reject);
    });
    call.on('timeout', () => call.destroy(new Error('timed out')));
    call.on('error', reject);
    call.end();
  });
}
