/**
 * A Kubernetes cluster of one node with real pods, in separate process, mount and network namespaces. When their
 * first process ends, the kernel ends all others. It ends with the one that started it, even by SIGKILL.
 */
import { execFile } from 'node:child_process';
import {
  existsSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { caOf, get, readVersion, ready } from '../control-plane-site.ts';
import { writeKubeconfigs } from '../control-plane-users.ts';
import { readAuditLog, type ControlPlane } from '../control-plane.ts';
import { eventually, startProgram, tail, type Program } from '../processes.ts';
import { listen } from '../tls.ts';
import {
  commandsOf,
  createNodeSite,
  FORWARDER,
  hasApiServerStarted,
  initScript,
  NODE_NAME,
  writeStartFiles,
  type NodeOptions,
  type NodePrograms,
  type NodeSite,
  type PartName,
} from './node-files.ts';

const run = promisify(execFile);
const CGROUPS = '/sys/fs/cgroup';

export type NodeCluster = Awaited<ReturnType<typeof startNode>>;

/** Starts a cluster in this empty folder. Resolves when its node is ready. @param images archives for its pods */
export async function startNode(
  folder: string,
  programs: NodePrograms,
  images: readonly string[],
  options: NodeOptions = {},
) {
  const site = createNodeSite(folder);
  const cgroup = `/gatehouse-node-${process.pid}-${Date.now().toString(36)}`;
  writeFileSync(join(folder, 'cgroup'), cgroup);
  const machine = createMachine(site, cgroup, commandsOf(folder, programs, options));
  const door = await openDoor(join(folder, 'api-server.sock'));
  const server = `https://localhost:${door.port}`;
  const isReady = async () => (await get(`${server}/readyz`, caOf({ folder }))).status === 200;
  const { tokens } = site;

  /** Runs a command in the node: its network, its processes, its mounts. Returns what it prints. */
  const inNode = async (command: string, ...args: readonly string[]) =>
    (await run('nsenter', [...machine.enter(), command, ...args], { maxBuffer: 64 * 2 ** 20 })).stdout;
  const load = async (archive: string) => {
    const ctr = join(programs.node, 'ctr');
    await inNode(ctr, '-a', '/run/containerd/containerd.sock', '-n', 'k8s.io', 'images', 'import', archive);
  };
  const say = async (args: readonly string[], input = '') => {
    const flags = ['--kubeconfig', join(folder, 'admin.kubeconfig'), '--cache-dir', join(folder, 'kubectl')];
    const running = run(join(programs.controlPlane, 'kubectl'), [...flags, ...args], {
      maxBuffer: 64 * 2 ** 20,
    });
    running.child.stdin?.end(input);
    return (await running).stdout;
  };
  const kubectl = async (...args: readonly string[]) => await say(args);
  /** In the namespace of Gatehouse. */
  const inSystem = async (...args: readonly string[]) => await say(['-n', 'gatehouse-system', ...args]);
  const apply = async (objects: object | readonly object[], ...flags: readonly string[]) => {
    const list = { apiVersion: 'v1', kind: 'List', items: [objects].flat() };
    await say(['apply', ...flags, '-f', '-'], JSON.stringify(list));
  };

  const boot = async (loaded: readonly string[]) => {
    const bootedAt = Math.floor(Date.now() / 1_000) * 1_000; // Kubernetes has whole seconds
    await machine.boot();
    writeStartFiles(site, programs, cgroup);
    for (const part of ['etcd', 'containerd', 'kube-apiserver'] as const) machine.launch(part);
    await machine.until('kube-apiserver', () => hasApiServerStarted(folder));
    await machine.until('kube-apiserver', isReady);
    writeStartFiles(site, programs, cgroup);
    writeKubeconfigs(folder, server, caOf({ folder }), tokens);
    machine.launch('kube-controller-manager');
    machine.launch('kube-scheduler');
    await machine.until('containerd', () =>
      inNode('test', '-S', '/run/containerd/containerd.sock').then(() => true),
    );
    for (const image of loaded) await load(image);
    machine.launch('kubelet');
    machine.launch('kube-proxy');
    await machine.until('kubelet', async () => {
      const path = '{range .status.conditions[?(@.type=="Ready")]}{.status} {.lastHeartbeatTime}{end}';
      const said = await kubectl('get', 'node', NODE_NAME, '-o', `jsonpath=${path}`);
      const [status, heartbeat = ''] = said.split(' ');
      return status === 'True' && Date.parse(heartbeat) >= bootedAt; // what it said before a reboot does not count
    });
    // Until it exists, `kubectl run` fails in the namespace `default`.
    await machine.until('kube-controller-manager', () =>
      kubectl('get', 'serviceaccount', 'default').then(() => true),
    );
    if (options.enforcesNetworkPolicies !== true) return;
    machine.launch('network-policies'); // it looks for its node when it starts
    await machine.until('network-policies', () => machine.logOf('network-policies').includes('enforcing'));
  };

  const stop = async () => {
    await machine.powerOff();
    door.close();
    removeNode(folder);
  };

  try {
    await boot(images);
    const ca = caOf({ folder });
    const plane: ControlPlane = {
      server,
      ca,
      folder,
      contents: 'empty',
      processes: undefined,
      stop,
      version: await readVersion(server, ca, tokens.admin),
      token: (user) => tokens[user],
      kubeconfig: (user) => join(folder, `${user}.kubeconfig`),
      auditLog: () => readAuditLog(join(folder, 'audit.log')),
    };
    return {
      ...plane,
      kill: machine.kill,
      launch: machine.launch,
      /** Sends a signal, such as SIGSTOP, to a process of a pod, by its id in the node. */
      signal: machine.signal,
      /** A power failure: all processes and pods end, and the disk remains. Resolves when the node is ready again. */
      reboot: async () => {
        await machine.powerOff();
        removeCgroups(cgroup); // the kubelet waits three seconds for each container that it finds in them
        await boot([]);
      },
      inNode,
      load,
      kubectl,
      inSystem,
      apply,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

function createMachine(
  { folder }: NodeSite,
  cgroup: string,
  commands: Readonly<Record<PartName, readonly string[]>>,
) {
  const parts = new Map<PartName, Program>();
  let init: Program | undefined;
  let initPid = 0;

  const enter = (...namespaces: readonly string[]): readonly string[] => {
    const entered = namespaces.length === 0 ? ['--mount', '--net', '--pid'] : namespaces;
    return ['--target', String(initPid), ...entered, '--'];
  };
  const logOf = (name: string) => join(folder, 'logs', `${name}.log`);
  const start = (name: string, command: readonly string[], entered = enter()) =>
    startProgram('nsenter', [...entered, ...command], {
      logFile: logOf(name),
      cwd: folder,
      env: { ...process.env, GOGC: '200', PATH: `/usr/local/sbin:/usr/sbin:/sbin:${process.env.PATH ?? ''}` },
    });
  const launch = (part: PartName) => parts.set(part, start(part, commands[part]));
  const pidOf = async (part: PartName): Promise<number> => {
    const { pid } = parts.get(part) ?? {};
    if (pid === undefined) throw new Error(`${part} was not started`);
    return await eventually(`the process of ${part}`, () => childOf(pid));
  };

  return {
    enter,
    launch,
    logOf: (part: PartName) => readFileSync(logOf(part), 'utf8'),
    boot: async () => {
      const booted = join(folder, 'booted');
      rmSync(booted, { force: true });
      const namespaces = ['--mount', '--net', '--pid', '--fork', '--kill-child', '--mount-proc'];
      const script = initScript(folder, cgroup);
      init = startProgram('unshare', [...namespaces, 'bash', '-c', script], { logFile: logOf('init') });
      await ready('the node', init, () => existsSync(booted));
      const child = childOf(init.pid);
      if (child === undefined) throw new Error(`the node lacks its first process:\n${tail(init.logFile)}`);
      initPid = child;
      writeFileSync(join(folder, 'init.pid'), String(initPid));
      const socket = join(folder, 'api-server.sock');
      rmSync(socket, { force: true });
      start('forwarder', [process.execPath, '-e', FORWARDER, socket], enter('--net'));
    },
    until: async (part: PartName, probe: () => Promise<boolean> | boolean) => {
      const program = parts.get(part);
      if (program === undefined) throw new Error(`${part} was not started`);
      await ready(part, program, probe);
    },
    kill: async (part: PartName) => {
      const program = parts.get(part);
      process.kill(await pidOf(part), 'SIGKILL');
      await program?.exited;
    },
    signal: async (pid: number, signal: NodeJS.Signals) => {
      await run('nsenter', [...enter(), 'kill', `-${signal.slice(3)}`, String(pid)]);
    },
    powerOff: async () => {
      init?.kill('SIGKILL');
      await Promise.all([init?.exited, ...[...parts.values()].map(({ exited }) => exited)]);
      parts.clear();
    },
  };
}

/** The child in another process namespace. Each program has a second child, which ends it with this process. */
function childOf(pid: number): number | undefined {
  const own = readlinkSync('/proc/self/ns/pid');
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
    .split(' ')
    .filter((child) => child !== '')
    .map(Number)
    .find((child) => readlinkSync(`/proc/${child}/ns/pid`) !== own);
}

async function openDoor(socket: string): Promise<{ readonly port: number; readonly close: () => void }> {
  const server: Server = createServer((outside) => {
    const inside = connect(socket);
    for (const [from, to] of [
      [outside, inside],
      [inside, outside],
    ] as const) {
      from.pipe(to);
      from.on('error', () => to.destroy()).on('close', () => to.destroy());
    }
  });
  const port = await listen(server);
  server.unref();
  return { port, close: () => server.close() };
}

/** Removes what a node that has ended left behind: its folder and its empty cgroups. */
export function removeNode(folder: string): void {
  const named = join(folder, 'cgroup');
  if (existsSync(named)) removeCgroups(readFileSync(named, 'utf8'));
  rmSync(folder, { recursive: true, force: true });
}

/** Removes what killed runs left behind of nodes in the folders with this prefix. */
export function removeDeadNodes(parent: string, prefix: string): void {
  for (const name of readdirSync(parent).filter((one) => one.startsWith(prefix))) {
    const folder = join(parent, name);
    // Another test may have made it a moment ago.
    if (existsSync(join(folder, 'init.pid')) && !isAlive(folder)) removeNode(folder);
  }
}

/** The command line of the first process contains the folder; another process may have got its id. */
function isAlive(folder: string): boolean {
  try {
    const pid = readFileSync(join(folder, 'init.pid'), 'utf8');
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(folder);
  } catch {
    return false;
  }
}

function removeCgroups(cgroup: string): void {
  const remove = (folder: string): void => {
    for (const entry of readdirSync(folder, { withFileTypes: true }))
      if (entry.isDirectory()) remove(join(folder, entry.name));
    removeReleased(folder);
  };
  for (const hierarchy of readdirSync(CGROUPS)) {
    const folder = join(CGROUPS, hierarchy, cgroup);
    if (existsSync(folder)) remove(folder);
  }
}

/** The kernel keeps a cgroup for a moment after the end of its last process. */
function removeReleased(cgroup: string, attempts = 100): void {
  try {
    rmdirSync(cgroup);
  } catch (error) {
    if (attempts === 0 || (error as NodeJS.ErrnoException).code !== 'EBUSY') throw error;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
    removeReleased(cgroup, attempts - 1);
  }
}
