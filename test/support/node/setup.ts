/** Vitest's global setup of test/cluster: the programs of a node and the images of its pods, which take longer than a test may. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { programFolder } from '../go-programs.ts';
import { buildImage, packPause } from './image.ts';
import { removeDeadNodes } from './node.ts';

export const GATEHOUSE_IMAGE = 'docker.io/library/gatehouse:0.1.0';

export const NODE_PREFIX = 'gatehouse-node-';

const IMAGES_VARIABLE = 'GATEHOUSE_TEST_IMAGES';

/** The archives of the images. @throws Error outside of test/cluster */
export function imageArchives(): readonly string[] {
  const folder = process.env[IMAGES_VARIABLE];
  if (folder === undefined) throw new Error('the images are built by the setup of `npm run test:cluster`');
  return ['pause.tar', 'gatehouse.tar'].map((name) => join(folder, name));
}

export async function setup(): Promise<() => void> {
  removeDeadNodes(tmpdir(), NODE_PREFIX);
  for (const name of ['newest', 'node', 'tools'] as const) await programFolder(name);
  if (process.env[IMAGES_VARIABLE] !== undefined) return () => undefined; // of an earlier run
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-images-'));
  process.env[IMAGES_VARIABLE] = folder; // workers inherit it
  const [pause = '', gatehouse = ''] = imageArchives();
  await packPause(pause);
  await buildImage(GATEHOUSE_IMAGE, gatehouse);
  return () => rmSync(folder, { recursive: true, force: true });
}
