import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';

import { ApiError, NetworkError } from '../kube/api-error.ts';
import { createLog, createTimestamp } from './log.ts';

const SECRETS = { 'tls.key': 'S3CRET', data: 'S3CRET', stringData: 'S3CRET', token: 'S3CRET' };

function newFile(): string {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-log-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return join(folder, 'log');
}

/** The log after one line for each of `fields`. */
async function logged(...fields: readonly object[]): Promise<{ text: string; lines: readonly unknown[] }> {
  const file = newFile();
  const log = createLog('info', 'one', file);
  for (const one of fields) log.info(one, 'said');
  await new Promise((resolve) => log.flush(resolve));
  const text = readFileSync(file, 'utf8');
  const lines = text.trimEnd().split('\n');
  return { text, lines: lines.map((line) => JSON.parse(line) as unknown) };
}

test('the data of a Secret is redacted, on the top level and one below', async () => {
  const secret = Object.freeze({ name: 'a', ...SECRETS });
  const err = Object.assign(new Error('broken', { cause: new Error('a cable') }), SECRETS);
  const { text, lines } = await logged(err, {
    ...SECRETS,
    err,
    secret,
    more: { privateKey: 'S3CRET', authorization: 'S3CRET' },
    patched: ['/data/a'],
    none: null,
  });
  expect(text).not.toContain('S3CRET');
  const fields = { level: 'info', replica: 'one', msg: 'said', patched: ['/data/a'], none: null };
  const shown = { token: '[redacted]', secret: { name: 'a', 'tls.key': '[redacted]' } };
  const error = { type: 'Error', message: 'broken: a cable', data: '[redacted]' };
  expect(lines).toMatchObject([{ err: error }, { err: error, ...fields, ...shown }]);
  expect(secret.token).toBe('S3CRET'); // the object of the caller is unchanged
});

test('an error that is frozen, or has a getter that throws, is logged with its stack', async () => {
  const broken = Object.defineProperty(new Error('broken'), 'body', {
    enumerable: true,
    get: () => {
      throw new Error('already read');
    },
  });
  const frozen = Object.freeze(new TypeError('frozen'));
  const { lines } = await logged({ err: broken }, { err: frozen });
  const stack = expect.stringContaining('log.test.ts') as string;
  expect(lines).toMatchObject([
    { err: { type: 'Error', message: 'broken', stack } },
    { err: { type: 'TypeError', message: 'frozen', stack } },
  ]);
});

test.each([0, 1, 999, 1_000, Date.UTC(2026, 10, 21, 23, 59, 59, 7), Date.UTC(2026, 10, 22)])(
  'the time %d is formatted as JavaScript does',
  (time) => {
    let now = time;
    const timestamp = createTimestamp(() => now);
    for (const later of [0, 5, 999, 1_000]) {
      now = time + later;
      expect(timestamp()).toBe(`,"time":"${new Date(now).toISOString()}"`);
    }
  },
);

test('user input cannot break a line or control a terminal, and a JSON parser restores it', async () => {
  const hostile = 'a\n"}\r\u001b[2J\u0085\u009b31m\u2028\u2029\u202e\u007f\u{1f600}';
  const { text, lines } = await logged(
    { user: hostile, [hostile]: 1, all: [hostile] },
    { err: new Error(hostile) },
    { ascii: 'only \u007f' },
  );
  expect(text.match(/\n/g)).toHaveLength(3);
  expect(text.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u);
  expect(lines).toMatchObject([
    { user: hostile, [hostile]: 1, all: [hostile] },
    { err: { message: hostile } },
    { ascii: 'only \u007f' },
  ]);
});

const LINE = { method: 'GET', path: '/api/v1/pods' };
const failed = () => new NetworkError(LINE, 'connection', 'no complete answer', new Error('refused'));

test('an error of a request is logged without its stack, which shows only where the client gave up', async () => {
  const refused = new ApiError(LINE, { code: 403, status: { reason: 'Forbidden', message: 'no' } });
  const own = new Error('ours');
  const failures = [failed(), new Error('could not read', { cause: refused }), own];
  const { lines } = await logged(...failures.map((err) => ({ err })));
  expect(lines).toMatchObject([{ err: { type: 'NetworkError' } }, {}, { err: { stack: own.stack } }]);
  const hasStack = lines.map((line) => 'stack' in (line as { readonly err: object }).err);
  expect(hasStack).toEqual([false, false, true]);
});

test('a slow disk or pipe does not hold up the requests: even a full buffer is written in the background', async () => {
  const file = newFile();
  writeFileSync(file, '');
  const log = createLog('info', 'one', file);
  log.info({ all: 'a'.repeat(40_000) }, 'said');
  expect(readFileSync(file, 'utf8')).toBe('');
  await expect.poll(() => readFileSync(file, 'utf8')).toContain('said');
});
