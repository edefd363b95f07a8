/** Replicas of Gatehouse as separate processes, against a control plane. */
import { join } from 'node:path';

import { settingsOf } from '../../src/config/config.ts';
import type { SettingName } from '../../src/config/settings.ts';
import { testsSandbox, type ControlPlane } from './control-plane.ts';
import { MAIN } from './main-module.ts';
import { ready } from './control-plane-site.ts';
import { freePort, startProgram, type Program } from './processes.ts';

export type Replica = ReturnType<typeof combine>;

/** `split`: `gatehouse webhook` and `gatehouse controllers`, each with its account. `single`: `gatehouse serve`. */
export type Arrangement = 'split' | 'single';

export interface ReplicaOptions {
  readonly name: string;
  /** Default: `single`, which starts faster. `both`: `single` in the sandbox, otherwise `split`. */
  readonly arrangement?: Arrangement | 'both' | undefined;
  readonly only?: keyof typeof PROCESSES;
  readonly port?: number;
  /** Port in the webhook configurations, for example of a balancer. Default: the replica's port. */
  readonly servicePort?: number;
  readonly settings?: Partial<Record<SettingName, string>>;
  readonly main?: string;
  readonly nodeArgs?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

const PROCESSES = { webhook: 'webhook', controllers: 'controllers', serve: 'gatehouse' } as const;

type Plane = Pick<ControlPlane, 'kubeconfig' | 'folder'>;

const started = new Map<string, Replica[]>();

export async function stopReplicas({ folder }: Pick<Plane, 'folder'>): Promise<void> {
  await Promise.all((started.get(folder) ?? []).map(({ program }) => program.stop(15_000)));
}

export async function startReplica(plane: Plane, options: ReplicaOptions): Promise<Replica> {
  const port = options.port ?? (await freePort());
  const { only } = options;
  const split = only === undefined ? (['controllers', 'webhook'] as const) : [only];
  const commands =
    only !== undefined || arrangementOf(options.arrangement) === 'split' ? split : (['serve'] as const);
  const processes = await Promise.all(
    commands.map((command) => startProcess(plane, { ...options, port }, command)),
  );
  const replica = combine(options.name, port, processes);
  started.set(plane.folder, [...(started.get(plane.folder) ?? []), replica]);
  return replica;
}

export const isLeading = async (replica: Replica): Promise<boolean> =>
  /^leader_election_master_status\{.*\} 1$/m.test(await replica.metrics());

/** The sum of a metric over these replicas and all labels. `series` may begin to name labels: `a_total{code="404"`. */
export async function sumOf(replicas: readonly Pick<Replica, 'metrics'>[], series: string): Promise<number> {
  const pages = await Promise.all(replicas.map(({ metrics }) => metrics()));
  return pages
    .flatMap((page) => page.split('\n'))
    .filter(
      (line) =>
        line.startsWith(series) && (series.includes('{') || ' {'.includes(line.charAt(series.length))),
    )
    .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
}

export function arrangementOf(arrangement: ReplicaOptions['arrangement'] = 'single'): Arrangement {
  if (arrangement !== 'both') return arrangement;
  const wanted = process.env.GATEHOUSE_ARRANGEMENT ?? (testsSandbox() ? 'single' : 'split');
  if (wanted !== 'split' && wanted !== 'single') throw new Error(`GATEHOUSE_ARRANGEMENT cannot be ${wanted}`);
  return wanted;
}

type Process = Awaited<ReturnType<typeof startProcess>>;

async function startProcess(
  plane: Plane,
  { name, port, servicePort, settings = {}, main = MAIN, nodeArgs = [], env = {} }: ReplicaOptions,
  command: keyof typeof PROCESSES,
) {
  const operationsPort = await freePort();
  const all: Partial<Record<SettingName, string>> = {
    kubeconfig: plane.kubeconfig(PROCESSES[command]),
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
  const flags = [...settingsOf(command)].flatMap((name) =>
    all[name] === undefined ? [] : [`--${name}`, all[name]],
  );
  const program = startProgram(process.execPath, [...nodeArgs, main, command, ...flags], {
    logFile: join(plane.folder, `${name}.log`),
    env: { ...process.env, ...env },
  });
  return { program, operationsPort };
}

function combine(name: string, port: number, processes: readonly Process[]) {
  const program = together(processes.map((one) => one.program));
  const get = async (path: string) => {
    const responses = await Promise.all(
      processes.map(({ operationsPort }) => fetch(`http://127.0.0.1:${operationsPort}${path}`)),
    );
    const texts = await Promise.all(responses.map((response) => response.text()));
    return { ok: responses.every(({ ok }) => ok), text: texts.join('') };
  };
  return {
    name,
    /** All processes of the replica, as one. They share a log file. */
    program,
    port,
    operationsPort: processes[0]?.operationsPort ?? 0,
    readyz: () => get('/readyz?verbose'),
    /** Of all processes. The process that can lead comes first. */
    metrics: async () => (await get('/metrics')).text,
    /** Resolves when the replica is ready. @throws Error with its last problem after `timeoutMs` */
    whenReady: async (timeoutMs = 60_000) => {
      const isRunning = () => processes.every((one) => one.program.isRunning());
      const isReady = async () => {
        const { ok, text } = await get('/readyz');
        if (!ok) throw new Error(text);
        return true;
      };
      await ready(name, { ...program, isRunning }, isReady, { timeoutMs, everyMs: 25 });
    },
  };
}

function together(programs: readonly Program[]): Program {
  const [first] = programs;
  if (first === undefined) throw new Error('a replica has at least one process');
  return {
    ...first,
    exited: Promise.all(programs.map(({ exited }) => exited)).then(
      (results) => results.find(({ code }) => code !== 0) ?? { code: 0, signal: null },
    ),
    isRunning: () => programs.some((one) => one.isRunning()),
    kill: (signal) => {
      for (const one of programs) one.kill(signal);
    },
    stop: async (graceMs) => {
      await Promise.all(programs.map((one) => one.stop(graceMs)));
    },
  };
}
