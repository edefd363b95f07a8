/** The processes that the benchmark of controllers compares: `gatehouse controllers`, and a manager of controller-runtime. */
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

import type { Cluster } from '../../test/support/cluster.ts';
import { startReplica } from '../../test/support/gatehouse.ts';
import { parseManifests } from '../../test/support/kustomization.ts';
import { MAIN } from '../../test/support/main-module.ts';
import { eventually, freePort, startProgram } from '../../test/support/processes.ts';
import type { Scenario } from './controllers-scene.ts';

const ROOT = join(import.meta.dirname, '..', '..');
/** They do what the Go originals do, so that the requests are comparable: `deploy/examples` does more. */
export const TUTORIALS = join(import.meta.dirname, 'tutorials');
const run = promisify(execFile);
/** As deploy/Dockerfile starts it. */
const IMAGE_FLAGS = ['--disable-sigusr1', '--max-semi-space-size=8'];
/** The default of ours. That of controller-runtime is 1. */
const CONCURRENCY = 4;

export interface Side {
  readonly name: 'ours' | 'Go';
  /** Prepares the cluster. */
  readonly prepare: (cluster: Cluster, scenario: Scenario) => Promise<unknown>;
  readonly start: (cluster: Cluster, scenario: Scenario, service: string) => Promise<Started>;
  /** Its name in the metrics. */
  readonly controllerOf: (scenario: Scenario) => string;
  readonly isOurs: (request: {
    readonly userAgent?: string;
    readonly user: { readonly username: string };
  }) => boolean;
}

export interface Started {
  readonly pid: number;
  readonly metrics: () => Promise<string>;
  readonly stop: () => Promise<void>;
}

const handlersOf = ({ plane }: Cluster): string => join(plane.folder, 'controllers');

const ours: Side = {
  name: 'ours',
  prepare: async (cluster, { name }) => {
    const folder = handlersOf(cluster);
    cpSync(join(TUTORIALS, name, 'controllers'), folder, { recursive: true });
    const module = join(folder, `${name}.ts`);
    // As users import it. The import of the sources gives this repository's checks the types.
    const code = readFileSync(module, 'utf8').replace(/'[./]+src\/index\.ts'/, "'@gatehouse-dev/gatehouse'");
    writeFileSync(module, code);
    const { stdout } = await run(process.execPath, [MAIN, 'manifests', '--handlers', folder]);
    await cluster.apply(...parseManifests(stdout));
  },
  start: async (cluster, _scenario, service) => {
    const replica = await startReplica(cluster.plane, {
      name: 'bench',
      only: 'controllers',
      nodeArgs: IMAGE_FLAGS,
      settings: { handlers: handlersOf(cluster) },
      env: { BUCKETS_URL: service },
    });
    await replica.whenReady();
    return { pid: replica.program.pid, metrics: replica.metrics, stop: () => replica.program.stop(30_000) };
  },
  controllerOf: ({ name }) => name,
  isOurs: ({ user }) => user.username.startsWith('system:serviceaccount:gatehouse-system:'),
};

const GO_MODULE = join(ROOT, 'test', 'go', 'controllers');

/** Without Go's cache, the first build takes minutes. */
async function built(folder: string): Promise<void> {
  const program = join(folder, 'manager');
  const args = [
    '-C',
    GO_MODULE,
    'build',
    '-trimpath',
    '-buildvcs=false',
    '-ldflags',
    '-s -w',
    '-o',
    program,
    '.',
  ];
  await run('go', args, { env: { ...process.env, CGO_ENABLED: '0', GOFLAGS: '', GOWORK: 'off' } });
}

const go: Side = {
  name: 'Go',
  prepare: ({ plane }) => built(plane.folder),
  start: async ({ plane }, { name }, service) => {
    const port = await freePort();
    const program = startProgram(
      join(plane.folder, 'manager'),
      [
        `--controller=${name}`,
        `--concurrency=${CONCURRENCY}`,
        `--metrics-bind-address=127.0.0.1:${port}`,
        `--service=${service}`,
        `--kubeconfig=${plane.kubeconfig('admin')}`,
      ],
      { logFile: join(plane.folder, 'go.log') },
    );
    const metrics = async () => await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    await eventually('the manager serves its metrics', async () => (await metrics()) !== '', {
      timeoutMs: 60_000,
    });
    return { pid: program.pid, metrics, stop: () => program.stop(30_000) };
  },
  controllerOf: ({ resource }) => resource.kind.toLowerCase(),
  isOurs: ({ userAgent = '' }) => userAgent.startsWith('manager/'),
};

export const SIDES: readonly Side[] = [ours, go];

const PAGE_TICKS = 100;

/** From /proc: bytes and seconds. `peak` is since the process started. */
export function useOf(pid: number) {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const kib = (field: string) => Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0);
  // The command in parentheses may have spaces.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return {
    rss: kib('VmRSS') * 1_024,
    peak: kib('VmHWM') * 1_024,
    cpu: (Number(fields[11]) + Number(fields[12])) / PAGE_TICKS,
  };
}

const isCode = (line: string): boolean => {
  const text = line.trim();
  return text !== '' && !/^(\/\/|\/\*|\*)/.test(text);
};
const codeIn = (path: string): number => readFileSync(path, 'utf8').split('\n').filter(isCode).length;
const filesIn = (folder: string): readonly string[] =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((one) => join(folder, one));

/** Lines that are neither empty nor only a comment, without tests. */
export function linesOf({ name }: Scenario) {
  const { dir, file } = {
    memcacheds: { dir: 'cache', file: 'memcached' },
    buckets: { dir: 'storage', file: 'bucket' },
    cronjobs: { dir: 'batch', file: 'cronjob' },
  }[name];
  const sum = (paths: readonly string[]) => paths.reduce((total, path) => total + codeIn(path), 0);
  const api = filesIn(join(GO_MODULE, 'api', dir)).filter((one) => one.endsWith('.go'));
  const own = sum([
    join(GO_MODULE, 'internal', `${file}_controller.go`),
    ...api.filter((one) => !one.includes('zz_')),
  ]);
  const generated = sum(api.filter((one) => one.includes('zz_')));
  const typescript = filesIn(join(TUTORIALS, name, 'controllers'));
  return {
    ours: sum(typescript.filter((one) => one.endsWith('.ts') && !one.endsWith('.test.ts'))),
    go: own,
    goWithGenerated: own + generated + codeIn(join(GO_MODULE, 'main.go')),
  };
}
