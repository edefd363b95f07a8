import {
  createReadStream,
  createWriteStream,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip, gzipSync } from 'node:zlib';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { pack, type Pack } from 'tar-stream';

import { textIn } from '../../json/json.ts';
import { BACKUP_LIMITS } from '../../restore/backup/backup.ts';
import { isVeleroBackup, newestBackup, readBackup } from './backup.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'gatehouse-backup-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true });
});

const objectText = (kind: string, metadata: object, version = 'v1') =>
  JSON.stringify({ apiVersion: `example.com/${version}`, kind, metadata });
const server = (name: string, version?: string) => objectText('Server', { namespace: 'shop', name }, version);
const path = (name: string, version = '') =>
  `resources/servers.example.com${version}/namespaces/shop/${name}.json`;

const FILES: Readonly<Record<string, string>> = {
  'metadata/version': '1.1.0\n',
  [path('db')]: server('db'),
  [path('db', '/v1-preferredversion')]: server('db'),
  [path('db', '/v1beta1')]: server('db', 'v1beta1'),
  [path('only', '/v1-preferredversion')]: server('only'),
  'resources/zones.example.com/cluster/red.json': objectText('Zone', { name: 'red' }),
  'velero-backup.json': '{}',
};

async function uncompressed(
  files: Readonly<Record<string, string>>,
  ...others: readonly Parameters<Pack['entry']>[0][]
): Promise<string> {
  const file = join(folder, 'backup.tar');
  const tar = pack();
  for (const header of others) tar.entry(header);
  for (const [name, content] of Object.entries(files)) tar.entry({ name }, content);
  tar.finalize();
  await pipeline(tar, createWriteStream(file));
  return file;
}

async function archive(...parts: Parameters<typeof uncompressed>): Promise<string> {
  const file = await uncompressed(...parts);
  await pipeline(createReadStream(file), createGzip(), createWriteStream(`${file}.gz`));
  return `${file}.gz`;
}

