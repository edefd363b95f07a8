import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { expect, onTestFinished, test } from 'vitest';

import { ApiError, attributeToOutage, NetworkError } from '../kube/api-error.ts';
import { createLog, createTimestamp } from './log.ts';

const SECRETS = { 'tls.key': 'S3CRET', data: 'S3CRET', stringData: 'S3CRET', token: 'S3CRET' };

/** The log after one line for each of `fields`. */
async function logged(...fields: readonly object[]): Promise<{ text: string; lines: readonly unknown[] }> {
  return await written('info', (log) => {
    for (const one of fields) log.info(one, 'said');
  });
}

/** The log that `write` writes. */
async function written(
  level: string,
  write: (log: Logger) => void,
): Promise<{ text: string; lines: readonly unknown[] }> {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-log-'));
  onTestFinished(() => {
    rmSync(folder, { recursive: true });
  });
  const file = join(folder, 'log');
  const log = createLog(level, 'one', file);
  write(log);
  await new Promise((resolve) => {
    log.flush(resolve);
  });
  const text = readFileSync(file, 'utf8');
  return {
    text,
    lines: text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown),
  };
}

test('a log entry is a line of JSON', async () => {
  const { lines } = await logged({ key: 'shop/a' }, { ms: 1.5, user: undefined });
  expect(lines).toEqual([
    { level: 'info', time: expect.any(String) as string, replica: 'one', key: 'shop/a', msg: 'said' },
    { level: 'info', time: expect.any(String) as string, replica: 'one', ms: 1.5, msg: 'said' },
  ]);
});

test('the data of a Secret is redacted, on the top level and one below', async () => {
  const secret = Object.freeze({ name: 'a', ...SECRETS });
  const { text, lines } = await logged({
    ...SECRETS,
    secret,
    more: { privateKey: 'S3CRET', authorization: 'S3CRET' },
  });
  expect(text).not.toContain('S3CRET');
  expect(lines).toMatchObject([{ token: '[redacted]', secret: { name: 'a', 'tls.key': '[redacted]' } }]);
  expect(secret.token).toBe('S3CRET'); // the object of the caller is unchanged
});

test('the data of an error is redacted', async () => {
  const err = Object.assign(new Error('broken', { cause: new Error('a cable') }), SECRETS);
  const { text, lines } = await logged({ err }, err);
  expect(text).not.toContain('S3CRET');
  expect(lines).toMatchObject([
    { err: { type: 'Error', message: 'broken: a cable', data: '[redacted]' } },
    { err: { type: 'Error', message: 'broken: a cable', data: '[redacted]' } },
  ]);
});

test('lists and primitive values stay unchanged', async () => {
  const { lines } = await logged({ patched: ['/data/a'], none: null, audit: { deferred: 'x' } });
  expect(lines).toMatchObject([{ patched: ['/data/a'], none: null, audit: { deferred: 'x' } }]);
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

test('what fails because of an outage is logged for debugging only, and everything else as before', async () => {
  const cause = failed();
  attributeToOutage(cause);
  const write = (log: Logger) => {
    for (const one of [log, log.child({ controller: 'c' })]) {
      one.warn({ err: cause }, 'warned');
      one.error({ err: new Error('wrapped', { cause }) }, 'failed');
      one.error(cause, 'bare');
      one.info({ err: cause }, 'told');
      one.warn({ err: failed() }, 'of no outage');
      one.warn({ key: 'a' }, 'without an error');
      one.warn('only text');
    }
  };
  const messages = async (level: string) =>
    (await written(level, write)).lines.map((line) => {
      const { level: at, msg } = line as { readonly level: string; readonly msg: string }; // as pino writes them
      return `${at}: ${msg}`;
    });
  const told = ['info: told', 'warn: of no outage', 'warn: without an error', 'warn: only text'];
  expect(await messages('info')).toEqual([...told, ...told]);
  const all = ['debug: warned', 'debug: failed', 'debug: bare', ...told];
  expect(await messages('debug')).toEqual([...all, ...all]);
});

test('an error of a request has no stack, which says only where the client gave up', async () => {
  const refused = new ApiError(LINE, { code: 403, status: { reason: 'Forbidden', message: 'no' } });
  const own = new Error('ours');
  const { lines } = await logged(
    { err: failed() },
    { err: new Error('could not read', { cause: refused }) },
    { err: own },
  );
  expect(lines).toMatchObject([
    { err: { type: 'NetworkError', message: 'GET /api/v1/pods: no complete answer: refused' } },
    { err: { message: 'could not read: GET /api/v1/pods: 403 Forbidden: no' } },
    { err: { stack: own.stack } },
  ]);
  expect(lines.map((line) => 'stack' in (line as { readonly err: object }).err)).toEqual([
    false,
    false,
    true,
  ]);
});
