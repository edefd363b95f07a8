/** A real control plane on loopback: etcd, kube-apiserver and, when asked for, kube-controller-manager. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { launchPlane, stopPlane, takePlane } from './control-planes-ahead.ts';
import { findAssets } from './control-plane-assets.ts';
import { get, readVersion, type KubeVersion } from './control-plane-http.ts';
import { ready, serviceAccountKeyOf } from './control-plane-site.ts';
import { writeKubeconfigs, type User } from './control-plane-users.ts';
import { freePort, startProgram, type Program } from './processes.ts';

export { USERS, type User } from './control-plane-users.ts';

export interface ControlPlane {
  readonly server: string;
  /** PEM that verifies the API server. */
  readonly ca: string;
  readonly folder: string;
  /** `1.20`, `1.36` and so on. */
  readonly version: KubeVersion;
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
  readonly stopApiServer: () => Promise<void>;
  /** The API server goes on, and finds nobody to ask. */
  readonly stopEtcd: () => Promise<void>;
  /** Starts what does not run. Resolves when the API server is ready. */
  readonly start: () => Promise<void>;
  /** The same without waiting: requests are served before the API server has done all that it does when it starts. */
  readonly launch: () => void;
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
  /** More arguments of kube-apiserver. The sandbox has none. */
  readonly apiServerFlags?: readonly string[];
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
  apiServerFlags = [],
}: ControlPlaneOptions): Promise<ControlPlane> {
  const assets = await findAssets();
  const isPlain = admissionPlugins.length === 0 && apiServerFlags.length === 0;
  const taken = isPlain ? await takePlane(assets) : undefined;
  const plane = taken ?? (await launchPlane(assets, admissionPlugins, apiServerFlags));
  const { site, servers } = plane;
  const { folder, tokens } = site;
  const { etcd, apiServer } = servers;
  const { server } = apiServer;
  let controllerManager: Program | undefined;
  const stop = async () => {
    await controllerManager?.stop(2_000);
    await stopPlane(plane);
  };
  try {
    const ca = readFileSync(join(folder, 'certificates', 'apiserver.crt'), 'utf8');
    const kubeconfigs = writeKubeconfigs(folder, server, ca, tokens);
    const version = await readVersion(server, ca, tokens.admin);
    if (controllers.length > 0) {
      controllerManager = await startControllerManager(
        assets,
        folder,
        kubeconfigs.admin,
        version.minor,
        controllers,
      );
    }
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
        stopApiServer: apiServer.stop,
        stopEtcd: etcd.stop,
        start: async () => {
          for (const one of [etcd, apiServer]) {
            if (one.isRunning()) continue;
            one.launch();
            await one.whenReady();
          }
        },
        launch: () => {
          for (const one of [etcd, apiServer]) if (!one.isRunning()) one.launch();
        },
        startEtcd: async () => {
          etcd.launch();
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

async function startControllerManager(
  assets: string,
  folder: string,
  kubeconfig: string,
  minor: number,
  controllers: readonly string[],
): Promise<Program> {
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
      `--service-account-private-key-file=${serviceAccountKeyOf(folder)}`,
    ],
    { logFile: join(folder, 'kube-controller-manager.log') },
  );
  const certificate = join(folder, 'certificates', 'kube-controller-manager.crt');
  await ready('kube-controller-manager', program, async () => {
    const answer = await get(`https://127.0.0.1:${port}/healthz`, readFileSync(certificate, 'utf8'));
    return answer.status === 200;
  }).catch(async (error: unknown) => {
    await program.stop(2_000);
    throw error;
  });
  return program;
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
