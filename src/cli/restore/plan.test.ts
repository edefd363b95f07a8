import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';

import { readBackup } from './plan.ts';

let folder = '';

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'gatehouse-plan-'));
});

afterEach(() => {
  rmSync(folder, { recursive: true });
});

function put(path: string, apiVersion: string, kind: string, metadata: object): void {
  const file = join(folder, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, JSON.stringify({ apiVersion, kind, metadata }));
}

test('each object of a backup is read once, with the resource that its folder names', () => {
  const db = { namespace: 'shop', name: 'db' };
  put('resources/servers.infra.example.com/namespaces/shop/db.json', 'infra.example.com/v1', 'Server', db);
  put(
    'resources/servers.infra.example.com/v2-preferredversion/namespaces/shop/db.json',
    'infra.example.com/v2',
    'Server',
    db,
  );
  put('resources/namespaces/cluster/shop.json', 'v1', 'Namespace', { name: 'shop' });
  put('metadata/version/ignored.json', 'v1', 'ConfigMap', { name: 'ignored' });
  expect(
    readBackup(folder).map(({ resource, object }) => [resource, object.apiVersion, object.metadata?.name]),
  ).toEqual([
    [{ group: '', resource: 'namespaces' }, 'v1', 'shop'],
    [{ group: 'infra.example.com', resource: 'servers' }, 'infra.example.com/v1', 'db'],
  ]);
});

test('a folder without resources is not a backup', () => {
  expect(() => readBackup(folder)).toThrow('unpack the backup');
});
