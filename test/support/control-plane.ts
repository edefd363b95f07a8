/** A real control plane on loopback: etcd, kube-apiserver and kube-controller-manager. */
import { copyFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { controlPlanePrograms } from './go-programs.ts';
import {
  caOf,
  launchPlane,
  readVersion,
  serviceAccountKeyOf,
  stopPlane,
  type KubeVersion,
  type Plane,
  type PlaneFlags,
  type Servers,
  type Site,
} from './control-plane-site.ts';
import { borrowPlane, returnPlane, type Contents } from './control-plane-pool.ts';
import { writeKubeconfigs, type User } from './control-plane-users.ts';

export { GATEHOUSE_GROUP, USERS, type User } from './control-plane-users.ts';

export interface ControlPlane {
  readonly server: string;
  readonly ca: string;
  readonly folder: string;
  readonly contents: Contents;
  readonly version: KubeVersion;
  readonly token: (user: User) => string;
  readonly kubeconfig: (user: User) => string;
  readonly auditLog: () => readonly AuditEvent[];
  /** Undefined for the sandbox, which has none, and for a shared control plane, which other files need. */
  readonly processes: ControlPlaneProcesses | undefined;
  readonly stop: () => Promise<void>;
}

export type ControlPlaneProcesses = ReturnType<typeof processesOf>;

export interface AuditEvent {
  /** Absent in the sandbox. */
  readonly auditID?: string;
  readonly verb: string;
  readonly requestURI: string;
  readonly stageTimestamp: string;
  /** Both times are in microseconds. Absent in the sandbox. */
  readonly requestReceivedTimestamp?: string;
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
  readonly responseStatus?: { readonly code?: number; readonly message?: string };
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface ControlPlaneOptions extends PlaneFlags {
  /** Whether the file stops or restarts the servers. Otherwise it may share them with other test files. */
  readonly own?: boolean;
  readonly contents?: Contents;
}

/** Selects the API server that tests use: a vitest project sets the variable. Default: a real one. */
export const testsSandbox = () => process.env.GATEHOUSE_TEST_API === 'sandbox';

export async function startControlPlane(options: ControlPlaneOptions = {}): Promise<ControlPlane> {
  if (!testsSandbox()) return await startRealControlPlane(options);
  const { startSandboxPlane } = await import('./sandbox-plane.ts');
  return await startSandboxPlane();
}

async function startRealControlPlane(options: ControlPlaneOptions): Promise<ControlPlane> {
  const { own = false, contents = 'empty', ...flags } = options;
  const assets = await controlPlanePrograms();
  const isPlain = Object.keys(flags).length === 0;
  const shared = isPlain && !own ? await borrow(contents) : undefined;
  const running = shared ?? runningOn(await launchPlane(assets, flags));
  return await describePlane(running).catch(async (error: unknown) => {
    await running.stop();
    throw error;
  });
}

type Running = Pick<ControlPlane, 'server' | 'folder' | 'contents' | 'processes' | 'stop'> & {
  readonly site: Site;
  readonly auditedBefore: number;
};

async function describePlane({ site, auditedBefore, ...running }: Running): Promise<ControlPlane> {
  const ca = caOf(site);
  const { tokens } = site;
  const kubeconfigs = writeKubeconfigs(running.folder, running.server, ca, tokens);
  return {
    ...running,
    ca,
    version: await readVersion(running.server, ca, tokens.admin),
    token: (user) => tokens[user],
    kubeconfig: (user) => kubeconfigs[user],
    auditLog: () => readAuditLog(join(site.folder, 'audit.log'), auditedBefore),
  };
}

export async function controlPlaneOn(plane: Plane): Promise<ControlPlane> {
  return await describePlane({ ...runningOn(plane), stop: () => Promise.resolve() });
}

async function borrow(contents: Contents): Promise<Running | undefined> {
  const borrowed = await borrowPlane(contents);
  if (borrowed === undefined) return undefined;
  const { site, folder } = borrowed;
  copyFileSync(serviceAccountKeyOf(site.folder), serviceAccountKeyOf(folder));
  return { ...borrowed, contents, processes: undefined, stop: () => returnPlane(borrowed) };
}

function runningOn(plane: Plane): Running {
  const { site, servers } = plane;
  return {
    site,
    server: servers.apiServer.server,
    folder: site.folder,
    contents: 'empty',
    auditedBefore: 0,
    processes: processesOf(site, servers),
    stop: () => stopPlane(plane),
  };
}

function processesOf({ folder, ports }: Site, servers: Servers) {
  const { etcd, apiServer, controllerManager, launchAnother } = servers;
  const all = [etcd, apiServer, controllerManager];
  return {
    stop: async () => {
      await controllerManager.stop();
      await apiServer.stop();
      await etcd.stop();
    },
    stopApiServer: apiServer.stop,
    apiServerPort: ports.apiServer,
    /** A second API server on the same etcd. The caller stops it. */
    launchAnother,
    /** Starts every stopped server. Resolves when the API server is ready. */
    start: async () => {
      for (const one of all) {
        if (one.isRunning()) continue;
        one.launch();
        await one.whenReady();
      }
    },
    /** Like `start`, without waiting: the API server serves requests before its startup hooks have finished. */
    launch: () => {
      for (const one of all) if (!one.isRunning()) one.launch();
    },
    startEtcd: async () => {
      etcd.launch();
      await etcd.whenReady();
      return etcd.url;
    },
    dataFolder: join(folder, 'etcd'),
  };
}

export const readAuditLog = (path: string, from = 0): readonly AuditEvent[] =>
  readFileSync(path)
    .subarray(from)
    .toString()
    .split('\n')
    .flatMap((line) => (line.endsWith('}') ? [JSON.parse(line) as AuditEvent] : []));
