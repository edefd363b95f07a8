/** A real control plane on loopback: etcd, kube-apiserver and kube-controller-manager. */
import { copyFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

import { controlPlanePrograms } from './go-programs.ts';
import { readVersion, type KubeVersion } from './control-plane-http.ts';
import { borrowPlane, returnPlane, type Contents } from './control-plane-pool.ts';
import {
  caOf,
  launchPlane,
  serviceAccountKeyOf,
  stopPlane,
  type Plane,
  type PlaneFlags,
  type Servers,
  type Site,
} from './control-plane-site.ts';
import { writeKubeconfigs, type User } from './control-plane-users.ts';

export { GATEHOUSE_GROUP, USERS, type User } from './control-plane-users.ts';

export interface ControlPlane {
  readonly server: string;
  /** PEM that verifies the API server. */
  readonly ca: string;
  /** Folder for logs and kubeconfigs of this test file. */
  readonly folder: string;
  /** Initial content of the cluster. */
  readonly contents: Contents;
  /** `1.30`, `1.37` and so on. */
  readonly version: KubeVersion;
  readonly token: (user: User) => string;
  /** The path of a kubeconfig for this user. */
  readonly kubeconfig: (user: User) => string;
  /** Every finished request of this test file so far, oldest first. */
  readonly auditLog: () => readonly AuditEvent[];
  /** Undefined for the sandbox, which has none, and for a shared control plane, which other files need. */
  readonly processes: ControlPlaneProcesses | undefined;
  readonly stop: () => Promise<void>;
}

/** Stops and restarts the servers as the same members on the same ports. */
export interface ControlPlaneProcesses {
  readonly stop: () => Promise<void>;
  readonly stopApiServer: () => Promise<void>;
  /** Stops etcd; the API server keeps running without its store. */
  readonly stopEtcd: () => Promise<void>;
  /** Starts every stopped server. Resolves when the API server is ready. */
  readonly start: () => Promise<void>;
  /** Like `start`, without waiting: the API server serves requests before its startup hooks have finished. */
  readonly launch: () => void;
  /** Starts only etcd, while the API server is stopped. Returns its client URL. */
  readonly startEtcd: () => Promise<string>;
  /** Data folder of etcd: a test can copy it and restore it while etcd is stopped. */
  readonly dataFolder: string;
}

/** The fields of an audit.k8s.io/v1 Event that tests read. */
export interface AuditEvent {
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
  readonly responseStatus?: { readonly code?: number };
  readonly annotations?: Readonly<Record<string, string>>;
}

/** The sandbox has neither plugins nor flags. */
export interface ControlPlaneOptions extends PlaneFlags {
  /** Whether the file stops or restarts the servers. Otherwise it may share them with other test files. */
  readonly own?: boolean;
  /** Initial content of a shared control plane. An unshared one is always empty. */
  readonly contents?: Contents;
}

/** Selects the API server that tests use: a vitest project sets the variable. Default: a real one. */
export const testsSandbox = () => process.env.GATEHOUSE_TEST_API === 'sandbox';

/** A control plane for a test file: the sandbox, or etcd and kube-apiserver. */
export async function startControlPlane(options: ControlPlaneOptions = {}): Promise<ControlPlane> {
  if (!testsSandbox()) return await startRealControlPlane(options);
  const { startSandboxPlane } = await import('./sandbox-plane.ts');
  return await startSandboxPlane();
}

/** A running control plane; either the pool or this file started it. */
interface Running {
  readonly site: Site;
  readonly server: string;
  readonly folder: string;
  readonly contents: Contents;
  readonly auditedBefore: number;
  readonly processes: ControlPlaneProcesses | undefined;
  readonly release: () => Promise<void>;
}

async function startRealControlPlane({
  own = false,
  contents = 'empty',
  ...flags
}: ControlPlaneOptions): Promise<ControlPlane> {
  const assets = await controlPlanePrograms();
  const isPlain = Object.keys(flags).length === 0;
  const shared = isPlain && !own ? await borrow(contents) : undefined;
  const running = shared ?? runningOn(await launchPlane(assets, flags));
  return await describePlane(running).catch(async (error: unknown) => {
    await running.release();
    throw error;
  });
}

/** The information that clients need about running servers. */
async function describePlane({
  site,
  server,
  folder,
  contents,
  auditedBefore,
  processes,
  release,
}: Running): Promise<ControlPlane> {
  const ca = caOf(site);
  const { tokens } = site;
  const kubeconfigs = writeKubeconfigs(folder, server, ca, tokens);
  return {
    server,
    ca,
    folder,
    contents,
    version: await readVersion(server, ca, tokens.admin),
    token: (user) => tokens[user],
    kubeconfig: (user) => kubeconfigs[user],
    auditLog: () => readAuditLog(join(site.folder, 'audit.log'), auditedBefore),
    processes,
    stop: release,
  };
}

/** For clients of a plane that the caller stops. */
export async function controlPlaneOn(plane: Plane): Promise<ControlPlane> {
  return await describePlane({ ...runningOn(plane), release: () => Promise.resolve() });
}

async function borrow(contents: Contents): Promise<Running | undefined> {
  const borrowed = await borrowPlane(contents);
  if (borrowed === undefined) return undefined;
  const { site, folder } = borrowed;
  copyFileSync(serviceAccountKeyOf(site.folder), serviceAccountKeyOf(folder));
  return { ...borrowed, contents, processes: undefined, release: () => returnPlane(borrowed) };
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
    release: () => stopPlane(plane),
  };
}

function processesOf(
  { folder }: Site,
  { etcd, apiServer, controllerManager }: Servers,
): ControlPlaneProcesses {
  const all = [etcd, apiServer, controllerManager];
  return {
    stop: async () => {
      await controllerManager.stop();
      await apiServer.stop();
      await etcd.stop();
    },
    stopApiServer: apiServer.stop,
    stopEtcd: etcd.stop,
    start: async () => {
      for (const one of all) {
        if (one.isRunning()) continue;
        one.launch();
        await one.whenReady();
      }
    },
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

function readAuditLog(path: string, from: number): readonly AuditEvent[] {
  return readFileSync(path)
    .subarray(from)
    .toString()
    .split('\n')
    .filter((line) => line !== '')
    .flatMap((line) => {
      try {
        return [JSON.parse(line) as AuditEvent];
      } catch {
        return []; // the API server may still be writing the last line
      }
    });
}