const write = (name: string, text: string): string => {
  const path = join(folder, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  return path;
};
function unpacked(files: Readonly<Record<string, string>>): string {
  for (const [name, content] of Object.entries(files)) write(name, content);
  return folder;
}

const found = async (at: string) => {
  const { format, items } = await readBackup(at);
  return [
    format,
    ...items
      .map(({ resource, namespace = '', name, object }) =>
        [`${resource.resource}.${resource.group}`, namespace, name, textIn(object, 'apiVersion')].join(' '),
      )
      .sort(),
  ];
};

const EXPECTED = [
  '1.1.0',
  'servers.example.com shop db example.com/v1',
  'servers.example.com shop only example.com/v1',
  'zones.example.com  red example.com/v1',
];

describe('a Velero backup', () => {
  test.each([
    ['its archive', archive],
    ['an archive that is not compressed', uncompressed],
    ['its unpacked folder', unpacked],
  ])('is read from %s: each object once, in the version that Velero restores', async (_from, make) => {
    const path = await make(FILES);
    expect(isVeleroBackup(path)).toBe(true);
    expect(await found(path)).toEqual(EXPECTED);
  });
  test('is read with a path longer than 100 characters', async () => {
    const name = 'x'.repeat(200);
    expect(await found(await archive({ ...FILES, [path(name)]: server(name) }))).toContain(
      `servers.example.com shop ${name} example.com/v1`,
    );
  });
});

describe('a backup is refused', () => {
  test.each([
    ['without a version', { [path('db')]: server('db') }, 'metadata/version is missing'],
    ['of another format', { ...FILES, 'metadata/version': '2.0' }, 'format version "2.0" is not supported'],
    ['with a path that leaves it', { ...FILES, '../evil.json': '{}' }, 'outside the backup'],
    ['with an absolute path', { ...FILES, '/etc/passwd': '{}' }, 'outside the backup'],
    ['with invalid JSON', { ...FILES, [path('bad')]: '{' }, 'bad.json: '],
    ['with something else than an object', { ...FILES, [path('bad')]: '[]' }, 'not a Kubernetes object'],
    ['with deep JSON', { ...FILES, [path('deep')]: '['.repeat(2e6) + ']'.repeat(2e6) }, 'deep.json: '],
    ['with an object under another name', { ...FILES, [path('bad')]: server('db') }, 'must match the path'],
    ['with a path that occurs twice', { ...FILES, [`./${path('db')}`]: server('db') }, 'occurs twice'],
  ])('%s', async (_what, files, message) => {
    await expect(readBackup(await archive(files))).rejects.toThrow(message);
  });
  test.each(['link', 'symlink'] as const)('with a %s in its archive', async (type) => {
    const file = await archive(FILES, { name: path('evil'), type, linkname: '/etc/passwd' });
    await expect(readBackup(file)).rejects.toThrow('it is a link');
  });
  test('with an error that quotes the file without control characters', async () => {
    const file = await archive({ ...FILES, [path('bad')]: '\u001b[31mred\nnext' });
    await expect(readBackup(file)).rejects.toThrow(/^[^\p{Cc}]+$/u);
  });
  test('with a link in its folder', async () => {
    unpacked(FILES);
    symlinkSync('/etc', join(folder, 'resources', 'evil'));
    await expect(readBackup(folder)).rejects.toThrow('resources/evil: it is a link');
  });
  test('if its archive is truncated, or does not exist', async () => {
    const file = join(folder, 'cut.tar.gz');
    writeFileSync(file, gzipSync(Buffer.alloc(4096, 'x')).subarray(0, 20));
    await expect(readBackup(file)).rejects.toThrow(/^[^]*cut.tar.gz: unexpected end of file$/);
    await expect(readBackup(join(folder, 'none.tar.gz'))).rejects.toThrow('no such file');
  });
  test.each([
    ['files', 3, 'more than 3 files'],
    ['fileBytes', 60, 'larger than 60 bytes'],
    ['bytes', 2_000, 'larger than 2000 bytes when decompressed'],
  ])('over the limit of %s', async (limit, most, message) => {
    const file = await archive(FILES);
    await expect(readBackup(file, { ...BACKUP_LIMITS, [limit]: most })).rejects.toThrow(message);
  });
  test('over the limit by an extended header alone', async () => {
    const file = await archive({ ...FILES, [path('x'.repeat(100_000))]: '{}' });
    await expect(readBackup(file, { ...BACKUP_LIMITS, bytes: 50_000 })).rejects.toThrow('larger than 50000');
  });
});

const index = (startTimestamp: string, phase: string) =>
  JSON.stringify({ kind: 'Backup', status: { phase, startTimestamp } });

/** Writes the files of a backup as Velero names them. */
function veleroBackup(name: string, startTimestamp: string, phase = 'Completed', under = 'backups'): string {
  write(`${under}/${name}/velero-backup.json`, index(startTimestamp, phase));
  write(`${under}/${name}/${name}-logs.gz`, '');
  return write(`${under}/${name}/${name}.tar.gz`, '');
}

describe('the newest backup', () => {
  test('is the one that Velero started last, regardless of its name and the times of its files', () => {
    const newest = veleroBackup('a', '2026-03-02T01:00:00Z', 'PartiallyFailed');
    utimesSync(newest, 1, 1);
    veleroBackup('b', '2026-03-01T01:00:00Z');
    for (const from of [folder, join(folder, 'backups')])
      expect(newestBackup(from)).toEqual({ path: newest, takenAt: new Date('2026-03-02T01:00:00Z') });
  });

  test.each(['InProgress', 'Failed', 'Deleting', '', 'without an archive'])('is not "%s"', (phase) => {
    const complete = veleroBackup('old', '2026-03-01T01:00:00Z');
    const isWhole = phase !== 'without an archive';
    const newer = veleroBackup('new', '2026-03-02T01:00:00Z', isWhole ? phase : 'Completed');
    if (!isWhole) rmSync(newer);
    expect(newestBackup(folder).path).toBe(complete);
  });
  test('of plain archives is the one that was written last', () => {
    const [first, second] = [write('a.tar.gz', ''), write('b.tar.gz', '')];
    write('c.txt', '');
    utimesSync(first, 2_000, 2_000);
    utimesSync(second, 1_000, 1_000);
    expect(newestBackup(folder)).toEqual({ path: first, takenAt: new Date(2_000_000) });
  });
});

test('an error names the folder without a backup, or the file with a broken index', () => {
  expect(() => newestBackup(folder)).toThrow(`${folder}: there is no backup`);
  expect(() => newestBackup(join(folder, 'none'))).toThrow('no such file');
  veleroBackup('a', '2026-03-02T01:00:00Z');
  const broken = write('backups/b/velero-backup.json', '{');
  write('backups/b/b.tar.gz', '');
  expect(() => newestBackup(folder)).toThrow(`${broken}: `);
});
