/** Replicas of `gatehouse serve` as separate processes, against a control plane. */
import { join } from 'node:path';

import type { SettingName } from '../../src/config/settings.ts';
import type { ControlPlane } from './control-plane.ts';
import { MAIN } from './main-module.ts';
import { eventually, freePort, startProgram, tail, type Program } from './processes.ts';

export interface Replica {
  readonly name: string;
  readonly program: Program;
  readonly port: number;
  readonly operationsPort: number;
  readonly readyz: () => Promise<{ readonly ok: boolean; readonly text: string }>;
  readonly metrics: () => Promise<string>;
  /** Resolves when the replica is ready. @throws Error with its last problem after `timeoutMs` */
  readonly whenReady: (timeoutMs?: number) => Promise<void>;
}

export interface ReplicaOptions {
  readonly name: string;
  /** Webhook port. Default: any free port. */
  readonly port?: number;
  /**
   * Port in the webhook configurations. Default: the replica's own port. Tests with a balancer set the port of the
   * balancer.
   */
  readonly servicePort?: number;
  readonly settings?: Partial<Record<SettingName, string>>;
  /** Default: {@link MAIN}. */
  readonly main?: string;
  /** Arguments of Node. */
  readonly nodeArgs?: readonly string[];
  /** In addition to the environment of the tests. */
  readonly env?: Readonly<Record<string, string>>;
}

export async function startReplica(
  plane: Pick<ControlPlane, 'kubeconfig' | 'folder'>,
  { name, port: wanted, servicePort, settings = {}, main = MAIN, nodeArgs = [], env = {} }: ReplicaOptions,
): Promise<Replica> {
  const [port, operationsPort] = await Promise.all([wanted ?? freePort(), freePort()]);
  const all: Partial<Record<SettingName, string>> = {
    kubeconfig: plane.kubeconfig('gatehouse'),
    identity: name,
    host: '127.0.0.1',
    port: String(port),
    'operations-port': String(operationsPort),
    'service-port': String(servicePort ?? port),
    'cluster-domain': 'cluster.local',
    'restore-settle': '2s',
    'drain-delay': '200ms',
    ...settings,
  };
  const flags = Object.entries(all).flatMap(([flag, value]) => [`--${flag}`, value]);
  const program = startProgram(process.execPath, [...nodeArgs, main, 'serve', ...flags], {
    logFile: join(plane.folder, `${name}.log`),
    env: { ...process.env, ...env },
  });
  const get = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${operationsPort}${path}`);
    return { ok: response.ok, text: await response.text() };
  };
  return {
    name,
    program,
    port,
    operationsPort,
    readyz: () => get('/readyz?verbose'),
    metrics: async () => (await get('/metrics')).text,
    whenReady: async (timeoutMs = 60_000) => {
      await eventually(
        `${name} is ready`,
        async () => {
          if (!program.isRunning()) throw new Error(`${name} ended:\n${tail(program.logFile)}`);
          const { ok, text } = await get('/readyz');
          if (!ok) throw new Error(text);
          return true;
        },
        { timeoutMs, everyMs: 25 },
      ).catch((error: unknown) => {
        throw new Error(`${name} did not become ready; its last lines:\n${tail(program.logFile)}`, {
          cause: error,
        });
      });
    },
  };
}
