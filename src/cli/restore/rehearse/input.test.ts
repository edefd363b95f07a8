import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';

import { CRDS, rehearsed } from '../../../../test/support/rehearsed-shops.ts';
import { readBackedUp } from './input.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'gatehouse-input-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true });
});

function write(files: Readonly<Record<string, object | string>>): void {
  for (const [name, content] of Object.entries({ 'metadata/version': '1.1.0', ...files })) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), typeof content === 'string' ? content : JSON.stringify(content));
  }
}

const mouse = {
  ...{ apiVersion: 'shop.example.com/v1', kind: 'Mouse' },
  metadata: { namespace: 'east', name: 'm' },
};

test('a kind that the target does not serve has the plural of the backup', async () => {
  write({ 'resources/mice.shop.example.com/namespaces/east/m.json': mouse });
  const { objects } = await readBackedUp(folder);
  const { lines } = await rehearsed({
    read: objects,
    existing: CRDS,
    flags: { includeResources: ['mice'] },
  });
  expect(lines).toEqual([
    'problem NotServed mice.shop.example.com east/m: shop.example.com/v1 Mouse is not served: its CustomResourceDefinition is missing',
  ]);
});
