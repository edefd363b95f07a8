import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { ApiObject } from '../../machinery/api-object.ts';
import { openPersistence } from './persistence.ts';
import { createStorage } from '../../machinery/storage/storage.ts';
import type { Storage } from '../../machinery/storage/stored.ts';

const WIDGETS = { group: 'example.com', resource: 'widgets' };
const SECRETS = { group: '', resource: 'secrets' };

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sandbox-'));
});
afterEach(() => {
  rmSync(folder, { recursive: true });
});

const widget = (name: string, spec: NonNullable<ApiObject['spec']> = {}): ApiObject => ({
  apiVersion: 'example.com/v1',
  kind: 'Widget',
  metadata: { namespace: 'prod', name },
  spec,
});

function open(): { readonly storage: Storage; readonly close: () => void } {
  const persistence = openPersistence(folder);
  const storage = createStorage({ initial: persistence.initial });
  return { storage, ...persistence.attach(storage) };
}

/** Simulates a killed process: nothing more is saved, and the lock stays behind with the pid of a dead process. */
function crash(close: () => void): void {
  const files = ['snapshot.jsonl', 'log.jsonl'].map((name) => join(folder, name));
  const contents = files.map((file) => readFileSync(file));
  close();
  for (const [index, content] of contents.entries()) writeFileSync(files[index] ?? '', content);
  writeFileSync(join(folder, 'lock'), '4194999\n'); // above the highest pid on Linux
}

const versionOf = ({ metadata }: ApiObject) => metadata.resourceVersion ?? '';

describe('written objects', () => {
  test.each([
    [
      'a clean end',
      (close: () => void) => {
        close();
      },
    ],
    ['a crash', crash],
  ])('are restored after %s, and the counter continues', (_how, end) => {
    const first = open();
    const kept = first.storage.create(
      WIDGETS,
      widget('kept', { big: 9_007_199_254_740_993n, ['__proto__']: 'data', constructor: 'data' }),
    );
    const changed = first.storage.create(SECRETS, widget('changed'));
    const gone = first.storage.create(WIDGETS, widget('gone'));
    const last = first.storage.replace(SECRETS, { ...changed, spec: 'new' }, versionOf(changed));
    first.storage.remove(WIDGETS, { namespace: 'prod', name: 'gone' }, versionOf(gone));
    end(first.close);

    const second = open();
    expect(second.storage.list(WIDGETS).items).toEqual([kept]);
    expect(second.storage.list(SECRETS).items).toEqual([last]);
    expect(second.storage.revision()).toBe(6);
    expect(versionOf(second.storage.create(WIDGETS, widget('next')))).toBe('7');
    second.close();
  });

  test('are restored after any sequence of writes, crashes and clean ends', () => {
    const step = fc.oneof(
      { weight: 6, arbitrary: fc.record({ name: fc.constantFrom('a', 'b', 'c'), remove: fc.boolean() }) },
      { weight: 1, arbitrary: fc.constantFrom('crash' as const, 'close' as const) },
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 20 }), (steps) => {
        rmSync(folder, { recursive: true });
        let { storage, close } = open();
        for (const one of steps) {
          if (typeof one === 'string') {
            const before = [storage.revision(), storage.list(WIDGETS).items];
            if (one === 'crash') crash(close);
            else close();
            ({ storage, close } = open());
            expect([storage.revision(), storage.list(WIDGETS).items]).toEqual(before);
          } else {
            const old = storage.get(WIDGETS, { namespace: 'prod', name: one.name });
            if (old === undefined) storage.create(WIDGETS, widget(one.name));
            else if (one.remove)
              storage.remove(WIDGETS, { namespace: 'prod', name: one.name }, versionOf(old));
            else storage.replace(WIDGETS, old, versionOf(old));
          }
        }
        close();
      }),
      { numRuns: 30 },
    );
  });

  test('move from the log to the snapshot when the log is long', () => {
    const { storage, close } = open();
    let object = storage.create(WIDGETS, widget('busy'));
    for (let count = 0; count < 10_000; count += 1)
      object = storage.replace(WIDGETS, object, versionOf(object));
    expect(readFileSync(join(folder, 'log.jsonl'), 'utf8')).toBe('');
    storage.replace(WIDGETS, object, versionOf(object));
    crash(close);
    const again = open();
    expect(again.storage.revision()).toBe(10_003);
    again.close();
  });

  test('can be read by the owner only', () => {
    const { close } = open();
    for (const file of ['snapshot.jsonl', 'log.jsonl', 'lock']) {
      expect(statSync(join(folder, file)).mode & 0o077).toBe(0);
    }
    close();
  });
});

