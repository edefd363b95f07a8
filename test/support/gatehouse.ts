/** Replicas of `gatehouse serve` as processes of their own, against a control plane. */
import { join } from 'node:path';

import type { SettingName } from '../../src/config/settings.ts';
import type { ControlPlane } from './control-plane.ts';
import { eventually, freePort, startProgram, tail, type Program } from './processes.ts';

const MAIN = join(import.meta.dirname, '..', '..', 'src', 'main.ts');

export interface Replica {
  readonly name: string;
  readonly program: Program;
  readonly port: number;
  readonly operationsPort: number;
  readonly readyz: () => Promise<{ readonly ok: boolean; readonly text: string }>;
  readonly metrics: () => Promise<string>;
  /** The parsed lines of its log. */
  readonly whenReady: (timeoutMs?: number) => Promise<void>;
}

export interface ReplicaOptions {
  readonly name: string;
  /** Where it listens for webhooks. Default: any free port. */
  readonly port?: number;
  /** What the webhook configurations name: the replica's own port unless a balancer stands before it. */
  readonly servicePort?: number;
  readonly settings?: Partial<Record<SettingName, string>>;
  /** Arguments of Node itself. */
  readonly nodeArgs?: readonly string[];
  /** Beside the environment of the tests. */
  readonly env?: Readonly<Record<string, string>>;
}

export async function startReplica(
  plane: Pick<ControlPlane, 'kubeconfig' | 'folder'>,
  { name, port: wanted, servicePort, settings = {}, nodeArgs = [], env = {} }: ReplicaOptions,
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
  const program = startProgram(process.execPath, [...nodeArgs, MAIN, 'serve', ...flags], {
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
        throw new Error(`${name} did not get ready; its last lines:\n${tail(program.logFile)}`, {
          cause: error,
        });
      });
    },
  };
}
