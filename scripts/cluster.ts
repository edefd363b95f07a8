/**
 * A cluster of one node with real pods, for trials and for the suites of test/cluster:
 *
 *     npm run cluster -- start             until it is ready; prints how to use it
 *     npm run cluster -- load IMAGE        an archive, or `gatehouse` for the image of this checkout
 *     npm run cluster -- kubectl get pods
 *     npm run cluster -- stop              leaves nothing behind
 *
 * Needs Linux, root, Go 1.26, and the Debian packages of `install-test-tools.sh`. It changes no interface of the machine and
 * reaches no address outside.
 */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

import { programFolder } from '../test/support/go-programs.ts';
import { buildImage, packPause } from '../test/support/node/image.ts';
import type { NodePrograms } from '../test/support/node/node-files.ts';
import { removeNode, startNode } from '../test/support/node/node.ts';
import { GATEHOUSE_IMAGE } from '../test/support/node/setup.ts';
import { eventually, tail } from '../test/support/processes.ts';

const CACHE = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'gatehouse');
/** A test sets another folder, so that it leaves the cluster of a developer alone. */
const FOLDER = process.env.GATEHOUSE_CLUSTER_FOLDER ?? join(CACHE, 'cluster');
const LOG = `${FOLDER}.log`;
/** Has the id of the process that holds the cluster. */
const HOLDER = `${FOLDER}.pid`;

const programs = async (): Promise<NodePrograms> => ({
  controlPlane: await programFolder('newest'),
  node: await programFolder('node'),
});

const isRunning = (): boolean => {
  try {
    process.kill(Number(readFileSync(HOLDER, 'utf8')), 0);
    return true;
  } catch {
    return false;
  }
};

async function start(): Promise<void> {
  if (isRunning()) throw new Error('the cluster runs already: npm run cluster -- stop');
  removeNode(FOLDER);
  mkdirSync(CACHE, { recursive: true });
  await programs();
  const log = openSync(LOG, 'w');
  const holder = spawn(process.execPath, [import.meta.filename, 'hold'], {
    detached: true,
    stdio: ['ignore', log, log],
  });
  holder.unref();
  writeFileSync(HOLDER, String(holder.pid));
  await eventually(
    'the cluster is ready',
    () => {
      if (holder.exitCode !== null || !isRunning()) throw new Error(`it ended:\n${tail(LOG)}`);
      return readFileSync(LOG, 'utf8').includes('ready\n');
    },
    { timeoutMs: 120_000 },
  );
  console.log(`export KUBECONFIG=${join(FOLDER, 'admin.kubeconfig')}`);
}

/** The process that the cluster ends with. */
async function hold(): Promise<void> {
  mkdirSync(FOLDER, { recursive: true });
  const pause = join(CACHE, 'pause.tar');
  await packPause(pause);
  const node = await startNode(FOLDER, await programs(), [pause]);
  console.log('ready');
  await new Promise((resolve) => {
    process.once('SIGTERM', resolve).once('SIGINT', resolve);
  });
  await node.stop();
  process.exit(0);
}

async function stop(): Promise<void> {
  if (isRunning()) process.kill(Number(readFileSync(HOLDER, 'utf8')), 'SIGTERM');
  await eventually('the cluster has ended', () => !isRunning());
  removeNode(FOLDER);
  rmSync(HOLDER, { force: true });
}

async function load(image: string): Promise<void> {
  let archive = image;
  if (image === 'gatehouse') {
    archive = join(CACHE, 'gatehouse.tar');
    await buildImage(GATEHOUSE_IMAGE, archive);
  }
  if (!existsSync(archive)) throw new Error(`there is no archive ${archive}: give one, or gatehouse`);
  const pid = readFileSync(join(FOLDER, 'init.pid'), 'utf8');
  const ctr = join((await programs()).node, 'ctr');
  const words = ['-a', '/run/containerd/containerd.sock', '-n', 'k8s.io', 'images', 'import', archive];
  run('nsenter', ['--target', pid, '--mount', '--', ctr, ...words]);
}

async function kubectl(words: readonly string[]): Promise<void> {
  const { controlPlane } = await programs();
  run(join(controlPlane, 'kubectl'), ['--kubeconfig', join(FOLDER, 'admin.kubeconfig'), ...words]);
}

function run(command: string, words: readonly string[]): void {
  const { status } = spawnSync(command, words, { stdio: 'inherit' });
  process.exitCode = status ?? 1;
}

const [command, ...words] = process.argv.slice(2);
switch (command) {
  case 'start':
    await start();
    break;
  case 'hold':
    await hold();
    break;
  case 'stop':
    await stop();
    break;
  case 'load':
    await load(words[0] ?? '');
    break;
  case 'kubectl':
    await kubectl(words);
    break;
  case undefined:
  default:
    console.error('give start, stop, load or kubectl: scripts/cluster.ts says what they do');
    process.exitCode = 2;
}
