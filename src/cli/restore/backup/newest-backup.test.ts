import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';

import { newestBackup } from './newest-backup.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'gatehouse-location-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true });
});

const write = (name: string, text: string): string => {
  const path = join(folder, name);
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  return path;
};
const index = (startTimestamp: string, phase: string) =>
  JSON.stringify({ kind: 'Backup', status: { phase, startTimestamp } });

/** Writes the files of a backup as Velero names them. */
function veleroBackup(name: string, startTimestamp: string, phase = 'Completed', under = 'backups'): string {
  write(`${under}/${name}/velero-backup.json`, index(startTimestamp, phase));
  write(`${under}/${name}/${name}-logs.gz`, '');
  return write(`${under}/${name}/${name}.tar.gz`, '');
}

describe('the newest backup', () => {
  test('is the one that Velero started last, whatever its name and the times of its files', () => {
    const newest = veleroBackup('a', '2026-03-02T01:00:00Z', 'PartiallyFailed');
    utimesSync(newest, 1, 1);
    veleroBackup('b', '2026-03-01T01:00:00Z');
    expect(newestBackup(folder)).toEqual({ path: newest, takenAt: new Date('2026-03-02T01:00:00Z') });
  });
  test('is also found from the folder with the backups', () => {
    const only = veleroBackup('a', '2026-03-02T01:00:00Z');
    expect(newestBackup(join(folder, 'backups')).path).toBe(only);
  });
  test.each(['InProgress', 'Failed', 'Deleting', ''])('is not one in the phase "%s"', (phase) => {
    const complete = veleroBackup('old', '2026-03-01T01:00:00Z');
    veleroBackup('new', '2026-03-02T01:00:00Z', phase);
    expect(newestBackup(folder).path).toBe(complete);
  });
  test('is not one whose archive is missing', () => {
    const complete = veleroBackup('old', '2026-03-01T01:00:00Z');
    rmSync(veleroBackup('new', '2026-03-02T01:00:00Z'));
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

describe('an error names the folder or the file', () => {
  test('without a backup', () => {
    expect(() => newestBackup(folder)).toThrow(`${folder}: there is no backup`);
  });
  test('without the folder', () => {
    expect(() => newestBackup(join(folder, 'none'))).toThrow('no such file');
  });
  test('with a broken index', () => {
    veleroBackup('a', '2026-03-02T01:00:00Z');
    const broken = write('backups/b/velero-backup.json', '{');
    write('backups/b/b.tar.gz', '');
    expect(() => newestBackup(folder)).toThrow(`${broken}: `);
  });
});