describe('a damaged file', () => {
  const log = () => join(folder, 'log.jsonl');
  const snapshot = () => join(folder, 'snapshot.jsonl');

  /** Prepares a folder with a snapshot of one object and a log of two writes. */
  function prepare(): void {
    const first = open();
    first.storage.create(WIDGETS, widget('a'));
    first.close();
    const second = open();
    second.storage.create(WIDGETS, widget('b'));
    second.storage.create(WIDGETS, widget('c'));
    crash(second.close);
  }

  test('a torn last line of the log is dropped, because no client was told that the write succeeded', () => {
    prepare();
    appendFileSync(log(), '{"revision":5,"ty');
    const { storage, close } = open();
    expect(storage.revision()).toBe(4);
    expect(storage.count(WIDGETS)).toBe(3);
    storage.create(WIDGETS, widget('d'));
    crash(close);
    const again = open();
    expect(again.storage.count(WIDGETS)).toBe(4);
    again.close();
  });

  test('writes in both the snapshot and the log count once', () => {
    const first = open();
    first.storage.create(WIDGETS, widget('a'));
    const entries = readFileSync(log());
    first.close();
    writeFileSync(log(), entries);
    const second = open();
    expect([second.storage.revision(), second.storage.count(WIDGETS)]).toEqual([2, 1]);
    second.close();
  });

  const edit = (file: string, change: (lines: string[]) => string[]) => {
    writeFileSync(file, change(readFileSync(file, 'utf8').split('\n')).join('\n'));
  };

  test.each([
    [
      'garbage in the log',
      () => {
        edit(log(), ([, ...rest]) => ['oops', ...rest]);
      },
      /log\.jsonl:1 cannot be read: it is not JSON\. Restore/,
    ],
    [
      'a missing line in the log',
      () => {
        edit(log(), ([, ...rest]) => rest);
      },
      /log\.jsonl:1 cannot be read: revision 4 follows 2/,
    ],
    [
      'an event with an unknown type',
      () => {
        edit(log(), (lines) => lines.map((line) => line.replace('ADDED', 'EATEN')));
      },
      /log\.jsonl:1 .* type is unknown/,
    ],
    [
      'an invalid object',
      () => {
        edit(log(), (lines) => lines.map((line) => line.replace('"kind"', '"kin"')));
      },
      /log\.jsonl:1 .* an object has apiVersion/,
    ],
    [
      'a torn snapshot',
      () => {
        edit(snapshot(), (lines) => lines.slice(0, 2));
      },
      /snapshot\.jsonl:2 .* torn/,
    ],
    [
      'a snapshot with missing objects',
      () => {
        edit(snapshot(), ([head = '']) => [head, '']);
      },
      /snapshot\.jsonl:1 .* the number of objects is 0/,
    ],
    [
      'an empty snapshot',
      () => {
        writeFileSync(snapshot(), '');
      },
      /snapshot\.jsonl:1 .* empty/,
    ],
    [
      'a missing snapshot',
      () => {
        rmSync(snapshot());
      },
      /snapshot\.jsonl:1 .* missing/,
    ],
    [
      'a file of something else',
      () => {
        edit(snapshot(), ([, ...rest]) => ['{}', ...rest]);
      },
      /snapshot\.jsonl:1 .* gatehouse-sandbox/,
    ],
  ])('%s is an error that names the place and releases the folder', (_what, spoil, message) => {
    prepare();
    spoil();
    expect(() => openPersistence(folder)).toThrow(message);
    expect(existsSync(join(folder, 'lock'))).toBe(false);
  });

  test('a temporary disk failure loses nothing: the next write saves everything', () => {
    const errors: unknown[] = [];
    const persistence = openPersistence(folder);
    const storage = createStorage({
      initial: persistence.initial,
      onWatcherError: (error) => errors.push(error),
    });
    const { close } = persistence.attach(storage);
    // A value that cannot be serialised simulates a failing disk.
    const broken = Object.assign(widget('x'), {
      spec: {
        toJSON: () => {
          throw new Error('disk is full');
        },
      } as never,
    });
    const written = storage.create(WIDGETS, broken);
    expect(errors.map(String)).toEqual(['Error: disk is full']);
    storage.replace(WIDGETS, widget('x'), versionOf(written));
    storage.create(WIDGETS, widget('y'));
    crash(close);
    const again = open();
    expect([again.storage.revision(), again.storage.count(WIDGETS)]).toEqual([4, 2]);
    again.close();
  });
});

describe('the lock', () => {
  test('rejects a second sandbox and names the process', () => {
    const { close } = open();
    expect(() => openPersistence(folder)).toThrow(
      new RegExp(`is in use by process ${process.pid}: stop that`),
    );
    close();
    open().close();
  });

  test('holds while another process runs', () => {
    writeFileSync(join(folder, 'lock'), `${process.ppid}\n`);
    expect(() => openPersistence(folder)).toThrow(`is in use by process ${process.ppid}`);
  });

  test.each([
    ['of a dead process', '4194999\n'],
    ['with our own pid, as after a restart of a container', `${process.pid}\n`],
    ['that holds no pid', ''],
  ])('a lock %s is taken over', (_what, content) => {
    writeFileSync(join(folder, 'lock'), content);
    const { close } = open();
    expect(readFileSync(join(folder, 'lock'), 'utf8')).toBe(`${process.pid}\n`);
    close();
    expect(existsSync(join(folder, 'lock'))).toBe(false);
  });
});
