/** Requests whose answers were recorded from a kube-apiserver, sent to a sandbox. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';

import { createSandboxTls } from '../../src/cli/sandbox/api.ts';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import type { AuditEvent } from '../../src/sandbox/http/handler.ts';
import { createTransport, type RawAnswer, type Transport } from './transport.ts';

export interface RecordedRequest {
  readonly method: string;
  readonly path: string;
  readonly contentType?: string;
  readonly body?: unknown;
}

export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
}

export interface RecordedUser {
  readonly username: string;
  readonly uid?: string;
  readonly groups?: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

export type Setup = readonly (Manifest | { readonly request: RecordedRequest })[];

export const readRecorded = (file: string): readonly unknown[] =>
  readFileSync(join(import.meta.dirname, '..', 'data', file), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as unknown);

export type Send = (request: RecordedRequest, user?: RecordedUser) => Promise<RawAnswer>;

const TOKEN = 'admin';
export const ADMIN = { username: 'admin', uid: 'admin', groups: ['system:masters', 'system:authenticated'] };

let tls: ReturnType<typeof createSandboxTls> | undefined;

export async function startRecorded() {
  tls ??= createSandboxTls(new Date());
  const events: AuditEvent[] = [];
  const sandbox = await startSandbox({
    tls: await tls,
    users: new Map([[TOKEN, ADMIN]]),
    audit: (event) => void events.push(event),
    onError: (error) => process.emitWarning(String(error)),
  });
  const transport = createTransport(`https://localhost:${sandbox.port}`, (await tls).ca);
  onTestFinished(async () => {
    await transport.stop();
    await sandbox.stop();
  });
  return { send: senderTo(transport, TOKEN), events };
}

/** @param token of a user that may impersonate all others */
export function senderTo({ call }: Transport, token: string): Send {
  return ({ method, path, contentType = 'application/json', body }, user) =>
    call({
      method,
      path,
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': contentType,
        'user-agent': 'recorder',
        ...(user === undefined ? {} : impersonation(user)),
      },
      body: typeof body === 'string' || body === undefined ? body : JSON.stringify(body),
    });
}

/** Headers with several values repeat. */
const impersonation = ({ username, uid, groups, extra = {} }: RecordedUser): Record<string, string> =>
  Object.fromEntries(
    Object.entries({
      'impersonate-user': username,
      'impersonate-uid': uid,
      'impersonate-group': groups,
      ...Object.fromEntries(
        Object.entries(extra).map(([key, values]) => [`impersonate-extra-${key}`, values]),
      ),
    }).filter(([, value]) => value !== undefined),
  ) as Record<string, string>;

/** Bindings last: a real API server enforces one about a second after it is created. */
export async function setUp(send: Send, setup: Setup): Promise<void> {
  for (const one of [...setup.filter((each) => !isBinding(each)), ...setup.filter(isBinding)])
    await ('request' in one ? send(one.request) : create(send, one));
}

export const isBinding = (one: Setup[number]): one is Manifest =>
  'kind' in one && one.kind.endsWith('PolicyBinding');

interface ResourceList {
  readonly resources: readonly {
    readonly kind: string;
    readonly name: string;
    readonly namespaced: boolean;
  }[];
}

async function create(send: Send, manifest: Manifest): Promise<void> {
  const { apiVersion, kind, metadata } = manifest;
  const root = apiVersion === 'v1' ? '/api/v1' : `/apis/${apiVersion}`;
  const { resources } = JSON.parse((await send({ method: 'GET', path: root })).text) as ResourceList;
  const found = resources.find((one) => one.kind === kind && !one.name.includes('/'));
  const place = found?.namespaced === true ? `/namespaces/${metadata.namespace ?? 'default'}` : '';
  const path = `${root}${place}/${found?.name}`;
  const { status, text } = await send({ method: 'POST', path, body: manifest });
  if (status >= 300 && status !== 409) throw new Error(text);
}
