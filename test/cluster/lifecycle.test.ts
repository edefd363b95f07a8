/** Upgrade and removal while clients write, with the commands of docs/installing.md and by every shorter way. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { programFolder } from '../support/go-programs.ts';
import { eventually } from '../support/processes.ts';
import {
  startGovernedLoad,
  GOVERNED_NAMESPACE,
  type GovernedLoad,
  type Row,
} from '../support/node/governed-load.ts';
import {
  CHART,
  applyAndWait,
  govern,
  helm,
  leftSince,
  objectsOf,
  rolledOut,
  startPodNode,
  SYSTEM,
} from '../support/node/installed.ts';
import type { NodeCluster } from '../support/node/node.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '..', '..');

let node: NodeCluster;
let load: GovernedLoad;
let before: ReadonlySet<string>;

beforeAll(async () => {
  node = await startPodNode();
  before = await objectsOf(node);
  load = startGovernedLoad(node);
});
afterAll(async () => {
  load.print();
  await load.stop();
  await node.stop();
});

/** The shell commands of a section of docs/installing.md that say these words. */
function documented(section: string, words: string): string {
  const page = readFileSync(join(ROOT, 'docs', 'installing.md'), 'utf8');
  const text = page.split(/^## /m).find((part) => part.startsWith(`${section}\n`)) ?? '';
  const blocks = [...text.matchAll(/```sh\n(.*?)```/gs)].map(([, block = '']) => block);
  const found = blocks.find((block) => block.includes(words));
  if (found === undefined) throw new Error(`docs/installing.md, "${section}": no commands with ${words}`);
  return found.replaceAll(/^ {3}/gm, '').replaceAll(/^gatehouse .*$/gm, '');
}

async function shell(commands: string): Promise<void> {
  const PATH = `${await programFolder('newest')}:${process.env.PATH ?? ''}`;
  const env = { ...process.env, PATH, KUBECONFIG: node.kubeconfig('admin') };
  await run('bash', ['-euc', commands], { cwd: ROOT, env });
}

/** Nothing was decided wrongly, and at the end everything passes. */
async function holdsRemoved(row: Row, { dark }: { readonly dark: number }): Promise<void> {
  const said = row.troubles.join('\n');
  expect(row.wrong, said).toBe(0);
  expect(row.dark, said).toBeLessThanOrEqual(dark);
  await writeFreely();
}

const writeFreely = async (): Promise<true> => {
  await node.kubectl('-n', GOVERNED_NAMESPACE, 'create', 'configmap', 'free', '--dry-run=server');
  return true;
};

it('one Deployment becomes two, as documented, and no write fails', async () => {
  await applyAndWait(node, '-k', 'deploy/overlays/single');
  await govern(node);
  const row = await load.during('one Deployment becomes two', async () => {
    await shell(documented('From one Deployment to two', 'overlays/from-single'));
    await shell(documented('From one Deployment to two', 'rollout status'));
    await shell(documented('From one Deployment to two', 'delete deployment'));
    await rolledOut(node);
  });
  expect(row.wrong, row.troubles.join('\n')).toBe(0);
  expect(row.failed, row.troubles.join('\n')).toBe(0);
}, 400_000);

it('the documented removal fails no write and leaves nothing', async () => {
  const remove = () => shell(documented('Remove Gatehouse', 'delete -k deploy'));
  const row = await load.during('removal as documented', remove, 'either');
  expect(row.failed, row.troubles.join('\n')).toBe(0);
  await holdsRemoved(row, { dark: 3 });
  await node.kubectl('delete', 'namespace', GOVERNED_NAMESPACE);
  expect(await leftSince(node, before)).toEqual([]);
});

describe('a removal by any other way does not refuse governed writes for ever', () => {
  beforeEach(async () => {
    await helm(node, 'upgrade', '--install', 'gatehouse', CHART, '--create-namespace', '--wait');
    await govern(node);
  });
  afterEach(async () => {
    await helm(node, 'uninstall', 'gatehouse', '--ignore-not-found').catch(() => undefined);
    await node.kubectl('delete', '-k', 'deploy', '--ignore-not-found');
  });

  /** The seconds without service until the configurations are also gone. A namespace first waits until its pods end. */
  const ways: readonly (readonly [way: string, dark: number, remove: () => Promise<unknown>])[] = [
    ['helm uninstall', 15, () => helm(node, 'uninstall', 'gatehouse')],
    ['kubectl delete -k deploy', 15, () => node.kubectl('delete', '-k', 'deploy', '--ignore-not-found')],
    ['kubectl delete namespace', 60, () => node.kubectl('delete', 'namespace', SYSTEM)],
  ];
  it.each(ways)('%s', async (way, dark, remove) => {
    const row = await load.during(
      way,
      async () => {
        await remove();
        await eventually('a write without owner passes', writeFreely);
      },
      'either',
    );
    await holdsRemoved(row, { dark });
    const left = await leftSince(node, before);
    expect(left.filter((line) => line.includes('WebhookConfiguration'))).toEqual([]);
  });
});
