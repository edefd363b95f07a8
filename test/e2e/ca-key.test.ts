// suite: shared-plane, sandbox: long
/** The private key of the CA is only where it is used: in the leader, and nowhere outside of its memory. */
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { secrets } from '../../src/kube/well-known.ts';
import { AUTHORITY_SECRET, SERVING_SECRET } from '../../src/pki/annotations.ts';
import { startClusterFor, SYSTEM_NAMESPACE, type Cluster } from '../support/cluster.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import type { SecretObject } from '../support/objects.ts';
import { eventually, freePort } from '../support/processes.ts';
import { fileFolder } from '../support/folder.ts';

const COMMANDS = ['webhook', 'controllers'] as const;
type Command = (typeof COMMANDS)[number];

let cluster: Cluster;
const folder = fileFolder('heap');
let processes: Record<Command, Replica>;
/** The lines of each key in PEM, without those that all keys share. */
let caKey: readonly string[];
let servingKey: readonly string[];

beforeAll(async () => {
  const port = await freePort();
  cluster = await startClusterFor(port);
  for (const command of COMMANDS) mkdirSync(join(folder, command));
  const start = (only: Command) =>
    startReplica(cluster.plane, {
      name: only,
      only,
      port,
      nodeArgs: ['--heapsnapshot-signal=SIGUSR2', `--diagnostic-dir=${join(folder, only)}`],
    });
  const [webhook, controllers] = await Promise.all(COMMANDS.map(start));
  if (webhook === undefined || controllers === undefined) throw new Error('a process is missing');
  processes = { webhook, controllers };
  await Promise.all([webhook.whenReady(), controllers.whenReady()]);
  caKey = await keyLines(AUTHORITY_SECRET, (name) => name.endsWith('.key'));
  servingKey = await keyLines(SERVING_SECRET, (name) => name === 'tls.key');
});
afterAll(() => cluster.stop());

async function keyLines(name: string, isKey: (name: string) => boolean): Promise<readonly string[]> {
  const secret = await cluster.admin.get<SecretObject>(secrets, { namespace: SYSTEM_NAMESPACE, name });
  const [, key = ''] = Object.entries(secret?.data ?? {}).find(([one]) => isKey(one)) ?? [];
  const lines = Buffer.from(key, 'base64').toString().split('\n').slice(2, -2);
  expect(lines.length).toBeGreaterThan(0);
  // The Secret holds the base64 of the PEM. A part of it is the same in each encoding.
  return [...lines, key.slice(key.length / 2, key.length / 2 + 40)];
}

/** The heap of a process as Node writes it: all strings are in it. */
async function heapOf(command: Command): Promise<string> {
  const place = join(folder, command);
  processes[command].program.kill('SIGUSR2');
  return await eventually(`the heap of gatehouse ${command}`, () => {
    const [file] = readdirSync(place);
    const text = file === undefined ? '' : readFileSync(join(place, file), 'utf8');
    return text.trimEnd().endsWith('}') ? text : undefined;
  });
}

const holds = (text: string, key: readonly string[]): boolean => key.some((part) => text.includes(part));

test('the heap of gatehouse webhook holds its serving key, and no part of the key of the CA', async () => {
  const heap = await heapOf('webhook');
  expect(holds(heap, servingKey)).toBe(true);
  expect(holds(heap, caKey)).toBe(false);
});

test('the heap of gatehouse controllers holds it, and neither their logs nor their metrics do', async () => {
  expect(holds(await heapOf('controllers'), caKey)).toBe(true);
  for (const command of COMMANDS) {
    const { program, metrics } = processes[command];
    const shown = [readFileSync(program.logFile, 'utf8'), await metrics()];
    for (const text of shown) {
      expect(text.length).toBeGreaterThan(0);
      for (const key of [caKey, servingKey]) expect(holds(text, key)).toBe(false);
    }
  }
});
